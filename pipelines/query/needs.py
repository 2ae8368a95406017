"""The needs of a question: its weighted words, equivalent forms of them, and the kind of value asked for.

A statement covers a word if it has the word, another form of it (`keep`, `kept`), the correct spelling of a misspelt
word, or a value of the kind that the word names: `20 °C` covers `temperature`. Question words (`what are the key points
about`) need no match. The lists have English and Ukrainian words; questions in other languages work without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from heapq import nlargest

from pipelines.query.support import Evidence, Weigh, Weights, content_terms, is_content
from pipelines.terms import terms_of

# ---------------------------------------------------------------- words


_ASKING = (
    "under since into onto some any most more only also one once about regarding according after before between "
    "during per via without within whether because while both each every either other another such same still even "
    "ever just please tell show give explain describe mention mentioned described say said provide provided key "
    "point points aspect aspects detail details thing things consideration considerations main important kind type "
    "sort text document documents information info me us let know find happen happens mean meaning meant use used "
    "using need needed difference differences different differ compare comparison anyone anybody somebody someone "
    "allowed allow able now currently current there here come comes goes going go done want like vs versus against "
    "compared t s m re ve ll d don doesn didn isn aren wasn weren won wouldn shouldn couldn haven hasn dont doesnt "
    "cant isnt whats wheres whos hows im ive id під після перед між через без щодо відповідно згідно також ще вже "
    "лише тільки один одна одне одного однієї одній одному можна треба потрібно слід якою якими яким котрий котра "
    "котрі такий таке така такі все всі всього кожен скажіть розкажіть поясніть будь ласка документ документі "
    "тексті мені нам саме зараз нині хтось"
)
_FORMS = (
    "keep kept",
    "pay paid payment",
    "fly flew flown flight",
    "buy bought",
    "lose lost loss",
    "hold held",
    "take took taken",
    "give gave given",
    "send sent",
    "leave left",
    "begin began begun",
    "choose chose chosen choice",
    "freeze froze frozen",
    "drive drove driven driver",
    "write wrote written",
    "speak spoke spoken",
    "find found",
    "tell told",
    "spend spent",
    "sell sold sale",
    "run ran",
    "meet met",
    "break broke broken",
    "eat ate eaten",
    "bring brought",
    "build built",
    "wear wore worn",
    "see saw seen",
    "store storage",
    "approve approval",
    "refuse refusal",
    "arrive arrival",
    "weigh weight",
    "deep depth",
    "wide width",
    "high height",
    "long length",
    "hot heat",
    "strong strength",
    "begin beginning",
    "lie lay lain",
    "own owner owned",
    "steal stole stolen",
    "rise rose risen",
    "behave behaviour behavior",
    "repay repaid",
    "enrol enroll enrolled",
    "reimburse reimbursement reimbursable",
    "cover covers covered coverage",
    "deduct deductible",
    "elect electricity electrical",
    "платити оплата сплатити сплачувати",
    "зберігати зберігання збереження",
    "важити вага",
    "ширина широкий",
    "довжина довгий",
    "висота високий",
    "коштувати вартість",
    "видавати видають видача",
    "вносити внесок",
)
"""Forms of one word that stemming does not unite."""
_TIMES = (
    "second minute hour day week month year секунда хвилина година годин день днів дні дня тиждень тижнів місяць "
    "місяців рік років року"
)
_KINDS: tuple[tuple[str, str, str], ...] = (
    (
        "temperature температура температурі",
        "degree degrees градус градусів",
        "°",
    ),
    (
        "price cost costs fee amount sum charge much ціна вартість коштувати коштує сума",
        "euro euros dollar dollars pound pounds pence cent cents usd eur gbp uah грн гривня гривень гривні євро",
        "€£$₴¥",
    ),
    (
        "duration period time deadline often last тривалість строк термін час",
        _TIMES,
        "",
    ),
    (
        "weight weigh вага важити",
        "kg gram grams kilogram kilograms tonne tonnes кг грам грамів тонн",
        "",
    ),
    (
        "distance far відстань",
        "km mile miles metre metres kilometre kilometres км метр метрів",
        "",
    ),
    (
        "percentage share rate proportion відсоток частка",
        "percent percentage per cent відсоток відсотків",
        "%",
    ),
    (
        "resolution",
        "dpi ppi",
        "",
    ),
    (
        "width height length depth size ширина висота довжина глибина розмір",
        "m cm mm metre metres meter inch inches feet м см мм метр метрів",
        "",
    ),
    (
        "number many count quantity кількість число",
        "",
        "",
    ),
)
"""Words that name a kind of value, with the words of its units, and their signs."""
_COUNTED = re.compile(
    r"\bhow\s+(?:many|much|far|old|high|heavy|big|large)\b|\bскільки\b|\bяк\s+далеко\b|\bна\s+яку\s+суму\b"
    r"|\bwhat\s+percent(?:age)?\b",
    re.IGNORECASE,
)
_TIMED = re.compile(
    r"\bhow\s+(?:long|often|soon|late|early|quick(?:ly)?|fast)\b|\bdeadline\b|\bwhen\b|\bby\s+what\s+date\b"
    r"|\b(?:як\s+(?:довго|часто|швидко)|на\s+скільки|коли|строк|термін|до\s+якого\s+числа)\b",
    re.IGNORECASE,
)
_TIME_WORDS = (
    "second minute hour day week month year quarter today tomorrow annual annually yearly monthly weekly daily "
    "quarterly hourly once twice immediately january february march april may june july august september october "
    "november december monday tuesday wednesday thursday friday saturday sunday noon midnight morning evening "
    "секунд секунда хвилина хвилин година годин день днів дні дня доба діб тиждень тижнів тижні тижня місяць "
    "місяців місяці рік років роки року щороку щодня щотижня щомісяця щокварталу січня лютого березня квітня травня "
    "червня липня серпня вересня жовтня листопада грудня понеділок вівторок середа четвер субота неділя р"
)
_WRITTEN_NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million half два дві "
    "двох три трьох чотири чотирьох п'ять п'яти шість шести сім семи вісім восьми дев'ять десять десяти двадцять "
    "тридцять сорок п'ятдесят шістдесят сто половина половину"
)
LEAST_LETTERS = 5
"""Fewest letters of a word that may be misspelt."""
MOST_MISSPELT = 20
"""Most words of a question that are compared with the words of the passages, since each takes some milliseconds."""
MOST_WANTED = 100
"""Most words of a question that are searched in every statement; those with the greatest weight are kept."""
MOST_SLIPS, ALIKE_LETTERS = 2, 0.8
"""Most letters by which the length of a misspelt word may differ, and least share of letters in common."""


@cache
def _asking() -> frozenset[str]:
    return frozenset(terms_of(_ASKING))


@cache
def _forms() -> Mapping[str, frozenset[str]]:
    """Return the terms of the other forms of a word, by term."""
    found: dict[str, frozenset[str]] = {}
    for words in _FORMS:
        terms = frozenset(terms_of(words))
        for term in terms:
            found[term] = found.get(term, frozenset()) | terms - {term}
    return found


@cache
def _kinds() -> Mapping[str, tuple[frozenset[str], str]]:
    """Return the terms of the units and their signs, by each term that names a kind of value."""
    return {term: (frozenset(terms_of(units)), signs) for names, units, signs in _KINDS for term in terms_of(names)}


@cache
def _time_words() -> frozenset[str]:
    return frozenset(terms_of(_TIME_WORDS))


@cache
def _written_numbers() -> frozenset[str]:
    return frozenset(terms_of(_WRITTEN_NUMBERS))


# ---------------------------------------------------------------- needs


_NAMED = re.compile(
    r"\b(?:name\s+of|called|whose\s+name|surname)\b|\b(?:як\s+звати|прізвище|на\s+ім'?я)\b", re.IGNORECASE
)
_PHONE = re.compile(
    r"\b(?:tele?(?:ph|f)one|phone)\b.{0,20}\bnumber|\bnumber\b.{0,20}\bphone|\bномер\w*\s+телефон", re.IGNORECASE
)
_EARNED = re.compile(r"\b(?:salar(?:y|ies)|earn\w*|wages?)\b|\b(?:зарплат\w*|заробля\w*|оклад\w*)\b", re.IGNORECASE)
_PAY = re.compile(r"\b(?:salar|earn|wage|pay|paid|band|compensat)|\b(?:зарплат|зароб|оклад|платн)", re.IGNORECASE)
_VERSION = re.compile(r"\b(?:version|edition|v\.|верс\w+|редакц\w+)\s+(\d+(?:\.\d+)*)", re.IGNORECASE)
_MAIL = re.compile(r"\be-?mail\s+address\b|\bелектронн\w+\s+(?:адрес|пошт)", re.IGNORECASE)
_HOW_MANY = re.compile(r"\bhow\s+many\s+(.{1,80})", re.IGNORECASE | re.DOTALL)
_DIGITS = re.compile(r"(?:\d[\s().-]{0,2}){6}")
_TWO_NAMES = re.compile(r"(?<![\w'’-])[^\W\d_a-zа-яіїєґ][\w'’-]*+\.?\s[^\W\d_a-zа-яіїєґ][\w'’-]*+")
_ROW = " | "
_DEFINE = re.compile(r"\b(?:what(?:['’]?s|\s+is|\s+are|\s+does)|defin|mean|що\s+(?:таке|означає|є))", re.IGNORECASE)
_DEFINITION = re.compile(r"\s?(?::|—|–)|\s(?:is|are|means?|refers|це|є)\s", re.IGNORECASE)
LONGEST_DEFINED = 60
"""Characters within which a definition must name the defined thing."""
_PARTIAL = re.compile(r"(?:some|a\s+few|деякі|окремі)\b", re.IGNORECASE)
_POLAR = re.compile(
    r"\W*(?:is|are|was|were|do|does|did|can|could|may|must|will|would|should|shall|has|have|чи)\b", re.IGNORECASE
)
BEGINNING = 40
"""Characters at the start of a text that are searched for its first content word."""
KEYWORDS = 3
"""Most words of a question that consists only of keywords."""
_BETWEEN = re.compile(
    r"\b(?:differences?|different|compar(?:e|ison|ing)|різниця|відмінність|чим)\s(?:(?:between|of|між)\s)?",
    re.IGNORECASE,
)
_AGAINST = re.compile(r"\s(?:vs|vs\.|versus|compared\s(?:to|with)|відрізняється\sвід)\s", re.IGNORECASE)
_AND = re.compile(r"\s(?:and|to|with|та|і|й|від)\s", re.IGNORECASE)
LONGEST_COMPARED = 200
"""Most characters of a question that is searched for two compared things."""
_CONTRAST = re.compile(
    r"\b(?:while|whereas|unlike|than|both|only|but|instead|rather|against|тоді\s+як|натомість|ніж|лише|тільки|але|обидва)\b",
    re.IGNORECASE,
)
_DIFFERENCE_TOLD = re.compile(
    r"\b(?:differences?|comparison|compare|різниц\w+|відмінност\w+|порівнян\w+)\b", re.IGNORECASE
)
_SUMMARY = re.compile(
    r"\b(?:summar(?:y|ise|ize)|tl;dr|tldr|overview|резюме|підсумуй|підсумуйте|підсумок|стислий\sвиклад)\b",
    re.IGNORECASE,
)
SUMMARY_WORDS = 8
"""Most words of a question that asks only for a summary."""
NEAR = 3
"""Most words between a number and the thing that it counts."""
HEADS = 2
"""Words after `how many` that may be the counted thing."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The weights of a question's words. `forms` maps equivalent terms to the question's terms; `kinds` has the terms
    that name a kind of value. `counted` and `timed` say that a number, or a time, is asked for; `heads` are the counted
    things. `spelled` maps misspelt terms to their corrections."""

    question: str
    wanted: Weights
    forms: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    counted: bool = False
    timed: bool = False
    heads: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    spelled: Mapping[str, str] = field(default_factory=dict)

    def with_forms(self, terms: frozenset[str], parts: Sequence[Evidence]) -> frozenset[str]:
        """Return the terms of sentences, with the question's terms added that they contain in another form."""
        other = self.forms.keys() & terms
        said = terms.union(*(self.forms[term] for term in other)) if other else terms
        named = {term for term in self.kinds - said if self._has(term, terms, parts)}
        return said | named if named else said

    @property
    def numbers(self) -> frozenset[str]:
        """The question's numbers, which a statement must have."""
        versions = {term for found in _VERSION.findall(self.question) for term in terms_of(found)}
        return frozenset(term for term in self.wanted if term[0].isdigit() and term not in versions)

    def defined_by(self, text: str) -> bool:
        """Say whether a text defines the thing that the question asks for: it begins with these words, followed by a
        definition."""
        if not ((len(self.asked) <= KEYWORDS and self.asked == self.wanted.keys()) or _DEFINE.search(self.question)):
            return False
        found = _DEFINITION.search(text[:LONGEST_DEFINED])
        named = content_terms(text[: found.start()]) if found else set()
        return self.wanted.keys() <= named and len(named) <= len(self.wanted) + 1

    def begins(self, text: str) -> bool:
        """Say whether a text begins with a word of the question as its subject. For a yes-or-no question return false,
        since the subject does not decide such an answer."""
        if _POLAR.match(self.question):
            return False
        first = next((term for term in terms_of(text[:BEGINNING]) if is_content(term)), "")
        return first in self.wanted

    def partial(self, text: str) -> bool:
        """Say whether a text begins by saying that it covers only a part of the subject."""
        return _PARTIAL.match(text) is not None

    def tells_of_difference(self, text: str) -> bool:
        """Say whether a text only mentions the difference that the question asks for, without giving it."""
        return _DIFFERENCE_TOLD.search(text) is not None

    def _has(self, kind: str, terms: frozenset[str], parts: Sequence[Evidence]) -> bool:
        units, signs = _kinds()[kind]
        if not self._numbers(terms):
            return False
        return (
            not units
            or not units.isdisjoint(terms)
            or any(sign in part.sentence.text for part in parts for sign in signs)
        )

    def _numbers(self, terms: frozenset[str]) -> bool:
        """Say whether the terms contain a number that the question does not have."""
        return any(term[0].isdigit() and term not in self.asked for term in terms) or not _written_numbers().isdisjoint(
            terms - self.asked
        )

    def has_value(self, terms: frozenset[str]) -> bool | None:
        """Say whether the terms have a value of the kind asked for; return None if no kind is asked for."""
        if self.timed:
            return not _time_words().isdisjoint(terms - self.asked) or (self.counted and self._numbers(terms))
        return self._numbers(terms) if self.counted else None

    def lacks(self, terms: frozenset[str], text: str) -> bool:
        """Say whether a text cannot be the answer, because it has no value of the kind asked for."""
        if self.heads:
            return not self._counts(text)
        if self.counted and not self._numbers(terms):
            return True
        if _PHONE.search(self.question):
            return _DIGITS.search(text) is None
        if _MAIL.search(self.question):
            return "@" not in text
        if _EARNED.search(self.question) and not (_PAY.search(text) and self._numbers(terms)):
            return True
        if _NAMED.search(self.question):
            names = (match.group() for match in _TWO_NAMES.finditer(text))
            return not any(self.asked.isdisjoint(terms_of(name)) for name in names)
        return False

    def _counts(self, text: str) -> bool:
        """Say whether a number in the text counts the thing asked for."""
        terms, written = terms_of(text), _written_numbers()
        for at, term in enumerate(terms):
            if term[0].isdigit() or term in written:
                near = terms[at + 1 : at + 1 + NEAR]
                if not self.heads.isdisjoint(near) or (
                    " | " in text and not self.heads.isdisjoint(terms[max(0, at - NEAR) : at])
                ):
                    return True
        return False


