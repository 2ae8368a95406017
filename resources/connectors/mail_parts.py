"""Which documents a mail is, by the structure that the server tells (BODYSTRUCTURE): the mail itself, and each of its
attachments that is of a format which is read. A mail that is attached is a mail again.

What is asked for later is put down here as pieces: text that stands as it is, and sections of the mail. A mail is
fetched without what became documents of their own, and of other attachments only what they are: its reader names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.parsing.formats import EML
from resources.connectors.mail_answers import number
from resources.connectors.mail_names import Names, decoded, document_name, parameter

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
    return decoded((envelope[1] or b"").decode("utf-8", "replace")) if isinstance(envelope, list) else ""


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
