"""Which claims an answer makes and which places support each: sentences quoted, or written by a model and checked.

No language model is needed: the answer is then the best supported sentences, verbatim. If there is a model, its reply
is split into claims. A claim stays if the passages it cites hold enough of its content words, every number in it, and
every name that is not in the question. A claim that cites nothing stays with the one passage that supports it, if there
is one. Nothing is said without a place, and if nothing remains the question is declined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.defused_text import defuse
from pipelines.llm.prompts import PromptTemplate, as_data
from pipelines.llm.reply_text import clean, unusable
from pipelines.ports import LanguageModel, NoReply, Prompt, Reply, ReplyCheck
from pipelines.query.assemble import ContextPassage, place
from pipelines.query.results import Hit, hit_json
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
    support,
)
from pipelines.query.tools import numbers_of, uncut
from pipelines.records import DESCRIPTION
from pipelines.terms import terms_of

# ---------------------------------------------------------------- answers


MOST_SENTENCES = 3
MOST_MARKED = 3
LEAST_COSINE = 0.01
NEAR_BEST = 0.75
"""Share of the best sentence's score that a further sentence must reach to be quoted too."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in the context: the sentence word for word, with its page. `name` is the document's. `generated` is true
    if a language model wrote the sentence, as in the description of a figure; `stripped` is true if links, tags or
    other active text were taken out of the quote."""

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
    """A statement, without the mark it ends with, and the places that support it."""

    text: str
    citations: tuple[Citation, ...]
    end: str = "."

    @property
    def shown(self) -> str:
        pins = "; ".join(dict.fromkeys(item.pin for item in self.citations))
        return f"{self.text} [{pins}]{self.end}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; `claims` is empty if the question is declined. `model` is the language model that wrote them, if any;
    `notes` say what was left out, and why. `marked` are sentences that give orders to a model: they are quoted, but
    never evidence."""

    claims: tuple[Claim, ...] = ()
    option: str | None = None
    model: str | None = None
    notes: tuple[str, ...] = ()
    marked: tuple[Citation, ...] = ()

    @property
    def declined(self) -> bool:
        return not self.claims

    @property
    def text(self) -> str:
        return " ".join(claim.shown for claim in self.claims)

    @property
    def citations(self) -> list[Citation]:
        """The places of all claims, each once."""
        return list(dict.fromkeys(citation for claim in self.claims for citation in claim.citations))


def citation_of(evidence: Evidence) -> Citation:
    passage: ContextPassage = evidence.passage
    first, sentence = passage.chunks[0], evidence.sentence
    written = any(DESCRIPTION in item.block_types for item in passage.chunks if item.chunk_id == sentence.chunk_id)
    return Citation(passage.name, first.source, first.uri, sentence.page, sentence.text, sentence.chunk_id,
                    sentence.sentence_id, written, sentence.stripped)  # fmt: skip


def best_of(evidence: Sequence[Evidence], wanted: Weights) -> Evidence:
    """Return the sentence that supports most; on a tie the first in reading order."""
    return max(evidence, key=lambda item: (item.support(wanted), share(wanted, item.terms)))


def extracted(
    question: str,
    context: Sequence[ContextPassage],
    weigh: Weigh,
    least: float,
    alike: Sequence[float] = (),
    said: Reading = frozenset,
) -> Answer:
    """Return the sentences that answer the question best, by their words and their cosine, best first and word for
    word.

    Decline if the support of the question is under `least`; `alike` is passed to `support`."""
    wanted, evidence = weigh(set(terms_of(question))), evidence_of(context, said)
    if (refused := _refused(wanted, evidence, alike, least)) is not None:
        return refused
    scores = answering([item.support(wanted) for item in evidence], [item.sentence.cosine for item in evidence])
    ranked = sorted(range(len(evidence)), key=lambda at: -scores[at])[:MOST_SENTENCES]
    return Answer(tuple(_verbatim(evidence[at]) for at in ranked if scores[at] >= NEAR_BEST * scores[ranked[0]]))


