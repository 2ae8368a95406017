"""The claims of an answer and the places that support them: quoted statements, or claims of a model that are checked.

If there is no language model, the answer is the best statement that supports an answer, word for word. With a model,
its reply is split into claims. A claim is kept if the passages it cites contain enough of its content words and every
name that is not in the question, and if one statement has the numbers of each of its clauses. A claim without a
citation is kept if exactly one passage supports it. Every claim has a place; if no claim remains, the question is
declined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from typing import Any

from pipelines.defused_text import defuse
from pipelines.llm.prompts import PromptTemplate, as_data
from pipelines.llm.reply_text import clean, unusable
from pipelines.ports import LanguageModel, NoReply, Passage, Prompt, Reply, ReplyCheck
from pipelines.query.assemble import ContextPassage, place
from pipelines.query.clauses import clauses_of, read
from pipelines.query.needs import Needs, contrasts, differing, needs_of
from pipelines.query.options import best_supported, options_of, places_of
from pipelines.query.results import Hit, hit_json
from pipelines.query.statements import ALL, Rules, Statement, statements_of
from pipelines.query.support import (
    Evidence,
    Reading,
    Weigh,
    Weights,
    content_terms,
    coverage,
    evidence_of,
    gives_orders,
    orders_in,
    share,
)
from pipelines.query.tools import language_of, numbers_of, uncut
from pipelines.records import DESCRIPTION
from pipelines.terms import terms_of

# ---------------------------------------------------------------- answers


MOST_SENTENCES = 3
MOST_MARKED = 3
LEAST_COSINE = 0.01
NEAR_BEST = 0.6
"""Least score of a replacement, as a share of the best statement's score. It answers if the best statement lacks the
kind of value asked for."""
FLAT = 0.5
OWN = 0.5
"""Weight of the words in a statement itself, relative to those in its headings and passage."""
MEANING = 0.5
"""Weight of a statement's cosine in the exponent of its score, in standard deviations of all cosines."""
MOST_FORMED = 20
"""Number of best-scoring statements whose form is examined; later ones could not become the best."""
CONTRASTED = 1.5
"""Factor for a statement that contrasts two things, if the question asks for their difference."""
VALUED, DEFINING, SUBJECT, PARTIAL, OTHER_SCRIPT = 1.4, 1.6, 1.15, 0.85, 0.6
"""Factors for a statement with a value of the kind asked for, for a definition, for one that begins with a word asked
for, for one that gives only part of an answer, and for one in another script."""
WORDS, MEANT = 0.625, 0.99
"""Factors for the share of the question's words in a statement, and for the closeness of its meaning (`way`). At the
shipped threshold about half of the words, or a closeness of one third, is enough."""
_SEPARATORS = re.compile(r"[_/.-]+")


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in the context: the sentence word for word, with its page. `name` is the document's. `generated` is true
    if a language model wrote the sentence, as in the description of a figure; `stripped` is true if links, tags or
    other active text were removed from the quote."""

    name: str
    source: str
    uri: str
    page: int | None
    quote: str
    chunk_id: str
    sentence_id: str = ""
    generated: bool = False
    stripped: bool = False

    @property
    def pin(self) -> str:
        return place(self.name, self.page)


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement without its final mark, and the places that support it."""

    text: str
    citations: tuple[Citation, ...]
    end: str = "."

    @property
    def shown_text(self) -> str:
        pins = "; ".join(dict.fromkeys(item.pin for item in self.citations))
        return f"{self.text} [{pins}]{self.end}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; `claims` is empty if the question is declined. `model` is the language model that wrote the claims, if
    any; `notes` say what was left out, and why. `marked` has the sentences that give orders to a model; they may be
    quoted, but are never evidence."""

    claims: tuple[Claim, ...] = ()
    option: str | None = None
    model: str | None = None
    notes: tuple[str, ...] = ()
    marked: tuple[Citation, ...] = ()

    @property
    def is_declined(self) -> bool:
        return not self.claims

    @property
    def text(self) -> str:
        return " ".join(claim.shown_text for claim in self.claims)

    @property
    def citations(self) -> list[Citation]:
        """The places of all claims, each once."""
        return list(dict.fromkeys(citation for claim in self.claims for citation in claim.citations))


def citation_of(evidence: Evidence, statement: Statement | None = None) -> Citation:
    """Return the place of a sentence, with its whole statement as the quote."""
    passage: ContextPassage = evidence.passage
    first, sentence = passage.chunks[0], evidence.sentence
    written = any(DESCRIPTION in item.block_types for item in passage.chunks if item.chunk_id == sentence.chunk_id)
    text, stripped = (statement.text, statement.is_stripped) if statement else (sentence.text, sentence.stripped)
    return Citation(passage.name, first.source, first.uri, sentence.page, text, sentence.chunk_id,
                    sentence.sentence_id, written, stripped)  # fmt: skip


def best_of(evidence: Sequence[Evidence], wanted: Weights) -> Evidence:
    """Return the sentence that supports most; on a tie, the first in reading order."""
    return max(evidence, key=lambda item: (item.support(wanted), share(wanted, item.terms)))


@dataclass(frozen=True, slots=True)
class AnswerCandidate:
    """A statement that may be the answer. `own` is the share, by weight, of the question's words in the statement,
    `near` the share with its headings included. `way` is the closeness of its meaning to the question: 0 like an
    average sentence, 1 like the question itself; None without vectors. `score` says how well it answers."""

    statement: Statement
    own: float
    near: float
    way: float | None
    score: float

    @property
    def borne(self) -> float:
        """Return how far the statement covers the question, by its words or its meaning, in [0, 1]."""
        return max(WORDS * self.near, MEANT * (self.way or 0.0))


def candidates(
    needs: Needs, statements: Sequence[Statement], alike: Sequence[float], rules: Rules = ALL
) -> list[AnswerCandidate]:
    """Return statements, best answer first."""
    mean, spread, ground = _measure([item.cosine for item in statements], alike)
    names = {item.evidence.passage.number: _names(item.evidence.passage) for item in statements}
    words = [(term, weight, weight**FLAT) for term, weight in needs.wanted.items()]
    total, total_flat = sum(word[1] for word in words) or 1.0, sum(word[2] for word in words) or 1.0
    found = []
    for item in statements:
        said, about = needs.with_forms(item.terms, item.parts), item.evidence.about
        named, around = names[item.evidence.passage.number], item.evidence.around
        own = near = beside = 0.0
        for term, weight, flat in words:
            if term in said:
                own, near = own + flat, near + weight
            elif term in about or term in named:
                near += weight
            elif term in around:
                beside += weight / 2
        own, near = own / total_flat, near / total
        score = OWN * own + (1 - OWN) * (near + beside / total) + LEAST_COSINE
        if item.cosine is not None:
            score *= math.exp(MEANING * (item.cosine - mean) / spread)
        if rules.quantities and needs.has_value(item.terms):
            score *= VALUED
        way = None if item.cosine is None else max(0.0, (item.cosine - ground) / (1 - ground) if ground < 1 else 0.0)
        found.append(AnswerCandidate(item, own, near, way, score))
    best = nlargest(MOST_FORMED, found, key=lambda item: item.score)
    formed = [replace(item, score=item.score * _form(item.statement, needs, rules)) for item in best]
    return sorted(formed, key=lambda item: -item.score)


def _form(item: Statement, needs: Needs, rules: Rules) -> float:
    """Return the factor for the beginning and the script of a statement."""
    text = item.parts[-1].sentence.text if len(item.parts) > 1 and not item.rest else item.parts[0].sentence.text
    factor = DEFINING if rules.definitions and needs.defined_by(text) else 1.0
    factor *= SUBJECT if rules.subjects and needs.begins(item.parts[0].sentence.text) else 1.0
    factor *= PARTIAL if rules.subjects and needs.partial(item.parts[0].sentence.text) else 1.0
    return factor if language_of(text) == language_of(needs.question) else factor * OTHER_SCRIPT


def _measure(cosines: Sequence[float | None], alike: Sequence[float]) -> tuple[float, float, float]:
    """Return mean and spread of the cosines, and the mean of the cosines of other candidates as the baseline."""
    known = [near for near in cosines if near is not None]
    if not known:
        return 0.0, 1.0, 0.0
    mean = sum(known) / len(known)
    spread = math.sqrt(sum((near - mean) ** 2 for near in known) / len(known)) or 1.0
    others = sorted(set(alike))[:-1]
    return mean, spread, sum(others) / len(others) if others else mean


def _names(passage: ContextPassage) -> frozenset[str]:
    """Return the words of a document's path, which users may use as its name."""
    return frozenset(terms_of(_SEPARATORS.sub(" ", passage.chunks[0].uri)))


