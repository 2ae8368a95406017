"""The reading of one DOCX paragraph: its text, fields, format, style and number.

A style includes its inherited values; the style with an empty key is that for plain paragraphs. Numbers are counted by
Word's rules, since the file does not contain them. Text is read in its visible form: raised and lowered letters and
signs of symbol fonts become plain characters; deleted text is left out and counted; hidden text follows the rule for
all formats.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from pipelines.parsing.hidden import DELETED, HiddenContent
from pipelines.parsing.raised import lower_text, raise_text
from pipelines.parsing.symbol_fonts import symbol_text
from resources.parsers.labels import CHECK_MARKS, key_value
from resources.parsers.office.docx_formulas import M, latex
from resources.parsers.office.graphics import CHARTS, DGM, PICTURES
from resources.parsers.package import unescape
from resources.parsers.untrusted import signed_whole, whole

# ---------------------------------------------------------------- numbering


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
LEVELS = 9
"""Number of list levels in Word."""
_ABSTRACT = f"{W}abstractNumId"
LONGEST_MARKER = 64
"""Most characters of a marker's pattern, and most repeats of a letter that stands for a number. Both come from the
file."""


def value_of(element: Any, path: str) -> str | None:
    """Return `w:val` of the first element at a path such as `w:pPr/w:numId`."""
    found = element.find(path.replace("w:", W)) if element is not None else None
    return None if found is None else found.get(f"{W}val")


def is_on(element: Any, namespace: str = W) -> bool:
    """Say whether an on-off property, such as `w:b`, is present and on."""
    return element is not None and element.get(f"{namespace}val") not in ("0", "false", "off")


@dataclass(slots=True)
class _Level:
    start: int = 1
    format: str = "decimal"
    text: str = ""
    style: str = ""
    sign: str = ""


@dataclass(slots=True)
class _List:
    levels: dict[int, _Level]
    abstract: str
    starts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """The markers of numbered paragraphs, in document order. Lists of one abstract definition share their count, as in
    Word, unless one of them restarts it."""

    def __init__(self, root: Any) -> None:
        self.lists: dict[str, _List] = {}
        self.counts: dict[str, list[int]] = {}
        self.begun: set[str] = set()
        if root is None:
            return
        definitions = root.findall(f"{W}abstractNum")
        abstract = {element.get(_ABSTRACT): _levels(element) for element in definitions}
        named = {value_of(element, "w:styleLink"): _levels(element) for element in definitions}
        for element in definitions:
            if (link := value_of(element, "w:numStyleLink")) is not None and not abstract[element.get(_ABSTRACT)]:
                abstract[element.get(_ABSTRACT)] = named.get(link, {})
        for element in root.findall(f"{W}num"):
            own = value_of(element, "w:abstractNumId") or ""
            found = _List(dict(abstract.get(own, {})), own)
            for override in element.findall(f"{W}lvlOverride"):
                level = whole(override.get(f"{W}ilvl"), 0)
                start = value_of(override, "w:startOverride")
                if start is not None:
                    found.starts[level] = signed_whole(start, 1)
                found.levels.update(_levels(override))
            self.lists[element.get(f"{W}numId")] = found

    def is_list(self, number: str | None) -> bool:
        return number in self.lists and bool(self.lists[number].levels)

    def level_of(self, number: str, style: str) -> int:
        """Return the list level of a paragraph style, or 0 if the list does not name the style."""
        levels = self.lists[number].levels if number in self.lists else {}
        return next((at for at, level in levels.items() if style and level.style == style), 0)

    def is_bullet(self, number: str, level: int) -> bool:
        found = self.lists[number].levels.get(level)
        return found is None or found.format in ("bullet", "none")

    def check_mark(self, number: str, level: int) -> str:
        """Return the check mark that is the bullet of a level, or ""."""
        found = self.lists[number].levels.get(level)
        return found.sign if found is not None and found.format == "bullet" else ""

    def marker(self, number: str, level: int) -> str:
        """Increase the count and return the marker: `2.1`, `(a)`, `•`."""
        own = self.lists[number]
        counts = self.counts.setdefault(own.abstract, [0] * LEVELS)
        if number not in self.begun:
            self.begun.add(number)
            for at, start in own.starts.items():
                if at < LEVELS:
                    counts[at] = start - 1
        level = min(max(level, 0), LEVELS - 1)
        definition = own.levels.get(level, _Level())
        counts[level] = (
            counts[level] + 1 if counts[level] else definition.start if not own.starts else counts[level] + 1
        )
        for deeper in range(level + 1, LEVELS):
            counts[deeper] = own.starts.get(deeper, own.levels.get(deeper, _Level()).start) - 1
            counts[deeper] = 0 if own.levels.get(deeper, _Level()).start == 1 else counts[deeper]
        if definition.format in ("bullet", "none"):
            return "•" if definition.format == "bullet" else ""
        return re.sub(r"%([1-9])", lambda match: self._write_number(own, int(match[1]) - 1, counts), definition.text)

    @staticmethod
    def _write_number(own: _List, level: int, counts: list[int]) -> str:
        definition = own.levels.get(level, _Level())
        return numeral(max(counts[level], definition.start if not counts[level] else counts[level]), definition.format)


def _levels(element: Any) -> dict[int, _Level]:
    levels = {}
    for level in element.findall(f"{W}lvl"):
        levels[whole(level.get(f"{W}ilvl"), 0)] = _Level(
            signed_whole(value_of(level, "w:start"), 1),
            value_of(level, "w:numFmt") or "decimal",
            (value_of(level, "w:lvlText") or "")[:LONGEST_MARKER],
            value_of(level, "w:pStyle") or "",
            _sign(level),
        )
    return levels


def _sign(level: Any) -> str:
    """Return the bullet of a level if it is a check mark, which has a meaning, or ""."""
    text = (value_of(level, "w:lvlText") or "")[:LONGEST_MARKER]
    sign = symbol_text(text, letters_of(level.find(f"{W}rPr")).font or "").strip()
    return sign if sign and sign in CHECK_MARKS else ""


_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"))
_ROMAN_ONES = ((9, "ix"), (5, "v"), (4, "iv"), (1, "i"))
_CYRILLIC = "абвгдежзиклмнопрстуфхцшщюя"


def numeral(number: int, kind: str) -> str:
    """Return a number in a format of WordprocessingML, or in digits if the format is unknown."""
    if kind in ("lowerLetter", "upperLetter") and 0 < number <= 26 * LONGEST_MARKER:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters.upper() if kind == "upperLetter" else letters
    if kind in ("lowerRoman", "upperRoman") and 0 < number < 4000:
        written = ""
        for value, letter in (*_ROMAN, *_ROMAN_ONES):
            times, number = divmod(number, value)
            written += letter * times
        return written.upper() if kind == "upperRoman" else written
    if kind in ("russianLower", "russianUpper") and 0 < number <= len(_CYRILLIC):
        letter = _CYRILLIC[number - 1]
        return letter.upper() if kind == "russianUpper" else letter
    if kind == "decimalZero":
        return f"{number:02}"
    return str(number)


# ---------------------------------------------------------------- styles


_TITLE_NAMES = "title titel titre título titolo tytuł naslov název názov cím titlu başlık назва название заглавие"
_HEADING_STYLE = re.compile(
    r"(?:heading|head|überschrift|titre|título|titolo|nagłówek|kop|rubrik|overskrift|otsikko|nadpis|címsor|başlık"
    r"|cabeçalho|encabezado|intestazione|заголовок|見出し|标题|標題|제목)\s?([1-9])",
    re.IGNORECASE,
)
TITLES = frozenset(_TITLE_NAMES.split())
"""Names of the style for a document's title. Programs other than Word write them in the user's language."""
DEEPEST = 50
"""Most styles in a chain of inheritance. Word allows about ten."""


class Letters(NamedTuple):
    """The look of letters: size in points, weight and so on. None means that a property is not set."""

    size: float | None = None
    bold: bool | None = None
    italic: bool | None = None
    underlined: bool | None = None
    capitals: bool | None = None
    hidden: bool | None = None
    place: str | None = None
    shift: int | None = None
    font: str | None = None
    white: bool | None = None
    struck: bool | None = None
    dressed: bool | None = None
    """True if letters have their own background, outline, shadow or fill, so that white ones may be visible."""

    def merge_over(self, below: Letters) -> Letters:
        """Return these properties, and those of `below` that these do not set."""
        kept = {name: own for name, own in self._asdict().items() if own is not None}
        return below._replace(**kept) if kept else below


PLAIN = Letters()
"""Letters without set properties."""
USUAL = Letters(size=10.0)
"""Letters of a document that sets no default."""


@dataclass(frozen=True, slots=True)
class ParagraphStyle:
    """The properties of a style, inherited values included. `key` is its id."""

    name: str = ""
    key: str = ""
    outline: int | None = None
    number: str | None = None
    level: int | None = None
    centred: bool = False
    kept: bool = False
    letters: Letters = USUAL
    shaded: bool = False


def styles_of(root: Any) -> dict[str, ParagraphStyle]:
    if root is None:
        return {}
    elements = {element.get(f"{W}styleId"): element for element in root.findall(f"{W}style")}
    styles = {key: _style(key, elements) for key in elements if key}
    normal = next((key for key, element in elements.items() if key and _is_default(element)), "")
    usual = letters_of(root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr")).merge_over(USUAL)
    styles = {
        key: style
        if elements[key].get(f"{W}type") == "character"
        else replace(style, letters=style.letters.merge_over(usual))
        for key, style in styles.items()
    }
    return {"": replace(styles.get(normal, ParagraphStyle(letters=usual)), name=""), **styles}


def _is_default(element: Any) -> bool:
    return element.get(f"{W}type") == "paragraph" and element.get(f"{W}default") in ("1", "true")


def letters_of(properties: Any) -> Letters:
    """Return the format of letters that run properties set."""
    if properties is None:
        return PLAIN
    found = {child.tag: child for child in properties if isinstance(child.tag, str)}

    def property_of(name: str) -> bool | None:
        element = found.get(f"{W}{name}")
        return None if element is None else is_on(element)

    half = whole(value_of(properties, "w:sz"), None)
    line = found.get(f"{W}u")
    fonts = found.get(f"{W}rFonts")
    return Letters(
        None if half is None else half / 2,
        property_of("b"),
        property_of("i"),
        None if line is None else line.get(f"{W}val") != "none",
        property_of("caps") or property_of("smallCaps"),
        property_of("vanish"),
        value_of(properties, "w:vertAlign"),
        signed_whole(value_of(properties, "w:position"), 0) or None,
        None if fonts is None else fonts.get(f"{W}ascii") or fonts.get(f"{W}hAnsi"),
        None if (color := found.get(f"{W}color")) is None else _is_white(color),
        property_of("strike") or property_of("dstrike"),
        _are_dressed(found),
    )


MOST_OFF_WHITE = 6
"""Largest difference (of 255) of red, green and blue from white in a colour that looks white."""
_HEX = re.compile(r"[0-9A-Fa-f]{6}")


def _is_white(color: Any) -> bool:
    """Say whether a colour is white, or the white of the default theme."""
    theme, value = color.get(f"{W}themeColor"), color.get(f"{W}val") or ""
    if theme is not None:
        return theme in ("background1", "light1") and not {f"{W}themeTint", f"{W}themeShade"} & set(color.keys())
    return _looks_white(value)


def _looks_white(value: str) -> bool:
    return bool(_HEX.fullmatch(value)) and all(255 - part <= MOST_OFF_WHITE for part in bytes.fromhex(value))


def is_shaded(shading: Any) -> bool:
    """Say whether a `w:shd` sets a background that is not white, or may not be white."""
    pattern, fill = shading.get(f"{W}val"), shading.get(f"{W}fill") or "auto"
    if pattern == "nil":
        return False
    themed = shading.get(f"{W}themeFill") is not None
    return themed or pattern not in (None, "clear") or not (fill == "auto" or _looks_white(fill))


def _are_dressed(found: Mapping[str, Any]) -> bool | None:
    """Return True if run properties, given by their tags, draw anything behind or around letters. Otherwise return
    None, since a style may still do so."""
    light, shading = found.get(f"{W}highlight"), found.get(f"{W}shd")
    lit = light is not None and light.get(f"{W}val") not in ("none", "white")
    drawn = any(is_on(found.get(f"{W}{name}")) for name in _EFFECTS) or any(f"{W14}{name}" in found for name in _FILLS)
    return lit or drawn or (shading is not None and is_shaded(shading)) or None


_EFFECTS = ("outline", "shadow", "emboss", "imprint")
_FILLS = ("textFill", "textOutline", "glow", "shadow", "reflection", "props3d")


def _style(key: str, elements: dict[str, Any]) -> ParagraphStyle:
    """Return a style with its inherited values; a cycle of styles ends at the first repetition."""
    name, outline, number, level, align, kept, shading = "", None, None, None, None, None, None
    letters = PLAIN
    seen: set[str] = set()
    at: str | None = key
    while at in elements and at not in seen and len(seen) < DEEPEST:
        seen.add(at)
        element = elements[at]
        own = value_of(element, "w:name") or at
        name = name or own
        heading = _HEADING_STYLE.fullmatch(own)
        named = int(heading[1]) - 1 if heading else None
        outline = outline if outline is not None else whole(value_of(element, "w:pPr/w:outlineLvl"), named)
        number = number or value_of(element, "w:pPr/w:numPr/w:numId")
        level = level if level is not None else value_of(element, "w:pPr/w:numPr/w:ilvl")
        align = align or value_of(element, "w:pPr/w:jc")
        kept = kept if kept is not None else element.find(f"{W}pPr/{W}keepNext")
        shading = shading if shading is not None else element.find(f"{W}pPr/{W}shd")
        letters = letters.merge_over(letters_of(element.find(f"{W}rPr")))
        at = value_of(element, "w:basedOn")
    outline = outline if outline is not None and outline < 9 else None
    shaded = shading is not None and is_shaded(shading)
    return ParagraphStyle(
        name, key, outline, number, whole(level, None), align == "center", is_on(kept), letters, shaded
    )


# ---------------------------------------------------------------- inline content


MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_LEFT_OUT_NAMES = "instrText delText pPr rPr tblPr tcPr sectPr sdtPr sdtEndPr rt"
_LEFT_OUT = frozenset(f"{W}{name}" for name in _LEFT_OUT_NAMES.split())
_TEXTS = {f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-"}
_WORD_ART = "{urn:schemas-microsoft-com:vml}textpath"
"""The element for letters drawn as a shape, in older documents and in watermarks."""
_MACHINE_MADE = re.compile(
    r"goog_rdk_\d+|[\d-]+|\w|\{?[0-9A-Fa-f-]{32,}\}?|(?:Text|Check|Dropdown|Kontrollkästchen)\d*"
)
_PART_END = re.compile(r"[\n\t;]|[.!?]\s")
LONGEST, MOST_PIECES = 2000, 10_000
"""Most characters and pieces of a paragraph that are searched for the label and the value of a field."""


@dataclass(frozen=True, slots=True)
class Control:
    """A content control or form field: its name, if it has one, and the range of its text in the pieces. `checked` is
    set only for check boxes."""

    name: str
    start: int
    end: int
    checked: bool | None = None
    empty: bool = False


@dataclass(slots=True)
class Inline:
    """The content of a paragraph. `seen` counts letters by format; `head` is the end of the first line, `seen_first`
    counts its letters. `hidden` and `hidden_shapes` say that some of the text, or some of the boxes and pictures, are
    not shown."""

    pieces: list[str] = field(default_factory=list)
    boxes: list[Any] = field(default_factory=list)
    formulas: bool = False
    controls: list[Control] = field(default_factory=list)
    charts: list[str] = field(default_factory=list)
    diagrams: list[str] = field(default_factory=list)
    pictures: list[Any] = field(default_factory=list)
    seen: Counter[Letters] = field(default_factory=Counter)
    head: int = 0
    seen_first: Counter[Letters] = field(default_factory=Counter)
    hidden: bool = False
    hidden_shapes: bool = False
    deleted: int = 0
    active: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()

    @property
    def draws(self) -> bool:
        return bool(self.boxes or self.charts or self.diagrams or self.pictures)

    def fields(self) -> dict[str, str]:
        """Return `kv.LABEL` -> value of the filled fields that have a label: their own name, else the words after a
        check mark up to the next field, or the words before the field if they end in a colon."""
        found: dict[str, str] = {}
        count, last = len(self.controls), len(self.pieces)
        for at, control in enumerate(self.controls):
            value = self._words(range(control.start, control.end)).strip()
            starts = (self.controls[later].start for later in range(at + 1, count))
            after = self._words(range(control.end, next((start for start in starts if start >= control.end), last)))
            ends = (self.controls[earlier].end for earlier in range(at - 1, -1, -1))
            begin = next((end for end in ends if end <= control.start), 0)
            before = self._words(range(control.start - 1, begin - 1, -1))
            if control.checked is not None:
                value, label = "yes" if control.checked else "no", control.name or _parts(after)[0]
            else:
                label = control.name or (_parts(before)[-1] if before.rstrip().endswith(":") else "")
            found.update(key_value(label, "" if control.empty else value))
        return found

    def _words(self, places: range) -> str:
        """Return the pieces at some places, up to the limit of a label or value."""
        found: list[str] = []
        length = 0
        for at in places[:MOST_PIECES]:
            found.append(self.pieces[at][-LONGEST:] if places.step < 0 else self.pieces[at][:LONGEST])
            length += len(found[-1])
            if length > LONGEST:
                break
        return "".join(reversed(found) if places.step < 0 else found)


def _parts(words: str) -> list[str]:
    """Return the parts of words around fields: sentences, lines, columns."""
    return [part for part in _PART_END.split(words) if part.strip()] or [""]


def control_name(properties: Any) -> str:
    """Return the title of a content control, else its tag if a person wrote it, else ""."""
    name = value_of(properties, "w:alias") or value_of(properties, "w:tag") or ""
    return "" if _MACHINE_MADE.fullmatch(name) else name


def control_value(properties: Any) -> str:
    """Return the value that a content control stores beside its text: the choice of a list, or a date."""
    if properties is None or properties.find(f"{W}showingPlcHdr") is not None:
        return ""
    for kind in ("dropDownList", "comboBox"):
        chosen = properties.find(f"{W}{kind}")
        value = "" if chosen is None else chosen.get(f"{W}lastValue") or ""
        if value and chosen is not None:
            shown = (item for item in chosen.findall(f"{W}listItem") if item.get(f"{W}value") == value)
            return next((item.get(f"{W}displayText") or value for item in shown), value)
    date = properties.find(f"{W}date")
    return "" if date is None else (date.get(f"{W}fullDate") or "").partition("T")[0]


def _control(control: Any, start: int, end: int) -> Control | None:
    properties = control.find(f"{W}sdtPr")
    if properties is None:
        return None
    box = properties.find(f"{W14}checkbox")
    checked = None if box is None else is_on(box.find(f"{W14}checked"), W14)
    empty = properties.find(f"{W}showingPlcHdr") is not None
    return Control(control_name(properties), start, end, checked, empty)


def _form_value(data: Any) -> str:
    """Return the value of an older form field, for fields without a text in the file."""
    choices = data.find(f"{W}ddList")
    if choices is None:
        return value_of(data, "w:textInput/w:default") or ""
    entries = [entry.get(f"{W}val") or "" for entry in choices.findall(f"{W}listEntry")]
    at = whole(value_of(choices, "w:result") or value_of(choices, "w:default"), 0)
    return entries[at] if at < len(entries) else ""


@dataclass(slots=True)
class _Field:
    """An open field: the data of a form field, or None for other fields, and the start of its text. The text before its
    separator is an instruction."""

    data: Any
    start: int
    separated: bool = False


class Walk:
    """The walk over the elements of a paragraph in order. It uses no recursion, so deep nesting is read too.

    A paragraph may have several parts, see `goes_on`. It is `bare` if white letters would be invisible in it.
    """

    def __init__(
        self,
        parts: Sequence[Any],
        base: Letters,
        styles: Mapping[str, ParagraphStyle],
        hidden: HiddenContent,
        bare: bool = False,
    ) -> None:
        self.bare = bare
        self.found = Inline()
        self.base = self.letters = base
        self.styles, self.hidden = styles, hidden
        self.hiding = ""
        """The reason why the preceding text is left out, or ""."""
        self.place: str | None = None
        self.place_from, self.last_text = 0, -1
        self.fields: list[_Field] = []
        self.unseparated = 0
        self.stack: list[Any] = list(reversed(list(chain.from_iterable(parts))))
        while self.stack:
            element = self.stack.pop()
            if isinstance(element, tuple):
                self._end_control(*element)
            elif isinstance(element.tag, str) and element.tag not in _LEFT_OUT:
                self._take(element, element.tag)
        self._settle()

    def _take(self, element: Any, tag: str) -> None:
        found = self.found
        if tag == f"{W}r":
            self._run(element)
        elif tag == f"{W}t":
            self._write(symbol_text(unescape(element.text or ""), self.letters.font or ""))
        elif tag in _TEXTS:
            self._write(_TEXTS[tag])
        elif tag == f"{W}sym":
            self._write(symbol_text(_symbol(element), element.get(f"{W}font") or ""))
        elif tag in _REMOVED:
            found.deleted += any((text.text or "").strip() for text in element.iter(f"{W}t", f"{W}delText"))
        elif tag == f"{M}oMath":
            found.formulas = True
            self._write(latex(element))
        elif tag == f"{W}txbxContent":
            found.boxes.append(element)
        elif tag == _WORD_ART:
            self._write(f" {element.get('string') or ''} ")
        elif tag in CHARTS:
            found.charts.append(element.get(f"{R}id") or "")
        elif tag == f"{DGM}relIds":
            found.diagrams.append(element.get(f"{R}dm") or "")
        elif tag in PICTURES:
            found.pictures.append(element)
        elif tag == f"{W}fldChar":
            self._field_mark(element)
        elif tag == f"{MC}AlternateContent":
            chosen = element.find(f"{MC}Choice")
            self.stack += reversed(chosen if chosen is not None else element)
        elif not (_is_hidden_shape(element) and not self._taken_shape()):
            found.active += tag == f"{W}control"
            if tag == f"{W}sdt":
                self.stack.append((element, len(found.pieces)))
            self.stack += reversed(element)

    # ------------------------------------------------------------ text

    def _run(self, run: Any) -> None:
        properties = run.find(f"{W}rPr")
        letters = letters_of(properties)
        style = value_of(properties, "w:rStyle") or ""
        if style and style in self.styles:
            letters = letters.merge_over(self.styles[style].letters)
        self.letters = _with_place(letters.merge_over(self.base), self.base.size)
        says = any(text.tag != f"{W}t" or (text.text or "").strip() for text in run.iter(f"{W}t", f"{W}sym"))
        unseen = self.letters.hidden or (self.letters.size or UNSEEN + 1) <= UNSEEN or self._is_white()
        how = "passages" if unseen else DELETED if self.letters.struck else ""
        if how and says:
            read = self.hidden.read if self.hiding == how else self.hidden.take(how)
            self.hiding = how
            if not read:
                self.stack += reversed(run.findall(f"{W}fldChar"))
                return
            self.found.hidden = True
        elif says:
            self.hiding = ""
        self.stack += reversed(run)

    def _is_white(self) -> bool:
        """Say whether the letters are white on white."""
        return self.bare and bool(self.letters.white) and not self.letters.dressed

    def _taken_shape(self) -> bool:
        read = self.hidden.take("shapes")
        self.found.hidden_shapes = self.found.hidden_shapes or read
        return read

    def _write(self, text: str) -> None:
        if self.unseparated:
            return
        if self.letters.place != self.place:
            self._settle()
            self.place, self.place_from = self.letters.place, len(self.found.pieces)
        found = self.found
        if text.strip():
            self.last_text = len(found.pieces)
        elif text == "\n" and not found.head and self.last_text >= 0:
            found.head, found.seen_first = len(found.pieces), found.seen.copy()
        found.pieces.append(text)
        found.seen[self.letters] += sum(map(str.isalpha, text))

    def _settle(self) -> None:
        """Write the raised or lowered text since the last change in plain characters. Such text may be divided among
        several runs."""
        pieces, form = self.found.pieces, _FORMS.get(self.place or "")
        text = "".join(pieces[self.place_from :]) if form else ""
        if form and text and len(text) <= LONGEST_RAISED:
            pieces[self.place_from :] = [form(text), *[""] * (len(pieces) - self.place_from - 1)]

    # ------------------------------------------------------------ fields and controls

    def _end_control(self, control: Any, start: int) -> None:
        pieces = self.found.pieces
        if self.last_text < start and (value := control_value(control.find(f"{W}sdtPr"))):
            self._write(value)
        found = _control(control, start, len(pieces))
        self.found.controls += [found] if found is not None else []

    def _field_mark(self, mark: Any) -> None:
        """Process a mark around a field. A form field's value is between the marks; a missing value is added there."""
        kind = mark.get(f"{W}fldCharType")
        data = mark.find(f"{W}ffData")
        if data is not None and (box := data.find(f"{W}checkBox")) is not None:
            state = box.find(f"{W}checked")
            checked = is_on(state if state is not None else box.find(f"{W}default"))
            self._write("☒ " if checked else "☐ ")
            end = len(self.found.pieces)
            self.found.controls.append(Control(_form_name(data), max(end - 1, 0), end, checked))
            data = None
        if kind == "begin":
            self.unseparated += bool(self.fields and not self.fields[-1].separated)
            self.fields.append(_Field(data, len(self.found.pieces)))
        elif kind == "separate" and self.fields:
            self.fields[-1].separated = True
        elif kind == "end" and self.fields:
            field = self.fields.pop()
            self.unseparated -= bool(self.fields and not self.fields[-1].separated)
            if field.data is not None:
                if self.last_text < field.start:
                    self._write(_form_value(field.data))
                end = len(self.found.pieces)
                self.found.controls.append(Control(_form_name(field.data), field.start, end))


