"""The documents in a mail: the mail itself and its attachments, with their names, sections and transfer encodings.

Headers and structures (BODYSTRUCTURE, or of a parsed mail) are untrusted. They cannot choose a folder, a file ending
that pincite does not read, or text that a reader of the mail would not see.

A mail is fetched without the attachments that became separate documents. An attached mail is handled like a mail.
Pieces to fetch later are literal text or sections of the mail.
"""

from __future__ import annotations

import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from email.header import decode_header, make_header
from email.message import Message
from email.utils import collapse_rfc2231_value, decode_params, quote, unquote
from pathlib import PurePosixPath
from typing import Any, cast

from pipelines.errors import DocumentError
from pipelines.parsing.formats import EML, OF_ENDING, OF_TYPE

# ---------------------------------------------------------------- names
#
# The names of a mail's documents. Headers are hostile: names are cleaned, and endings checked.


_LONGEST = 120
"""Most bytes of a name. It is well below the 255 of file systems, since a hash or number is added to make the name
unique."""
_LONGEST_PARAMETER = 2000
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SEPARATORS = re.compile(r"[/\\]")


def decoded_header(text: str) -> str:
    """Decode a header from the encodings of RFC 2047; return it unchanged if they are invalid."""
    try:
        return str(make_header(decode_header(text[:_LONGEST_PARAMETER])))
    except (ValueError, LookupError, TypeError):
        return text


def parameter(parameters: Sequence[bytes | None], name: str) -> str:
    """Return the value of a parameter such as `filename`, decoded from RFC 2231 or RFC 2047; "" if it is missing."""
    texts = [(value or b"")[:_LONGEST_PARAMETER].decode("utf-8", "replace") for value in parameters]
    pairs = [(key.lower(), quote(value)) for key, value in zip(texts[::2], texts[1::2], strict=False)]
    try:
        # The library decides which of several parts is the first. It does not look at the first pair.
        found = dict(reversed(decode_params([("", ""), *((key, f'"{value}"') for key, value in pairs)])))
        value = found.get(name, "")
        if isinstance(value, tuple):
            charset, language, text = value
            return collapse_rfc2231_value((charset, language, unquote(text)))
        return decoded_header(unquote(value))
    except (ValueError, LookupError, TypeError):
        return next((unquote(value) for key, value in pairs if key.partition("*")[0] == name), "")


def clean_name(name: str) -> str:
    """Make a name fit for one part of a path: remove separators and invisible characters, and make it neither hidden
    nor too long."""
    seen = "".join(char for char in _SEPARATORS.sub("_", name) if unicodedata.category(char) not in _UNSEEN)
    plain = unicodedata.normalize("NFC", " ".join(seen.split())).lstrip(". ")
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > 10:
        stem, ending = plain, ""
    room = _LONGEST - len(f"{dot}{ending}".encode()) if ending else _LONGEST
    return stem.encode()[:room].decode("utf-8", "ignore").strip() + (f".{ending}" if ending else "")


def document_name(said: str, media_type: str, attached: bool = True) -> str | None:
    """Name an attachment by the name and the media type that the mail gives. Return None if it is not a document: no
    parser reads its format, or it is a picture within the text, such as a logo, and not `attached`."""
    if media_type.startswith("image/") and not attached:
        return None
    name = clean_name(said) or ("message" if media_type == EML else "attachment")
    ending = OF_ENDING.get(PurePosixPath(name.lower()).suffix)
    found = ending.media_type if ending else None
    if media_type in OF_TYPE and (found is None or (media_type == EML and found != EML)):
        name += OF_TYPE[media_type].endings[0]
        found = media_type
    return name if found else None


