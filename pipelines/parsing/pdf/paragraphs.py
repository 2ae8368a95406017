"""The grouping of a page's lines into blocks of text: a paragraph, list item, caption, code, footnote or contents
entry.

A contents page has titles with page numbers, which are neither tables nor headings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pipelines.parsing.pdf.cells import CAPTION, LEADERS
from pipelines.parsing.pdf.lines import Line
from pipelines.parsing.pdf.rows import TIGHT, goes_on, pitch
from pipelines.records import BlockCell

# ---------------------------------------------------------------- paragraphs


BULLET = re.compile(r"([•●▪◦‣∙·■□►➢▶❖✓✔☐☑☒\uf000-\uf0ff]|§(?=\s+[^\s\d])|[*\-–—](?=\s))\s*")
NUMBER = re.compile(
    r"(\(?(?:\d{1,3}|[a-zа-яіїєґ]|[ivx]{1,5})\)|(?:\d{1,3}|[a-zA-Zа-яА-ЯІЇЄҐ])\.(?=\s)|(?:\d{1,3}\.)+\d{1,3}\.?(?=\s))\s*"
)
FOOTNOTE = re.compile(r"\d{1,3}(?=\s|[A-ZА-ЯІЇЄҐ\"“«])|[*∗†‡§]")
TERMINAL = re.compile(r"[.!?:;…。](?:[\"'”’»)\]]|\s)*$")
SAME_SIZE = 0.7
SAME_HEIGHT = 0.3
MUCH_ROOM = 0.35
"""Share of its column's width that a line of a title leaves free at its end."""
TITLE_SIZE = 20.0
LEAST_PAGE = 300


@dataclass(frozen=True, slots=True)
class DocumentStyle:
    """The style of the whole document: the size of its running text, and the usual distance between lines of a
    paragraph for each size. `pages` has the size of each page that uses another size throughout."""

    size: float
    pitches: dict[int, float]
    bold: bool = False
    mono: bool = False
    pages: dict[int, float] = field(default_factory=dict)

    def size_on(self, page: int) -> float:
        return self.pages.get(page, self.size)

    def pitch(self, size: float) -> float:
        return self.pitches.get(round(size), 1.25 * size)


@dataclass(slots=True)
class Draft:
    """A block in the making. `gap` is the distance to the line above, in usual line distances; infinite at the top of a
    column. `cells` are in the order of rows; `edges` are the left and right ends of a table's columns, in turn. `drawn`
    says that it is text of a drawing."""

    kind: str
    lines: list[Line]
    gap: float = 1.0
    level: int | None = None
    marker: str | None = None
    marker_x: float = 0.0
    cells: list[BlockCell] = field(default_factory=list)
    edges: tuple[float, ...] = ()
    headers: int = 0
    confidence: float = 1.0
    metadata: dict[str, str] = field(default_factory=dict)
    drawn: bool = False

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)

    @property
    def size(self) -> float:
        return self.lines[0].size


def middle(line: Line) -> float:
    return (line.y0 + line.y1) / 2


def style_of(pages: Sequence[Sequence[Line]]) -> DocumentStyle:
    """Return the most common size by characters, and for each size the most common distance between neighbouring
    lines."""
    sizes: Counter[float] = Counter()
    bold: Counter[bool] = Counter()
    mono: Counter[bool] = Counter()
    pitches: dict[int, Counter[float]] = {}
    for lines in pages:
        for above, line in zip([None, *lines], lines, strict=False):
            if line.rotated:
                continue
            sizes[line.size] += len(line.text)
            bold[line.bold] += len(line.text)
            mono[line.mono] += len(line.text)
            if above is not None and above.column == line.column and abs(above.size - line.size) < SAME_SIZE:
                distance = middle(line) - middle(above)
                if 0.8 * line.size <= distance <= 2.6 * line.size:
                    pitches.setdefault(round(line.size), Counter())[round(distance * 2) / 2] += 1
    usual = {size: _usual(counts) for size, counts in pitches.items()}
    size = sizes.most_common(1)[0][0] if sizes else 10.0
    return DocumentStyle(size, usual, bold[True] > bold[False], mono[True] > mono[False], _own_sizes(pages, size))


