"""Rerankers that need no model, what all of them keep to, and the examples of docs/reference/reranking.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import get_args

import pytest

from pipelines.ports import Reply
from pipelines.query.rerankers import LONGEST_CROSS_ENCODED_PASSAGE as LONGEST_PASSAGE
from pipelines.query.rerankers import RERANKERS, answer_score, document_score, evidence, full_text, rerank_candidates
from pipelines.query.results import Scored
from pipelines.query.retrieve import FUSED_DEPTH, MEASURED_DEPTH
from pipelines.query.routes import MEASURES
from pipelines.settings.query import FusionName, FusionWeights, StrategyName
from tests.support.places import ROOT
from tests.support.query_fakes import scored
from tests.support.tool_fakes import FakeModel, context

DOCS = ROOT / "docs" / "reference" / "reranking.md"
RETRIEVAL = DOCS.with_name("retrieval.md")


class ByLength:
    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        return [1 / len(text) for text in passages]


# ---------------------------------------------------------------- what all keep to


@pytest.mark.parametrize("name", [name for name in RERANKERS if name != "none"])
def test_every_reranker_keeps_all_candidates_and_their_scores_and_adds_its_own(name: str) -> None:
    candidates = [scored(letter, 1 / at, doc_id=letter) for at, letter in enumerate("abcdefg", 1)]
    asked = FakeModel(by=lambda prompt: Reply("[7] > [2]", logprobs=(("Yes", -0.5), ("No", -1.0))))
    ranked = rerank_candidates(candidates, [name], context(asked, cross_encoder=ByLength))
    assert sorted(item.passage.chunk_id for item in ranked) == list("abcdefg")
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)
    for item in ranked:
        assert item.score == item.scores[name]
        assert item.scores["dense"] == next(known.score for known in candidates if known.passage == item.passage)
        assert all(0.0 <= value <= 1.0 for value in item.scores.values())


def test_none_changes_nothing() -> None:
    candidates = [scored("a", 0.1), scored("b", 0.9)]
    assert rerank_candidates(candidates, ["none"], context()) == candidates


def test_equal_scores_stay_in_the_incoming_order() -> None:
    candidates = [scored(letter, 0.5, text="same") for letter in "cab"]
    ranked = rerank_candidates(candidates, ["cross-encoder"], context(cross_encoder=ByLength))
    assert [item.passage.chunk_id for item in ranked] == ["c", "a", "b"]


def test_a_model_reads_a_passage_under_its_headings_each_once() -> None:
    item = scored("a", 1.0, title="Handbook", header_chain=("Handbook", "Leave"), text="28 days", overlap="before")
    assert full_text(item.passage) == "Handbook › Leave\n28 days"
    assert full_text(scored("a", 1.0, title="", header_chain=(), text="28 days").passage) == "28 days"


# ---------------------------------------------------------------- evidence


def test_a_document_has_the_mean_of_its_three_best_places() -> None:
    assert document_score([0.9, 0.3, 0.6, 0.1]) == pytest.approx(0.6)
    assert document_score([0.9]) == pytest.approx(0.3)


def test_three_good_passages_of_a_document_beat_a_single_better_one() -> None:
    candidates = [scored("alone", 1.0, doc_id="x")]
    candidates += [scored(f"of {at}", 0.9 - at / 100, doc_id="y") for at in range(3)] + [
        scored("last", 0.0, doc_id="z")
    ]
    ranked = evidence(candidates, context(evidence_weight=0.5))
    assert [item.passage.chunk_id for item in ranked] == ["of 0", "of 1", "of 2", "alone", "last"]
    assert evidence(candidates, context(evidence_weight=0.0))[0].passage.chunk_id == "alone"


# ---------------------------------------------------------------- the documentation


def rows(heading: str) -> dict[str, list[str]]:
    """The last table under a heading of the page: its first column, and the others."""
    section = DOCS.read_text(encoding="utf-8").split(f"{heading}\n", 1)[1].split("\n#", 1)[0]
    table = section.strip().split("\n\n")
    lines = next(part for part in reversed(table) if part.startswith("|")).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first.partition(",")[0]: rest for first, *rest in cells}


def numbers(cells: Sequence[str]) -> list[float]:
    """The number that each cell ends with, before anything in brackets."""
    return [float(re.findall(r"\d+(?:\.\d+)?", cell.partition("(")[0] or cell)[-1]) for cell in cells]


def results(cell: str) -> float:
    return float(cell.split("**")[1])


def travel() -> list[Scored]:
    headed = {"family": "travel", "doc_id": "travel"}
    return [
        scored(
            "old", 0.80, effective_date="2024-01-01", header_chain=("Travel policy", "Meals"), next_id="z", **headed
        ),
        scored(
            "new",
            0.76,
            effective_date="2026-01-01",
            header_chain=("Travel policy", "Policy rules"),
            next_id="after",
            **headed,
        ),
        scored("after", 0.60, header_chain=("Notes",), previous_id="new", next_id="y", doc_id="notes"),
    ]


def test_the_example_of_weighted() -> None:
    ranked = RERANKERS["weighted"](travel(), context(newest="2026-01-01"))
    told = rows("### Example of weighted")
    assert [item.passage.chunk_id for item in ranked] == list(told)
    for item in ranked:
        *factors, result = told[item.passage.chunk_id]
        assert item.score == pytest.approx(results(result))
        for name, cell in zip(("similarity", "recency", "hierarchy", "adjacency"), factors, strict=True):
            known = item.scores.get(f"weighted.{name}")
            assert cell == "left out" if known is None else known == pytest.approx(numbers([cell])[0]), (item, name)


def test_the_example_of_evidence() -> None:
    scores = {"a1": (1.0, "a"), "b1": (0.95, "b"), "b2": (0.8, "b"), "b3": (0.7, "b"), "c1": (0.5, "c")}
    ranked = evidence([scored(name, score, doc_id=doc) for name, (score, doc) in scores.items()], context())
    told = rows("### Example of evidence")
    assert [item.passage.chunk_id for item in ranked] == list(told)
    for item in ranked:
        similarity, document, result = told[item.passage.chunk_id]
        assert item.scores["evidence.similarity"] == pytest.approx(numbers([similarity])[0])
        assert item.scores["evidence.document"] == pytest.approx(numbers([document])[0], abs=0.0005)
        assert item.score == pytest.approx(results(result), abs=0.0005)


def test_the_example_of_logprob() -> None:
    told = rows("### Example of logprob")
    assert len(told) == 4
    for alternatives, (result,) in told.items():
        pairs = re.findall(r"`([^`]+)` (-?\d+(?:\.\d+)?)", alternatives)
        assert answer_score([(token, float(value)) for token, value in pairs]) == pytest.approx(
            results(result), abs=0.0005
        )


def test_the_page_names_every_reranker_setting_and_default() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert all(f"## {name}\n" in page for name in RERANKERS if name != "none")
    settings = context().settings
    for part in ("weighted", "cross_encoder"):
        for name, value in getattr(settings, part).model_dump().items():
            assert f"`{name}`" in page and (value is None or f"{value}" in page), name
    assert f"`query.evidence_weight` ({settings.evidence_weight})" in page


def test_the_page_of_retrieval_names_every_strategy_and_fusion() -> None:
    page = RETRIEVAL.read_text(encoding="utf-8")
    names = get_args(StrategyName)
    assert re.findall(r"^\| `([\w+-]+)` \|", page, re.MULTILINE)[: len(names)] == list(names)
    assert f"asked for {FUSED_DEPTH} times the candidates" in page
    assert f"the first {MEASURED_DEPTH} times as many" in page
    assert all(f"`{name}`" in page for name in MEASURES)
    assert all(name in page for name in get_args(FusionName))
    for name, value in FusionWeights().model_dump().items():
        assert f"| `{name}` | {value} |" in page


@pytest.mark.defends("1c")
def test_a_cross_encoder_is_given_so_much_of_a_passage() -> None:
    given: list[str] = []

    def scores(question: str, passages: list[str]) -> list[float]:
        given.extend(passages)
        return [0.5 for _ in passages]

    long = scored("a", 1.0, text="[" * 20_000_000)
    rerank_candidates([long], ["cross-encoder"], context(cross_encoder=lambda: SimpleNamespace(scores=scores)))
    assert [len(text) for text in given] == [LONGEST_PASSAGE]
