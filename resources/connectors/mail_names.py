"""What a mail and its attachments are named as documents. Headers are hostile: they decide no folder, no ending that is
not looked at, and nothing that a reader would not see."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from email.header import decode_header, make_header
from email.parser import HeaderParser
from email.utils import collapse_rfc2231_value, decode_params, parsedate_to_datetime, quote, unquote
from pathlib import Path

from pipelines.parsing.formats import EML, OF_TYPE
from resources.hashes import bytes_hash
from resources.parsers.registry import ELEMENTS, media_type_of

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
    subject = cleaned(decoded(str(found["Subject"] or ""))) or "no subject"
    return " ".join(filter(None, [date, subject, bytes_hash(headers)[:8]]))


def decoded(text: str) -> str:
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
        return decoded(unquote(value))
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
