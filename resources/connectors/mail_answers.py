"""What an IMAP server answers (RFC 3501, section 9), as nested lists: atoms, strings and literals alike are bytes."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Piece = bytes | tuple[bytes, bytes] | None
"""As imaplib gives them: a line, or the part of one before a literal, with the literal."""
Message = dict[str, Any]
"""Values by what was asked for, such as `UID` or `BODY[1]<0>`."""
MOST_VALUES = 20_000
DEEPEST = 64
"""Lists within lists."""
_TOKEN = re.compile(
    rb'[ \r\n\t]*+(?:([()])|"((?:[^"\\]|\\.)*+)("?+)|([^()\s"\[]*+(?:\[[^\]]*+\]?+[^()\s"\[]*+)?+))', re.DOTALL
)
"""A bracket; a string, and what ends it; or an atom, of which `BODY[HEADER.FIELDS (DATE)]<0>` is one."""
LARGEST = (1 << 32) - 1
"""The largest number that the protocol knows for mails, folders and their validity."""
_MOST_DIGITS = 18
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_SHIFTED = re.compile(r"&([A-Za-z0-9+,]*+)-")


@dataclass(frozen=True, slots=True)
class Folder:
    """`raw` is its name to the server, `parts` that to people; `marks` such as `\\junk`, in small letters."""

    raw: bytes
    parts: tuple[str, ...]
    marks: frozenset[str] = frozenset()

    @property
    def quoted(self) -> Any:
        """As imaplib sends it, which takes bytes as well as text. Raises ValueError."""
        if any(sign in self.raw for sign in b"\r\n\0"):
            raise ValueError("the name of a folder has control characters")
        return b'"' + self.raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def groups(data: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces of each answer: it ends with the line that no literal follows."""
    group: list[Piece] = []
    for piece in data:
        if piece is None:
            continue
        group.append(piece)
        if isinstance(piece, bytes):
            yield group
            group = []


def values(group: Iterable[Piece]) -> list[Any]:
    """Raises ValueError where it is not balanced, deeper than DEEPEST or of more than MOST_VALUES."""
    stack: list[list[Any]] = [[]]
    for count, (bracket, value) in enumerate(token for piece in group for token in _tokens(piece)):
        if count > MOST_VALUES or len(stack) > DEEPEST:
            raise ValueError("an answer of more parts than are read")
        if bracket == b"(":
            stack.append([])
        elif bracket != b")":
            stack[-1].append(value)
        elif len(stack) > 1:
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            raise ValueError("an answer that ends before it begins")
    if len(stack) > 1:
        raise ValueError("an answer that does not end")
    return stack[0]


def _tokens(piece: Piece) -> Iterator[tuple[bytes, bytes | None]]:
    """Brackets, and values with b"" in place of one."""
    text, literal = (piece[0][: piece[0].rindex(b"{")], piece[1]) if isinstance(piece, tuple) else (piece or b"", None)
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (found.end() == at) or found[3] == b"":
            raise ValueError("an answer that cannot be read")
        at = found.end()
        bracket, string, _, atom = found.groups()
        if bracket:
            yield bracket, None
        elif string is not None:
            yield b"", _ESCAPED.sub(rb"\1", string)
        elif atom:
            yield b"", None if atom.upper() == b"NIL" else atom
    if literal is not None:
        yield b"", literal


def number(value: Any) -> int | None:
    return int(value) if isinstance(value, bytes) and value.isdigit() and len(value) <= _MOST_DIGITS else None


def message_of(group: Iterable[Piece]) -> Message:
    """Of a FETCH answer; empty where it cannot be read."""
    try:
        *_, items = values(group)
        names = [name.decode("latin-1").upper() for name in items[::2]]
        return dict(zip(names, items[1::2], strict=True))
    except (ValueError, AttributeError, TypeError, IndexError):
        return {}


def folder_of(group: Sequence[Piece]) -> Folder:
    """Of a LIST answer. Raises ValueError."""
    marks, delimiter, raw, *_ = values(group)
    if not isinstance(raw, bytes) or not isinstance(delimiter, bytes | None) or not isinstance(marks, list):
        raise ValueError("an answer that names no folder")
    if not all(isinstance(mark, bytes) for mark in marks):
        raise ValueError("an answer that marks a folder with what is no mark")
    name = folder_name(raw)
    parts = name.split(folder_name(delimiter)) if delimiter else [name]
    if parts[0].upper() == "INBOX":
        parts[0] = "INBOX"
    return Folder(raw, tuple(parts), frozenset(mark.decode("latin-1").lower() for mark in marks))


def folder_name(raw: bytes) -> str:
    """A name in the modified UTF-7 of IMAP (RFC 3501, 5.1.3), or in UTF-8 as some servers have it."""
    if not raw.isascii():
        return raw.decode("utf-8", "replace")
    return _SHIFTED.sub(lambda found: _unshifted(found[1]) if found[1] else "&", raw.decode("ascii"))


def _unshifted(text: str) -> str:
    whole = text.replace(",", "/") + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(whole).decode("utf-16-be", "replace")
    except ValueError:
        return f"&{text}-"
