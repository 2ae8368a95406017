"""The measure of how far a text supports a question or claim: the share of its content words that the text contains.

Words are weighted by their idf in the generation, so a missing rare word counts more than a missing common one.
Question words and connecting words have no weight. Unlike a cosine, the scale is the same for every embedder, so one
threshold fits all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipelines.defused_text import defuse, fold
from pipelines.query.assemble import ContextPassage, QuotableSentence
from pipelines.terms import terms_of

Weights = Mapping[str, float]
Weigh = Callable[[Collection[str]], Weights]
"""A function from terms to their weights; terms without weight may be missing."""

Reading = Callable[[Iterable[str]], frozenset[str]]
"""A function from the terms of a text to the terms that it covers: its own, and equivalents of them."""

_FUNCTION_WORDS = frozenset(
    terms_of(
        "what which who whom whose when where why how much many long far often soon is are was were be been do does "
        "did can could may might must shall should will would have has had the a an of in on at to for from by with "
        "and or if it its that this these those there any than then as i you we they he she his her my your our their "
        "yes no not get got quickly large "
        "що який яка яке які якого якої яку яким якій яких хто кого кому чи коли де куди звідки як чому навіщо скільки "
        "може можуть має мають є бути був була було були у в на до з із зі за від для та і й або про при це цей ця ці "
        "той його її їх так ні не"
    )
)
_REST = 0.5
"""Share of a word's weight that counts if only the passage has the word, but neither the sentence nor the headings
above it."""
MOST_ORDERS = 100
"""Most sentences of a passage that are searched in all of its text, to remove them. More would take too long."""
_MACHINE = r"(?:ai|llm|gpt|ai assistant|(?:large )?language model|ai model|chat ?bot)"
_MODEL = rf"(?:assistant|{_MACHINE})"
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,60}\b(?:instructions?|prompts?|rules|above)\b"
    rf"|\b(?:system prompt|you are(?: now)? an? {_MODEL}|(?:as|if you are) an? {_MACHINE})\b"
    r"|\b(?:instructions?|message|note|attention|dear|hey|you)\W{1,3}(?:(?:to|for) )?(?:(?:the|any|all) )?"
    rf"{_MACHINE}s?\b"
    r"|\b(?:answer|respond|reply)\b.{0,30}\b(?:only|exactly|instead|nothing but)\b.{0,10}[:\"'“«‘]"
    r"|\b(?:reveal|repeat|print|show|send|leak)\b.{0,40}\byour (?:instructions|prompt|rules)\b"
    r"|\bdo not (?:tell|inform|warn) the user\b|<\|im_\w|\[/?inst\]|<</?sys>>|</?(?:system|assistant)>"
    r"|\b(?:про)?[іи]гнор\w*\b.{0,60}\b(?:вказів\w*|инструкц\w*|інструкц\w*|правил\w*|указани\w*)\b",
    re.DOTALL,
)


def is_content(term: str) -> bool:
    """Say whether a term belongs to a content word, and not to a question word or connecting word."""
    return term not in _FUNCTION_WORDS


def content_terms(text: str) -> set[str]:
    """Return the terms of a text, except question words and connecting words."""
    return {term for term in terms_of(text) if is_content(term)}


def weights_of(terms: Collection[str], documents: Mapping[str, int], total: int) -> dict[str, float]:
    """Return the idf of each content term. `documents` has the number of the `total` chunks that contain each term."""
    counts = {term: documents.get(term, 0) for term in terms if term not in _FUNCTION_WORDS}
    return {term: math.log(1 + (max(total - count, 0) + 0.5) / (count + 0.5)) for term, count in counts.items()}


def share(wanted: Weights, *found: Collection[str]) -> float:
    """Return the share of the wanted weight that the collections contain together, in [0, 1]; return 0 if nothing is
    wanted."""
    total = sum(wanted.values())
    held = (weight for term, weight in wanted.items() if any(term in each for each in found))
    return sum(held) / total if total else 0.0


def gives_orders(text: str) -> bool:
    """Say whether a sentence is addressed to a language model rather than a reader. Such a sentence is never
    evidence."""
    return _ORDERS.search(fold(text)) is not None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a passage with its terms, the terms of the headings above it, and the terms of the whole passage.
    Sentences that give orders to a model do not count for the passage."""

    passage: ContextPassage
    sentence: QuotableSentence
    terms: frozenset[str]
    about: frozenset[str]
    around: frozenset[str]

    def support(self, wanted: Weights) -> float:
        """Return the support in [0, 1]: words of the sentence and its headings count fully, words around it half."""
        near = share(wanted, self.terms, self.about)
        return near + _REST * (share(wanted, self.terms, self.about, self.around) - near)


def orders_in(context: Iterable[ContextPassage]) -> list[Evidence]:
    """Return every sentence of the context that gives orders to a model, with its own terms only."""
    nothing: frozenset[str] = frozenset()
    return [
        Evidence(passage, inert_sentence(item), frozenset(terms_of(item.text_after_lead)), nothing, nothing)
        for passage in context
        for item in passage.sentences
        if gives_orders(item.text_after_lead)
    ]


def inert_sentence(sentence: QuotableSentence) -> QuotableSentence:
    """Return the sentence after its lead, without active content such as links. A line that has only active content
    becomes empty."""
    text = defuse(sentence.text_after_lead)
    if text != sentence.text_after_lead:
        return replace(sentence, text=" ".join(text.split()), lead="", stripped=True)
    return replace(sentence, text=text, lead="") if sentence.lead else sentence


def evidence_of(context: Iterable[ContextPassage], said: Reading = frozenset) -> list[Evidence]:
    """Return every sentence of the context that may be quoted, in reading order. `said` returns the terms that a text
    covers, including its own."""
    found = []
    for passage in context:
        ordering = [item for item in passage.sentences if gives_orders(item.text_after_lead)]
        orders = dict.fromkeys(part for item in ordering for part in (item.text, item.lead) if part)
        own = [item for item in passage.sentences if item.text not in orders]
        sentences = [item for item in map(inert_sentence, own) if item.text]
        about = said(terms_of(passage.place_context))
        terms = [terms_of(item.text) for item in sentences]
        leads = dict.fromkeys(item.lead for item in own)
        rest = terms_of("\n".join([*_parts_between(_text_without(passage.text, orders, sentences), sentences), *leads]))
        around = said({*rest, *(term for each in terms for term in each)})
        found += [
            Evidence(passage, item, said(each), about, around) for item, each in zip(sentences, terms, strict=True)
        ]
    return found


def _parts_between(text: str, sentences: Sequence[QuotableSentence]) -> Iterator[str]:
    """Yield the parts of a text between the sentences, which occur in it in order."""
    at = 0
    for item in sentences:
        here = text.find(item.text, at)
        if here >= 0:
            yield text[at:here]
            at = here + len(item.text)
    yield text[at:]


def _text_without(text: str, orders: Collection[str], sentences: Sequence[QuotableSentence]) -> str:
    """Return the text without the orders in it. If there are more than MOST_ORDERS orders, return only the other
    sentences."""
    if len(orders) > MOST_ORDERS:
        return "\n".join(item.text for item in sentences)
    for order in orders:
        text = text.replace(order, "\n")
    return text


def coverage(wanted: Weights, evidence: Sequence[Evidence]) -> float:
    """Return the greatest share of the wanted weight that one passage contains, including its headings."""
    return max((share(wanted, item.about, item.around) for item in evidence), default=0.0)
