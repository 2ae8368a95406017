"""Tables of DOCX: their rows and cells, through content controls, and which rows name the columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.records import BlockCell, Run
from resources.parsers.labels import reads_as_header
from resources.parsers.office.docx_numbering import W, is_on, value_of
from resources.parsers.untrusted import whole

MOST_SPAN = 1000


def taller(cell: BlockCell, row: int, more: tuple[Run, ...]) -> BlockCell:
    return BlockCell(cell.row, cell.column, cell.runs + more, row - cell.row + 1, cell.column_span, cell.header)


def rows_of(table: Any) -> Iterator[Any]:
    for element in table:
        if element.tag == f"{W}tr":
            yield element
        elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins"):
            yield from rows_of(element)


def cells_of(row: Any) -> Iterator[Any]:
    for element in row:
        if element.tag == f"{W}tc":
            yield element
        elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins"):
            yield from cells_of(element)


def skipped_columns(row: Any) -> int:
    return count(value_of(row, "w:trPr/w:gridBefore"), 0)


def count(text: str | None, least: int) -> int:
    """Columns of a table's grid; Word has at most 63."""
    return max(least, min(whole(text, least), MOST_SPAN))


def words(cell: Any) -> str:
    return "".join(text.text or "" for text in cell.iter(f"{W}t"))


def _is_bold(row: Any) -> bool:
    runs = [run for run in row.iter(f"{W}r") if any((t.text or "").strip() for t in run.findall(f"{W}t"))]
    return bool(runs) and all(is_on(run.find(f"{W}rPr/{W}b")) for run in runs)


def header_rows(table: Any, elements: list[Any], rows: list[list[Any]]) -> int:
    """Rows marked as repeating headers; else the first row where the table's style sets it apart, or all its
    text is bold, or it reads as one."""
    marked = 0
    while marked < len(elements) and is_on(elements[marked].find(f"{W}trPr/{W}tblHeader")):
        marked += 1
    if marked or len(elements) < 2:
        return marked if marked < len(elements) else 0
    look = table.find(f"{W}tblPr/{W}tblLook")
    styled = look is not None and (look.get(f"{W}firstRow") == "1" or whole(look.get(f"{W}val"), 0, 16) & 0x20)
    styled = styled and value_of(table, "w:tblPr/w:tblStyle") not in (None, "TableGrid", "TableNormal")
    if styled or (_is_bold(elements[0]) and not _is_bold(elements[1])):
        return 1
    first, *others = [[words(cell) for cell in row] for row in rows]
    return int(len(first) > 1 and reads_as_header(first, others))
