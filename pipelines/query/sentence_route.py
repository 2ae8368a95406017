"""The strategy `sentence`: it finds the nearest sentences and shows the paragraphs around them.

Three stages. Anchors: of the sentences nearest to the question, and those of the chunks that share most of its words,
the best few. Expansion: the paragraphs that the anchors stand in, then those of the sentences before and after them,
then those that they are RELATED_TO. Selection: all paragraphs that were reached are scored by one measure; further near
sentences bring theirs, so that no place stays empty.

score = density + keywords - crowding, in hundredths: density is at most 100.

- density: half of the nearness of the paragraph's best sentence and half of the mean of all of its sentences, those
  that were not found counting nothing. The nearness of a sentence is its cosine and its chunk's BM25, each stretched to
  [0, 1] and joined; a repeat of a sentence that is nearer counts nothing;
- keywords: `query.sentence.keywords` times the share of the question's content words, by idf, that the paragraph, its
  title and the headings above it hold;
- crowding: `query.sentence.crowding` for each paragraph of the same chunk that scores higher without it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from pipelines.ports import Anchor, FoundSentence, Paragraph, ParagraphKey, Passage, Reached, ReachedSentence
from pipelines.query.results import Found, Scored
from pipelines.query.routes import Asked, stretched
from pipelines.query.support import Weights, share, weights_of
from pipelines.settings.query import QuerySettings, SentenceRouteSettings
from pipelines.terms import terms_of

# ---------------------------------------------------------------- sentence selection
#
# The third stage of the sentence route: what was reached, scored and chosen paragraph by paragraph.
#
# score = density + keywords - crowding, in hundredths: density is at most 100.
#
# - density: half of the nearness of the paragraph's best sentence and half of the mean of all of its
# sentences, those that were not found counting nothing. The nearness of a sentence is its cosine and its
# chunk's BM25, each stretched to [0, 1] and joined; a repeat of a sentence that
# is nearer counts nothing;
# - keywords: `query.sentence.keywords` times the share of the question's content words, by idf, that the
# paragraph, its title and the headings above it hold;
# - crowding: `query.sentence.crowding` for each paragraph of the same chunk that scores higher without it.


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


# ---------------------------------------------------------------- sentence route
#
# The strategy `sentence`: the nearest sentences are found, what stands around them is shown.
#
# Three stages. Anchors: of the sentences nearest to the question, and those of the chunks that share most of its
# words, the best few. Expansion: the paragraphs that the anchors stand in, then those of the sentences before and
# after them, then those that they are RELATED_TO. Selection (sentence_selection.py): all paragraphs that were
# reached are scored by one measure; further near sentences bring theirs, so that no place stays empty.


SOURCES = frozenset({"paragraph", "table_row", "list_item", "figure_caption", "figure_description", "equation", "code"})
SENTENCES = 5
"""So many times the candidates are the nearest sentences that are ranked. Beside them stand those of the chunks
that share most of the question's words, half as many chunks as candidates."""
LEAD_IN = 0.5
"""What counts of a sentence that ends with a colon or question mark: it is near to a question, and what it announces
answers it."""
BY_TERMS = 10
"""So many times the candidates are looked up by terms: half of a candidate's worth of them bring their sentences, and
all of them tell the share of the question's words."""
WORDS = 1.25
"""What the words of a sentence's chunk weigh, against 1 of its own cosine."""
EDGES = ("anchor", "next", "previous", "related")
"""By priority: a paragraph that several edges lead to was reached by the first of them."""


