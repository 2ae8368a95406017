"""List and heading numbers of DOCX, counted as Word counts them: the file does not hold them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from resources.parsers.untrusted import signed, whole

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
LEVELS = 9
LONGEST_MARKER = 64
"""Of how a marker is written, and of letters that stand for a number: the file says both."""


def value_of(element: Any, path: str) -> str | None:
    """`w:val` of the first element at a path such as `w:pPr/w:numId`."""
    found = element.find(path.replace("w:", W)) if element is not None else None
    return None if found is None else found.get(f"{W}val")


def is_on(element: Any, namespace: str = W) -> bool:
    """Whether a property that may be switched off, such as `w:b`, is there and on."""
    return element is not None and element.get(f"{namespace}val") not in ("0", "false", "off")


@dataclass(slots=True)
class _Level:
    start: int = 1
    format: str = "decimal"
    text: str = ""


@dataclass(slots=True)
class _List:
    levels: dict[int, _Level]
    abstract: str
    starts: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Markers of numbered paragraphs, in document order. Lists of one abstract definition count on
    together, as in Word, unless one of them starts anew."""

    def __init__(self, root: Any) -> None:
        self.lists: dict[str, _List] = {}
        self.styles: dict[str, tuple[str, int]] = {}
        self.counts: dict[str, list[int]] = {}
        self.begun: set[str] = set()
        if root is None:
            return
        abstract = {element.get(f"{W}abstractNumId"): _levels(element) for element in root.findall(f"{W}abstractNum")}
        for element in root.findall(f"{W}num"):
            own = value_of(element, "w:abstractNumId") or ""
            found = _List(dict(abstract.get(own, {})), own)
            for override in element.findall(f"{W}lvlOverride"):
                level = whole(override.get(f"{W}ilvl"), 0)
                start = value_of(override, "w:startOverride")
                if start is not None:
                    found.starts[level] = signed(start, 1)
                found.levels.update(_levels(override))
            self.lists[element.get(f"{W}numId")] = found

    def is_list(self, number: str | None) -> bool:
        return number in self.lists and bool(self.lists[number].levels)

    def is_bullet(self, number: str, level: int) -> bool:
        found = self.lists[number].levels.get(level)
        return found is None or found.format in ("bullet", "none")

    def marker(self, number: str, level: int) -> str:
        """Count one on and write the marker: `2.1`, `(a)`, `•`."""
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
        return re.sub(r"%([1-9])", lambda match: self._written(own, int(match[1]) - 1, counts), definition.text)

    @staticmethod
    def _written(own: _List, level: int, counts: list[int]) -> str:
        definition = own.levels.get(level, _Level())
        return numeral(max(counts[level], definition.start if not counts[level] else counts[level]), definition.format)


def _levels(element: Any) -> dict[int, _Level]:
    levels = {}
    for level in element.findall(f"{W}lvl"):
        levels[whole(level.get(f"{W}ilvl"), 0)] = _Level(
            signed(value_of(level, "w:start"), 1),
            value_of(level, "w:numFmt") or "decimal",
            (value_of(level, "w:lvlText") or "")[:LONGEST_MARKER],
        )
    return levels


_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"))
_ROMAN_ONES = ((9, "ix"), (5, "v"), (4, "iv"), (1, "i"))
_CYRILLIC = "абвгдежзиклмнопрстуфхцшщюя"


def numeral(number: int, kind: str) -> str:
    """A number in a format of WordprocessingML; in digits where the format is not known."""
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
