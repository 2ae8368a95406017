"""The Markdown of a document, read back by a Markdown parser: every word is there, and is what it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pipelines.parsing.cleaning import clean_text
from pipelines.parsing.markdown_view import markdown_of
from pipelines.records import Block, BlockCell, Box, TextRun
from tests.support.builders import document, heading, item, paragraph, table

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(*blocks: Block) -> str:
    return markdown_of(document(*blocks)[1])


def nested(text: str, level: int) -> Block:
    return Block("list_item", (TextRun(text),), level=level, marker="•")


def plain(inline: Sequence[Token]) -> str:
    return "".join(child.content if child.type == "text" else "" for child in inline)


def read_back(markdown: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of everything a Markdown parser sees, comments aside."""
    tokens = MARKDOWN.parse(markdown)
    open_: list[str] = []
    for token in tokens:
        if token.nesting == 1:
            open_.append(token.type)
        elif token.nesting == -1:
            open_.pop()
        elif token.type == "inline":
            deepest = [kind for kind in open_ if kind != "paragraph_open"][-1:] or ["paragraph_open"]
            yield deepest[0].removesuffix("_open"), plain(token.children or ())
        elif token.type in ("fence", "code_block", "hr"):
            yield token.type, token.content.removesuffix("\n")
        elif not token.content.lstrip().startswith("<!--"):
            yield token.type, token.content


# ---------------------------------------------------------------- single blocks


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (heading("Leave", 2), "## Leave"),
        (heading("C #", 1), r"# C \#"),
        (heading("Deep", 9), "###### Deep"),
        (paragraph("1. January is *not* an item"), r"1\. January is \*not\* an item"),
        (paragraph("+ 5 % of snake_case <b> a|b &amp; [x]"), r"\+ 5 % of snake_case \<b> a\|b \&amp; \[x\]"),
        (item("Bring a lamp"), "- Bring a lamp"),
        (Block("list_item", (TextRun("3. Move in"),), level=1), "3. Move in"),
        (Block("list_item", (TextRun("(a) Move in"),), level=1), "- (a) Move in"),
        (Block("list_item", (TextRun("Signed"),), marker="☒"), "- [x] Signed"),
        (Block("quote", (TextRun("Said once"),)), "> Said once"),
        (Block("caption", (TextRun("Table 1. Limits"),)), "*Table 1. Limits*"),
        (Block("footnote", (TextRun("See Annex"),), marker="2"), "<sup>2</sup> See Annex"),
        (Block("footnote", (TextRun("2 See Annex"),), marker="2"), "2 See Annex"),
        (Block("code", (TextRun("a = `x`\n\nb"),), metadata={"language": "py"}), "```py\na = `x`\n\nb\n```"),
        (Block("code", (TextRun("```\nx"),)), "````\n```\nx\n````"),
        (Block("page_footer", (TextRun("Page 1 --> 2"),)), "<!-- page footer: Page 1 - -> 2 -->"),
    ],
)
def test_a_block(block: Block, expected: str) -> None:
    assert shown(paragraph("Before"), block) == f"Before\n\n{expected}\n"


def test_pages_are_marked_where_an_element_begins_on_a_later_one() -> None:
    spanning = Block("paragraph", (TextRun("Two", Box(1, 0, 0, 9, 9)), TextRun("pages", Box(2, 0, 0, 9, 9))))
    assert shown(paragraph("One", 1), spanning, paragraph("Three", 2), paragraph("Four", 4)) == (
        "<!-- page 1 -->\n\nOne\n\nTwo pages\n\n<!-- page 2 -->\n\nThree\n\n<!-- page 4 -->\n\nFour\n"
    )


def test_nested_items_stand_under_the_text_of_their_parent() -> None:
    numbered = Block("list_item", (TextRun("10. Label every box"),), level=1)
    assert shown(numbered, nested("a seal", 2), nested("red", 3), nested("a code", 2), item("Move")) == (
        "10. Label every box\n    - a seal\n      - red\n    - a code\n- Move\n"
    )


