"""The content of a PDF page: pieces of text with boxes and reliable fonts, rulings, and the raw text.

Coordinates are PDF points from the top left. The pieces come from a layout library that straightens quotes and dashes
and may lose or rewrite a word; the raw text is PDFium's, complete. `restore` gives each piece its original characters
and returns the parts of the raw text that are in no piece. Monospaced fonts are recognised by their widths, since font
names are unreliable.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import quantiles
from unicodedata import category

from pipelines.parsing.cleaning import expand_ligatures
from pipelines.parsing.raised import lower_text, raise_text
from pipelines.records import Block, Box

# ---------------------------------------------------------------- page and its own characters


LEAST_COVERAGE = 0.99
LEAST_WORK, MOST_WORK = 20_000, 4
"""Most steps of matching the pieces of a page: a base, and further steps for each character, so that the work stays
linear."""
CHARACTERS_A_STEP = 256
TIERS = (40, 20, 12, 6, 1)
"""Fewest characters of the pieces matched in each round. Longer pieces are matched first, since a short one may occur
several times, also inside longer ones."""
LEAST_LINE = 20
"""Fewest characters of a piece that is matched in order. Shorter pieces are matched nearest to the text before them."""
_HYPHENS = dict.fromkeys(map(ord, "\x02\xad\ufffe"), "-")
RAISED, LOWERED, _MOST_MARKED = 0xF5000, 0xF6000, 0x80
"""Code points that replace raised and lowered characters during matching: the first of each kind, and their number."""
_MARKED: dict[int, int | str] = {first + code: code for first in (RAISED, LOWERED) for code in range(_MOST_MARKED)}
_SIGNS = _MARKED | {RAISED + ord(sign): raise_text(sign) for sign in "0123456789"}
_RUN_OF_MARKED = re.compile("([\U000f5000-\U000f507f]++)|[\U000f6000-\U000f607f]++")
_STRAIGHT = {
    **_MARKED,
    **dict.fromkeys(map(ord, "\x02\xad\ufffe‐‑‒–—―−"), "-"),
    **dict.fromkeys(map(ord, "‘’‚‛ʼ′`´"), "'"),
    **dict.fromkeys(map(ord, "“”„‟″"), '"'),
    **dict.fromkeys(map(ord, "•●▪◦‣∙■□►➢▶"), "-"),
}
_RAISED = re.compile(r"([®™©℠†‡*]|\(\d{1,2}\))")
"""Pattern of small raised signs on a line; the raw text may have them after all lines of the page."""
_SPACES = re.compile(r"(\s+)")
_LEAD = re.compile(r"[•●▪◦‣∙·■□►➢▶\-–—*\uf000-\uf0ff]\s+")
"""Pattern of a bullet before its text; the raw text may have it in another position."""


@dataclass(frozen=True, slots=True)
class PdfItem:
    """A piece of one line. `tag` and `group` come from a tagged PDF: the block-level structure element that holds the
    piece (`P`, `H1`, `LI`, `TD`, ...) and its number. `symbol` marks a single character of a symbol font that is
    encoded as a letter: a bullet. `font` is the font's name, empty if unknown; `hidden` text may have the colour of its
    background, which the rendered page decides; `vertical` text runs from top to bottom. `at` is the piece's position
    in the order in which the file draws text, or None if unknown."""

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
    vertical: bool = False
    at: int | None = None


@dataclass(frozen=True, slots=True)
class PdfRule:
    """A straight ruling, horizontal or vertical, or the `edge` of a coloured area."""

    x0: float
    y0: float
    x1: float
    y1: float
    edge: bool = False


@dataclass(frozen=True, slots=True)
class PdfPicture:
    """The visible part of a picture on its page. `image_hash` is the hash of the picture's bytes in the file."""

    box: Box
    image_hash: str


@dataclass(frozen=True, slots=True)
class PdfGap:
    """A place in a line where a sentence may end: the right edge of the character before it, the left edge of the
    character after it, and the vertical middle of both."""

    y: float
    x_end: float
    x_start: float


@dataclass(frozen=True, slots=True)
class Turn:
    """A direction of text: clockwise quarter turns from upright, and whether the result is mirrored."""

    quarters: int
    mirrored: bool = False


UPRIGHT = Turn(0)


