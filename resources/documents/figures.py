"""The pictures of one document's figures, for a model, and of its pages.

A figure is read again from its document, as PNG or JPEG. Nothing is fetched from a network. This runs in the confined
process (resources/workers/template.py); resources/documents/requests.py asks for it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import DocumentError
from pipelines.parsing.formats import DOC, DOCX, PAGED, PPT, PPTX, XLSX
from pipelines.parsing.pictures import IMAGE, IMAGE_HASH
from pipelines.records import Element, FigurePicture, PagePicture
from resources.documents.page_pictures import opened_pages
from resources.hashes import bytes_hash
from resources.parsers.registry import ELEMENTS, media_type_of

if TYPE_CHECKING:
    from PIL.Image import Image


# ---------------------------------------------------------------- figures


LONGEST_SIDE = 1024
LEAST_PIXELS = 24
MOST_BYTES = 256 << 20
MOST_SCALE = 300 / 72
JPEG_QUALITY = 90


def figure_image(path: Path, media_type: str, figure: Element) -> bytes:
    """Return the picture of a figure, at most LONGEST_SIDE pixels long, as JPEG if the file has a JPEG, else as PNG.

    Raise DocumentError: `unsupported` (a format that cannot be decoded, such as EMF), `limit_exceeded` (too large to
    decode), `corrupt`, `no_picture` (no longer in the file, or too small to show anything), `unreadable`.
    """
    from PIL import Image

    if media_type == ELEMENTS:
        media_type = media_type_of(path) or media_type
    try:
        if media_type in PAGED:
            return _encode(_page_region(path, figure), "PNG")
        return _decode(_stored_bytes(path, media_type, figure), figure_name(path, figure))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DocumentError(
            f"{figure_name(path, figure)}: its picture is too large ({error})", "limit_exceeded"
        ) from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise DocumentError(f"{figure_name(path, figure)}: its picture cannot be read ({error})", "corrupt") from None


def figure_name(path: Path, figure: Element) -> str:
    """Return the name of a figure for messages."""
    place = f", page {figure.page_start}" if figure.page_start else ""
    return f"{path.name}: figure {figure.index}{place}"


def _page_region(path: Path, figure: Element) -> Image:
    from resources.documents.page_pictures import opened_pages

    box = next((place.box for place in figure.places if place.box), None)
    if box is None:
        raise DocumentError(f"{figure_name(path, figure)}: the position of its picture is unknown", "no_picture")
    scale = min(MOST_SCALE, LONGEST_SIDE / max(box.x1 - box.x0, box.y1 - box.y0, 1.0))
    with opened_pages(path) as pages:
        return pages.region(box, scale)


def _stored_bytes(path: Path, media_type: str, figure: Element) -> bytes:
    """Return the picture's bytes from the file. They must match the figure's hash, since a structural map may name any
    picture."""
    wanted = figure.metadata.get(IMAGE_HASH)
    if media_type in (DOCX, PPTX, XLSX):
        found: Iterable[bytes] = _part(path, figure.metadata.get(IMAGE, ""))
    elif media_type in (DOC, PPT):
        from resources.parsers.libreoffice.reader import rewrite

        with rewrite(path) as target:
            found = _part(target, figure.metadata.get(IMAGE, ""))
    else:
        found = _data_urls(path, media_type)
    for data in found:
        if bytes_hash(data) == wanted:
            return data
    raise DocumentError(f"{figure_name(path, figure)}: no picture in the file has its hash", "no_picture")


def _part(path: Path, name: str) -> tuple[bytes, ...]:
    """Return a tuple with the bytes of a part of a package; it is empty if the part is missing."""
    from resources.parsers.package import opened_package

    with opened_package(path) as package:
        if name not in package.NameToInfo:
            return ()
        if package.NameToInfo[name].file_size > MOST_BYTES:
            raise DocumentError(f"{path.name}: {name} is too large to decode", "limit_exceeded")
        return (package.read(name),)


def _data_urls(path: Path, media_type: str) -> Iterator[bytes]:
    """Yield the pictures that a text contains as `data:` URLs."""
    from resources.parsers.html import pictures_in, source_of
    from resources.parsers.source_text import read_text
    from resources.parsers.text.email import html_of

    if media_type == "message/rfc822":
        yield from pictures_in(html_of(path))
    elif media_type == "text/html":
        yield from pictures_in(source_of(path.read_bytes(), path.name)[0])
    else:
        yield from pictures_in(read_text(path)[0])


def _decode(data: bytes, name: str) -> bytes:
    from PIL import Image, ImageOps, UnidentifiedImageError

    from resources.parsers.html import FORMATS

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        kind = _format_of(data)
        raise DocumentError(f"{name}: its picture is {kind}, which cannot be decoded", "unsupported") from None
    width, height = image.size
    if min(width, height) < LEAST_PIXELS:
        raise DocumentError(f"{name}: its picture of {width} x {height} pixels shows nothing", "no_picture")
    kind = "JPEG" if image.format == "JPEG" else "PNG"
    image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))
    return _encode(ImageOps.exif_transpose(image), kind)


def _format_of(data: bytes) -> str:
    if data[40:44] == b" EMF":
        return "an EMF drawing"
    if data[:4] in (b"\xd7\xcd\xc6\x9a", b"\x01\x00\x09\x00"):
        return "a WMF drawing"
    return "an SVG drawing" if b"<svg" in data[:1000] else "in an unknown format"


def _encode(image: Image, kind: str) -> bytes:
    """Encode an image: scaled down, on white if it is transparent, without the file's metadata."""
    from PIL import Image as Images

    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    if image.has_transparency_data:
        ground = Images.new("RGBA", image.size, "white")
        ground.alpha_composite(image.convert("RGBA"))
        image = ground
    out = io.BytesIO()
    image.convert("RGB").save(out, kind, **({"quality": JPEG_QUALITY} if kind == "JPEG" else {}))
    return out.getvalue()