def extract_answer(
    question: str,
    context: Sequence[ContextPassage],
    weigh: Weigh,
    least: float,
    alike: Sequence[float] = (),
    said: Reading = frozenset,
    unknown: Collection[str] = (),
    rules: Rules = ALL,
) -> Answer:
    """Return the statement that answers the question best, word for word, with the sentences that belong to it.

    For the difference of two things, return one statement for each if no statement mentions both. Decline if no
    statement covers at least `least` of the question, or has the kind of value asked for. `alike` has the cosines of
    other candidates, and `unknown` the words of the question that no document has.
    """
    evidence = evidence_of(context, said)
    needs = needs_of(question, weigh, partial(_vocabulary, evidence), unknown if rules.spelling else ())
    ranked = candidates(needs, statements_of(evidence, rules), alike, rules)
    sides = differing(question)
    if sides and ranked and rules.one:
        pair = _of_each(sides, needs, ranked, weigh, least)
        if pair:
            return Answer(tuple(_verbatim(item.statement) for item in pair))
    found = [
        item for item in ranked if item.score >= NEAR_BEST * ranked[0].score and _answers(item, needs, least, rules)
    ]
    if not found:
        return Answer(notes=(_why_declined(needs, ranked, least),))
    return Answer(tuple(_verbatim(item.statement) for item in found[: 1 if rules.one else MOST_SENTENCES]))


