"""Excerpts of passages for people: a few lines around the match, and the words of the question in them.

Words are compared in the same way as in the index, so other forms of a word are found too. All work is linear in the
length of the passage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipelines.defused_text import visible_text
from pipelines.terms import terms_in_place, terms_of

LINES, WIDTH = 3, 88
"""Lines of an excerpt, and characters of a line: the full width of a hit on the page."""
_GAP = 3
"""Most characters of space between two marked words that are marked too."""

Line = tuple[int, int, int]
"""The position of a displayed line: start, end, and the number of its line in the text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text; `marked` is true if it consists of words of the question."""

    text: str
    marked: bool = False


def asked_terms(question: str, also: Iterable[str] = ()) -> frozenset[str]:
    """Return the terms to mark for a question: those of its content words and of the texts that were `also` searched
    for. If it has no content words, all its words are marked."""
    from pipelines.query.support import content_terms

    asked = content_terms(question) or terms_of(question)
    return frozenset(asked).union(*map(content_terms, also))


def pieces(text: str, wanted: Collection[str]) -> tuple[Piece, ...]:
    """Return a text in pieces, divided at the start and end of words with wanted terms."""
    spans: list[list[int]] = []
    for start, end, terms in terms_in_place(text):
        if not any(term in wanted for term in terms):
            continue
        gap = start - spans[-1][1] if spans else _GAP + 1
        if gap <= 0 or (gap <= _GAP and text[start - gap : start].isspace()):
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    found, at = [], 0
    for start, end in spans:
        found += [Piece(text[at:start]), Piece(text[start:end], marked=True)]
        at = end
    return tuple(piece for piece in [*found, Piece(text[at:])] if piece.text)


# ---------------------------------------------------------------- lines around the match


def excerpt(
    text: str,
    wanted: Collection[str],
    headings: Iterable[str] = (),
    match: tuple[int, int] | None = None,
    lines: int = LINES,
    width: int = WIDTH,
) -> str:
    """Return the lines around the match, at most `lines` of at most `width` characters, with an ellipsis where the text
    continues.

    `match` is the start and end of the matching part; without it, the lines with most of the wanted terms are chosen.
    Headings at the start of the text are left out, since they are shown above it.
    """
    start = _after_headings(text, headings)
    displayed = _displayed_lines(text, start, width)
    if not displayed:
        return ""
    first = _first(text, displayed, wanted, match, lines)
    shown = displayed[first : first + lines]
    kept = [list(same) for _, same in groupby(shown, key=lambda line: line[2])]
    said = "\n".join(text[same[0][0] : same[-1][1]] for same in kept)
    before, after = "… " if first else "", " …" if first + lines < len(displayed) else ""
    return f"{before}{visible_text(said).strip()}{after}"


def _after_headings(text: str, headings: Iterable[str]) -> int:
    """Return the offset after the headings at the start of the text; return 0 if the text has only headings."""
    known = {_fold(heading) for heading in headings}
    at = 0
    for line in text.splitlines(keepends=True):
        if line.strip() and _fold(line) not in known:
            return at
        at += len(line)
    return 0


def _fold(heading: str) -> str:
    return " ".join(heading.split()).casefold()


def _displayed_lines(text: str, start: int, width: int) -> list[Line]:
    """Return the displayed lines of a text from `start` on: blank lines are left out, and long lines are divided,
    between words if possible."""
    found: list[Line] = []
    at = start
    for number, line in enumerate(text[start:].splitlines(keepends=True)):
        first = at + len(line) - len(line.lstrip())
        last = at + len(line.rstrip())
        at += len(line)
        while last - first > width:
            cut = text.rfind(" ", first, first + width + 1)
            cut = cut if cut > first else first + width
            found.append((first, cut, number))
            while cut < last and text[cut].isspace():
                cut += 1
            first = cut
        if first < last:
            found.append((first, last, number))
    return found


def _first(
    text: str, displayed: Sequence[Line], wanted: Collection[str], match: tuple[int, int] | None, count: int
) -> int:
    """Return the number of the first line to show.

    The whole match is shown if it fits. Among several possible positions, the one with most of the wanted terms is
    chosen; on a tie, one that begins with a line of the text, or has most terms in its middle.
    """
    last = max(len(displayed) - count, 0)
    low, high = 0, last
    inside = [at for at, (start, end, _) in enumerate(displayed) if match and start < match[1] and end > match[0]]
    if inside and len(inside) <= count:
        low, high = max(inside[-1] - count + 1, 0), min(inside[0], last)
    elif inside:
        low, high = inside[0], inside[-1] - count + 1
    if low >= high:
        return min(low, last)
    own = {
        at: {term for term in terms_of(text[start:end]) if term in wanted}
        for at, (start, end, _) in enumerate(displayed[low : high + count], start=low)
    }
    middle = count // 2

    def worth(first: int) -> tuple[int, bool, int]:
        near = [own[at] for at in range(first, first + count) if at in own]
        begins = first == 0 or displayed[first][2] != displayed[first - 1][2]
        return len(set().union(*near)), begins, len(own.get(first + middle, ()))

    return max(range(low, high + 1), key=worth)
