"""The rewriting of RTF for pandoc: text of every code page as Unicode, without hidden and deleted passages.

Pandoc supports one code page, drops comments and the size of letters, and shows text marked as deleted. So the tokens
of a file are read once and written again: bytes are decoded by the code page of their font, comments become notes, and
each paragraph ends with a mark of its style. Pictures and embedded files are left out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipelines.parsing.hidden import DELETED, HiddenContent
from pipelines.parsing.symbol_fonts import is_symbol_font, symbol_text
from resources.parsers.through_html import HIDDEN_MARK, Look, look_mark

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|([^\\{}\r\n]++)|[\r\n]|\\", re.DOTALL
)

# ---------------------------------------------------------------- code pages


_OF_CHARSET = {
    77: "mac_roman", 78: "cp932", 79: "cp949", 80: "gb18030", 81: "cp950", 83: "mac_greek", 84: "mac_turkish",
    85: "cp1255", 86: "cp1256", 87: "cp1257", 88: "mac_latin2", 89: "mac_cyrillic", 128: "cp932", 129: "cp949",
    130: "johab", 134: "gb18030", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255",
    178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
"""Encodings by the number of a font's character set."""
_OF_PAGE = {
    0: "cp1252", 936: "gb18030", 951: "big5hkscs", 1361: "johab", 10000: "mac_roman", 10006: "mac_greek",
    10007: "mac_cyrillic", 10029: "mac_latin2", 10081: "mac_turkish", 20866: "koi8_r", 21866: "koi8_u",
    20127: "cp1252", 50220: "cp932", 51932: "euc_jp", 51949: "euc_kr", 54936: "gb18030", 65001: "utf-8",
    **{28590 + part: f"iso8859_{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15)},
}  # fmt: skip
"""Encodings by code page number, where Python has another name."""
_ANSI, _SYMBOL = 0, 2
"""Character sets of Western European text and of symbols."""
_THREE_HIGH = re.compile(rb"[\x80-\xff]{3}")
_NOT_PLAIN = re.compile(rb"[\\{}]|[^\x20-\x7e]")
_LETTER = re.compile(rb"[A-Za-z]")
_WESTERN = frozenset({"cp1252", "mac_roman", "utf-8"})


def _page(number: int) -> str:
    name = _OF_PAGE.get(number, f"cp{number}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


@dataclass
class _Font:
    charset: int | None = None
    page: str = ""
    name: bytes = b""


# ---------------------------------------------------------------- text


_FAR = "\ufdd2"
"""Mark around the number of a character that pandoc's numeric escapes cannot express."""
_FAR_CHARACTER = re.compile(f"{_FAR}([0-9A-F]{{5,6}}){_FAR}")
_SKIPPED = frozenset(
    b"pict objdata themedata colorschememapping datastore latentstyles xmlnstbl fontemb nonshppict generator".split()
)
_COPIED = frozenset(
    b"stylesheet info colortbl listtable listoverridetable header footer headerl headerr headerf".split()
) | (frozenset(b"footerl footerr footerf revtbl rsidtbl fldinst".split()))
"""Groups without text: they are copied, except bytes of other code pages."""
_SIGNS = {
    b"tab": "\t", b"line": "\n", b"bullet": "•", b"endash": "–", b"emdash": "—", b"lquote": "‘", b"rquote": "’",
    b"ldblquote": "“", b"rdblquote": "”", b"emspace": "\u2003", b"enspace": "\u2002", b"qmspace": "\u2005",
    b"zwj": "\u200d", b"zwnj": "\u200c",
}  # fmt: skip
_SYMBOLS = {b"~": "\xa0", b"_": "\u2011", b"-": ""}
_ESCAPED = frozenset((b"\\", b"{", b"}"))
_TEXT_IN_STARRED = frozenset(b"annotation shpinst ud nesttableprops".split())
"""Groups that programs may skip but that contain text."""
_FORM_NUMBERS = frozenset(b"fftype ffres ffdefres".split())
_DROP_DOWN, _CHECK_BOX, _UNSET = 2, 1, 25
_PARAGRAPH = frozenset(b"par sect page".split())
_TABLE = frozenset(b"cell row nestcell nestrow".split())
_UNDERLINES = frozenset(b"ul uld uldb ulw ulth uldash".split())


@dataclass(frozen=True, slots=True)
class _State:
    """The state inside a group: its kind (text, label, choice, fonts, copied, skipped), and the style of its
    letters."""

    kind: str = "text"
    font: int = -1
    fallback: int = 1
    hidden: bool = False
    deleted: bool = False
    bold: bool = False
    underlined: bool = False
    size: int = 24


@dataclass
class _Paragraph:
    """The letters of a paragraph so far: all letters, the bold or underlined ones, and the least size in half
    points."""

    letters: int = 0
    strong: int = 0
    size: int = 0


@dataclass
class _Writer:
    """The state of the conversion of one RTF file, and the output so far."""

    content: HiddenContent
    page: str = "cp1252"
    default_font: int = -1
    fonts: dict[int, _Font] = field(default_factory=dict)
    written: list[bytes] = field(default_factory=list)
    waiting: bytearray = field(default_factory=bytearray)
    units: list[int] = field(default_factory=list)
    skipped: int = 0
    state: _State = field(default_factory=_State)
    within: list[_State] = field(default_factory=list)
    paragraph: _Paragraph = field(default_factory=_Paragraph)
    label: str = ""
    form: dict[bytes, int] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    in_table: bool = False
    in_hidden: str = ""
    starred: bool = False

    def walk(self, data: bytes) -> None:
        at = 0
        while token := _TOKEN.match(data, at):
            at = token.end()
            word, number, byte, symbol, brace, text = token.groups()
            if word == b"bin":
                at += max(0, int(number or 0))
            elif word is not None:
                self._word(word, int(number) if number else None)
            elif byte is not None:
                self._bytes(bytes.fromhex(byte.decode()))
            elif text is not None:
                self._bytes(text)
            elif brace is not None:
                self._brace(brace)
            elif symbol in _ESCAPED:
                self._bytes(symbol)
            elif symbol is not None:
                self._symbol(symbol)
        self._flush()

    # ------------------------------------------------------------ tokens

    def _brace(self, brace: bytes) -> None:
        self._flush()
        self.skipped, self.starred = 0, False
        self.written.append(brace)
        if brace == b"{":
            self.within.append(self.state)
        elif self.within:
            self.state = self.within.pop()

    def _symbol(self, symbol: bytes) -> None:
        self._flush()
        if symbol == b"*":
            self.starred = True
        elif symbol in b"\r\n":
            self._end_paragraph()
            self._control(b"par")
        elif self.state.kind == "copied":
            self.written.append(b"\\" + symbol)
        elif symbol in _SYMBOLS:
            self._text(_SYMBOLS[symbol])

    def _word(self, word: bytes, number: int | None) -> None:
        if word == b"u" and self.state.kind in ("text", "label", "choice"):
            self._unit((number or 0) & 0xFFFF)
            return
        if self.skipped and word in _SIGNS:
            self.skipped -= 1
            return
        self._flush()
        starred, self.starred = self.starred, False
        if starred and word == b"annotation":
            word, starred = b"footnote", False
        on = number is None or number != 0
        state = self.state
        if word == b"formfield":
            self.form, self.choices = {}, []
        elif word in _FORM_NUMBERS:
            self.form[word] = number or 0
        elif word == b"ffl":
            self.state = replace(state, kind="choice")
            self.choices.append("")
            return
        if word in _SKIPPED:
            self.state = replace(state, kind="skipped")
        elif word == b"fonttbl":
            self.state = replace(state, kind="fonts")
        elif word == b"listtext":
            self.state, self.label = replace(state, kind="label"), ""
        elif word in _COPIED or (starred and word not in _TEXT_IN_STARRED):
            self.state = replace(state, kind="copied" if state.kind == "text" else state.kind)
        if self.state.kind == "fonts":
            self._font_word(word, number)
            return
        if self.state.kind in ("skipped", "label", "choice"):
            if self.state.kind == "label" and word == b"f":
                self.state = replace(self.state, font=number or 0)
            return
        if word == b"ansicpg":
            self.page = _page(number or 0)
            number = 1252
        elif word in (b"mac", b"pc", b"pca"):
            self.page = {b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}[word]
            word = b"ansi"
        elif word == b"deff":
            self.default_font = number or 0
            self.state = replace(state, font=self.default_font)
        elif state.kind == "text" and self._changes(word, number, on):
            return
        elif word in _SIGNS and state.kind == "text":
            if self._is_shown(_SIGNS[word]):
                self._control(word)
            return
        elif word in _PARAGRAPH:
            self._end_paragraph()
        elif word in _TABLE:
            self.paragraph = _Paragraph()
        elif word == b"intbl":
            self.in_table = True
        self._control(b"*\\" + word if starred else word, number)
        if word == b"fldrslt" and self.form:
            self._put(self._field_text())
            self.form = {}

    def _field_text(self) -> str:
        """Return the value of a form field, which only programs with forms show: a choice, or a check mark."""
        kind, result = self.form.get(b"fftype"), self.form.get(b"ffres", _UNSET)
        result = self.form.get(b"ffdefres", 0) if result == _UNSET else result
        if kind == _DROP_DOWN and 0 <= result < len(self.choices):
            return self.choices[result]
        return ("☒" if result else "☐") if kind == _CHECK_BOX else ""

    def _changes(self, word: bytes, number: int | None, on: bool) -> bool:
        """Change the style of the following letters. Return whether the word must not be written."""
        state = self.state
        if word == b"v":
            self.state = replace(state, hidden=on)
            return True
        if word == b"deleted":
            self.state = replace(state, deleted=on)
            return True
        if word == b"uc":
            self.state = replace(state, fallback=min(number or 0, 16))
            return True
        if word == b"f":
            self.state = replace(state, font=number or 0)
            return True
        if word == b"b":
            self.state = replace(state, bold=on)
        elif word in _UNDERLINES:
            self.state = replace(state, underlined=on)
        elif word == b"ulnone":
            self.state = replace(state, underlined=False)
        elif word == b"fs":
            self.state = replace(state, size=number or 24)
        elif word == b"plain":
            self.state = _State(state.kind, self.default_font, state.fallback)
        elif word == b"pard":
            self.in_table = False
        return False

    def _font_word(self, word: bytes, number: int | None) -> None:
        if word == b"f":
            self.state = replace(self.state, font=number or 0)
            self.fonts.setdefault(number or 0, _Font())
        elif self.state.font in self.fonts:
            font = self.fonts[self.state.font]
            if word == b"fcharset":
                font.charset = number or 0
            elif word == b"cpg" and number:
                font.page = _page(number)

    # ------------------------------------------------------------ text

    def _bytes(self, text: bytes) -> None:
        if self.state.kind == "fonts":
            font = self.fonts.get(self.state.font)
            if font is not None and not font.name.endswith(b";"):
                font.name += text
        elif self.state.kind == "copied":
            self.written.append(_NOT_PLAIN.sub(b"?", text))
        elif self.state.kind in ("text", "label", "choice"):
            shown = text[self.skipped :]
            self.skipped = max(0, self.skipped - len(text))
            if shown:
                self._write_units()
                self.waiting += shown

    def _unit(self, unit: int) -> None:
        """Add a UTF-16 code unit, which a fallback in an older encoding follows."""
        self._write_bytes()
        self.units.append(unit)
        self.skipped = self.state.fallback

    def _flush(self) -> None:
        self._write_bytes()
        self._write_units()

    def _write_units(self) -> None:
        if self.units:
            data = b"".join(unit.to_bytes(2, "little") for unit in self.units)
            self.units.clear()
            text = data.decode("utf-16-le", "replace")
            font = self.fonts.get(self.state.font)
            self._text(
                symbol_text(text, _name(font)) if font is not None and "\uf000" <= max(text) <= "\uf0ff" else text
            )

    def _write_bytes(self) -> None:
        if self.waiting:
            data = bytes(self.waiting)
            self.waiting.clear()
            self._text(self._decode(data))

    def _decode(self, data: bytes) -> str:
        font = self.fonts.get(self.state.font)
        name = _name(font) if font is not None else ""
        if font is not None and (font.charset == _SYMBOL or is_symbol_font(name)):
            return symbol_text(data.decode("cp1252" if not is_symbol_font(name) else "latin-1", "replace"), name)
        if data.isascii():
            return data.decode("ascii")
        return data.decode(self._encoding(font, data), "replace")

    def _encoding(self, font: _Font | None, data: bytes) -> str:
        """Return the encoding of bytes in a font. Some programs name the Western set for every font; then three such
        bytes in a row, or text without other letters, are in the file's own code page."""
        if font is not None and font.page:
            return font.page
        if font is None or font.charset in (None, 1):
            return self.page
        if font.charset == _ANSI and self.page not in _WESTERN:
            return self.page if _THREE_HIGH.search(data) or not _LETTER.search(data) else "cp1252"
        return _OF_CHARSET.get(font.charset or 0, "cp1252" if self.page not in ("utf-8", "mac_roman") else self.page)

    def _text(self, text: str) -> None:
        if self.state.kind == "label":
            self.label += text
            return
        if self.state.kind == "choice":
            self.choices[-1] += text
            return
        if not text or not self._is_shown(text):
            return
        letters = sum(map(str.isalnum, text))
        state = self.state
        if letters:
            paragraph = self.paragraph
            paragraph.size = min(paragraph.size or state.size, state.size)
            paragraph.letters += letters
            paragraph.strong += letters if state.bold or state.underlined else 0
        self._put(text)

    def _is_shown(self, text: str) -> bool:
        """Say whether text is visible. A hidden or deleted passage is counted at its start."""
        what = DELETED if self.state.deleted else "passages" if self.state.hidden else ""
        if not text.strip():
            return not what or self.content.read
        if what and what != self.in_hidden:
            self.content.take(what)
            if self.content.read:
                self._put(HIDDEN_MARK)
        self.in_hidden = what
        return not what or self.content.read

    def _put(self, text: str) -> None:
        for char in text:
            if " " <= char <= "~":
                self.written.append((f"\\{char}" if char in "\\{}" else char).encode())
            elif char == "\t":
                self._control(b"tab")
            elif char > "\uffff":
                self._put(f"{_FAR}{ord(char):X}{_FAR}")
            elif char not in "\r\n":
                unit = ord(char) - 0x10000 if char > "\u7fff" else ord(char)
                self.written.append(b"\\u%d ?" % unit)

    def _control(self, word: bytes, number: int | None = None) -> None:
        self.written.append(b"\\" + word + (b"" if number is None else b"%d" % number) + b" ")

    def _end_paragraph(self) -> None:
        paragraph, self.paragraph = self.paragraph, _Paragraph()
        label, self.label = self.label.strip(), ""
        if paragraph.letters and not self.in_table and self.state.kind == "text":
            self._put(look_mark(Look(paragraph.size / 2, paragraph.strong == paragraph.letters, label)))


def _name(font: _Font) -> str:
    return font.name.rstrip(b";").strip().decode("latin-1")


def readable(data: bytes, content: HiddenContent) -> bytes:
    """Return an RTF file whose text is ASCII and numeric escapes, with marks of its paragraphs' styles."""
    writer = _Writer(content)
    writer.walk(data)
    return b"".join(writer.written)


def with_far_characters(page: str) -> str:
    """Return pandoc's output for a rewritten file, with the characters that pandoc cannot express restored."""
    return _FAR_CHARACTER.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), page)


