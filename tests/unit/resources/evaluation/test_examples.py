"""Examples to begin with: short questions, of as many documents as can be, that are answered from where they came."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from resources.evaluation.suggest import MOST_ASKABLE, SENTENCES, TRIES, examples
from resources.search.documents import FirstSentence
from tests.support.bare_index import DOCUMENT


class Documents:
    """Documents of a few sentences each, which everybody may see."""

    def __init__(self, sentences: Mapping[str, Sequence[str]]) -> None:
        self._sentences = sentences

    def list_documents(self, groups: Sequence[str], after: str, most: int) -> list[Any]:
        assert (groups, after, most) == ((), "", MOST_ASKABLE)
        return [replace(DOCUMENT, doc_id=name, uri=f"{name}.md", title=name) for name in self._sentences]

    def first_sentences(self, doc_ids: Sequence[str], most: int) -> list[FirstSentence]:
        assert most == SENTENCES
        return [
            FirstSentence(name, (), text, None, 1.0, "paragraph") for name in doc_ids for text in self._sentences[name]
        ]

    def text(self, document: Any) -> None:
        return None


TWO = {
    "pier": ["Boats pay 12 pounds for each night.", "The crane lifts 40 tonnes of grain."],
    "lamp": ["The lamp burns for 9 hours."],
}


def made(sentences: Mapping[str, Sequence[str]], answers: Any, count: int = 4) -> list[tuple[str, str]]:
    documents: Any = Documents(sentences)
    return [(each.doc_id, each.question) for each in examples(documents, answers, count)]


def test_a_question_is_of_each_document_before_one_has_a_second() -> None:
    everywhere = {("s", "pier.md"), ("s", "lamp.md")}
    assert {name for name, _ in made(TWO, lambda question: everywhere, 2)} == {"pier", "lamp"}
    assert sorted(name for name, _ in made(TWO, lambda question: everywhere)) == ["lamp", "pier", "pier"]


def test_a_question_that_another_document_answers_is_no_example() -> None:
    assert {name for name, _ in made(TWO, lambda question: {("s", "lamp.md")})} == {"lamp"}
    assert made(TWO, lambda question: set()) == [] and made({}, lambda question: set()) == []


def test_no_more_is_asked_of_the_index_than_a_bound() -> None:
    asked: list[str] = []

    def nothing(question: str) -> Collection[tuple[str, str]]:
        asked.append(question)
        return ()

    words = [f"{first}{second}" for first in "bdfgk" for second in ("arn", "ell", "inn", "oat", "uck", "yre")]
    assert made({word: [f"The {word} has 12 pounds of {word} grain."] for word in words}, nothing) == []
    assert len(asked) == TRIES


def test_a_question_in_the_order_of_a_statement_comes_last() -> None:
    everywhere = {("s", "pier.md"), ("s", "lamp.md")}
    texts = {"pier": ["Boats pay 12 pounds for each night."], "lamp": ["The lamp must burn for 9 hours."]}
    assert [asked for _, asked in made(texts, lambda question: everywhere)] == [
        "For how many hours must the lamp burn?",
        "Boats pay how much for each night?",
    ]
