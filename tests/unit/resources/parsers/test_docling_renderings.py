"""Parses of docling's fixtures against docling's renderings of them: no figure falls below what was reached.

What differs by choice is listed in docs/measured/parsing.md."""

from __future__ import annotations

import pytest

from benchmarks.support.parsing_scores import MEASURES, Count, asked, expected, found, scores, total
from resources.parsers.registry import media_type_of, parse_file
from tests.support.places import DATA, needs_data

FIXTURES = DATA / "parser-fixtures" / "docling"
FLOORS = {"headings": 0.97, "levels": 0.95, "list_items": 0.95, "table_rows": 0.95, "words": 0.97, "word_order": 0.97}
BY_CHOICE = {"xlsx_07_gap_tolerance_.xlsx": {"table_rows", "word_order"}, "docx_rich_cells.docx": {"table_rows"}}
"""A table that the rendering takes apart, so that no label stands with its values; and cells with words struck out,
which the rendering keeps."""


@needs_data("parser-fixtures/docling")
@pytest.mark.parametrize("kind", ["docx", "html", "md", "xlsx"])
def test_our_parsers_find_as_much_as_another_parser(kind: str) -> None:
    files = [path for path in sorted((FIXTURES / kind).iterdir()) if not path.name.endswith(".expected.md")]
    figures = []
    for path in files:
        ours = found(parse_file(path, media_type_of(path) or ""))
        theirs = expected(path.with_name(path.name + ".expected.md").read_text())
        counts = scores(ours, asked(theirs, ours))
        figures.append({**counts, **dict.fromkeys(BY_CHOICE.get(path.name, ()), Count())})
    reached = {measure: count.share for measure, count in total(figures).items() if count.share is not None}
    assert set(reached) >= set(MEASURES) - {"list_items"}
    assert {name: share for name, share in reached.items() if share < FLOORS.get(name, 0)} == {}
