"""The documents in a mail: the mail itself and its attachments, with their names, sections and transfer encodings.

Headers and structures (BODYSTRUCTURE) come from strangers. They decide no folder, no file ending beyond those that
pincite reads, and nothing that a reader would not see.

A mail is fetched without the attachments that became documents of their own. An attached mail is a mail again. Pieces
to fetch later are literal text or sections of the mail.
"""

from __future__ import annotations

import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.header import decode_header, make_header
from email.parser import HeaderParser
from email.utils import collapse_rfc2231_value, decode_params, parsedate_to_datetime, quote, unquote
from pathlib import Path
from typing import Any

from pipelines.parsing.formats import EML, OF_TYPE
from resources.connectors.mail_client import number
from resources.hashes import bytes_hash
from resources.parsers.registry import ELEMENTS, media_type_of

# ---------------------------------------------------------------- mail names
#
# What a mail and its attachments are named as documents. Headers are hostile: they decide no folder, no ending that is
# not looked at, and nothing that a reader would not see.


HEADERS = "BODY.PEEK[HEADER.FIELDS (DATE SUBJECT MESSAGE-ID)]<0.4096>"
NAMED = "BODY[HEADER.FIELDS (DATE SUBJECT MESSAGE-ID)]<0>"
_LONGEST = 120
"""Bytes of a name; what makes it one of its own is added."""
_LONGEST_PARAMETER = 2000
_MOST_HEADERS = 4096
"""Bytes of headers that are asked for; a server may send more."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SEPARATORS = re.compile(r"[/\\]")


def mail_name(headers: bytes) -> str:
    """Its date, its subject, and a hash of them and of its Message-ID: the same for as long as the mail is, on
    whichever server."""
    found = HeaderParser().parsestr(headers[:_MOST_HEADERS].decode("utf-8", "replace"))
    try:
        date = parsedate_to_datetime(str(found["Date"])).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        date = ""
    subject = cleaned(decoded_header(str(found["Subject"] or ""))) or "no subject"
    return " ".join(filter(None, [date, subject, bytes_hash(headers)[:8]]))


def decoded_header(text: str) -> str:
    """Without the encodings of RFC 2047."""
    try:
        return str(make_header(decode_header(text[:_LONGEST_PARAMETER])))
    except (ValueError, LookupError, TypeError):
        return text


def parameter(parameters: Sequence[bytes | None], name: str) -> str:
    """The value of a parameter such as `filename`, in whichever of the encodings of RFC 2231 and 2047; "" without."""
    texts = [(value or b"")[:_LONGEST_PARAMETER].decode("utf-8", "replace") for value in parameters]
    pairs = [(key.lower(), quote(value)) for key, value in zip(texts[::2], texts[1::2], strict=False)]
    try:
        # Which of several parts is the first is for the library to say; the first pair is not looked at.
        found = dict(reversed(decode_params([("", ""), *((key, f'"{value}"') for key, value in pairs)])))
        value = found.get(name, "")
        if isinstance(value, tuple):
            charset, language, text = value
            return collapse_rfc2231_value((charset, language, unquote(text)))
        return decoded_header(unquote(value))
    except (ValueError, LookupError, TypeError):
        return next((unquote(value) for key, value in pairs if key.partition("*")[0] == name), "")


def cleaned(name: str) -> str:
    """A part of a path: no separators, nothing that is not seen, not hidden, and not too long."""
    seen = "".join(char for char in _SEPARATORS.sub("_", name) if unicodedata.category(char) not in _UNSEEN)
    plain = unicodedata.normalize("NFC", " ".join(seen.split())).lstrip(". ")
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > 10:
        stem, ending = plain, ""
    room = _LONGEST - len(f"{dot}{ending}".encode()) if ending else _LONGEST
    return stem.encode()[:room].decode("utf-8", "ignore").strip() + (f".{ending}" if ending else "")


def document_name(said: str, media_type: str) -> str | None:
    """Of an attachment, by the name that it has and the type that it says; None where nobody reads it."""
    name = cleaned(said) or ("message" if media_type == EML else "attachment")
    found = media_type_of(Path(name))
    if media_type in OF_TYPE and (found is None or (media_type == EML and found != EML)):
        name += OF_TYPE[media_type].endings[0]
        found = media_type
    return name if found not in (None, ELEMENTS) else None


class Names:
    """Those of one mail's attachments. What a mail within it has attached is in a folder of its own."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def taken(self, name: str) -> str:
        """The name, or with a number where another has it."""
        stem, _, ending = name.rpartition(".")
        number, made = 1, name
        while (folded := self._folded(made)) & self._taken:
            number += 1
            made = f"{stem}~{number}.{ending}"
        self._taken |= folded
        return made

    @staticmethod
    def _folded(name: str) -> set[str]:
        folded = name.casefold()
        return {folded, folded.removesuffix(".eml")}


# ---------------------------------------------------------------- mail parts
#
# Which documents a mail is, by the structure that the server tells (BODYSTRUCTURE): the mail itself, and each of its
# attachments that is of a format which is read. A mail that is attached is a mail again.
#
# What is asked for later is put down here as pieces: text that stands as it is, and sections of the mail. A mail is
# fetched without what became documents of their own, and of other attachments only what they are: its reader names
# them.


MOST_PARTS = 300
"""A mail of more is one document, and its reader names what is attached."""
DEEPEST = 5
"""Mails within mails whose attachments are documents."""
_ENCODED = frozenset({"base64", "quoted-printable"})
_ENCODINGS = _ENCODED | {"7bit", "8bit", "binary", ""}
_LINE = "\r\n"