def needs_of(question: str, weigh: Weigh, vocabulary: Callable[[], Collection[str]], unknown: Collection[str]) -> Needs:
    """Return the needs of a question. `vocabulary` returns the terms of the passages; `unknown` has the terms of the
    question that no document has, which may be misspelt."""
    asked = dict.fromkeys(terms_of(question))
    doubtful = [term for term in asked if term in unknown and len(term) >= LEAST_LETTERS][:MOST_MISSPELT]
    words = sorted(vocabulary()) if doubtful else []
    spelled = {term: near for term in doubtful if (near := nearest(term, words))}
    read = frozenset(spelled.get(term, term) for term in asked)
    weights = weigh(read)
    wanted = {term: weight for term, weight in weights.items() if term not in _asking()} or dict(weights)
    if len(wanted) > MOST_WANTED:
        wanted = dict(nlargest(MOST_WANTED, wanted.items(), key=lambda item: (item[1], item[0])))
    forms: dict[str, frozenset[str]] = {}
    for term in wanted:
        for other in _forms().get(term, ()):
            forms[other] = forms.get(other, frozenset()) | {term}
    kinds = frozenset(term for term in wanted if term in _kinds())
    counted, timed = _COUNTED.search(question) is not None, _TIMED.search(question) is not None
    return Needs(question, wanted, forms, kinds, counted, timed, _heads(question), read, spelled)


