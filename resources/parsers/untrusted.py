"""The bounds on numbers and names that a file chose, applied before anything uses them.

Markup may contain any text in place of a number: `²`, which Python counts as a digit, or thousands of digits. A warning
may name parts of a file, whose number and length the file chooses too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

# ---------------------------------------------------------------- numbers


T = TypeVar("T")

MOST = 999_999_999
_LENGTH = 9
_DIGITS = {10: re.compile(r"[0-9]++"), 16: re.compile(r"[0-9A-Fa-f]++")}


def whole(text: str | None, default: T, base: int = 10) -> int | T:
    """Return the non-negative number in an attribute, at most `MOST`; return `default` if it is missing or invalid."""
    text = (text or "").strip(" \t\r\n\f").removeprefix("+")
    if not _DIGITS[base].fullmatch(text):
        return default
    return int(text, base) if len(text) <= _LENGTH else MOST


def signed_whole(text: str | None, default: int) -> int:
    """Return a number like `whole`, which may also be negative."""
    text = (text or "").strip(" \t\r\n\f")
    if not text.startswith("-"):
        return whole(text, default)
    number = whole(text[1:], None) if text[1:2] != "+" else None
    return default if number is None else -number


# ---------------------------------------------------------------- names in warnings


MOST_NAMED, LONGEST = 6, 200


def list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(shorten, names[:MOST_NAMED])) + more


def shorten(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
