"""The text of mails: headers and parts, decoded by the encodings that they declare or are likeliest written in."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from email.message import EmailMessage, Message

from pipelines.errors import DocumentError
from resources.parsers.charsets import codec_of, decode_as
from resources.parsers.html import source_of
from resources.parsers.source_text import decode

_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_LONGEST_HEADER = 1 << 16
"""Characters of a header that are decoded."""


def header_text(message: Message, name: str) -> str:
    """Return the first header of a name on one line, decoded; "" if the message has none."""
    found = next((value for header, value in message.raw_items() if header.lower() == name.lower()), "")
    raw = str(found)[:_LONGEST_HEADER]
    if not raw.isascii():
        raw = _text(raw.encode("utf-8", "surrogateescape"), _charset(message))
    return " ".join(decoded_words(raw).split())


def decoded_words(text: str) -> str:
    """Decode the encoded words (RFC 2047) of a header. A character may be divided between two words."""
    return "".join(_decoded(text))


def _decoded(text: str) -> Iterator[str]:
    at, data, charset = 0, b"", ""
    for word in _WORD.finditer(text):
        between = text[at : word.start()]
        follows = bool(charset) and not between.strip()
        named = word[1].partition("*")[0].lower()
        if charset and (not follows or named != charset):
            yield _text(data, charset)
            data = b""
        yield "" if follows else between
        charset, data, at = named, data + _bytes(word), word.end()
    if charset:
        yield _text(data, charset)
    yield text[at:]


def _bytes(word: re.Match[str]) -> bytes:
    """Return the bytes of an encoded word; those of the word itself if its encoding is broken."""
    written = word[3].encode("utf-8", "replace")
    try:
        if word[2] in "qQ":
            return binascii.a2b_qp(written, header=True)
        return binascii.a2b_base64(written + b"=" * (-len(written) % 4))
    except binascii.Error:
        return word[0].encode("utf-8", "replace")


def _text(data: bytes, charset: str | None) -> str:
    """Return the text of a header. It is too short for a guess to be better than what is declared."""
    codec = codec_of(charset) if charset else None
    if codec is not None and "\ufffd" not in (text := decode_as(data, codec)):
        return text
    try:
        return decode(data, "the header")[0]
    except DocumentError:
        return data.decode("utf-8", "replace")


def part_text(part: EmailMessage, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a part, and warnings. Raise DocumentError `corrupt` if it is not text."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    if part.get_content_subtype() == "html":
        return source_of(data, name, _charset(part))
    return decode(data, name, _charset(part))


def _charset(part: Message) -> str | None:
    """Return the encoding that a part, or the first text in it, declares."""
    for each in part.walk():
        if each.get_content_maintype() == "text":
            try:
                return each.get_content_charset()
            except (LookupError, UnicodeError, ValueError):
                return None
    return None
