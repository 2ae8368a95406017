"""Pages of a PDF as pictures, and marks drawn over them.

Boxes are PDF points from the top left of the page as a viewer shows it, turned and cropped. PDFium renders the page in
the same way, so one factor converts points to pixels. Colour is multiplied into the page, so that no text is hidden.
Labels are in an added margin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, PinciteError
from pipelines.parsing.formats import PAGED
from pipelines.parsing.page_marks import Mark
from pipelines.records import Box
from resources.parsers.registry import media_type_of, pages_of_picture
from resources.private_files import for_the_user

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

Colour = tuple[int, int, int]

COLOURS: dict[str, Colour] = {
    "heading": (200, 30, 45),
    "paragraph": (45, 110, 200),
    "list_item": (30, 145, 60),
    "table": (225, 115, 0),
    "caption": (140, 60, 190),
    "formula": (220, 60, 160),
    "code": (80, 80, 95),
    "key_value": (0, 150, 160),
    "footnote": (135, 85, 40),
    "quote": (125, 135, 0),
    "figure": (0, 170, 120),
    "page_header": (140, 140, 140),
    "page_footer": (140, 140, 140),
    "break": (20, 20, 20),
}
OTHER: Colour = (20, 20, 20)
HIT: Colour = (255, 238, 130)
HIT_EDGE: Colour = (225, 130, 0)
AROUND: Colour = (255, 250, 222)
INK: Colour = (40, 40, 40)
PAGE_EDGE: Colour = (190, 190, 190)
FILL, TABLE_FILL, HEADER_FILL = 0.20, 0.10, 0.38
"""Strength of a colour over the page, from 0 to 1: for elements, for tables, for header cells of tables."""

LONGEST_SIDE = 1700
MOST_SCALE = 4.0
PAD = 2
LABEL_SIZE, LEAST_LABEL_SIZE = 15, 8
GAP = 12
FARTHEST = 1e6
"""Points from the corner of a page. Sides of a box that are farther away, or are not a number, are moved to this
distance, so that every box can be drawn."""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A rendered page; `scale` is pixels a point."""

    image: Image
    scale: float


class PdfPages:
    """The pages of an open PDF, 1-based."""

    def __init__(self, document: Any, name: str) -> None:
        self._document, self._name = document, name

    def __len__(self) -> int:
        return len(self._document)

    def picture(self, number: int) -> RenderedPage:
        """Draw the page as a viewer shows it, at most LONGEST_SIDE pixels long.

        Raise DocumentError `no_page` if the page does not exist, `corrupt` if it cannot be drawn.
        """
        return self._draw(number, None, None)

    def region(self, box: Box, scale: float) -> Image:
        """Draw the part of a page in a box, at `scale` pixels a point. Raise the same errors as `picture`."""
        return self._draw(box.page, box, scale).image

    def _draw(self, number: int, box: Box | None, scale: float | None) -> RenderedPage:
        import pypdfium2

        if not 1 <= number <= len(self):
            raise DocumentError(f"{self._name} has no page {number}; choose one up to {len(self)}", "no_page")
        try:
            page = self._document[number - 1]
            try:
                width, height = page.get_size()
                scale = scale or min(MOST_SCALE, LONGEST_SIDE / max(width, height, 1.0))
                cut = (box.x0, height - box.y1, width - box.x1, box.y0) if box else (0, 0, 0, 0)
                return RenderedPage(page.render(scale=scale, crop=cut).to_pil().convert("RGB"), scale)
            finally:
                page.close()
        except (pypdfium2.PdfiumError, ValueError) as error:
            raise DocumentError(f"{self._name}: page {number} cannot be drawn ({error})", "corrupt") from None


@contextmanager
def opened_pages(path: Path) -> Iterator[PdfPages]:
    """Open a PDF or a picture to draw its pages. Raise DocumentError `encrypted`, `corrupt` or `limit_exceeded`."""
    import pypdfium2

    made = pages_of_picture(path)
    try:
        document = pypdfium2.PdfDocument(path if made is None else made)
    except pypdfium2.PdfiumError as error:
        code = "encrypted" if getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD else "corrupt"
        raise DocumentError(f"{path.name}: its pages cannot be drawn ({error})", code) from None
    try:
        document.init_forms()
        yield PdfPages(document, path.name)
    finally:
        document.close()


