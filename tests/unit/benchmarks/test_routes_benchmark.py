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
from benchmarks.support.route_figures import DEFAULT, LEAST, MARGINS, RIVAL, Answered, decision, decisions, difference
from benchmarks.support.route_questions import LIBRARY_FACTS, Page, tatqa, tatqa_questions
from benchmarks.support.route_report import LABELS, accuracy, decision_table, overview, route_tables
from pipelines.evaluation.golden import golden_questions
from pipelines.ports import Passage
from pipelines.query.classes import AUTO, CLASSES
from pipelines.query.results import Hit
from tests.support.query_fakes import passage


def answers(kind: str, pairs: Sequence[tuple[float, float]], dataset: str = "set", **values: Any) -> list[Answered]:
    """Questions with recall@5 of (default, rival)."""
    return [
        Answered(dataset, f"{dataset}-{number}", "Who?", kind,
                 {route: {"recall@5": score} for route, score in zip((DEFAULT, RIVAL), pair, strict=True)}, **values)
        for number, pair in enumerate(pairs)
    ]  # fmt: skip


def mixed(better: int, worse: int, same: int) -> list[tuple[float, float]]:
    return [(0.0, 1.0)] * better + [(1.0, 0.0)] * worse + [(1.0, 1.0)] * same


@pytest.mark.parametrize(
    ("kind", "pairs", "strategy"),
    [
        ("fact", mixed(3, 0, 97), RIVAL),
        ("fact", mixed(4, 1, 95), RIVAL),
        ("fact", mixed(2, 0, 98), DEFAULT),
        ("fact", mixed(0, 0, 100), DEFAULT),
        ("table", mixed(4, 0, 96), DEFAULT),
        ("table", mixed(5, 0, 95), RIVAL),
        ("broad", [], DEFAULT),
    ],
)
def test_a_class_goes_where_it_wins_by_its_margin(kind: str, pairs: list[tuple[float, float]], strategy: str) -> None:
    assert decision(answers(kind, pairs), MARGINS[kind]).strategy == strategy


def test_a_set_that_is_large_enough_forbids_what_the_others_allow() -> None:
    winning = answers("fact", mixed(50, 0, 50))
    losing = answers("fact", mixed(0, 1, LEAST - 1), "other")
    made = decision(winning + losing, MARGINS["fact"])
    assert (made.strategy, made.why) == (DEFAULT, "loses on other")
    assert decision(winning + losing[:-1], MARGINS["fact"]).strategy == RIVAL


def test_what_does_not_decide_is_left_out() -> None:
    winning = answers("fact", mixed(50, 0, 50), "other", decides=False)
    losing = answers("fact", mixed(0, 5, 20))
    assert decision(winning + losing, 0.03).strategy == DEFAULT
    assert decision(losing + winning, 0.03).difference == difference(losing)


def test_every_class_is_decided_by_its_own_questions() -> None:
    made = decisions(answers("fact", mixed(9, 0, 1)) + answers("broad", mixed(0, 9, 1)))
    assert {kind: one.strategy for kind, one in made.items()} == {
        kind: RIVAL if kind == "fact" else DEFAULT for kind in CLASSES
    }
    assert [line.split("|")[1].strip() for line in decision_table(made)[2:]] == list(CLASSES)


def test_a_difference_is_paired_and_its_interval_too() -> None:
    found = difference(answers("fact", mixed(30, 0, 0)))
    assert found is not None
    assert (found.mean, found.low, found.high, found.n) == (1, 1, 1, 30)
    found = difference(answers("fact", mixed(30, 10, 60)))
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


@pytest.mark.skipif(not route_questions.TATQA.is_file(), reason=f"{route_questions.TATQA} is not here")
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


def test_labels_are_classes_and_are_set_against_the_rules() -> None:
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    assert sum(map(len, labels.values())) >= 150
    assert {kind for own in labels.values() for kind in own.values()} <= set(CLASSES)
    first = next(key for key, kind in next(iter(labels.values())).items() if kind == "fact")
    asked = [Answered("set", first, "Who signs?", "fact", {})]
    assert [cell.strip() for cell in accuracy(asked)[2].split("|")[2:4]] == ["1", "100.0"]
    asked = [Answered("set", first, "How does it work?", "broad", {})]
    assert [cell.strip() for cell in accuracy(asked)[2].split("|")[2:4]] == ["1", "0.0"]


def test_tables_hold_every_class_and_set() -> None:
    metrics = dict.fromkeys(
        ("recall@1", "recall@3", "recall@5", "mrr", "precision@3", "read 200", "read 500", "read 1000"), 0.5
    )
    spans = {"span_recall": None, "span_precision": None, "span_iou": None, "tokens": 9.0}
    scores = {route: {**metrics, **spans} for route in routes.ROUTES}
    given = [Answered("a", "1", "Who?", "fact", scores), Answered("b", "2", "Who?", "fact", scores, decides=False)]
    first, gains, by_text = route_tables(given)
    assert [line.split("|")[2].strip() for line in gains[2:]] == ["a", "(b)", "all"]
    assert len(first) == 2 + 3 * 3 and len(by_text) == 2
    assert "50.0 / 50.0 | +0.0 (+0.0 to +0.0)" in overview(given)[2]


def test_another_map_than_the_figures_give_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def asked(case: routes.Case, file: Path) -> list[Answered]:
        scores = {route: dict.fromkeys(("recall@5",), float(route in better)) for route in routes.ROUTES}
        return [Answered(case.name, "1", "Who?", kind, scores) for kind in CLASSES]

    monkeypatch.setattr(routes, "indexed", lambda case, place, form: place)
    monkeypatch.setattr(routes, "answered", asked)
    monkeypatch.setattr(
        routes, "cases", lambda place: [routes.Case(name, LIBRARY_FACTS, name) for name in routes.NAMES]
    )
    monkeypatch.setattr(routes, "route_tables", lambda answers: [])
    monkeypatch.setattr(routes, "overview", lambda answers: [])
    for better in ((RIVAL,), (DEFAULT,)):
        given = dict.fromkeys(CLASSES, better[0])
        monkeypatch.setattr(routes, "AUTO", given)
        assert routes.report(tmp_path, routes.NAMES, None) == 0
        monkeypatch.setattr(routes, "AUTO", {**given, "broad": "lexical"})
        assert routes.report(tmp_path, routes.NAMES, None) == 1
        assert routes.report(tmp_path, routes.NAMES[:2], None) == 0
    assert set(AUTO) == set(CLASSES)
