"""The raised and lowered figures of a PDF page: powers, units, formulas of substances, references to notes.

The text of a page has them as plain digits. They are recognised by their boxes: smaller than the adjacent character
before them, and higher or lower. Only figures and signs after a letter, a mark or another figure are examined, since
reading every box would halve the speed of parsing.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

from pipelines.parsing.pdf.page import LOWERED, RAISED

_NUMBER = re.compile(r"\d[\d.,]*+", re.ASCII)
_SIGNS = "+−–-"
_MARKS, _CLOSING = ".,;:!?\"'", ")]%”’»"
_FIGURES = re.compile(r"[\d+−–-]+(?:,\d+)*", re.ASCII)
_FRACTION = ("/", "⁄")
_PLAIN = {"−": "-", "–": "-"}
SMALLER = 0.86
"""Largest height of a raised or lowered figure, as a share of the height of its character."""
HIGHER = 0.16
LOWER = 0.04
"""Least distances of the foot of a raised and of a lowered figure from the line, as shares of the height. A smaller
figure on the line itself has its foot slightly above it."""
NEAR = 0.35
"""Largest distance of a figure from its character, as a share of the height; a figure farther away is a separate
word."""
MOST = 8
"""Most characters of a power or a reference."""

_Box = tuple[float, float, float, float]


def mark_scripts(textpage: Any, raw: str, index_of: Callable[[int], int]) -> str:
    """Return the raw text of a page with its raised and lowered figures marked, character by character
    (`pipelines.parsing.pdf.page.written_out`). `index_of` gives PDFium's index of a character."""
    found: dict[int, str] = {}
    read = _reader(textpage, raw, index_of)
    for number in _NUMBER.finditer(raw):
        first, end = number.start(), number.start() + len(number[0].rstrip(".,"))
        start = first - (raw[first - 1 : first] in _SIGNS if first else 0)
        if _may_belong(raw, start, first):
            _mark(found, raw, start, read)
        if first not in found and end - first > 1:
            high, last = SMALLER * _height(read(first)), end - 1
            while first < last > end - MOST and _height(read(last)) < high:
                last -= 1
            if last < end - 1:
                _mark(found, raw, last + 1, read)
    if not found:
        return raw
    return "".join(found.get(at, char) for at, char in enumerate(raw))


def _may_belong(raw: str, start: int, first: int) -> bool:
    """Say whether figures, including a sign at `start`, directly follow a letter or mark. Signs may also follow a
    ten."""
    before, second = raw[start - 1 : start], raw[start - 2 : start - 1] if start > 1 else ""
    if start < first:
        return before.isalpha() or (second, before) == ("1", "0")
    return before.isalpha() or (before != "" and (before in _CLOSING or (before in _MARKS and second.isalpha())))


def _mark(found: dict[int, str], raw: str, start: int, read: Callable[[int], _Box | None]) -> None:
    """Mark the figures from `start` on that are raised or lowered relative to the character before them."""
    base = read(start - 1)
    figures = _FIGURES.match(raw, start, start + MOST)
    if base is None or figures is None:
        return
    before, kind, end = base, 0, start
    for at in range(start, figures.end()):
        box = read(at)
        own = _kind(base, before, box) if box is not None else 0
        if box is None or not own or kind not in (0, own):
            break
        before, kind, end = box, own, at + 1
    if not kind or raw[end : end + 3].lstrip()[:1] in _FRACTION or not any(char.isdigit() for char in raw[start:end]):
        return
    first = RAISED if kind > 0 else LOWERED
    found.update((at, chr(first + ord(_PLAIN.get(raw[at], raw[at])))) for at in range(start, end))


def _height(box: _Box | None) -> float:
    return box[3] - box[1] if box is not None else 0.0


def _kind(base: _Box, before: _Box, box: _Box) -> int:
    """Return 1 for a raised figure, -1 for a lowered one, and 0 for an ordinary one."""
    high = _height(base)
    if not 0 < _height(box) < SMALLER * high or not -0.2 * high < box[0] - before[2] < NEAR * high:
        return 0
    foot = (box[1] - base[1]) / high
    return 1 if foot > HIGHER else -1 if foot < -LOWER else 0


def _reader(textpage: Any, raw: str, index_of: Callable[[int], int]) -> Callable[[int], _Box | None]:
    """Return a function that reads the box of the character at an offset of the text: left, foot, right, head."""
    import pypdfium2.raw as pdfium

    area = pdfium.FS_RECTF()
    to, read_box, code_of = ctypes.byref(area), pdfium.FPDFText_GetLooseCharBox, pdfium.FPDFText_GetUnicode

    def read(at: int) -> _Box | None:
        index = index_of(at)
        if at < 0 or index < 0 or code_of(textpage.raw, index) != ord(raw[at]):
            return None
        if not read_box(textpage.raw, index, to):
            return None
        return area.left, area.bottom, area.right, area.top

    return read
