"""Annotations of a PDF page by PDFium: their texts and boxes, as far as they are not too many or too long."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.records import Box

MOST_ANNOTATIONS, MOST_OF_ALL = 10_000, 500_000
"""Of a page, and of all pages of a document: many may have the same."""
MOST_CHARACTERS, MOST_IN_ALL = 100_000, 5_000_000
"""Of one text, and of all of a document: many may be one text of the file."""
_SCALE = 100


@dataclass(slots=True)
class Texts:
    """Reads the texts of a document's annotations while there is room, and counts those that are left out."""

    left: int = MOST_IN_ALL
    annotations: int = MOST_OF_ALL
    left_out: int = 0

    def read(self, read: Any, *of: Any) -> str | None:
        """What a PDFium function writes as UTF-16, once it has said how long it is; None where it is left out."""
        import pypdfium2.raw as pdfium

        length = read(*of, None, 0) if self.left > 0 else 0
        if 2 < length <= 2 * MOST_CHARACTERS:
            self.left -= length // 2
        if self.left <= 0 or length > 2 * MOST_CHARACTERS:
            self.left_out += 1
            return None
        if length <= 2:
            return ""
        buffer = ctypes.create_string_buffer(length)
        read(*of, ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), length)
        return buffer.raw[:length].decode("utf-16-le", "ignore").rstrip("\0")

    def warning(self, number: int) -> tuple[str, ...]:
        """Of a page, with what was left out since it was last asked for."""
        count, self.left_out = self.left_out, 0
        most = f"{MOST_ANNOTATIONS:,} on the page, {MOST_CHARACTERS:,} characters in one, or {MOST_IN_ALL:,} in all"
        return (f"page {number}: {count} notes or values of fields are left out: over {most}",) * bool(count)


def annotations_of(page: Any, texts: Texts) -> Iterator[Any]:
    """Each is closed when the next is asked for. Those beyond the most that are read count as left out."""
    import pypdfium2.raw as pdfium

    count = pdfium.FPDFPage_GetAnnotCount(page)
    read = min(count, MOST_ANNOTATIONS, texts.annotations)
    texts.left_out += count - read
    texts.annotations -= read
    for index in range(read):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        if annotation:
            try:
                yield annotation
            finally:
                pdfium.FPDFPage_CloseAnnot(annotation)


def is_shown(annotation: Any) -> bool:
    import pypdfium2.raw as pdfium

    unseen = pdfium.FPDF_ANNOT_FLAG_INVISIBLE | pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
    return not pdfium.FPDFAnnot_GetFlags(annotation) & unseen


def box_of(annotation: Any, number: int, page: Any) -> Box | None:
    """The annotation's rectangle in points from the top left; None where it has no size."""
    import pypdfium2.raw as pdfium

    rectangle = pdfium.FS_RECTF()
    if not pdfium.FPDFAnnot_GetRect(annotation, rectangle):
        return None
    size = [round(side * _SCALE) for side in page.get_size()]
    corners = []
    for x, y in ((rectangle.left, rectangle.top), (rectangle.right, rectangle.bottom)):
        across, down = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        corners.append((across.value / _SCALE, down.value / _SCALE))
    (ax, ay), (bx, by) = corners
    box = Box(number, min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))
    return box if box.x1 > box.x0 and box.y1 > box.y0 else None
