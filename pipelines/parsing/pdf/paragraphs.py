"""Lines of a page to paragraphs, list items, captions, code and footnotes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.parsing.pdf.cells import CAPTION
from pipelines.parsing.pdf.lines import Line
from pipelines.records import BlockCell

BULLET = re.compile(r"([•●▪◦‣∙·■□►➢▶❖✓✔☐☑☒\uf000-\uf0ff]|[§*\-–—](?=\s))\s*")
NUMBER = re.compile(
    r"(\(?(?:\d{1,3}|[a-zа-яіїєґ]|[ivx]{1,5})\)|(?:\d{1,3}|[a-zA-Zа-яА-ЯІЇЄҐ])\.(?=\s)|(?:\d{1,3}\.)+\d{1,3}\.?(?=\s))\s*"
)
FOOTNOTE = re.compile(r"\d{1,3}(?=\s|[A-ZА-ЯІЇЄҐ\"“«])|[*∗†‡§]")
TERMINAL = re.compile(r"[.!?:;…。](?:[\"'”’»)\]]|\s)*$")
SAME_SIZE = 0.7
TITLE_SIZE = 20.0
LEAST_PAGE = 300


@dataclass(frozen=True, slots=True)
class Style:
    """Of the whole document: size of its running text, and usual distance between lines of one
    paragraph by size. `pages` has the size of pages set throughout in another one."""

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
    """A block in the making. `gap` is the distance to the line above, in usual line distances;
    infinite at the top of a column. `cells` are in the order of rows; `edges` are the left and right
    ends of a table's columns, in turn."""

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

    @property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)

    @property
    def size(self) -> float:
        return self.lines[0].size


def middle(line: Line) -> float:
    return (line.y0 + line.y1) / 2


def style_of(pages: Sequence[Sequence[Line]]) -> Style:
    """Most common size by characters, and per size the most common distance of neighbours."""
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
    return Style(size, usual, bold[True] > bold[False], mono[True] > mono[False], _own_sizes(pages, size))


def _own_sizes(pages: Sequence[Sequence[Line]], size: float) -> dict[int, float]:
    """Size of the running text of the pages that hardly use the document's."""
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
    """The most common distance; of two about as common the smaller, which is that within
    paragraphs."""
    most = max(counts.values())
    return min(distance for distance, count in counts.items() if count >= 0.5 * most) + 0.25


def marker_of(line: Line) -> str | None:
    """The list marker a line begins with, as it stands."""
    text = line.text.lstrip()
    match = BULLET.match(text) or NUMBER.match(text)
    if match is None or match.end() == len(text):
        return None
    return match.group().strip()


def is_bullet(marker: str) -> bool:
    return BULLET.match(marker + " ") is not None


def ends(text: str) -> bool:
    """Whether a text ends as a sentence or an introduction does."""
    return TERMINAL.search(text) is not None


def _room(above: Line, line: Line) -> bool:
    """Whether the first word of `line` would have fitted at the end of `above`, with air."""
    words = line.text.split(maxsplit=1)
    if not words:
        return False
    per_letter = (line.x1 - line.x0) / max(len(line.text), 1)
    return above.right - above.x1 > per_letter * (len(words[0]) + 1) + 0.04 * (above.right - above.left)


def _begins_item(draft: Draft, above: Line, line: Line, ratio: float) -> bool:
    """Whether a line that begins like a list item is one: markers also begin lines by accident."""
    marker = marker_of(line)
    if marker is None:
        return False
    if marker[0] not in "*-–—" and is_bullet(marker):
        return True
    apart = ratio > 1.2 or ends(above.text) or above.text.rstrip().endswith(",")
    if draft.kind == "list_item":
        return apart or abs(line.x0 - draft.marker_x) < 2 or _room(above, line)
    return apart or _room(above, line) or abs(line.x0 - above.x0) > 0.8 * line.size


def _breaks(draft: Draft, line: Line, style: Style) -> bool:
    """Whether `line` begins a new block after the lines of `draft`."""
    above = draft.lines[-1]
    ratio = (middle(line) - middle(above)) / style.pitch(line.size)
    if abs(line.size - above.size) > _tolerance(line.size) and not _is_fragment(above, line):
        return True
    if None not in (line.group, above.group) and line.group != above.group and "Lbl" not in (line.tag, above.tag):
        return True
    if ratio > 1.35 or ratio < -0.5 or _begins_item(draft, above, line, ratio):
        return True
    if above.bold != line.bold and (_room(above, line) or line.bold) and len(draft.lines) <= 3:
        return _room(above, line) or ends(above.text)
    if draft.kind == "list_item" and line.x0 < draft.marker_x - 0.5 * line.size:
        return True
    return _is_new_paragraph(draft, above, line)


def _tolerance(size: float) -> float:
    """Lines of a title in large type may differ in size; those of text may not."""
    return SAME_SIZE if size < TITLE_SIZE else 0.12 * size


def _is_fragment(above: Line, line: Line) -> bool:
    """Whether a line of another size is a piece of the line above: raised or lowered text."""
    return min(above.y1, line.y1) - max(above.y0, line.y0) > 0.3 * min(above.y1 - above.y0, line.y1 - line.y0)


def _is_new_paragraph(draft: Draft, above: Line, line: Line) -> bool:
    """By indent, or because the line above stopped short."""
    indent = line.x0 - above.x0
    first = len(draft.lines) == 1
    if draft.kind != "list_item" and line.size * 0.9 < indent < line.size * 5 and not first:
        return ends(above.text) or _room(above, line)
    if not _room(above, line):
        return False
    if ends(above.text):
        return not above.text.rstrip().endswith((",",)) and not line.text[:1].islower()
    spare = (above.right - above.x1) / max(above.right - above.left, 1.0)
    return spare > 0.35 and not line.text[:1].islower() and not above.text.rstrip().endswith((",", "-"))


def _begun(line: Line, gap: float, style: Style, page_height: float) -> Draft:
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


def drafts_of(lines: Sequence[Line], style: Style, page_height: float) -> list[Draft]:
    """Blocks of a run of lines that holds no table, in order."""
    drafts: list[Draft] = []
    above: Line | None = None
    for line in lines:
        same = above is not None and above.column == line.column and not line.rotated
        gap = (middle(line) - middle(above)) / style.pitch(line.size) if same and above else float("inf")
        begun = _begun(line, gap, style, page_height)
        last = drafts[-1] if drafts else None
        if last is not None and same and _goes_on(last, begun, line, style):
            last.lines.append(line)
        else:
            drafts.append(begun)
        above = line
    return drafts


def _goes_on(last: Draft, begun: Draft, line: Line, style: Style) -> bool:
    if last.kind == "code" or begun.kind == "code":
        return last.kind == begun.kind and begun.gap < 2.6
    if begun.kind == "caption":
        return last.kind == "paragraph" and not _breaks(last, line, style)
    return not _breaks(last, line, style)
