"""The choice of the option that the passages support: the one whose words occur together with the question's words.

Each clause of a sentence may support an option. Two shares are computed by weight: the share of the option's words in
the clause, and the share of the question's words in or near it. Words of other clauses, of the lead-in, of headings and
of the sentences before count in part, so `Contraindications.` counts for the list below it. A clause supports an option
only if it has most of the option's words, has the same negation as the option, and covers nearly as much of the
question as any other clause. The options are compared by the product of both shares.

Values are strict: an option with numbers needs all its numbers, with their units, and its other words in the one clause
whose value is asked for; no other clause with a value of that kind may cover more of the question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pipelines.query.clauses import Clause, clauses_of, denies, kinds_of, numbers_alone, read, units_beside
from pipelines.query.needs import Needs
from pipelines.query.statements import Statement, last_sign
from pipelines.query.support import Evidence, Weigh, Weights, is_content, share

# ---------------------------------------------------------------- options


ENOUGH = 0.7
"""Share of an option's words, by weight, that a clause must have."""
SHORT = 3
"""Number of words up to which an option with numbers needs all its other words in the clause."""
SHARED = 0.9
"""Share of its weight that a word loses if all other options have it too."""
_NAME = re.compile(r"(?<=\s)[^\W\d_a-zа-яіїєґ]\w+")
_YES, _NO = frozenset(("yes", "так")), frozenset(("no", "ні"))


@dataclass(frozen=True, slots=True)
class Option:
    """An option, prepared for one question: the weights of the terms that are not in the question, with its numbers and
    words; the terms that must be present (`exact`); the units of its numbers; and whether it denies. `plain` is true
    for yes, false for no, and None for other options."""

    own: Weights
    numbers: frozenset[str]
    words: frozenset[str]
    exact: frozenset[str]
    units: Mapping[str, set[str]]
    denies: bool
    plain: bool | None

    @property
    def one_value(self) -> bool:
        """True if exactly one value is right: a number, or yes or no."""
        return bool(self.numbers) or self.plain is not None

    def agrees(self, clause: Clause, question_denies: bool) -> bool:
        """Say whether a clause has the same negation as the option, and the option's numbers with their units."""
        if self.plain is not None:
            return (clause.denies == question_denies) is self.plain
        if (self.denies != question_denies) != clause.denies:
            return False
        if not self.numbers:
            return True
        if not self.numbers <= numbers_alone(clause.own, self.numbers):
            return False
        there = units_beside(clause.own)
        return all(
            not units or not there.get(number) or not units.isdisjoint(there[number])
            for number, units in self.units.items()
        )

    def rivals(self, clause: Clause, asked: Collection[str]) -> bool:
        """Say whether a clause may give another answer: it has words that the question lacks, and, if the option has a
        number, a value of the same kind. A heading that only repeats the question does not count."""
        if not self.numbers:
            return any(term not in asked and is_content(term) for term in clause.own)
        kinds = kinds_of(unit for units in self.units.values() for unit in units)
        return bool(clause.numbers.difference(asked)) and (not kinds or not kinds.isdisjoint(kinds_of(clause.own)))


def options_of(texts: Mapping[str, str], question: str, weigh: Weigh) -> dict[str, Option]:
    """Return options by letter. The more of the other options have a word, the less it weighs."""
    asked = set(read(question))
    terms = {letter: read(text) for letter, text in texts.items()}
    content = {letter: {term for term in each if is_content(term)} for letter, each in terms.items()}
    own = {letter: each - asked or each for letter, each in content.items()}
    others = max(1, len(texts) - 1)
    found = {}
    for letter, text in texts.items():
        weights = {
            term: weight * (1 - SHARED * (sum(term in each for each in own.values()) - 1) / others)
            for term, weight in weigh(own[letter]).items()
        }
        names = set(read(" ".join(_NAME.findall(text))))
        numbers = frozenset(term for term in own[letter] if term[0].isdigit())
        exact = numbers.union(term for term in own[letter] if term in names)
        words = set(terms[letter])
        plain = True if words and words <= _YES else False if words and words <= _NO else None
        found[letter] = Option(
            weights, numbers, frozenset(weights) - numbers, exact, units_beside(terms[letter]), denies(text), plain
        )
    return found


# ---------------------------------------------------------------- places


EARLIER, LATER = 0.9, 0.5
"""Weights of the question's words in earlier and in later clauses of the same sentence."""
LEAD, ABOUT, AROUND = 0.9, 0.8, 0.3
"""Weights of the question's words in the lead-in of a list, in headings and the document's names, and elsewhere in the
passage."""
BEFORE = (0.7, 0.6, 0.5)
"""Weights of the question's words in the sentences before, nearest first."""
NEAR = 0.65
"""Weight of an option's words in other clauses of the sentence, and in neighbouring sentences. It is below ENOUGH, so a
clause must itself contain a part."""


@dataclass(frozen=True, slots=True)
class SupportingSentence:
    """A sentence whose clauses may support an option. `levels` has the weights of nearby words of the question;
    `beside` has the terms of the sentence and of its neighbours."""

    evidence: Evidence
    clauses: tuple[Clause, ...]
    levels: Weights
    beside: frozenset[str]

    def borne(self, wanted: Weights, clause: Clause) -> float:
        """Return the share of the question's words that a clause covers, in [0, 1]."""
        found = 0.0
        for term, weight in wanted.items():
            if term in clause.terms:
                found += weight
            elif term in clause.said:
                found += weight * max(EARLIER, self.levels[term])
            else:
                found += weight * self.levels[term]
        return found / (sum(wanted.values()) or 1.0)

    def share_held(self, option: Option, clause: Clause) -> float:
        """Return the share of an option's words that a clause contains, in [0, 1]."""
        if option.plain is not None:
            return 1.0
        if not option.exact <= clause.terms:
            return 0.0
        if option.numbers and len(option.words) <= SHORT and not option.words <= clause.terms:
            return 0.0
        found = 0.0
        for term, weight in option.own.items():
            if term in clause.terms:
                found += weight
            elif term in self.beside:
                found += weight * NEAR
        return found / (sum(option.own.values()) or 1.0)


