r"""What an RTF file says of itself: the group `{\info` at its head."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = 4 << 20
"""Bytes in which the group begins: fonts, colours and styles stand before it."""
_LONGEST = 1 << 16
"""Bytes of the group that are read."""
_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|([^\\{}\r\n]++)|[\r\n]", re.DOTALL
)
_CODE_PAGE = re.compile(rb"\\ansicpg(\d{1,5})")
_NAMES = {"title": "title", "author": "author", "subject": "subject", "keywords": "keywords", "doccomm": "description"}
_TIMES = {"creatim": "created", "revtim": "modified"}


@dataclass
class _Group:
    """One group of the group: its name, its text as pieces in UTF-16, and numbers such as of a year."""

    name: str = ""
    text: bytearray = field(default_factory=bytearray)
    numbers: dict[str, int] = field(default_factory=dict)
    skipped: int = 0

    def pair(self) -> tuple[str, str] | None:
        if self.name in _NAMES:
            return _NAMES[self.name], self.text.decode("utf-16-le", "replace")
        year, month, day = (self.numbers.get(part, 0) for part in ("yr", "mo", "dy"))
        if self.name in _TIMES and year:
            return _TIMES[self.name], f"{year:04d}-{max(month, 1):02d}-{max(day, 1):02d}"
        return None


def info_of(path: Path) -> Iterator[tuple[str, str]]:
    """Names and values, in the file's order."""
    with open(path, "rb") as stream:
        head = stream.read(_HEAD)
    start = head.find(rb"{\info")
    if start < 0:
        return
    page = _CODE_PAGE.search(head, 0, start)
    encoding = _known(f"cp{page[1].decode()}" if page else "cp1252")
    depth, group, fallback, ignored = 0, _Group(), 1, 0
    for token in _TOKEN.finditer(head, start, start + _LONGEST):
        word, number, byte, symbol, brace, text = token.groups()
        if brace == b"{":
            depth += 1
            group = _Group() if depth == 2 else group
        elif brace == b"}":
            depth -= 1
            ignored = ignored if depth >= ignored else 0
            if depth == 1 and (pair := group.pair()):
                yield pair
            if depth == 0:
                return
        elif symbol == b"*" and depth > 2:
            ignored = ignored or depth
        elif depth < 2 or ignored:
            continue
        elif word == b"uc":
            fallback = int(number or 1)
        elif word == b"u":
            group.text += (int(number or 0) & 0xFFFF).to_bytes(2, "little")
            group.skipped = fallback
        elif word is not None and not group.name:
            group.name = word.decode()
        elif word is not None:
            group.numbers[word.decode()] = int(number or 0)
        else:
            _add(group, bytes.fromhex(byte.decode()) if byte else text or _plain(symbol), encoding)


def _plain(symbol: bytes | None) -> bytes:
    return {b"~": b" ", b"_": b"-"}.get(symbol, symbol if symbol in (b"{", b"}", b"\\") else b"") if symbol else b""


def _add(group: _Group, text: bytes, encoding: str) -> None:
    """But for what stands for a character that was given by number."""
    shown = text[group.skipped :]
    group.skipped = max(0, group.skipped - len(text))
    group.text += shown.decode(encoding, "replace").encode("utf-16-le")


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return "cp1252"
