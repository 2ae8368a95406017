"""The decoding of a text file, and the offsets of a run's words in the decoded source.

Offsets count characters of the decoded source: all of the file's characters except a byte order mark, with line ends
unchanged.
"""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pipelines.errors import DocumentError
from pipelines.plural import plural
from pipelines.records import Block, TextRun
from resources.parsers.charsets import (
    MIXED,
    are_western,
    codec_of,
    decode_as,
    encoded_once,
    guess_encoding,
    is_language,
    name_of,
    seven_bit_codec,
)

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
BINARY_SHARE = 0.03
_SAMPLE = 1 << 16
_VALID = 3
"""Number of valid UTF-8 characters for each invalid byte from which a text counts as UTF-8 without further checks."""


def decode(data: bytes, name: str, declared: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file and warnings. The encoding is given by the byte order mark, or is UTF-8, or UTF-16
    without a mark, or the declared one, or else the most probable one.

    Invalid bytes become U+FFFD with a warning. Raises DocumentError `corrupt` if the file is not text, or does not look
    like a language in any encoding.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _undo_double_encoding(data[len(mark) :].decode(encoding, "replace"))
    if (unmarked := _unmarked_utf16(data[:2000])) is not None:
        return data.decode(unmarked, "replace"), ()
    codec = codec_of(declared) if declared else None
    if seven := seven_bit_codec(data):
        return _read_as(data, seven, codec)
    with suppress(UnicodeDecodeError):
        return _undo_double_encoding(data.decode("utf-8"))
    if _looks_binary(data[:_SAMPLE]):
        raise DocumentError(f"{name}: the content is not text; give the file the ending of its real format", "corrupt")
    mostly = data.decode("utf-8", "replace")
    if (invalid := mostly.count("\ufffd")) * _VALID < sum(char > "\x7f" for char in mostly):
        if are_western(data):
            return _read_as(data, MIXED, codec)
        return mostly, (_replacement_warning(invalid),)
    guess = guess_encoding(data, codec)
    if not guess.probable:
        message = f"{name}: the text reads like no language in any encoding known; save the file as UTF-8"
        raise DocumentError(message, "corrupt")
    return _read_as(data, guess.codec, codec)


def _undo_double_encoding(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the original of a text that a program encoded twice, and a warning; return other texts unchanged."""
    once = None if text.isascii() else encoded_once(text)
    told = "the text was encoded in UTF-8 twice; it was read as it was before"
    return (text, ()) if once is None else (once, (told,))


def _read_as(data: bytes, codec: str, declared: str | None) -> tuple[str, tuple[str, ...]]:
    text = decode_as(data, codec)
    warnings: tuple[str, ...] = ()
    if codec == MIXED:
        count = len(data) - len(data.decode("utf-8", "ignore").encode())
        foreign = plural(count, "byte that is not UTF-8 was", "bytes that are not UTF-8 were")
        return text, (f"{foreign} read as windows-1252",)
    if codec == "utf-8":
        return text, (_replacement_warning(text.count("\ufffd")),)
    read = name_of(codec)
    if declared is None:
        warnings += (f"the text is not UTF-8; it was read as {read}",)
    elif declared != codec:
        warnings += (f"the declared encoding {name_of(declared)} does not fit the text; it was read as {read}",)
    if invalid := text.count("\ufffd"):
        wrong = plural(invalid, f"byte that is invalid in {read} was", f"bytes that are invalid in {read} were")
        warnings += (f"{wrong} replaced",)
    return text, warnings


def _replacement_warning(count: int) -> str:
    return plural(count, "invalid byte in UTF-8 text was", "invalid bytes in UTF-8 text were") + " replaced"


def decode_plainly(data: bytes) -> str:
    """Return the text of a file by its byte order mark, as UTF-16 without a mark, or else as UTF-8.

    No encoding is guessed and no file is refused, since names of keys are the same in every older encoding.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    return data.decode(_unmarked_utf16(data[:2000]) or "utf-8", "replace")


def _unmarked_utf16(sample: bytes) -> str | None:
    """Return the UTF-16 encoding of text without a byte order mark, or None. Every other byte is then the same small
    number (0 for Latin, 3 to 6 for other scripts such as Cyrillic), or line ends and digits have NUL bytes and the rest
    looks like a language."""
    for encoding, high in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[0::2])):
        if len(high) >= 8 and max(high.count(0) + high.count(block) for block in (3, 4, 5, 6)) > 0.9 * len(high):
            return encoding
    if 0 in sample:
        for encoding in ("utf-16-le", "utf-16-be"):
            text = sample[: len(sample) & ~1].decode(encoding, "replace")[:-1]
            plain = all(char.isprintable() or char.isspace() for char in text)
            if plain and not text.isascii() and is_language(text, 0.0):
                return encoding
    return None


