"""E-mail messages (EML) as blocks: subject, sender, date, and the text that the sender wrote, plain or HTML.

The standard library reads them without a network or a model. Attachments that a parser reads are documents of their
own (resources/sources/mail_parts.py); a warning names the others.
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

from pipelines.errors import DocumentError
from pipelines.parsing.mail import documents_in
from pipelines.records import Block, ParsedFile, TextRun
from resources.parsers.html import parse_source, source_of
from resources.parsers.labels import key_value
from resources.parsers.source_text import decode, decoded_header, decoded_words, without_offsets
from resources.parsers.text.plain import blocks_of_text

ORIGIN = "email"
_HEADERS = ("From", "To", "Cc", "Date")
_NAMED, _LONGEST_NAME = 20, 200
"""Most attachments that a warning names, and most characters of each name, so that a message cannot flood the
report."""
_LONGEST_HEADER = 1 << 16
"""Characters of a header that are decoded."""
_QUOTED = re.compile(r"(?m)^>+ ?")


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read a message. Raise DocumentError `corrupt` if the file has no headers of a message."""
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
    body, warnings = _body(message, path.name, hidden)
    blocks += body
    apart = _documents(message)
    names = [part.get_filename() or "unnamed" for part in message.iter_attachments() if id(part) not in apart]
    return ParsedFile(tuple(blocks), properties, None, (*warnings, *unread(names)), ORIGIN)


def _documents(message: EmailMessage) -> set[int]:
    """Return the identities of the attachments that are documents of their own."""
    try:
        return {id(part) for _, part in documents_in(message)}
    except (DocumentError, ValueError, LookupError, AttributeError, RecursionError):
        return set()  # the listing says why none is


def unread(names: Sequence[str]) -> tuple[str, ...]:
    """Return the warning about unread attachments, bounded however many there are and however long their names."""
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


def _body(message: EmailMessage, name: str, hidden: bool) -> tuple[list[Block], tuple[str, ...]]:
    is_html, content, warnings = written(message, name)
    if is_html:
        page = parse_source(content, name, warnings, hidden)
        return [without_offsets(block) for block in page.blocks], page.warnings
    return [without_offsets(block) for block in blocks_of_text(_QUOTED.sub("", content))], warnings


def said_of(path: Path) -> dict[str, str]:
    """Return the properties that a message's headers give, by the keys of ParsedFile.properties."""
    return _properties(_message(path))


def _message(path: Path) -> EmailMessage:
    with open(path, "rb") as stream:
        try:
            message = BytesParser(policy=policy.default).parse(stream)
        except RecursionError:
            told = f"{path.name}: mails within mails are nested too deeply: save the inner ones as files"
            raise DocumentError(told, "limit_exceeded") from None
    assert isinstance(message, EmailMessage)
    return message


def html_of(path: Path) -> str:
    """Return the body of a message if it is written in HTML, else ""."""
    is_html, content, _ = written(_message(path), path.name)
    return content if is_html else ""


def written(message: EmailMessage, name: str) -> tuple[bool, str, tuple[str, ...]]:
    """Return whether the body that the sender wrote is HTML, the body, and warnings. Raise DocumentError `corrupt` if
    it is not text."""
    part = message.get_body(preferencelist=("html", "plain"))
    if not isinstance(part, EmailMessage):
        return False, "", ()
    return part.get_content_subtype() == "html", *_part_text(part, name)


def _part_text(part: EmailMessage, name: str) -> tuple[str, tuple[str, ...]]:
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
