"""What benchmarks/datasets.py makes of the sets: their own rules of a hit, in the project's format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import DATASETS, SHARED, Dataset, chunking_evaluation, policies, unlp_medicine
from pipelines.query.golden import Gold, GoldenQuestion, golden_questions
from pipelines.settings import settings_from


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


@pytest.mark.parametrize("name", DATASETS)
def test_every_question_of_a_set_is_a_golden_question(name: str, tmp_path: Path) -> None:
    dataset = DATASETS[name]
    if not dataset.folder.is_dir():
        pytest.skip(f"{SHARED} is not here")
    lines = dataset.write_golden(tmp_path / "golden.jsonl").read_text().splitlines()
    made = questions(map(json.loads, lines))
    documents = dataset.folder / dataset.documents
    assert len(made) == dataset.count
    assert all((documents / gold.uri).is_file() for question in made for gold in question.gold)
    (source,) = settings_from(dataset.settings(tmp_path / "state")).sources
    assert Path(source.path) == documents


def test_a_set_that_has_lost_questions_is_refused(tmp_path: Path) -> None:
    short = Dataset(tmp_path, ".", lambda folder: [{"id": "1", "question": "Q", "gold": []}], 2)
    with pytest.raises(ValueError, match="1 questions, not 2"):
        short.write_golden(tmp_path / "golden.jsonl")