@dataclass(frozen=True, slots=True)
class Section:
    """What `BODY.PEEK[name]` gives; "" is all of a mail."""

    name: str


Pieces = tuple[Section | str, ...]
WHOLE: Pieces = (Section(""),)


@dataclass(frozen=True, slots=True)
class Document:
    """`below` are names within the folder of a mail's attachments, none for the mail itself. `octets` is about how much
    is sent for it, `encoding` that of all its pieces."""

    below: tuple[str, ...]
    pieces: Pieces
    octets: int
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Of a mail: one of several parts has a `boundary` and `parts`, a mail within it its own body as its only one."""

    section: str
    media_type: str
    parts: tuple[Part, ...] = ()
    boundary: str = ""
    name: str = ""
    attached: bool = False
    encoding: str = ""
    octets: int = 0


def documents_of(structure: Any, size: int) -> list[Document]:
    """The mail first; of a structure that is not understood, the mail as a whole. `size` is the mail's, in bytes."""
    try:
        body = _part(structure, "", True)
        if _count(body) <= MOST_PARTS:
            return list(_of_mail(body, "", (), size))
    except (ValueError, TypeError, IndexError, AttributeError):
        pass
    return [Document((), WHOLE, size)]


# ---------------------------------------------------------------- the structure (RFC 3501, 7.4.2)


def _part(value: list[Any], section: str, of_mail: bool) -> Part:
    """The part of this section, or the body of the mail that it is. Raises ValueError, TypeError, IndexError or
    AttributeError where it is none."""
    if isinstance(value[0], list):
        count = next((at for at, item in enumerate(value) if not isinstance(item, list)), len(value))
        parts = tuple(_part(item, _below(section, at), False) for at, item in enumerate(value[:count], start=1))
        parameters = value[count + 1] if len(value) > count + 1 else None
        return Part(section, f"multipart/{_text(value[count])}", parts, parameter(parameters or (), "boundary"))
    if of_mail:
        section = _below(section, 1)
    media_type = f"{_text(value[0])}/{_text(value[1])}"
    within = media_type == EML and len(value) > 8 and isinstance(value[8], list)
    at = 11 if within else 9 if media_type.startswith("text/") else 8
    kind, *rest = value[at] if len(value) > at and value[at] else (b"",)
    named = parameter(rest[0] or (), "filename") if rest else ""
    return Part(
        section,
        media_type,
        (_part(value[8], section, True),) if within else (),
        name=named or parameter(value[2] or (), "name") or (_subject(value[7]) if within else ""),
        attached=_text(kind) == "attachment",
        encoding=_text(value[5]),
        octets=number(value[6]) or 0,
    )


def _subject(envelope: Any) -> str:
    return decoded_header((envelope[1] or b"").decode("utf-8", "replace")) if isinstance(envelope, list) else ""


def _below(section: str, number: int) -> str:
    return f"{section}.{number}" if section else str(number)


def _text(value: bytes | None) -> str:
    return value.decode("latin-1").lower() if value else ""


def _count(part: Part) -> int:
    return 1 + sum(map(_count, part.parts))


def _leaves(part: Part) -> Iterator[Part]:
    """Those of one mail: of a mail that is attached, that."""
    if part.media_type.startswith("multipart/"):
        for below in part.parts:
            yield from _leaves(below)
    else:
        yield part


# ---------------------------------------------------------------- what of it is a document


def _of_mail(body: Part, section: str, below: tuple[str, ...], size: int) -> Iterator[Document]:
    names, within = Names(), list[Document]()
    written, apart, left = set[str](), set[str](), 0
    for at, leaf in enumerate(_leaves(body)):
        if leaf.media_type.startswith("text/") and not leaf.attached and not (leaf.name and at):
            written.add(leaf.section)
            continue
        left += leaf.octets
        name = document_name(leaf.name, leaf.media_type) if leaf.encoding in _ENCODINGS else None
        if name:
            apart.add(leaf.section)
            within += _of_attachment(leaf, (*below, names.taken(name)))
    if left or apart:
        pieces = (Section(f"{section}.HEADER" if section else "HEADER"), *_kept(body, written, apart))
        yield Document(below, pieces, max(size - left, 0))
    else:
        yield Document(below, (Section(section),), size)
    yield from within


def _of_attachment(part: Part, below: tuple[str, ...]) -> Iterator[Document]:
    plain = part.encoding not in _ENCODED  # else what is told of its parts is of what is not decoded
    if part.parts and plain and len(below) <= DEEPEST:
        yield from _of_mail(part.parts[0], part.section, below, part.octets)
    else:
        yield Document(below, (Section(part.section),), part.octets, part.encoding)


def _kept(part: Part, written: set[str], apart: set[str]) -> Iterator[Section | str]:
    """Raises ValueError where nothing tells its parts apart."""
    if not part.media_type.startswith("multipart/"):
        yield from [Section(part.section)] if part.section in written else []
        return
    if not part.boundary:
        raise ValueError("a mail of several parts without a boundary")
    for below in part.parts:
        if below.section not in apart:
            yield from (f"--{part.boundary}{_LINE}", Section(f"{below.section}.MIME"))
            yield from (*_kept(below, written, apart), _LINE)
    yield f"--{part.boundary}--{_LINE}"


# ---------------------------------------------------------------- mail encodings
#
# The encodings that attachments are sent in, undone piece by piece. What is no sign of an encoding is passed over.


_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_OTHER = bytes(sign for sign in range(256) if sign not in _BASE64)
_PADDING = re.compile(b"=++")


def decoded_body(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
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