def pages_beside(path: Path) -> Path | None:
    """Return the file that shows a document's pages: a PDF or a picture itself, the PDF beside an elements map, or
    None.

    A link beside a map is ignored, since it may lead anywhere.
    """
    if media_type_of(path) in PAGED:
        return path
    beside = (path.with_name(PurePosixPath(name).name) for name in names_beside(path.name))
    return next((found for found in beside if found.is_file() and not found.is_symlink()), None)


def names_beside(uri: str) -> list[str]:
    """Return the possible names of the PDF with the pages of an elements map, likeliest first; return no names for
    other files."""
    if not uri.lower().endswith(".elements.json"):
        return []
    name = uri[: -len(".elements.json")]
    return [found for found in (name, f"{name}.pdf", f"{name}.PDF") if found.lower().endswith(".pdf")]


# ---------------------------------------------------------------- drawing

_Place = tuple[int, int, int, int]


def _pixels(box: Box, scale: float) -> _Place:
    x0, y0, x1, y1 = (round(min(FARTHEST, max(-FARTHEST, value)) * scale) for value in (box.x0, box.y0, box.x1, box.y1))
    return min(x0, x1) - PAD, min(y0, y1) - PAD, max(x0, x1) + PAD, max(y0, y1) + PAD


def _tint(colour: Colour, strength: float) -> Colour:
    red, green, blue = (round(255 - (255 - part) * strength) for part in colour)
    return red, green, blue


def _colour_page(picture: RenderedPage, fills: Sequence[tuple[Box, Colour]]) -> Image:
    """Multiply colours into the page, so that black text stays black."""
    from PIL import Image, ImageChops, ImageDraw

    layer = Image.new("RGB", picture.image.size, "white")
    draw = ImageDraw.Draw(layer)
    for box, colour in fills:
        draw.rectangle(_pixels(box, picture.scale), fill=colour)
    return ImageChops.multiply(picture.image, layer)


def highlight(picture: RenderedPage, boxes: Sequence[Box], around: Sequence[Box] = ()) -> Image:
    """Mark these boxes on the page as with a highlighter, and tint the boxes `around` them."""
    from PIL import ImageDraw

    fills = [(box, AROUND) for box in _join_boxes(around)] + [(box, HIT) for box in boxes]
    image = _colour_page(picture, fills)
    draw = ImageDraw.Draw(image)
    for box in boxes:
        draw.rectangle(_pixels(box, picture.scale), outline=HIT_EDGE, width=2)
    return image


def _join_boxes(boxes: Sequence[Box]) -> list[Box]:
    """Join boxes that follow one another on a line."""
    joined: list[Box] = []
    for box in boxes:
        last = joined[-1] if joined else None
        if last and (last.y0, last.y1) == (box.y0, box.y1) and 0 <= box.x0 - last.x1 < box.y1 - box.y0:
            joined[-1] = replace(last, x1=box.x1)
        else:
            joined.append(box)
    return joined


def annotate(picture: RenderedPage, marks: Sequence[Mark], title: str) -> Image:
    """Draw every mark on the page in the colour of its kind, with its label in the margin, and add a legend."""
    from PIL import Image, ImageDraw

    fills = [(box, _tint(_colour(mark), TABLE_FILL if mark.cells else FILL)) for mark in marks for box in mark.regions]
    fills += [(box, _tint(_colour(mark), HEADER_FILL)) for mark in marks for box in mark.headers]
    page = _colour_page(picture, fills)
    draw = ImageDraw.Draw(page)
    for mark in marks:
        for box in (*mark.cells, *mark.headers):
            draw.rectangle(_pixels(box, picture.scale), outline=_tint(_colour(mark), 0.6))
        for box in mark.regions:
            draw.rectangle(_pixels(box, picture.scale), outline=_colour(mark), width=2)

    left, right = _sides(marks, page.width / picture.scale)
    margin, width = _margin_width(left), _margin_width(left) + page.width + _margin_width(right)
    legend = _legend(marks, title, width)
    image = Image.new("RGB", (width, page.height + legend.height), "white")
    image.paste(page, (margin, 0))
    image.paste(legend, (0, page.height))
    draw = ImageDraw.Draw(image)
    whole = (margin, 0, margin + page.width - 1, page.height - 1)
    draw.rectangle(whole, outline=PAGE_EDGE)
    _write_labels(draw, left, whole, picture.scale, to_left=True)
    _write_labels(draw, right, whole, picture.scale, to_left=False)
    return image


def _colour(mark: Mark) -> Colour:
    return COLOURS.get(mark.kind, OTHER)


def _font(size: int = LABEL_SIZE) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


_Label = tuple[Mark, Box]


