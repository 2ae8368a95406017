"""Numbers as markup has them, where anything may stand: `²`, which Python calls a digit, or thousands of digits."""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")

MOST = 999_999_999
_WHOLE = {10: re.compile(r"[-+]?[0-9]++"), 16: re.compile(r"[0-9A-Fa-f]++")}
_LENGTH = 9


def whole(text: str | None, default: T, base: int = 10) -> int | T:
    """The whole number that an attribute is, a long one as if it were `MOST`; else the `default`, as if the attribute
    were not there."""
    text = (text or "").strip(" \t\r\n\f")
    if not _WHOLE[base].fullmatch(text):
        return default
    return int(text, base) if len(text) <= _LENGTH else -MOST if text.startswith("-") else MOST