def _vocabulary(evidence: Sequence[Evidence]) -> frozenset[str]:
    return frozenset().union(*(item.terms | item.about for item in evidence))


def _answers(item: AnswerCandidate, needs: Needs, least: float, rules: Rules) -> bool:
    """Say whether a statement answers: it covers enough of the question, has its numbers, and has a value of the kind
    asked for."""
    if item.borne < least or not item.near:
        return False
    if rules.clauses and _missing_numbers(item, needs):
        return False
    return not (rules.quantities and needs.lacks(item.statement.terms, item.statement.text))


def _missing_numbers(item: AnswerCandidate, needs: Needs) -> frozenset[str]:
    """Return the question's numbers that neither the statement has, nor its headings, nor its document's names."""
    said = item.statement.terms | item.statement.evidence.about | _names(item.statement.evidence.passage)
    return needs.numbers - needs.with_forms(said, item.statement.parts)


def _of_each(
    sides: tuple[str, str], needs: Needs, ranked: Sequence[AnswerCandidate], weigh: Weigh, least: float
) -> list[AnswerCandidate]:
    """Return the best statement that names both compared things, or else the best statement for each."""
    named = [frozenset(weigh(set(terms_of(side)))) for side in sides]
    if not all(named) or named[0] == named[1]:
        return []
    able = [item for item in ranked if not needs.tells_of_difference(item.statement.text)]
    both = [item for item in able if named[0] | named[1] <= needs.with_forms(item.statement.terms, ())]
    if both:
        best = max(both, key=lambda item: item.score * (CONTRASTED if contrasts(item.statement.text) else 1))
        return [best] if best.borne >= least else []
    first, second = (
        next((item for item in able if own <= item.statement.terms and not other & item.statement.terms), None)
        for own, other in (named, named[::-1])
    )
    return [item for item in (first, second) if item] if first and second else []


