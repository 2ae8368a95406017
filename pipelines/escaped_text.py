"""The safe display of foreign text on a terminal or page: characters that move the cursor, change the direction of
writing or are invisible are shown as escapes."""

from __future__ import annotations

import re

_UNSEEN = (
    "\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff"
)
_IN_TEXT = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_IN_A_LINE = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_IN_JSON = re.compile(f"[{_UNSEEN}]")


def escape_controls(text: str) -> str:
    """Return the text with control characters other than line ends and tabs, and those without width, as escapes."""
    return _IN_TEXT.sub(_as_number, text)


def one_line(text: str) -> str:
    """Return the text as one line: line ends and tabs are escaped too, since a name that continues on another line
    could imitate other output there."""
    return _IN_A_LINE.sub(_as_number, text)


def _as_number(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()


def escape_json_controls(text: str) -> str:
    """Return JSON with the same meaning, with unsafe characters as JSON escapes."""
    return _IN_JSON.sub(lambda match: _as_json(match[0]), text)


def _as_json(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
