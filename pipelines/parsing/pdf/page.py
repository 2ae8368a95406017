"""What a page of a PDF gives: pieces of text with boxes and fonts, rulings, and the raw text.

Coordinates are PDF points from the top left. The pieces come from a layout library that straightens
quotes and dashes and may lose or rewrite a word; the raw text is PDFium's, complete. `restored`
gives each piece its own characters back and says what of the raw text no piece holds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from pipelines.parsing.cleaning import expand_ligatures
from pipelines.records import Block, Box

LEAST_COVERAGE = 0.99
LEAST_WORK, MOST_WORK = 20_000, 4
"""Steps of looking for the pieces of a page, and so many more for each of its characters."""
CHARACTERS_A_STEP = 256
TIERS = (40, 20, 12, 6, 1)
"""Longer pieces are matched first: a short one occurs in several places, also inside longer ones."""
LEAST_LINE = 20
"""Characters of a piece that is looked for in order; shorter ones stand closest to what precedes them."""
_HYPHENS = dict.fromkeys(map(ord, "\x02\xad\ufffe"), "-")
_STRAIGHT = str.maketrans(
    {
        **dict.fromkeys("\x02\xad\ufffe‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’‚‛ʼ′`´", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("•●▪◦‣∙■□►➢▶", "-"),
    }
)
_RAISED = re.compile(r"([®™©℠†‡*]|\(\d{1,2}\))")
"""Small signs above a line, which the raw text may have after all lines of the page."""
_SPACES = re.compile(r"(\s+)")
_LEAD = re.compile(r"[•●▪◦‣∙·■□►➢▶\-–—*\uf000-\uf0ff]\s+")
"""A bullet before its text; the raw text may have it elsewhere."""


@dataclass(frozen=True, slots=True)
class PdfItem:
    """A piece of one line. `tag` and `group` are those of a tagged PDF: the block-level
    structure element that holds the piece (`P`, `H1`, `LI`, `TD`, ...) and its number. A lone
    character with `symbol` is a sign of a symbol font under a letter's code: a bullet. `font` is
    the font's name, empty where it is not known; `hidden` is text in the colour of what is under it."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool = False
    italic: bool = False
    mono: bool = False
    rotated: bool = False
    tag: str | None = None
    group: int | None = None
    symbol: bool = False
    font: str = ""
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class PdfRule:
    """A straight ruling, horizontal or vertical."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class PdfPicture:
    """A picture, as far as it is on its page. `image_hash` is of its bytes as the file has them."""

    box: Box
    image_hash: str


@dataclass(frozen=True, slots=True)
class PdfGap:
    """A place in a line where a sentence may end: the right edge of the character before it, the left edge
    of the one after, and the middle of both in height."""

    y: float
    x_end: float
    x_start: float


@dataclass(frozen=True, slots=True)
class PdfPage:
    """`number` is 1-based. `blocks` are what stands on it besides its text: form fields, notes, and paragraphs that
    were typed onto it. `confidence` is under 1 where the text was recognised in a picture. `gaps` are in any order.
    A page is `turned` where all of this is given by half a turn, since the page is shown upside down."""

    number: int
    width: float
    height: float
    items: tuple[PdfItem, ...]
    rules: tuple[PdfRule, ...] = ()
    blocks: tuple[Block, ...] = ()
    confidence: float = 1.0
    pictures: tuple[PdfPicture, ...] = ()
    gaps: tuple[PdfGap, ...] = ()
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """Pieces in the characters of the raw text; pieces that the raw text does not have as they
    are; stretches of the raw text, squeezed of spaces, that no piece holds, with their offsets
    in the squeezed text; and the share of letters and digits held by the pieces."""

    items: tuple[PdfItem, ...]
    unmatched: tuple[PdfItem, ...]
    missing: tuple[tuple[int, str], ...]
    coverage: float


def squeezed(text: str) -> str:
    return "".join(text.split())


def _with_spaces_of(text: str, characters: str) -> str:
    """`characters` (no spaces) with spaces where `text` has them."""
    parts, at = [], 0
    for part in _SPACES.split(text):
        parts.append(part if part.isspace() else characters[at : at + len(part)])
        at += 0 if part.isspace() else len(part)
    return "".join(parts)


class _Matcher:
    """Finds pieces in the raw text, each stretch once, near where the last one ended."""

    def __init__(self, raw: str) -> None:
        self.words = expand_ligatures(raw).split()
        self.own = "".join(self.words)
        self.plain = self.own.translate(_STRAIGHT)
        self.taken: list[tuple[int, int]] = []
        self.left = LEAST_WORK + MOST_WORK * len(self.own)
        self.bounds: set[int] = set()

    def _bounded(self, start: int, end: int) -> bool:
        if not self.bounds:
            self.bounds = {0, *accumulate(map(len, self.words))}
        return start in self.bounds and end in self.bounds

    def _free(self, start: int, end: int) -> bool:
        at = bisect_left(self.taken, (start, start))
        if at < len(self.taken) and self.taken[at][0] < end:
            return False
        return at == 0 or self.taken[at - 1][1] <= start

    def find(self, wanted: str, near: int, whole: bool = False) -> int | None:
        """Take the first free occurrence from `near` on, else the first free one; with `whole`, only
        between spaces. None too once the page has been gone through so often that it holds its words
        in no order: what is not found is taken from the raw text."""
        at = self._after(wanted, near, whole)
        return self._take(self._after(wanted, 0, whole) if at is None else at, wanted)

    def nearest(self, wanted: str, near: int) -> int | None:
        """Take the free occurrence between spaces that is closest to `near`; None as of `find`."""
        at, before = self._after(wanted, near, True), self._before(wanted, near)
        closer = before is not None and (at is None or near - before - len(wanted) < at - near)
        return self._take(before if closer else at, wanted)

    def _take(self, at: int | None, wanted: str) -> int | None:
        if at is not None:
            self.taken.insert(bisect_left(self.taken, (at, at)), (at, at + len(wanted)))
        return at

    def _after(self, wanted: str, near: int, whole: bool) -> int | None:
        last, at = near, self.plain.find(wanted, near)
        while self._counted(last, at if at >= 0 else len(self.plain)) and at >= 0:
            if self._fits(at, at + len(wanted), whole):
                return at
            last, at = at, self.plain.find(wanted, at + 1)
        return None

    def _before(self, wanted: str, near: int) -> int | None:
        last, at = near, self.plain.rfind(wanted, 0, near)
        while self._counted(max(at, 0), last) and at >= 0:
            if self._fits(at, at + len(wanted), True):
                return at
            last, at = at, self.plain.rfind(wanted, 0, at + len(wanted) - 1)
        return None

    def _fits(self, start: int, end: int, whole: bool) -> bool:
        return (not whole or self._bounded(start, end)) and self._free(start, end)

    def _counted(self, begin: int, end: int) -> bool:
        """Whether there is work left after a look at so many characters."""
        self.left -= 1 + max(end - begin, 0) // CHARACTERS_A_STEP
        return self.left > 0

    def find_words(self, words: Sequence[str], near: int) -> str | None:
        """The words' own characters where every one of them is free somewhere, in any order: the
        raw text may go through a line in another order."""
        found: list[tuple[int, int]] = []
        for word in words:
            at = self.find(word, near, whole=True)
            if at is None:
                for place in found:
                    del self.taken[bisect_left(self.taken, place)]
                return None
            found.append((at, at + len(word)))
        return "".join(self.own[start:end] for start, end in found)

    def gaps(self) -> list[tuple[int, str]]:
        found, last = [], 0
        for start, end in [*self.taken, (len(self.own), len(self.own))]:
            if start > last:
                found.append((last, self.own[last:start]))
            last = max(last, end)
        return found


def _held(text: str) -> int:
    return sum(map(str.isalnum, text))


def _lead(text: str) -> str:
    match = _LEAD.match(text)
    return match.group() if match else ""


def _matched(matcher: _Matcher, texts: Sequence[str]) -> list[str | None]:
    """Each text's own characters, without spaces: long texts are matched first, in order, then
    short ones closest to the text before them, then what is left word by word."""
    wanted = [squeezed(text.translate(_STRAIGHT)) for text in texts]
    found: list[str | None] = [None] * len(texts)
    ends = [0] * len(texts)
    for least in TIERS:
        near = 0
        for index, text in enumerate(wanted):
            if len(text) >= least and found[index] is None:
                place = matcher.nearest(text, near) if least < LEAST_LINE else None
                place = matcher.find(text, near) if place is None else place
                if place is not None:
                    ends[index] = place + len(text)
                    found[index] = matcher.own[place : ends[index]]
                elif least >= LEAST_LINE and (lowered := _without_raised(matcher, text, near)) is not None:
                    found[index], ends[index] = lowered
            near = ends[index] if found[index] is not None else near
    near = 0
    for index, whole in enumerate(texts):
        if found[index] is None:
            found[index] = matcher.find_words(whole.translate(_STRAIGHT).split(), max(0, near - 200))
        near = ends[index] or near
    return found


def _without_raised(matcher: _Matcher, text: str, near: int) -> tuple[str, int] | None:
    """A line's own characters, and where it ends, where the raw text has its raised signs elsewhere; these stay."""
    bare = _RAISED.sub("", text)
    place = matcher.find(bare, near) if LEAST_LINE <= len(bare) < len(text) else None
    if place is None:
        return None
    end = place + len(bare)
    own, at = [], place
    for part in _RAISED.split(text):
        own.append(part if _RAISED.fullmatch(part) else matcher.own[at : at + len(part)])
        at += 0 if _RAISED.fullmatch(part) else len(part)
    for sign in _RAISED.findall(text):
        matcher.find(sign, end)
    return "".join(own), end


def restored(items: Sequence[PdfItem], raw: str) -> Restored:
    """The pieces in their own characters, and what is missing; see `Restored`."""
    matcher = _Matcher(raw)
    heads = [_lead(item.text) for item in items]
    bodies = [expand_ligatures(item.text[len(head) :]) for item, head in zip(items, heads, strict=True)]
    kept, unmatched = [], []
    for item, head, body, own in zip(items, heads, bodies, _matched(matcher, bodies), strict=True):
        if own is None:
            unmatched.append(item)
        else:
            kept.append(replace(item, text=head + _with_spaces_of(body, own.translate(_HYPHENS))))
    missing = tuple((at, text) for at, text in matcher.gaps() if _held(text))
    total = _held(matcher.own)
    lost = sum(_held(text) for _, text in missing)
    return Restored(tuple(kept), tuple(unmatched), missing, 1.0 if not total else 1 - lost / total)
