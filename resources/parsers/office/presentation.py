"""The reader of PPTX with python-pptx, slide by slide: title, text by level, tables, pictures, notes, comments.

A slide is a page. Text of a layout or master belongs to the slide that shows it. If several slides show it, it is a
running header or footer, and is kept once. Text of a layout's placeholders is a prompt (`Click to edit`) and appears on
no slide. If a shape has alternative forms, the newest is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.pictures import figure, shown_large, without_repeated
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.hashes import bytes_hash
from resources.parsers.office.docx_formulas import M, latex
from resources.parsers.office.graphics import CHARTS, DGM, A, chart_blocks, diagram_blocks
from resources.parsers.package import core_properties, opened_package, unread, xml_root

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
    """Yield the shapes in groups and outside, in order."""
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
            for element in _taken(either):
                either.addprevious(element)
            parent.remove(either)
    for formula in list(root.iter(_MATH)):
        if formula.getparent().tag == f"{A}p":
            run = formula.makeelement(f"{A}r")
            run.append(formula.makeelement(f"{A}t"))
            run[0].text = " ".join(latex(found) for found in formula.iter(f"{M}oMath"))
            formula.getparent().replace(formula, run)


def _taken(either: Any) -> list[Any]:
    in_text = either.getparent().tag == f"{A}p"
    for form in either:
        if isinstance(form.tag, str) and any(in_text or child.tag in _SHAPES for child in form):
            return list(form)
    return []


@dataclass(slots=True)
class Layers:
    """The shapes with text of layouts and masters, by the number of the first slide that shows them. Text shown by one
    slide is its `own`; text shown by several is `running` along their edges, once."""

    own: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    running: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))


def layers_of(slides: Sequence[Any]) -> Layers:
    """Return the layers of slides. If the slides have no words of their own, all text of their layers is theirs."""
    read: dict[str, list[tuple[str, Any]]] = {}
    first: dict[str, tuple[int, Any]] = {}
    shown: dict[str, set[int]] = defaultdict(set)
    for number, slide in enumerate(slides, start=1):
        for layer in _under(slide):
            name = str(layer.part.partname)
            if name not in read:
                settle(layer._element)
                read[name] = list(_said(layer.shapes))
            for text, shape in read[name]:
                first.setdefault(text, (number, shape))
                shown[text].add(number)
    silent = not any(_words(slide._element.iter(f"{A}t")) for slide in slides)
    layers = Layers()
    for text, (number, shape) in first.items():
        (layers.own if silent or len(shown[text]) == 1 else layers.running)[number].append(shape)
    return layers


def _under(slide: Any) -> list[Any]:
    """Return the layers that a slide shows: its master and its layout, unless the slide or the layout hides them."""
    try:
        layout = slide.slide_layout
        master = layout.slide_master
    except (KeyError, AttributeError):  # a slide without them
        return []
    if slide._element.get("showMasterSp") in _OFF:
        return []
    return [layout] if layout._element.get("showMasterSp") in _OFF else [master, layout]


def _said(shapes: Any) -> Iterator[tuple[str, Any]]:
    """Yield the drawn shapes with their words. A field alone, such as a slide's number, has no words."""
    for shape in leaves(shapes):
        if not shape.is_placeholder:
            words = _words(text for run in shape._element.iter(f"{A}r") for text in run.iter(f"{A}t"))
            if words:
                yield words, shape


def _words(texts: Iterable[Any]) -> str:
    return " ".join("".join(text.text or "" for text in texts).split())


# ---------------------------------------------------------------- slides


ORIGIN = "python-pptx"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_WITH_MACROS = (
    "application/vnd.ms-powerpoint.template.macroEnabled.main+xml",
    "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
)
"""Content types of main parts that python-pptx does not know."""
_FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER")
_NOT_NOTES = (*_FURNITURE, "HEADER", "SLIDE_IMAGE")
ROW_HEIGHT = 180_000
"""English Metric Units within which the tops of shapes count as one row, read from left to right."""


