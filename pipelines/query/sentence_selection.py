"""The third stage of the sentence route: what was reached, scored and chosen paragraph by paragraph.

score = density + keywords - crowding, in hundredths: density is at most 100.

- density: half of the nearness of the paragraph's best sentence and half of the mean of all of its
  sentences, those that were not found counting nothing. The nearness of a sentence is its cosine and its
  chunk's BM25, each stretched to [0, 1] and joined; a repeat of a sentence that
  is nearer counts nothing;
- keywords: `query.sentence.keywords` times the share of the question's content words, by idf, that the
  paragraph, its title and the headings above it hold;
- crowding: `query.sentence.crowding` for each paragraph of the same chunk that scores higher without it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pipelines.ports import FoundSentence, ParagraphKey, Passage
from pipelines.query.results import Scored
from pipelines.query.support import Weights, share
from pipelines.terms import terms_of

BEST_SHARE = 0.5
"""Of density, the share of the best sentence; the rest is the mean's."""
ALL = 100.0
BEGINNING = 3
"""Letters that words of one term have in common, but for a handful such as `dying`, which is `die`."""
_WORD = re.compile(r"\w+")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Near:
    """A sentence and its nearness, in [0, 1], with the share that the terms of its chunk have in it."""

    sentence: FoundSentence
    score: float
    lexical: float


@dataclass(slots=True)
class Place:
    """A paragraph that was reached. `edge` as of Reached, empty where nothing but its own sentences led here;
    `near` are its sentences, best first, and `anchors` those that were expanded."""

    key: ParagraphKey
    near: list[Near] = field(default_factory=list)
    anchors: list[Near] = field(default_factory=list)
    edge: str = ""
    via: str = ""
    similarity: float | None = None

    @property
    def doc_id(self) -> str:
        return self.near[0].sentence.doc_id


def plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def ordered(sentences: Iterable[Near]) -> list[Near]:
    """By falling nearness, ties by id."""
    return sorted(sentences, key=lambda near: (-near.score, near.sentence.sentence_id))


def distinct(ranked: Iterable[Near]) -> Iterator[Near]:
    """Without those that say nothing but what a better one says, as boilerplate does: the same text, or one
    that stands whole in it."""
    said: list[str] = []
    for near in ranked:
        text = f" {plain(near.sentence.text)} "
        if not any(text in other for other in said):
            said.append(text)
            yield near


class Overlap:
    """The share of a question's content words, by weight, that a text holds.

    To stem all words of all paragraphs would cost more than the search. A word of plain letters that begins
    otherwise than all of these is passed over."""

    def __init__(self, question: str, wanted: Weights) -> None:
        own = {word for word in _WORD.findall(question.casefold()) if wanted.keys() & set(terms_of(word))}
        begins = sorted({word[:BEGINNING] for word in own | wanted.keys()})
        self._wanted = wanted
        self._other = re.compile(rf"\b(?!{'|'.join(map(re.escape, begins))})(?:[a-z]+|[а-яіїє]+)\b")

    def __call__(self, text: str) -> float:
        return share(self._wanted, set(terms_of(self._other.sub(" ", text.casefold()))))


def scored(place: Place, passage: Passage, sentences: int, overlap: Overlap, keywords: float) -> Scored:
    """The paragraph with its score and every factor of it; `sentences` is how many it has. Beside the factors it
    reports the cosine of its nearest sentence, and its chunk's share of the question's words."""
    best = place.near[0]
    mean = sum(near.score for near in place.near) / max(sentences, len(place.near))
    text = "\n".join([passage.title, *passage.header_chain, passage.text])
    factors = {
        "sentence.density": ALL * (BEST_SHARE * best.score + (1 - BEST_SHARE) * mean),
        "sentence.keywords": keywords * overlap(text),
    }
    score = sum(factors.values())
    told = {"sentence.dense": best.sentence.score, "sentence.lexical": best.lexical}
    return Scored(passage, score, {"sentence": score, **told, **factors})


def crowded(scores: Mapping[ParagraphKey, float], crowding: float) -> dict[ParagraphKey, float]:
    """What each score loses to better ones of its chunk, in the order of what remains; ties by key."""
    better: Counter[str] = Counter()
    taken = {}
    for key in sorted(scores, key=lambda key: (-scores[key], key)):
        taken[key] = crowding * better[key[0]]
        better[key[0]] += 1
    return dict(sorted(taken.items(), key=lambda item: (item[1] - scores[item[0]], item[0])))


def lessened(item: Scored, less: float) -> Scored:
    score = item.score - less
    return replace(item, score=score, scores={**item.scores, "sentence": score, "sentence.crowding": 0.0 - less})


def capped(items: Iterable[T], document: Callable[[T], str], most: int) -> list[T]:
    """In order, but what is beyond `most` of one document comes after all others."""
    seen: Counter[str] = Counter()
    first: list[T] = []
    rest: list[T] = []
    for item in items:
        seen[document(item)] += 1
        (first if seen[document(item)] <= most else rest).append(item)
    return [*first, *rest]
