"""The pictures of a page by PDFium: where each is drawn, and the hash of its bytes as the file has them.

Nothing is decoded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from pipelines.parsing.pdf.page import PdfPicture
from pipelines.records import Box
from resources.hashes import bytes_hash
from resources.parsers.pdf.raw import Placing, placing

DEEPEST = 8
"""Forms within forms."""
LEAST_DRAWN = 2.0
"""Points; what is drawn thinner is a rule, and shows nothing even as a strip of a picture."""

_Matrix = tuple[float, float, float, float, float, float]
_PLAIN: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def pictures_of(page: Any, number: int) -> tuple[PdfPicture, ...]:
    """In the order they are drawn in."""
    shown: Placing | None = None
    found = []
    for item, matrix in _images(page.raw):
        shown = shown or placing(page)
        box = _box(item, matrix, shown, number, page.get_size())
        if box is not None:
            found.append(PdfPicture(box, _hash(item)))
    return tuple(found)


def _images(page: Any) -> Iterator[tuple[Any, _Matrix]]:
    """Pictures on a page and in its forms, each with what leads from its space to the page's."""
    import pypdfium2.raw as pdfium

    kind_of, image, form = pdfium.FPDFPageObj_GetType, pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_FORM

    def walk(holder: Any, matrix: _Matrix, depth: int) -> Iterator[tuple[Any, _Matrix]]:
        count, take = (
            (pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject)
            if depth
            else (pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject)
        )
        for at in range(count(holder)):
            item = take(holder, at)
            kind = kind_of(item)
            if kind == image:
                yield item, matrix
            elif kind == form and depth < DEEPEST:
                yield from walk(item, _after(_matrix(item), matrix), depth + 1)

    return walk(page, _PLAIN, 0)


def _matrix(item: Any) -> _Matrix:
    import pypdfium2.raw as pdfium

    found = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(item, found):
        return _PLAIN
    return found.a, found.b, found.c, found.d, found.e, found.f


def _after(inner: _Matrix, outer: _Matrix) -> _Matrix:
    """First the inner one, then the outer one."""
    a, b, c, d, e, f = inner
    oa, ob, oc, od, oe, of = outer
    return (
        a * oa + b * oc, a * ob + b * od, c * oa + d * oc, c * ob + d * od, e * oa + f * oc + oe, e * ob + f * od + of,
    )  # fmt: skip


def _box(item: Any, matrix: _Matrix, shown: Placing, number: int, size: tuple[float, float]) -> Box | None:
    """What of a picture is on its page; None where that is next to nothing."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return None
    a, b, c, d, e, f = matrix
    corners = [(x, y) for x in (left.value, right.value) for y in (bottom.value, top.value)]
    places = [shown.point(a * x + c * y + e, b * x + d * y + f) for x, y in corners]
    (x0, x1), (y0, y1) = (
        (max(min(side), 0.0), min(max(side), most)) for side, most in zip(zip(*places, strict=True), size, strict=True)
    )
    if min(x1 - x0, y1 - y0) < LEAST_DRAWN:
        return None
    return Box(number, *(round(side, 2) for side in (x0, y0, x1, y1)))


def _hash(item: Any) -> str:
    import pypdfium2.raw as pdfium

    size = pdfium.FPDFImageObj_GetImageDataRaw(item, None, 0)
    data = ctypes.create_string_buffer(size)
    pdfium.FPDFImageObj_GetImageDataRaw(item, data, size)
    return bytes_hash(data.raw)