# ---------------------------------------------------------------- properties
#
# They are in the group `{\info` at the head of a file.


_RTF_HEAD = 4 << 20
"""Bytes from the start of a file in which the `info` group must begin; fonts, colours and styles come before it."""
_LONGEST = 1 << 16
"""Most bytes of the group that are read."""
_CODE_PAGE = re.compile(rb"\\ansicpg(\d{1,5})")
_NAMES = {"title": "title", "author": "author", "subject": "subject", "keywords": "keywords", "doccomm": "description"}
_TIMES = {"creatim": "created", "revtim": "modified"}


@dataclass
class _Group:
    """One inner group of the `info` group: its name, its text as pieces in UTF-16, and numbers such as a year."""

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
    """Yield the names and values of a file's `info` group, in the file's order."""
    with open(path, "rb") as stream:
        head = stream.read(_RTF_HEAD)
    start = head.find(rb"{\info")
    if start < 0:
        return
    page = _CODE_PAGE.search(head, 0, start)
    encoding = _page(int(page[1])) if page else "cp1252"
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
    """Add text to a group without the fallback characters of numeric escapes."""
    shown = text[group.skipped :]
    group.skipped = max(0, group.skipped - len(text))
    group.text += shown.decode(encoding, "replace").encode("utf-16-le")
