"""Contents pages: titles with page numbers, which are neither tables nor headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from pipelines.parsing.pdf.cells import LEADERS
from pipelines.parsing.pdf.lines import Line
from pipelines.parsing.pdf.paragraphs import Draft
from pipelines.parsing.pdf.table_rows import TIGHT, goes_on, pitch

LEAST_LED = 3
LEAST_BARE = 6
MOST_BETWEEN = 2
MOST_LINES = 120
SAME_EDGE = 6.0
_PAGE = re.compile(r"(?:[A-Z]{1,2}-?)?(\d{1,4})|[ivxlc]{1,7}", re.IGNORECASE)
_PART = re.compile(
    r"page( no\.?)?|стор(інка|\.)|(part|section|частина|розділ)\s+(\d{1,2}|[ivxlc]{1,6})\.?", re.IGNORECASE
)
_TITLE = re.compile(r"\W*(table of contents|contents|index|page|зміст|стор(інка|\.)?|содержание)\W*", re.IGNORECASE)


def _number(line: Line) -> tuple[str, bool] | None:
    """The page number a line ends with, and whether dots lead to it."""
    led = LEADERS.search(line.text)
    if led is not None:
        tail = line.text[led.end() :].strip()
        return (tail, True) if led.start() and _PAGE.fullmatch(tail) else None
    if not 2 <= len(line.cells) <= 3:
        return None
    tail, title = line.cells[-1].text.strip(), "".join(cell.text for cell in line.cells[:-1])
    return (tail, False) if _PAGE.fullmatch(tail) and sum(map(str.isalpha, title)) >= 3 else None


def contents_entries(lines: Sequence[Line], start: int, blocked: set[int], floor: int = 0) -> list[list[int]]:
    """Entries whose first page number is in line `start`, each the indexes of its lines; none where it
    is no contents page. Names of parts above it, down to line `floor`, are entries too."""
    found = [(start, number)] if (number := _number(lines[start])) is not None else []
    at, between = start + 1, 0
    end = min(len(lines), start + MOST_LINES)
    while found and at < end and at not in blocked and between <= MOST_BETWEEN:
        line, last = lines[at], lines[at - 1]
        if line.column != last.column or not -2 <= pitch(last, line) < 5 * line.size:
            break
        number = _number(line)
        between = 0 if number is not None else between + 1
        if number is not None:
            found.append((at, number))
        elif len(line.cells) > 2:
            break
        at += 1
    titled = any(_TITLE.fullmatch(line.text) for line in lines[max(0, start - 3) : start])
    if not _are_pages([number for _, number in found], [lines[at] for at, _ in found], titled):
        return []
    first = start
    while first > floor and _PART.fullmatch(lines[first - 1].text.strip()):
        first -= 1
    return [[at] for at in range(first, start)] + _entries(lines, [at for at, _ in found])


def _are_pages(numbers: Sequence[tuple[str, bool]], lines: Sequence[Line], titled: bool) -> bool:
    """Whether numbers at the end of lines go up as page numbers do."""
    led = sum(leaders for _, leaders in numbers)
    if len(numbers) < (LEAST_LED if titled or 2 * led > len(numbers) else LEAST_BARE):
        return False
    values = [int(match[1]) for text, _ in numbers if (match := _PAGE.fullmatch(text)) and match[1]]
    falls = sum(a > b for a, b in pairwise(values))
    edges = [line.x1 for line in lines]
    if falls > 0.1 * len(values) or max(edges) - min(edges) > SAME_EDGE:
        return False
    return 2 * led > len(numbers) or titled or len(set(values)) >= 0.8 * len(numbers)


def contents_draft(lines: Sequence[Line]) -> Draft:
    """An entry of a contents page as a list item; not sure enough to be a heading, however it is set."""
    return Draft("list_item", list(lines), marker_x=lines[0].x0, confidence=0.9)


def _entries(lines: Sequence[Line], ends: Sequence[int]) -> list[list[int]]:
    """Lines before a numbered one belong to it where its title goes on from them."""
    last = set(ends)
    entries: list[list[int]] = []
    begun: list[int] = []
    for at in range(ends[0], ends[-1] + 1):
        if begun and not (
            goes_on(lines[begun[-1]].text, lines[at].text) and pitch(lines[at - 1], lines[at]) < TIGHT * lines[at].size
        ):
            entries.append(begun)
            begun = []
        begun.append(at)
        if at in last:
            entries.append(begun)
            begun = []
    return entries
