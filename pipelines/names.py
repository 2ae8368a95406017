"""The names that people use for a document, and the names that a question contains.

A document's names come from its file and folders, its version, its date and its metadata, such as an issuer. Its title
is left out, since the lexical index has a title's words in every chunk. Each form of a name is reduced to one term:
`FY18`, `fiscal 2018` and `2018` are a year; `Q2`, `2Q` and `second quarter` a quarter; `10-K`, `10K` and `annual
report` a kind of report; dates in any order a day. Joined words in a file's name (`ACTIVISIONBLIZZARD`, `BestBuy`)
match the same words written separately, and the reverse. A hash is not a name.

An ordinary word of a file's name, such as `guide`, `watch` or `user`, is not a name. A word is ordinary if the
document's own text writes it in lower case; that is better evidence than its spelling in a question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from pipelines.dates import MONTHS
from pipelines.terms import terms_of

WHOLE, RUN = "=", "+"
"""Prefixes of two kinds of terms: one word that may be several joined words, and a run of several words. A term of one
kind in a document matches the other kind in a question; two runs would add nothing to their single words."""
MOST_JOINED = 3
LEAST_JOINED, LONGEST_JOINED = 6, 64
"""Fewest and most letters of a word that may be several joined words; a longer one would not fit in a database index
entry."""
SHORT = 3
"""Letters below which a word is not a name, unless it is in capitals."""
OF_THE_FILE = frozenset({"author", "subject", "keywords", "description"})
"""Metadata that programs write into files; it says who made a file, and seldom what the file is called."""
MOST_WORDS = 400
"""Most words of a name or question that are read."""
LONGEST_VALUE = 200
"""Most characters of a metadata value that may be a name; a longer one is a text."""
BEGINNING = 4
"""Letters at the start of a word that must match a name before the whole word is compared."""
ORDINARY = 0.2
"""Share of lower-case occurrences from which a word counts as ordinary."""

_HASH = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{12,}+)(?![0-9A-Za-z])"
)
_WORD = re.compile(r"\d+(?:\.\d+)+|[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-zа-яіїєґ])(?=[A-ZА-ЯІЇЄҐ][a-zа-яіїєґ])")
_OWNING = re.compile(r"(?<=\w)['’][sS](?!\w)")
_YEAR = r"(?:19|20)\d\d"
_FISCAL = re.compile(
    r"(?<![^\W_])(?:FY|CY|fiscal(?:\s+years?)?|фінансов\w+\s+р\w+)\s*['’]?(?:(19|20)(\d\d)|(\d\d))(?!\d)", re.IGNORECASE
)
_QUARTER = re.compile(
    rf"(?<![^\W_])(?:Q([1-4])|([1-4])Q)\s*['’]?(?:({_YEAR})|(\d\d))?(?![^\W_])"
    rf"|(?<![^\W_])({_YEAR})\s*Q([1-4])(?![^\W_])",
    re.IGNORECASE,
)
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4,
             "перш": 1, "друг": 2, "трет": 3, "четверт": 4}  # fmt: skip
_SPOKEN_QUARTER = re.compile(
    r"(?<![^\W_])(?:(first|second|third|fourth|1st|2nd|3rd|4th)\s+quarter|(перш|друг|трет|четверт)\w{0,4}\s+квартал\w*)",
    re.IGNORECASE,
)
_KIND = re.compile(r"(?<![^\W_])(10|8|20|6|40)-?([KQF])(?![^\W_])", re.IGNORECASE)
_SPOKEN_KINDS = ((re.compile(r"\bannual\s+reports?\b", re.IGNORECASE), "10k"),
                 (re.compile(r"\bquarterly\s+reports?\b", re.IGNORECASE), "10q"))  # fmt: skip
_DAY = re.compile(
    rf"(?<!\d)({_YEAR})[-./_](\d\d)[-./_](\d\d)(?!\d)|(?<!\d)(\d{{1,2}})\.(\d{{1,2}})\.({_YEAR})(?!\d)"
    rf"|([^\W\d_]{{3,9}})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+({_YEAR})(?!\d)"
    rf"|(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)?\s+([^\W\d_]{{3,9}})\.?,?\s+({_YEAR})(?!\d)"
)


def _unless_a_word(match: re.Match[str]) -> str:
    """Return "" for a hash, and any other word unchanged."""
    return match.group() if match.group().isalpha() else " "


def names_in(text: str) -> frozenset[str]:
    """Return the possible names in a question, as the terms that `document_names` returns for documents."""
    met = {WHOLE: RUN, RUN: WHOLE}
    return frozenset(met.get(term[0], term[0]) + term[1:] for term in _names(text))


def _names(text: str) -> frozenset[str]:
    """Return the names in a text as terms: words, periods, days, kinds of report, words that may be joined, and runs of
    up to MOST_JOINED words."""
    rest, periods = _periods(_HASH.sub(_unless_a_word, _OWNING.sub("", text[: 20 * MOST_WORDS])).replace("_", " "))
    words = [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", rest))][:MOST_WORDS]
    return frozenset([*periods, *(term for word in words for term in terms_of(word)), *_join_words(words)])


def years_meant(text: str) -> dict[str, str]:
    """Return the fiscal years in a text (`FY18`), each with its calendar year (`2018`) as a term of the lexical
    index."""
    found = ((match.group(), match.groups()) for match in _FISCAL.finditer(text))
    return {said: f"{century or '20'}{year or short}" for said, (century, year, short) in found}


def document_names(
    uri: str, version: str | None, day: str | None, metadata: Mapping[str, str], texts: Iterable[str]
) -> frozenset[str]:
    """Return the names of a document as terms, without ordinary words; `texts` are its own texts, `day` is in ISO
    form."""
    path = PurePosixPath(uri)
    said = [*path.parent.parts, path.stem, version or "", day or ""]
    said += [value for key, value in metadata.items() if key not in OF_THE_FILE and len(value) <= LONGEST_VALUE]
    short = {word.lower() for name in said for word in _WORD.findall(name) if len(word) < SHORT and not word.isupper()}
    found = {term for name in said for term in _names(name) if not (term in short or _is_small(term))}
    ordinary = _ordinary({term for term in found if term[0] not in (WHOLE, RUN)}, texts)
    joined = _ordinary({term[1:] for term in found if term[0] == WHOLE}, texts)
    return frozenset(
        term
        for term in found
        if term not in ordinary and not (term[0] == WHOLE and joined.intersection(terms_of(term[1:])))
    )


def _is_small(term: str) -> bool:
    """Say whether a term is a single letter or a small number, which may be an amount or the number of a heading."""
    return len(term) < SHORT and (term.isdigit() or len(term) < 2)


def always_names(term: str) -> bool:
    """Say whether a term is a name however many documents have it, since it has a digit."""
    return any(letter.isdigit() for letter in term)


def _join_words(words: list[str]) -> Iterator[str]:
    """Yield words that may be several joined words, and runs of several words joined. Numbers are never joined."""
    for at in range(len(words)):
        joined = ""
        for following in words[at : at + MOST_JOINED]:
            if not following.isalpha():
                break
            joined = joined + following if joined else following
            if LEAST_JOINED <= len(joined) <= LONGEST_JOINED:
                yield (WHOLE if joined is following else RUN) + joined


def _periods(text: str) -> tuple[str, list[str]]:
    """Return the text without its periods, days and kinds of report, and these as terms. A year is its own term."""
    found: list[str] = []

    def day(match: re.Match[str]) -> str:
        first, second, third, fourth = (
            match.group(1, 2, 3),
            match.group(4, 5, 6),
            match.group(7, 8, 9),
            match.group(10, 11, 12),
        )
        if first[0]:
            year, month, number = first[0], int(first[1]), int(first[2])
        elif second[0]:
            year, month, number = second[2], int(second[1]), int(second[0])
        else:
            name, at, year = third if third[0] else (fourth[1], fourth[0], fourth[2])
            if (known := MONTHS.get(name.lower())) is None:
                return match.group()
            month, number = known, int(at)
        found.extend([f"{year}{month:02}{number:02}", year])
        return " "

    def fiscal(match: re.Match[str]) -> str:
        century, of_it, alone = match.groups()
        found.append(f"{century or '20'}{of_it or alone}")
        return " "

    def quarter(match: re.Match[str]) -> str:
        one, other, year, short, before, after = match.groups()
        found.append(f"q{one or other or after}")
        if told := year or before or (f"20{short}" if short else None):
            found.append(told)
        return " "

    def spoken_forms(match: re.Match[str]) -> str:
        found.append(f"q{_ORDINALS[(match.group(1) or match.group(2)).lower()]}")
        return " "

    def kind(match: re.Match[str]) -> str:
        found.append(f"{match.group(1)}{match.group(2).lower()}")
        return " "

    for pattern, taken in (
        (_DAY, day),
        (_FISCAL, fiscal),
        (_QUARTER, quarter),
        (_SPOKEN_QUARTER, spoken_forms),
        (_KIND, kind),
    ):
        text = pattern.sub(taken, text)
    found += [term for pattern, term in _SPOKEN_KINDS if pattern.search(text)]
    return text, found


def alike_words(terms: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of the words that begin like one of these terms. Stemming all words would take too long."""
    begins = "|".join(sorted({re.escape(term[:BEGINNING]) for term in terms}))
    return re.compile(rf"(?<![^\W_])(?:{begins})[^\W_]*+(?:['’][^\W_]++)*+", re.IGNORECASE)


def _ordinary(terms: set[str], texts: Iterable[str]) -> set[str]:
    """Return the terms that the texts write in lower case."""
    among = {found for word in terms if not always_names(word) for found in terms_of(word)}
    if not among:
        return set()
    alike = alike_words(among)
    lower, all_of = Counter[str](), Counter[str]()
    for text in texts:
        for word, count in Counter(alike.findall(text)).items():
            for term in terms_of(word):
                if term in among:
                    all_of[term] += count
                    lower[term] += count if word[0].islower() else 0
    return {term for term, count in all_of.items() if lower[term] >= ORDINARY * count}
