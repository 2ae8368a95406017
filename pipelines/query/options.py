"""Which option of a question the passages support: the one whose own words stand with the question's.

Each clause of a sentence may support an option. Two shares are weighed: of the option's words those that it holds, and
of the question's words those that it bears. Words of other clauses, of the lead-in and headings above and of the
sentences before count in part, so that `Contraindications.` speaks for the list below it. A clause supports an option
only if it holds most of the option, denies what the option denies, and bears nearly as much of the question as any
other clause. The product of both shares is compared between the options.

Values are taken strictly: an option with numbers needs all of them and its other words in the one clause whose value is
asked for, with the same units, and no clause with a value of that kind may bear more of the question.
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
"""Share of an option's words, by weight, that must be held."""
SHORT = 3
"""Words beside an option's numbers of which none may be missing."""
SHARED = 0.9
"""Share of its weight that a word loses if all other options have it."""
_NAME = re.compile(r"(?<=\s)[^\W\d_a-zа-яіїєґ]\w+")
_YES, _NO = frozenset(("yes", "так")), frozenset(("no", "ні"))


@dataclass(frozen=True, slots=True)
class Option:
    """An option read for one question: the weights of the terms that are its own, its numbers and words among them, of
    which `exact` must be held, the units of its numbers, and whether it denies. `plain` is true for yes, false for no,
    and None for other options."""

    own: Weights
    numbers: frozenset[str]
    words: frozenset[str]
    exact: frozenset[str]
    units: Mapping[str, set[str]]
    denies: bool
    plain: bool | None

    @property
    def one_value(self) -> bool:
        """Say whether one value is right and others like it are wrong: a number, or yes and no."""
        return bool(self.numbers) or self.plain is not None

    def agrees(self, clause: Clause, question_denies: bool) -> bool:
        """Say whether a clause denies what the option denies, and has its numbers with their units."""
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
        """Say whether a clause may tell another answer: it says more than is asked, and has a value of the same kind if
        the option has a number. A heading that repeats the question says nothing of its own."""
        if not self.numbers:
            return any(term not in asked and is_content(term) for term in clause.own)
        kinds = kinds_of(unit for units in self.units.values() for unit in units)
        return bool(clause.numbers.difference(asked)) and (not kinds or not kinds.isdisjoint(kinds_of(clause.own)))


def options_of(texts: Mapping[str, str], question: str, weigh: Weigh) -> dict[str, Option]:
    """Return options by letter. A word weighs less the more of the other options have it."""
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
"""Weight of the question's words in clauses of the same sentence, before and after."""
LEAD, ABOUT, AROUND = 0.9, 0.8, 0.3
"""Weight of the question's words in the lead-in of a list, in the headings and the document's names, and elsewhere in
the passage."""
BEFORE = (0.7, 0.6, 0.5)
"""Weight of the question's words in the sentences before, the nearest first."""
NEAR = 0.65
"""Weight of an option's words in other clauses of the sentence, and in the sentences before and after. It is below
ENOUGH, so that a clause must hold a part itself."""


@dataclass(frozen=True, slots=True)
class Place:
    """A sentence whose clauses may support an option. `levels` are the weights of the question's words that stand near
    it, and `beside` are the terms of the sentence and of those before and after it."""

    evidence: Evidence
    clauses: tuple[Clause, ...]
    levels: Weights
    beside: frozenset[str]

    def borne(self, wanted: Weights, clause: Clause) -> float:
        """Return the share of the question's words that a clause bears, in [0, 1]."""
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
        """Return the share of an option's words that a clause holds, in [0, 1]."""
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
) -> Iterator[Place]:
    """Yield the sentences of evidence as places. `statements` say which sentence leads a list in, and `names` by which
    words the documents of passages may be called."""
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
            yield Place(item, clauses, levels, beside)


# ---------------------------------------------------------------- support


BESIDE = 0.8
"""Share that a clause must bear, against the best clause of its sentence."""
PHRASED, VALUED = 0.75, 0.95
"""Shares that a clause must bear, against the best rival of any sentence: for a phrase, and for a value."""


@dataclass(frozen=True, slots=True)
class Support:
    """The support of an option by a clause: the product of the shares that it holds and bears. `enough` says whether it
    may decide."""

    enough: bool
    score: float
    evidence: Evidence


def best_supported(
    question: str, options: Mapping[str, Option], needs: Needs, places: Sequence[Place]
) -> tuple[str, Evidence] | None:
    """Return the letter of the option that is supported best, with the sentence that does it, or None if no option is
    supported or two are alike."""
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


_Borne = tuple[float, float, Place, Clause]
"""The share of the question's words that a clause bears, the most that a clause of its sentence bears, and both."""


def _borne(wanted: Weights, clauses: Sequence[tuple[Place, Clause]]) -> list[_Borne]:
    shares = [(place.borne(wanted, clause), place, clause) for place, clause in clauses]
    most = dict[int, float]()
    for borne, place, _ in shares:
        most[id(place)] = max(borne, most.get(id(place), 0.0))
    return [(borne, most[id(place)], place, clause) for borne, place, clause in shares]


def _best_support(
    option: Option, clauses: Sequence[_Borne], asked: Collection[str], question_denies: bool
) -> Support | None:
    """Return the best support of an option, or None if no clause holds anything of it."""
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
    """Return the clause whose value is asked for: the one that says most of the wanted words, of equals the one with
    most of its own, then the first. If it has no number, the clauses after it go with it, up to one that has."""
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
