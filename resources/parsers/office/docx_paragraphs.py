"""The reading of one DOCX paragraph: its text and fields, its style, its number, and whether it looks like a heading.

A style has its inherited values; the style with an empty key is the one of plain paragraphs. Numbers are counted as
Word counts them, since the file does not hold them. In a file without heading styles, short lines that differ by size,
weight or capitals are headings.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.records import Block
from resources.parsers.labels import key_value
from resources.parsers.office.docx_formulas import M, latex
from resources.parsers.office.graphics import CHARTS, DGM, PICTURES
from resources.parsers.untrusted import signed, whole

# ---------------------------------------------------------------- numbering


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
LEVELS = 9
"""Levels of a list that Word has."""
LONGEST_MARKER = 64
"""Characters of a marker's pattern, and repeats of a letter that stands for a number. Both come from the file."""


def value_of(element: Any, path: str) -> str | None:
    """Return `w:val` of the first element at a path such as `w:pPr/w:numId`."""
    found = element.find(path.replace("w:", W)) if element is not None else None
    return None if found is None else found.get(f"{W}val")


def is_on(element: Any, namespace: str = W) -> bool:
    """Say whether a property that may be switched off, such as `w:b`, is present and on."""
    return element is not None and element.get(f"{namespace}val") not in ("0", "false", "off")


@dataclass(slots=True)
class _Level:
    start: int = 1
    format: str = "decimal"
    text: str = ""


@dataclass(slots=True)
class _List:
    levels: dict[int, _Level]
    abstract: str
    starts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """The markers of numbered paragraphs, in document order. Lists of one abstract definition share their count, as in
    Word, unless one of them restarts it."""

    def __init__(self, root: Any) -> None:
        self.lists: dict[str, _List] = {}
        self.styles: dict[str, tuple[str, int]] = {}
        self.counts: dict[str, list[int]] = {}
        self.begun: set[str] = set()
        if root is None:
            return
        abstract = {element.get(f"{W}abstractNumId"): _levels(element) for element in root.findall(f"{W}abstractNum")}
        for element in root.findall(f"{W}num"):
            own = value_of(element, "w:abstractNumId") or ""
            found = _List(dict(abstract.get(own, {})), own)
            for override in element.findall(f"{W}lvlOverride"):
                level = whole(override.get(f"{W}ilvl"), 0)
                start = value_of(override, "w:startOverride")
                if start is not None:
                    found.starts[level] = signed(start, 1)
                found.levels.update(_levels(override))
            self.lists[element.get(f"{W}numId")] = found

    def is_list(self, number: str | None) -> bool:
        return number in self.lists and bool(self.lists[number].levels)

    def is_bullet(self, number: str, level: int) -> bool:
        found = self.lists[number].levels.get(level)
        return found is None or found.format in ("bullet", "none")

    def marker(self, number: str, level: int) -> str:
        """Increase the count and return the marker: `2.1`, `(a)`, `•`."""
        own = self.lists[number]
        counts = self.counts.setdefault(own.abstract, [0] * LEVELS)
        if number not in self.begun:
            self.begun.add(number)
            for at, start in own.starts.items():
                if at < LEVELS:
                    counts[at] = start - 1
        level = min(max(level, 0), LEVELS - 1)
        definition = own.levels.get(level, _Level())
        counts[level] = (
            counts[level] + 1 if counts[level] else definition.start if not own.starts else counts[level] + 1
        )
        for deeper in range(level + 1, LEVELS):
            counts[deeper] = own.starts.get(deeper, own.levels.get(deeper, _Level()).start) - 1
            counts[deeper] = 0 if own.levels.get(deeper, _Level()).start == 1 else counts[deeper]
        if definition.format in ("bullet", "none"):
            return "•" if definition.format == "bullet" else ""
        return re.sub(r"%([1-9])", lambda match: self._written(own, int(match[1]) - 1, counts), definition.text)

    @staticmethod
    def _written(own: _List, level: int, counts: list[int]) -> str:
        definition = own.levels.get(level, _Level())
        return numeral(max(counts[level], definition.start if not counts[level] else counts[level]), definition.format)


def _levels(element: Any) -> dict[int, _Level]:
    levels = {}
    for level in element.findall(f"{W}lvl"):
        levels[whole(level.get(f"{W}ilvl"), 0)] = _Level(
            signed(value_of(level, "w:start"), 1),
            value_of(level, "w:numFmt") or "decimal",
            (value_of(level, "w:lvlText") or "")[:LONGEST_MARKER],
        )
    return levels