def _heads(question: str) -> frozenset[str]:
    """Return the things that `how many` counts: the first words after it, with their other forms."""
    found = _HOW_MANY.search(question)
    terms = [term for term in terms_of(found.group(1)) if is_content(term)][:HEADS] if found else []
    if not terms or terms[0] in _kinds():
        return frozenset()
    return frozenset(terms).union(*(_forms().get(term, frozenset()) for term in terms))


def differing(question: str) -> tuple[str, str] | None:
    """Return the two things whose difference the question asks for, or None."""
    text = " ".join(question.split()).strip(" ?.!")
    if len(text) > LONGEST_COMPARED:
        return None
    marked = _BETWEEN.search(text)
    apart = _AGAINST.search(text) or (_AND.search(text, marked.end()) if marked else None)
    if apart is None:
        return None
    begin = marked.end() if marked and marked.end() < apart.start() else 0
    return text[begin : apart.start()], text[apart.end() :]


def contrasts(text: str) -> bool:
    """Say whether a text contrasts two things."""
    return _CONTRAST.search(text) is not None


def asks_summary(question: str) -> bool:
    """Say whether a question asks for a summary of a document, which no single statement gives."""
    return len(question.split()) <= SUMMARY_WORDS and _SUMMARY.search(question) is not None


def nearest(term: str, vocabulary: Iterable[str]) -> str | None:
    """Return the word of a vocabulary of which a term is a misspelling, or None. Both must begin with the same
    letter."""
    if len(term) < LEAST_LETTERS or any(letter.isdigit() for letter in term):
        return None
    able = [word for word in vocabulary if word[0] == term[0] and abs(len(word) - len(term)) <= MOST_SLIPS]
    return next(iter(get_close_matches(term, able, 1, ALIKE_LETTERS)), None)
