"""The reader of PPTX with python-pptx, slide by slide: title, text by level, tables, pictures, notes, comments.

A slide is a page. Its shapes are in reading order; groups stay together. If no placeholder has a title, a short box
above all others with letters at least as large is the title; bold or larger lines above text are headings below it.
Hidden slides and shapes follow the rule for all formats. Text of a layout or master belongs to the slide that shows it.
If several slides show it, it is a running header or footer, and is kept once. Text of a layout's placeholders is a
prompt (`Click to edit`) that no slide shows. If a shape has alternative forms, the newest is read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.box_order import PlacedBox, in_reading_order
from pipelines.parsing.hidden import DELETED, METADATA, HiddenContent
from pipelines.parsing.line_text import is_right_to_left
from pipelines.parsing.pictures import figure, shown_large, without_repeated
from pipelines.parsing.raised import lower_text, raise_text
from pipelines.parsing.symbol_fonts import is_symbol_font, symbol_text
from pipelines.plural import plural
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.hashes import bytes_hash
from resources.parsers.labels import CHECK_MARKS
from resources.parsers.office.docx_formulas import M, latex
from resources.parsers.office.graphics import CHARTS, DGM, A, chart_blocks, diagram_blocks
from resources.parsers.package import core_properties, opened_package, unescape, unread, xml_root
from resources.parsers.untrusted import signed_whole, whole

# ---------------------------------------------------------------- layers
#
# The shapes of a slide's layout and master lie under it; its own list of shapes does not have them.


P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_MATH = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
_SHAPES = frozenset(f"{P}{name}" for name in ("sp", "grpSp", "graphicFrame", "cxnSp", "pic"))
_HOLDERS = frozenset((f"{P}spTree", f"{P}grpSp", f"{A}p"))
_OFF = ("0", "false")


def leaves(shapes: Any) -> Iterator[Any]:
    """Yield the shapes inside and outside groups, in order."""
    stack = list(reversed(list(shapes)))
    while stack:
        shape = stack.pop()
        if hasattr(shape, "shapes"):
            stack += list(reversed(list(shape.shapes)))
        else:
            yield shape


def settle(root: Any) -> None:
    """Replace alternative forms of a shape by the newest one, and formulas by their text."""
    for either in list(root.iter(f"{MC}AlternateContent")):
        parent = either.getparent()
        if parent is not None and parent.tag in _HOLDERS:
            for element in _take_either(either):
                either.addprevious(element)
            parent.remove(either)
    for formula in list(root.iter(_MATH)):
        if formula.getparent().tag == f"{A}p":
            run = formula.makeelement(f"{A}r")
            run.append(formula.makeelement(f"{A}t"))
            run[0].text = " ".join(latex(found) for found in formula.iter(f"{M}oMath"))
            formula.getparent().replace(formula, run)


def _take_either(either: Any) -> list[Any]:
    in_text = either.getparent().tag == f"{A}p"
    for form in either:
        if isinstance(form.tag, str) and any(in_text or child.tag in _SHAPES for child in form):
            return list(form)
    return []


def is_hidden(shape: Any) -> bool:
    """Say whether a shape is hidden."""
    named = shape._element.find("*/{*}cNvPr")
    return named is not None and named.get("hidden") in ("1", "true")


def is_within_hidden(shape: Any) -> bool:
    """Say whether a shape, or a group that contains it, is hidden."""
    groups = (group.find("*/{*}cNvPr") for group in shape._element.iterancestors(f"{P}grpSp"))
    return is_hidden(shape) or any(named is not None and named.get("hidden") in ("1", "true") for named in groups)


@dataclass(slots=True)
class Layers:
    """The shapes with text of layouts and masters, by the number of the first slide that shows them. Text of one slide
    is `own`; text of several slides is `running` (a header or footer), kept once."""

    own: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    running: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))


def layers_of(slides: Sequence[Any], shown: Sequence[bool]) -> Layers:
    """Return the layers of the slides that are read. If the slides have no words, all text of their layers counts as
    their own."""
    read: dict[str, list[tuple[str, Any]]] = {}
    first: dict[str, tuple[int, Any]] = {}
    under: dict[str, set[int]] = defaultdict(set)
    read_slides = [(number, slide) for number, slide in enumerate(slides, start=1) if shown[number - 1]]
    for number, slide in read_slides:
        for layer in _layers_under(slide):
            name = str(layer.part.partname)
            if name not in read:
                settle(layer._element)
                read[name] = list(_shapes_with_words(layer.shapes))
            for text, shape in read[name]:
                first.setdefault(text, (number, shape))
                under[text].add(number)
    silent = not any(_words(slide._element.iter(f"{A}t")) for _, slide in read_slides)
    layers = Layers()
    for text, (number, shape) in first.items():
        (layers.own if silent or len(under[text]) == 1 else layers.running)[number].append(shape)
    return layers


def _layers_under(slide: Any) -> list[Any]:
    """Return the layers of a slide: its master and its layout, unless the slide or the layout hides them."""
    try:
        layout = slide.slide_layout
        master = layout.slide_master
    except (KeyError, AttributeError):  # a slide without them
        return []
    if slide._element.get("showMasterSp") in _OFF:
        return []
    return [layout] if layout._element.get("showMasterSp") in _OFF else [master, layout]


def _shapes_with_words(shapes: Any) -> Iterator[tuple[str, Any]]:
    """Yield the drawn shapes with their words. A field alone, such as a slide's number, has no words."""
    for shape in leaves(shapes):
        if not shape.is_placeholder and not is_hidden(shape):
            words = _words(text for run in shape._element.iter(f"{A}r") for text in run.iter(f"{A}t"))
            if words:
                yield words, shape