def _sides(marks: Sequence[Mark], page_width: float) -> tuple[list[_Label], list[_Label]]:
    """Divide the labels between left and right margin, one label for each region, in the margin nearer to it."""
    labels = [(mark, box) for mark in marks for box in mark.regions]
    sides: tuple[list[_Label], list[_Label]] = ([], [])
    for label in sorted(labels, key=lambda label: (label[1].y0, label[1].x0)):
        sides[label[1].x0 >= page_width / 2].append(label)
    return sides


def _margin_width(labels: Sequence[_Label]) -> int:
    font = _font()
    return max((round(font.getlength(mark.label)) + 2 * GAP + 8 for mark, _ in labels), default=0)


def _tops(wanted: Sequence[int], step: int, height: int) -> list[int]:
    """Return label tops as near to the wanted ones as possible, without overlap and all on the page."""
    tops: list[int] = []
    for top in wanted:
        tops.append(max(top, tops[-1] + step if tops else 0))
    limit = height
    for at in reversed(range(len(tops))):
        limit = tops[at] = min(tops[at], limit - step)
    return tops


def _anchors(labels: Sequence[_Label], scale: float, size: int) -> list[tuple[int, int, int]]:
    """Return left and right edge of each label's region, and the height of its first line."""
    places = [_pixels(box, scale) for _, box in labels]
    return [(x0, x1, min(y0 + PAD + size // 2, (y0 + y1) // 2)) for x0, y0, x1, y1 in places]


def _write_labels(draw: ImageDraw, labels: Sequence[_Label], page: _Place, scale: float, to_left: bool) -> None:
    """Draw labels in a margin of the page, each with a thin line to its region; smaller if there are very many."""
    height = page[3] - page[1]
    size = max(LEAST_LABEL_SIZE, min(LABEL_SIZE, int(height / max(len(labels), 1) / 1.2)))
    font, step = _font(size), round(size * 1.2)
    anchors = _anchors(labels, scale, size)
    tops = _tops([y - step // 2 for _, _, y in anchors], step, height)
    for (mark, _), (x0, x1, y), top in zip(labels, anchors, tops, strict=True):
        begin = page[0] - GAP - round(font.getlength(mark.label)) if to_left else page[2] + GAP
        end = page[0] - GAP + 3 if to_left else page[2] + GAP - 3
        draw.text((begin, top - 1), mark.label, fill=_colour(mark), font=font)
        draw.line((end, top + step // 2, page[0] + (x0 if to_left else x1), y), fill=_tint(_colour(mark), 0.7))


def _legend(marks: Sequence[Mark], title: str, width: int) -> Image:
    """Draw a strip with the title, and each kind with its colour and count, on as many lines as needed."""
    from PIL import Image, ImageDraw

    font, line = _font(), LABEL_SIZE * 2
    counts = Counter(mark.kind for mark in marks)
    entries: list[tuple[str, Colour | None]] = [(title, None)]
    entries += [
        (f"{kind.replace('_', ' ')} {counts[kind]}", colour) for kind, colour in COLOURS.items() if kind in counts
    ]
    placed: list[tuple[int, int, str, Colour | None]] = []
    x, y = GAP, 0
    for text, colour in entries:
        wide = round(font.getlength(text)) + (LABEL_SIZE + 6 if colour else 0)
        if x > GAP and x + wide > width - GAP:
            x, y = GAP, y + line
        placed.append((x, y, text, colour))
        x += wide + 2 * GAP
    strip = Image.new("RGB", (width, y + line), (245, 245, 245))
    draw = ImageDraw.Draw(strip)
    for x, y, text, colour in placed:
        top = y + (line - LABEL_SIZE) // 2
        if colour:
            swatch = (x, top, x + LABEL_SIZE, top + LABEL_SIZE)
            draw.rectangle(swatch, fill=_tint(colour, 2 * FILL), outline=colour, width=2)
            x += LABEL_SIZE + 6
        draw.text((x, top - 2), text, fill=INK, font=font)
    return strip


def write(image: Image, path: Path) -> None:
    """Write the image as PNG with a palette, which takes a third of the space of full colour. Raise PinciteError
    `unwritable`."""
    from PIL.Image import Dither, Quantize

    try:
        with for_the_user():
            image.quantize(256, Quantize.FASTOCTREE, dither=Dither.NONE).save(path, "PNG", optimize=True)
    except OSError as error:
        raise PinciteError(
            f"{path}: the picture cannot be written ({error.strerror or error}); name another place", "unwritable"
        ) from None
