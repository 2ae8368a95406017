"""The reader of e-mail messages (EML): subject, sender, date, the body as plain text or HTML, and invitations.

It uses Python's standard library. Attachments in known formats are separate documents
(resources/sources/mail_parts.py); a warning names the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.mail import CALENDARS, documents_in
from pipelines.records import Block, ParsedFile, TextRun
from resources.parsers.html import parse_source, source_of
from resources.parsers.labels import key_value
from resources.parsers.source_text import decode, decoded_header, decoded_words, without_offsets
from resources.parsers.text.invitations import entries_in
from resources.parsers.text.plain import blocks_of_text

ORIGIN = "email"
_HEADERS = ("From", "To", "Cc", "Date")
_NAMED, _LONGEST_NAME = 20, 200
"""Most attachments that a warning names, and most characters of each name, so that a message cannot flood the
report."""
_LONGEST_HEADER = 1 << 16
"""Most characters of a header that are decoded."""
_QUOTED = re.compile(r"(?m)^>+ ?")


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read a message. Raise DocumentError `corrupt` if the file has no message headers."""
    message = _message(path)
    if not message.keys() or not any(name in message for name in ("From", "To", "Subject", "Date", "Received")):
        raise DocumentError(f"{path.name}: not an e-mail message: it has no headers of one", "corrupt")
    properties = _properties(message)
    blocks: list[Block] = []
    if properties.get("title"):
        blocks.append(Block("heading", (TextRun(properties["title"]),), 1))
    for header in _HEADERS:
        if value := _header(message, header):
            blocks.append(Block("key_value", (TextRun(f"{header}: {value}"),), metadata=key_value(header, value)))
    shown = _Shown(message)
    warnings: list[str] = []
    for part in shown.texts:
        body, told = _body(part, path.name, hidden)
        blocks += body
        warnings += told
    invitations, told = _invitations(shown.calendars, path.name)
    known = {_words(block) for block in blocks}
    blocks += [block for block in invitations if block.kind != "paragraph" or _words(block) not in known]
    apart = _documents(message)
    names = [part.get_filename() or "unnamed" for part in shown.others if id(part) not in apart]
    return ParsedFile(tuple(blocks), properties, None, (*dict.fromkeys((*warnings, *told)), *unread(names)), ORIGIN)


class _Shown:
    """The parts of a message by their use in a mail program: shown texts (of alternative forms only the best), calendar
    entries, and attachments."""

    def __init__(self, message: Message) -> None:
        self.texts: list[Message] = []
        self.calendars: list[Message] = []
        self.others: list[Message] = []
        pending: list[tuple[Message, bool]] = [(message, False)]
        while pending:
            part, is_second = pending.pop()
            inside = part.get_payload()
            if part.get_content_maintype() == "multipart" and isinstance(inside, list):
                below = self._parts_inside(part, [each for each in inside if isinstance(each, Message)])
                pending += [(each, is_second or second) for each, second in reversed(below)]
            elif part.get_content_type() in CALENDARS:
                self.calendars.append(part)
            elif not is_second and part.get_content_type() in _SHOWN and not _is_attached(part, bool(self.texts)):
                self.texts.append(part)
            elif not is_second or part.get_content_maintype() not in ("text", "image"):
                self.others.append(part)

    @staticmethod
    def _parts_inside(part: Message, inside: list[Message]) -> list[tuple[Message, bool]]:
        """Return the parts of a multipart, and whether each is only an alternative form or belongs to another part,
        such as a logo."""
        if part.get_content_subtype() == "related":
            start = part.get_param("start")
            root = next((each for each in inside if start and each["Content-ID"] == start), None)
            return [(each, each is not (root or inside[0])) for each in inside]
        if part.get_content_subtype() == "alternative":
            best = max(inside, key=_rank, default=None)
            return [(each, each is not best) for each in inside]
        return [(each, False) for each in inside]


_SHOWN = ("text/plain", "text/html")
_MOST_LOOKED_AT = 20


def _rank(part: Message) -> int:
    """Return the rank of an alternative form: with HTML, plain text, or neither."""
    pending, found = [part], 0
    for _ in range(_MOST_LOOKED_AT):
        if not pending:
            break
        each = pending.pop()
        inside = each.get_payload()
        if each.get_content_maintype() == "multipart" and isinstance(inside, list):
            pending += [below for below in inside if isinstance(below, Message)]
        elif each.get_content_type() in _SHOWN:
            found = max(found, 1 + _SHOWN.index(each.get_content_type()))
    return found


def _is_attached(part: Message, after_text: bool) -> bool:
    return part.get_content_disposition() == "attachment" or (after_text and bool(part.get_filename()))


