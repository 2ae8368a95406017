"""The cleaning of a document's text: it happens once, before all other steps, and later code relies on it.

Removed: NUL and other control characters, lone surrogates, noncharacters such as U+FFFE, byte order marks, soft
hyphens; databases refuse these. Changed: text becomes NFC, Latin ligatures are written out, and every kind of space
becomes one plain space. Kept, since they carry meaning: bidirectional controls, joiners, zero-width spaces, combining
marks, private use characters.
"""

from __future__ import annotations

import re
import unicodedata

_UNWANTED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane << 16 | low) for plane in range(1, 17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_WRITTEN_OUT = {
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
}
_ODD_SPACE = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")


def expand_ligatures(text: str) -> str:
    return _LIGATURE.sub(lambda match: _WRITTEN_OUT[match.group()], text)


def _characters(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    text = _UNWANTED.sub("", text)
    return unicodedata.normalize("NFC", expand_ligatures(text))


def clean_text(text: str) -> str:
    """Return one line: whitespace of any kind, line ends included, becomes one space; ends are trimmed."""
    return " ".join(_characters(text).split())


def clean_code(text: str) -> str:
    """Return a text with its lines and indentation; line ends become newlines, trailing spaces are removed."""
    text = _ODD_SPACE.sub(" ", _LINE_BREAK.sub("\n", _characters(text)))
    return "\n".join(line.rstrip() for line in text.split("\n"))


def clean_metadata(values: dict[str, str]) -> dict[str, str]:
    """Return keys and values cleaned to one line each; empty ones are dropped."""
    pairs = ((clean_text(str(key)), clean_text(str(value))) for key, value in values.items())
    return {key: value for key, value in pairs if key and value}


def begins_with_space(text: str) -> bool:
    return text[:1].isspace()


def ends_with_space(text: str) -> bool:
    return text[-1:].isspace()


def composes(left: str, right: str) -> bool:
    """Say whether the first character of `right` combines with the last of `left` (a combining mark, a jamo), so both
    must be cleaned together."""
    return bool(left and right) and not unicodedata.is_normalized("NFC", left[-1] + right[0])