@dataclass(frozen=True, slots=True)
class PdfPage:
    """The content of one page. `number` is 1-based. `blocks` are its contents other than text: form fields, notes, and
    paragraphs that were typed onto it. `confidence` is under 1 if the text was recognised in a picture. `gaps` are in
    any order. If most text is not upright, the content is given as rotated to make the text upright, and `turn` has the
    original direction. `parts` holds the text of each other direction, as separate pages."""

    number: int
    width: float
    height: float
    items: tuple[PdfItem, ...]
    rules: tuple[PdfRule, ...] = ()
    blocks: tuple[Block, ...] = ()
    confidence: float = 1.0
    pictures: tuple[PdfPicture, ...] = ()
    gaps: tuple[PdfGap, ...] = ()
    turn: Turn = UPRIGHT
    parts: tuple[PdfPage, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of matching pieces with the raw text: pieces with the characters of the raw text; unchanged pieces
    that the raw text lacks; parts of the raw text that are in no piece, without spaces, with their offsets in the text
    without spaces; and the share of letters and digits that the pieces have."""

    items: tuple[PdfItem, ...]
    unmatched: tuple[PdfItem, ...]
    missing: tuple[tuple[int, str], ...]
    coverage: float


def squeeze(text: str) -> str:
    return "".join(text.split())


def _with_spaces_of(text: str, characters: str) -> str:
    """Return `characters` (no spaces) with spaces where `text` has them."""
    parts, at = [], 0
    for part in _SPACES.split(text):
        parts.append(part if part.isspace() else characters[at : at + len(part)])
        at += 0 if part.isspace() else len(part)
    return "".join(parts)


def as_signs(text: str) -> str:
    """Return a text in which each marked character is one plain or raised character, so that offsets do not change."""
    return text.translate(_SIGNS)


def written_out(text: str) -> str:
    """Return a text with its marked characters as raised and lowered ones: 10⁶, H₂O."""
    return _RUN_OF_MARKED.sub(lambda run: (raise_text if run[1] else lower_text)(run[0].translate(_MARKED)), text)


class _Matcher:
    """A search for pieces in the raw text that uses each part of it once, and begins near the end of the last match."""

    def __init__(self, raw: str) -> None:
        self.words = expand_ligatures(raw).split()
        self.own = "".join(self.words)
        self.plain = self.own.translate(_STRAIGHT)
        self.taken: list[tuple[int, int]] = []
        self.left = LEAST_WORK + MOST_WORK * len(self.own)
        self.bounds: set[int] = set()

    def _is_bounded(self, start: int, end: int) -> bool:
        if not self.bounds:
            self.bounds = {0, *accumulate(map(len, self.words))}
        return start in self.bounds and end in self.bounds

    def _free(self, start: int, end: int) -> bool:
        at = bisect_left(self.taken, (start, start))
        if at < len(self.taken) and self.taken[at][0] < end:
            return False
        return at == 0 or self.taken[at - 1][1] <= start

    def find(self, wanted: str, near: int, whole: bool = False) -> int | None:
        """Take the first free occurrence from `near` on, or else the first free one; with `whole`, only between spaces.
        Return None if there is no occurrence, or if the limit of work is reached, as on a page with its words in random
        order. Text that is not found is later taken from the raw text."""
        at = self._find_after(wanted, near, whole)
        return self._take(self._find_after(wanted, 0, whole) if at is None else at, wanted)

    def nearest(self, wanted: str, near: int) -> int | None:
        """Take the free occurrence between spaces that is nearest to `near`; return None in the cases of `find`."""
        at, before = self._find_after(wanted, near, True), self._find_before(wanted, near)
        closer = before is not None and (at is None or near - before - len(wanted) < at - near)
        return self._take(before if closer else at, wanted)

    def _take(self, at: int | None, wanted: str) -> int | None:
        if at is not None:
            self.taken.insert(bisect_left(self.taken, (at, at)), (at, at + len(wanted)))
        return at

    def _find_after(self, wanted: str, near: int, whole: bool) -> int | None:
        last, at = near, self.plain.find(wanted, near)
        while self._count_look(last, at if at >= 0 else len(self.plain)) and at >= 0:
            if self._fits(at, at + len(wanted), whole):
                return at
            last, at = at, self.plain.find(wanted, at + 1)
        return None

    def _find_before(self, wanted: str, near: int) -> int | None:
        last, at = near, self.plain.rfind(wanted, 0, near)
        while self._count_look(max(at, 0), last) and at >= 0:
            if self._fits(at, at + len(wanted), True):
                return at
            last, at = at, self.plain.rfind(wanted, 0, at + len(wanted) - 1)
        return None

    def _fits(self, start: int, end: int, whole: bool) -> bool:
        return (not whole or self._is_bounded(start, end)) and self._free(start, end)

    def _count_look(self, begin: int, end: int) -> bool:
        """Count the characters from `begin` to `end` as work, and say whether any work is left."""
        self.left -= 1 + max(end - begin, 0) // CHARACTERS_A_STEP
        return self.left > 0

    def find_words(self, words: Sequence[str], near: int) -> str | None:
        """Return the words' own characters if each word is free somewhere, in any order, since the raw text may have
        the words of a line in another order."""
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


def _count_held(text: str) -> int:
    return sum(map(str.isalnum, text))


def _lead(text: str) -> str:
    match = _LEAD.match(text)
    return match.group() if match else ""


def _match(matcher: _Matcher, texts: Sequence[str]) -> list[tuple[str | None, int | None]]:
    """Return the original characters of each text, without spaces, and their offset in the raw text. Long texts are
    matched first, in order; then short ones, nearest to the text before them; then the others word by word, without an
    offset."""
    wanted = [squeeze(text.translate(_STRAIGHT)) for text in texts]
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
                elif least >= LEAST_LINE and (bare := _without_raised(matcher, text, near)) is not None:
                    found[index], ends[index] = bare
            near = ends[index] if found[index] is not None else near
    near = 0
    for index, whole in enumerate(texts):
        if found[index] is None:
            found[index] = matcher.find_words(whole.translate(_STRAIGHT).split(), max(0, near - 200))
        near = ends[index] or near
    return [(own, end - len(own) if own and end else None) for own, end in zip(found, ends, strict=True)]


def _without_raised(matcher: _Matcher, text: str, near: int) -> tuple[str, int] | None:
    """Return a line's original characters and end offset if the raw text has the line's raised signs elsewhere. The
    signs stay in the line."""
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


def restore(items: Sequence[PdfItem], raw: str) -> Restored:
    """Return the pieces with their original characters, and the missing text; see `Restored`."""
    matcher = _Matcher(raw)
    heads = [_lead(item.text) for item in items]
    bodies = [expand_ligatures(item.text[len(head) :]) for item, head in zip(items, heads, strict=True)]
    kept, unmatched = [], []
    for item, head, body, (own, at) in zip(items, heads, bodies, _match(matcher, bodies), strict=True):
        if own is None:
            unmatched.append(item)
        else:
            kept.append(replace(item, text=head + _with_spaces_of(body, own.translate(_HYPHENS)), at=at))
    missing = tuple((at, text) for at, text in matcher.gaps() if _count_held(text))
    total = _count_held(matcher.own)
    lost = sum(_count_held(text) for _, text in missing)
    return Restored(tuple(kept), tuple(unmatched), missing, 1.0 if not total else 1 - lost / total)


# ---------------------------------------------------------------- fonts


LEAST_PIECES = 8
ENOUGH_PIECES = 300
LEAST_LETTERS = 4
MOST_SPREAD = 0.03
NARROW = frozenset("iljtfr.,:;'|!()[]I1")
"""Letters that any proportional font sets narrower than other letters."""


def _mixes(text: str) -> bool:
    """Say whether the share of narrow letters in a text is low or high enough for its width to show whether the font is
    proportional."""
    narrow = sum(char in NARROW for char in text) / len(text)
    return narrow < 0.15 or narrow > 0.4


def monospaced_fonts(pages: Sequence[PdfPage]) -> frozenset[str]:
    """Return the names of the fonts whose pieces all have one width per character, relative to their size."""
    widths: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, set[bool]] = defaultdict(set)
    for page in pages:
        for item in page.items:
            text = item.text.strip()
            known = len(widths[item.font]) >= ENOUGH_PIECES or not item.font or item.rotated
            if not known and len(text) >= LEAST_LETTERS and item.size > 0:
                widths[item.font].append((item.x1 - item.x0) / (len(text) * item.size))
                if _mixes(text):
                    kinds[item.font].add(sum(char in NARROW for char in text) / len(text) > 0.4)
    return frozenset(font for font, found in widths.items() if len(kinds[font]) == 2 and _are_even(found))


def _are_even(widths: Sequence[float]) -> bool:
    if len(widths) < LEAST_PIECES:
        return False
    tenths = quantiles(widths, n=10)
    return tenths[-1] - tenths[0] <= MOST_SPREAD * tenths[4]


def with_monospace(pages: Sequence[PdfPage]) -> list[PdfPage]:
    """Return the pages, with pieces in monospaced fonts marked."""
    fonts = monospaced_fonts(pages)
    if not fonts:
        return list(pages)
    return [
        replace(page, items=tuple(replace(i, mono=True) if i.font in fonts and not i.mono else i for i in page.items))
        for page in pages
    ]


_VOWELS = frozenset("aeiouyáéíóúàèìòùâêîôûäëïöüåæøœãõýаеиіоуяюєїёыэαεηιουωάέήίόύώ")
_WORD = re.compile(r"[^\W\d_]{3,}")
MOST_STRANGE = 0.1
LEAST_WORDS = 4
LEAST_VOWELLED = 0.6


def is_readable(text: str) -> bool:
    """Say whether text in a font without a Unicode map was decoded correctly: it has no control or private characters,
    and its words have vowels if their alphabet writes vowels."""
    solid = [char for char in text if not char.isspace()]
    strange = sum(category(char) in ("Cc", "Co", "Cn", "Cs") or char == "\ufffd" for char in solid)
    if strange > MOST_STRANGE * len(solid):
        return False
    words = [word for word in _WORD.findall(text.casefold()) if _writes_vowels(word)]
    vowelled = sum(any(char in _VOWELS for char in word) for word in words)
    return len(words) < LEAST_WORDS or vowelled >= LEAST_VOWELLED * len(words)


def _writes_vowels(word: str) -> bool:
    return all(char < "\u0530" for char in word)
