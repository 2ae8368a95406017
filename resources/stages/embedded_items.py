"""The texts with vectors: the items of each table of vectors, and imported vectors that wait for a run.

Waiting vectors are never cleaned up; the run that uses them deletes them (resources/engine/vectors.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import records_hash
from pipelines.increments import Made
from pipelines.indexing.embeddings import (
    blend,
    blended_key,
    embedded_text,
    needs_own_pass,
    own_text_at,
    vector_key,
    with_headings,
)
from pipelines.ranges import ALL_IDS, overlap
from resources.engine.tables import range_of
from resources.engine.vectors import VectorRow, imported_for, matrix, vector_table
from resources.state import generation as generations

if TYPE_CHECKING:
    from pipelines.ports import Vectors
    from pipelines.records import Chunk
    from resources.engine import Work
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


# ---------------------------------------------------------------- items of each table of vectors


@dataclass(frozen=True, slots=True)
class Item:
    """A text with a vector; with `span`, only this part of the text has the vector. The row's key is the hash of text
    and span."""

    row: VectorRow
    text: str
    span: tuple[int, int] | None = None

    @property
    def key(self) -> str:
        return self.row.text_hash


@dataclass(frozen=True, slots=True)
class Embedded:
    """Rows of a table with their vectors, shape (len(rows), dimension)."""

    rows: list[VectorRow]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class FromModel:
    """A table of vectors from the model. `beside` returns parts of the same texts, as rows of another table, whose
    vectors come from the same pass."""

    table: str
    items_of: Callable[[Work], list[Item]]
    beside: FromModel | None = None


@dataclass(frozen=True, slots=True)
class FromVectors:
    """A table that is computed from the vectors of the table before it, without the model."""

    table: str
    rows_of: Callable[[Work, Embedded], Embedded]


def chunks(work: Work) -> list[Item]:
    return [
        _item(doc_id, chunk.index, chunk.chunk_id, text)
        for doc_id in work.doc_ids
        for chunk, _, text in _embedded_texts(work, doc_id)
    ]


def _item(doc_id: str, index: int, name: str, text: str, span: tuple[int, int] | None = None) -> Item:
    return Item(VectorRow(doc_id, index, name, vector_key(text, span)), text, span)


def _embedded_texts(work: Work, doc_id: str) -> Iterator[tuple[Chunk, str, str]]:
    """Yield each chunk of a document with the document's summary and the chunk's text to embed."""
    (summary,) = work.all("document_summaries", doc_id)
    contexts = {context.chunk_id: context.text for context in work.all("chunk_contexts", doc_id)}
    for chunk in work.all("chunks", doc_id):
        yield chunk, summary.text, embedded_text(chunk, summary.text, contexts[chunk.chunk_id])


def sentences(work: Work) -> list[Item]:
    return [_item(*row) for row in _columns(work, "sentences", "index", "sentence_id", "text")]


def headed_sentences(work: Work) -> list[Item]:
    chains = {name: chain for _, name, chain in _columns(work, "chunks", "chunk_id", "header_chain")}
    rows = _columns(work, "sentences", "index", "sentence_id", "chunk_id", "text")
    return [
        _item(doc_id, index, name, with_headings(chains[chunk_id], text))
        for doc_id, index, name, chunk_id, text in rows
    ]


def sentences_in_chunks(work: Work, alone: Callable[[str, str], bool] = lambda source, text: False) -> list[Item]:
    """Return the sentences as items: each is a span of its chunk's text to embed, or its own text if `alone`, given
    source and text, says so."""
    texts, starts = {}, {}
    for doc_id in work.doc_ids:
        for chunk, summary, text in _embedded_texts(work, doc_id):
            texts[chunk.chunk_id], starts[chunk.chunk_id] = text, own_text_at(chunk, summary)
    items = []
    for doc_id, index, name, chunk_id, start, length, source, text in _columns(
        work, "sentences", "index", "sentence_id", "chunk_id", "start", "length", "source", "text"
    ):
        at = starts[chunk_id] + start
        if alone(source, text):
            items.append(_item(doc_id, index, name, text))
        else:
            items.append(_item(doc_id, index, name, texts[chunk_id], (at, at + length)))
    return items


def mixed_sentences(work: Work) -> list[Item]:
    """Return the sentences as items: those that need a pass of their own, and the others as spans of their chunks."""
    return sentences_in_chunks(work, needs_own_pass)


def blended_with_chunks(work: Work, made: Embedded) -> Embedded:
    """Return the unit mean of each sentence's vector and its chunk's vector."""
    if not made.rows:
        return made
    chunk_of = {name: chunk_id for _, name, chunk_id in _columns(work, "sentences", "sentence_id", "chunk_id")}
    read = work.part.read("chunk_embeddings", ["item_id", "text_hash", "vector"])
    places = {chunk_id: place for place, chunk_id in enumerate(read["item_id"].to_pylist())}
    keys, vectors = read["text_hash"].to_pylist(), matrix(read["vector"])
    at = [places[chunk_of[row.item_id]] for row in made.rows]
    rows = [
        replace(row, text_hash=blended_key(row.text_hash, keys[place]))
        for row, place in zip(made.rows, at, strict=True)
    ]
    return Embedded(rows, blend(made.vectors, vectors[at]))


def _columns(work: Work, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """Return doc_id and these columns of the documents to compute, in table order. Reading whole records, with their
    boxes, would take longer than all other steps here."""
    read = work.read(table, ["doc_id", *names])
    return zip(*(read[name].to_pylist() for name in ("doc_id", *names)), strict=True)


def headings(work: Work) -> dict[str, str]:
    """Return the headings above each chunk, and in a stage of sentences also those above each sentence, by id."""
    above = {name: with_headings(chain, "") for _, name, chain in _columns(work, "chunks", "chunk_id", "header_chain")}
    if work.part.has("sentences"):
        chunk_of = _columns(work, "sentences", "sentence_id", "chunk_id")
        above.update({name: above[chunk_id] for _, name, chunk_id in chunk_of})
    return above


_SENTENCES, _SEARCHED = "sentence_embeddings", "sentence_search_embeddings"
_BARE = FromModel(_SENTENCES, sentences)
POOLED = {"mixed": FromModel(_SENTENCES, mixed_sentences), "fast": FromModel(_SENTENCES, sentences_in_chunks)}
"""The forms that take vectors of sentences from the encodings of their chunks."""
_BLENDED = FromVectors(_SEARCHED, blended_with_chunks)

SENTENCE_FORMS: Mapping[str, tuple[FromModel, FromModel | FromVectors]] = {
    **{form: (source, _BLENDED) for form, source in POOLED.items()},
    "blended": (_BARE, _BLENDED),
    "header-chain": (_BARE, FromModel(_SEARCHED, headed_sentences)),
    "bare": (_BARE, FromVectors(_SEARCHED, lambda work, made: made)),
}
"""The tables that sentence links and sentence search use, by settings.sentences.embedded."""

STAGES: Mapping[str, Callable[[str], tuple[FromModel | FromVectors, ...]]] = {
    "chunk_embeddings": lambda form: (FromModel("chunk_embeddings", chunks, POOLED.get(form)),),
    "sentence_embeddings": lambda form: SENTENCE_FORMS[form],
}
"""The functions that return the tables of each stage, by the form of sentences."""


def by_document(doc_ids: list[str], made: Mapping[str, Embedded]) -> dict[str, Made]:
    """Return a part's tables divided by document."""
    tables: dict[str, dict[str, Any]] = {doc_id: {} for doc_id in doc_ids}
    outputs: dict[str, dict[str, str]] = {doc_id: {} for doc_id in doc_ids}
    for name, embedded in made.items():
        whole = vector_table(embedded.rows, embedded.vectors)
        places: dict[str, list[int]] = {doc_id: [] for doc_id in doc_ids}
        for place, row in enumerate(embedded.rows):
            places[row.doc_id].append(place)
        for doc_id, own in places.items():
            tables[doc_id][name] = whole.slice(own[0], len(own)) if own else whole.slice(0, 0)
            outputs[doc_id][name] = records_hash([embedded.rows[place] for place in own])
    return {doc_id: Made(tables[doc_id], outputs[doc_id]) for doc_id in doc_ids}


# ---------------------------------------------------------------- imported vectors that wait for their run


def imported_vectors(state: State, names: Iterable[str]) -> tuple[GenerationRow | None, set[str]]:
    """Return the generation of the present settings, and the unused ones of these files that were imported for its
    embedder, whatever key its stages had then. The generation is returned only if there are such files."""
    imported = [name for name in names if f"/{imported_for('')}" in name]
    if not imported:
        return None, set()
    row = generations.find_generation(state.catalog, state.settings)
    if row is None:
        return None, set()
    engine, tables, found = state.of_generation(row).engine, state.parts.tables, set[str]()
    for stage, sources_of in STAGES.items():
        due = engine.due(stage)
        made = {source.table for source in sources_of(state.settings.sentences.embedded)}
        for name in imported:
            ends = range_of(name) or ALL_IDS
            if name.split("/")[0] in made and any(overlap(ends, own) for own in due):
                seen = tables.peek(name, ["text_hash"])
                found.update([name] if seen and seen[0] == row.embedder["identity"] else [])
    return (row, found) if found else (None, found)
