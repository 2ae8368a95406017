"""The questions for answers in tests/data/answers: their numbers, each quote word for word in the parsed text, and the
titles by which the documents are told apart."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import GoldenQuestion, golden_questions, map_questions
from pipelines.records import Element, ParsedDocument
from tests.support.documents import parse_document, raw_of
from tests.support.places import DATA, LIBRARY, ROOT, needs_data

QUESTIONS = ROOT / "tests" / "data" / "answers"
FILES = [f"{corpus}.{part}" for corpus in ("policies", "library") for part in ("dev", "held")]
CORPORA = [pytest.param("policies", DATA / "policies", marks=needs_data("policies")), ("library", LIBRARY)]


def questions(name: str) -> list[GoldenQuestion]:
    lines = (QUESTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return golden_questions(((number, json.loads(line)) for number, line in enumerate(lines, start=1)), name)


@cache
def parsed(path: Path) -> tuple[ParsedDocument, list[Element]]:
    return parse_document(raw_of(path), path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_thirty_answerable_and_twenty_unanswerable_questions(name: str) -> None:
    assert Counter(bool(question.gold) for question in questions(name)) == {True: 30, False: 20}


def test_no_question_stands_twice() -> None:
    found = [question for name in FILES for question in questions(name)]
    assert len({question.id for question in found}) == len({question.question.casefold() for question in found}) == 200


@pytest.mark.parametrize(("corpus", "root"), CORPORA)
def test_each_quote_stands_word_for_word_where_it_is_said_to(corpus: str, root: Path) -> None:
    found = [question for part in ("dev", "held") for question in questions(f"{corpus}.{part}")]
    documents = {gold.uri: None for question in found for gold in question.gold}
    maps = {uri: DocumentMap.from_elements(root.name, uri, *parsed(root / uri)) for uri in documents}
    texts = {uri: " ".join(document.body.split()) for uri, document in maps.items()}
    assert map_questions(found, maps.values())[1] == []
    assert [
        (question.id, gold.quote)
        for question in found
        for gold in question.gold
        if not gold.quote or gold.quote not in texts[gold.uri]
    ] == []
    of_documents = {".csv", ".docx", ".html", ".md", ".pdf", ".txt", ".xlsx"}
    assert {str(path.relative_to(root)) for path in root.rglob("*") if path.suffix in of_documents} == set(maps)


@needs_data("policies")
def test_titles_of_real_policies_tell_them_apart() -> None:
    titles = {path.name: parsed(path)[0].title for path in (DATA / "policies").glob("*.pdf")}
    assert titles == {
        "Benefit_Options.pdf": "Contoso Electronics – Plan and Benefit Packages",
        "Northwind_Health_Plus_Benefits_Details.pdf": "Contoso Electronics – Northwind Health Plus Plan",
        "Northwind_Standard_Benefits_Details.pdf": "Contoso Electronics – Northwind Health Standard Plan",
        "PerksPlus.pdf": "PerksPlus Health and Wellness Reimbursement Program for Contoso Electronics Employees",
        "employee_handbook.pdf": "Contoso Electronics Employee Handbook",
        "role_library.pdf": "Roles Descriptions at Contoso Electronics",
    }
