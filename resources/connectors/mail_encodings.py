"""The encodings that attachments are sent in, undone piece by piece. What is no sign of an encoding is passed over."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_OTHER = bytes(sign for sign in range(256) if sign not in _BASE64)
_PADDING = re.compile(b"=++")


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    if encoding == "base64":
        return _base64(pieces)
    return _quoted(pieces) if encoding == "quoted-printable" else iter(pieces)


def _base64(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What follows padding is read on: some programs encode in parts."""
    held = b""
    for piece in pieces:
        *ended, held = _PADDING.split(held + piece.translate(None, _OTHER))
        yield b"".join(map(_last, ended))
        whole = len(held) // 4 * 4
        yield binascii.a2b_base64(held[:whole])
        held = held[whole:]
    yield _last(held)


def _last(text: bytes) -> bytes:
    """Of signs without their padding, of which a single one says nothing."""
    text = text[: len(text) - (len(text) % 4 == 1)]
    return binascii.a2b_base64(text + b"=" * (-len(text) % 4))


def _quoted(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []  # joined at the end of a line only: a long line costs nothing more
    for piece in pieces:
        lines, end, rest = piece.rpartition(b"\n")
        if end:
            yield binascii.a2b_qp(b"".join((*held, lines, end)))
            held = []
        held.append(rest)
    yield binascii.a2b_qp(b"".join(held))
