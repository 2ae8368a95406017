from __future__ import annotations

import pytest

from pipelines.indexing.structural_chunks import is_clause
from pipelines.records import Block, TextRun
from tests.support.builders import heading, item, paragraph, table, units


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


def test_page_headers_and_footers_are_no_units() -> None:
    above, below = (Block(kind, (TextRun(f"The {kind}"),)) for kind in ("page_header", "page_footer"))
    _, elements, made = units(above, heading("Notes"), paragraph("First."), below, above, paragraph("Second."), below)
    assert [unit.text for unit in made] == ["Notes", "First.", "Second."]
    assert [element.kind for element in elements].count("page_footer") == 2, "they stay elements"


def test_a_table_row_carries_its_headers_and_caption() -> None:
    _, elements, made = units(
        heading("Limits"),
        Block("caption", (TextRun("Table 1: Hotels"),)),
        table(("City", "Limit"), ("London", "£195"), ("Cardiff", "£140")),
    )
    rows = [unit for unit in made if unit.block_type == "table-row"]
    assert [row.text for row in rows] == ["City: London | Limit: £195", "City: Cardiff | Limit: £140"]
    assert rows[0].header_chain == ("Limits", "Table 1: Hotels")
    grid = next(element for element in elements if element.kind == "table")
    assert rows[0].span.start == grid.start and rows[-1].span.end == grid.end


def test_a_table_of_headers_alone_keeps_its_text() -> None:
    _, _, made = units(table(("Only", "headers"), headers=1))
    assert [unit.text for unit in made] == ["Only | headers"]


def test_the_middle_of_a_very_deep_chain_is_left_out() -> None:
    nested = [heading(f"H{level}", level) for level in range(1, 31)]
    _, _, made = units(*nested, paragraph("Text."))
    assert made[-1].header_chain == (*(f"H{n}" for n in range(1, 9)), "…", *(f"H{n}" for n in range(23, 31)))


def test_sections_with_the_same_ends_of_their_chains_are_told_apart() -> None:
    blocks = [heading("Top")]
    for number in range(20, 23):
        blocks += [heading(f"H{level}", level) for level in range(2, 31)]
        blocks += [paragraph(f"Text {number}.")]
    _, _, made = units(*blocks)
    assert len({unit.section_id for unit in made if unit.block_type != "heading"}) == 3


def test_a_heading_as_long_as_a_paragraph_is_one() -> None:
    text = "This was set in bold and taken for a heading, but it goes on and on. " * 8
    _, _, made = units(heading(text), paragraph("Text."))
    assert [(unit.block_type, unit.header_chain) for unit in made] == [("paragraph", ("A Title",))] * 2


def test_the_beginning_of_a_long_caption_stands_in_the_chain() -> None:
    caption = "Table 1: limits " + "and more words about them " * 60
    _, _, made = units(heading("Limits"), Block("caption", (TextRun(caption),)), table(("A", "B"), ("1", "2")))
    begun = made[-1].header_chain[-1]
    assert begun.startswith("Table 1: limits and more") and begun.endswith(" …") and len(begun) < 1000
    assert made[1].text == caption.strip()
    _, _, made = units(Block("caption", (TextRun("x" * 5000),)), table(("A", "B"), ("1", "2")))
    assert len(made[-1].header_chain[-1]) < 2600


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
    _, _, made = units(item("An item"), Block("code", (TextRun("x = 1"),)), Block("formula", (TextRun("E = mc^2"),)))
    assert [unit.block_type for unit in made] == ["list-item", "code", "formula"]
