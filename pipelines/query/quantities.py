"""Amounts, dates and times in a sentence, in English and Ukrainian: found, and asked for.

The groups of QUANTITY are the kinds; a `count` has its figure as `of` and what is counted as `unit`.
"""

from __future__ import annotations

import re

_NUMBER = r"\d{1,3}(?:[, \u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?"
AMOUNT = rf"(?:{_NUMBER})(?:\s?[-‒–—]\s?(?:{_NUMBER})|\s(?:to|or|до|або)\s(?:{_NUMBER}))?"
IN_WORDS = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|sixty|ninety)"
    r"(?:-(?:one|two|three|four|five|six|seven|eight|nine))?"
)
CURRENCY = "[$€£₴]"
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_START = r"(?<![\w.,/·*±‒–-])(?<!± )"
_END = r"(?![\w/·*’'-]|[.,]\d)"

_WHOLE = ("mg", "ml", "kg", "g", "km", "m", "cm", "mm", "GB", "MB", "TB", "°C",
          "мг", "мл", "мкг", "кг", "г", "км", "м", "см", "мм")  # fmt: skip
_GENITIVES = {
    "секунд": "секунд", "хвилин": "хвилин", "годин": "годин", "дн": "днів", "день": "днів", "діб": "діб", "доб": "діб",
    "тижн": "тижнів", "тиждень": "тижнів", "місяц": "місяців", "рок": "років", "рік": "років",
    "таблет": "таблеток", "капсул": "капсул", "крапл": "крапель", "крапель": "крапель", "ампул": "ампул",
    "флакон": "флаконів", "саше": "саше", "доз": "доз", "осіб": "осіб", "документ": "документів", "справ": "справ",
    "примірник": "примірників", "грам": "грамів", "метр": "метрів",
}  # fmt: skip
"""The beginning of a Ukrainian noun to its form after `скільки`."""
_TIMES = ("раз", "рази", "разів")
_NO_UNITS = (
    "a|an|the|of|and|or|to|in|on|at|by|for|from|with|is|are|was|were|be|been|has|have|will|may|must|can|as|per|than|"
    "that|which|this|these|those|its|his|her|their|our|your|other|such|does|types|kinds|ways|parts|things|options|"
    "steps|categories|reasons|sides|times|degrees"
)
_NOUN = rf"(?!(?:{_NO_UNITS})\b)(?:[a-z]+(?:-[a-z]+)?\s)?(?!(?:{_NO_UNITS})\b)[a-z]{{3,}}s"
_UNIT = "|".join([rf"(?:{'|'.join([*_WHOLE, *_TIMES])})\b", rf"(?:{'|'.join(_GENITIVES)})\w*", _NOUN])

_KINDS = {
    "money": rf"{CURRENCY}\s?(?:{AMOUNT})(?:\s(?:thousand|million|billion))?{_END}"
    rf"|{_START}(?:{AMOUNT})\s?(?:грн|dollars|euros|pounds)\b",
    "share": rf"{_START}(?:{AMOUNT})(?:\s?%|\sper\s?cent\b|\sвідсотк\w*)",
    "date": rf"(?:(?<=\bon )|(?<=\bby ))\d{{1,2}} {_MONTH}(?: \d{{4}})?",
    "time": r"(?<=\bat )\d{1,2}:\d{2}(?!:)",
    "year": r"(?<=\b[Ii]n )(?:19|20)\d{2}\b(?![-–/])",
    "year_uk": r"(?<=\b[УуВв] )(?:19|20)\d{2} році\b",
    "count": rf"{_START}(?P<of>{AMOUNT}|{IN_WORDS})\s(?P<unit>{_UNIT}){_END}",
}
QUANTITY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))

_GOVERNS = re.compile(r"(?:протягом|упродовж|до|від|після|більше|менше|близько|без|старш\w+)\s$", re.IGNORECASE)
_CYRILLIC = re.compile("[а-яіїєґ]")


def kind_of(match: re.Match[str]) -> str:
    return next(kind for kind in _KINDS if match[kind])


def is_cyrillic(text: str) -> bool:
    return _CYRILLIC.search(text) is not None


def asked_for(match: re.Match[str], before: str) -> tuple[str, str]:
    """(words that ask for a quantity in its place after `before`, the answer)."""
    found, kind = match.group(), kind_of(match)
    cyrillic = is_cyrillic(before)
    how_many = ("скількох" if _GOVERNS.search(before) else "скільки") if cyrillic else "how many"
    if kind == "count":
        unit = match["unit"]
        form = _after_how_many(unit) if cyrillic else unit
        return f"{how_many} {form}", match["of"] if form == unit else found
    words = {
        "money": f"{how_many} грошей" if cyrillic else "how much",
        "share": f"{how_many} відсотків" if cyrillic else "what percentage",
        "date": "what date",
        "time": "what time",
        "year": "which year",
        "year_uk": "якому році",
    }
    return words[kind], found.removesuffix(" році")


def _after_how_many(unit: str) -> str:
    if unit in _TIMES:
        return _TIMES[-1]
    stem = next((stem for stem in sorted(_GENITIVES, key=len, reverse=True) if unit.startswith(stem)), "")
    return unit if unit in _WHOLE else _GENITIVES.get(stem, unit)
