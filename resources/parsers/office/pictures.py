"""Pictures of Office files, as figures: drawings and, in older documents, VML. What is only linked to is
not in the file, and nothing is fetched."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from typing import Any

from pipelines.parsing.pictures import figure, shown_large
from pipelines.records import Block
from resources.hashes import stream_hash
from resources.parsers.untrusted import whole

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
"""Elements of DOCX that are pictures, not the ground of a shape."""
EMU_A_POINT = 12_700
_STYLE_SIDE = re.compile(r"(?:^|;)\s*(width|height)\s*:\s*([\d.]+)(pt|in|cm|mm|px)?", re.IGNORECASE)
_POINTS = {"pt": 1.0, "in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4, "px": 0.75, "": 1.0}


def picture_block(
    element: Any, related: Mapping[str, tuple[str, str]], package: zipfile.ZipFile, locator: str | None = None
) -> Block | None:
    """The figure of a picture element; None where it is small, or not in the package. `related` is as of
    `office_package.relations`."""
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
    """What its author, or the program, says that it shows."""
    if picture.tag == VML_IMAGE:
        return picture.getparent().get("alt") or ""
    holder = next(picture.iterancestors("{*}inline", "{*}anchor"), None)
    said = picture.find("{*}nvPicPr/{*}cNvPr") if holder is None else holder.find("{*}docPr")
    return "" if said is None else said.get("descr") or ""