def _looks_binary(sample: bytes) -> bool:
    odd = sum(byte < 9 or 13 < byte < 32 for byte in sample)
    return odd > BINARY_SHARE * len(sample)


def read_text(path: Path) -> tuple[str, tuple[str, ...]]:
    return decode(path.read_bytes(), path.name)


def run_at(source: str, start: int, end: int, locator: str | None = None, joined: bool = False) -> TextRun:
    """Return a run of `source[start:end]`."""
    return TextRun(source[start:end], None, start, end, locator, joined)


# ---------------------------------------------------------------- headers of mails


_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")


def decoded_words(text: str) -> str:
    """Decode the encoded words (RFC 2047) of a header. A character may be divided between two words."""
    return "".join(_decode(text))


def _decode(text: str) -> Iterator[str]:
    at, data, charset = 0, b"", ""
    for word in _ENCODED_WORD.finditer(text):
        between = text[at : word.start()]
        follows = bool(charset) and not between.strip()
        named = word[1].partition("*")[0].lower()
        if charset and (not follows or named != charset):
            yield decoded_header(data, charset)
            data = b""
        yield "" if follows else between
        charset, data, at = named, data + _bytes(word), word.end()
    if charset:
        yield decoded_header(data, charset)
    yield text[at:]


def _bytes(word: re.Match[str]) -> bytes:
    """Return the bytes of an encoded word, or of the unchanged word if its encoding is invalid."""
    written = word[3].encode("utf-8", "replace")
    try:
        if word[2] in "qQ":
            return binascii.a2b_qp(written, header=True)
        return binascii.a2b_base64(written + b"=" * (-len(written) % 4))
    except binascii.Error:
        return word[0].encode("utf-8", "replace")


def decoded_header(data: bytes, charset: str | None) -> str:
    """Return the text of a header in its declared encoding, or in a guessed one if that does not fit."""
    codec = codec_of(charset) if charset else None
    if codec is not None and "\ufffd" not in (text := decode_as(data, codec)):
        return text
    try:
        return decode(data, "the header")[0]
    except DocumentError:
        return data.decode("utf-8", "replace")


# ---------------------------------------------------------------- runs in markup


_NO_BREAK = "&(?:nbsp|#160|#xA0);"
_ENTITY = rf"(?!{_NO_BREAK})&#?\w{{1,31}};"


def _as_written(text: str) -> re.Pattern[str]:
    """Return a pattern for the possible written forms of a text in markup: characters as entities or escaped, and any
    kind of space."""
    parts = []
    for piece in re.findall(r"\s+|[A-Za-z0-9]+|.", text, re.DOTALL):
        if piece.isspace():
            parts.append(rf"(?:\s|{_NO_BREAK})++")
        elif piece[0].isascii() and piece[0].isalnum():
            parts.append(piece)
        else:
            parts.append(rf"(?>{_ENTITY}|\\?{re.escape(piece)})")
    return re.compile("".join(parts))


