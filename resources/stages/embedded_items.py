"""What of a document has a vector, and what is searched for a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.indexing.embeddings import blended, blended_key, embedded_text, headed, headings_outside, vector_key
from pipelines.records import Embedding
from resources.parquet.vectors import matrix

if TYPE_CHECKING:
    from pipelines.ports import Vectors
    from resources.state.stage_work import Work

Rows = Mapping[str, Sequence[Embedding]]
"""doc_id to its rows of one table."""


@dataclass(frozen=True, slots=True)
class Item:
    """A text that has a vector, or with `span` the part of it that has; `key` is of what the vector is made of."""

    doc_id: str
    index: int
    item_id: str
    key: str
    text: str
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FromModel:
    """A table of vectors that the model makes."""

    table: str
    items_of: Callable[[Work], list[Item]]


@dataclass(frozen=True, slots=True)
class FromVectors:
    """A table made from the rows of the table before it, without the model."""

    table: str
    rows_of: Callable[[Work, Rows], Rows]


def chunks(work: Work) -> list[Item]:
    items = []
    for doc_id in work.doc_ids:
        (summary,) = work.all("document_summaries", doc_id)
        contexts = {context.chunk_id: context.text for context in work.all("chunk_contexts", doc_id)}
        for chunk in work.all("chunks", doc_id):
            text = embedded_text(chunk, summary.text, contexts[chunk.chunk_id])
            items.append(Item(doc_id, chunk.index, chunk.chunk_id, vector_key(text), text))
    return items


def sentences(work: Work) -> list[Item]:
    rows = _columns(work, "sentences", "index", "sentence_id", "text")
    return [Item(doc_id, index, name, vector_key(text), text) for doc_id, index, name, text in rows]


def headed_sentences(work: Work) -> list[Item]:
    chains = {name: chain for _, name, chain in _columns(work, "chunks", "chunk_id", "header_chain")}
    items = []
    for doc_id, index, name, chunk_id, sentence in _columns(
        work, "sentences", "index", "sentence_id", "chunk_id", "text"
    ):
        text = headed(chains[chunk_id], sentence)
        items.append(Item(doc_id, index, name, vector_key(text), text))
    return items


def sentences_in_chunks(work: Work) -> list[Item]:
    """Each a span of its chunk, which stands after its headings."""
    texts, offsets = {}, {}
    for _, chunk_id, chain, own, units in _columns(work, "chunks", "chunk_id", "header_chain", "text", "offsets"):
        texts[chunk_id] = headed(headings_outside(chain, own, units), own)
        offsets[chunk_id] = len(texts[chunk_id]) - len(own)
    items = []
    for doc_id, index, name, chunk_id, start, length in _columns(
        work, "sentences", "index", "sentence_id", "chunk_id", "start", "length"
    ):
        at = offsets[chunk_id] + start
        key = vector_key(texts[chunk_id], (at, at + length))
        items.append(Item(doc_id, index, name, key, texts[chunk_id], (at, at + length)))
    return items


def blended_with_chunks(work: Work, rows: Rows) -> Rows:
    """Unit means of each sentence's vector and its chunk's."""
    if not any(rows.values()):
        return rows
    chunk_of = {name: chunk_id for _, name, chunk_id in _columns(work, "sentences", "sentence_id", "chunk_id")}
    read = work.tables.read(work.files["chunk_embeddings"], ["item_id", "text_hash", "vector"])
    places = {chunk_id: place for place, chunk_id in enumerate(read["item_id"].to_pylist())}
    keys, vectors = read["text_hash"].to_pylist(), matrix(read["vector"])
    made = {}
    for doc_id, own in rows.items():
        at = [places[chunk_of[row.item_id]] for row in own]
        mixed = blended(stacked(own), vectors[at]) if own else ()
        made[doc_id] = [
            Embedding(doc_id, row.index, row.item_id, blended_key(row.text_hash, keys[place]), vector)
            for row, place, vector in zip(own, at, mixed, strict=True)
        ]
    return made


def _columns(work: Work, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """doc_id and these columns of the documents to compute, in table order; whole records, with their boxes, would
    take longer to read than all else here."""
    import pyarrow as pa
    import pyarrow.compute as pc

    read = work.tables.read(work.files[table], ["doc_id", *names])
    read = read.filter(pc.is_in(read["doc_id"], pa.array(work.doc_ids, pa.string())))
    return zip(*(read[name].to_pylist() for name in ("doc_id", *names)), strict=True)


def headings(work: Work) -> dict[str, str]:
    """What stands above each chunk, and above each sentence in a stage of sentences, by their ids."""
    above = {name: headed(chain, "") for _, name, chain in _columns(work, "chunks", "chunk_id", "header_chain")}
    if "sentences" in work.files:
        chunk_of = _columns(work, "sentences", "sentence_id", "chunk_id")
        above.update({name: above[chunk_id] for _, name, chunk_id in chunk_of})
    return above


_BARE, _SEARCHED = "sentence_embeddings", "sentence_search_embeddings"

SEARCHED: Mapping[str, FromModel | FromVectors] = {
    "blended": FromVectors(_SEARCHED, blended_with_chunks),
    "pooled": FromModel(_SEARCHED, sentences_in_chunks),
    "header-chain": FromModel(_SEARCHED, headed_sentences),
    "bare": FromVectors(_SEARCHED, lambda work, rows: rows),
}
"""What is searched for a sentence, by settings.sentences.embedded."""

STAGES: Mapping[str, Callable[[str], tuple[FromModel | FromVectors, ...]]] = {
    "chunk_embeddings": lambda form: (FromModel("chunk_embeddings", chunks),),
    "sentence_embeddings": lambda form: (FromModel(_BARE, sentences), SEARCHED[form]),
}
"""The tables of each stage. The bare sentences' vectors are what links are made from."""


def stacked(rows: Sequence[Embedding]) -> Vectors:
    import numpy as np

    return np.stack([np.asarray(row.vector, dtype=np.float32) for row in rows])
