"""The abbreviations that a document defines itself: `property, plant and equipment (PP&E)`.

Schwartz and Hearst, "A simple algorithm for identifying abbreviation definitions in biomedical text" (PSB 2003): the
text in parentheses is a short form of the words before them, or the long form is in the parentheses. The letters of the
short form occur in the words of the long form in the same order, the first of them at the beginning of a word. The
bounds of the paper apply: a short form has 2 to 10 characters in at most two words, with a letter, and begins with a
letter or digit; a long form has at most min(|A| + 5, 2|A|) words, where |A| counts the letters and digits of the short
form.

The paper takes the shortest run of words that has the letters, for example `plant and equipment` for PP&E. These rules
prefer precision:

- A word gives its first letter before any other. Words in between that give no letter are stop words, or a single word
  if four or more letters match. After the last word that gives a letter, only words such as `Inc.` and `of 1974` may
  follow. A short form of two letters takes first letters only.
- The best long form skips the fewest words, then the fewest letters from inside words, then the fewest words.
- At least half of a short form's letters are capitals: two or more, or one beside a digit. The paper allows lower case
  too, but most lower-case words in parentheses are not abbreviations. So a script without capitals has no
  abbreviations.
- A short form inside parentheses may have quotes around it, words such as `hereinafter` before it, and other text after
  a comma, a colon or `or`. A long form inside parentheses is all of their text, up to a comma, colon or semicolon.
- Not allowed as short forms: Roman numerals, a word of the long form, and the beginning of a single word. A long form
  has at least twice as many letters.
- A single capitalised word after another is not a long form, since it ends a longer name.

Both forms are found from the parentheses, so any text is read only once.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipelines.records import Abbreviation, Element, ParsedDocument

SHORTEST, LONGEST = 2, 10
"""Fewest and most characters of a short form."""
MOST_SHORT_WORDS = 2
MOST_INSIDE = 200
"""Most characters between parentheses to look at; no long form within its bounds needs more."""
MOST_BEFORE = 300
"""Most characters before parentheses to look at; more than the longest long form has."""
LEFT_OUT, INSIDE = 100, 1
"""Costs of a skipped word, and of a letter that is not the first of its word."""

_PARENTHESES = re.compile(rf"\(([^()]{{{SHORTEST},{MOST_INSIDE}}})\)")
_PART_END = re.compile(r"[,;:]|\s(?:or|або|чи)\s")
_LONG_END = re.compile(r"[,;:]")
_BLOCK_END = re.compile(r"\n[^\S\n]*\n|[\t\f\v|•]")
_TOKEN = re.compile(r"[^\s—]+|—")
_WORD = re.compile(r"[^\W_]+(?:['’ʼ][^\W_]+)*")
_REFERENCE = re.compile(r"\[[\d,–-]+\]")
_LEAD = re.compile(r"[^\s,:;–—]+")
_SHORT = re.compile(r"[^\W_](?:[^\W_]|[-‑–&/.+'’ ])*")
_SPOKEN = re.compile(r"[^\W_](?:[^\W_]|[-‑–&/.+'’])*+")
_PLURAL = re.compile(r"(?<=[A-Z][A-Z])['’]?s\Z")
_UNIT = re.compile(r"\d+|[^\W\d_]")
_ROMAN = re.compile(r"[IVXІХ]+")
_QUOTES = "\"“”„«»‹›'‘’`*_"
_AROUND = _QUOTES + "–—- \n\t,:;"
_ENDS = (".", "!", "?", ";", ":", "…")
_LEADS = frozenset(
    (
        *("the", "a", "an", "or", "as", "also", "hereinafter", "hereafter", "herein", "collectively", "together"),
        *("individually", "each", "called", "known", "abbreviated", "abbr", "referred", "to", "i.e", "in", "short"),
        *("і", "й", "та", "або", "чи", "далі", "надалі", "за", "текстом", "скорочено", "також", "відомий", "відома"),
        *("відоме", "як", "тобто", "іменується", "іменуються", "англ"),
    )
)
"""Words that announce a short or long form in parentheses."""
_STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "its", "of", "on", "or", "per", "s", "the"),
        *("to", "under", "upon", "with", "within", "і", "й", "та", "або", "чи", "в", "у", "на", "до", "з", "із", "зі"),
        *("за", "від", "для", "по", "при", "про", "без", "під", "що", "як", "de", "la", "le", "les", "des", "du"),
        *("der", "die", "das", "und", "von", "et", "y", "el", "e", "da", "di", "del"),
    )
)
_SUFFIXES = frozenset(
    ("inc", "llc", "ltd", "plc", "corp", "corporation", "company", "co", "lp", "gmbh", "limited", "україни")
)
"""Words that end the name of an organisation, and that its short form omits."""
_SAID_AS = {"2": ("to", "two"), "3": ("three",), "4": ("for", "four")}
"""Words that a digit may replace, as `2` replaces `to` in B2B."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A short form with its long form, and the span of both together in the text."""

    short: str
    long: str
    start: int
    end: int


