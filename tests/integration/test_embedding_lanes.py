"""Batches side by side: as many at once as there are threads, in order, and threads as they were afterwards."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.settings.models import EmbedderSettings
from resources.models.embedders import transformer
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import resolve
from resources.models.embedders.transformer import in_lanes, in_one_lane
from tests.support.tiny_model import make_model
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.integration


def test_two_batches_are_worked_on_at_once_by_a_thread_each_and_come_in_order() -> None:
    threads, meeting = torch.get_num_threads(), threading.Barrier(2, timeout=HANG_SECONDS)

    def work(number: int) -> tuple[int, int, str]:
        meeting.wait()
        return number, torch.get_num_threads(), threading.current_thread().name

    made = list(in_lanes(work, range(4), 2))
    assert [number for number, *_ in made] == [0, 1, 2, 3]
    assert {each for _, each, _ in made} == {1} and len({name for *_, name in made}) == 2
    assert torch.get_num_threads() == threads
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert seen == [threads]


def test_one_batch_has_all_threads() -> None:
    assert list(in_lanes(lambda _: (threading.current_thread(), torch.get_num_threads()), [1], 4)) == [
        (threading.current_thread(), torch.get_num_threads())
    ]
    assert in_one_lane(torch.get_num_threads) == 1


def test_a_failure_in_a_lane_ends_the_pass_and_starts_no_more_work() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 0:
            raise ValueError("a bad batch")
        return number

    with pytest.raises(ValueError, match="a bad batch"):
        list(in_lanes(work, range(1000), 2))
    assert len(begun) < 1000


def test_vectors_are_those_of_one_batch_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EmbedderSettings(model=str(make_model(tmp_path / "tiny")), dtype="float32", batch_tokens=512)
    made = make_embedder(resolve(settings, "english-small"), settings)
    texts = [" ".join(["ab cd", "ef gh ij"][number % 2] for _ in range(1 + number % 40)) for number in range(160)]
    spans = [[(0, 5), (3, 8)] if number % 3 else [] for number in range(160)]
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(transformer, "lanes_of", lambda device: 3)
    whole, parts = made.with_spans(texts, spans, lambda done, of: seen.append((done, of)))
    assert seen[-1][0] == seen[-1][1] >= 160 and seen == sorted(seen) and len(seen) > 3
    monkeypatch.setattr(transformer, "lanes_of", lambda device: 1)
    alone, alone_parts = made.with_spans(texts, spans)
    assert np.allclose(whole, alone, atol=1e-6) and np.allclose(parts, alone_parts, atol=1e-6)
