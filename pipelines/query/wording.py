"""The texts and terms that are searched for to answer a question, with the weights of the terms.

A user's question goes through four steps, and a setting can turn off each: words that only instruct the person or model
get little weight; a fiscal year is also searched as a calendar year; an abbreviation is also searched in its long form,
and the reverse; and the user's own synonyms are added. Rewrites by a language model are searched unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from pipelines.names import years_meant
from pipelines.plural import plural
from pipelines.ports import FoundAbbreviation
from pipelines.query.asking import asking
from pipelines.query.support import content_terms, weights_of
from pipelines.query.synonyms import Alternative, Expansion, Synonyms
from pipelines.settings.query import QuerySettings
from pipelines.terms import terms_of

SYNONYM = 0.5
"""Weight of an added synonym, relative to 1 for the words that it accompanies. One that replaces them has weight 1."""

MOST_TERMS = 400
"""Most terms of a question that are searched for abbreviations."""
MOST_KEY_TERMS = 12
"""Most terms of a long form of an abbreviation that is searched for."""
MOST_FORMS = 2
"""Most other forms that are added for one form."""
_ORDINARY = (
    "us me him all act aid age air art ask bar bit bus cap car cat cost due era fee few fit form law let map net new "
    "now old one out own part past plan post ram real rent role rule safe sea set sim star team tip top use war way who"
)
"""English words that are often used as short forms."""

KnownAbbreviations = Callable[[Collection[str]], Sequence[FoundAbbreviation]]
"""A function from keys (the terms of a form joined by spaces) to the abbreviations that have one of them as a form."""
Frequencies = Callable[[Sequence[str]], tuple[Mapping[str, int], int]]
"""A function from terms to the number of chunks that contain each, and the number of all chunks."""


@dataclass(frozen=True, slots=True)
class Added:
    """A text that is searched for in addition to `asked`, or instead of it, and the reason (`why`)."""

    asked: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Question:
    """The texts that the routes search for. `lexical` may hold more than `text`: the words of options. `embedded` is
    the part of the text whose vector is searched for; `weights` has the weights of its terms, if not all are 1.
    `expansions` has the synonym entries found in it, and `added` the texts that were added."""

    text: str
    lexical: str | None = None
    embedded: str | None = None
    weights: Mapping[str, float] | None = None
    expansions: tuple[Expansion, ...] = ()
    added: tuple[Added, ...] = ()

    @property
    def words(self) -> str:
        return self.text if self.lexical is None else self.lexical

    @property
    def terms(self) -> Mapping[str, float]:
        """The terms, each once with its weight: a word that a question repeats does not count twice."""
        return dict.fromkeys(terms_of(self.words), 1.0) if self.weights is None else self.weights


@dataclass(frozen=True)
class Wordings:
    """The rules for interpreting questions: the settings, and the user's synonyms."""

    settings: QuerySettings
    synonyms: Synonyms = field(default_factory=Synonyms)
    origin: str = ""

    def wordings_of(self, question: Question, frequencies: Frequencies, known: KnownAbbreviations) -> Question:
        """Return the texts to search for a question. Synonyms that replace words are applied last."""
        meant = lower_address(question) if self.settings.asking_part else question
        meant = with_years(meant) if self.settings.fiscal_years else meant
        meant = with_abbreviations(meant, known, frequencies) if self.settings.abbreviations else meant
        return with_synonyms(meant, self.synonyms, self.origin, frequencies)


def lower_address(question: Question) -> Question:
    """Return a question in which words that only address a person or model have little weight, and are not embedded."""
    asked = asking(question.text)
    little = {term for term, weight in asked.weights.items() if weight < 1}
    if not little:
        return question
    more = question.words.removeprefix(question.text) if question.lexical is not None else ""
    little -= set(terms_of(more))
    weights = {term: asked.weights[term] if term in little else weight for term, weight in question.terms.items()}
    return replace(question, embedded=asked.text, weights=weights)


def with_years(question: Question) -> Question:
    """Return a question that also searches for `2018` if it has FY2018, since documents seldom write FY2018."""
    meant = {said: year for said, year in years_meant(question.words).items() if year not in question.terms}
    if not meant:
        return question
    weights = {**question.terms, **dict.fromkeys(meant.values(), 1.0)}
    added = (*question.added, *(Added(said, year, "a fiscal year") for said, year in meant.items()))
    return replace(question, weights=weights, added=added)