class _Word(NamedTuple):
    """A word, or a part of a word between hyphens, in lower case without accents. `token` is the number of its token,
    counted from the end. `opens` is true for the first word of a token."""

    text: str
    start: int
    end: int
    token: int
    opens: bool


def abbreviations(document: ParsedDocument, elements: Sequence[Element]) -> list[Abbreviation]:
    """Return the abbreviations that a document defines, each pair of short and long form once, in reading order.
    Elements are read one by one, so no form crosses from one element into another."""
    first: dict[tuple[str, str], tuple[Definition, int]] = {}
    for element in sorted(elements, key=lambda each: each.start):
        for found in definitions(document.body[element.start : element.end]):
            first.setdefault((found.short, found.long), (found, element.start))
    counts = _occurrences(document.body, {short for short, _ in first})
    return [
        Abbreviation(document.doc_id, index, short, long, base + found.start, base + found.end, counts[short])
        for index, ((short, long), (found, base)) in enumerate(first.items())
    ]


def _occurrences(body: str, shorts: Collection[str]) -> Counter[str]:
    """Return how often each of the short forms occurs in a text as one or two separate words."""
    counts = Counter[str]()
    before = ""
    for match in _SPOKEN.finditer(body) if shorts else ():
        word = match.group().rstrip(".'’-")
        for said in (word, f"{before} {word}"):
            if said in shorts:
                counts[said] += 1
        before = word
    return counts


def definitions(text: str) -> list[Definition]:
    """Return the definitions of a text in reading order, with repetitions."""
    found: list[Definition] = []
    after = 0
    for match in _PARENTHESES.finditer(text):
        before = max(after, match.start() - MOST_BEFORE)
        before = max(before, text.rfind("(", before, match.start()) + 1)
        after = match.end()
        definition = _short_inside(text, before, match) or _long_inside(text, before, match)
        if definition is not None:
            found.append(definition)
    return found


def _short_inside(text: str, before: int, match: re.Match[str]) -> Definition | None:
    """Return the definition of a short form in parentheses after its long form."""
    for short in _shorts(match[1]):
        units = _units(short)
        words = _words(text, before, match.start(), _most_words(units)) if units else []
        starts = [at for at, word in enumerate(words) if word.opens]
        if (at := _best(words, units, starts)) is not None and not _cut_off(text, before, words, at):
            return Definition(short, _long(text, words[at:]), words[at].start, match.end())
    return None


def _shorts(inside: str) -> Iterator[str]:
    """Yield the parts of a text in parentheses that may be a short form. Parts after a comma must have quotes, since
    others are mostly items of a list."""
    start, comma = 0, False
    for end in (*_PART_END.finditer(inside), None):
        part = inside[start : end.start() if end else None]
        if not comma or any(quote in part for quote in _QUOTES):
            yield _without_leads(part)
        if end is not None:
            start, comma = end.end(), end[0] in ",;"


def _cut_off(text: str, before: int, words: Sequence[_Word], at: int) -> bool:
    """Say whether a long form is only the last word of a longer name, as in `Treadway Commission`."""
    first = words[at]
    if at < len(words) - 1 or not text[first.start].isupper():
        return False
    tokens = text[before : first.start].split()
    return bool(tokens) and tokens[-1][0].isupper() and not tokens[-1].endswith(_ENDS)


def _long_inside(text: str, before: int, match: re.Match[str]) -> Definition | None:
    """Return the definition of a short form by the long form in parentheses after it."""
    tokens = text[before : match.start()].split()
    short = _without_leads(tokens[-1]) if tokens else ""
    units = _units(short)
    if not units:
        return None
    start = text.rindex(short, before, match.start())
    whole, first = match[1].strip(_AROUND), _LONG_END.split(match[1], maxsplit=1)[0].strip(_AROUND)
    for inside in dict.fromkeys((whole, _without_leads(whole), first, _without_leads(first))):
        words = _all_words(inside, _most_words(units))
        if words and _best(words, units, [0]) == 0:
            return Definition(short, _long(inside, words), start, match.end())
    return None


def _without_leads(text: str) -> str:
    """Return a text without surrounding quotes and without words that announce a form."""
    text = text.strip(_AROUND)
    while (word := _LEAD.match(text)) and word[0].rstrip(".").casefold() in _LEADS and word.end() < len(text):
        text = text[word.end() :].strip(_AROUND)
    return " ".join(text.split())


def _units(short: str) -> list[str]:
    """Return the letters and numbers of a short form in lower case; return an empty list if the text cannot be a short
    form."""
    if not SHORTEST <= len(short) <= LONGEST or len(short.split()) > MOST_SHORT_WORDS or not _SHORT.fullmatch(short):
        return []
    short = _PLURAL.sub("", short)
    letters = [each for each in short if each.isalpha()]
    capitals = sum(map(str.isupper, letters))
    digits = any(map(str.isdecimal, short))
    if 2 * capitals < len(letters) or capitals < (1 if digits else 2) or _ROMAN.fullmatch(short):
        return []
    return _UNIT.findall(_fold(short))


def _most_words(units: Sequence[str]) -> int:
    """Return the largest number of words that a long form may have according to the paper."""
    length = sum(map(len, units))
    return min(length + 5, 2 * length)