_REMOVED = frozenset((f"{W}del", f"{W}moveFrom"))
_FORMS = {"superscript": raise_text, "subscript": lower_text}
LONGEST_RAISED = 40
"""Most characters of raised or lowered text that has a meaning. Anything longer is small print."""


def _with_place(letters: Letters, usual: float | None) -> Letters:
    """Return letters marked as raised or lowered if they are shifted and smaller than usual, in the way of
    LibreOffice."""
    if not letters.shift or letters.place in _FORMS or not letters.size or letters.size > SMALLER * (usual or 0.0):
        return letters
    return letters._replace(place="superscript" if letters.shift > 0 else "subscript")


SMALLER = 0.9
"""Largest size of raised or lowered letters, as a share of the usual size."""
UNSEEN = 1.0
"""Largest size in points of invisible letters."""


def _form_name(data: Any) -> str:
    name = value_of(data, "w:name") or ""
    return "" if _MACHINE_MADE.fullmatch(name) else name


def _is_hidden_shape(element: Any) -> bool:
    """Say whether an element is a hidden shape with text or a picture."""
    if element.tag == f"{W}drawing":
        named = element.find("*/{*}docPr")
        hidden = named is not None and named.get("hidden") in ("1", "true")
    else:
        style = (element.get("style") or "")[:LONGEST] if element.tag.startswith(_VML) else ""
        hidden = bool(style) and _NOT_VISIBLE.search(style) is not None
    return hidden and next(element.iter(f"{W}txbxContent", _WORD_ART, *PICTURES), None) is not None


_VML = "{urn:schemas-microsoft-com:vml}"
_NOT_VISIBLE = re.compile(r"visibility\s*+:\s*+hidden", re.IGNORECASE)


def goes_on(paragraph: Any) -> bool:
    """Say whether the next paragraph continues this one: tracked changes deleted its end, or it is a large first letter
    in a separate frame."""
    frame = paragraph.find(f"{W}pPr/{W}framePr")
    if frame is not None and frame.get(f"{W}dropCap") in ("drop", "margin"):
        return True
    marked = paragraph.find(f"{W}pPr/{W}rPr")
    return marked is not None and any(marked.find(tag) is not None for tag in _REMOVED)


def _symbol(element: Any) -> str:
    code = whole(element.get(f"{W}char"), 0, 16)
    return "" if not code or 0xD800 <= code < 0xE000 or code > sys.maxunicode else chr(code)
