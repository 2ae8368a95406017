"""The picture of a figure, read again from its document as PNG or JPEG that a model can be shown.

Nothing is fetched.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import DocumentError
from pipelines.parsing.formats import DOC, DOCX, PPT, PPTX, XLSX
from pipelines.parsing.pictures import IMAGE, IMAGE_HASH
from pipelines.records import Element
from resources.hashes import bytes_hash
from resources.parsers.registry import ELEMENTS, media_type_of

if TYPE_CHECKING:
    from PIL.Image import Image


LONGEST_SIDE = 1024
LEAST_PIXELS = 24
MOST_BYTES = 256 << 20
MOST_SCALE = 300 / 72
JPEG_QUALITY = 90


def figure_image(path: Path, media_type: str, figure: Element) -> bytes:
    """The picture of a figure, at most LONGEST_SIDE pixels long, as JPEG where the file has a JPEG, else PNG.

    Raises DocumentError: `unsupported` (a format that cannot be decoded, such as EMF), `limit_exceeded`
    (too large to decode), `corrupt`, `no_picture` (not in the file any more, or too small to show anything),
    `unreadable`."""
    from PIL import Image

    if media_type == ELEMENTS:
        media_type = media_type_of(path) or media_type
    try:
        if media_type == "application/pdf":
            return _encoded(_page_region(path, figure), "PNG")
        return _decoded(_stored(path, media_type, figure), figure_name(path, figure))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DocumentError(
            f"{figure_name(path, figure)}: its picture is too large ({error})", "limit_exceeded"
        ) from None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise DocumentError(f"{figure_name(path, figure)}: its picture cannot be read ({error})", "corrupt") from None


def figure_name(path: Path, figure: Element) -> str:
    """As people are told of it."""
    place = f", page {figure.page_start}" if figure.page_start else ""
    return f"{path.name}: figure {figure.index}{place}"


def _page_region(path: Path, figure: Element) -> Image:
    from resources.workers.page_pictures import opened_pages

    box = next((place.box for place in figure.places if place.box), None)
    if box is None:
        raise DocumentError(f"{figure_name(path, figure)}: the box of its picture is not known", "no_picture")
    scale = min(MOST_SCALE, LONGEST_SIDE / max(box.x1 - box.x0, box.y1 - box.y0, 1.0))
    with opened_pages(path) as pages:
        return pages.region(box, scale)


def _stored(path: Path, media_type: str, figure: Element) -> bytes:
    """The bytes as the file has them, which are those of the figure's hash: a structural map may state any."""
    wanted = figure.metadata.get(IMAGE_HASH)
    if media_type in (DOCX, PPTX, XLSX):
        found: Iterable[bytes] = _part(path, figure.metadata.get(IMAGE, ""))
    elif media_type in (DOC, PPT):
        from resources.parsers.libreoffice.reader import rewritten

        with rewritten(path) as target:
            found = _part(target, figure.metadata.get(IMAGE, ""))
    else:
        found = _written(path, media_type)
    for data in found:
        if bytes_hash(data) == wanted:
            return data
    raise DocumentError(f"{figure_name(path, figure)}: its picture is not in the file, by its hash", "no_picture")


def _part(path: Path, name: str) -> tuple[bytes, ...]:
    """The bytes of a part of a package, if it is there."""
    from resources.parsers.office.package import opened_package

    with opened_package(path) as package:
        if name not in package.NameToInfo:
            return ()
        if package.NameToInfo[name].file_size > MOST_BYTES:
            raise DocumentError(f"{path.name}: {name} is too large to decode", "limit_exceeded")
        return (package.read(name),)


def _written(path: Path, media_type: str) -> Iterator[bytes]:
    """The pictures written into a text as `data:` URLs."""
    from resources.parsers.html import pictures_in, source_of
    from resources.parsers.text.email import html_of
    from resources.parsers.text.source_text import read_text

    if media_type == "message/rfc822":
        yield from pictures_in(html_of(path))
    elif media_type == "text/html":
        yield from pictures_in(source_of(path.read_bytes(), path.name)[0])
    else:
        yield from pictures_in(read_text(path)[0])


def _decoded(data: bytes, name: str) -> bytes:
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
    return _encoded(ImageOps.exif_transpose(image), kind)


def _format_of(data: bytes) -> str:
    if data[40:44] == b" EMF":
        return "an EMF drawing"
    if data[:4] in (b"\xd7\xcd\xc6\x9a", b"\x01\x00\x09\x00"):
        return "a WMF drawing"
    return "an SVG drawing" if b"<svg" in data[:1000] else "in an unknown format"


def _encoded(image: Image, kind: str) -> bytes:
    """Scaled down, on white where it is transparent, without what the file says besides the pixels."""
    from PIL import Image as Images

    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    if image.has_transparency_data:
        ground = Images.new("RGBA", image.size, "white")
        ground.alpha_composite(image.convert("RGBA"))
        image = ground
    out = io.BytesIO()
    image.convert("RGB").save(out, kind, **({"quality": JPEG_QUALITY} if kind == "JPEG" else {}))
    return out.getvalue()
