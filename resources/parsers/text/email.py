"""E-mail messages (EML) as blocks: subject, sender, date, and the text that the sender wrote, plain or HTML.

The standard library reads them without a network or a model. Attachments are named, not opened. They are indexed if
they are files of the source themselves, as in a mail server's source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from pathlib import Path

from pipelines.errors import DocumentError
from pipelines.records import Block, ParsedFile, TextRun
from resources.parsers.html import parse_source
from resources.parsers.labels import key_value
from resources.parsers.source_text import without_offsets
from resources.parsers.text.plain import blocks_of_text

ORIGIN = "email"
_HEADERS = ("From", "To", "Cc", "Date")
_NAMED, _LONGEST_NAME = 20, 200
"""Most attachments that a warning names, and most characters of each name, so that a message cannot flood the
report."""
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
    names = [part.get_filename() or "unnamed" for part in message.iter_attachments()]
    return ParsedFile(tuple(blocks), properties, None, (*warnings, *unread(names)), ORIGIN)


def unread(names: Sequence[str]) -> tuple[str, ...]:
    """Return the warning about unread attachments, bounded however many there are and however long their names."""
    if not names:
        return ()
    said = ", ".join(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return (f"attachments were not read: {said}{more}",)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, IndexError, AttributeError, RecursionError):  # headers that the standard library cannot fold
        return ""


def _properties(message: EmailMessage) -> dict[str, str]:
    named = {"title": "Subject", "author": "From", "language": "Content-Language"}
    properties = {name: _header(message, header) for name, header in named.items()}
    with suppress(ValueError, TypeError):
        properties["effective_date"] = parsedate_to_datetime(_header(message, "Date")).date().isoformat()
    return {key: value for key, value in properties.items() if value}


def _body(message: EmailMessage, name: str, hidden: bool) -> tuple[list[Block], tuple[str, ...]]:
    is_html, content = written(message)
    if is_html:
        page = parse_source(content, name, hidden=hidden)
        return [without_offsets(block) for block in page.blocks], page.warnings
    return [without_offsets(block) for block in blocks_of_text(_QUOTED.sub("", content))], ()


def said_of(path: Path) -> dict[str, str]:
    """Return the properties that a message's headers give, by the keys of ParsedFile.properties."""
    return _properties(_message(path))


def _message(path: Path) -> EmailMessage:
    with open(path, "rb") as stream:
        message = BytesParser(policy=policy.default).parse(stream)
    assert isinstance(message, EmailMessage)
    return message


def html_of(path: Path) -> str:
    """Return the body of a message if it is written in HTML, else ""."""
    message = _message(path)
    is_html, content = written(message)
    return content if is_html else ""


def written(message: EmailMessage) -> tuple[bool, str]:
    """Return whether the body that the sender wrote is HTML, and the body."""
    part = message.get_body(preferencelist=("html", "plain"))
    if part is None:
        return False, ""
    try:
        content = part.get_content()
    except (LookupError, UnicodeError, ValueError):
        payload = part.get_payload(decode=True)
        content = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    return part.get_content_subtype() == "html", content if isinstance(content, str) else ""