def _words(texts: Iterable[Any]) -> str:
    return " ".join("".join(text.text or "" for text in texts).split())


# ---------------------------------------------------------------- text


_USUAL_SIZE = 1800
"""Default size of letters in PowerPoint, in hundredths of a point."""


def line_of(paragraph: Any) -> str:
    """Return the visible text of a paragraph: raised and lowered letters and signs of symbol fonts as plain characters,
    and breaks as newlines."""
    parts: list[tuple[int, str]] = []
    for part in paragraph:
        if part.tag == f"{A}br":
            parts.append((0, "\n"))
        elif part.tag in (f"{A}r", f"{A}fld"):
            properties = part.find(f"{A}rPr")
            offset = 0 if properties is None else _percent(properties.get("baseline"))
            side = (offset > 0) - (offset < 0)
            text = _signs(unescape("".join(text.text or "" for text in part.iter(f"{A}t"))), properties)
            if parts and parts[-1][0] == side:
                text = parts.pop()[1] + text
            parts.append((side, text))
    forms = {1: raise_text, -1: lower_text}
    return "".join(forms[side](text) if side and len(text) <= LONGEST_RAISED else text for side, text in parts)


def _settle_struck(root: Any, content: HiddenContent) -> None:
    """Remove struck-out runs from a slide unless they are read. Adjacent runs count as one."""
    for paragraph in root.iter(f"{A}p"):
        before = False
        for run in list(paragraph.iterchildren(f"{A}r")):
            look = run.find(f"{A}rPr")
            struck = look is not None and look.get("strike", "noStrike") != "noStrike"
            if struck and run.findtext(f"{A}t", "").strip():
                read = content.read if before else content.take(DELETED)
                if not read:
                    paragraph.remove(run)
            before = struck


def text_of(element: Any) -> str:
    """Return the text of a shape's or cell's element, with one line for each paragraph."""
    return "\n".join(map(line_of, element.iter(f"{A}p")))


def _percent(value: str | None) -> int:
    """Return a percentage, written as `30000` or, in strict files, `30%`."""
    return signed_whole((value or "").rstrip("%"), 0)