# ---------------------------------------------------------------- picture tasks


def figure_pictures(
    path: Path, media_type: str, figures: Sequence[Element], report: Callable[[int], None], without: Collection[int]
) -> Iterator[FigurePicture]:
    """Yield the pictures of these figures in order of their index, except of those in `without`.

    Runs in a worker process. `report` is called with each index before its figure is read, so that the pool knows which
    figure ended the process."""
    for figure in sorted(figures, key=lambda figure: figure.index):
        if figure.index in without:
            continue
        report(figure.index)
        try:
            yield FigurePicture(figure.doc_id, figure.index, figure_image(path, media_type, figure), "")
        except DocumentError as error:
            yield FigurePicture(figure.doc_id, figure.index, b"", str(error))
        except MemoryError:
            reason = f"{figure_name(path, figure)}: its picture needs more than parsing.memory_mb allows"
            yield FigurePicture(figure.doc_id, figure.index, b"", reason)


def page_pictures(
    path: Path, numbers: Sequence[int], report: Callable[[int], None], without: Collection[int]
) -> Iterator[PagePicture]:
    """Yield the pictures of these pages in order, except of those in `without` and those that the file does not have.
    Page 0 comes first and only has the number of pages.

    Runs in a worker process. `report` is called with each number before its page is drawn, so that the pool knows which
    page ended the process.
    """
    with opened_pages(path) as pages:
        count = len(pages)
        yield PagePicture(0, count, 0.0, b"", "")
        for number in sorted(numbers):
            if not 1 <= number <= count or number in without:
                continue
            report(number)
            try:
                picture, data = pages.picture(number), io.BytesIO()
                picture.image.save(data, "PNG", compress_level=1)
                yield PagePicture(number, count, picture.scale, data.getvalue(), "")
            except DocumentError as error:
                yield PagePicture(number, count, 0.0, b"", str(error))
