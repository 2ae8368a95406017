"""The strategy `sentence`: it finds the nearest sentences and shows the paragraphs around them.

It has three stages. Anchors are the best few among the sentences nearest to the question and the sentences of the
chunks that share most of its words. Expansion reaches the paragraphs of the anchors, then those of the sentences before
and after them, then those of sentences that they are RELATED_TO. Selection scores all reached paragraphs by one
formula. Further near sentences add their paragraphs, so that the result is full.

score = density + keywords + coherence - crowding - mixing, in hundredths: density is at most 100.

- density: half of the nearness of the paragraph's best sentence and half of the mean of all of its sentences. Sentences
  that were not found count as 0. The nearness of a sentence is its cosine and its chunk's BM25, each stretched to [0,
  1] and combined; a repeat of a nearer sentence counts as 0;
- keywords: `query.sentence.keywords` times the share of the question's content words, by idf, that the paragraph, its
  title and the headings above it hold;
- coherence: `query.sentence.coherence` if the paragraph holds several anchors, and the same again if one of its anchors
  is next to another anchor in its document;
- crowding: `query.sentence.crowding` for each paragraph of the same chunk that scores higher without it;
- mixing: `query.sentence.mixing` if the paragraph's best sentence comes from another kind of element than the best
  sentence of the paragraph that leads after crowding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from pipelines.ports import Anchor, FoundSentence, Paragraph, ParagraphKey, Passage, Reached, ReachedSentence
from pipelines.query.results import BestCandidates, Scored
from pipelines.query.routes import QueryState, stretch
from pipelines.query.support import Weights, share, weights_of
from pipelines.settings.query import QuerySettings, SentenceRouteSettings
from pipelines.terms import terms_of

# ---------------------------------------------------------------- selection


BEST_SHARE = 0.5
"""The weight of the best sentence in the density; the mean has the rest."""
ALL = 100.0
BEGINNING = 3
"""Number of first letters that all words of one term share, except a few such as `dying`, whose term is `die`."""
_WORD = re.compile(r"\w+")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Near:
    """A sentence with its nearness, in [0, 1], and the part of it that comes from its chunk's terms."""

    sentence: FoundSentence
    score: float
    lexical: float


@dataclass(slots=True)
class ReachedParagraph:
    """A paragraph that was reached. `edge` is like the one in Reached, and empty if only its own sentences led here.
    `near` has its sentences, best first, and `anchors` those that were expanded. `consecutive` is true if one of these
    is next to another anchor."""

    key: ParagraphKey
    near: list[Near] = field(default_factory=list)
    anchors: list[Near] = field(default_factory=list)
    edge: str = ""
    via: str = ""
    similarity: float | None = None
    consecutive: bool = False

    @property
    def doc_id(self) -> str:
        return self.near[0].sentence.doc_id

    @property
    def source(self) -> str:
        """The kind of element that the best sentence comes from."""
        return self.near[0].sentence.source


def plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def by_nearness(sentences: Iterable[Near]) -> list[Near]:
    """Return the sentences by falling nearness, ties by id."""
    return sorted(sentences, key=lambda near: (-near.score, near.sentence.sentence_id))


def distinct(ranked: Iterable[Near]) -> Iterator[Near]:
    """Yield the sentences, best first, without those whose text repeats a better one or is contained in it, such as
    boilerplate."""
    said: list[str] = []
    for near in ranked:
        text = f" {plain(near.sentence.text)} "
        if not any(text in other for other in said):
            said.append(text)
            yield near


class Overlap:
    """The share of a question's content words, by weight, in a text.

    Stemming all words of all paragraphs would take longer than the search, so a word of plain letters is skipped if no
    word of the question begins like it.
    """

    def __init__(self, question: str, wanted: Weights) -> None:
        own = {word for word in _WORD.findall(question.casefold()) if wanted.keys() & set(terms_of(word))}
        begins = sorted({word[:BEGINNING] for word in own | wanted.keys()})
        self._wanted = wanted
        self._other = re.compile(rf"\b(?!{'|'.join(map(re.escape, begins))})(?:[a-z]+|[а-яіїє]+)\b")

    def __call__(self, text: str) -> float:
        return share(self._wanted, set(terms_of(self._other.sub(" ", text.casefold()))))


def score_paragraph(
    place: ReachedParagraph, passage: Passage, sentences: int, overlap: Overlap, settings: SentenceRouteSettings
) -> Scored:
    """Return the paragraph with its score and each factor of the score. `sentences` is the number of its sentences. The
    cosine of its nearest sentence, and its chunk's share of the question's words, are reported too."""
    best = place.near[0]
    mean = sum(near.score for near in place.near) / max(sentences, len(place.near))
    text = "\n".join([passage.title, *passage.header_chain, passage.text])
    factors = {
        "sentence.density": ALL * (BEST_SHARE * best.score + (1 - BEST_SHARE) * mean),
        "sentence.keywords": settings.keywords * overlap(text),
        "sentence.coherence": settings.coherence * ((len(place.anchors) > 1) + place.consecutive),
    }
    score = sum(factors.values())
    told = {"sentence.dense": best.sentence.score, "sentence.lexical": best.lexical}
    return Scored(passage, score, {"sentence": score, **told, **factors})