def _signs(text: str, properties: Any) -> str:
    """Return a run's text with the signs of its symbol font. A symbol font in addition to the letters' font applies
    only to characters other than letters: a single `à` is an arrow."""
    fonts = {} if properties is None else {font.tag: font.get("typeface") or "" for font in properties}
    font = fonts.get(f"{A}latin", "")
    symbols = fonts.get(f"{A}sym", "")
    if is_symbol_font(symbols) and not is_symbol_font(font):
        alone = all(not char.isalnum() or ord(char) > 0x7F for char in text)
        if alone or any("\uf000" <= char <= "\uf0ff" for char in text):
            return "".join(symbol_text(char, symbols) if alone or char >= "\uf000" else char for char in text)
    return symbol_text(text, font)


@dataclass(frozen=True, slots=True)
class SlideLine:
    """A paragraph of a slide: its text, and whether all its letters are bold. `size` belongs to the largest letter."""

    text: str
    bold: bool
    size: int
    level: int
    bullet: bool


def lines_of(shape: Any) -> list[SlideLine]:
    """Return the paragraphs of a shape that have text. Single letters on consecutive lines form one word."""
    body = shape.text_frame._txBody
    usual = body.find(f"{A}lstStyle/{A}lvl1pPr/{A}defRPr")
    found = []
    for paragraph in shape.text_frame.paragraphs:
        text = line_of(paragraph._p)
        if not text.strip():
            continue
        mark = _check_mark(paragraph._p)
        text = f"{mark} {text}" if mark else text
        own = paragraph._p.find(f"{A}pPr/{A}defRPr")
        looks = [_look(run, own, usual) for run in paragraph._p.iter(f"{A}r") if run.findtext(f"{A}t", "").strip()]
        bold = bool(looks) and all(bold for bold, _ in looks)
        size = max((size for _, size in looks), default=_USUAL_SIZE)
        found.append(SlideLine(text, bold, size, _level(paragraph._p), _has_bullet(paragraph._p)))
    letters = [letter for line in found for letter in line.text.split("\n")]
    if len(letters) > 2 and all(len(letter.strip()) == 1 and letter.strip().isalnum() for letter in letters):
        return [replace(found[0], text="".join(map(str.strip, letters)))]
    return found


def _look(run: Any, *others: Any) -> tuple[bool, int]:
    levels = [own for own in (run.find(f"{A}rPr"), *others) if own is not None]
    bold = next((own.get("b") for own in levels if own.get("b")), "0")
    sizes = (whole(own.get("sz"), 0) for own in levels)
    return bold not in _OFF, next(filter(None, sizes), _USUAL_SIZE)


def _level(paragraph: Any) -> int:
    properties = paragraph.find(f"{A}pPr")
    return 0 if properties is None else min(whole(properties.get("lvl"), 0), DEEPEST_LEVEL)


def _has_bullet(paragraph: Any) -> bool:
    properties = paragraph.find(f"{A}pPr")
    return properties is not None and any(
        child.tag.endswith(("}buChar", "}buAutoNum", "}buBlip")) for child in properties
    )


def _check_mark(paragraph: Any) -> str:
    """Return the bullet of a paragraph if it is a check mark, which has a meaning, or ""."""
    bullet, font = paragraph.find(f"{A}pPr/{A}buChar"), paragraph.find(f"{A}pPr/{A}buFont")
    named = "" if font is None else font.get("typeface") or ""
    sign = "" if bullet is None else symbol_text((bullet.get("char") or "")[:1], named)
    return sign if sign and sign in CHECK_MARKS else ""


DEEPEST_LEVEL = 8
LONGEST_RAISED = 40
"""Most characters of raised or lowered text that has a meaning."""


# ---------------------------------------------------------------- slides


