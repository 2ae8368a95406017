"""Counts of benchmarks/chunking.py: places in the source and labels of a cell."""

from __future__ import annotations

from pathlib import Path

from benchmarks.support.chunking_data import documents_in
from benchmarks.support.chunking_tables import answer_cells, chunks_by_row, header_count, labels, missing

GRID = [["", "Fiscal", ""], ["", "2019", "2018"], ["Assets", "", ""], ["Cash", "$130", "(91)"], ["Other", "8", "8"]]


def test_spans_of_the_body_as_spans_of_the_source(tmp_path: Path) -> None:
    source = "# Title\n\nOne *two*\nthree.\n\n\nFour &amp; five.\n"
    (tmp_path / "a.md").write_text(source)
    (document,) = documents_in(tmp_path)
    _, first, second = document.units
    places = [(unit.span.start, unit.span.end) for unit in (first, second)]
    assert [source[slice(*document.in_source([place])[0])] for place in places] == [
        "One *two*\nthree.",
        "Four &amp; five.",
    ]
    assert document.in_source(places) == [(source.index("One"), len(source) - 1)]
    assert document.in_source([(document.units[0].span.start, 3)]) == [(2, 5)]


def test_labels_of_a_cell() -> None:
    assert header_count(GRID) == 3
    assert labels(GRID, 3, 1) == ["Cash", "Fiscal", "2019"]
    assert labels(GRID, 3, 2) == ["Cash", "2018"]
    assert header_count([["Name", "Title"], ["Ann", "Clerk"]]) == 1


def test_answers_are_whole_cells() -> None:
    assert answer_cells(GRID, {"answer": ["$130"]}) == [(3, 1)]
    assert answer_cells(GRID, {"answer": ["130"]}) == []
    assert len(answer_cells(GRID, {"answer": ["8"]})) == 2


def test_a_chunk_without_a_label_is_a_miss() -> None:
    chunk = chunks_by_row(GRID, "t", 16)[3]
    assert missing(GRID, 3, 1, chunk) == []
    assert missing(GRID, 3, 1, None) == ["Cash", "Fiscal", "2019", "$130"]
