"""Pictures written into text as `data:` URLs, as figures. No other picture of HTML or Markdown is in its
file, and nothing is fetched."""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from pipelines.parsing.pictures import figure
from pipelines.records import Block
from resources.hashes import bytes_hash

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
"""Of the pictures that are shown to a model, by their names in Pillow; no others are opened."""
LEAST_PIXELS = 80
_URL = re.compile(r"data:image/(?!svg)[\w.+-]+((?:;[\w.+=-]+)*),([^\"'()<>]*)", re.IGNORECASE)


def data_figure(url: str) -> Block | None:
    """The figure of a picture's address; None where its bytes are elsewhere or it is an icon."""
    data = next(pictures_in(url.strip()), None)
    if data is None or not _is_large(data):
        return None
    return figure(bytes_hash(data))


def pictures_in(text: str) -> Iterator[bytes]:
    """The bytes of all pictures written into a text."""
    for match in _URL.finditer(text):
        try:
            data = unquote_to_bytes(match[2])
            data = base64.b64decode(data) if match[1].lower().endswith(";base64") else data
        except (binascii.Error, ValueError):
            continue
        if data:
            yield data


def _is_large(data: bytes) -> bool:
    """By its header; what has none that can be read may be."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                return min(image.size) >= LEAST_PIXELS
    except (OSError, ValueError, Image.DecompressionBombError):
        return True
