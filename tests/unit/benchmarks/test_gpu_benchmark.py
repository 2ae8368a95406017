"""The benchmark of graphics cards, on the processor with a tiny model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.gpu import bare_batches, main, operations, passages, table


def test_a_tiny_model_is_measured_and_gives_the_vectors_of_the_processor(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = main(["--tiny", "--passages", "6", "--models", "large"])
    assert row.passages == 6 and row.tokens > 20 and row.cosine > 0.999
    assert min(row.product, row.encode, row.bare, row.tokens_a_second, row.limit, row.bare_limit) > 0
    assert table([row]) in capsys.readouterr().out


def test_operations_are_two_a_weight_and_token_and_those_of_attention() -> None:
    import torch

    network = torch.nn.Module()
    network.embeddings, network.layer = torch.nn.Embedding(100, 8), torch.nn.Linear(8, 8, bias=False)
    network.config = SimpleNamespace(num_hidden_layers=1, hidden_size=8)  # type: ignore[assignment]
    assert operations([SimpleNamespace(auto_model=network)], [10, 5]) == 2 * 64 * 15 + 4 * 8 * (100 + 25)


def test_bare_batches_hold_every_passage_once_within_their_bound() -> None:
    encoded = [[1] * length for length in (3, 30, 7, 12, 9)]
    made = list(bare_batches(encoded, 40, pad=0))
    assert sorted(int(count) for _, mask in made for count in mask.sum(1)) == [3, 7, 9, 12, 30]
    assert all(ids.shape == mask.shape and (ids.shape[0] == 1 or ids.numel() <= 48) for ids, mask in made)


def test_passages_are_the_same_each_time() -> None:
    assert passages(5) == passages(5) and len(set(passages(5))) == 5
