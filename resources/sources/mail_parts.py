"""The attachments of mail files (EML, MSG) in a source, which are documents named below the mail's name.

`offer.eml/prices.xlsx` is the attachment `prices.xlsx` of `offer.eml`, and `offer.eml/Fwd.eml/scan.pdf` is the
attachment of an attached mail. Nothing is stored on disk: a part is read from its mail each time. The names are chosen
as for mails of a mail server (pipelines/parsing/mail.py).

Mails are untrusted. Their size and the number of their boundaries are limited before parsing, since every line is
compared with all open boundaries.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from pipelines.errors import DocumentError
from pipelines.parsing.formats import EML, OF_ENDING

if TYPE_CHECKING:
    from email.message import Message

MSG = "application/vnd.ms-outlook"
LARGEST = 64 << 20
"""Most bytes of a mail whose attachments are read. The whole mail is in memory, in a few copies."""
MOST_BOUNDARIES = 100
"""Most boundaries of a mail whose attachments are read. A mail with five levels of forwarded mails has about twenty."""
_TEXTS = (".txt", ".text", ".log", ".md", ".csv", ".tsv")
_BOUNDARY = re.compile(rb"boundary[^\n=]{0,20}=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment: its name below the mail and its bytes; for an attached mail, also the reason if its own
    attachments are not read."""

    below: str
    content: bytes
    undivided: str = ""


def holds_parts(uri: str) -> bool:
    """Say whether a file with this name is a mail, whose attachments are documents."""
    found = OF_ENDING.get(PurePosixPath(uri.lower()).suffix)
    return found is not None and found.media_type in (EML, MSG)


def possible_mails(uri: str) -> Iterator[tuple[str, str]]:
    """Yield each beginning of a name that may be a mail, with the rest of the name, which is then an attachment."""
    parts = uri.split("/")
    for at in range(1, len(parts)):
        mail = "/".join(parts[:at])
        if holds_parts(mail):
            yield mail, "/".join(parts[at:])


def parts_of_mail(stream: IO[bytes], uri: str) -> Iterator[Attachment]:
    """Yield the attachments of a mail in readable formats, including those of attached mails.

    Raise DocumentError `limit_exceeded` if the mail is too large to divide, `corrupt` if it cannot be read.
    """
    from pipelines.parsing.mail import MOST_PARTS

    content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        told = f"{uri}: its attachments are not read, since it is larger than {LARGEST >> 20} MB: save them as files"
        raise DocumentError(told, "limit_exceeded")
    yield from _divide(content, uri, 1, [MOST_PARTS])


def _divide(content: bytes, uri: str, level: int, left: list[int]) -> Iterator[Attachment]:
    """Yield the attachments of a mail, each attached mail followed by its own. `left` has the number that may still
    follow."""
    from pipelines.parsing.mail import DEEPEST, MOST_PARTS

    is_msg = OF_ENDING[PurePosixPath(uri.lower()).suffix].media_type == MSG
    try:
        own = list(_of_msg(content) if is_msg else _of_eml(content))
        if len(own) > left[0]:
            told = f"the attachments are not read, since the mail has more than {MOST_PARTS} of them"
            raise DocumentError(told, "limit_exceeded")
        if level > DEEPEST and own:
            told = f"the attachments are not read, since {DEEPEST} mails are around the mail"
            raise DocumentError(told, "limit_exceeded")
        left[0] -= len(own)
    except DocumentError as error:
        raise DocumentError(f"{uri}: {error}: save them as files", error.code) from None
    except Exception as error:  # the libraries raise many errors for a damaged mail, without a common base
        raise DocumentError(f"{uri}: its attachments cannot be read ({type(error).__name__})", "corrupt") from error
    for part in own:
        if not holds_parts(part.below):
            yield part
            continue
        below = f"{uri}/{part.below}"
        try:
            inside = list(_divide(part.content, below, level + 1, left))
        except DocumentError as error:
            yield replace(part, undivided=str(error))
            continue
        yield part
        yield from (replace(each, below=f"{part.below}/{each.below}") for each in inside)


def part_of_mail(stream: BinaryIO, uri: str, below: str) -> bytes:
    """Return the bytes of one attachment. Raise FileNotFoundError if the mail has no attachment with this name, and the
    errors of `parts_of_mail`."""
    parts = _LAST.parts(stream, uri)
    if below not in parts:
        raise FileNotFoundError(f"{uri}/{below}")
    return parts[below]


class _LastMail:
    """The attachments of the last divided mail, since the attachments of one mail are read one after the other."""

    def __init__(self) -> None:
        self._alone = Lock()
        self._identity: tuple[int, ...] = ()
        self._parts: dict[str, bytes] = {}

    def parts(self, stream: BinaryIO, uri: str) -> dict[str, bytes]:
        state = os.fstat(stream.fileno())
        identity = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        with self._alone:
            if identity != self._identity:
                self._identity = ()
                self._parts = {part.below: part.content for part in parts_of_mail(stream, uri)}
                self._identity = identity
            return self._parts


_LAST = _LastMail()


def _of_msg(content: bytes) -> Iterator[Attachment]:
    import io

    from oxmsg import Message

    from pipelines.parsing.mail import AttachmentNames, document_name

    names = AttachmentNames()
    for item in Message.load(io.BytesIO(content)).attachments:
        name = document_name(item.file_name or "", (item.mime_type or "").lower(), not _is_shown(item))
        if name and item.file_bytes:
            yield Attachment(names.take(name), item.file_bytes)


def _is_shown(item: Any) -> bool:
    """Say whether the text of an MSG file shows an attachment: the attachment has an id that the text refers to."""
    from oxmsg.domain import constants

    return bool(item.properties.str_prop_value(constants.PID_ATTACH_CONTENT_ID))


def _of_eml(content: bytes) -> Iterator[Attachment]:
    from email import policy
    from email.parser import BytesParser

    from pipelines.parsing.mail import documents_in

    if len(_BOUNDARY.findall(content)) > MOST_BOUNDARIES:
        told = f"the attachments are not read, since the mail has more than {MOST_BOUNDARIES} boundaries"
        raise DocumentError(told, "limit_exceeded")
    message = BytesParser(policy=policy.compat32).parsebytes(content)
    for found, part in documents_in(message):
        (name,), body = found.below, _body(part)
        yield Attachment(name, _as_utf8(body, part) if name.endswith(_TEXTS) else body)


def _as_utf8(body: bytes, part: Message) -> bytes:
    """Return an attached text in UTF-8 if the mail declares another encoding, since the text itself does not."""
    charset = part.get_content_charset("utf-8")
    if charset in ("utf-8", "us-ascii"):
        return body
    try:
        return body.decode(charset).encode()
    except (LookupError, UnicodeError):
        return body


def _body(part: Message) -> bytes:
    """Return the bytes of a part, decoded from the mail's transfer encoding."""
    from pipelines.parsing.mail import ENCODED

    payload = part.get_payload()
    if not isinstance(payload, list):
        return cast(bytes, part.get_payload(decode=True))
    mail = cast("list[Message]", payload)[0]  # an attached mail, which the library has parsed
    encoding = str(part["Content-Transfer-Encoding"] or "").strip()
    if encoding.lower() not in ENCODED:
        return mail.as_bytes()
    mail["Content-Transfer-Encoding"] = encoding  # the library took the encoded text for a mail without a head
    return cast(bytes, mail.get_payload(decode=True))