def test_a_new_page_within_a_nested_list_does_not_turn_items_into_code() -> None:
    blocks = [item("a"), nested("b", 2), Block("list_item", (TextRun("c", Box(2, 0, 0, 9, 9)),), level=3, marker="•")]
    assert [kind for kind, _ in read_back(shown(*blocks))] == ["list_item"] * 3


# ---------------------------------------------------------------- tables


def test_a_table_with_one_header_row() -> None:
    assert shown(table(("City", "Limit"), ("Oslo", "a|b"))) == ("| City | Limit |\n| --- | --- |\n| Oslo | a\\|b |\n")


def test_merged_headers_stand_over_each_of_their_columns_and_merged_cells_once() -> None:
    cells = (
        BlockCell(0, 0, (TextRun("Item"),), row_span=2, header=True),
        BlockCell(0, 1, (TextRun("Years"),), column_span=2, header=True),
        BlockCell(1, 1, (TextRun("2025"),), header=True),
        BlockCell(1, 2, (TextRun("2024"),), header=True),
        BlockCell(2, 0, (TextRun("Sales"),), header=True),
        BlockCell(2, 1, (TextRun("n/a"),), column_span=2),
    )
    assert shown(Block("table", cells=cells)) == (
        "| Item | Years<br>2025 | Years<br>2024 |\n| --- | --- | --- |\n| **Sales** | n/a |  |\n"
    )


def test_header_rows_that_say_the_same_both_stand() -> None:
    assert shown(table(("a", "b"), ("a", "c"), ("1", "2"), headers=2)).splitlines()[0] == "| a<br>a | b<br>c |"


def test_a_table_without_header_rows_has_an_empty_one() -> None:
    assert shown(table(("a", "b"), headers=0)) == "|  |  |\n| --- | --- |\n| a | b |\n"


# ---------------------------------------------------------------- what holds for every text

words = st.text(st.sampled_from("ab1 .)(*_`~#+-=>|<!&;[]\\:/'\"{}$^@—é"), min_size=1, max_size=24).map(clean_text)
texts = words.filter(bool)


@given(texts)
def test_any_text_reads_back_as_it_was(text: str) -> None:
    blocks = [
        paragraph(text),
        heading(text),
        Block("quote", (TextRun(text),)),
        table((text, "h"), ("c", text)),
        Block("caption", (TextRun(text),)),
        Block("page_header", (TextRun(text),)),
    ]
    found = list(read_back(shown(*blocks)))
    assert found == [
        ("paragraph", text), ("heading", text), ("blockquote", text),
        ("th", text), ("th", "h"), ("td", "c"), ("td", text), ("paragraph", text),
    ]  # fmt: skip


@given(texts)
def test_any_text_of_an_item_reads_back(text: str) -> None:
    kind, found = next(read_back(shown(item(text))))
    marker = re.match(r"\d+[.)] ", text)
    assert (kind, found) in {("list_item", text), ("list_item", text[marker.end() :] if marker else text)}


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.sampled_from((None, 1, 2, 3))), min_size=1, max_size=8))
def test_items_nest_as_their_levels_say(drawn: list[tuple[int, bool, int | None]]) -> None:
    """Whatever the markers, and wherever new pages begin."""
    level, page, blocks, levels = 0, 1, [], []
    for number, (wanted, ordered, at) in enumerate(drawn, start=1):
        level, page = min(wanted, level + 1), max(page, at or page)
        levels.append(level)
        text = f"{number}. item" if ordered else "item"
        blocks.append(Block("list_item", (TextRun(text, Box(page, 0, 0, 9, 9)),), level=level, marker="•"))
    depths, depth = [], 0
    for token in MARKDOWN.parse(shown(*blocks)):
        if token.type == "list_item_open":
            depth += 1
            depths.append(depth)
        elif token.type == "list_item_close":
            depth -= 1
    assert depths == levels