def with_synonyms(question: Question, synonyms: Synonyms, origin: str, frequencies: Frequencies) -> Question:
    """Return a question that also searches for the synonyms of its words, or instead of the words."""
    found = synonyms.found_in(terms_of(question.words))
    told = {each: f"{origin}, line {each.line}" for one in found for each in one.added}
    return _with_added(question, found, told, frequencies)


def with_abbreviations(question: Question, known: KnownAbbreviations, frequencies: Frequencies) -> Question:
    """Return a question that also searches for the other form of each abbreviation in it.

    If there are several other forms, those that most documents define are added. An ordinary word in lower case, such
    as `us`, is not a short form.
    """
    said = terms_of(question.words)[:MOST_TERMS]
    spoken = {term for word in question.words.split() if word != word.lower() for term in terms_of(word)}
    keys = {
        " ".join(said[at : at + size]): (at, at + size)
        for size in range(1, MOST_KEY_TERMS + 1)
        for at in range(len(said) - size, -1, -1)
    }
    ordinary = {key for key in keys if key not in spoken and (key in _ordinary_words() or not content_terms(key))}
    found: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
    for each in known(keys.keys() - ordinary) if keys else ():
        for key, own, other in ((each.short_key, each.short, each.long), (each.long_key, each.long, each.short)):
            if key in keys and key not in ordinary:
                found.setdefault(keys[key], []).append((own, other, each.documents))
    expansions, told, last = [], dict[Alternative, str](), 0
    for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
        if start < last:
            continue
        last, best = end, dict.fromkeys(found[start, end][:MOST_FORMS])
        added = {Alternative(other, tuple(terms_of(other)), 0): documents for _, other, documents in best}
        told.update({each: f"an abbreviation in {_documents(number)}" for each, number in added.items()})
        expansions.append(Expansion(start, end, next(iter(best))[0], tuple(added), False, 0))
    return _with_added(question, expansions, told, frequencies)


@cache
def _ordinary_words() -> frozenset[str]:
    return frozenset(terms_of(_ORDINARY))


def _documents(number: int) -> str:
    return plural(number, "document")


def _with_added(
    question: Question, found: Sequence[Expansion], told: Mapping[Alternative, str], frequencies: Frequencies
) -> Question:
    """Return a question with the words that synonyms add to it.

    Its vector is unchanged. The words of an added text together count no more, by idf, than the words that it
    accompanies, so a long text counts no more than a short one. A word that several texts add has the greatest of their
    weights.
    """
    if not found:
        return question
    said = terms_of(question.words)
    every = {*question.terms, *(term for one in found for each in one.added for term in each.terms)}
    idf = weights_of(every, *frequencies(sorted(every)))
    weights, more = dict(question.terms), dict[str, float]()
    for one in found:
        own = said[one.start : one.end]
        worth = sum(idf.get(term, 0.0) * weights.get(term, 0.0) for term in own)
        for each in one.added:
            group = sum(idf.get(term, 0.0) for term in each.terms)
            share = min(1.0, worth / group) if group else 1.0
            for term in each.terms:
                more[term] = max(more.get(term, 0.0), share * (1.0 if one.replaces else SYNONYM))
    for one in found:
        if one.replaces:
            gone = set(said[one.start : one.end]) - {*said[: one.start], *said[one.end :]}
            weights = {term: weight for term, weight in weights.items() if term not in gone}
    for term, weight in more.items():
        weights[term] = max(weights.get(term, 0.0), weight)
    added = (*question.added, *(Added(one.asked, each.text, told[each]) for one in found for each in one.added))
    return replace(question, weights=weights, expansions=(*question.expansions, *found), added=added)


def also_said(expansions: Sequence[Expansion], terms: Iterable[str]) -> frozenset[str]:
    """Return the terms of a text, and those of the synonym entries that are in it in other words."""
    own = frozenset(terms)
    met = (one for one in expansions if any(own.issuperset(each.terms) for each in one.added))
    return own.union(*(terms_of(one.asked) for one in met))
