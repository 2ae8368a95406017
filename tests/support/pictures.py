"""Pictures for tests, and documents that hold them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

RED, GREEN, BLUE = (200, 30, 30), (30, 160, 60), (40, 60, 200)
Colour = tuple[int, int, int]


def picture(colour: Colour = RED, size: tuple[int, int] = (160, 120), kind: str = "PNG") -> bytes:
    """A picture of one colour."""
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def colour_of(data: bytes) -> Colour:
    """The colour in the middle of a picture."""
    with Image.open(io.BytesIO(data)) as image:
        pixel = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
    assert isinstance(pixel, tuple)
    red, green, blue = pixel
    return red, green, blue


def colours(image: Image.Image) -> set[tuple[int, ...]]:
    """All that are in it."""
    found = image.convert("RGB").getcolors(1 << 24)
    assert found is not None
    return {colour for _, colour in found if isinstance(colour, tuple)}


def near(found: Colour, wanted: Colour) -> bool:
    """The same, but for what JPEG changes."""
    return all(abs(a - b) < 12 for a, b in zip(found, wanted, strict=True))


Placed = tuple[bytes, float, float, float, float]
"""A picture with its left and upper edge, width and height in points from the top left."""


def illustrated_pdf(
    path: Path, *pages: tuple[Sequence[Placed], Sequence[tuple[float, float, str]]], turned: int = 0
) -> Path:
    """Pages of 600 x 800 points with pictures and words (left, upper edge, text)."""
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(600, 800))
    for pictures, words in pages:
        canvas.setPageRotation(turned)
        for data, x, y, width, height in pictures:
            canvas.drawImage(ImageReader(io.BytesIO(data)), x, 800 - y - height, width, height)
        for x, y, text in words:
            canvas.drawString(x, 800 - y, text)
        canvas.showPage()
    canvas.save()
    return path