class AttachmentNames:
    """The names of one mail's attachments, each unique. The attachments of an attached mail are in a separate
    folder."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str) -> str:
        """Take the name, with a number if another attachment has it already, and return it."""
        stem, _, ending = name.rpartition(".")
        number, made = 1, name
        while (folded := self._fold(made)) & self._taken:
            number += 1
            made = f"{stem}~{number}.{ending}"
        self._taken |= folded
        return made

    @staticmethod
    def _fold(name: str) -> set[str]:
        folded = name.casefold()
        return {folded, folded.removesuffix(".eml")}


# ---------------------------------------------------------------- mail parts
#
# The documents in a mail, by the structure that the server sends (BODYSTRUCTURE). Other attachments, which no parser
# reads, are fetched as their headers alone: the mail's reader names them.


MOST_PARTS = 300
"""Most parts of a mail that is split. A larger mail is one document, and its reader lists the attachments."""
CALENDARS = frozenset({"text/calendar", "application/ics"})
"""Media types of invitations. They are read with their mail, although programs also attach them."""
DEEPEST = 5
"""Most levels of attached mails whose attachments become documents."""
ENCODED = frozenset({"base64", "quoted-printable"})
"""Transfer encodings that change the bytes of a part."""
_ENCODINGS = ENCODED | {"7bit", "8bit", "binary", ""}
_LINE = "\r\n"
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class MailSection:
    """A section of a mail, to fetch with `BODY.PEEK[name]`; "" is the whole mail."""

    name: str


Pieces = tuple[MailSection | str, ...]
WHOLE: Pieces = (MailSection(""),)


@dataclass(frozen=True, slots=True)
class MailDocument:
    """A document in a mail. `below` holds the names within the folder of the mail's attachments; it is empty for the
    mail itself. `octets` is the approximate number of bytes that the server sends for it. All its pieces have the
    transfer encoding `encoding`. `section` is its section of the mail."""

    below: tuple[str, ...]
    pieces: Pieces
    octets: int
    encoding: str = ""
    section: str = ""


@dataclass(frozen=True, slots=True)
class MailPart:
    """A part in a mail's structure. A multipart has a `boundary` and several `parts`; an attached mail has its own body
    as its only part."""

    section: str
    media_type: str
    parts: tuple[MailPart, ...] = ()
    boundary: str = ""
    name: str = ""
    attached: bool = False
    encoding: str = ""
    octets: int = 0


def documents_of(structure: Any, size: int) -> list[MailDocument]:
    """Return the mail first, then its attachments. If the structure is not understood, return the mail as a whole.
    `size` is the mail's size in bytes."""
    try:
        body = _part(structure, "", True)
        if _count(body) <= MOST_PARTS:
            return list(_of_mail(body, "", (), size))
    except (ValueError, TypeError, IndexError, AttributeError):
        pass
    return [MailDocument((), WHOLE, size)]


# ---------------------------------------------------------------- the structure (RFC 3501, 7.4.2)


def _part(value: list[Any], section: str, of_mail: bool) -> MailPart:
    """Parse one section of the structure, or the body of the mail in it. Raise ValueError, TypeError, IndexError or
    AttributeError if its form is unexpected."""
    if isinstance(value[0], list):
        count = next((at for at, item in enumerate(value) if not isinstance(item, list)), len(value))
        parts = tuple(_part(item, _section_below(section, at), False) for at, item in enumerate(value[:count], start=1))
        parameters = value[count + 1] if len(value) > count + 1 else None
        return MailPart(section, f"multipart/{_text(value[count])}", parts, parameter(parameters or (), "boundary"))
    if of_mail:
        section = _section_below(section, 1)
    media_type = f"{_text(value[0])}/{_text(value[1])}"
    within = media_type == EML and len(value) > 8 and isinstance(value[8], list)
    at = 11 if within else 9 if media_type.startswith("text/") else 8
    kind, *rest = value[at] if len(value) > at and value[at] else (b"",)
    named = parameter(rest[0] or (), "filename") if rest else ""
    return MailPart(
        section,
        media_type,
        (_part(value[8], section, True),) if within else (),
        name=named or parameter(value[2] or (), "name") or (_subject(value[7]) if within else ""),
        attached=_text(kind) == "attachment",
        encoding=_text(value[5]),
        octets=_number(value[6]),
    )


def _subject(envelope: Any) -> str:
    return decoded_header((envelope[1] or b"").decode("utf-8", "replace")) if isinstance(envelope, list) else ""


def _number(value: object) -> int:
    return int(value) if isinstance(value, bytes) and value.isdigit() and len(value) <= _MOST_DIGITS else 0


def _section_below(section: str, number: int) -> str:
    return f"{section}.{number}" if section else str(number)


def _text(value: bytes | None) -> str:
    return value.decode("latin-1").lower() if value else ""


def _count(part: MailPart) -> int:
    return 1 + sum(map(_count, part.parts))


def _leaves(part: MailPart, shown: bool = False) -> Iterator[MailPart]:
    """Yield the leaves of one mail. An attached mail is a leaf, and its own leaves are not yielded. A picture in
    multipart/related is `shown` by the page beside it, and does not count as attached, even if its headers say so."""
    if part.media_type.startswith("multipart/"):
        for below in part.parts:
            yield from _leaves(below, shown or part.media_type == "multipart/related")
    elif shown and part.media_type.startswith("image/"):
        yield replace(part, attached=False)
    else:
        yield part


# ---------------------------------------------------------------- the structure of a mail that is at hand


def documents_in(message: Message) -> Iterator[tuple[MailDocument, Message]]:
    """Yield the attachments of a parsed mail that are documents, each with the part that holds it, and an attached mail
    as a whole.

    Raise DocumentError `limit_exceeded` if the mail has more than MOST_PARTS parts."""
    parts: dict[str, Message] = {}
    body = _part_of(message, "", True, parts)
    if _count(body) > MOST_PARTS:
        raise DocumentError(
            f"the attachments are not read, since the mail has more than {MOST_PARTS} parts", "limit_exceeded"
        )
    for found in _of_mail(body, "", (), 0, 0):
        if found.below and parts[found.section].get_payload():
            yield found, parts[found.section]


