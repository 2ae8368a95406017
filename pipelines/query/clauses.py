"""The clauses of a statement, with their numbers, units and denials.

A sentence is divided where each part has its own value: `A room may cost 140 euros a night, and 190 euros in London`. A
clause means its own words together with those of the clauses before it, which it may omit. A table cell includes its
row's first cell. Numbers may be written as words, and units as signs. The words are those of English and Ukrainian;
signs and digits are any language's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pipelines.terms import terms_of

# ---------------------------------------------------------------- numbers, units and denials


_SIGNS = str.maketrans(
    {"%": " percent ", "€": " euro ", "£": " pound ", "$": " dollar ", "₴": " hryvnia ", "°": " degree "}
)
_A_SIGN = re.compile(f"[{''.join(map(chr, _SIGNS))}]")
_NUMBERS = {
    0: "zero нуль",
    1: "one один одна одне одного однієї одному",
    2: "two twice два дві двох двічі подвійно",
    3: "three три трьох тричі",
    4: "four чотири чотирьох",
    5: "five п'ять п'яти",
    6: "six шість шести",
    7: "seven сім семи",
    8: "eight вісім восьми",
    9: "nine дев'ять дев'яти",
    10: "ten десять десяти",
    11: "eleven одинадцять",
    12: "twelve дванадцять",
    13: "thirteen тринадцять",
    14: "fourteen чотирнадцять",
    15: "fifteen п'ятнадцять",
    16: "sixteen шістнадцять",
    17: "seventeen сімнадцять",
    18: "eighteen вісімнадцять",
    19: "nineteen дев'ятнадцять",
    20: "twenty двадцять",
    30: "thirty тридцять",
    40: "forty сорок",
    50: "fifty п'ятдесят",
    60: "sixty шістдесят",
    70: "seventy сімдесят",
    80: "eighty вісімдесят",
    90: "ninety дев'яносто",
    100: "hundred сто ста",
}
_UNITS: tuple[tuple[str, ...], ...] = (
    (
        "second seconds секунда секунд секунди",
        "minute minutes min хвилина хвилин хвилини",
        "hour hours година годин години",
        "day days день днів дні дня доба діб",
        "week weeks тиждень тижнів тижні тижня",
        "month months місяць місяців місяці",
        "year years рік років роки року",
    ),
    ("percent відсоток відсотків відсотки",),
    (
        "euro euros eur євро",
        "pound pounds gbp фунт фунтів",
        "dollar dollars usd долар доларів",
        "hryvnia hryvnias uah гривня гривень гривні грн",
        "pence penny пенс пенсів",
    ),
    (
        "km kilometre kilometres kilometer kilometers кілометр кілометрів км",
        "mile miles миля миль",
        "metre metres meter meters метр метрів",
        "cm centimetre centimetres сантиметр сантиметрів см",
        "mm millimetre millimetres міліметр міліметрів мм",
    ),
    (
        "kg kilogram kilograms kilo кілограм кілограмів кг",
        "gram grams грам грамів",
        "mg milligram milligrams міліграм міліграмів мг",
    ),
    (
        "ml millilitre millilitres мілілітр мл",
        "litre litres liter liters літр літрів",
    ),
    ("degree degrees градус градусів",),
    ("page pages сторінка сторінок сторінки",),
    ("box boxes коробка коробок коробки",),
    ("person persons people особа осіб особи",),
    ("visit visits візит візитів візити",),
    ("time times раз разів рази",),
)
"""Units grouped by the quantity that they measure, each with all its names."""
_DENIALS = re.compile(
    r"\b(?:not|cannot|never|nobody|nothing|none|neither|without|не|ні|ніколи|ніхто|жод\w+|без)\b|n['’]t\b"
    r"|\b(?:no)\b(?!\s*\.\s*\d)",
    re.IGNORECASE,
)
_LIMITS = re.compile(
    r"\b(?:(?:not?|never)\s(?:\w{1,20}\s)?(?:more|less|later|earlier|longer|fewer|only|above|below|over|under)"
    r"|with\sor\swithout|without\s(?:\w{1,20}\s)?(?:delay|exception|fail|interruption|limit)\w*+"
    r"|(?:не|ніколи)\s(?:\w{1,20}\s)?(?:більш|менш|пізніш|раніш|довш|тільки|лише|вищ|нижч)\w*+"
    r"|без\s(?:\w{1,20}\s)?(?:зволікан|затрим|винятк|обмежен)\w*+)",
    re.IGNORECASE,
)
_NEAR = 3
"""Number of words after a number in which its unit is searched."""


@cache
def _numbers() -> Mapping[str, str]:
    return {term: str(value) for value, words in _NUMBERS.items() for word in words.split() for term in terms_of(word)}


@cache
def _units() -> Mapping[str, str]:
    """Return the first name of each unit, by every term that means the unit."""
    return {term: terms_of(words)[0] for kind in _UNITS for words in kind for term in terms_of(words)}


@cache
def _kinds() -> Mapping[str, int]:
    """Return the quantity of each unit, as a number."""
    return {terms_of(words)[0]: number for number, kind in enumerate(_UNITS) for words in kind}


def kinds_of(terms: Iterable[str]) -> set[int]:
    """Return the quantities of the units among the terms, as numbers."""
    return {_kinds()[term] for term in terms if term in _kinds()}


def read(text: str) -> list[str]:
    """Return the terms of a text in order, with numbers as digits and one name for each unit."""
    return _with_one_name(terms_of(_in_words(text)))


def _in_words(text: str) -> str:
    return text.translate(_SIGNS) if _A_SIGN.search(text) else text


def _with_one_name(terms: Iterable[str]) -> list[str]:
    numbers, units = _numbers(), _units()
    return [numbers.get(term, units.get(term, term)) for term in terms]


def denies(text: str) -> bool:
    """Say whether a text denies something: it has an odd number of negations, not counting limits such as `no more
    than`."""
    return len(_DENIALS.findall(_LIMITS.sub(" ", text))) % 2 == 1


def units_beside(terms: Sequence[str]) -> dict[str, set[str]]:
    """Return the units next to each number of a text: after it, or directly before it."""
    known = set(_units().values())
    found: dict[str, set[str]] = {}
    for at, term in enumerate(terms):
        if term[0].isdigit():
            after = next((each for each in terms[at + 1 : at + 1 + _NEAR] if each in known or each[0].isdigit()), "")
            before = terms[at - 1] if at and terms[at - 1] in known else ""
            found.setdefault(term, set()).update(each for each in (after, before) if each in known)
    return found


def numbers_alone(terms: Sequence[str], among: Collection[str]) -> set[str]:
    """Return the numbers of a text that are not part of a range, except numbers in `among`."""
    found = set[str]()
    for at, term in enumerate(terms):
        if term[0].isdigit():
            beside = {each for each in (*terms[max(0, at - 1) : at], *terms[at + 1 : at + 2]) if each[0].isdigit()}
            if beside.issubset(among):
                found.add(term)
    return found


# ---------------------------------------------------------------- clauses


MOST_CLAUSES = 60
"""Most clauses into which a statement is divided; the last one has the rest."""
LEAST_WORDS = 4
"""Fewest words of each part for a division at `and` if neither part has numbers."""
_ROW = " | "
_CUT = re.compile(
    r"(;\s|\n|,?\s(?=(?:but|while|whereas|unless|але|проте|однак|тоді|натомість|а)\s))"
    r"|(,\s(?!(?:and|or|та|і|й|або|чи)\s))|,?\s(?=(?:and|or|та|і|й|або|чи)\s)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"(?:between|from|від|з|із|між)\s\S{1,40}\s?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a statement. `own` has its terms in order, in the form of `read`; `terms` has the same, plus the terms
    as written; `said` adds the terms of the clauses that it depends on."""

    own: tuple[str, ...]
    terms: frozenset[str]
    said: frozenset[str]
    denies: bool
    cell: bool = False

    @property
    def numbers(self) -> set[str]:
        return {term for term in self.own if term[0].isdigit()}

    @property
    def words(self) -> frozenset[str]:
        """Return the terms that are neither numbers nor units."""
        units = _units()
        return frozenset(term for term in self.terms if not term[0].isdigit() and term not in units)


