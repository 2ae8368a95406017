"""PDF files written object by object, for what no library writes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

HELVETICA = b"/F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<<%b/Length %d>>stream\n%b\nendstream" % (entries, len(content), content)


def pdf(
    contents: Sequence[bytes],
    fonts: bytes = HELVETICA,
    objects: Mapping[int, bytes] | None = None,
    resources: bytes = b"",
) -> bytes:
    """A file with a page of 600 x 800 points for each content stream. `objects` are further ones
    by number, which begin after the pages' (2 + twice their count)."""
    first = 3
    kids = b" ".join(b"%d 0 R" % (first + 2 * at) for at in range(len(contents)))
    every = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, len(contents)),
        **(objects or {}),
    }
    for at, content in enumerate(contents):
        number = first + 2 * at
        every[number] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R/Resources<</Font<<%b>>%b>>>>"
            % (number + 1, fonts, resources)
        )
        every[number + 1] = stream(content)
    body = b"".join(b"%d 0 obj%b\nendobj\n" % (number, text) for number, text in sorted(every.items()))
    return b"%%PDF-1.4\n%btrailer<</Root 1 0 R/Size %d>>\n%%%%EOF" % (body, max(every) + 1)


def stream_bomb() -> bytes:
    """280 MB of text in 1.5 MB."""
    content = zlib.compress(b"BT /F1 9 Tf " + b"(x) Tj " * (40 << 20) + b" ET", 1)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = b"".join(b"%d 0 obj%b\nendobj\n" % (at, text) for at, text in enumerate(objects, start=1))
    return b"%%PDF-1.4\n%btrailer<</Root 1 0 R/Size 6>>\n%%%%EOF" % body
