"""Where a text may be cut: sentence ends by rule, then mild punctuation, then spaces.

The rules serve the division of long paragraphs in every language, and the sentences of languages
for which no spaCy model is installed. A full stop does not end a sentence after a known
abbreviation, an initial, a list or clause number, or before a lower-case word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_ABBREVIATIONS = frozenset(
    """p.o inc ltd co corp llc plc vs etc e.g i.e cf al fig figs sec ch vol ed eds pp par para art arts approx
    dept est mr mrs ms dr prof sr jr st ave blvd rd hon rev gen col sgt capt lt jan feb mar apr jun jul aug sep sept
    oct nov dec u.s u.k u.n a.m p.m ph.d m.d b.a m.a d.c min max tel ext ref
    ст п пп ч гл рис табл див напр ін др проф акад доц канд ред вид том с стор вул буд кв обл м смт р рр н.е т тис
    млн млрд грн коп год хв сек мін кг мг мл г л см мм км шт тел ім зав нач зам гр гол кім корп просп пл
    """.split()  # noqa: SIM905
)
_BEFORE_NUMBERS = frozenset(("no", "nos", "ч"))
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s|$)|[。！？]++[\"'”’»)\]」』）]*+")
_WORD_BEFORE = re.compile(r"[\w.]+$")
_NUMBERED = re.compile(r"(?:\d+\.)*\d+|[ivxlc]+|\w", re.IGNORECASE)
_MILD = re.compile(r"[;:,–—](?=\s)")
_SPACE = re.compile(r"\s+(?!(?<=\d\s)\d{3}(?!\d))")
_OPEN_END = re.compile(r"[\w,–—-]$")
_JOINERS = frozenset("\u200d\u2060")


def ends_sentence(text: str, mark: int, after: int) -> bool:
    """Whether the full stop at `mark` ends a sentence whose successor begins at `after`."""
    following = text[after : after + 1]
    if following.islower():
        return False
    if text[mark] != ".":
        return True
    found = _WORD_BEFORE.search(text, max(0, mark - 24), mark)
    word = found.group().lower() if found else ""
    if not word:
        return True
    if word in _BEFORE_NUMBERS and following.isdigit():
        return False
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        return False
    return not (_NUMBERED.fullmatch(word) and _begins_line(text, mark - len(word)))


def _begins_line(text: str, at: int) -> bool:
    while at and text[at - 1].isspace() and text[at - 1] != "\n":
        at -= 1
    return at == 0 or text[at - 1] == "\n"


def continues(before: str, after: str) -> bool:
    """Whether a block goes on in the middle of the sentence that the block before it left open."""
    return after[:1].islower() and bool(_OPEN_END.search(before))


def joins(text: str, at: int) -> bool:
    """Whether the characters on both sides of a place are one to a reader: a letter and its marks, an emoji
    and its modifiers."""
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return False
    modifier = "\U0001f3fb" <= after <= "\U0001f3ff"
    return modifier or before in _JOINERS or after in _JOINERS or unicodedata.category(after)[0] == "M"


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences of a text, trimmed, in order; they cover all that is not space."""
    ends = []
    for match in _END.finditer(text):
        after = match.end()
        while after < len(text) and text[after].isspace():
            after += 1
        if after >= len(text) or ends_sentence(text, match.start(), after):
            ends.append(match.end())
    return trimmed(text, ends)


def trimmed(text: str, cuts: Iterable[int]) -> list[tuple[int, int]]:
    """The spans between cuts, without the spaces around them; empty ones are left out."""
    spans = []
    start = 0
    for end in [*cuts, len(text)]:
        left, right = start, end
        while left < right and text[left].isspace():
            left += 1
        while right > left and text[right - 1].isspace():
            right -= 1
        if left < right:
            spans.append((left, right))
        start = max(start, end)
    return spans


def cut_points(text: str) -> list[list[int]]:
    """Places where a text may be cut, the best kind first: sentence ends, mild punctuation, spaces."""
    return [
        [end for _, end in sentence_spans(text)],
        [match.end() for match in _MILD.finditer(text)],
        [match.start() for match in _SPACE.finditer(text)],
    ]