def clauses_of(text: str) -> list[Clause]:
    """Return the clauses of a statement in order."""
    row = _ROW in text
    found, before = list[Clause](), frozenset[str]()
    for part in text.split(_ROW, MOST_CLAUSES) if row else _parts(text):
        words, plain = _in_words(part), terms_of(part)
        own = tuple(_with_one_name(plain if words == part else terms_of(words)))
        terms = frozenset(own).union(plain)
        found.append(Clause(own, terms, before | terms, denies(part), row))
        before = found[0].said if row else found[-1].said
    return found


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a sentence, each with its own value or several words."""
    cuts = list(_CUT.finditer(text))
    if not cuts:
        yield text
        return
    ends = [*(cut.start() for cut in cuts), len(text)]
    starts = [0, *(cut.end() for cut in cuts)]
    begin, valued, count = 0, _has_value(text[: ends[0]]), 0
    spaces = 0  # from where the part begins up to the cut
    for at, cut in enumerate(cuts):
        spaces += text.count(" ", starts[at], cut.start())
        piece = text[starts[at + 1] : ends[at + 1]]
        always, comma = cut.groups()
        own = _has_value(piece)
        if always:
            apart = True
        elif valued and own:
            apart = _BETWEEN.search(text, max(begin, cut.start() - 60), cut.start()) is None
        else:
            enough = min(spaces, piece.count(" ")) >= LEAST_WORDS - 1
            apart = not comma and enough and not (valued or own)
        if apart and count < MOST_CLAUSES and text[begin : cut.start()].strip():
            yield text[begin : cut.start()]
            begin, valued, count, spaces = cut.end(), own, count + 1, 0
        else:
            valued = valued or own
            spaces += text.count(" ", cut.start(), cut.end())
    yield text[begin:]


def _has_value(text: str) -> bool:
    numbers = _numbers()
    return any(term[0].isdigit() or term in numbers for term in terms_of(_in_words(text)))
