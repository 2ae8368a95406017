"""The numbers and words that headings begin with: `ITEM 7`, `Article 4`, `Розділ II`, `3.2`, `IV.`, `A.`"""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBERED = re.compile(r"((?:\d{1,2}\.)+\d{0,2}\.?|\d{1,2})\s+(?=[^\W\d_])")
_ROMAN = re.compile(r"(?=[IVXІХ])[IVXLCІХ]{1,6}[.)]\s+(?=[^\W\d_])")
_LETTER = re.compile(r"[A-ZА-ЯІЇЄҐ][.)]\s+(?=[^\W\d_])")
_KEYWORDS = (
    ("part", "частина", "книга", "часть"),
    ("chapter", "розділ", "annex", "appendix", "schedule", "exhibit", "додаток", "раздел", "приложение"),
    ("section", "глава", "item", "підрозділ"),
    ("article", "стаття", "note", "примітка", "статья", "примечание"),
)
"""From the outermost down, by the usual order of statutes, filings and contracts."""
_RANKS = {word: rank for rank, words in enumerate(_KEYWORDS) for word in words}
_NUMBER = r"(?:№\s*)?(?:\d+[a-z]?(?:[.\-–]\d+)*|(?-i:[IVXLCІХ]+|[A-ZА-ЯІЇЄҐ]))"
KEYWORD = re.compile(rf"({'|'.join(_RANKS)})\s+({_NUMBER})\b[.:]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Numbering:
    """`kind` names the scheme (`decimal`, `roman`, `letter`, or a word such as `item`); `depth` is the
    count of a decimal number's parts, else 1; `number` is as it stands, without its last mark."""

    kind: str
    depth: int
    number: str


def numbering_of(text: str) -> Numbering | None:
    """The numbering a heading begins with, if any."""
    keyword = KEYWORD.match(text)
    if keyword:
        return Numbering(keyword[1].lower(), 1, keyword[2].lower())
    decimal = NUMBERED.match(text)
    if decimal:
        parts = re.findall(r"\d+", decimal[1])
        return Numbering("decimal", len(parts), ".".join(parts))
    for kind, pattern in (("roman", _ROMAN), ("letter", _LETTER)):
        match = pattern.match(text)
        if match:
            return Numbering(kind, 1, match.group().strip(" .)"))
    return None


_SCHEMES = {"roman": 4, "letter": 5, "decimal": 6}


def order(numbering: Numbering) -> int:
    """Smaller stands above, where nothing else decides."""
    return _RANKS.get(numbering.kind, _SCHEMES.get(numbering.kind, 9)) + (numbering.depth - 1)
