"""What benchmarks/support/datasets.py makes of the sets: their own rules of a hit, in the project's format."""

from __future__ import annotations

import csv
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.datasets import (
    DATASETS,
    Dataset,
    chunking_evaluation,
    policies,
    unlp_medicine,
    write_filings_text,
)
from benchmarks.support.enrichment_data import first_three
from benchmarks.support.tatqa_data import Page, places_of
from pipelines.evaluation.golden import Gold, GoldenQuestion, golden_questions
from pipelines.settings.base import settings_from
from tests.support.pdf_objects import pdf
from tests.support.places import require_data


def questions(lines: Any) -> list[GoldenQuestion]:
    return golden_questions(enumerate(lines, start=1))


def test_a_cited_page_goes_on_to_the_next_and_the_citation_is_no_answer(tmp_path: Path) -> None:
    line = {"question": "Who?", "truth": "The clerk.[a b.pdf#page=7] And the mayor.[c.pdf#page=2]"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(line) + "\n")
    (made,) = questions(policies(tmp_path))
    assert made.answer == "The clerk. And the mayor."
    assert made.gold == (Gold("a b.pdf", page=7, page_end=8), Gold("c.pdf", page=2, page_end=3))


def test_options_go_along_without_the_empty_ones(tmp_path: Path) -> None:
    places = {"Question_ID": "4", "Doc_ID": "d.pdf", "Page_Num": "3"}
    row = {"Question": "Що?", "Correct_Answer": "C", **dict.fromkeys("BDEF", " "), "A": "так", "C": "ні", **places}
    with (tmp_path / "questions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    (made,) = questions(unlp_medicine(tmp_path))
    assert made == GoldenQuestion("unlp-4", "Що?", (Gold("d.pdf", page=3),), {"A": "так", "C": "ні"}, "C")


def test_excerpts_are_offsets_of_the_source(tmp_path: Path) -> None:
    places = [{"start_index": 9, "end_index": 12}, {"start_index": 2, "end_index": 5}]
    with (tmp_path / "questions.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["question", "references", "corpus_id"], ["Why?", json.dumps(places), "news"]])
    (made,) = questions(chunking_evaluation(tmp_path))
    assert made.gold == (Gold("news.md", start=2, end=5), Gold("news.md", start=9, end=12))


def test_filings_are_written_as_text_with_a_form_feed_between_pages(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    pages = [
        b"BT /F 12 Tf 72 700 Td (%s) Tj 0 -20 Td (In May.) Tj ET" % words for words in (b"Sales fell.", b"Rent rose.")
    ]
    (tmp_path / "docs" / "report.pdf").write_bytes(pdf(pages))
    write_filings_text(tmp_path, tmp_path / "texts")
    (written,) = (tmp_path / "texts").iterdir()
    assert (written.name, written.read_text()) == ("report.txt", "Sales fell.\nIn May.\fRent rose.\nIn May.")


@pytest.mark.parametrize("name", DATASETS)
def test_every_question_of_a_set_is_a_golden_question(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages of PDF files are not read, which takes long and decides nothing here."""
    monkeypatch.setattr("pypdfium2.PdfDocument", lambda file: nullcontext([]))
    dataset = DATASETS[name]
    require_data(dataset.folder)
    lines = dataset.write_golden(tmp_path / "golden.jsonl").read_text().splitlines()
    made = questions(map(json.loads, lines))
    documents = dataset.documents_beside(tmp_path / "state")
    assert len(made) == dataset.count
    assert all((documents / gold.uri).is_file() for question in made for gold in question.gold)
    (source,) = settings_from(dataset.settings(tmp_path / "state")).sources
    assert Path(source.path) == documents


@pytest.mark.parametrize("name", [name for name, dataset in DATASETS.items() if dataset.unanswerable])
def test_questions_that_the_documents_do_not_answer_come_after_the_others(name: str, tmp_path: Path) -> None:
    require_data(DATASETS[name].folder)
    lines = DATASETS[name].write_golden(tmp_path / "golden.jsonl", unanswerable=True).read_text().splitlines()
    made = questions(map(json.loads, lines))
    count = DATASETS[name].count
    assert all(question.gold for question in made[:count])
    assert made[count:] and not any(question.gold for question in made[count:])


# ---------------------------------------------------------------- tatqa

ENTRY = {
    "table": {"uid": "t", "table": [["", "2019", "2018"], ["R&D", "$ 44.1", "56.7"], ["Fees", "3", "3"]]},
    "paragraphs": [{"order": 2, "text": "Fees rose by 5% & more."}, {"order": 1, "text": "Fees in 5% of cases."}],
}


@pytest.mark.parametrize(
    ("kind", "origin", "answer", "derivation", "expected"),
    [
        ("span", "table", ["44.1"], "", ["$ 44.1"]),
        ("multi-span", "table", ["R&D", "56.7"], "", ["R&amp;D", "56.7"]),
        ("span", "text", ["5% & more"], "", ["5% &amp; more"]),
        ("span", "table-text", ["5% & more"], "", ["5% &amp; more"]),
        ("arithmetic", "table", -12.6, "(44.1-56.7)/2", ["$ 44.1", "56.7"]),
        ("count", "table", "2", "R&D##Fees", ["R&amp;D", "Fees"]),
    ],
)
def test_gold_of_a_table_is_what_the_answer_is_read_off(
    kind: str, origin: str, answer: Any, derivation: str, expected: list[str]
) -> None:
    page = Page(ENTRY)
    question = {"answer_type": kind, "answer_from": origin, "answer": answer, "derivation": derivation,
                "rel_paragraphs": ["2"] if "text" in origin else []}  # fmt: skip
    assert [page.html[start:end] for start, end in places_of(page, question)] == expected


def test_an_answer_that_stands_twice_is_placed_in_the_table_or_its_paragraphs() -> None:
    page = Page(ENTRY)
    question = {"answer_type": "span", "answer": ["3"], "derivation": "", "rel_paragraphs": [], "answer_from": "table"}
    assert places_of(page, question) == [page.table]
    question = {**question, "answer": ["5%"], "answer_from": "text"}
    assert [page.html[start:end] for start, end in places_of(page, question)] == [
        "Fees in 5% of cases.", "Fees rose by 5% &amp; more.",
    ]  # fmt: skip


# ---------------------------------------------------------------- summary-augmentation


def test_each_of_the_first_three_documents_counts_once() -> None:
    hits = ["a", "a", "b", "c", "d"]
    question = {"question": "Q", "gold": [{"uri": "b"}, {"uri": "d"}]}
    scores = first_three(lambda text, k: {"hits": [{"uri": uri} for uri in hits]}, [question])
    assert scores == pytest.approx({"precision@3": 1 / 3, "recall@3": 1 / 2, "f1@3": 2 / 5, "mrr@3": 1 / 2})


def test_a_set_that_has_lost_questions_is_refused(tmp_path: Path) -> None:
    short = Dataset(tmp_path, ".", lambda folder: [{"id": "1", "question": "Q", "gold": []}], 2)
    with pytest.raises(ValueError, match="1 questions, not 2"):
        short.write_golden(tmp_path / "golden.jsonl")