ORIGIN = "python-pptx"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_WITH_MACROS = (
    "application/vnd.ms-powerpoint.template.macroEnabled.main+xml",
    "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
)
"""Content types of main parts that python-pptx does not support."""
_FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER")
_NOT_NOTES = (*_FURNITURE, "HEADER", "SLIDE_IMAGE")


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read a PPTX file; with `hidden`, include its hidden slides and shapes.

    Raise DocumentError: `corrupt`, `encrypted`, `limit_exceeded`.
    """
    import pptx

    with opened_package(path) as package:
        properties = core_properties(package, path)
    try:
        deck = _deck(path)
    except (KeyError, ValueError, AttributeError, pptx.exc.PackageNotFoundError) as error:
        message = f"{path.name}: not a readable presentation ({error}): open it and save it again"
        raise DocumentError(message, "corrupt") from None
    slides = list(deck.slides)
    content = HiddenContent(hidden)
    shown = [slide._element.get("show") not in _OFF or content.take("slides") for slide in slides]
    for slide, is_shown in zip(slides, shown, strict=True):
        settle(slide._element)
        if is_shown:
            _settle_struck(slide._element, content)
            if slide.has_notes_slide:
                _settle_struck(slide.notes_slide._element, content)
    layers = layers_of(slides, shown)
    size = (deck.slide_width or 1, deck.slide_height or 1)
    blocks: list[Block] = []
    for number, slide in enumerate(slides, start=1):
        place = f"slide {number}"
        if shown[number - 1]:
            blocks += (block for shape in layers.running[number] for block in _running(shape, place, size[1]))
            blocks += _Slide(slide, layers.own[number], place, path, size, content).blocks()
    related = [pair for slide in slides for pair in _related_parts(slide.part)]
    active = sum(1 for number, slide in enumerate(slides) if shown[number] for _ in slide._element.iter(f"{P}control"))
    told = [f"the values of {plural(active, 'ActiveX control')} were not read"] if active else []
    warnings = (*content.warnings(), *told, *unread(related))
    return ParsedFile(without_repeated(blocks, len(slides)), properties, len(slides), warnings, ORIGIN)


def _deck(path: Path) -> Any:
    """Open a presentation, or a template or a show, with macros or without.

    Raise ValueError if the package is not one of them."""
    from pptx.opc.package import PartFactory
    from pptx.package import Package
    from pptx.parts.presentation import PresentationPart

    PartFactory.part_type_for.update(dict.fromkeys(_WITH_MACROS, PresentationPart))
    part = Package.open(str(path)).main_document_part
    if not isinstance(part, PresentationPart):
        raise ValueError(f"its main part is {part.content_type}")
    return part.presentation


def _related_parts(part: Any) -> Iterator[tuple[str, str]]:
    """Yield (last word of its type, name) of each part of the package to which a part points."""
    for relation in part.rels.values():
        if not relation.is_external:
            yield relation.reltype.rsplit("/", 1)[-1], relation.target_part.partname.lstrip("/")


TOP = 0.35
"""Share of a slide's height, from the top, that must contain the middle of its title."""
LONGEST_TITLE, MOST_WORDS = 120, 16
"""Most characters and words of a line that may be a title."""
LARGER = 1.15
"""Ratio to all other letters of a slide from which a line at the top is its title."""
LARGE = 2400
"""Least size of the only text of a slide for it to be the title, in hundredths of a point."""
MOST_TITLES = 20
"""Most boxes at the top of a slide that are examined."""
SMALL, BACKGROUND = 0.03, 0.6
"""Shares of a slide below and above which a picture does not affect where the slide's text begins: logos,
backgrounds."""
DEEPEST_GROUP = 40
"""Most levels of nested groups whose shapes are ordered."""


_ADDRESS = re.compile(r"@|://|www\.")


def is_short_line(text: str) -> bool:
    """Say whether a text may be a title or heading."""
    short = len(text) <= LONGEST_TITLE and len(text.split()) <= MOST_WORDS and text.count("\n") < 3
    return (
        short
        and text.rstrip()[-1:] not in ".,;。，；"
        and sum(map(str.isalpha, text)) > 1
        and not _ADDRESS.search(text)
    )


