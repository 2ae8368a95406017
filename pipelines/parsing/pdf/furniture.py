"""The furniture of PDF pages: running headers and footers, page numbers, watermarks and line numbers.

A line is furniture if it is one of the outermost lines of its page and has the same height and words on nearby pages,
and its numbers are the same or grow with the page number. A line that happens to begin several pages is not furniture
if those pages do not follow each other. A numbered heading that begins every page is not furniture either: it is larger
than the text or begins with a word such as `Part`, and its text follows it.

Watermarks and line numbers are removed before lines are formed, since they are mixed with the words of lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from pipelines.parsing.pdf.headings import KEYWORD
from pipelines.parsing.pdf.lines import Line
from pipelines.parsing.pdf.page import PdfItem, PdfPage

EDGE_LINES = 4
EDGE_SHARE = 0.14
SAME_HEIGHT = 9.0
LEAST_DENSITY = 0.6
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]{1,7}", re.IGNORECASE | re.ASCII)
_ROMAN_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_SELF_EVIDENT = re.compile(r"(page|стор(інка|\.)?|с\.|страница|стр\.?|seite)\s*\d+(\s*(of|/|з|із|из|von)\s*\d+)?", re.I)

Key = tuple[str, str]
"""Edge (`page_header` or `page_footer`), and the line's words with numbers replaced by `#`."""
Sighting = tuple[int, int, float, tuple[int, ...]]
"""Page, index of the line on its page, distance from the edge in points, and the numbers in it."""


def _roman(text: str) -> int:
    values = [_ROMAN_VALUES[char] for char in text.lower()]
    return sum(-v if v < max(values[i + 1 :], default=0) else v for i, v in enumerate(values))