_BEFORE = re.compile(r"(?:>|&(?:nbsp|#160|#xA0);)\s*\Z", re.IGNORECASE)
_BEGINNING, _MOST_BEGINNINGS = 200, 50
_AROUND = 200
"""Characters before a text that are searched for the tag that it follows."""
_NEAR, _NEAREST = 2_000, 200
"""Distance in which a text is searched first, and the only distance once too much was searched in vain."""
_VAIN = 30
"""Most characters that may be searched in vain for each character of the source, so that finding stays linear."""
_AFTER = re.compile(r"(?<!\s)\s{0,2000}+(?:<|&(?:nbsp|#160|#xA0);|\Z)", re.IGNORECASE)


class Finder:
    """A search for texts in the source; each search begins after the last find.

    With `markup`, a text is a whole text node between tags, and its characters may be written as entities. `limit` is
    the distance, in characters, within which a text must be found, so that no distant match is taken.
    """

    def __init__(self, source: str, limit: int = 2000, markup: bool = False) -> None:
        self.source, self.limit, self.markup, self.at = source, limit, markup, 0
        self.vain = 0
        """Number of characters searched in vain so far, which limits further searches."""

    def run(self, text: str, until: int | None = None, joined: bool = False, node: bool = True) -> TextRun:
        """Return a run of `text`, with its offsets if it is found before `until`."""
        wanted = text.strip()
        if not wanted:
            return TextRun(text, joined=joined)
        end = min(len(self.source), until if until is not None else self.at + self.limit + len(wanted))
        near = min(end, self.at + len(wanted) + (_NEAREST if self._is_tired() else _NEAR))
        place = self._find(wanted, near, node)
        if place is None and near < end and not self._is_tired():
            place = self._find(wanted, end, node)
        if place is None:
            return TextRun(text, joined=joined)
        self.at = place[1]
        return TextRun(text, None, *place, None, joined)

    def _is_tired(self) -> bool:
        return self.vain > _VAIN * len(self.source) + self.limit

    def _find(self, wanted: str, end: int, node: bool) -> tuple[int, int] | None:
        place = self._literal(wanted, end, node)
        if place is None:
            self.vain += max(0, end - self.at)
            place = self._find_written(wanted, end, node)
            self.vain += max(0, end - self.at) if place is None else 0
        return place

    def _literal(self, wanted: str, end: int, node: bool) -> tuple[int, int] | None:
        found = self.source.find(wanted, self.at, end)
        while found >= 0:
            if self._stands(found, found + len(wanted), node):
                return found, found + len(wanted)
            if self._is_tired():
                return None
            found = self.source.find(wanted, found + 1, end)
        return None

    def _find_written(self, wanted: str, end: int, node: bool) -> tuple[int, int] | None:
        """Find a text in its written form. A long text is searched by its beginning, at a few places only, since many
        texts may begin alike."""
        end, long = end + 8 * len(wanted), len(wanted) > _BEGINNING
        whole = _as_written(wanted)
        begins = _as_written(wanted[:_BEGINNING].rstrip()) if long else whole
        for begun in islice(begins.finditer(self.source, self.at, end), _MOST_BEGINNINGS if long else None):
            match = whole.match(self.source, begun.start(), end) if long else begun
            if match and self._stands(match.start(), match.end(), node):
                return match.start(), match.end()
        return None

    def _stands(self, start: int, end: int, node: bool) -> bool:
        if not self.markup or not node:
            return True
        before = self.source[max(0, start - _AROUND) : start]
        stands = bool(_BEFORE.search(before)) and bool(_AFTER.match(self.source, end))
        self.vain += 0 if stands else _AROUND
        return stands


def without_offsets(block: Block, locator: str | None = None) -> Block:
    """Return a block of a decoded part without offsets, since they do not refer to the file; add the part's place if
    known."""

    def plain(run: TextRun) -> TextRun:
        return replace(run, source_start=None, source_end=None, locator=locator)

    cells = tuple(replace(cell, runs=tuple(map(plain, cell.runs))) for cell in block.cells)
    return replace(block, runs=tuple(map(plain, block.runs)), cells=cells)
