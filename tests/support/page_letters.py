"""Letters of a PDF's page with where they stand in a picture of it, by PDFium's own character boxes and its own way
from the page to a device. Neither the parser nor the code that draws the picture has a part in it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

FINE = 64
"""Parts of a pixel that are told apart."""


@dataclass(frozen=True)
class Letter:
    """Edges in pixels from the top left of a picture."""

    char: str
    left: float
    top: float
    right: float
    bottom: float


def letters_of(path: Path, number: int, width: int, height: int) -> list[Letter]:
    """The letters of a page in a picture of these sides; its spaces are left out."""
    import pypdfium2
    from pypdfium2 import raw

    found = []
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    x, y = ctypes.c_int(), ctypes.c_int()
    document = pypdfium2.PdfDocument(path)
    page = document[number - 1]
    text = page.get_textpage()
    for at in range(text.count_chars()):
        char = chr(raw.FPDFText_GetUnicode(text, at))
        if char.isspace() or not char.isprintable() or raw.FPDFText_IsGenerated(text, at):
            continue
        raw.FPDFText_GetCharBox(text, at, left, right, bottom, top)
        corners = []
        for across, up in ((left.value, bottom.value), (right.value, top.value)):
            raw.FPDF_PageToDevice(page, 0, 0, width * FINE, height * FINE, 0, across, up, x, y)
            corners.append((x.value / FINE, y.value / FINE))
        (x0, y0), (x1, y1) = corners
        found.append(Letter(char, min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)))
    document.close()
    return found
