from __future__ import annotations

import pytest

from pipelines.indexing.structural_chunks import is_clause
from pipelines.records import Block, BlockCell, Run
from tests.builders import heading, item, paragraph, table, units


def test_header_chain_follows_the_stack_of_headings() -> None:
    _, _, made = units(
        paragraph("Before any heading."),
        heading("Part"),
        heading("Section", 2),
        paragraph("Inside the section."),
        heading("Next part"),
        paragraph("Inside the next part."),
    )
    chains = {unit.text: unit.header_chain for unit in made}
    assert chains["Before any heading."] == ("A Title",)
    assert chains["Inside the section."] == ("Part", "Section")
    assert chains["Inside the next part."] == ("Next part",)


def test_a_title_that_is_only_a_file_name_is_no_heading() -> None:
    _, _, made = units(paragraph("Some text without any heading above it."), title=None)
    assert made[0].header_chain == ()


def test_sections_of_one_name_are_told_apart_and_a_break_ends_one() -> None:
    _, _, made = units(
        heading("Notes"),
        paragraph("First."),
        heading("Notes"),
        paragraph("Second."),
        Block("break"),
        paragraph("Third."),
    )
    sections = [unit.section_id for unit in made if unit.block_type != "heading"]
    assert len(set(sections)) == 3


def test_a_table_row_carries_its_headers_and_caption() -> None:
    _, elements, made = units(
        heading("Limits"),
        Block("caption", (Run("Table 1: Hotels"),)),
        table(("City", "Limit"), ("London", "£195"), ("Cardiff", "£140")),
    )
    rows = [unit for unit in made if unit.block_type == "table-row"]
    assert [row.text for row in rows] == ["City: London | Limit: £195", "City: Cardiff | Limit: £140"]
    assert rows[0].header_chain == ("Limits", "Table 1: Hotels")
    grid = next(element for element in elements if element.kind == "table")
    assert rows[0].span.start == grid.start and rows[-1].span.end == grid.end


def test_headers_of_two_rows_and_spans_are_joined() -> None:
    cells = (
        BlockCell(0, 0, (Run("Series"),), row_span=2, header=True),
        BlockCell(0, 1, (Run("Boxes"),), column_span=2, header=True),
        BlockCell(1, 1, (Run("Offered"),), header=True),
        BlockCell(1, 2, (Run("Destroyed"),), header=True),
        BlockCell(2, 0, (Run("Finance"),), row_span=2),
        BlockCell(2, 1, (Run("4"),)),
        BlockCell(2, 2, (Run("2"),)),
        BlockCell(3, 1, (Run("7"),)),
        BlockCell(3, 2, (Run("1"),)),
    )
    _, _, made = units(Block("table", cells=cells))
    assert [unit.text for unit in made] == [
        "Series: Finance | Boxes / Offered: 4 | Boxes / Destroyed: 2",
        "Series: Finance | Boxes / Offered: 7 | Boxes / Destroyed: 1",
    ]


def test_a_table_of_headers_alone_keeps_its_text() -> None:
    _, _, made = units(table(("Only", "headers"), headers=1))
    assert [unit.text for unit in made] == ["Only | headers"]


def test_a_document_of_headings_alone_loses_no_text() -> None:
    _, _, made = units(heading("Welcome"), heading("to the archive"))
    assert [(unit.block_type, unit.text) for unit in made] == [
        ("paragraph", "Welcome"),
        ("paragraph", "to the archive"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RTO: 4 hours", True),
        ("Audit logs are kept for 7 years.", True),
        ("Version: 3.2", True),
        ("Записи зберігають 5 років.", True),
        ("The room holds up to 40 boxes", True),
        ("We are proud of our service.", False),
        ("Chapter 4", False),
        ("Logs are kept for 7 years " + "and read by people who care for them " * 5, False),
    ],
)
def test_clauses(text: str, expected: bool) -> None:
    assert is_clause(text, 25) is expected


def test_block_types() -> None:
    _, _, made = units(item("An item"), Block("code", (Run("x = 1"),)), Block("formula", (Run("E = mc^2"),)))
    assert [unit.block_type for unit in made] == ["list-item", "code", "formula"]