MOST_NUMBERS_TOLD = 3
NO_SUMMARY = (
    "no statement sums a document up, and the index has no summary of it; ask for one fact, or let `pincite index` "
    "keep summaries (enrichment.summary)"
)


def named_document(question: str, passages: Sequence[Passage]) -> Passage | None:
    """Return the first passage of a document whose title or path has a word of the question."""
    asked = content_terms(question)
    for passage in passages:
        if not asked.isdisjoint(terms_of(_SEPARATORS.sub(" ", f"{passage.title} {passage.uri}"))):
            return passage
    return None


def summary_answer(passage: Passage, summary: str, generated: bool) -> Answer:
    """Return the summary of a passage's document, as the index keeps it."""
    text = " ".join(defuse(summary).split())
    name = " ".join(defuse(passage.title).split()) or defuse(passage.uri)
    citation = Citation(
        name, passage.source, passage.uri, None, text, passage.chunk_id, generated=generated, stripped=text != summary
    )
    return Answer((Claim(text, (citation,), end=""),))


def _why_declined(needs: Needs, ranked: Sequence[AnswerCandidate], least: float) -> str:
    near = [item for item in ranked if item.near]
    borne = max((item.borne for item in near), default=0.0)
    if borne and borne >= least:
        missing = [_missing_numbers(item, needs) for item in near if item.borne >= least]
        if all(missing):
            told = " and ".join(sorted(frozenset[str].intersection(*missing) or missing[0])[:MOST_NUMBERS_TOLD])
            return f"the nearest statements do not speak of {told}, which the question names"
        return "the nearest statements have no value such as the question asks for"
    return (
        "no statement matches the question closely enough to quote: try other words, or lower query.answer_support "
        f"({least:.2f}; the nearest has {borne:.2f})"
    )


def _verbatim(item: Statement) -> Claim:
    return Claim(item.text, (citation_of(item.evidence, item),), end="")


def choose_option(
    question: str,
    options: Mapping[str, str],
    context: Sequence[ContextPassage],
    weigh: Weigh,
    least: float,
    alike: Sequence[float] = (),
    said: Reading = frozenset,
    unknown: Collection[str] = (),
) -> Answer:
    """Return the option that the passages support best by its own words, with the supporting statement.

    Decline if no statement covers the question, or no statement supports one option more than the others.
    """
    evidence = evidence_of(context, said)
    needs = needs_of(question, weigh, partial(_vocabulary, evidence), unknown)
    statements = statements_of(evidence)
    ranked = candidates(needs, statements, alike)
    if not any(item.borne >= least for item in ranked):
        return Answer(notes=(_why_declined(needs, ranked, least),))
    names = {passage.number: _names(passage) for passage in context}
    places = list(places_of(needs, evidence, statements, names))
    found = best_supported(question, options_of(options, question, weigh), needs, places)
    if found is None:
        return Answer(notes=("no statement tells one option from the others",))
    letter, best = found
    quoted = next((item for item in statements if item.evidence is best and not item.rest), None)
    return Answer((option_claim(letter, options[letter], best, quoted),), letter)


def option_claim(letter: str, text: str, evidence: Evidence, statement: Statement | None = None) -> Claim:
    return Claim(f"{letter}: {defuse(text)}", (citation_of(evidence, statement),), end="")


def answer_json(question: str, answer: Answer, hits: Sequence[Hit], with_options: bool) -> dict[str, Any]:
    """Return the JSON of `ask`. `option` is present only if there were options, and is null if no option was chosen.
    `marked` is present only if there are marked sentences, and `active_text_removed` only if it is true."""
    return {
        "query": question,
        "answer": answer.text,
        "declined": answer.is_declined,
        **({"option": answer.option} if with_options else {}),
        "citations": [_citation_json(item) for item in answer.citations],
        **({"marked": [_citation_json(item) for item in answer.marked]} if answer.marked else {}),
        "hits": [hit_json(hit) for hit in hits],
        "generated": answer.model is not None,
        "model": answer.model,
        "notes": list(answer.notes),
    }


