"""What a parser found, as an outline for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pincite.console import block, rows
from pipelines.parsing.page_marks import label_of
from pipelines.records import Element, ParsedDocument, ParsedFile

WIDTH = 90


def _first(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def _pages(element: Element) -> str:
    first, last = element.page_start, element.page_end
    return "" if first is None else str(first) if first == last else f"{first}–{last}"


def _summary(element: Element) -> str:
    """First words; of a table, its size and first row."""
    if element.kind == "break":
        return "———"
    if element.kind != "table" or not element.cells:
        return element.text
    height = 1 + max(cell.row for cell in element.cells)
    width = max(cell.column + cell.column_span for cell in element.cells)
    headers = len({cell.row for cell in element.cells if cell.header})
    first = " | ".join(cell.text for cell in element.cells if cell.row == element.cells[0].row)
    return f"{height} × {width}, {headers} header row{'' if headers == 1 else 's'}: {first}"


def _indented(elements: Iterable[Element]) -> Iterable[tuple[Element, str]]:
    """Each element with its indentation: under its heading, list items under those they belong to."""
    depth = 0
    for element in elements:
        if element.kind == "heading":
            depth = element.level or 1
            yield element, "  " * (depth - 1)
        elif element.kind in ("page_header", "page_footer"):
            yield element, ""
        else:
            nested = (element.level or 1) - 1 if element.kind == "list_item" else 0
            yield element, "  " * (depth + nested)


def outline_shown(document: ParsedDocument, parsed: ParsedFile, elements: Sequence[Element]) -> str:
    """One line an element: number, page, kind, first words; then counts and warnings."""
    pages = f"{document.pages} page{'' if document.pages == 1 else 's'}, " if document.pages else ""
    title = document.title + (" (its file name)" if document.title_is_file_name else "")
    lines = [f"{title}: {pages}{len(document.body):,} characters, read by {parsed.origin or 'its parser'}", ""]
    table = [
        (element.index, _pages(element), label_of(element), indent + _first(_summary(element), WIDTH - len(indent)))
        for element, indent in _indented(elements)
    ]
    lines.append(rows(table, ("#", "page", "kind", "")))
    counts = Counter(element.kind for element in elements)
    lines += ["", ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in counts.most_common())]
    lines += [f"warning: {warning}" for warning in document.warnings]
    return block(lines)