def places_of(
    needs: Needs, evidence: Sequence[Evidence], statements: Sequence[Statement], names: Mapping[int, Collection[str]]
) -> Iterator[SupportingSentence]:
    """Yield the sentences of evidence with their surroundings. `statements` say which sentence introduces a list;
    `names` has the words by which the documents of passages may be called."""
    leads = {id(item.evidence): [part for part in item.parts if part is not item.evidence] for item in statements}
    for number, group in groupby(evidence, key=lambda item: item.passage.number):
        own = list(group)
        said = [needs.with_forms(item.terms, (item,)) for item in own]
        for at, item in enumerate(own):
            lead = leads.get(id(item), [])
            near = [
                (said[at], LATER),
                *((said[at - far], weight) for far, weight in enumerate(BEFORE, start=1) if far <= at),
                *((part.terms, LEAD) for part in lead),
                (item.about.union(names[number]), ABOUT),
                (item.around, AROUND),
            ]
            levels = {
                term: max((level for terms, level in near if term in terms), default=0.0) for term in needs.wanted
            }
            led_denies = denies(" ".join(part.sentence.text for part in lead if last_sign(part.sentence.text) == ":"))
            clauses = tuple(
                replace(
                    clause,
                    terms=needs.with_forms(clause.terms, ()),
                    said=needs.with_forms(clause.said, ()),
                    denies=clause.denies != led_denies,
                )
                for clause in clauses_of(item.sentence.text)
            )
            beside = frozenset().union(*(each.terms for each in own[max(0, at - 1) : at + 2]))
            yield SupportingSentence(item, clauses, levels, beside)


# ---------------------------------------------------------------- support


BESIDE = 0.8
"""Share of the question that a clause must cover, relative to the best clause of its sentence."""
PHRASED, VALUED = 0.75, 0.95
"""Shares of the question that a clause must cover, relative to the best competing clause of any sentence: for a phrase,
and for a value."""


@dataclass(frozen=True, slots=True)
class Support:
    """The support of an option by a clause. `score` is the product of its shares of the option and of the question;
    `enough` says whether it may decide."""

    enough: bool
    score: float
    evidence: Evidence


def best_supported(
    question: str, options: Mapping[str, Option], needs: Needs, places: Sequence[SupportingSentence]
) -> tuple[str, Evidence] | None:
    """Return the letter of the best supported option and its sentence; return None if no option is supported or two are
    equal."""
    asked, question_denies = frozenset(read(question)), denies(question)
    every = _borne(needs.wanted, [(place, clause) for place in places for clause in place.clauses])
    valued = _borne(needs.wanted, [(place, _valued_clause(needs.wanted, place.clauses, asked)) for place in places])
    found = []
    for letter, option in options.items():
        support = _best_support(option, valued if option.one_value else every, asked, question_denies)
        if support is not None:
            found.append((support.enough, support.score, letter, support.evidence))
    found.sort(key=lambda item: item[:2], reverse=True)
    if not found or not found[0][0] or any(score >= found[0][1] for _, score, _, _ in found[1:]):
        return None
    _, _, letter, evidence = found[0]
    return letter, evidence


_Borne = tuple[float, float, SupportingSentence, Clause]
"""The share of the question's words that a clause covers, the greatest share of a clause of its sentence, the sentence,
and the clause."""


def _borne(wanted: Weights, clauses: Sequence[tuple[SupportingSentence, Clause]]) -> list[_Borne]:
    shares = [(place.borne(wanted, clause), place, clause) for place, clause in clauses]
    most = dict[int, float]()
    for borne, place, _ in shares:
        most[id(place)] = max(borne, most.get(id(place), 0.0))
    return [(borne, most[id(place)], place, clause) for borne, place, clause in shares]


def _best_support(
    option: Option, clauses: Sequence[_Borne], asked: Collection[str], question_denies: bool
) -> Support | None:
    """Return the best support of an option, or None if no clause has any of its words."""
    most = max((borne for borne, _, _, clause in clauses if option.rivals(clause, asked)), default=0.0)
    least = most * (VALUED if option.one_value else PHRASED)
    best: Support | None = None
    for borne, beside, place, clause in clauses:
        held = place.share_held(option, clause) if option.agrees(clause, question_denies) else 0.0
        if not held:
            continue
        support = Support(held >= ENOUGH and borne >= max(least, BESIDE * beside), held * borne, place.evidence)
        if best is None or (support.enough, support.score) > (best.enough, best.score):
            best = support
    return best


def _valued_clause(wanted: Weights, clauses: Sequence[Clause], asked: Collection[str]) -> Clause:
    """Return the clause whose value is asked for: the one that covers most of the wanted words; on a tie, the one
    with most of them itself, then the first. If it has no number, the following clauses are added, up to one with a
    number."""
    at = max(
        range(len(clauses)),
        key=lambda place: (share(wanted, clauses[place].said), share(wanted, clauses[place].terms), -place),
    )
    best = clauses[at]
    row = at == 0 and best.cell  # no head of a column is asked for, so that any cell may answer
    for more in clauses[at + 1 :]:
        if not row and best.numbers.difference(asked):
            break
        best = Clause((*best.own, *more.own), best.terms | more.terms, more.said, best.denies != more.denies)
    return best