def crowding_losses(scores: Mapping[ParagraphKey, float], crowding: float) -> dict[ParagraphKey, float]:
    """Return the reduction of each score by better paragraphs of the same chunk, in the order of the reduced scores,
    ties by key."""
    better: Counter[str] = Counter()
    taken = {}
    for key in sorted(scores, key=lambda key: (-scores[key], key)):
        taken[key] = crowding * better[key[0]]
        better[key[0]] += 1
    return dict(sorted(taken.items(), key=lambda item: (item[1] - scores[item[0]], item[0])))


def lessen(item: Scored, factor: str, less: float) -> Scored:
    score = item.score - less
    return replace(item, score=score, scores={**item.scores, "sentence": score, f"sentence.{factor}": 0.0 - less})


def cap_documents(items: Iterable[T], document: Callable[[T], str], most: int) -> list[T]:
    """Return the items in order, except that those beyond `most` of one document come after all others."""
    seen: Counter[str] = Counter()
    first: list[T] = []
    rest: list[T] = []
    for item in items:
        seen[document(item)] += 1
        (first if seen[document(item)] <= most else rest).append(item)
    return [*first, *rest]


# ---------------------------------------------------------------- anchors and expansion


SOURCES = frozenset({"paragraph", "table_row", "list_item", "figure_caption", "figure_description", "equation", "code"})
SENTENCES = 5
"""Number of nearest sentences that are ranked, as a multiple of the wanted candidates. The sentences of the chunks that
share most of the question's words are added, from half as many chunks as candidates."""
LEAD_IN = 0.5
"""Factor on the score of a sentence that ends with a colon or question mark. It is near to a question, but the text
after it has the answer."""
BY_TERMS = 10
"""Number of chunks that are searched by terms, as a multiple of the wanted candidates. All of them give their share of
the question's words. The first ones, half as many as candidates, also add their sentences."""
WORDS = 1.25
"""Weight of the words of a sentence's chunk, relative to 1 for the sentence's own cosine."""
EDGES = ("anchor", "next", "previous", "related")
"""The edges by priority: if several edges reach a paragraph, the first of them counts."""