def _words(text: str, start: int, end: int, most: int) -> list[_Word]:
    """Return the last `most` words between two positions, starting after the last end of a sentence or block."""
    window = text[start:end]
    cut = 0
    for each in _BLOCK_END.finditer(window):
        cut = each.end()
    tokens = [(each[0], start + each.start()) for each in _TOKEN.finditer(window, cut)]
    if start and tokens and tokens[0][1] == start and text[start - 1].isalnum():
        del tokens[0]
    found: list[list[_Word]] = []
    for number, (token, at) in enumerate(reversed(tokens)):
        if len(found) == most or (number and _ends(token)):
            break
        if (parts := list(_WORD.finditer(token))) and not _REFERENCE.fullmatch(token):
            found.append([
                _Word(_fold(part[0]), at + part.start(), at + part.end(), number, not index)
                for index, part in enumerate(parts)
            ])  # fmt: skip
    return [word for words in reversed(found) for word in words]


def _all_words(text: str, most: int) -> list[_Word]:
    """Return all words of a text; return no words if there are more than `most`, or if a sentence ends inside the
    text."""
    words = _words(text, 0, len(text), most)
    return words if words and not any(map(str.isalnum, text[: words[0].start])) else []


def _ends(token: str) -> bool:
    """Say whether a token ends a sentence or a clause. A full stop after few letters belongs to an abbreviation."""
    token = token.rstrip(_QUOTES)
    if not any(map(str.isalnum, token)):
        return token != "&"
    return token.endswith(_ENDS) and (token[-1] != "." or sum(map(str.isalpha, token)) >= 4)


def _best(words: Sequence[_Word], units: Sequence[str], starts: Sequence[int]) -> int | None:
    """Return the word of `starts` at which the best long form begins, or None if no long form is good enough. The long
    form ends with the last word."""
    costs = _costs(words, units)
    best = min(((cost, -at) for at in starts if (cost := costs[at]) is not None), default=None)
    if best is None:
        return None
    cost, at = best[0], -best[1]
    left_out, inside = divmod(cost, LEFT_OUT)
    size = len(units)
    if left_out > (size >= 4) or (left_out and inside > 1) or (size == 2 and cost):
        return None
    joined, long = "".join(units), words[at:]
    said = "".join(word.text for word in long)
    alike = any(word.text == joined for word in long) or (long[0].token == long[-1].token and said.startswith(joined))
    return None if alike or len(said) < 2 * len(joined) else at


def _costs(words: Sequence[_Word], units: Sequence[str]) -> list[int | None]:
    """Return for every word the least cost of a long form that begins there with the first unit and ends with the last
    word."""
    size = len(units)
    after: list[int | None] = [None] * size + [0]
    firsts: list[int | None] = []
    for number in range(len(words) - 1, -1, -1):
        word = words[number]
        left_out = 0 if word.text in _STOP_WORDS else LEFT_OUT
        now: list[int | None] = []
        for at in range(size):
            costs = [cost + rest for cost, to in _uses(word.text, units, at) if (rest := after[to]) is not None]
            if at == 0:
                firsts.append(min(costs, default=None))
            if (rest := after[at]) is not None:
                costs.append(left_out + rest)
            now.append(min(costs, default=None))
        after = [*now, after[size] if _may_follow(word.text, number == len(words) - 1) else None]
    return firsts[::-1]


def _may_follow(word: str, last: bool) -> bool:
    """Say whether a word may follow the words that give letters: `Inc.`, `of 1974`, `II`."""
    return (
        word in _SUFFIXES
        or word.isdigit()
        or bool(_ROMAN.fullmatch(word.upper()))
        or (not last and word in _STOP_WORDS)
    )


def _uses(word: str, units: Sequence[str], at: int) -> Iterator[tuple[int, int]]:
    """Yield (next letter, cost) for each number of letters that a word may give, starting with letter `at`."""
    if at == len(units):
        return
    unit = units[at]
    if unit.isdigit():
        if not (word.isdigit() and word.endswith(unit)) and word not in _SAID_AS.get(unit, ()):
            return
        place = len(word)
    elif word.startswith(unit):
        place = 1
    else:
        return
    cost = INSIDE if word in _STOP_WORDS and not unit.isdigit() else 0
    yield cost, at + 1
    for to in range(at + 1, len(units)):
        place = word.find(units[to], place)
        if place < 0:
            return
        place += len(units[to])
        cost += INSIDE
        yield cost, to + 1


def _fold(text: str) -> str:
    """Return a text in lower case, with Latin letters without accents."""
    return text.lower() if text.isascii() else "".join(map(_letter, text))


def _letter(letter: str) -> str:
    low = letter.lower()
    return unicodedata.normalize("NFD", low)[0] if "\xc0" <= low < "\u0250" else low


def _long(text: str, words: Sequence[_Word]) -> str:
    """Return the text of the words on one line, including the full stop of a final abbreviation."""
    end = words[-1].end
    return " ".join(text[words[0].start : end + text.startswith(".", end)].split())