def answering(supports: Sequence[float], cosines: Sequence[float | None]) -> list[float]:
    """Return how well each sentence answers a question: its support times its cosine, so that among sentences with the
    same words the one closest in meaning comes first. A sentence without a cosine gets the mean of the others."""
    known = [max(near, LEAST_COSINE) for near in cosines if near is not None]
    mean = sum(known) / len(known) if known else 1.0
    factors = [mean if near is None else max(near, LEAST_COSINE) for near in cosines]
    return [held * factor for held, factor in zip(supports, factors, strict=True)]


def _refused(wanted: Weights, evidence: Sequence[Evidence], alike: Sequence[float], least: float) -> Answer | None:
    held, borne = coverage(wanted, evidence), support(wanted, evidence, alike)
    if borne >= least and held:
        return None
    alone = "" if borne == held else f" and lacks the rarest, and no sentence stands out much: support {borne:.2f}"
    return Answer(notes=(f"the best passage holds {held:.2f} of the question's words by weight{alone}; an answer needs "
                         f"{least:.2f} (query.answer_support)",))  # fmt: skip


def _verbatim(item: Evidence) -> Claim:
    return Claim(item.sentence.text, (citation_of(item),), end="")


def chosen(
    question: str,
    options: Mapping[str, str],
    context: Sequence[ContextPassage],
    weigh: Weigh,
    least: float,
    alike: Sequence[float] = (),
    said: Reading = frozenset,
) -> Answer:
    """Return the option whose own words occur with the question's in the best sentence. Decline if two options are
    equal or none is found, or if the question has too little support."""
    asked, evidence = set(terms_of(question)), evidence_of(context, said)
    wanted = weigh(asked)
    if (refused := _refused(wanted, evidence, alike, least)) is not None:
        return refused
    scores: list[tuple[float, str, Evidence]] = []
    for letter, text in options.items():
        terms = set(terms_of(text))
        own = weigh(terms - asked or terms)
        best = max(evidence, key=lambda item: item.support(own) * item.support(wanted))
        scores.append((best.support(own) * best.support(wanted), letter, best))
    scores.sort(key=lambda score: -score[0])
    if not scores[0][0] or (len(scores) > 1 and scores[1][0] >= scores[0][0]):
        return Answer(notes=("the passages do not tell one option from the others",))
    _, letter, best = scores[0]
    return Answer((option_claim(letter, options[letter], best),), letter)


def option_claim(letter: str, text: str, evidence: Evidence) -> Claim:
    return Claim(f"{letter}: {defuse(text)}", (citation_of(evidence),), end="")