def _own_sizes(pages: Sequence[Sequence[Line]], size: float) -> dict[int, float]:
    """Return the size of the running text of each page that hardly uses the document's size."""
    own: dict[int, float] = {}
    for lines in pages:
        found: Counter[float] = Counter()
        for line in lines:
            found[line.size] += 0 if line.rotated else len(line.text)
        total = found.total()
        usual = sum(count for other, count in found.items() if abs(other - size) <= SAME_SIZE)
        if total >= LEAST_PAGE and usual < 0.15 * total and found.most_common(1)[0][1] > 0.5 * total:
            own[lines[0].page] = found.most_common(1)[0][0]
    return own


def _usual(counts: Counter[float]) -> float:
    """Return the most common distance. If two are about equally common, return the smaller, which is the one within
    paragraphs."""
    most = max(counts.values())
    return min(distance for distance, count in counts.items() if count >= 0.5 * most) + 0.25


def marker_of(line: Line) -> str | None:
    """Return the list marker at the start of a line, as written."""
    text = line.text.lstrip()
    match = BULLET.match(text) or NUMBER.match(text)
    if match is None or match.end() == len(text):
        return None
    return match.group().strip()


def is_bullet(marker: str) -> bool:
    return BULLET.match(marker + " ") is not None


def ends(text: str) -> bool:
    """Say whether a text ends like a sentence or an introduction."""
    return TERMINAL.search(text) is not None


def _room(above: Line, line: Line) -> bool:
    """Say whether the first word of `line` would easily have fitted at the end of `above`."""
    words = line.text.split(maxsplit=1)
    if not words:
        return False
    per_letter = (line.x1 - line.x0) / max(len(line.text), 1)
    return above.right - above.x1 > per_letter * (len(words[0]) + 1) + 0.04 * (above.right - above.left)


def _begins_item(draft: Draft, above: Line, line: Line, ratio: float) -> bool:
    """Say whether a line that begins like a list item is one: a line may begin with a number or dash by accident."""
    marker = marker_of(line)
    if marker is None:
        return False
    if marker[0] not in "*-–—" and is_bullet(marker):
        return True
    apart = ratio > 1.2 or ends(above.text) or above.text.rstrip().endswith(",")
    if draft.kind == "list_item":
        return apart or abs(line.x0 - draft.marker_x) < 2 or _room(above, line)
    return apart or _room(above, line) or abs(line.x0 - above.x0) > 0.8 * line.size


def _breaks(draft: Draft, line: Line, style: DocumentStyle) -> bool:
    """Say whether `line` begins a new block after the lines of `draft`."""
    above = draft.lines[-1]
    if line.vertical:
        return abs(line.size - above.size) > _tolerance(line.size)
    ratio = (middle(line) - middle(above)) / style.pitch(line.size)
    if _differs(above, line) and not _is_fragment(above, line):
        return True
    if None not in (line.group, above.group) and line.group != above.group and "Lbl" not in (line.tag, above.tag):
        return True
    if ratio > 1.35 or ratio < -0.5 or _begins_item(draft, above, line, ratio):
        return True
    if _is_below_heading(draft, above, line):
        return True
    if above.bold != line.bold and (_room(above, line) or line.bold) and len(draft.lines) <= 3:
        return _room(above, line) or ends(above.text)
    if draft.kind == "list_item" and line.x0 < draft.marker_x - 0.5 * line.size:
        return _room(above, line) or ends(above.text)
    return _is_new_paragraph(draft, above, line)


def _is_below_heading(draft: Draft, above: Line, line: Line) -> bool:
    """Say whether `line` begins a paragraph, because it is indented below a single bold line."""
    single = draft.kind == "paragraph" and len(draft.lines) == 1 and above.bold and not line.bold
    return single and line.text[:1].isupper() and 0.9 * line.size < line.x0 - above.x0 < 5 * line.size


def _differs(above: Line, line: Line) -> bool:
    """Say whether two lines differ in size. A few words in another size at the start of a line do not count. A title in
    large type may continue in a slightly different size."""
    other = abs(line.size - above.size)
    differs = other > _tolerance(line.size) or (other > SAME_SIZE and not line.vertical and _is_subtitle(above, line))
    return differs and abs(line.y1 - line.y0 - above.y1 + above.y0) > SAME_HEIGHT


def _is_subtitle(above: Line, line: Line) -> bool:
    """Say whether a line in large type is a separate heading: its style differs, or the line above leaves much of its
    column empty."""
    if (above.bold, above.italic) != (line.bold, line.italic):
        return True
    taken, width = above.x1 - above.x0, above.right - above.left
    return width - taken > MUCH_ROOM * width and not goes_on(above.text, line.text)


