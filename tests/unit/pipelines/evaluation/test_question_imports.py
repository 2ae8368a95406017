"""Questions of other people's files become golden questions, with errors that name the place."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import UsageError
from pipelines.evaluation.golden import golden_questions
from pipelines.evaluation.imports import Line, from_squad, from_table, from_unlp

TASK = {"Question_ID": "7", "Domain": "medicine", "Question": "Як? ", "A": "так", "C": "ні", "Correct_Answer": "C",
        "Doc_ID": "a.pdf", "Page_Num": "3"}  # fmt: skip


def squad(*asked: dict[str, Any], **article: Any) -> dict[str, Any]:
    paragraph = {"context": "Leave lapses in March.", "qas": list(asked)}
    return {"version": "v2.0", "data": [{"title": "Leave.md", "paragraphs": [paragraph], **article}]}


def asked(**values: Any) -> dict[str, Any]:
    return {"id": "56d", "question": " When? ", "answers": [{"text": "in March", "answer_start": 13}], **values}


def read(lines: list[Line]) -> int:
    return len(golden_questions(enumerate(lines, start=1)))


def test_a_question_of_the_shared_task_has_its_page_and_its_options() -> None:
    lines = from_unlp([(2, TASK)], "q.csv")
    assert lines == [{"id": "unlp-7", "question": "Як?", "options": {"A": "так", "C": "ні"}, "answer": "C",
                      "gold": [{"uri": "a.pdf", "page": 3}]}]  # fmt: skip
    assert read(lines) == 1


def test_a_question_of_squad_has_its_paragraph_and_an_impossible_one_has_none() -> None:
    impossible = asked(id="57a", is_impossible=True, answers=[])
    lines = from_squad(squad(asked(), impossible), "dev.json")
    assert lines == [
        {"id": "56d", "question": "When?", "answer": "in March",
         "gold": [{"uri": "Leave.md", "quote": "Leave lapses in March."}]},
        {"id": "57a", "question": "When?", "gold": []},
    ]  # fmt: skip
    assert read(lines) == 2


def test_rows_of_one_id_are_places_of_one_question() -> None:
    rows = [
        (2, {"id": "a", "question": "Who?", "uri": "a.pdf", "page": "3", "page_end": "4", "filter": "uri=a.pdf"}),
        (3, {"id": "a", "uri": "b.md", "quote": "the clerk"}),
        (4, {"question": "What?", "A": "one", "B": "two", "answer": "B"}),
    ]
    lines = from_table(rows, "q.csv")
    assert lines == [
        {"id": "a", "question": "Who?", "filter": ["uri=a.pdf"],
         "gold": [{"uri": "a.pdf", "page": 3, "page_end": 4}, {"uri": "b.md", "quote": "the clerk"}]},
        {"id": "4", "question": "What?", "options": {"A": "one", "B": "two"}, "answer": "B", "gold": []},
    ]  # fmt: skip
    assert read(lines) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "?", "URI": "a"}, "q.csv line 2: column 'URI' is not known; did you mean 'uri'"),
        ({"question": "?", "File Name": "a"}, r"column 'File Name' is not known; did you mean 'uri'\? known ones"),
        ({"question": "?", "zzz": "1"}, "column 'zzz' is not known; known ones: id, question"),
        ({"question": "?", "page": "3"}, "line 2: column 'uri' is missing or empty, so 'page' name no document"),
        ({"question": "?", "uri": "a", "page": "three"}, "column 'page' must be a whole number, not 'three'"),
        ({"uri": "a"}, "line 2: column 'question' is missing or empty"),
    ],
)
def test_a_row_that_is_wrong_is_named(row: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_table([(2, row)], "q.csv")


@pytest.mark.parametrize(
    ("column", "key"), [("question", "question"), ("answer", "answer"), ("A", "options"), ("filter", "filter")]
)
def test_an_id_with_two_of_what_a_question_has_once_is_named(column: str, key: str) -> None:
    """The second would be left out without a word."""
    first = {"id": "a", "question": "Who?", "A": "one", "answer": "A", "filter": "uri=a"}
    with pytest.raises(UsageError, match=f"line 3: id 'a' stands above with another {key}"):
        from_table([(2, first), (3, {"id": "a", column: "two"})], "q.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "dev.json: expected an object, not list"),
        ({"data": {}}, "dev.json: key 'data' is missing or is no list"),
        (squad(title=None), r"dev.json: data\[0\]: key 'title' is missing or is no text"),
        (squad(asked(question=3)), r"data\[0\].paragraphs\[0\].qas\[0\]: key 'question' is missing"),
        (squad(asked(id=None)), r"qas\[0\]: key 'id' is missing"),
        (squad(asked(answers=None)), r"qas\[0\]: key 'answers' is missing or is no list"),
    ],
)
def test_a_member_that_squad_has_is_named_where_it_is_missing(content: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_squad(content, "dev.json")


def test_a_column_that_the_shared_task_has_is_named_where_it_is_missing() -> None:
    with pytest.raises(UsageError, match=r"q.csv line 5: column 'Page_Num' is missing or empty"):
        from_unlp([(5, {**TASK, "Page_Num": " "})], "q.csv")