def answer_json(question: str, answer: Answer, hits: Sequence[Hit], with_options: bool) -> dict[str, Any]:
    """Return the JSON of `ask`. `option` is present only if there were options, and null if none was chosen; `marked`
    only if there are marked sentences; `active_text_removed` only if it is true."""
    return {
        "query": question,
        "answer": answer.text,
        "declined": answer.declined,
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
    """Return the passages as a prompt shows them, numbered; none of their own lines can pass for a number."""
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
    """Return the one option that a reply names by its letter, or None if it names none or several."""
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
        self._of: dict[int, list[Evidence]] = {}
        for item in self.evidence:
            self._of.setdefault(item.passage.number, []).append(item)

    def checked(self, said: Said) -> Claim | str:
        """Return the claim with its places, or why it is dropped."""
        shown = f"{said.text[:80]!r} was dropped: "
        if gives_orders(said.text):
            return shown + "it repeats an order found in a document"
        known = [number for number in said.numbers if 1 <= number <= self._count]
        if said.numbers and not known:
            cited = ", ".join(f"[{number}]" for number in said.numbers)
            return shown + f"it cites {cited}, which is not in the context"
        terms = set(terms_of(said.text))
        exact = {term for term in terms if term[0].isdigit()} | set(
            terms_of(" ".join(_NAME.findall(said.text)))
        ) - self._words
        groups = [known] if known else [[number] for number in range(1, self._count + 1)]
        places = max((self._places(terms, exact, group) for group in groups), key=lambda found: found[0])
        if not places[1]:
            return shown + ("the passage it cites does not say so" if known else "it cites nothing that says so")
        return Claim(defuse(said.text), tuple(citation_of(item) for item in places[1]), said.end)

    def _places(self, terms: set[str], exact: set[str], numbers: Sequence[int]) -> tuple[float, list[Evidence]]:
        """Return how far the numbered passages support the terms, and a sentence of each that does; 0.0 and none if
        they lack one of the exact terms."""
        wanted = self._weigh(terms) or self._asked
        cited = [self._of[number] for number in numbers if number in self._of]
        held = {term for first, *_ in cited for term in first.about | first.around}  # the same of a passage's sentences
        support = share(wanted, held)
        if support < CLAIM_SUPPORT or not exact <= held:
            return 0.0, []
        best = [best_of(items, wanted) for items in cited]
        return support, [item for item in best if share(wanted, item.terms) and self._relevant(item, terms)]

    def _relevant(self, item: Evidence, terms: set[str]) -> bool:
        """Say whether the claim, its sentence or the headings above share a word with the question."""
        return not self._asked or any(term in self._asked for term in terms | item.terms | item.about)


# ---------------------------------------------------------------- asking the model


def _asked(
    model: LanguageModel, template: PromptTemplate, tokens: int, problem: ReplyCheck, **values: str
) -> Reply | str:
    """Return the model's reply, or why there is no reply."""
    system, user = template.render(**values)
    (reply,) = model.replies([Prompt(system, user, tokens)], problem)
    if isinstance(reply, NoReply):
        return f"{model.name} gave no answer ({reply.code}: {reply.message}); these are the best supported sentences"
    return reply


def written(
    question: str,
    context: Sequence[ContextPassage],
    model: LanguageModel,
    template: PromptTemplate,
    weigh: Weigh,
) -> Answer | str:
    """Return the model's answer, with dropped claims in `notes`, or a text that says why it gave none."""
    values = {"question": as_data(question), "passages": passages_shown(context)}
    reply = _asked(model, template, ANSWER_TOKENS, _problem, **values)
    if isinstance(reply, str):
        return reply
    if declines(reply.text):
        return Answer(model=model.name, notes=("the passages do not answer the question, says the model",))
    checker = Checker(question, context, weigh)
    found = [checker.checked(said) for said in said_in(reply.text)]
    kept = tuple(item for item in found if isinstance(item, Claim))
    return Answer(kept, model=model.name, notes=tuple(item for item in found if isinstance(item, str)))


def picked(
    question: str,
    options: Mapping[str, str],
    context: Sequence[ContextPassage],
    model: LanguageModel,
    template: PromptTemplate,
    weigh: Weigh,
) -> Answer | str:
    """Return the option that the model names by its letter, as an answer, or a text that says why it gave none."""

    def problem(reply: Reply) -> str | None:
        why = _problem(uncut(reply))
        return why or (None if declines(reply.text) or letter_of(reply.text, options) else "it names no one option")

    values = {"question": as_data(question), "options": options_shown(options), "passages": passages_shown(context)}
    reply = _asked(model, template, CHOICE_TOKENS, problem, **values)
    if isinstance(reply, str):
        return reply
    letter = letter_of(reply.text, options)
    if letter is None or declines(reply.text):
        return Answer(model=model.name, notes=("the passages do not decide between the options, says the model",))
    checker = Checker(question, context, weigh)
    numbers = {number for said in _CITED.findall(reply.text) for number in numbers_of(said)}
    cited = [item for item in checker.evidence if not numbers or item.passage.number in numbers]
    wanted = weigh(set(terms_of(f"{question} {options[letter]}")))
    if not cited or not coverage(wanted, cited):
        note = f"{letter} was dropped: it cites nothing in the context that speaks of it"
        return Answer(model=model.name, notes=(note,))
    return Answer((option_claim(letter, options[letter], best_of(cited, wanted)),), letter, model.name)