def _citation_json(item: Citation) -> dict[str, Any]:
    names = ("source", "uri", "page", "quote", "chunk_id", "generated")
    told = {name: getattr(item, name) for name in names} | {"sentence_id": item.sentence_id or None}
    return told | ({"active_text_removed": True} if item.stripped else {})


def marked_of(question: str, context: Sequence[ContextPassage]) -> tuple[Citation, ...]:
    """Return the sentences that give orders to a model and share words with the question, quoted for people, not
    evidence."""
    asked = content_terms(question)
    found = [item for item in orders_in(context) if asked & item.terms]
    return tuple(citation_of(item) for item in found[:MOST_MARKED])


# ---------------------------------------------------------------- claims of a reply


NOT_ANSWERED = "NOT ANSWERED"
ANSWER_TOKENS, CHOICE_TOKENS = 1_000, 200
LONGEST_ANSWER = 4_000
CLAIM_SUPPORT = 0.5
"""Share of a claim's content words, by weight, that the passages it cites must hold."""

_CITED = re.compile(r"(?<!\s)\s*+((?:\[\s*+\d++(?:\s*+[,;]\s*+\d++)*+\s*+\][\s,;]*+)++)")
_SENTENCES = re.compile(r"(?<=[.!?…])\s+(?=[^\W\d_a-zа-яіїєґ]|[\"“«(])")
_MARK = re.compile(r"(?<![.!?…])[.!?…]++$")
_NAME = re.compile(r"(?<=\s)[^\W\d_a-zа-яіїєґ]\w+")
_NUMBERED = re.compile(r"^([^\S\n]*+)\[(\d++)\]", re.MULTILINE)
_DECLINED = re.compile(rf"[\W\d]*{NOT_ANSWERED}[\W\d]*", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_GIVEN = re.compile(
    r"\b(?:passage|document|source|text|context|information|answer|уривк|документ|джерел|текст|контекст|інформац"
    r"|відомост|відпові)",
    re.IGNORECASE,
)
_LOOK_ALIKES = str.maketrans("АВСЕНІКМОРТХ", "ABCEHIKMOPTX")


@dataclass(frozen=True, slots=True)
class Said:
    """A claim of a reply, and the passages that it cites by number."""

    text: str
    numbers: tuple[int, ...]
    end: str = "."


# ---------------------------------------------------------------- text for prompts


def passages_shown(context: Sequence[ContextPassage]) -> str:
    """Return the passages, numbered, for a prompt; lines of a passage that look like such a number are changed."""
    parts = []
    for passage in context:
        headings = " › ".join(passage.chunks[0].header_chain)
        text = _NUMBERED.sub(r"\1(\2)", "\n".join(filter(None, [passage.label, headings, passage.text])))
        parts.append(f"[{passage.number}] {as_data(text)}")
    return "\n\n".join(parts)


def options_shown(options: Mapping[str, str]) -> str:
    return "\n".join(f"{letter}: {as_data(text)}" for letter, text in options.items())


# ---------------------------------------------------------------- reading replies


def said_in(reply: str) -> list[Said]:
    """Return claims in order: each a sentence, or a part of one, up to the numbers that it cites."""
    text = clean(reply, LONGEST_ANSWER)
    found: list[Said] = []
    parts = _CITED.split(text)
    for stretch, cited in zip(parts[::2], [*parts[1::2], ""], strict=True):
        sentences = [item.strip() for item in _SENTENCES.split(stretch.lstrip(" .,;:!?…"))]
        sentences = [item for item in sentences if re.search(r"\w", item)]
        numbers = tuple(dict.fromkeys(numbers_of(cited)))
        for at, sentence in enumerate(sentences, start=1):
            mark = _MARK.search(sentence)
            own = numbers if at == len(sentences) else ()
            found.append(Said(_MARK.sub("", sentence), own, mark.group() if mark else "."))
    return found


def declines(reply: str) -> bool:
    """Say whether a reply, or its first line, is NOT_ANSWERED, or begins by saying so in other words."""
    first = next(filter(str.strip, _THOUGHT_END.split(reply)[-1].splitlines()), "")
    return any(_DECLINED.fullmatch(clean(text, LONGEST_ANSWER)) for text in (reply, first)) or _finds_nothing(reply)


def _finds_nothing(reply: str) -> bool:
    """Say whether the first sentence refuses, cites nothing, and mentions the material that the model was given. Any
    other refusal says nothing about the passages."""
    first = next(iter(said_in(reply)), Said("", ()))
    refused = unusable(Reply(first.text), LONGEST_ANSWER) is not None
    return refused and not first.numbers and _GIVEN.search(first.text) is not None


def letter_of(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the option that a reply names by its letter, or None if it names no option or several."""
    text = clean(reply, LONGEST_ANSWER)
    found: list[str] = re.findall(r"\b\w\b", text)
    words = [word if word in options else word.translate(_LOOK_ALIKES) for word in found]
    if words and words[0] in options and re.match(r"\W*\w(?:\W*$|[\s.):]*\[)", text):
        return words[0]
    named = {word for word in words if word in options}
    return named.pop() if len(named) == 1 else None


def _problem(reply: Reply) -> str | None:
    return None if declines(reply.text) else unusable(reply, LONGEST_ANSWER)


# ---------------------------------------------------------------- checking claims


class Checker:
    """A check of claims against one context and question."""

    def __init__(self, question: str, context: Sequence[ContextPassage], weigh: Weigh) -> None:
        self._weigh = weigh
        self._words = frozenset(terms_of(question))
        self._asked = weigh(self._words)
        self._count = len(context)
        self.evidence = evidence_of(context)
        self.statements = statements_of(self.evidence)
        self._read = {id(item): frozenset(read(item.text)) for item in self.statements}
        self._of: dict[int, list[Statement]] = {}
        for item in self.statements:
            self._of.setdefault(item.evidence.passage.number, []).append(item)

    def check(self, said: Said) -> Claim | str:
        """Return the claim with its places, or the reason to drop it."""
        shown = f"{said.text[:80]!r} was dropped: "
        if gives_orders(said.text):
            return shown + "it repeats an order found in a document"
        known = [number for number in said.numbers if 1 <= number <= self._count]
        if said.numbers and not known:
            cited = ", ".join(f"[{number}]" for number in said.numbers)
            return shown + f"it cites {cited}, which is not in the context"
        groups = [known] if known else [[number] for number in range(1, self._count + 1)]
        places = max((self._places(said.text, group) for group in groups), key=lambda found: found[0])
        if not places[1]:
            return shown + ("the passage it cites does not say so" if known else "it cites nothing that says so")
        return Claim(defuse(said.text), tuple(citation_of(item.evidence, item) for item in places[1]), said.end)

    def _places(self, claim: str, numbers: Sequence[int]) -> tuple[float, list[Statement]]:
        """Return how far the numbered passages support a claim, and one supporting statement of each. Return 0.0 and no
        statement if a name of the claim is missing in them, or if the numbers and most words of a clause are in no
        single statement."""
        terms = set(terms_of(claim))
        wanted = self._weigh(terms) or self._asked
        cited = [self._of[number] for number in numbers if number in self._of]
        first = [statements[0].evidence for statements in cited]
        held = {term for item in first for term in item.about | item.around}  # the same of a passage's sentences
        support = share(wanted, held)
        names = set(terms_of(" ".join(_NAME.findall(claim)))) - self._words
        if support < CLAIM_SUPPORT or not names <= held or not all(self._clause_verdicts(claim, cited)):
            return 0.0, []
        best = [max(own, key=lambda item: (share(wanted, item.terms), -len(item.terms))) for own in cited]
        return support, [item for item in best if share(wanted, item.terms) and self._relevant(item, terms)]

    def _clause_verdicts(self, claim: str, cited: Sequence[Sequence[Statement]]) -> Iterator[bool]:
        """Yield for each clause with numbers whether one statement has these numbers and most of its words."""
        for clause in clauses_of(claim):
            if numbers := clause.numbers:
                words = self._weigh(clause.words)
                yield any(
                    numbers <= self._read[id(item)]
                    and (not words or share(words, item.terms, item.evidence.about) >= CLAIM_SUPPORT)
                    for own in cited
                    for item in own
                )

    def holds_numbers(self, option: str, passages: Collection[int]) -> bool:
        """Say whether a statement in the named passages, or in any passage if none are named, has the numbers of an
        option."""
        numbers = {term for term in read(option) if term[0].isdigit()}
        return not numbers or any(
            numbers <= self._read[id(item)]
            for item in self.statements
            if not passages or item.evidence.passage.number in passages
        )

    def _relevant(self, item: Statement, terms: set[str]) -> bool:
        """Say whether the statement or its headings share a word with the question."""
        return not self._asked or any(term in self._asked for term in terms | item.terms | item.evidence.about)


# ---------------------------------------------------------------- asking the model


def _ask_model(
    model: LanguageModel, template: PromptTemplate, tokens: int, problem: ReplyCheck, **values: str
) -> Reply | str:
    """Return the model's reply, or the reason that it gave no reply."""
    system, user = template.render(**values)
    (reply,) = model.replies([Prompt(system, user, tokens)], problem)
    if isinstance(reply, NoReply):
        return f"{model.name} gave no answer ({reply.code}: {reply.message}); these are the best supported sentences"
    return reply


def write_answer(
    question: str,
    context: Sequence[ContextPassage],
    model: LanguageModel,
    template: PromptTemplate,
    weigh: Weigh,
) -> Answer | str:
    """Return the model's answer, with dropped claims in `notes`; or return the reason that there is no answer."""
    values = {"question": as_data(question), "passages": passages_shown(context)}
    reply = _ask_model(model, template, ANSWER_TOKENS, _problem, **values)
    if isinstance(reply, str):
        return reply
    if declines(reply.text):
        return Answer(model=model.name, notes=("the passages do not answer the question, says the model",))
    checker = Checker(question, context, weigh)
    found = [checker.check(said) for said in said_in(reply.text)]
    kept = tuple(item for item in found if isinstance(item, Claim))
    return Answer(kept, model=model.name, notes=tuple(item for item in found if isinstance(item, str)))


def pick_option(
    question: str,
    options: Mapping[str, str],
    context: Sequence[ContextPassage],
    model: LanguageModel,
    template: PromptTemplate,
    weigh: Weigh,
) -> Answer | str:
    """Return the option whose letter the model names, as an answer; or return the reason that there is no answer."""

    def problem(reply: Reply) -> str | None:
        why = _problem(uncut(reply))
        return why or (None if declines(reply.text) or letter_of(reply.text, options) else "it names no one option")

    values = {"question": as_data(question), "options": options_shown(options), "passages": passages_shown(context)}
    reply = _ask_model(model, template, CHOICE_TOKENS, problem, **values)
    if isinstance(reply, str):
        return reply
    letter = letter_of(reply.text, options)
    if letter is None or declines(reply.text):
        return Answer(model=model.name, notes=("the passages do not decide between the options, says the model",))
    checker = Checker(question, context, weigh)
    numbers = {number for said in _CITED.findall(reply.text) for number in numbers_of(said)}
    cited = [item for item in checker.evidence if not numbers or item.passage.number in numbers]
    wanted = weigh(set(terms_of(f"{question} {options[letter]}")))
    if not cited or not coverage(wanted, cited) or not checker.holds_numbers(options[letter], numbers):
        note = f"{letter} was dropped: it cites nothing in the context that speaks of it"
        return Answer(model=model.name, notes=(note,))
    return Answer((option_claim(letter, options[letter], best_of(cited, wanted)),), letter, model.name)
