"""Generations of invented chunks for `searching.py`: terms by Zipf's law, vectors in clusters or without.

They are written by the pipeline's own writer, bucket by bucket, and indexed and audited as it does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.increments import invented
from pipelines.fingerprint import document_id, fingerprint
from pipelines.indexing.indexed_documents import DocumentFacts
from pipelines.indexing.sentences import link_in_order
from pipelines.records import Box, Chunk, ParsedDocument, RawDocument, Sentence, SentenceLink, Span
from pipelines.terms import terms_of
from resources.checks import hnsw_recall as walks
from resources.postgres.catalog import Catalog, GenerationRow
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.index_rows import IndexedDocument

DIMENSION, LATENT, BUCKETS, CLUSTERS = 384, 32, 16, 500
CHUNKS_A_DOCUMENT, WORDS_A_CHUNK = 100, 250
SENTENCES_A_CHUNK, SENTENCES_A_PARAGRAPH = 8, 3
VOCABULARY, STOP_WORDS = 30_000, 100
"""Of the words by frequency, the first STOP_WORDS stand in a quarter to all of the chunks."""
SHARES = {"half": 2, "tenth": 10, "hundredth": 100, "thousandth": 1000}
"""Metadata key, and of how many documents one has the value 0."""
POSTINGS = "SELECT term, chunks, weights FROM {}.postings WHERE term = ANY (%(terms)s::text[])"
"""All of some terms, by hand."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Vectors of shape (chunks, DIMENSION) in the space that `basis` spans and, for each chunk, its words
    as ranks of the vocabulary."""

    vectors: np.ndarray
    basis: np.ndarray
    ranks: np.ndarray
    words: Sequence[str]

    def __len__(self) -> int:
        return len(self.vectors)


def corpus(chunks: int, clustered: bool = True, words: int = WORDS_A_CHUNK) -> Corpus:
    """Without clusters the vectors lie at random in LATENT dimensions, as many as those of texts fill; of
    pure noise in all of them, neighbours are hardly nearer than the rest, and no such index finds them."""
    noise = np.random.default_rng(1)
    if clustered:
        basis = np.eye(DIMENSION, dtype=np.float32)
        vectors = noise.standard_normal((chunks, DIMENSION), dtype=np.float32)
        centres = noise.standard_normal((CLUSTERS, DIMENSION), dtype=np.float32)
        vectors += centres[noise.integers(0, CLUSTERS, chunks)]
    else:
        basis = noise.standard_normal((LATENT, DIMENSION), dtype=np.float32)
        vectors = noise.standard_normal((chunks, LATENT), dtype=np.float32) @ basis
    share = 1 / np.arange(3, VOCABULARY + 3)
    ranks = np.searchsorted(np.cumsum(share / share.sum()), noise.random((chunks, words)))
    return Corpus(
        _unit(vectors),
        basis,
        np.minimum(ranks, VOCABULARY - 1).astype(np.uint16),
        vocabulary(),
    )


def vocabulary() -> list[str]:
    """Words that are their own terms."""
    found = invented(random.Random(5), VOCABULARY * 4 // 3)
    return [word for word in found if terms_of(word) == [word]][:VOCABULARY]


def document(number: int, made: Corpus, sentences: bool = False, first: int = 0) -> IndexedDocument:
    """A document of chunks, with sentences where they are asked for; the corpus begins with the document `first`."""
    places = range((number - first) * CHUNKS_A_DOCUMENT, len(made))[:CHUNKS_A_DOCUMENT]
    doc_id = document_id("s", str(number))
    chunks, terms, vectors = [], {}, {}
    for index, place in enumerate(places):
        said = [made.words[rank] for rank in made.ranks[place]]
        text, chunk_id = " ".join(said), fingerprint(doc_id, index)
        chunk = Chunk(
            doc_id=doc_id, index=index, chunk_id=chunk_id, section_id=f"s{index % 10}",
            header_chain=("Notices", f"Part {index % 10}"), block_types=("paragraph" if index % 20 else "table-row",),
            text=text, spans=(Span(index * 2000, index * 2000 + len(text)),), units=(index,), offsets=(0,),
            page_start=index // 2 + 1, page_end=index // 2 + 1, boxes=(), tokens=320, metadata={}, has_overlap=False,
            overlap="", overlap_spans=(),
        )  # fmt: skip
        chunks.append(chunk)
        terms[chunk_id], vectors[chunk_id] = Counter(said), made.vectors[place]
    keys = {key: str(number % every) for key, every in SHARES.items()}
    parts = [sentence for chunk in chunks for sentence in sentences_of(chunk)] if sentences else []
    return IndexedDocument(
        raw=RawDocument(doc_id, "s", f"{number}.md", "0" * 32, 1, "text/markdown", None, None, None, None, (), {}),
        parsed=ParsedDocument(doc_id, "Notice", False, "en", "", None, None, None, None, {}, ()),
        facts=DocumentFacts("Notice", f"notice {number}", date(2020, 1, 1) + timedelta(number), None, (), keys),
        summary="", stale=False, row_hash="", chunks=chunks, contexts={}, terms=terms, vectors=vectors,
        sentences=link_in_order(parts), sentence_vectors=sentence_vectors(parts, vectors, number),
    )  # fmt: skip


def sentences_of(chunk: Chunk) -> list[Sentence]:
    """A chunk's text in SENTENCES_A_CHUNK parts of as many words, some of which are a paragraph, with a box each."""
    words = chunk.text.split(" ")
    size = -(-len(words) // SENTENCES_A_CHUNK)
    starts = [len(" ".join(words[:at])) + bool(at) for at in range(0, len(words), size)] + [len(chunk.text) + 1]
    made = []
    for place, (start, end) in enumerate(pairwise(starts)):
        first = place - place % SENTENCES_A_PARAGRAPH
        begins, ends = starts[first], starts[min(first + SENTENCES_A_PARAGRAPH, len(starts) - 1)] - 1
        text, page = chunk.text[start : end - 1], chunk.page_start or 1
        made.append(
            Sentence(
                doc_id=chunk.doc_id, index=chunk.index * SENTENCES_A_CHUNK + place,
                sentence_id=fingerprint(chunk.chunk_id, place), text=text, source="paragraph", page=page,
                boxes=(Box(page, 72, 20 * place, 500, 20 * place + 12),), confidence=1.0, chunk_id=chunk.chunk_id,
                start=start, length=len(text), paragraph_id=fingerprint(chunk.chunk_id, "paragraph", first),
                paragraph=chunk.text[begins:ends], paragraph_start=begins, paragraph_length=ends - begins,
                paragraph_span=Span(chunk.spans[0].start + begins, chunk.spans[0].start + ends),
                section_id=chunk.section_id, section_path=chunk.header_chain, previous_id=None, next_id=None,
            )
        )  # fmt: skip
    return made


def sentence_vectors(sentences: Sequence[Sentence], chunks: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Each of a cosine of about 0.7 with its chunk's."""
    if not sentences:
        return {}
    noise = np.random.default_rng(seed).standard_normal((len(sentences), DIMENSION), dtype=np.float32)
    vectors = _unit(np.stack([chunks[sentence.chunk_id] for sentence in sentences]) + _unit(noise))
    return {sentence.sentence_id: vector for sentence, vector in zip(sentences, vectors, strict=True)}


def links(made: Corpus) -> Iterator[SentenceLink]:
    """From every other sentence to two of other chunks."""
    chance = random.Random(3)
    ids = [
        fingerprint(chunk_id, place)
        for number in range(-(-len(made) // CHUNKS_A_DOCUMENT))
        for chunk_id in (chunk.chunk_id for chunk in document(number, made).chunks)
        for place in range(SENTENCES_A_CHUNK)
    ]
    for source_id in ids[::2]:
        for target_id in chance.sample(ids, 2):
            if target_id != source_id:
                yield SentenceLink(source_id, target_id, 0.9)


def frequencies(made: Corpus) -> dict[str, int]:
    """In how many chunks each word stands."""
    ordered = np.sort(made.ranks, axis=1)
    first = np.ones(ordered.shape, bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    counts = np.bincount(ordered[first], minlength=VOCABULARY)
    return {made.words[rank]: int(count) for rank, count in enumerate(counts) if count}


def load(database: Database, name: str, made: Corpus, sentences: bool = False) -> GenerationRow:
    """The generation of that name, written, indexed, and with the width of walks that its audit finds to
    be needed; made only where there is none."""
    catalog = Catalog(database)
    known = catalog.find_generation(name)
    if known and known.built_from:
        return known
    statistics: dict[str, Any] = {"chunks": len(made), "average_terms": float(made.ranks.shape[1])}
    tables = GenerationTables(database, catalog.create_generation(name, {}, {}, DIMENSION, statistics, {}))
    tables.freeze_terms({(): frequencies(made)})
    numbers = range(-(-len(made) // CHUNKS_A_DOCUMENT))
    for bucket in range(BUCKETS):
        tables.replace(bucket, list(documents(numbers[bucket::BUCKETS], made, sentences)), whole=True)
    if sentences:
        tables.replace_links(links(made))
    tables.vector_indexes.build()
    number = tables.generation.generation
    catalog.add_statistics(number, walks.tuned_statistics(tables))
    catalog.mark_built(number, name)
    built = catalog.generation(number)
    assert built is not None
    return built


def documents(numbers: Sequence[int], made: Corpus, sentences: bool) -> Iterator[IndexedDocument]:
    return (document(number, made, sentences) for number in numbers)


# ---------------------------------------------------------------- questions


def vector_questions(made: Corpus, count: int) -> np.ndarray:
    """Of a cosine of about 0.86 with some chunk, as questions have with their passages."""
    chance = np.random.default_rng(7)
    chosen = made.vectors[chance.integers(0, len(made), count)]
    noise = chance.standard_normal((count, len(made.basis)), dtype=np.float32) @ made.basis
    return _unit(chosen + 0.6 * _unit(noise))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def term_questions(made: Corpus, count: int, ordinary: int, stop_words: int = 0) -> list[list[str]]:
    """Words of one chunk each, as a question has them of the passage that answers it."""
    chance = random.Random(7)
    asked = []
    for _ in range(count):
        ranks = set(map(int, made.ranks[chance.randrange(len(made))]))
        own = chance.sample(sorted(rank for rank in ranks if rank >= STOP_WORDS), ordinary)
        asked.append([made.words[rank] for rank in [*own, *chance.sample(range(STOP_WORDS), stop_words)]])
    return asked
