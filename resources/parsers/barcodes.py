"""Bar codes and QR codes in the pictures of a document, read by zxing-cpp.

A code becomes a `key_value` block with its content in `kv.barcode` and its kind in `kv.barcode_kind`, so that `--filter
kv.barcode=4006381333931` finds it. In a PDF, every page with a picture is drawn and searched, so codes drawn as lines
beside a picture are found too. In DOCX, XLSX and PPTX, every picture of the file is searched, even if it is too small
for a figure. The content of a code is untrusted: it is cleaned like other text, and never followed.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from pipelines.parsing.pictures import FIGURE, IMAGE
from pipelines.plural import plural
from pipelines.records import Block, Box, ParsedFile, TextRun

if TYPE_CHECKING:
    from PIL.Image import Image

CONTENT, KIND = "kv.barcode", "kv.barcode_kind"
KINDS = (
    *("QRCode", "MicroQRCode", "DataMatrix", "Aztec", "PDF417"),
    *("EAN13", "EAN8", "UPCA", "UPCE", "Code128", "Code39", "Code93", "ITF", "Codabar"),
)
"""Kinds of codes that are searched, by zxing-cpp's names. Rarer kinds give false results."""
POINTS, DOTS_PER_INCH = 72, 200
LONGEST_SIDE = 2500
"""Most pixels of the longer side of a searched picture: an A4 page at 200 dots per inch. The limit bounds the time,
which is about 2 seconds for the worst picture of this size."""
MOST_PIXELS = 40_000_000
"""Most pixels of a picture in a file; a larger one is not decoded."""
MOST_BYTES = 64 << 20
_MEDIA = "/media/"
"""The folder of a package that holds its pictures."""
MOST_SEARCHED = 1000
"""Most pages or pictures of one document that are searched."""
MOST_CODES = 50
"""Most codes of one page or picture that are kept. A sheet of labels has fewer."""
LONGEST = 1000
"""Most characters of a code's content that are kept. A payment code has up to 1,000, and a filter allows no more."""


@dataclass(frozen=True, slots=True)
class _Code:
    """A code: its kind, its content on one line, and its corners in pixels."""

    kind: str
    content: str
    corners: tuple[tuple[float, float], ...]


def _codes(image: Image) -> tuple[list[_Code], int]:
    """Return the codes of a picture from top to bottom, and the number of codes left out."""
    import zxingcpp

    kinds = zxingcpp.barcode_formats_from_str(",".join(KINDS))
    binary = (zxingcpp.ContentType.Binary, zxingcpp.ContentType.UnknownECI)
    found = []
    for each in zxingcpp.read_barcodes(image, formats=kinds):
        place, content = each.position, " ".join(each.text.split())
        if each.content_type not in binary and content:
            points = (place.top_left, place.top_right, place.bottom_right, place.bottom_left)
            found.append(_Code(str(each.format), content, tuple((point.x, point.y) for point in points)))
    kept = [code for code in found if len(code.content) <= LONGEST]
    kept.sort(key=lambda code: (min(y for _, y in code.corners), min(x for x, _ in code.corners), code.content))
    return kept[:MOST_CODES], len(found) - len(kept[:MOST_CODES])


def _block(code: _Code, place: TextRun) -> Block:
    run = replace(place, text=f"{code.kind}: {code.content}")
    return Block("key_value", (run,), metadata={CONTENT: code.content, KIND: code.kind})


def _left_out(where: str, count: int) -> list[str]:
    codes = plural(count, "bar code was", "bar codes were")
    told = f"{where}: {codes} left out (over {MOST_CODES}, or longer than {LONGEST:,} characters)"
    return [told] if count else []


# ---------------------------------------------------------------- pages of a PDF


class PageCodes:
    """The search for codes on the pages of one pypdfium2 document. `report` is called with a page's number before the
    page is drawn. `warnings` has those of the last page."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report, self._searched = report, 0
        self.warnings: list[str] = []

    def codes_of(self, page: Any, number: int) -> list[Block]:
        """Return the codes of a page, each with its box."""
        from pypdfium2 import PdfiumError

        self._searched += 1
        self.warnings = []
        if self._searched > MOST_SEARCHED:
            if self._searched == MOST_SEARCHED + 1:
                self.warnings = [
                    f"page {number} and later ones were not searched for bar codes: {MOST_SEARCHED:,} were"
                ]
            return []
        self._report(number)
        width, height = page.get_size()
        scale = min(DOTS_PER_INCH / POINTS, LONGEST_SIDE / max(width, height, 1.0))
        try:
            codes, left_out = _codes(page.render(scale=scale, grayscale=True).to_pil())
        except PdfiumError as error:
            self.warnings = [f"page {number}: not searched for bar codes, as it cannot be drawn ({error})"]
            return []
        self.warnings = _left_out(f"page {number}", left_out)
        blocks = []
        for code in codes:
            xs, ys = ([corner[at] / scale for corner in code.corners] for at in (0, 1))
            blocks.append(_block(code, TextRun("", Box(number, min(xs), min(ys), max(xs), max(ys)))))
        return blocks


# ---------------------------------------------------------------- pictures of an Office file


def with_codes(path: Path, parsed: ParsedFile) -> ParsedFile:
    """Return the parsed DOCX, XLSX or PPTX file with the codes of each picture inserted after the first figure that
    shows it; codes of other pictures come at the end."""
    from resources.parsers.package import opened_package

    found: dict[str, list[_Code]] = {}
    told: list[str] = []
    with opened_package(path) as package:
        names = sorted(name for name in package.NameToInfo if _MEDIA in name)
        for name in names[:MOST_SEARCHED]:
            image = _picture(package, name)
            if image is None:
                told.append(f"{name}: not searched for bar codes, as it is too large or is no picture that can be read")
                continue
            found[name], left_out = _codes(image)
            told += _left_out(name, left_out)
    if len(names) > MOST_SEARCHED:
        left = plural(len(names) - MOST_SEARCHED, "picture was", "pictures were")
        told.append(f"{left} not searched for bar codes: {MOST_SEARCHED:,} were")
    blocks: list[Block] = []
    for block in parsed.blocks:
        blocks.append(block)
        if block.kind == FIGURE:
            place = next(iter(block.runs), TextRun(""))
            blocks += [_block(code, place) for code in found.pop(block.metadata.get(IMAGE, ""), ())]
    blocks += [_block(code, TextRun("")) for codes in found.values() for code in codes]
    return replace(parsed, blocks=tuple(blocks), warnings=(*parsed.warnings, *told))


def _picture(package: ZipFile, name: str) -> Image | None:
    """Return a picture of a package in greyscale, scaled down to LONGEST_SIDE, or None if it cannot be decoded."""
    from PIL import Image as Images

    from resources.parsers.html import FORMATS

    if package.NameToInfo[name].file_size > MOST_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Images.DecompressionBombWarning)
            image = Images.open(io.BytesIO(package.read(name)), formats=FORMATS)
        if image.width * image.height > MOST_PIXELS:
            return None
        image.draft("L", (LONGEST_SIDE, LONGEST_SIDE))
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        return _on_white(image)
    except (Images.DecompressionBombError, Images.DecompressionBombWarning, OSError, ValueError, SyntaxError):
        return None


def _on_white(image: Image) -> Image:
    from PIL import Image as Images

    if not image.has_transparency_data:
        return image.convert("L")
    ground = Images.new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground.convert("L")