def _part_of(message: Message, section: str, of_mail: bool, parts: dict[str, Message]) -> MailPart:
    """Return the structure of a parsed mail, or of a part of it, in the form of `_part`; `parts` collects the parts by
    section."""
    payload, media_type = message.get_payload(), message.get_content_type()
    within = media_type == EML and isinstance(payload, list) and len(payload) == 1
    if isinstance(payload, list) and not within:
        inside = cast("list[Message]", payload)
        found = [_part_of(each, _section_below(section, at), False, parts) for at, each in enumerate(inside, start=1)]
        return MailPart(section, f"multipart/{message.get_content_subtype()}", tuple(found), "=")
    if of_mail:
        section = _section_below(section, 1)
    parts[section] = message
    inner = cast("list[Message]", payload)[0] if within else None
    name = message.get_filename() or ""
    return MailPart(
        section,
        media_type,
        (_part_of(inner, section, True, parts),) if inner is not None else (),
        name=decoded_header(name) or (decoded_header(str(inner["Subject"] or "")) if inner is not None else ""),
        attached=message.get_content_disposition() == "attachment",
        encoding=str(message["Content-Transfer-Encoding"] or "").strip().lower(),
        octets=1,
    )


# ---------------------------------------------------------------- mail documents


def _of_mail(
    body: MailPart, section: str, below: tuple[str, ...], size: int, deepest: int = DEEPEST
) -> Iterator[MailDocument]:
    names, within = AttachmentNames(), list[MailDocument]()
    written, apart, left = set[str](), set[str](), 0
    for at, leaf in enumerate(_leaves(body)):
        is_text = leaf.media_type.startswith("text/") and not leaf.attached and not (leaf.name and at)
        if is_text or leaf.media_type in CALENDARS:
            written.add(leaf.section)
            continue
        left += leaf.octets
        known = leaf.encoding in _ENCODINGS
        name = document_name(leaf.name, leaf.media_type, leaf.attached) if known else None
        if name:
            apart.add(leaf.section)
            within += _of_attachment(leaf, (*below, names.take(name)), deepest)
    if left or apart:
        pieces = (MailSection(f"{section}.HEADER" if section else "HEADER"), *_sections_to_keep(body, written, apart))
        yield MailDocument(below, pieces, max(size - left, 0), section=section)
    else:
        yield MailDocument(below, (MailSection(section),), size, section=section)
    yield from within


def _of_attachment(part: MailPart, below: tuple[str, ...], deepest: int) -> Iterator[MailDocument]:
    plain = part.encoding not in ENCODED  # the structure of an encoded mail describes its decoded text
    if part.parts and plain and len(below) <= deepest:
        yield from _of_mail(part.parts[0], part.section, below, part.octets, deepest)
    else:
        yield MailDocument(below, (MailSection(part.section),), part.octets, part.encoding, part.section)


def _sections_to_keep(part: MailPart, written: set[str], apart: set[str]) -> Iterator[MailSection | str]:
    """Yield the sections to fetch of a mail without the parts in `apart`. The bodies of other attachments are left out
    too. Raise ValueError if no boundary separates its parts."""
    if not part.media_type.startswith("multipart/"):
        yield from [MailSection(part.section)] if part.section in written else []
        return
    if not part.boundary:
        raise ValueError("a mail of several parts without a boundary")
    for below in part.parts:
        if below.section not in apart:
            yield from (f"--{part.boundary}{_LINE}", MailSection(f"{below.section}.MIME"))
            yield from (*_sections_to_keep(below, written, apart), _LINE)
    yield f"--{part.boundary}--{_LINE}"


# ---------------------------------------------------------------- mail encodings
#
# Transfer encodings of attachments, decoded piece by piece. Characters that are not part of an encoding are skipped.


_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_OTHER = bytes(sign for sign in range(256) if sign not in _BASE64)
_PADDING = re.compile(b"=++")


def decoded_body(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    if encoding == "base64":
        return _base64(pieces)
    return _decode_quoted(pieces) if encoding == "quoted-printable" else iter(pieces)


def _base64(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Decode base64 piece by piece. Continue after padding, since some programs encode in parts."""
    held = b""
    for piece in pieces:
        *ended, held = _PADDING.split(held + piece.translate(None, _OTHER))
        yield b"".join(map(_last, ended))
        whole = len(held) // 4 * 4
        yield binascii.a2b_base64(held[:whole])
        held = held[whole:]
    yield _last(held)


def _last(text: bytes) -> bytes:
    """Decode the last characters, whose padding may be missing. Drop a single remaining character, since it holds less
    than a byte."""
    text = text[: len(text) - (len(text) % 4 == 1)]
    return binascii.a2b_base64(text + b"=" * (-len(text) % 4))


def _decode_quoted(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []  # joined at the end of a line only: a long line costs nothing more
    for piece in pieces:
        lines, end, rest = piece.rpartition(b"\n")
        if end:
            yield binascii.a2b_qp(b"".join((*held, lines, end)))
            held = []
        held.append(rest)
    yield binascii.a2b_qp(b"".join(held))
