"""Elements of unstructured as blocks: category to kind, depth to level, `text_as_html` to cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pipelines.records import Block, Run
from resources.parsers.html.source import tree_of
from resources.parsers.html.tables import table_blocks
from resources.parsers.text.source_text import Finder, without_offsets

_KINDS = {
    "Title": "heading",
    "ListItem": "list_item",
    "FigureCaption": "caption",
    "Formula": "formula",
    "CodeSnippet": "code",
    "Header": "page_header",
    "Footer": "page_footer",
    "PageNumber": "page_footer",
    "PageBreak": "break",
}
"""Of all other categories with text: a paragraph."""
_LONGEST_HEADING = 300
"""Characters. unstructured calls a Title what looks like one, at times a whole line of prose."""


def blocks_of(elements: Iterable[Any]) -> Iterator[Block]:
    """In their order. Text is kept word for word, a table that says no cells as a paragraph."""
    for element in elements:
        text = element.text or ""
        if not text.strip() and element.category != "PageBreak":
            continue
        html = element.metadata.text_as_html
        if element.category == "Table" and html:
            yield from _table(html, text, _locator(element))
        else:
            yield _block(element, text)


def _block(element: Any, text: str) -> Block:
    kind = _KINDS.get(element.category, "paragraph")
    depth = element.metadata.category_depth or 0
    level = None
    if kind == "heading":
        kind, level = ("heading", depth + 1) if len(text) <= _LONGEST_HEADING else ("paragraph", None)
    elif kind == "list_item":
        level = max(depth, 1)
    runs = (Run(text, locator=_locator(element)),) if text.strip() else ()
    return Block(kind, runs, level)


def _table(html: str, text: str, locator: str | None) -> Iterator[Block]:
    root = tree_of(html, "a table")
    found = list(root.iter("table")) if root is not None else []
    if not found:
        yield Block("paragraph", (Run(text, locator=locator),))
    for block in table_blocks(found[0], Finder(html, limit=200_000, markup=True)) if found else ():
        yield without_offsets(block, locator)


def _locator(element: Any) -> str | None:
    """The name of a sheet, else the number of a page, where there are any."""
    named, number = element.metadata.page_name, element.metadata.page_number
    return named or (f"page {number}" if number else None)
