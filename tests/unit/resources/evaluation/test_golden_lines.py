"""Files of golden questions, and of questions that are imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import UsageError
from pipelines.evaluation.golden import GoldenQuestion
from resources.evaluation.golden import import_questions, read_questions


def read(file: Path, text: str) -> list[GoldenQuestion]:
    file.write_text(text, encoding="utf-8")
    return read_questions(file)


def line(**values: Any) -> str:
    return json.dumps({"id": "1", "question": "How long?", "gold": [], **values})


@pytest.mark.parametrize("second", ["{", "[" * 100_000, '{"question": "\\ud800"}', '{"\\udfff": 1}', "9" * 5000])
def test_a_line_that_is_no_text_in_json_is_named(tmp_path: Path, second: str) -> None:
    with pytest.raises(UsageError, match="line 2: not valid JSON"):
        read(tmp_path / "golden.jsonl", f"{line()}\n{second}\n")


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("my q.csv", b"question,document\nWho?,a.md\n", "pincite eval --import csv '.*/my q.csv' --output"),
        ("q.TSV", b"question\tdocument\n", "pincite eval --import csv "),
        ("q.json", b"{\n}", "correct the line, or .*: pincite eval --import squad "),
        ("q.xlsx", b"PK\x03\x04\xff", "save the sheet as CSV, then pincite eval --import csv"),
        ("q.jsonl", b"{", "correct the line"),
        ("q.txt", b"\xff", "check the file"),
    ],
)
def test_a_file_of_another_form_is_refused_with_what_reads_it(
    tmp_path: Path, name: str, content: bytes, remedy: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=remedy):
        read_questions(tmp_path / name)


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """JSON lets U+2028, U+0085 and their like stand in a string."""
    first = line(question="a-b").replace("a-b", "a\u2028b\x85c")
    found = read(tmp_path / "golden.jsonl", f"{first}\r\n\n{line(id='2')}")
    assert [(each.id, each.question) for each in found] == [("1", "a\u2028b\x85c"), ("2", "How long?")]


def test_a_filter_that_no_search_takes_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"golden.jsonl line 2: key 'filter': 'date>=soon': write a date such as"):
        read(tmp_path / "golden.jsonl", f"{line()}\n{line(id='2', filter=['date>=soon'])}\n")


# ---------------------------------------------------------------- imports


def imported(file: Path, kind: str, text: str) -> list[dict[str, Any]]:
    file.write_text(text, encoding="utf-8")
    return import_questions(kind, file)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_with_its_separator_and_what_editors_write_before_it(tmp_path: Path, separator: str) -> None:
    cells = [["question", "uri", "quote"], ["Who, then?", "a.md", '"a ""clerk"";\nof ours"'], ["", "", ""]]
    text = "\ufeff" + "\r\n".join(separator.join(f'"{c}"' if c == "Who, then?" else c for c in row) for row in cells)
    (line,) = imported(tmp_path / "q.csv", "csv", text)
    assert line == {"id": "3", "question": "Who, then?", "gold": [{"uri": "a.md", "quote": 'a "clerk";\nof ours'}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,uri\nWho?,a,b\n", "q.csv line 2: 3 cells in a table of 2 columns"),
        ("question,uri,question\n", "q.csv line 1: column 'question' occurs twice"),
        ('question,uri\n"Who?,a\n', "q.csv line 2: not a table with separators"),
        ("question,filter\nWho?,date>=soon\n", "q.csv, as imported line 1: key 'filter': 'date>=soon': write a"),
        ("question,uri\n", "q.csv, as imported: the file has no questions"),
    ],
)
def test_a_table_that_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        imported(tmp_path / "q.csv", "csv", text)


def test_json_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"q\.json: not valid JSON"):
        imported(tmp_path / "q.json", "squad", "[" * 100_000)
