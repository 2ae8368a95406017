"""What stands in a paragraph of DOCX: text, formulas, anchored boxes, pictures, form fields."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import Any

from resources.parsers.labels import key_value
from resources.parsers.office.docx_formulas import M, latex
from resources.parsers.office.docx_numbering import W, is_on, value_of
from resources.parsers.office.graphics import CHARTS, DGM
from resources.parsers.office.pictures import PICTURES
from resources.parsers.untrusted import whole

MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_LEFT_OUT_NAMES = "del moveFrom instrText delText pPr rPr tblPr tcPr sectPr sdtPr sdtEndPr rt"
_LEFT_OUT = frozenset(f"{W}{name}" for name in _LEFT_OUT_NAMES.split())
_TEXTS = {f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-"}
_WORD_ART = "{urn:schemas-microsoft-com:vml}textpath"
"""Drawn letters of older documents and of watermarks."""
_MACHINE_MADE = re.compile(r"goog_rdk_\d+|[\d-]+|\{?[0-9A-Fa-f-]{32,}\}?|(?:Text|Check|Dropdown|Kontrollkästchen)\d*")
LONGEST, MOST_PIECES = 2000, 10_000
"""Characters and pieces of a paragraph that are looked at for the label and the value of a field."""


@dataclass(frozen=True, slots=True)
class Control:
    """A content control or form field: its name, if a person gave it one, and where its text stands among
    the pieces. `checked` is None but for check boxes."""

    name: str
    start: int
    end: int
    checked: bool | None = None
    empty: bool = False


@dataclass(slots=True)
class Inline:
    pieces: list[str] = field(default_factory=list)
    boxes: list[Any] = field(default_factory=list)
    formulas: bool = False
    controls: list[Control] = field(default_factory=list)
    charts: list[str] = field(default_factory=list)
    diagrams: list[str] = field(default_factory=list)
    pictures: list[Any] = field(default_factory=list)
    hidden: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()

    def fields(self) -> dict[str, str]:
        """`kv.LABEL` -> value of the fields that are filled and have a label: a name of their own, else the
        words after a check mark, before another field."""
        found: dict[str, str] = {}
        count, last = len(self.controls), len(self.pieces)
        for at, control in enumerate(self.controls):
            value = self._words(range(control.start, control.end)).strip()
            starts = (self.controls[later].start for later in range(at + 1, count))
            after = self._words(range(control.end, next((start for start in starts if start >= control.end), last)))
            before = self._words(range(control.start - 1, -1, -1))
            if control.checked is not None:
                value, label = "yes" if control.checked else "no", control.name or after
            else:
                label = control.name or (before if before.rstrip().endswith(":") else "")
            found.update(key_value(label, "" if control.empty else value))
        return found

    def _words(self, places: range) -> str:
        """The pieces at some places, as far as a label or a value may reach: what is longer is neither."""
        found: list[str] = []
        length = 0
        for at in places[:MOST_PIECES]:
            found.append(self.pieces[at][-LONGEST:] if places.step < 0 else self.pieces[at][:LONGEST])
            length += len(found[-1])
            if length > LONGEST:
                break
        return "".join(reversed(found) if places.step < 0 else found)


def control_name(properties: Any) -> str:
    """The title of a content control, else its tag where a person wrote it."""
    name = value_of(properties, "w:alias") or value_of(properties, "w:tag") or ""
    return "" if _MACHINE_MADE.fullmatch(name) else name


def _control(control: Any, start: int, end: int) -> Control | None:
    properties = control.find(f"{W}sdtPr")
    if properties is None:
        return None
    box = properties.find(f"{W14}checkbox")
    checked = None if box is None else is_on(box.find(f"{W14}checked"), W14)
    empty = properties.find(f"{W}showingPlcHdr") is not None
    return Control(control_name(properties), start, end, checked, empty)


class _Walk:
    """Events of a paragraph in order, without recursion: what is nested deeply is still read."""

    def __init__(self, paragraph: Any) -> None:
        self.found = Inline()
        self.stack: list[Any] = list(reversed(paragraph))
        self.legacy: tuple[Any, int] | None = None
        while self.stack:
            element = self.stack.pop()
            if isinstance(element, tuple):
                structured, start = element
                control = _control(structured, start, len(self.found.pieces))
                self.found.controls += [control] if control is not None else []
            elif isinstance(element.tag, str) and element.tag not in _LEFT_OUT:
                self._take(element, element.tag)

    def _take(self, element: Any, tag: str) -> None:
        found = self.found
        if tag == f"{W}t":
            found.pieces.append(element.text or "")
        elif tag in _TEXTS:
            found.pieces.append(_TEXTS[tag])
        elif tag == f"{W}sym":
            found.pieces.append(_symbol(element))
        elif tag == f"{M}oMath":
            found.formulas = True
            found.pieces.append(latex(element))
        elif tag == f"{W}txbxContent":
            found.boxes.append(element)
        elif tag == _WORD_ART:
            found.pieces.append(f" {element.get('string') or ''} ")
        elif tag in CHARTS:
            found.charts.append(element.get(f"{R}id") or "")
        elif tag == f"{DGM}relIds":
            found.diagrams.append(element.get(f"{R}dm") or "")
        elif tag in PICTURES:
            found.pictures.append(element)
        elif tag == f"{W}r" and is_on(element.find(f"{W}rPr/{W}vanish")):
            found.hidden += any((text.text or "").strip() for text in element.iter(f"{W}t"))
        elif tag == f"{W}fldChar":
            self._legacy_field(element)
        elif tag == f"{MC}AlternateContent":
            chosen = element.find(f"{MC}Choice")
            self.stack += reversed(chosen if chosen is not None else element)
        else:
            if tag == f"{W}sdt":
                self.stack.append((element, len(found.pieces)))
            self.stack += reversed(element)

    def _legacy_field(self, mark: Any) -> None:
        """A form field of older documents: its text stands between two marks; a check box has none, so it is
        written."""
        pieces, controls = self.found.pieces, self.found.controls
        data = mark.find(f"{W}ffData")
        if data is not None:
            name = value_of(data, "w:name") or ""
            name = "" if _MACHINE_MADE.fullmatch(name) else name
            box = data.find(f"{W}checkBox")
            if box is None:
                self.legacy = (name, len(pieces))
                return
            state = box.find(f"{W}checked")
            checked = is_on(state if state is not None else box.find(f"{W}default"))
            pieces.append("☒ " if checked else "☐ ")
            controls.append(Control(name, len(pieces) - 1, len(pieces), checked))
        elif mark.get(f"{W}fldCharType") == "end" and self.legacy is not None:
            name, start = self.legacy
            controls.append(Control(name, start, len(pieces)))
            self.legacy = None


def inline(paragraph: Any) -> Inline:
    return _Walk(paragraph).found


def _symbol(element: Any) -> str:
    code = whole(element.get(f"{W}char"), 0, 16)
    return "" if not code or 0xD800 <= code < 0xE000 or code > sys.maxunicode else chr(code)
