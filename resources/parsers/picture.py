"""Picture files (PNG, JPEG, TIFF) as documents: each picture in the file is a page, read like a scanned page of a PDF.

The file is converted to a PDF, so that all code for pages works on it too.
"""

from __future__ import annotations

import io
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError
from pipelines.records import ParsedFile
from resources.parsers.ocr import OcrSettings, reader_of
from resources.parsers.registry import PageGuard

if TYPE_CHECKING:
    from PIL.Image import Image

ORIGIN = "picture"
_PLAIN, _NO_OCR = PageGuard(), OcrSettings(mode="off")
MOST_PIXELS = 200_000_000
"""Most pixels of one picture: a page of A2 at 600 dots an inch has 139 million."""
MOST_PAGES = 2000
"""Most pictures in one file (TIFF)."""
_DOTS_PER_INCH = (50.0, 2400.0)
"""Lowest and highest dots an inch that are accepted from a file."""
_QUALITY = 95
"""JPEG quality for grey and colour pictures."""
_LONGEST_INCHES = 11.7
"""Length in inches of a page whose file has no dots an inch: A4, unless that gives too few dots."""
_FEW_DOTS = 96.0


def parse(path: Path, guard: PageGuard = _PLAIN, ocr: OcrSettings = _NO_OCR, barcodes: bool = False) -> ParsedFile:
    """Read the text of a picture by OCR.

    Raise DocumentError: `no_text` (no text, or no OCR that reads it), `corrupt`, `limit_exceeded`."""
    from resources.parsers.pdf.reader import parse as parse_pdf

    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        made = Path(folder, path.name)
        made.write_bytes(as_pdf(path))
        parsed = parse_pdf(made, guard, ocr, barcodes)
    return replace(parsed, properties={}, origin=f"{ORIGIN}, {reader_of(ocr)}")


def as_pdf(path: Path) -> bytes:
    """Return a picture file as a PDF. Raise DocumentError `corrupt` or `limit_exceeded`."""
    import pypdfium2
    from PIL import Image, UnidentifiedImageError

    made = io.BytesIO()
    try:
        with Image.open(path, formats=("PNG", "JPEG", "TIFF")) as opened:
            # The further frames of other formats are previews, or an animation.
            count = getattr(opened, "n_frames", 1) if opened.format == "TIFF" else 1
            if count > MOST_PAGES:
                raise DocumentError(
                    f"{path.name}: the file has more than {MOST_PAGES:,} pictures: divide it", "limit_exceeded"
                )
            whole = pypdfium2.PdfDocument.new()
            for number in range(count):
                opened.seek(number)
                if opened.width * opened.height > MOST_PIXELS:
                    told = f"a picture of {opened.width} x {opened.height} pixels is too large: make it smaller"
                    raise DocumentError(f"{path.name}: {told}", "limit_exceeded")
                with pypdfium2.PdfDocument(_page(opened)) as page:
                    whole.import_pages(page)
            whole.save(made)
            whole.close()
    except UnidentifiedImageError:
        raise DocumentError(
            f"{path.name}: the file cannot be read as PNG, JPEG or TIFF: save it again", "corrupt"
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DocumentError(f"{path.name}: the picture is too large ({error})", "limit_exceeded") from None
    except (OSError, ValueError, SyntaxError, EOFError, TypeError, KeyError) as error:
        told = f"{path.name}: the picture cannot be read ({' '.join(str(error).split())[:200]}): save it again"
        raise DocumentError(told, "corrupt") from None
    return made.getvalue()


def _page(frame: Image) -> bytes:
    """Return one picture as a PDF of one page."""
    shown, page = _upright(frame), io.BytesIO()
    shown.save(page, "PDF", resolution=_dots(frame), **({} if shown.mode == "1" else {"quality": _QUALITY}))
    return page.getvalue()


def _upright(frame: Image) -> Image:
    """Return a picture in its visible form: upright, on white, without an alpha channel, with at most 256 greys."""
    import numpy as np
    from PIL import Image, ImageOps

    turned = ImageOps.exif_transpose(frame)
    if turned.mode.startswith(("I", "F")):  # greys of 16 bits or more, which Pillow would cut off at 255
        greys = np.asarray(turned, np.float32)
        most = 65535.0 if turned.mode != "F" and greys.max(initial=0) > 255 else max(float(greys.max(initial=0)), 1.0)
        return Image.fromarray((np.clip(greys / most, 0, 1) * 255).astype(np.uint8))
    if turned.mode in ("1", "L", "RGB"):
        return turned
    if "A" in turned.getbands() or "transparency" in turned.info:
        seen = turned.convert("RGBA")
        paper = Image.new("RGBA", seen.size, "white")
        return Image.alpha_composite(paper, seen).convert("RGB")
    return turned.convert("RGB")


def _dots(frame: Any) -> float:
    """Return a picture's dots an inch: from the file, or so that the picture is as long as A4."""
    said = frame.info.get("dpi")
    least, most = _DOTS_PER_INCH
    try:
        dots = float(said[0]) if said else 0.0
    except (TypeError, ValueError, ZeroDivisionError):
        dots = 0.0
    return dots if least <= dots <= most else max(_FEW_DOTS, max(frame.size) / _LONGEST_INCHES)
