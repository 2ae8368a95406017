"""The graphics of Office files as blocks: pictures as figures; charts and diagrams as captions, tables and lists.

Pictures are drawings and, in older documents, VML. A linked picture is not in the file, and nothing is fetched.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.parsing.pictures import figure, shown_large
from pipelines.records import Block, BlockCell, TextRun
from resources.hashes import stream_hash
from resources.parsers.untrusted import whole

# ---------------------------------------------------------------- pictures


A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
VML_IMAGE = "{urn:schemas-microsoft-com:vml}imagedata"
PICTURES = frozenset(
    (
        "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic",
        "{http://purl.oclc.org/ooxml/drawingml/picture}pic",
        VML_IMAGE,
    )
)
"""Elements of DOCX that are pictures, rather than the background of a shape."""
EMU_A_POINT = 12_700
"""Number of English Metric Units, DrawingML's unit of length, in a point."""
_STYLE_SIDE = re.compile(r"(?:^|;)\s*(width|height)\s*:\s*([\d.]+)(pt|in|cm|mm|px)?", re.IGNORECASE)
_POINTS = {"pt": 1.0, "in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4, "px": 0.75, "": 1.0}


def picture_block(
    element: Any, related: Mapping[str, tuple[str, str]], package: zipfile.ZipFile, locator: str | None = None
) -> Block | None:
    """Return the figure of a picture element, or None if it is small or not in the package. `related` comes from
    package.relations."""
    drawn = element.tag != VML_IMAGE
    blip = next(element.iter(f"{A}blip"), None) if drawn else element
    if blip is None or not shown_large(*(_drawn_sides(element) if drawn else _styled_sides(element))):
        return None
    kind, part = related.get(blip.get(f"{_R}embed" if drawn else f"{_R}id") or "", ("", ""))
    if kind != "image" or part not in package.NameToInfo:
        return None
    with package.open(part) as stream:
        image_hash = stream_hash(stream)
    return figure(image_hash, part, _alt(element), locator=locator)


def _drawn_sides(picture: Any) -> list[float]:
    extent = picture.find(f"{{*}}spPr/{A}xfrm/{A}ext")
    sides = [whole(extent.get(side), None) for side in ("cx", "cy")] if extent is not None else []
    return [side / EMU_A_POINT for side in sides if side is not None]


def _styled_sides(image: Any) -> list[float]:
    found = _STYLE_SIDE.findall(image.getparent().get("style") or "")
    return [float(size) * _POINTS[unit.lower()] for _, size, unit in found if size.count(".") < 2 and size != "."]


def _alt(picture: Any) -> str:
    """Return the picture's description, written by its author or a program."""
    if picture.tag == VML_IMAGE:
        return picture.getparent().get("alt") or ""
    holder = next(picture.iterancestors("{*}inline", "{*}anchor"), None)
    said = picture.find("{*}nvPicPr/{*}cNvPr") if holder is None else holder.find("{*}docPr")
    return "" if said is None else said.get("descr") or ""


# ---------------------------------------------------------------- charts and diagrams


_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
CX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
CHARTS = (f"{C}chart", f"{CX}chart")
"""Elements that point to a chart: of the old kinds, and of the kinds since 2016 (waterfalls, treemaps, funnels)."""
DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
MOST_POINTS = 10_000


def chart_blocks(chart: Any, locator: str | None, figures: bool) -> Iterator[Block]:
    """Yield the titles of a chart space and of its axes as captions. If `figures` is set, yield a table of its series
    too, which the file caches; a workbook has them on its sheets."""
    for title in chart.iter(f"{C}title", f"{CX}title"):
        text = " ".join(" ".join(_text(line) for line in title.iter(f"{_A}p")).split())
        text = text or " ".join(value.text or "" for value in title.iter(f"{C}v", f"{CX}v"))
        if text:
            yield Block("caption", (TextRun(text, locator=locator),))
    if figures and (cells := tuple(_cells(list(chart.iter(f"{C}ser")), locator))):
        yield Block("table", cells=cells)
    names = [" ".join(v.text or "" for v in one.iterfind(f"{CX}tx//{CX}v")) for one in chart.iter(f"{CX}series")]
    for at, data in enumerate(chart.iter(f"{CX}data") if figures else ()):
        if cells := tuple(_columns(data, names[at] if at < len(names) else "", locator)):
            yield Block("table", cells=cells)


def diagram_blocks(diagram: Any, locator: str | None) -> Iterator[Block]:
    """Yield the words of a SmartArt diagram, from its `dgm:dataModel`, as one list item for each point."""
    for point in diagram.iter(f"{DGM}pt"):
        text = " ".join(" ".join(_text(line) for line in point.iter(f"{_A}p")).split())
        if text:
            yield Block("list_item", (TextRun(text, locator=locator),), 1, "•")


def _text(line: Any) -> str:
    return "".join(run.text or "" for run in line.iter(f"{_A}t"))


def _points(series: Any, *names: str) -> dict[int, str]:
    """Return the text of each point by its number."""
    for name in names:
        found = series.find(f"{C}{name}")
        if found is not None:
            points = list(found.iter(f"{C}pt"))[:MOST_POINTS]
            return {
                whole(point.get("idx"), at): (point.findtext(f"{C}v") or "").strip() for at, point in enumerate(points)
            }
    return {}


def _cells(series: list[Any], locator: str | None) -> Iterator[BlockCell]:
    """Yield the cells of a table with a row for each category and a column for each series."""
    rows: dict[int, str] = {}
    for one in series:
        rows = {**_points(one, "val", "yVal"), **rows, **_points(one, "cat", "xVal")}

    def cell(row: int, column: int, text: str, header: bool = False) -> BlockCell:
        return BlockCell(row, column, (TextRun(text, locator=locator),), header=header)

    named = {at: text for one in series for at, text in _points(one, "cat", "xVal").items()}
    for column, one in enumerate(series, start=1):
        name = _points(one, "tx").get(0, "") or one.findtext(f"{C}tx/{C}v") or ""
        yield cell(0, column, name, True)
    order = {point: row for row, point in enumerate(sorted(rows), start=1)}
    for point, row in order.items():
        yield cell(row, 0, named.get(point, str(point + 1)))
        for column, one in enumerate(series, start=1):
            if text := _points(one, "val", "yVal").get(point, ""):
                yield cell(row, column, text)


def _columns(data: Any, name: str, locator: str | None) -> Iterator[BlockCell]:
    """Yield the cells of a table with a column for each level of the categories, the outermost first, and then a column
    of values under the name of the series."""
    levels = [level for names in data.iter(f"{CX}strDim") for level in reversed(names.findall(f"{CX}lvl"))]
    values = [level for numbers in data.iter(f"{CX}numDim") for level in numbers.findall(f"{CX}lvl")]
    for column, level in enumerate((*levels, *values)):
        if column >= len(levels) and name:
            yield BlockCell(0, column, (TextRun(name, locator=locator),), header=True)
        for at, point in enumerate(list(level.iter(f"{CX}pt"))[:MOST_POINTS]):
            row = min(whole(point.get("idx"), at), MOST_POINTS) + 1
            yield BlockCell(row, column, (TextRun(point.text or "", locator=locator),))