def _tolerance(size: float) -> float:
    """Return by how many points lines of one block may differ in size. A title in large type may differ more than
    text."""
    return SAME_SIZE if size < TITLE_SIZE else 0.12 * size


def _is_fragment(above: Line, line: Line) -> bool:
    """Say whether a line of another size is part of the line above: raised or lowered text."""
    return min(above.y1, line.y1) - max(above.y0, line.y0) > 0.3 * min(above.y1 - above.y0, line.y1 - line.y0)


def _is_new_paragraph(draft: Draft, above: Line, line: Line) -> bool:
    """Say whether a line begins a paragraph, because it is indented or the line above is short."""
    indent = line.x0 - above.x0
    first = len(draft.lines) == 1
    if draft.kind != "list_item" and line.size * 0.9 < indent < line.size * 5 and not first:
        return ends(above.text) or _room(above, line)
    if not _room(above, line):
        return False
    if ends(above.text):
        return not above.text.rstrip().endswith((",",)) and not line.text[:1].islower()
    spare = (above.right - above.x1) / max(above.right - above.left, 1.0)
    return spare > MUCH_ROOM and not line.text[:1].islower() and not above.text.rstrip().endswith((",", "-"))


def _begin(line: Line, gap: float, style: DocumentStyle, page_height: float) -> Draft:
    if line.rotated:
        return Draft("paragraph", [line], gap, confidence=0.5, metadata={"orientation": "rotated"})
    if line.mono and not style.mono:
        return Draft("code", [line], gap)
    if CAPTION.match(line.text):
        return Draft("caption", [line], gap)
    if line.size < 0.93 * style.size and line.y0 > 0.5 * page_height and FOOTNOTE.match(line.text):
        return Draft("footnote", [line], gap)
    marker = marker_of(line)
    if marker is not None:
        return Draft("list_item", [line], gap, marker=marker, marker_x=line.x0)
    return Draft("paragraph", [line], gap)


def drafts_of(lines: Sequence[Line], style: DocumentStyle, page_height: float) -> list[Draft]:
    """Return the blocks of a run of lines without tables, in order."""
    drafts: list[Draft] = []
    above: Line | None = None
    for line in lines:
        same = above is not None and above.column == line.column and not line.rotated
        gap = (middle(line) - middle(above)) / style.pitch(line.size) if same and above else float("inf")
        gap = 1.0 if same and line.vertical else gap
        begun = _begin(line, gap, style, page_height)
        last = drafts[-1] if drafts else None
        if last is not None and same and _goes_on(last, begun, line, style):
            last.lines.append(line)
        else:
            drafts.append(begun)
        above = line
    return drafts


def _goes_on(last: Draft, begun: Draft, line: Line, style: DocumentStyle) -> bool:
    if last.kind == "code" or begun.kind == "code":
        return last.kind == begun.kind and begun.gap < 2.6
    if begun.kind == "caption":
        return last.kind == "paragraph" and not _breaks(last, line, style)
    return not _breaks(last, line, style)


# ---------------------------------------------------------------- contents pages


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
    """Return the page number at the end of a line, and whether leader dots precede it."""
    led = LEADERS.search(line.text)
    if led is not None:
        tail = line.text[led.end() :].strip()
        return (tail, True) if led.start() and _PAGE.fullmatch(tail) else None
    if not 2 <= len(line.cells) <= 3:
        return None
    tail, title = line.cells[-1].text.strip(), "".join(cell.text for cell in line.cells[:-1])
    return (tail, False) if _PAGE.fullmatch(tail) and sum(map(str.isalpha, title)) >= 3 else None


def contents_entries(lines: Sequence[Line], start: int, blocked: set[int], floor: int = 0) -> list[list[int]]:
    """Return the contents entries from the one with its page number in line `start` on, each as the indexes of its
    lines; return [] if this is not a contents page. Names of parts above it, from line `floor` on, are entries too."""
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
    """Say whether the numbers at the end of lines grow like page numbers."""
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
    """Return an entry of a contents page as a list item. Its confidence is below 1, so that it never becomes a
    heading."""
    return Draft("list_item", list(lines), marker_x=lines[0].x0, confidence=0.9)


def _entries(lines: Sequence[Line], ends: Sequence[int]) -> list[list[int]]:
    """Group lines into entries. Lines before a line with a page number belong to it if its title continues them."""
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