_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"))
_ROMAN_ONES = ((9, "ix"), (5, "v"), (4, "iv"), (1, "i"))
_CYRILLIC = "абвгдежзиклмнопрстуфхцшщюя"


def numeral(number: int, kind: str) -> str:
    """Return a number in a format of WordprocessingML, or in digits if the format is unknown."""
    if kind in ("lowerLetter", "upperLetter") and 0 < number <= 26 * LONGEST_MARKER:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters.upper() if kind == "upperLetter" else letters
    if kind in ("lowerRoman", "upperRoman") and 0 < number < 4000:
        written = ""
        for value, letter in (*_ROMAN, *_ROMAN_ONES):
            times, number = divmod(number, value)
            written += letter * times
        return written.upper() if kind == "upperRoman" else written
    if kind in ("russianLower", "russianUpper") and 0 < number <= len(_CYRILLIC):
        letter = _CYRILLIC[number - 1]
        return letter.upper() if kind == "russianUpper" else letter
    if kind == "decimalZero":
        return f"{number:02}"
    return str(number)


# ---------------------------------------------------------------- styles


_HEADING_STYLE = re.compile(r"(?:heading|заголовок|überschrift|titre|título)\s*([1-9])\Z", re.IGNORECASE)


DEEPEST = 50
"""Styles in a chain of inheritance that are followed. Word allows about ten."""


@dataclass(frozen=True, slots=True)
class ParagraphStyle:
    """The properties of a paragraph style, inherited values included."""

    name: str = ""
    outline: int | None = None
    number: str | None = None
    level: int = 0
    size: float | None = None
    bold: bool = False


