"""Which route for which question: the sets, the rules of decision, and what is read within a budget."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from benchmarks import routes
from benchmarks.support import route_questions
from benchmarks.support.chunking_tables import plain
from benchmarks.support.route_figures import DEFAULT, RIVAL, Answered, difference
from benchmarks.support.route_questions import LIBRARY_FACTS, Page, tatqa, tatqa_questions
from benchmarks.support.route_report import overview, route_tables
from pipelines.evaluation.golden import golden_questions
from pipelines.ports import Passage
from pipelines.query.results import Hit
from tests.support.places import WITHOUT_DATA
from tests.support.query_fakes import passage


def answers(pairs: Sequence[tuple[float, float]], dataset: str = "set") -> list[Answered]:
    """Questions with recall@5 of (default, rival)."""
    return [
        Answered(dataset, f"{dataset}-{number}",
                 {route: {"recall@5": score} for route, score in zip((DEFAULT, RIVAL), pair, strict=True)})
        for number, pair in enumerate(pairs)
    ]  # fmt: skip


def mixed(better: int, worse: int, same: int) -> list[tuple[float, float]]:
    return [(0.0, 1.0)] * better + [(1.0, 0.0)] * worse + [(1.0, 1.0)] * same


def test_a_difference_is_paired_and_its_interval_too() -> None:
    found = difference(answers(mixed(30, 0, 0)), "recall@5")
    assert found is not None
    assert (found.mean, found.low, found.high, found.n) == (1, 1, 1, 30)
    found = difference(answers(mixed(30, 10, 60)), "recall@5")
    assert found is not None
    assert found.mean == pytest.approx(0.2)
    assert found.low < 0.2 < found.high


def hit(rank: int, text: str) -> Hit:
    found: Passage = passage(f"c{rank}", text=text, overlap="")
    return Hit(rank, 1.0, {}, found)


def test_hits_are_read_in_order_up_to_the_first_that_does_not_fit() -> None:
    hits = [hit(1, "a b c"), hit(2, "a b c d e f"), hit(3, "a")]
    assert [[one.rank for one in routes.within(hits, tokens)] for tokens in (1, 3, 8, 9, 10, 500)] == [
        [1], [1], [1], [1, 2], [1, 2, 3], [1, 2, 3]
    ]  # fmt: skip
    assert routes.within([], 10) == []


def entry() -> dict[str, Any]:
    def asked(uid: str, answer: list[str], where: str, kind: str = "span") -> dict[str, Any]:
        return {"uid": uid, "question": f"{uid}?", "answer": answer, "answer_type": kind, "answer_from": where}

    return {
        "table": {"uid": "t", "table": [["", "2019", "2018"], ["A & B", " 7 ", "8"], ["C", "9", "8"]]},
        "paragraphs": [{"text": " Sales & more\nof <7>. "}, {"text": "Sales of wood."}],
        "questions": [
            asked("cell", ["7"], "table"),
            asked("two cells", ["7", "9"], "table-text", "multi-span"),
            asked("ambiguous", ["8"], "table"),
            asked("year", ["2019"], "table"),
            asked("calculated", ["2"], "table", "arithmetic"),
            asked("words", ["more\nof <7>"], "text"),
            asked("words twice", ["Sales"], "text"),
            asked("words nowhere", ["stone"], "text"),
        ],
    }


def test_gold_of_a_table_is_where_its_cells_and_words_stand_in_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tatqa_questions([entry()])
    source = Page(entry()).html
    quoted = {
        line["question"]: [unescape(source[gold["start"] : gold["end"]]) for gold in line["gold"]] for line in made
    }
    assert quoted == {"cell?": ["7"], "two cells?": ["7", "9"], "words?": ["more\nof <7>"]}
    monkeypatch.setattr(route_questions, "CELLS", 1)
    monkeypatch.setattr(route_questions, "TEXTS", 0)
    assert len(tatqa_questions([entry()])) == 1


@pytest.mark.skipif(not route_questions.TATQA.is_file(), reason=WITHOUT_DATA)
def test_every_question_about_a_table_is_a_golden_question_with_its_answer(tmp_path: Path) -> None:
    dataset = tatqa(tmp_path)
    lines = [json.loads(line) for line in dataset.write_golden(tmp_path / "golden").read_text("utf-8").splitlines()]
    assert len(golden_questions(enumerate(lines, start=1))) == 400
    for line in lines:
        sources = [(tmp_path / "documents" / gold["uri"]).read_text("utf-8") for gold in line["gold"]]
        found = [unescape(text[gold["start"] : gold["end"]]) for text, gold in zip(sources, line["gold"], strict=True)]
        assert plain("; ".join(found)) == plain(line["answer"])


def test_facts_of_the_library_are_judged_by_their_text(tmp_path: Path) -> None:
    lines = LIBRARY_FACTS.write_golden(tmp_path / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    made = golden_questions(enumerate(map(json.loads, lines), start=1))
    assert len(made) >= 60
    assert all(gold.quote and gold.page is None for question in made for gold in question.gold)


def test_tables_hold_every_set() -> None:
    metrics = dict.fromkeys(
        ("recall@1", "recall@3", "recall@5", "mrr", "precision@3", "read 200", "read 500", "read 1000"), 0.5
    )
    spans = {"span_recall": None, "span_precision": None, "span_iou": None, "tokens": 9.0}
    scores = {route: {**metrics, **spans} for route in routes.ROUTES}
    given = [Answered("a", "1", scores), Answered("b", "2", scores, counts=False)]
    first, gains, by_text = route_tables(given)
    assert [line.split("|")[1].strip() for line in gains[2:]] == ["a", "(b)", "all"]
    assert len(first) == 2 + 3 * 3 and len(by_text) == 2
    assert "50.0 / 50.0 | +0.0 (+0.0 to +0.0)" in overview(given)[2]
