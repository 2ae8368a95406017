"""PPTX by python-pptx, slide by slide: title, text by level, tables, pictures, notes. A slide is a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.pictures import figure, shown_large, without_repeated
from pipelines.records import Block, BlockCell, ParsedFile, Run
from resources.hashes import bytes_hash
from resources.parsers.office.graphics import DGM, chart_blocks, diagram_blocks
from resources.parsers.office.package import core_properties, opened_package, xml_parser
from resources.parsers.office.pictures import A

ORIGIN = "python-pptx"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_WITH_MACROS = (
    "application/vnd.ms-powerpoint.template.macroEnabled.main+xml",
    "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
)
"""Main parts that python-pptx does not know."""
_FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER")
ROW_HEIGHT = 180_000
"""EMU; shapes whose tops are this close are read from left to right."""


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    import pptx

    with opened_package(path) as package:
        properties = core_properties(package, path)
    try:
        deck = _deck(path)
    except (KeyError, ValueError, AttributeError, pptx.exc.PackageNotFoundError) as error:
        message = f"{path.name}: not a readable presentation ({error}): open it and save it again"
        raise DocumentError(message, "corrupt") from None
    blocks: list[Block] = []
    for number, slide in enumerate(deck.slides, start=1):
        blocks += _slide(slide, f"slide {number}")
    count = len(deck.slides)
    return ParsedFile(without_repeated(blocks, count), properties, count, (), ORIGIN)


def _deck(path: Path) -> Any:
    """A presentation, or what is one but for its name: a template or a show, with macros or without.

    Raises ValueError where the package is none."""
    from pptx.opc.package import PartFactory
    from pptx.package import Package
    from pptx.parts.presentation import PresentationPart

    PartFactory.part_type_for.update(dict.fromkeys(_WITH_MACROS, PresentationPart))
    part = Package.open(str(path)).main_document_part
    if not isinstance(part, PresentationPart):
        raise ValueError(f"its main part is {part.content_type}")
    return part.presentation


def _slide(slide: Any, place: str) -> Iterator[Block]:
    title = slide.shapes.title
    if title is not None and title.has_text_frame and title.text_frame.text.strip():
        yield Block("heading", (Run(title.text_frame.text, locator=place),), 1)
    shapes = [shape for shape in _leaves(slide.shapes) if title is None or shape.shape_id != title.shape_id]
    for shape in sorted(shapes, key=lambda s: ((s.top or 0) // ROW_HEIGHT, s.left or 0)):
        yield from _shape(shape, place)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        for line in slide.notes_slide.notes_text_frame.text.splitlines():
            if line.strip():
                yield Block("paragraph", (Run(line, locator=place),), metadata={"part": "notes"})


def _leaves(shapes: Any) -> Iterator[Any]:
    """Shapes in groups and outside, in order."""
    stack = list(reversed(list(shapes)))
    while stack:
        shape = stack.pop()
        if hasattr(shape, "shapes"):
            stack += list(reversed(list(shape.shapes)))
        else:
            yield shape


def _shape(shape: Any, place: str) -> Iterator[Block]:
    if getattr(shape, "has_table", False) and shape.has_table:
        yield _table(shape.table, place)
    elif getattr(shape, "has_chart", False) and shape.has_chart:
        yield from chart_blocks(shape.chart.part._element, place, figures=True)
    elif shape.has_text_frame:
        yield from _paragraphs(shape, place)
    else:
        yield from _diagram(shape, place)
        yield from _picture(shape, place)


def _diagram(shape: Any, place: str) -> Iterator[Block]:
    from lxml import etree

    for relations in shape._element.iter(f"{DGM}relIds"):
        part = shape.part.related_part(relations.get(f"{_R}dm"))
        yield from diagram_blocks(etree.fromstring(part.blob, xml_parser()), place)


def _picture(shape: Any, place: str) -> Iterator[Block]:
    """The figure of a picture that is in the file and no icon."""
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


def _paragraphs(shape: Any, place: str) -> Iterator[Block]:
    role = shape.placeholder_format.type.name if shape.is_placeholder and shape.placeholder_format.type else ""
    filled = [p for p in shape.text_frame.paragraphs if p.text.strip()]
    for paragraph in filled:
        runs = (Run(paragraph.text.replace("\x0b", "\n"), locator=place),)
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
    rows = table._tbl.tr_lst  # rows and cells of python-pptx are found anew at every step
    for row_index, row in enumerate(rows):
        for column, cell in enumerate(row.tc_lst):
            if cell.is_spanned:
                continue
            tall, wide = (cell.rowSpan, cell.gridSpan) if cell.is_merge_origin else (1, 1)
            header = bool(table.first_row) and row_index == 0 and len(rows) > 1
            cells.append(BlockCell(row_index, column, (Run(cell.text, locator=place),), tall, wide, header))
    return Block("table", cells=tuple(cells))