def _normal(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text with `#` in place of each number, and the numbers; a single Roman numeral counts as a number."""
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
    """Say whether every number is the same on all pages, or grows with the page number."""
    for position in range(len(sightings[0][3])):
        values = [s[3][position] for s in sightings]
        offsets = {s[3][position] - s[0] for s in sightings}
        if len(set(values)) > 1 and len(offsets) > max(1, len(values) // 10):
            return False
    return True


def _dense(pages: Sequence[int], total: int) -> bool:
    """Say whether the pages are consecutive, or every second page."""
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


LARGER = 1.08
LEAST_LARGER = 0.3
"""Least difference in points, besides the share LARGER, by which a heading is larger than the text."""
NEXT_LINE = 2.5
"""Largest distance from the foot of a heading to the text below it, in sizes of the heading."""


def _is_numbered_heading(at: Sighting, moving: frozenset[int], lines: Sequence[Line], usual: float) -> bool:
    """Say whether a line with one changing number, at one of the positions `moving`, is a heading of its page: it is
    larger than the text or begins like `Part 2`, and text follows close below it."""
    line = lines[at[1]]
    if len(moving) != 1 or len(line.cells) > 1 or not any(map(str.isalpha, line.text)):
        return False
    below = min(
        (other.y0 for other in lines if other.y0 > line.y0 + 0.5 * line.size and not other.rotated), default=0.0
    )
    if not 0 < below - line.y1 < NEXT_LINE * line.size:
        return False
    named = KEYWORD.match(line.text.strip())
    if named is not None and moving == {0}:
        return True
    return line.size >= LARGER * usual + LEAST_LARGER and not _SELF_EVIDENT.search(line.text)


def _moving(sightings: Sequence[Sighting]) -> frozenset[int]:
    """Return the positions of the numbers that differ in every sighting."""
    count = len(sightings)
    values = zip(*(sighting[3] for sighting in sightings), strict=True)
    return frozenset(at for at, found in enumerate(values) if count > 1 and len(set(found)) == count)


def _usual_size(pages: Sequence[Sequence[Line]]) -> float:
    sizes: Counter[float] = Counter()
    for lines in pages:
        for line in lines:
            sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def furniture_of(pages: Sequence[Sequence[Line]], heights: Sequence[float]) -> dict[tuple[int, int], str]:
    """Return {(index of the page, index of the line): `page_header` or `page_footer`}."""
    usual = _usual_size(pages)
    headings: set[tuple[int, int]] = set()
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
            moving = _moving(cluster) if key[0] == "page_header" and "#" in key[1] else frozenset()
            own = {(s[0], s[1]) for s in cluster if moving and _is_numbered_heading(s, moving, pages[s[0]], usual)}
            if 2 * len(own) > len(cluster):
                headings |= own
            elif evident or _is_furniture(key, cluster, len(pages)):
                found.update({(page, index): key[0] for page, index, *_ in cluster})
    found |= {place: edge for place, edge in _numbered_slots(pages, heights).items() if place not in headings}
    return _with_text_left(_contiguous(found, pages, heights), pages)


def _with_text_left(found: dict[tuple[int, int], str], pages: Sequence[Sequence[Line]]) -> dict[tuple[int, int], str]:
    """Return the furniture. Keep pages that have no other text if they are most pages: on slides and certificates such
    lines are the content. Page numbers stay furniture."""
    marked = Counter(page for page, _ in found)
    bare = {at for at, lines in enumerate(pages) if lines and marked[at] == len(lines)}
    if 2 * len(bare) <= sum(map(bool, pages)):
        return found

    def is_number(page: int, index: int) -> bool:
        text = pages[page][index].text.strip()
        return bool(_SELF_EVIDENT.fullmatch(text)) or _normal(text)[0].strip("-–—|. ") == "#"

    return {place: edge for place, edge in found.items() if place[0] not in bare or is_number(*place)}


def _page_number(text: str) -> int | None:
    """Return the number at one end of a line, or None. Roman numerals are made negative, so that they sort before all
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
    """Return furniture in the form of `furniture_of`: outermost lines at one height on most pages that begin or end
    with a number that grows from page to page, such as `Chapter 3. Access control 15`. Their words may differ."""
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
    """Keep only lines that have nothing but furniture between them and the edge of the page."""
    kept: dict[tuple[int, int], str] = {}
    for at, lines in enumerate(pages):
        order = sorted((i for i, line in enumerate(lines) if not line.rotated), key=lambda i: lines[i].y0)
        for edge, indexes in (("page_header", order), ("page_footer", order[::-1])):
            for index in indexes:
                if found.get((at, index)) != edge:
                    break
                kept[at, index] = edge
    return kept


def furniture_line(items: Sequence[PdfItem], page: PdfPage) -> Line:
    """Return pieces of furniture as one line."""
    x0, y0 = min(item.x0 for item in items), min(item.y0 for item in items)
    x1, y1 = max(item.x1 for item in items), max(item.y1 for item in items)
    text = " ".join(item.text for item in items)
    return Line(page.number, 0, x0, x1, text, x0, y0, x1, y1, 0.0, False, False, False, None, None, ())


# ---------------------------------------------------------------- watermarks


MUCH_LARGER = 1.6
"""Least size of a watermark that repeats behind the lines of pages, in sizes of the running text."""
LEAST_MARK = 16.0
"""Least size of a watermark in points."""
LEAST_SLANT = 1.6
"""Least width and height of slanted text, in font sizes. Text in a quarter turn is as narrow as its line."""


def _is_slanted(item: PdfItem) -> bool:
    return item.rotated and min(item.x1 - item.x0, item.y1 - item.y0) > LEAST_SLANT * item.size


def without_watermarks(pages: Sequence[PdfPage]) -> tuple[list[PdfPage], list[list[PdfItem]]]:
    """Return the pages without watermarks, and the watermarks of each: large slanted text, and large text that repeats
    at one position of many pages and is crossed by lines."""
    marks: list[list[PdfItem]] = [[] for _ in pages]
    large = [[i for i in page.items if i.size >= LEAST_MARK and any(map(str.isalpha, i.text))] for page in pages]
    if not any(large):
        return list(pages), marks
    usual = _usual_item_size(pages)
    again: Counter[tuple[str, int, int]] = Counter()
    for at, items in enumerate(large):
        large[at] = [item for item in items if item.size >= MUCH_LARGER * usual]
        again.update({_place(item) for item in large[at]})
    for at, page in enumerate(pages):
        marks[at] = [
            item
            for item in large[at]
            if (_is_slanted(item) and item.size >= 2 * usual)
            or (2 <= again[_place(item)] >= LEAST_SHARE * len(pages) and (item.rotated or _is_crossed(item, page)))
        ]
    found = {id(item) for own in marks for item in own}
    return [
        replace(page, items=tuple(item for item in page.items if id(item) not in found)) if own else page
        for page, own in zip(pages, marks, strict=True)
    ], marks


LEAST_SHARE = 0.5
"""Share of a document's pages that must have a watermark, unless it is slanted."""


def _usual_item_size(pages: Sequence[PdfPage]) -> float:
    sizes: Counter[float] = Counter()
    for page in pages:
        for item in page.items:
            sizes[item.size] += len(item.text)
    return sizes.most_common(1)[0][0]


def _place(item: PdfItem) -> tuple[str, int, int]:
    return item.text, round(item.x0 / SAME_HEIGHT), round(item.y0 / SAME_HEIGHT)


def _is_crossed(mark: PdfItem, page: PdfPage) -> bool:
    """Say whether smaller text overlaps a watermark."""
    across = 0.0
    for item in page.items:
        if item.size < mark.size / 1.2:
            wide, high = min(item.x1, mark.x1) - max(item.x0, mark.x0), min(item.y1, mark.y1) - max(item.y0, mark.y0)
            across += wide if wide > 0 and high > 0.3 * (item.y1 - item.y0) else 0.0
    return across > 0.3 * (mark.x1 - mark.x0)


# ---------------------------------------------------------------- numbers of lines


LEAST_NUMBERED = 8
SAME_COLUMN = 8.0
"""Points by which line numbers may differ at both ends; one end is aligned more closely."""
EVEN = 0.2
"""Share by which the distances between line numbers may differ from the usual one."""
LEAST_GOING_ON = 0.12
"""Least share of numbered lines that continue a sentence; rows of a table begin anew."""
LEAST_ALONE = 2
"""Fewest line numbers beside no text, which show the same: rows of a table have content."""
STEPS = (1, 2, 5, 10)
_LINE_NUMBER = re.compile(r"\d{1,3}")


def without_line_numbers(pages: Sequence[PdfPage]) -> tuple[list[PdfPage], list[list[PdfItem]]]:
    """Return the pages without line numbers, and the line numbers of each page from the top. Line numbers are one
    column of evenly spaced, counting numbers, left or right of all text, beside lines that continue each other."""
    columns = [_numbers_of(page) for page in pages]
    if not any(columns):
        return list(pages), columns
    going_on = sum(_goes_on(page, column)[0] for page, column in zip(pages, columns, strict=True) if column)
    alone = sum(_goes_on(page, column)[1] for page, column in zip(pages, columns, strict=True) if column)
    if going_on < LEAST_GOING_ON * sum(map(len, columns)) and alone < LEAST_ALONE:
        return list(pages), [[] for _ in pages]
    return [
        replace(page, items=tuple(i for i in page.items if id(i) not in own)) if (own := set(map(id, column))) else page
        for page, column in zip(pages, columns, strict=True)
    ], columns


def _numbers_of(page: PdfPage) -> list[PdfItem]:
    """Return the column of line numbers of a page, or nothing."""
    numbers = [i for i in page.items if not i.rotated and len(i.text) <= 3 and _LINE_NUMBER.fullmatch(i.text)]
    if len(numbers) < LEAST_NUMBERED:
        return []
    words = [item for item in page.items if len(item.text) > 3 and not item.rotated]
    if not words:
        return []
    left, right = min(item.x0 for item in words), max(item.x1 for item in words)
    for side in ([i for i in numbers if i.x1 <= left], [i for i in numbers if i.x0 >= right]):
        found = _counting(sorted(side, key=lambda item: item.y0))
        if len(found) >= LEAST_NUMBERED:
            return found
    return []


def _counting(numbers: Sequence[PdfItem]) -> list[PdfItem]:
    """Return the longest run of evenly spaced, counting numbers in one column."""
    best: list[PdfItem] = []
    run: list[PdfItem] = []
    for item in numbers:
        if run and not _counts_on(run, item):
            run = []
        run.append(item)
        if len(run) > len(best):
            best = run
    return best


def _counts_on(run: Sequence[PdfItem], item: PdfItem) -> bool:
    last = run[-1]
    count = int(item.text) - int(last.text)
    if count != (int(run[1].text) - int(run[0].text) if len(run) > 1 else count) or count not in STEPS:
        return False
    if (
        min(abs(item.x1 - last.x1), abs(item.x0 - last.x0)) > SAME_COLUMN / 4
        or abs(item.x0 - last.x0) > 2 * SAME_COLUMN
    ):
        return False
    step = item.y0 - last.y0
    if len(run) == 1:
        return step > 0
    usual = run[1].y0 - run[0].y0
    return abs(step - usual) <= EVEN * usual


def _goes_on(page: PdfPage, numbers: Sequence[PdfItem]) -> tuple[int, int]:
    """Return the number of numbered lines that continue a sentence, and the number of those without text."""
    half = median(item.y1 - item.y0 for item in numbers) / 2
    own = set(map(id, numbers))
    first: dict[int, PdfItem] = {}
    heights = [(item.y0 + item.y1) / 2 for item in numbers]
    for item in page.items:
        if id(item) in own:
            continue
        at = bisect_left(heights, (item.y0 + item.y1) / 2 - half)
        beside = at < len(heights) and abs(heights[at] - (item.y0 + item.y1) / 2) <= half
        if beside and (at not in first or item.x0 < first[at].x0):
            first[at] = item
    return sum(item.text.lstrip()[:1].islower() for item in first.values()), len(numbers) - len(first)
