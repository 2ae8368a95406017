"""Lists of abbreviations and other terms, in two columns without rulings: the term at the left, its meaning at the
right.

A term is short and on one line; its meaning may have several lines, which begin at the same position. Columns of
running text have this shape too, so the terms must be in alphabetical order or be abbreviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from pipelines.parsing.pdf.cells import Cells, PageTable, header_rows, is_caption, is_figures
from pipelines.parsing.pdf.lines import Cellet, Line, cellets_of
from pipelines.parsing.pdf.page import PdfItem
from pipelines.parsing.pdf.rows import SAME_LEFT, goes_on, pitch

LEAST_SHORT, LEAST_SORTED = 3, 5
"""Fewest terms of a list of abbreviations, and of a list that is recognised by its order."""
LONGEST_TERM = 40
MOST_LINES = 300
MOST_ABOVE = 8
"""Most lines above the first line with a gap that may belong to its list."""
FAR = 3.2
"""Largest distance between lines of one list, in font sizes."""
NEAR = 1.5
"""Largest error, in font sizes, of the estimated position of a space within a piece: letters differ in width."""
SHORT = 0.8
"""Least share of abbreviations among the terms."""
SORTED = 0.9
"""Least share of neighbouring terms that are in alphabetical order."""


@dataclass(slots=True)
class _Entry:
    """A term, its meaning, and the indexes of its lines."""

    term: list[Cellet]
    meaning: list[Cellet]
    lines: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(cellet.text.strip() for cellet in self.term)


@dataclass(frozen=True, slots=True)
class TermList:
    """A list of terms. `entries` are the indexes of the lines of each; `table` has them as rows, with a header if the
    list has one."""

    entries: list[list[int]]
    table: PageTable


def terms_of(lines: Sequence[Line], start: int, blocked: set[int], floor: int = 0) -> TermList | None:
    """Return the list whose first line with a gap is line `start`, if there is one. Lines above it, from line `floor`
    on, belong to the list if their term leaves no gap."""
    first = lines[start]
    if len(first.cells) != 2 or first.rotated or first.mono or is_caption(first):
        return None
    left, right = first.x0, first.cells[1].x0
    entries: list[_Entry] = []
    at = start
    while at < min(len(lines), start + MOST_LINES) and at not in blocked:
        line = lines[at]
        if at > start and not (line.column == first.column and -2 <= pitch(lines[at - 1], line) < FAR * line.size):
            break
        parts = _parts(line, left, right)
        if parts is None:
            break
        _add(entries, parts, at)
        at += 1
    least = max(floor, start - MOST_ABOVE)
    while start > least and start - 1 not in blocked and pitch(lines[start - 1], lines[start]) < FAR * first.size:
        parts = _parts(lines[start - 1], left, right)
        if parts is None or not all(parts) or lines[start - 1].column != first.column:
            break
        start -= 1
        entries.insert(0, _Entry(*parts, [start]))
    rows: list[Cells] = [[(0, 1, entry.term), (1, 1, entry.meaning)] for entry in entries]
    headers = header_rows(rows, 2, ruled=False)
    if not _are_terms(entries[headers:]):
        return None
    end = max(cellet.x1 for entry in entries for cellet in entry.meaning)
    terms = max(cellet.x1 for entry in entries for cellet in entry.term)
    used = [i for entry in entries for i in entry.lines]
    return TermList([entry.lines for entry in entries], PageTable(rows, used, [left, terms, right, end], headers))


def _parts(line: Line, left: float, right: float) -> tuple[list[Cellet], list[Cellet]] | None:
    """Return the term and the meaning on a line, either of which may be empty; return None if no part begins where the
    meanings begin. A wide term may leave no gap."""
    if line.rotated or line.mono or is_caption(line):
        return None
    pieces = _cut_after_term([piece for cell in line.cells for piece in cell.pieces], right)
    term = [piece for piece in pieces if piece.x0 < right - SAME_LEFT]
    meaning = [piece for piece in pieces if piece.x0 >= right - SAME_LEFT]
    if not meaning or abs(meaning[0].x0 - right) > SAME_LEFT or any(piece.x1 > right for piece in term):
        return None
    if term and abs(term[0].x0 - left) > SAME_LEFT:
        return None
    own = cellets_of(term) if term else ()
    return (list(own), list(cellets_of(meaning))) if len(own) < 2 else None


def _cut_after_term(pieces: list[PdfItem], right: float) -> list[PdfItem]:
    """Return the pieces; the first one is cut if it joins an abbreviation and its meaning, since a layout library joins
    close words."""
    first = pieces[0]
    term, space, rest = first.text.partition(" ")
    if not space or not _is_abbreviation(term):
        return pieces
    width = (first.x1 - first.x0) / len(first.text)
    if abs(first.x0 + width * (len(term) + 1) - right) > NEAR * first.size:
        return pieces
    end = min(first.x0 + width * len(term), right)
    return [replace(first, text=term, x1=end), replace(first, text=rest, x0=right), *pieces[1:]]


def _add(entries: list[_Entry], parts: tuple[list[Cellet], list[Cellet]], at: int) -> None:
    """Add a line to the list: a new entry, or more of the last one."""
    term, meaning = parts
    last = entries[-1] if entries else None
    if last is not None and (not term or (_runs_on(last.term, term) and _runs_on(last.meaning, meaning))):
        last.term += term
        last.meaning += meaning
        last.lines.append(at)
    else:
        entries.append(_Entry(term, meaning, [at]))


def _runs_on(above: Sequence[Cellet], below: Sequence[Cellet]) -> bool:
    text = below[0].text.strip()
    return bool(above) and text[:1].islower() and not _is_abbreviation(text) and goes_on(above[-1].text, text)


def _are_terms(entries: Sequence[_Entry]) -> bool:
    """Say whether the left column is a list of terms: short, all different, without numbers or field names, and either
    abbreviations or in alphabetical order."""
    terms = [entry.text for entry in entries]
    if len(terms) < LEAST_SHORT or len(set(terms)) < len(terms) or max(map(len, terms)) > LONGEST_TERM:
        return False
    if any(term.endswith(":") or not any(map(str.isalpha, term)) for term in terms):
        return False
    meanings = [" ".join(cellet.text for cellet in entry.meaning) for entry in entries]
    if sum(map(is_figures, meanings)) or median(map(len, meanings)) <= median(map(len, terms)):
        return False
    if sum(map(_is_abbreviation, terms)) >= SHORT * len(terms):
        return True
    ordered = sum(a.casefold() <= b.casefold() for a, b in pairwise(terms))
    return len(terms) >= LEAST_SORTED and ordered >= SORTED * (len(terms) - 1)


def _is_abbreviation(term: str) -> bool:
    """Say whether a term is one word with at least two letters that are not lower case."""
    return len(term.split()) == 1 and sum(char.isalpha() and not char.islower() for char in term) > 1
