"""Which lines of a PDF are running headers, footers and page numbers: text that repeats at the edges of pages.

A line is such furniture if it is among the outermost lines of its page, at the same height and with the same words as
on other pages close by, and its numbers are the same or go up with the page. A line that merely happens to begin
several pages is not: its pages do not follow each other.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from pipelines.parsing.pdf.lines import Line

EDGE_LINES = 4
EDGE_SHARE = 0.14
SAME_HEIGHT = 9.0
LEAST_DENSITY = 0.6
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]{1,7}", re.IGNORECASE | re.ASCII)
_ROMAN_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_SELF_EVIDENT = re.compile(r"(page|стор(інка|\.)?|с\.|страница|стр\.?|seite)\s*\d+(\s*(of|/|з|із|из|von)\s*\d+)?", re.I)

Key = tuple[str, str]
"""Edge (`page_header` or `page_footer`), and the words with numbers replaced by `#`."""
Sighting = tuple[int, int, float, tuple[int, ...]]
"""Page, index of the line on its page, distance from the edge in points, and the numbers in it."""


def _roman(text: str) -> int:
    values = [_ROMAN_VALUES[char] for char in text.lower()]
    return sum(-v if v < max(values[i + 1 :], default=0) else v for i, v in enumerate(values))


def _normal(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the words without their numbers, and the numbers; a lone Roman numeral is a number."""
    bare = " ".join(text.split()).casefold()
    if _ROMAN.fullmatch(bare.strip("-–— ")):
        return "#", (_roman(bare.strip("-–— ")),)
    return _NUMBER.sub("#", bare), tuple(int(n[:9]) for n in _NUMBER.findall(bare))


def _edges(lines: Sequence[Line], height: float) -> Iterable[tuple[str, int]]:
    """Yield the edge and index of the outermost lines of a page that are in or near its margins."""
    order = sorted((i for i, line in enumerate(lines) if not line.rotated), key=lambda i: lines[i].y0)
    for index in order[:EDGE_LINES]:
        if lines[index].y1 < height * EDGE_SHARE:
            yield "page_header", index
    for index in order[::-1][:EDGE_LINES]:
        if lines[index].y0 > height * (1 - EDGE_SHARE):
            yield "page_footer", index


def _clusters(sightings: list[Sighting]) -> Iterable[list[Sighting]]:
    """Group sightings by height."""
    rest = sorted(sightings, key=lambda sighting: sighting[2])
    while rest:
        near = [s for s in rest if s[2] - rest[0][2] <= SAME_HEIGHT]
        yield near
        rest = rest[len(near) :]