def styles_of(root: Any) -> dict[str, ParagraphStyle]:
    if root is None:
        return {}
    elements = {element.get(f"{W}styleId"): element for element in root.findall(f"{W}style")}
    styles = {key: _style(key, elements) for key in elements if key}
    normal = next((key for key, element in elements.items() if key and _is_default(element)), "")
    size = points(root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr"))
    styles = {key: replace(style, size=style.size or size) for key, style in styles.items()}
    return {
        "": replace(
            styles.get(normal, ParagraphStyle()), name="", size=styles.get(normal, ParagraphStyle()).size or size
        ),
        **styles,
    }


def _is_default(element: Any) -> bool:
    return element.get(f"{W}type") == "paragraph" and element.get(f"{W}default") in ("1", "true")


def points(properties: Any) -> float | None:
    """Return the font size in points that run properties name; None if they name none."""
    half = whole(value_of(properties, "w:sz"), None)
    return None if half is None else half / 2


def _style(key: str, elements: dict[str, Any]) -> ParagraphStyle:
    """Return a style with its inherited values; a circle of styles ends at the first repetition."""
    name, outline, number, level, size, bold = "", None, None, None, None, None
    seen: set[str] = set()
    at: str | None = key
    while at in elements and at not in seen and len(seen) < DEEPEST:
        seen.add(at)
        element = elements[at]
        name = name or value_of(element, "w:name") or ""
        heading = _HEADING_STYLE.match(value_of(element, "w:name") or "")
        own = int(heading[1]) - 1 if heading else None
        outline = outline if outline is not None else whole(value_of(element, "w:pPr/w:outlineLvl"), own)
        number = number or value_of(element, "w:pPr/w:numPr/w:numId")
        level = level if level is not None else value_of(element, "w:pPr/w:numPr/w:ilvl")
        size = size or points(element.find(f"{W}rPr"))
        bold = bold if bold is not None else element.find(f"{W}rPr/{W}b")
        at = value_of(element, "w:basedOn")
    return ParagraphStyle(
        name, outline if outline is not None and outline < 9 else None, number, whole(level, 0), size, is_on(bold)
    )


# ---------------------------------------------------------------- headings by look


LONGEST_HEADING = 100
"""Characters of a line that may be a heading."""
MOST_WORDS = 14
"""Words of a line that may be a heading."""
LARGER = 1.15
"""Factor over the body's font size from which on a line stands out."""


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a paragraph: the size in points of most letters, None if unknown, and whether all are bold."""

    size: float | None
    bold: bool


def look_of(paragraph: Any, style: ParagraphStyle) -> Look:
    sizes: Counter[float | None] = Counter()
    bold = True
    for run in paragraph.iter(f"{W}r"):
        letters = sum(len((text.text or "").strip()) for text in run.findall(f"{W}t"))
        if letters:
            properties = run.find(f"{W}rPr")
            weight = properties.find(f"{W}b") if properties is not None else None
            sizes[points(properties) or style.size] += letters
            bold = bold and (is_on(weight) if weight is not None else style.bold)
    return Look(sizes.most_common(1)[0][0], bold) if sizes else Look(style.size, False)


def headings_by_look(blocks: Sequence[Block], looks: dict[int, Look]) -> list[Block]:
    """Return the blocks with paragraphs that look like headings made headings: the larger, the higher. If most of the
    text is bold or in capitals, those say nothing."""
    letters: Counter[Look] = Counter()
    capitals: Counter[bool] = Counter()
    for block in blocks:
        if (look := looks.get(id(block))) is not None:
            text = _text(block)
            letters[look] += len(text)
            capitals[text.isupper()] += len(text)
    if not letters:
        return list(blocks)
    body = letters.most_common(1)[0][0]

    def rank(block: Block) -> tuple[float, bool] | None:
        look = looks.get(id(block))
        if look is None or block.kind != "paragraph" or not _could_be(_text(block)):
            return None
        larger = bool(look.size and body.size and look.size >= LARGER * body.size)
        stands_out = (
            larger or (look.bold and not body.bold) or (_text(block).isupper() and not capitals[True] > capitals[False])
        )
        return (look.size or body.size or 0.0, look.bold) if stands_out else None

    ranks = [rank(block) for block in blocks]
    order = sorted({found for found in ranks if found is not None}, reverse=True)
    return [
        block if found is None else replace(block, kind="heading", level=min(order.index(found) + 1, 6))
        for block, found in zip(blocks, ranks, strict=True)
    ]


def _text(block: Block) -> str:
    return "".join(run.text for run in block.runs).strip()


def _could_be(text: str) -> bool:
    short = len(text) <= LONGEST_HEADING and len(text.split()) <= MOST_WORDS
    return short and text[-1:] not in ".,;:!" and sum(map(str.isalpha, text)) > 2


# ---------------------------------------------------------------- inline content


MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_LEFT_OUT_NAMES = "del moveFrom instrText delText pPr rPr tblPr tcPr sectPr sdtPr sdtEndPr rt"
_LEFT_OUT = frozenset(f"{W}{name}" for name in _LEFT_OUT_NAMES.split())
_TEXTS = {f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-"}
_WORD_ART = "{urn:schemas-microsoft-com:vml}textpath"
"""Letters drawn as a shape, in older documents and in watermarks."""
_MACHINE_MADE = re.compile(r"goog_rdk_\d+|[\d-]+|\{?[0-9A-Fa-f-]{32,}\}?|(?:Text|Check|Dropdown|Kontrollkästchen)\d*")
LONGEST, MOST_PIECES = 2000, 10_000
"""Characters and pieces of a paragraph that are searched for the label and the value of a field."""


@dataclass(frozen=True, slots=True)
class Control:
    """A content control or form field: its name, if a person gave it one, and the range of its text in the pieces.
    `checked` is set for check boxes only."""

    name: str
    start: int
    end: int
    checked: bool | None = None
    empty: bool = False


@dataclass(slots=True)
class Inline:
    pieces: list[str] = field(default_factory=list)
    boxes: list[Any] = field(default_factory=list)
    formulas: bool = False
    controls: list[Control] = field(default_factory=list)
    charts: list[str] = field(default_factory=list)
    diagrams: list[str] = field(default_factory=list)
    pictures: list[Any] = field(default_factory=list)
    hidden: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()

    def fields(self) -> dict[str, str]:
        """Return `kv.LABEL` -> value of the filled fields that have a label: their own name, else the words after a
        check mark up to the next field, or the words before the field if they end in a colon."""
        found: dict[str, str] = {}
        count, last = len(self.controls), len(self.pieces)
        for at, control in enumerate(self.controls):
            value = self._words(range(control.start, control.end)).strip()
            starts = (self.controls[later].start for later in range(at + 1, count))
            after = self._words(range(control.end, next((start for start in starts if start >= control.end), last)))
            before = self._words(range(control.start - 1, -1, -1))
            if control.checked is not None:
                value, label = "yes" if control.checked else "no", control.name or after
            else:
                label = control.name or (before if before.rstrip().endswith(":") else "")
            found.update(key_value(label, "" if control.empty else value))
        return found

    def _words(self, places: range) -> str:
        """Return the pieces at some places, up to the longest length that a label or a value may have."""
        found: list[str] = []
        length = 0
        for at in places[:MOST_PIECES]:
            found.append(self.pieces[at][-LONGEST:] if places.step < 0 else self.pieces[at][:LONGEST])
            length += len(found[-1])
            if length > LONGEST:
                break
        return "".join(reversed(found) if places.step < 0 else found)


def control_name(properties: Any) -> str:
    """Return the title of a content control, else its tag if a person wrote it, else ""."""
    name = value_of(properties, "w:alias") or value_of(properties, "w:tag") or ""
    return "" if _MACHINE_MADE.fullmatch(name) else name


def _control(control: Any, start: int, end: int) -> Control | None:
    properties = control.find(f"{W}sdtPr")
    if properties is None:
        return None
    box = properties.find(f"{W14}checkbox")
    checked = None if box is None else is_on(box.find(f"{W14}checked"), W14)
    empty = properties.find(f"{W}showingPlcHdr") is not None
    return Control(control_name(properties), start, end, checked, empty)


class _Walk:
    """The walk over a paragraph's elements in order. It has no recursion, so deep nesting is read too."""

    def __init__(self, paragraph: Any) -> None:
        self.found = Inline()
        self.stack: list[Any] = list(reversed(paragraph))
        self.legacy: tuple[Any, int] | None = None
        while self.stack:
            element = self.stack.pop()
            if isinstance(element, tuple):
                structured, start = element
                control = _control(structured, start, len(self.found.pieces))
                self.found.controls += [control] if control is not None else []
            elif isinstance(element.tag, str) and element.tag not in _LEFT_OUT:
                self._take(element, element.tag)

    def _take(self, element: Any, tag: str) -> None:
        found = self.found
        if tag == f"{W}t":
            found.pieces.append(element.text or "")
        elif tag in _TEXTS:
            found.pieces.append(_TEXTS[tag])
        elif tag == f"{W}sym":
            found.pieces.append(_symbol(element))
        elif tag == f"{M}oMath":
            found.formulas = True
            found.pieces.append(latex(element))
        elif tag == f"{W}txbxContent":
            found.boxes.append(element)
        elif tag == _WORD_ART:
            found.pieces.append(f" {element.get('string') or ''} ")
        elif tag in CHARTS:
            found.charts.append(element.get(f"{R}id") or "")
        elif tag == f"{DGM}relIds":
            found.diagrams.append(element.get(f"{R}dm") or "")
        elif tag in PICTURES:
            found.pictures.append(element)
        elif tag == f"{W}r" and is_on(element.find(f"{W}rPr/{W}vanish")):
            found.hidden += any((text.text or "").strip() for text in element.iter(f"{W}t"))
        elif tag == f"{W}fldChar":
            self._legacy_field(element)
        elif tag == f"{MC}AlternateContent":
            chosen = element.find(f"{MC}Choice")
            self.stack += reversed(chosen if chosen is not None else element)
        else:
            if tag == f"{W}sdt":
                self.stack.append((element, len(found.pieces)))
            self.stack += reversed(element)

    def _legacy_field(self, mark: Any) -> None:
        """Add a form field of older documents. Its text is between two marks. A check box has no text, so one is
        added."""
        pieces, controls = self.found.pieces, self.found.controls
        data = mark.find(f"{W}ffData")
        if data is not None:
            name = value_of(data, "w:name") or ""
            name = "" if _MACHINE_MADE.fullmatch(name) else name
            box = data.find(f"{W}checkBox")
            if box is None:
                self.legacy = (name, len(pieces))
                return
            state = box.find(f"{W}checked")
            checked = is_on(state if state is not None else box.find(f"{W}default"))
            pieces.append("☒ " if checked else "☐ ")
            controls.append(Control(name, len(pieces) - 1, len(pieces), checked))
        elif mark.get(f"{W}fldCharType") == "end" and self.legacy is not None:
            name, start = self.legacy
            controls.append(Control(name, start, len(pieces)))
            self.legacy = None


def inline(paragraph: Any) -> Inline:
    return _Walk(paragraph).found


def _symbol(element: Any) -> str:
    code = whole(element.get(f"{W}char"), 0, 16)
    return "" if not code or 0xD800 <= code < 0xE000 or code > sys.maxunicode else chr(code)