def parse(path: Path) -> ParsedFile:
    """Read a PPTX file. Raise DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    import pptx

    with opened_package(path) as package:
        properties = core_properties(package, path)
    try:
        deck = _deck(path)
    except (KeyError, ValueError, AttributeError, pptx.exc.PackageNotFoundError) as error:
        message = f"{path.name}: not a readable presentation ({error}): open it and save it again"
        raise DocumentError(message, "corrupt") from None
    slides = list(deck.slides)
    for slide in slides:
        settle(slide._element)
    layers = layers_of(slides)
    blocks: list[Block] = []
    for number, slide in enumerate(slides, start=1):
        place = f"slide {number}"
        blocks += (block for shape in layers.running[number] for block in _running(shape, place, deck.slide_height))
        blocks += _slide(slide, layers.own[number], place, path)
    related = [pair for slide in slides for pair in _related(slide.part)]
    return ParsedFile(without_repeated(blocks, len(slides)), properties, len(slides), tuple(unread(related)), ORIGIN)


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


def _related(part: Any) -> Iterator[tuple[str, str]]:
    """Yield (last word of its type, name) of each part inside the package that a part points to."""
    for relation in part.rels.values():
        if not relation.is_external:
            yield relation.reltype.rsplit("/", 1)[-1], relation.target_part.partname.lstrip("/")


def _slide(slide: Any, under: Sequence[Any], place: str, path: Path) -> Iterator[Block]:
    """Yield the blocks of a slide, and of shapes that lie under this slide alone."""
    hidden = {"slide_state": "hidden"} if slide._element.get("show") in ("0", "false") else {}
    for block in (*_shown(slide, under, place, path), *_notes(slide, place), *_comments(slide, place, path)):
        yield replace(block, metadata={**block.metadata, **hidden}) if hidden else block


def _shown(slide: Any, under: Sequence[Any], place: str, path: Path) -> Iterator[Block]:
    title = slide.shapes.title
    if title is not None and title.has_text_frame and title.text_frame.text.strip():
        yield Block("heading", (TextRun(title.text_frame.text, locator=place),), 1)
    shapes = [shape for shape in leaves(slide.shapes) if title is None or shape.shape_id != title.shape_id]
    for shape in sorted((*shapes, *under), key=lambda s: ((s.top or 0) // ROW_HEIGHT, s.left or 0)):
        yield from _shape(shape, place, path)


def _running(shape: Any, place: str, height: int) -> Iterator[Block]:
    kind = "page_header" if 2 * (shape.top or 0) < height else "page_footer"
    for line in filter(
        str.strip, ("".join(t.text or "" for t in p.iter(f"{A}t")) for p in shape._element.iter(f"{A}p"))
    ):
        yield Block(kind, (TextRun(line, locator=place),))


def _line(paragraph: Any) -> str:
    return "".join(text.text or "" for text in paragraph.iter(f"{A}t"))


def _notes(slide: Any, place: str) -> Iterator[Block]:
    """Yield the text of the notes page: its own, and text of boxes that were added to it."""
    for shape in leaves(slide.notes_slide.shapes) if slide.has_notes_slide else ():
        if shape.has_text_frame and _role(shape) not in _NOT_NOTES:
            for line in filter(str.strip, shape.text_frame.text.splitlines()):
                yield Block("paragraph", (TextRun(line, locator=place),), metadata={"part": "notes"})


def _comments(slide: Any, place: str, path: Path) -> Iterator[Block]:
    """Yield comments in either format, and the answers to them."""
    for relation in slide.part.rels.values():
        if relation.reltype.endswith("/comments") and not relation.is_external:
            part = relation.target_part
            for text in xml_root(part.blob, part.partname.lstrip("/"), path).iter("{*}text", "{*}txBody"):
                said = (
                    text.text or ""
                    if not len(text)
                    else "\n".join("".join(t.text or "" for t in line.iter(f"{A}t")) for line in text.iter(f"{A}p"))
                )
                if said.strip():
                    yield Block("footnote", (TextRun(said, locator=place),), metadata={"part": "comment"})


def _shape(shape: Any, place: str, path: Path) -> Iterator[Block]:
    if getattr(shape, "has_table", False) and shape.has_table:
        yield _table(shape.table, place)
    elif getattr(shape, "has_chart", False) and shape.has_chart:
        yield from chart_blocks(shape.chart.part._element, place, figures=True)
    elif shape.has_text_frame:
        yield from _paragraphs(shape, place)
    else:
        yield from _diagram(shape, place, path)
        yield from _picture(shape, place)


def _diagram(shape: Any, place: str, path: Path) -> Iterator[Block]:
    """Yield the blocks of SmartArt, and of charts that python-pptx does not know."""
    for element in shape._element.iter(f"{DGM}relIds", *CHARTS):
        relation = shape.part.rels.get(element.get(f"{_R}dm") or element.get(f"{_R}id") or "")
        if relation is not None and not relation.is_external:
            part = relation.target_part
            root = xml_root(part.blob, part.partname.lstrip("/"), path)
            yield from chart_blocks(root, place, True) if element.tag in CHARTS else diagram_blocks(root, place)


def _picture(shape: Any, place: str) -> Iterator[Block]:
    """Yield the figure of a picture that is in the file and no icon."""
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


def _paragraphs(shape: Any, place: str) -> Iterator[Block]:
    role = _role(shape)
    filled = [p for p in shape.text_frame.paragraphs if p.text.strip()]
    for paragraph in filled:
        runs = (TextRun(paragraph.text.replace("\x0b", "\n"), locator=place),)
        if role in _FURNITURE:
            yield Block("page_footer", runs)
        elif role == "SUBTITLE":
            yield Block("paragraph", runs)
        elif (role in ("BODY", "OBJECT") and (len(filled) > 1 or paragraph.level)) or _has_bullet(paragraph):
            yield Block("list_item", runs, paragraph.level + 1, "•")
        else:
            yield Block("paragraph", runs)


def _has_bullet(paragraph: Any) -> bool:
    properties = paragraph._p.pPr
    return properties is not None and any(
        child.tag.endswith(("}buChar", "}buAutoNum", "}buBlip")) for child in properties
    )


def _table(table: Any, place: str) -> Block:
    cells = []
    rows = table._tbl.tr_lst  # python-pptx searches for its rows and cells again at every step
    for row_index, row in enumerate(rows):
        for column, cell in enumerate(row.tc_lst):
            if cell.is_spanned:
                continue
            tall, wide = (cell.rowSpan, cell.gridSpan) if cell.is_merge_origin else (1, 1)
            header = bool(table.first_row) and row_index == 0 and len(rows) > 1
            cells.append(BlockCell(row_index, column, (TextRun(cell.text, locator=place),), tall, wide, header))
    return Block("table", cells=tuple(cells))