def _invitations(parts: Sequence[Message], name: str) -> tuple[list[Block], tuple[str, ...]]:
    """Return the entries of calendars, without repeated calendars, and warnings."""
    blocks: list[Block] = []
    warnings: list[str] = []
    seen = set[tuple[str, ...]]()
    for part in parts:
        payload = part.get_payload(decode=True)
        text, told = decode(payload if isinstance(payload, bytes) else b"", name, _charset(part))
        found, more = entries_in(text)
        key = tuple(map(_words, found))
        blocks += [] if key in seen else found
        seen.add(key)
        warnings += (*told, *more)
    return blocks, tuple(warnings)


def _words(block: Block) -> str:
    return " ".join(" ".join(run.text for run in block.runs).split())


def _documents(message: EmailMessage) -> set[int]:
    """Return the identities of the attachments that are separate documents."""
    try:
        return {id(part) for _, part in documents_in(message)}
    except (DocumentError, ValueError, LookupError, AttributeError, RecursionError):
        return set()  # the listing says why none is


def unread(names: Sequence[str]) -> tuple[str, ...]:
    """Return the warning about unread attachments, limited in number and length of names."""
    if not names:
        return ()
    said = ", ".join(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return (f"attachments were not read: {said}{more}",)


def _header(message: Message, name: str) -> str:
    """Return the first header of a name on one line, decoded; "" if the message has none."""
    found = next((value for header, value in message.raw_items() if header.lower() == name.lower()), "")
    raw = str(found)[:_LONGEST_HEADER]
    if not raw.isascii():
        data = raw.encode("utf-8", "surrogateescape")
        try:
            raw = data.decode("utf-8")
        except UnicodeDecodeError:
            raw = decoded_header(data, _charset(message))
    return " ".join(decoded_words(raw).split())


def _properties(message: EmailMessage) -> dict[str, str]:
    named = {"title": "Subject", "author": "From", "language": "Content-Language"}
    properties = {name: _header(message, header) for name, header in named.items()}
    with suppress(ValueError, TypeError):
        properties["effective_date"] = parsedate_to_datetime(_header(message, "Date")).date().isoformat()
    return {key: value for key, value in properties.items() if value}


def _body(part: Message, name: str, hidden: bool) -> tuple[list[Block], tuple[str, ...]]:
    content, warnings = _part_text(part, name)
    if part.get_content_subtype() == "html":
        page = parse_source(content, name, warnings, hidden)
        return [without_offsets(block) for block in page.blocks], page.warnings
    return [without_offsets(block) for block in blocks_of_text(_QUOTED.sub("", content))], warnings


def said_of(path: Path) -> dict[str, str]:
    """Return the properties from a message's headers, with the keys of ParsedFile.properties."""
    return _properties(_message(path))


class _Bounded(policy.EmailPolicy):
    """The library's policy with limited header values, since the library parses their parameters in quadratic time. It
    omits unreadable parameters; `raw_items` has all headers."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        value = value[:_LONGEST_PARSED]
        try:
            return super().header_fetch_parse(name, value)
        except Exception:  # the library raises many errors for parameters that end too early, such as IndexError
            return super().header_fetch_parse(name, value.partition(";")[0])


POLICY = _Bounded()
_LONGEST_PARSED = 1 << 13


def _message(path: Path) -> EmailMessage:
    with open(path, "rb") as stream:
        try:
            message = BytesParser(policy=POLICY).parse(stream)
        except RecursionError:
            told = f"{path.name}: mails within mails are nested too deeply: save the inner ones as files"
            raise DocumentError(told, "limit_exceeded") from None
    assert isinstance(message, EmailMessage)
    return message


def html_of(path: Path) -> str:
    """Return the body of a message if it is HTML, or ""."""
    is_html, content, _ = written_body(_message(path), path.name)
    return content if is_html else ""


def written_body(message: EmailMessage, name: str) -> tuple[bool, str, tuple[str, ...]]:
    """Return whether the body that the sender wrote is HTML, the body, and warnings. Raise DocumentError `corrupt` if
    it is not text."""
    part = message.get_body(preferencelist=("html", "plain"))
    if not isinstance(part, EmailMessage):
        return False, "", ()
    return part.get_content_subtype() == "html", *_part_text(part, name)


def _part_text(part: Message, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a part, and warnings. Raise DocumentError `corrupt` if it is not text."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    if part.get_content_subtype() == "html":
        return source_of(data, name, _charset(part))
    return decode(data, name, _charset(part))


def _charset(part: Message) -> str | None:
    """Return the declared encoding of a part, or of the first text in it."""
    for each in part.walk():
        if each.get_content_maintype() == "text":
            try:
                return each.get_content_charset()
            except (LookupError, UnicodeError, ValueError):
                return None
    return None
