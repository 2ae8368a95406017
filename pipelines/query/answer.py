"""What is answered, and from where: claims, each with the places that bear it out.

Without a language model the answer is the best supported sentences, verbatim. With one, its reply is taken
apart into claims (claims.py), and only those stay that the passages they cite bear out. Whoever
answers, nothing is said without a place, and where nothing remains the question is declined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.inert import inert
from pipelines.query.assemble import ContextPassage, place
from pipelines.query.results import Hit, hit_json
from pipelines.query.support import (
    Evidence,
    Weigh,
    Weights,
    content_terms,
    coverage,
    evidence_of,
    orders_in,
    share,
    support,
)
from pipelines.records import DESCRIPTION
from pipelines.terms import terms_of

MOST_SENTENCES = 3
MOST_MARKED = 3
LEAST_COSINE = 0.01
NEAR_BEST = 0.75
"""How well a further sentence must answer, as a part of how well the best one does."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in the context: the sentence word for word, with its page. `name` is the document's;
    `generated` where a language model wrote the sentence, as it does the description of a figure; `stripped` where
    links, tags or other active text were taken out of the quote."""

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
    """Something said, without the mark it ends with, and the places that bear it out."""

    text: str
    citations: tuple[Citation, ...]
    end: str = "."

    @property
    def shown(self) -> str:
        pins = "; ".join(dict.fromkeys(item.pin for item in self.citations))
        return f"{self.text} [{pins}]{self.end}"


@dataclass(frozen=True, slots=True)
class Answer:
    """`claims` is empty where the question is declined. `model` wrote them, if anything did; `notes` say
    what was left out, and why. `marked` are sentences that give orders to a model: quotations, and no evidence."""

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
        """Each place once."""
        return list(dict.fromkeys(citation for claim in self.claims for citation in claim.citations))


def citation_of(evidence: Evidence) -> Citation:
    passage: ContextPassage = evidence.passage
    first, sentence = passage.chunks[0], evidence.sentence
    written = any(DESCRIPTION in item.block_types for item in passage.chunks if item.chunk_id == sentence.chunk_id)
    return Citation(passage.name, first.source, first.uri, sentence.page, sentence.text, sentence.chunk_id,
                    sentence.sentence_id, written, sentence.stripped)  # fmt: skip


def best_of(evidence: Sequence[Evidence], wanted: Weights) -> Evidence:
    """The sentence that supports most; of equals the first, in reading order."""
    return max(evidence, key=lambda item: (item.support(wanted), share(wanted, item.terms)))


def extracted(
    question: str, context: Sequence[ContextPassage], weigh: Weigh, least: float, alike: Sequence[float] = ()
) -> Answer:
    """The sentences that answer the question best, by their words and their cosine, best first and word for word.

    Declined where the support of the question is under `least`; `alike` as of `support`."""
    wanted, evidence = weigh(set(terms_of(question))), evidence_of(context)
    if (refused := _refused(wanted, evidence, alike, least)) is not None:
        return refused
    scores = answering([item.support(wanted) for item in evidence], [item.sentence.cosine for item in evidence])
    ranked = sorted(range(len(evidence)), key=lambda at: -scores[at])[:MOST_SENTENCES]
    return Answer(tuple(_verbatim(evidence[at]) for at in ranked if scores[at] >= NEAR_BEST * scores[ranked[0]]))


def answering(supports: Sequence[float], cosines: Sequence[float | None]) -> list[float]:
    """How well each sentence answers a question: its support times its cosine, so that of sentences with the same words
    the one that means what was asked comes first. One without a cosine has the mean of the others'."""
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
) -> Answer:
    """The option whose own words stand beside the question's in the best sentence; declined where two are
    equal or none is found, and where the question has not support enough."""
    asked, evidence = set(terms_of(question)), evidence_of(context)
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
    return Claim(f"{letter}: {inert(text)}", (citation_of(evidence),), end="")


def answer_json(question: str, answer: Answer, hits: Sequence[Hit], with_options: bool) -> dict[str, Any]:
    """The JSON of `ask`; `option` only where there were options, null where none was chosen; `marked` only where there
    is something, and `active_text_removed` only where it is true."""
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
    """What gives orders to a model, where it speaks of what was asked; a quotation for people, and no evidence."""
    asked = content_terms(question)
    found = [item for item in orders_in(context) if asked & item.terms]
    return tuple(citation_of(item) for item in found[:MOST_MARKED])
