"""Numbers and names that a file chose, bounded before anything uses them.

Markup may have anything where a number is expected: `²`, which Python calls a digit, or thousands of digits. A warning
may name parts of a file, whose number and length the file chooses too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

# ---------------------------------------------------------------- numbers
#
# Numbers as markup has them, where anything may stand: `²`, which Python calls a digit, or thousands of digits.


T = TypeVar("T")

MOST = 999_999_999
_LENGTH = 9
_DIGITS = {10: re.compile(r"[0-9]++"), 16: re.compile(r"[0-9A-Fa-f]++")}


def whole(text: str | None, default: T, base: int = 10) -> int | T:
    """The number from 0 on that an attribute is, a long one as if it were `MOST`; else the `default`, as if the
    attribute were not there."""
    text = (text or "").strip(" \t\r\n\f").removeprefix("+")
    if not _DIGITS[base].fullmatch(text):
        return default
    return int(text, base) if len(text) <= _LENGTH else MOST


def signed(text: str | None, default: int) -> int:
    """As `whole`, and below 0 too."""
    text = (text or "").strip(" \t\r\n\f")
    if not text.startswith("-"):
        return whole(text, default)
    number = whole(text[1:], None) if text[1:2] != "+" else None
    return default if number is None else -number


# ---------------------------------------------------------------- names
#
# Names of what was not read, as a warning tells them: the file chose them, in number and length.


MOST_NAMED, LONGEST = 6, 200


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(shortened, names[:MOST_NAMED])) + more


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