class SentenceRoute:
    """The search for one question through sentences. Call it with the number of wanted candidates."""

    def __init__(self, asked: QueryState, settings: QuerySettings) -> None:
        self._asked, self._index, self._filters = asked, asked.index, asked.filters
        self._settings = settings.sentence
        self._vector = asked.vector
        self._terms = asked.question.terms
        wanted = weights_of(self._terms, *asked.index.frequencies(list(self._terms)))
        self._overlap = Overlap(
            asked.question.words, {term: weight * self._terms[term] for term, weight in wanted.items()}
        )

    def __call__(self, depth: int) -> BestCandidates:
        """Return the best `depth` paragraphs; `dry` says that there are no more."""
        wide, least = depth * SENTENCES, self._settings.least_confidence
        nearest = self._index.sentences(self._vector, wide, self._filters, least)
        by_terms = self._index.lexical(self._terms, depth * BY_TERMS, self._filters)
        best_chunks = [item.chunk_id for item in by_terms[: -(-depth // 2)]]
        beside = self._index.sentences_of(best_chunks, self._vector, self._filters, least)
        measure = _Nearness(
            nearest,
            dict(zip((item.chunk_id for item in by_terms), stretch([item.score for item in by_terms]), strict=True)),
        )
        near = measure.nearest_of(self._traceable([*nearest, *beside]))
        if not near:
            return BestCandidates([], len(nearest) < wide)
        anchors = list(islice(distinct(near), self._settings.anchors))
        ids = [anchor.sentence.sentence_id for anchor in anchors]
        reached = self._index.expand(ids, self._settings.steps, self._vector, self._filters, least)
        near = measure.nearest_of(
            self._traceable([*(item.sentence for item in near), *(item.sentence for item in reached)])
        )
        places = _places(near, anchors, reached)
        chosen = _choose_places(places, depth, self._settings)
        return BestCandidates(self._select(chosen)[:depth], len(nearest) < wide and len(chosen) == len(places))

    def _traceable(self, sentences: Sequence[FoundSentence]) -> list[FoundSentence]:
        """Return each sentence once, without those from an unknown kind of element, or without a page in a document
        with pages."""
        found = {sentence.sentence_id: sentence for sentence in sentences}
        kept = [
            sentence
            for sentence in found.values()
            if sentence.source in SOURCES and (sentence.page is not None or not sentence.paged)
        ]
        if len(kept) < len(found):
            self._asked.notes.append("sentence: what has no known page or kind of source was left out")
        return kept

    def _select(self, places: Sequence[ReachedParagraph]) -> list[Scored]:
        """Return the paragraphs ordered by score, with at most `per_document` from one document while others are
        left."""
        paragraphs = self._index.paragraphs([place.key for place in places], self._filters)
        found = {
            place.key: score_paragraph(
                place, _passage(place, paragraph), len(paragraph.boxes), self._overlap, self._settings
            )
            for place in places
            if (paragraph := paragraphs.get(place.key))
        }
        best = self._lessen(found, {place.key: place.source for place in places})
        chosen = cap_documents(best, lambda item: item.passage.doc_id, self._settings.per_document)
        return [replace(item, ranks={"sentence": rank}) for rank, item in enumerate(chosen, start=1)]

    def _lessen(self, found: Mapping[ParagraphKey, Scored], sources: Mapping[ParagraphKey, str]) -> list[Scored]:
        """Return the paragraphs best first, after the reductions for crowding and mixing. Ties keep the order by
        key."""
        taken = crowding_losses({key: item.score for key, item in found.items()}, self._settings.crowding)
        best = {key: lessen(found[key], "crowding", less) for key, less in taken.items()}
        first = sources[next(iter(best))] if best else ""
        mixing = self._settings.mixing
        lasting = [lessen(item, "mixing", mixing if sources[key] != first else 0.0) for key, item in best.items()]
        return sorted(lasting, key=lambda item: -item.score) if mixing else lasting


class _Nearness:
    """The nearness of sentences, in [0, 1]: the cosine, stretched among the nearest ones, combined with the chunk's
    share of the question's words."""

    def __init__(self, nearest: Sequence[FoundSentence], lexical: Mapping[str, float]) -> None:
        scores = [sentence.score for sentence in nearest]
        self._low, self._high = min(scores, default=0.0), max(scores, default=0.0)
        self._lexical = lexical

    def nearest_of(self, sentences: Sequence[FoundSentence]) -> list[Near]:
        """Return the sentences best first. A sentence that repeats the text of a better one counts as 0."""
        said: set[str] = set()
        result = []
        for near in by_nearness(map(self._one, sentences)):
            text = plain(near.sentence.text)
            result.append(replace(near, score=0.0) if text in said else near)
            said.add(text)
        return by_nearness(result)

    def _one(self, sentence: FoundSentence) -> Near:
        width = self._high - self._low
        dense = min(max((sentence.score - self._low) / width, 0.0), 1.0) if width > 0 else 1.0
        lexical = self._lexical.get(sentence.chunk_id, 0.0)
        score = (dense + WORDS * lexical) / (1.0 + WORDS)
        return Near(sentence, score * LEAD_IN if sentence.text.endswith((":", "?")) else score, lexical)


def _places(
    near: Sequence[Near], anchors: Sequence[Near], reached: Sequence[ReachedSentence]
) -> list[ReachedParagraph]:
    """Return every paragraph that has a near sentence, in the order of its best sentence."""
    places: dict[ParagraphKey, ReachedParagraph] = {}
    for item in near:
        places.setdefault(item.sentence.place, ReachedParagraph(item.sentence.place)).near.append(item)
    for anchor in anchors:
        place = places[anchor.sentence.place]
        place.edge = "anchor"
        place.anchors.append(anchor)
    positions = {(anchor.sentence.doc_id, anchor.sentence.index) for anchor in anchors}
    for place in places.values():
        place.consecutive = any(
            (item.sentence.doc_id, item.sentence.index + step) in positions
            for item in place.anchors
            for step in (-1, 1)
        )
    order = {anchor.sentence.sentence_id: rank for rank, anchor in enumerate(anchors)}
    for led in sorted(reached, key=lambda r: (EDGES.index(r.edge), r.steps, -(r.similarity or 0.0), order[r.via])):
        found = places.get(led.sentence.place)
        if found and not found.edge:
            found.edge, found.via, found.similarity = led.edge, led.via, led.similarity
    return list(places.values())


def _choose_places(
    places: Sequence[ReachedParagraph], depth: int, settings: SentenceRouteSettings
) -> list[ReachedParagraph]:
    """Return the paragraphs that an edge reached, and the `depth` paragraphs with the best sentences."""
    known = {place.key: place for place in places}
    best = crowding_losses({key: ALL * place.near[0].score for key, place in known.items()}, settings.crowding)
    first = cap_documents(best, lambda key: known[key].doc_id, settings.per_document)[:depth]
    return [place for key, place in known.items() if place.edge or key in first]


def _passage(place: ReachedParagraph, paragraph: Paragraph) -> Passage:
    """Return the paragraph with the way in which it was reached. If no edge led to it, the way is its nearest
    sentence."""
    own = place.anchors or ([] if place.edge else place.near[:1])
    anchors = tuple(
        Anchor(
            item.sentence_id, item.text, item.source, item.page, paragraph.boxes.get(item.sentence_id, ()), item.score
        )
        for item in (near.sentence for near in own)
    )
    reached = Reached(place.key[1] or place.key[0], place.edge or "anchor", anchors, place.via, place.similarity)
    return replace(paragraph.passage, reached=reached)