class SentenceRoute:
    """One question's way through the sentences. Called with how many candidates are wanted."""

    def __init__(self, asked: Asked, settings: QuerySettings) -> None:
        self._asked, self._index, self._filters = asked, asked.index, asked.filters
        self._settings = settings.sentence
        self._vector = asked.vector
        self._terms = asked.question.terms
        words = asked.question.lexical or asked.question.text
        self._overlap = Overlap(words, weights_of(self._terms, *asked.index.frequencies(self._terms)))

    def __call__(self, depth: int) -> Found:
        """The best `depth` paragraphs; `dry` where there are no more."""
        wide, least = depth * SENTENCES, self._settings.least_confidence
        nearest = self._index.sentences(self._vector, wide, self._filters, least)
        by_terms = self._index.lexical(self._terms, depth * BY_TERMS, self._filters)
        best_chunks = [item.chunk_id for item in by_terms[: -(-depth // 2)]]
        beside = self._index.sentences_of(best_chunks, self._vector, self._filters, least)
        measure = _Nearness(
            nearest,
            dict(zip((item.chunk_id for item in by_terms), stretched([item.score for item in by_terms]), strict=True)),
        )
        near = measure.of(self._traceable([*nearest, *beside]))
        if not near:
            return Found([], len(nearest) < wide)
        anchors = list(islice(distinct(near), self._settings.anchors))
        ids = [anchor.sentence.sentence_id for anchor in anchors]
        reached = self._index.expanded(ids, self._settings.steps, self._vector, self._filters, least)
        near = measure.of(self._traceable([*(item.sentence for item in near), *(item.sentence for item in reached)]))
        places = _places(near, anchors, reached)
        chosen = _chosen(places, depth, self._settings)
        return Found(self._selected(chosen)[:depth], len(nearest) < wide and len(chosen) == len(places))

    def _traceable(self, sentences: Sequence[FoundSentence]) -> list[FoundSentence]:
        """Each once, without those of which the kind of source is not known, or the page where there are pages."""
        found = {sentence.sentence_id: sentence for sentence in sentences}
        kept = [
            sentence
            for sentence in found.values()
            if sentence.source in SOURCES and (sentence.page is not None or not sentence.paged)
        ]
        if len(kept) < len(found):
            self._asked.notes.append("sentence: what has no known page or kind of source was left out")
        return kept

    def _selected(self, places: Sequence[Place]) -> list[Scored]:
        """The paragraphs by their scores; at most so many of one document while others are to be had."""
        paragraphs = self._index.paragraphs([place.key for place in places], self._filters)
        keywords = self._settings.keywords
        found = {
            place.key: scored(place, _passage(place, paragraph), len(paragraph.boxes), self._overlap, keywords)
            for place in places
            if (paragraph := paragraphs.get(place.key))
        }
        taken = crowded({key: item.score for key, item in found.items()}, self._settings.crowding)
        best = [lessened(found[key], less) for key, less in taken.items()]
        chosen = capped(best, lambda item: item.passage.doc_id, self._settings.per_document)
        return [replace(item, ranks={"sentence": rank}) for rank, item in enumerate(chosen, start=1)]


class _Nearness:
    """How near a sentence is, in [0, 1]: its cosine, stretched between the nearest ones, and its chunk's share of
    the question's words."""

    def __init__(self, nearest: Sequence[FoundSentence], lexical: Mapping[str, float]) -> None:
        scores = [sentence.score for sentence in nearest]
        self._low, self._high = min(scores, default=0.0), max(scores, default=0.0)
        self._lexical = lexical

    def of(self, sentences: Sequence[FoundSentence]) -> list[Near]:
        """Best first. A sentence that says just what a better one says counts nothing."""
        said: set[str] = set()
        result = []
        for near in ordered(map(self._one, sentences)):
            text = plain(near.sentence.text)
            result.append(replace(near, score=0.0) if text in said else near)
            said.add(text)
        return ordered(result)

    def _one(self, sentence: FoundSentence) -> Near:
        width = self._high - self._low
        dense = min(max((sentence.score - self._low) / width, 0.0), 1.0) if width > 0 else 1.0
        lexical = self._lexical.get(sentence.chunk_id, 0.0)
        score = (dense + WORDS * lexical) / (1.0 + WORDS)
        return Near(sentence, score * LEAD_IN if sentence.text.endswith((":", "?")) else score, lexical)


def _places(near: Sequence[Near], anchors: Sequence[Near], reached: Sequence[ReachedSentence]) -> list[Place]:
    """Every paragraph that has a near sentence, in the order of its best one."""
    places: dict[ParagraphKey, Place] = {}
    for item in near:
        places.setdefault(item.sentence.place, Place(item.sentence.place)).near.append(item)
    for anchor in anchors:
        place = places[anchor.sentence.place]
        place.edge = "anchor"
        place.anchors.append(anchor)
    order = {anchor.sentence.sentence_id: rank for rank, anchor in enumerate(anchors)}
    for led in sorted(reached, key=lambda r: (EDGES.index(r.edge), r.steps, -(r.similarity or 0.0), order[r.via])):
        found = places.get(led.sentence.place)
        if found and not found.edge:
            found.edge, found.via, found.similarity = led.edge, led.via, led.similarity
    return list(places.values())


def _chosen(places: Sequence[Place], depth: int, settings: SentenceRouteSettings) -> list[Place]:
    """Those that an edge led to, and of all the `depth` that promise most by their best sentences."""
    known = {place.key: place for place in places}
    best = crowded({key: ALL * place.near[0].score for key, place in known.items()}, settings.crowding)
    first = capped(best, lambda key: known[key].doc_id, settings.per_document)[:depth]
    return [place for key, place in known.items() if place.edge or key in first]


def _passage(place: Place, paragraph: Paragraph) -> Passage:
    """The paragraph with how it was reached; where no edge led to it, its nearest sentence did."""
    own = place.anchors or ([] if place.edge else place.near[:1])
    anchors = tuple(
        Anchor(
            item.sentence_id, item.text, item.source, item.page, paragraph.boxes.get(item.sentence_id, ()), item.score
        )
        for item in (near.sentence for near in own)
    )
    reached = Reached(place.key[1] or place.key[0], place.edge or "anchor", anchors, place.via, place.similarity)
    return replace(paragraph.passage, reached=reached)