def _counts_pages(sightings: Sequence[Sighting]) -> bool:
    """Say whether every number is the same on all pages, or goes up with the page."""
    for position in range(len(sightings[0][3])):
        values = [s[3][position] for s in sightings]
        offsets = {s[3][position] - s[0] for s in sightings}
        if len(set(values)) > 1 and len(offsets) > max(1, len(values) // 10):
            return False
    return True


def _dense(pages: Sequence[int], total: int) -> bool:
    """Say whether the pages follow each other, every one or every other one."""
    if len(pages) < (2 if total <= 4 else 3):
        return False
    step = 2 if all((b - a) % 2 == 0 for a, b in pairwise(pages)) else 1
    reach = (pages[-1] - pages[0]) / step + 1
    return len(pages) / reach >= LEAST_DENSITY


def _is_furniture(key: Key, found: Sequence[Sighting], total: int) -> bool:
    pages = sorted({page for page, *_ in found})
    if not _counts_pages(found):
        return False
    if key[1].strip("-–—|. ") == "#":
        moving = len({s[3] for s in found}) > 1
        return len(pages) >= 2 and moving and (_dense(pages, total) or len(pages) >= 3)
    return _dense(pages, total)


def furniture_of(pages: Sequence[Sequence[Line]], heights: Sequence[float]) -> dict[tuple[int, int], str]:
    """Map (position of the page, index of the line) to `page_header` or `page_footer`."""
    seen: dict[Key, list[Sighting]] = defaultdict(list)
    for at, (lines, height) in enumerate(zip(pages, heights, strict=True)):
        for edge, index in _edges(lines, height):
            words, numbers = _normal(lines[index].text)
            y = lines[index].y0 if edge == "page_header" else height - lines[index].y1
            seen[edge, words].append((at, index, y, numbers))
    found: dict[tuple[int, int], str] = {}
    for key, sightings in seen.items():
        for cluster in _clusters(sightings):
            evident = _SELF_EVIDENT.fullmatch(pages[cluster[0][0]][cluster[0][1]].text.strip())
            if evident or _is_furniture(key, cluster, len(pages)):
                found.update({(page, index): key[0] for page, index, *_ in cluster})
    found |= _numbered_slots(pages, heights)
    return _with_text_left(_contiguous(found, pages, heights), pages)


def _with_text_left(found: dict[tuple[int, int], str], pages: Sequence[Sequence[Line]]) -> dict[tuple[int, int], str]:
    """Return the furniture, except on pages without other text if these are most pages. Slides and certificates have
    only such lines, so these are their text; page numbers stay furniture."""
    marked = Counter(page for page, _ in found)
    bare = {at for at, lines in enumerate(pages) if lines and marked[at] == len(lines)}
    if 2 * len(bare) <= sum(map(bool, pages)):
        return found

    def is_number(page: int, index: int) -> bool:
        text = pages[page][index].text.strip()
        return bool(_SELF_EVIDENT.fullmatch(text)) or _normal(text)[0].strip("-–—|. ") == "#"

    return {place: edge for place, edge in found.items() if place[0] not in bare or is_number(*place)}


def _page_number(text: str) -> int | None:
    """Return the number at one end of a line, or None. Roman numerals are made negative, so that they come before all
    others."""
    words = [word.strip("-–—|. ") for word in text.split()]
    ends = (words[-1], words[0]) if words else ()
    for word in ends:
        if word.isdecimal() and len(word) < 5:
            return int(word)
    for word in ends:
        if _ROMAN.fullmatch(word):
            return _roman(word) - 1000
    return None


def _numbered_slots(pages: Sequence[Sequence[Line]], heights: Sequence[float]) -> dict[tuple[int, int], str]:
    """Map lines as `furniture_of` does: outermost lines at one height on most pages that end or begin with a number
    that grows from page to page, whatever their words: `Chapter 3. Access control  15`."""
    slots: dict[str, list[Sighting]] = defaultdict(list)
    for at, (lines, height) in enumerate(zip(pages, heights, strict=True)):
        outermost: set[str] = set()
        for edge, index in _edges(lines, height):
            number = _page_number(lines[index].text)
            if edge not in outermost and number is not None:
                y = lines[index].y0 if edge == "page_header" else height - lines[index].y1
                slots[edge].append((at, index, y, (number,)))
            outermost.add(edge)
    found: dict[tuple[int, int], str] = {}
    for edge, sightings in slots.items():
        for cluster in _clusters(sightings):
            ordered = sorted(cluster)
            grows = sum(a[3] < b[3] for a, b in pairwise(ordered))
            if len(ordered) >= max(3, len(pages) / 2) and grows >= 0.9 * (len(ordered) - 1):
                found.update({(page, index): edge for page, index, *_ in ordered})
    return found


def _contiguous(
    found: dict[tuple[int, int], str], pages: Sequence[Sequence[Line]], heights: Sequence[float]
) -> dict[tuple[int, int], str]:
    """Keep only lines with nothing except furniture between them and the edge of the page."""
    kept: dict[tuple[int, int], str] = {}
    for at, lines in enumerate(pages):
        order = sorted((i for i, line in enumerate(lines) if not line.rotated), key=lambda i: lines[i].y0)
        for edge, indexes in (("page_header", order), ("page_footer", order[::-1])):
            for index in indexes:
                if found.get((at, index)) != edge:
                    break
                kept[at, index] = edge
    return kept
