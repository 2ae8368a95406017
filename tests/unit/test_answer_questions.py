"""The questions for answers in tests/data/answers: their numbers, and each quote word for word in the parsed text."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import GoldenQuestion, golden_questions, map_questions
from tests.support.documents import parse_document, raw_of
from tests.support.places import DATA, LIBRARY, ROOT, needs_data

QUESTIONS = ROOT / "tests" / "data" / "answers"
FILES = [f"{corpus}.{part}" for corpus in ("policies", "library") for part in ("dev", "held")]
CORPORA = [pytest.param("policies", DATA / "policies", marks=needs_data("policies")), ("library", LIBRARY)]


def questions(name: str) -> list[GoldenQuestion]:
    lines = (QUESTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return golden_questions(((number, json.loads(line)) for number, line in enumerate(lines, start=1)), name)


def document_map(root: Path, uri: str) -> DocumentMap:
    path = root / uri
    return DocumentMap.from_elements(root.name, uri, *parse_document(raw_of(path), path))


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
    maps = {uri: document_map(root, uri) for uri in documents}
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