class _Slide:
    """One slide, with the layer shapes that only it shows."""

    def __init__(
        self, slide: Any, under: Sequence[Any], place: str, path: Path, size: tuple[int, int], hidden: HiddenContent
    ) -> None:
        self.slide, self.place, self.path = slide, place, path
        self.width, self.height = size
        self.hidden = hidden
        self.is_hidden = slide._element.get("show") in _OFF
        self.own = [shape for shape in slide.shapes if self._is_taken(shape)]
        self.shapes = [*self.own, *under]

    def blocks(self) -> Iterator[Block]:
        parts = (self._shown_blocks(), _notes(self.slide, self.place), _comments(self.slide, self.place, self.path))
        for block in (block for part in parts for block in part):
            yield _mark_hidden(block) if self.is_hidden else block

    def _is_taken(self, shape: Any) -> bool:
        """Say whether a shape is read: it may be hidden, or outside the slide. Shapes without text or picture are not
        counted as hidden."""
        if not is_hidden(shape) and not self._is_beside(shape):
            return True
        parts = shape._element.iter(f"{A}t", f"{A}blip", f"{A}graphicData")
        return any(part.tag != f"{A}t" or part.text for part in parts) and self.hidden.take("shapes")

    def _is_beside(self, shape: Any) -> bool:
        """Say whether a shape is entirely outside the slide. Positions of shapes in groups are relative, so they do not
        count."""
        wide, tall = _side(shape, "width"), _side(shape, "height")
        if not wide or not tall or shape._element.getparent().tag == f"{P}grpSp":
            return False
        x, y = _left_edge(shape), _top(shape)
        return x >= self.width or y >= self.height or x + wide <= 0 or y + tall <= 0

    def _shown_blocks(self) -> Iterator[Block]:
        title = self._title()
        if title is not None:
            yield Block("heading", (TextRun(text_of(title._element), locator=self.place),), 1)
        own = None if title is None else title._element
        shapes = list(self._in_order((shape for shape in self.shapes if shape._element is not own), 0))
        furniture = [shape for shape in shapes if _role(shape) in _FURNITURE]
        texts = [lines_of(shape) if shape.has_text_frame else [] for shape in shapes]
        level = 1 if title is None else 2
        for at, shape in enumerate(shapes):
            if shape not in furniture:
                heads = self._heads(shapes, texts, at)
                for block in self._blocks(shape, texts[at], heads, level):
                    yield _mark_hidden(block) if is_within_hidden(shape) or self._is_beside(shape) else block
        for shape in furniture:
            for line in lines_of(shape):
                yield Block("page_footer", (TextRun(line.text, locator=self.place),))

    # ------------------------------------------------------------ order

    def _in_order(self, shapes: Iterable[Any], depth: int) -> Iterator[Any]:
        """Yield shapes in reading order. A group stays together, with its own shapes ordered."""
        if depth > DEEPEST_GROUP:
            yield from leaves(shapes)
            return
        boxes = [_place(shape, at) for at, shape in enumerate(shapes)]
        for box in in_reading_order([box for box in boxes if _says(box.item)], _from_right(boxes)):
            if hasattr(box.item, "shapes"):
                yield from self._in_order(filter(self._is_taken, box.item.shapes), depth + 1)
            else:
                yield box.item

    # ------------------------------------------------------------ titles

    def _title(self) -> Any:
        """Return the shape of the title: its placeholder, or else the prominent box at the top, or None."""
        title = self.slide.shapes.title
        if title is not None and not is_hidden(title) and title.has_text_frame and text_of(title._element).strip():
            return title
        boxes = [shape for shape in self.shapes if _says(shape) and _role(shape) not in _FURNITURE]
        texts = {id(box): lines_of(box) for box in boxes if box.has_text_frame}
        sizes = {id(box): _size(box, texts) for box in boxes}
        own = [box for box in self.own if texts.get(id(box))]
        for box in sorted(own, key=_top)[:MOST_TITLES]:
            lines = texts[id(box)]
            if _top(box) + _side(box, "height") / 2 > TOP * self.height:
                break
            others = [other for other in boxes if other is not box and not self._is_decoration(other)]
            if len(lines) > 2 or any(line.bullet for line in lines) or not is_short_line(text_of(box._element)):
                continue
            if self._stands_out(box, lines, others, [sizes[id(other)] for other in others if sizes[id(other)]]):
                return box
        return None

    def _stands_out(self, box: Any, lines: Sequence[SlideLine], others: Sequence[Any], sizes: list[int]) -> bool:
        """Say whether a box is a title: larger than all other text, or above all others and at least as large as
        most."""
        size = min(line.size for line in lines)
        bold = all(line.bold for line in lines)
        if not others:
            return bold or size >= LARGE
        if sizes and size >= LARGER * max(sizes):
            return True
        middle = _top(box) + _side(box, "height") / 2
        above = all(middle < _top(other) for other in others)
        return above and (not sizes or size >= sorted(sizes)[len(sizes) // 2])

    def _is_decoration(self, shape: Any) -> bool:
        share = _side(shape, "width") * _side(shape, "height") / (self.width * self.height)
        return shape._element.tag.endswith("}pic") and (share < SMALL or share > BACKGROUND)

    @staticmethod
    def _heads(shapes: Sequence[Any], texts: Sequence[Sequence[SlideLine]], at: int) -> set[int]:
        """Return the indexes of bold or larger lines of a shape that are headings: lines above other text in it, and a
        single line of a shape above the next shape."""
        lines = texts[at]
        heads = {
            nth
            for nth, (line, after) in enumerate(pairwise(lines))
            if _stands_out(line, after) and not line.bullet and not line.level and is_short_line(line.text)
        }
        below = texts[at + 1] if at + 1 < len(texts) else []
        if len(lines) == 1 and below and _stands_out(lines[0], below[0]) and is_short_line(lines[0].text):
            one, other = shapes[at], shapes[at + 1]
            left, right = max(_left_edge(one), _left_edge(other)), min(_right(one), _right(other))
            if left < right and _top(other) > _top(one) and sum(len(line.text) for line in below) > SHORT:
                heads.add(0)
        return heads

    # ------------------------------------------------------------ shapes

    def _blocks(self, shape: Any, lines: Sequence[SlideLine], heads: set[int], level: int) -> Iterator[Block]:
        if getattr(shape, "has_table", False) and shape.has_table:
            yield _table(shape.table, self.place)
        elif getattr(shape, "has_chart", False) and shape.has_chart:
            yield from chart_blocks(shape.chart.part._element, self.place, figures=True)
        elif shape.has_text_frame:
            role = _role(shape)
            for at, line in enumerate(lines):
                runs = (TextRun(line.text, locator=self.place),)
                listed = role in ("BODY", "OBJECT") and (len(lines) > 1 or line.level > 0)
                if at in heads:
                    yield Block("heading", runs, level)
                elif line.bullet or listed:
                    yield Block("list_item", runs, line.level + 1, "•")
                else:
                    yield Block("paragraph", runs)
        else:
            yield from _diagram(shape, self.place, self.path)
            yield from _picture(shape, self.place)


SHORT = 12
"""Most characters of a text below a bold line for the two to be a label and a value instead of a heading and text."""


def _stands_out(line: SlideLine, after: SlideLine) -> bool:
    """Say whether a line is bold or larger compared with the line after it."""
    return (line.bold and not after.bold) or line.size >= LARGER * after.size


def _mark_hidden(block: Block) -> Block:
    return replace(block, metadata={**block.metadata, **METADATA})


def _from_right(boxes: Sequence[PlacedBox[Any]]) -> bool:
    """Say whether boxes are read from right to left, because of their script or their vertical lines of text."""
    said = "".join(text.text or "" for box in boxes for text in box.item._element.iter(f"{A}t"))
    ways = [body.get("vert") for box in boxes for body in box.item._element.iter(f"{A}bodyPr")]
    return is_right_to_left(said) or 2 * ways.count("eaVert") > len(ways)


def _says(shape: Any) -> bool:
    """Say whether a shape has content to read, unlike lines and empty frames."""
    if hasattr(shape, "shapes"):
        return any(_says(leaf) for leaf in leaves(shape.shapes))
    return not shape.has_text_frame or any((text.text or "").strip() for text in shape._element.iter(f"{A}t"))


def _side(shape: Any, name: str) -> int:
    """Return a side or coordinate of a shape, or 0 if it is missing or not a number."""
    try:
        return getattr(shape, name) or 0
    except (ValueError, AttributeError, KeyError):
        return 0


def _top(shape: Any) -> int:
    return _side(shape, "top")


def _left_edge(shape: Any) -> int:
    return _side(shape, "left")


def _right(shape: Any) -> int:
    return _left_edge(shape) + _side(shape, "width")


def _place(shape: Any, at: int) -> PlacedBox[Any]:
    return PlacedBox(shape, at, _left_edge(shape), _top(shape), _right(shape), _top(shape) + _side(shape, "height"))


def _size(shape: Any, texts: dict[int, list[SlideLine]]) -> int:
    """Return the size of a box's letters, or 0 for placeholders, whose size their layout sets, and for other shapes."""
    lines = texts.get(id(shape)) or []
    return 0 if not lines or shape.is_placeholder else max(line.size for line in lines)


def _running(shape: Any, place: str, height: int) -> Iterator[Block]:
    kind = "page_header" if 2 * (shape.top or 0) < height else "page_footer"
    for line in filter(str.strip, map(line_of, shape._element.iter(f"{A}p"))):
        yield Block(kind, (TextRun(line, locator=place),))


def _notes(slide: Any, place: str) -> Iterator[Block]:
    """Yield the text of the notes page: the notes, and text of added boxes."""
    for shape in leaves(slide.notes_slide.shapes) if slide.has_notes_slide else ():
        if shape.has_text_frame and _role(shape) not in _NOT_NOTES:
            for line in filter(str.strip, text_of(shape._element).splitlines()):
                yield Block("paragraph", (TextRun(line, locator=place),), metadata={"part": "notes"})


def _comments(slide: Any, place: str, path: Path) -> Iterator[Block]:
    """Yield comments in either format, and the replies to them."""
    for relation in slide.part.rels.values():
        if relation.reltype.endswith("/comments") and not relation.is_external:
            part = relation.target_part
            for text in xml_root(part.blob, part.partname.lstrip("/"), path).iter("{*}text", "{*}txBody"):
                said = text.text or "" if not len(text) else "\n".join(map(line_of, text.iter(f"{A}p")))
                if said.strip():
                    yield Block("footnote", (TextRun(said, locator=place),), metadata={"part": "comment"})


def _diagram(shape: Any, place: str, path: Path) -> Iterator[Block]:
    """Yield the blocks of SmartArt, and of charts that python-pptx does not support."""
    for element in shape._element.iter(f"{DGM}relIds", *CHARTS):
        relation = shape.part.rels.get(element.get(f"{_R}dm") or element.get(f"{_R}id") or "")
        if relation is not None and not relation.is_external:
            part = relation.target_part
            root = xml_root(part.blob, part.partname.lstrip("/"), path)
            yield from chart_blocks(root, place, True) if element.tag in CHARTS else diagram_blocks(root, place)


def _picture(shape: Any, place: str) -> Iterator[Block]:
    """Yield the figure of a picture that is in the file and larger than an icon."""
    if not shape._element.tag.endswith("}pic") or not shown_large(*_sides(shape)):
        return
    blip = next(shape._element.iter(f"{A}blip"), None)
    relation = shape.part.rels.get(blip.get(f"{_R}embed")) if blip is not None else None
    if relation is not None and not relation.is_external:
        part = relation.target_part
        alt = shape._element.find("{*}nvPicPr/{*}cNvPr").get("descr") or ""
        yield figure(bytes_hash(part.blob), part.partname.lstrip("/"), alt, locator=place)


def _sides(shape: Any) -> list[float]:
    return [side.pt for side in (shape.width, shape.height) if side is not None]


def _role(shape: Any) -> str:
    return shape.placeholder_format.type.name if shape.is_placeholder and shape.placeholder_format.type else ""


def _table(table: Any, place: str) -> Block:
    cells = []
    rows = table._tbl.tr_lst  # python-pptx searches for its rows and cells again at every step
    for row_index, row in enumerate(rows):
        for column, cell in enumerate(row.tc_lst):
            if cell.is_spanned:
                continue
            tall, wide = (cell.rowSpan, cell.gridSpan) if cell.is_merge_origin else (1, 1)
            header = bool(table.first_row) and row_index == 0 and len(rows) > 1
            cells.append(BlockCell(row_index, column, (TextRun(text_of(cell), locator=place),), tall, wide, header))
    return Block("table", cells=tuple(cells))
