"""The form of documents as rows of the search tables, checked, and encoded for Postgres's binary COPY.

Rows are packed here rather than by psycopg, which converts every element of an array separately and takes longer for it
than all other steps of a load. 20,000 rows of chunks took 0.44 s of processor time in this way, and 0.68 s with psycopg
and pgvector's types; their vectors of 384 dimensions alone took 0.11 and 0.13 s (benchmarks/loading.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError
from pipelines.names import document_names
from pipelines.records import OFF, Abbreviation, Box, Chunk, ParsedDocument, RawDocument, Sentence
from pipelines.terms import terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from psycopg.types.json import Jsonb
    from psycopg.types.range import Range

    from pipelines.indexing.indexed_documents import DocumentFacts


# ---------------------------------------------------------------- binary COPY


_HEAD, _TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_BLOCK = 120_000
"""Bytes after which a block is sent; psycopg sends at most 128 KB at once."""
_NULL = b"\xff\xff\xff\xff"
_SIZE = Struct(">i").pack
_SHAPE, _COUNTED = Struct(">iiI").pack, Struct(">ii").pack
_BOUNDS = partial(Struct(">iBiiii").pack, 17, 2, 4)
"""An encoder of int4 ranges with an inclusive lower and exclusive upper bound; each bound follows its length in
bytes."""
_OIDS = {"text": 25, "int4range": 3904}
_FIRST_DAY = date(2000, 1, 1).toordinal()


def _with_size(data: bytes) -> bytes:
    return _SIZE(len(data)) + data


def _text(value: str) -> bytes:
    data = value.encode()
    return _SIZE(len(data)) + data


def _array(kind: str, elements: bytes, count: int) -> bytes:
    """Encode an array of one dimension, counted from 1, or of no dimension if it is empty. Each element follows its
    length; no element is null."""
    shape = _SHAPE(1, 0, _OIDS[kind]) + _COUNTED(count, 1) if count else _SHAPE(0, 0, _OIDS[kind])
    return _with_size(shape + elements)


def _texts(values: Sequence[str]) -> bytes:
    return _same_texts(tuple(values))


@lru_cache(maxsize=512)
def _same_texts(values: tuple[str, ...]) -> bytes:
    """Return an encoder of texts that many rows share, such as headings, kinds of blocks and groups."""
    return _array("text", b"".join(map(_text, values)), len(values))


def _json(value: Jsonb) -> bytes:
    return _NO_PAIRS if value.obj == {} else _with_size(b"\x01" + json.dumps(value.obj).encode())


_NO_PAIRS = _with_size(b"\x01{}")
"""The jsonb value of most rows."""


def _range(value: Range[int]) -> bytes:
    return _BOUNDS(value.lower, 4, value.upper)


def _ranges(values: Sequence[Range[int]]) -> bytes:
    return _array("int4range", b"".join(map(_range, values)), len(values))


def _vector(value: NDArray[Any]) -> bytes:
    return _with_size(_SIZE(len(value) << 16) + value.astype(">f4").tobytes())


ENCODERS: Mapping[str, Callable[[Any], bytes]] = {
    "bool": partial(Struct(">i?").pack, 1),
    "int2": partial(Struct(">ih").pack, 2),
    "int4": partial(Struct(">ii").pack, 4),
    "float4": partial(Struct(">if").pack, 4),
    "text": _text,
    "date": lambda value: _with_size(_SIZE(value.toordinal() - _FIRST_DAY)),
    "text[]": _texts,
    "int4range": _range,
    "int4range[]": _ranges,
    "jsonb": _json,
    "vector": _vector,
    "bytea": _with_size,
}
"""Encoders by column type: each converts a value for COPY, with its length before it."""


def packed_rows(types: Collection[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Yield the blocks of one binary COPY of rows whose columns have these types of `ENCODERS`; None is null."""
    encoders, head = [ENCODERS[name] for name in types], Struct(">h").pack(len(types))
    block = bytearray(_HEAD)
    for row in rows:
        fields = zip(encoders, row, strict=True)
        block += b"".join([head, *[_NULL if value is None else encode(value) for encode, value in fields]])
        if len(block) > _BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block) + _TAIL


# ---------------------------------------------------------------- columns and documents


LARGEST_HALF = 65504.0
_MEND = "check the model or endpoint that gave it, and run again"

Columns = Mapping[str, str]
"""Columns of a table in the order in which its rows are made, copied and compared, with their types in `ENCODERS`.
sql/generation.sql declares them in the same order."""


def _columns(text: str) -> Columns:
    return dict(column.split() for column in text.split(","))


DOCUMENTS = _columns(
    "doc_id text, bucket int2, source text, uri text, title text, family text, language text, effective_date date,"
    "version text, groups text[], metadata jsonb, pages int4, summary text, content_hash text, stale bool,"
    "row_hash text, summary_method text"
)
DOCUMENT_NAMES = _columns("name_id text, doc_id text, term text")
ABBREVIATIONS = _columns(
    "abbreviation_id text, doc_id text, short text, long text, short_key text, long_key text, count int4"
)
CHUNKS = _columns(
    "number int4, chunk_id text, doc_id text, ordinal int4, section_id text, header_chain text[], block_types text[],"
    "text text, overlap text, context text, page_start int4, page_end int4, boxes jsonb, spans int4range[],"
    "tokens int4, terms int4, metadata jsonb, previous_id text, next_id text, embedding vector, context_method text"
)
SENTENCES = _columns(
    "sentence_id text, doc_id text, ordinal int4, chunk_id text, text text, source text, page int4, boxes jsonb,"
    "confidence float4, start int4, length int4, paragraph_id text, section_id text, section_path text[],"
    "previous_id text, next_id text, embedding vector, paragraph_start int4, paragraph_length int4,"
    "paragraph_span int4range, lead text"
)
SENTENCE_LINKS = _columns("source_id text, target_id text, similarity float4")
TERMS = _columns("term text, groups text[], documents int4")
POSTINGS = _columns("term text, bucket int2, groups text[], chunks bytea, weights bytea, blocks bytea")


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """The parts of a document from which its rows are made. Chunks and sentences are in reading order; the mappings
    are by chunk id (sentence id for `sentence_vectors`), vectors of shape (dimension,)."""

    raw: RawDocument
    parsed: ParsedDocument
    facts: DocumentFacts
    summary: str
    stale: bool
    row_hash: str
    chunks: Sequence[Chunk]
    contexts: Mapping[str, str]
    terms: Mapping[str, Mapping[str, int]]
    vectors: Mapping[str, NDArray[np.float32]]
    sentences: Sequence[Sentence]
    sentence_vectors: Mapping[str, NDArray[np.float32]]
    abbreviations: Sequence[Abbreviation] = ()
    summary_method: str = OFF
    context_methods: Mapping[str, str] = field(default_factory=dict)


# ---------------------------------------------------------------- vectors


def check_vectors(documents: Iterable[IndexedDocument], dimension: int, half: bool) -> None:
    """Raise ModelError, naming document and chunk, for a vector that is missing, has another dimension, is not
    finite, is zero, or does not fit half precision if the index uses it."""
    for document in documents:
        place = f"{document.raw.source}/{document.raw.uri}"
        _check("chunk", [chunk.chunk_id for chunk in document.chunks], document.vectors, dimension, half, place)
        ids = [sentence.sentence_id for sentence in document.sentences]
        _check("sentence", ids, document.sentence_vectors, dimension, half, place)


def _check(
    what: str, ids: Sequence[str], vectors: Mapping[str, NDArray[np.float32]], dimension: int, half: bool, place: str
) -> None:
    import numpy as np

    for item in ids:
        found = vectors.get(item)
        if found is None:
            raise ModelError(f"{what} {item} of {place} has no vector; {_MEND}", "bad_vector")
        if found.shape != (dimension,):
            raise ModelError(
                f"the vector of {what} {item} of {place} has shape {found.shape}, the generation has dimension "
                f"{dimension}; {_MEND}",
                "bad_vector",
            )
    if not ids:
        return
    block = np.stack([vectors[item] for item in ids])
    largest = np.abs(block).max(axis=1)
    faults = {
        "is not finite": ~np.isfinite(block).all(axis=1),
        "is zero": largest == 0,
        "is out of the range of half precision": (largest > LARGEST_HALF) & half,
    }
    for fault, rows in faults.items():
        if rows.any():
            named = f"the vector of {what} {ids[int(rows.argmax())]} of {place}"
            raise ModelError(f"{named} {fault}; {_MEND}", "bad_vector")


# ---------------------------------------------------------------- rows


def _boxes(boxes: Sequence[Box]) -> Any:
    from psycopg.types.json import Jsonb

    return Jsonb([{"page": b.page, "x0": b.x0, "y0": b.y0, "x1": b.x1, "y1": b.y1} for b in boxes])


def document_row(document: IndexedDocument, bucket: int) -> tuple[Any, ...]:
    from psycopg.types.json import Jsonb

    raw, parsed, facts = document.raw, document.parsed, document.facts
    return (
        raw.doc_id, bucket, raw.source, raw.uri, facts.title, facts.family, parsed.language, facts.effective_date,
        facts.version, list(facts.groups), Jsonb(facts.metadata), parsed.pages, document.summary,
        raw.content_hash, document.stale, document.row_hash, document.summary_method,
    )  # fmt: skip


def name_rows(document: IndexedDocument) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of `document_names`."""
    raw = document.raw
    names = document_names(
        raw.uri,
        document.facts.version,
        raw.effective_date,
        document.facts.metadata,
        (chunk.text for chunk in document.chunks),
    )
    for term in sorted(names):
        yield f"{raw.doc_id} {term}", raw.doc_id, term


def abbreviation_rows(document: IndexedDocument) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `abbreviations`. Their keys are the terms of each form, joined by spaces."""
    for item in document.abbreviations:
        keys = (" ".join(terms_of(form)) for form in (item.short, item.long))
        yield f"{item.doc_id} {item.index}", item.doc_id, item.short, item.long, *keys, item.count


def chunk_rows(document: IndexedDocument, numbers: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `chunks`; neighbours follow reading order."""
    from psycopg.types.json import Jsonb
    from psycopg.types.range import Range

    ids = [chunk.chunk_id for chunk in document.chunks]
    for chunk, previous, following in zip(document.chunks, [None, *ids], [*ids[1:], None], strict=False):
        yield (
            numbers[chunk.chunk_id], chunk.chunk_id, chunk.doc_id, chunk.index, chunk.section_id,
            list(chunk.header_chain), list(chunk.block_types), chunk.text, chunk.overlap,
            document.contexts.get(chunk.chunk_id, ""), chunk.page_start, chunk.page_end, _boxes(chunk.boxes),
            [Range(span.start, span.end) for span in chunk.spans], chunk.tokens,
            sum(document.terms[chunk.chunk_id].values()), Jsonb(chunk.metadata), previous, following,
            document.vectors[chunk.chunk_id], document.context_methods.get(chunk.chunk_id, OFF),
        )  # fmt: skip


def sentence_rows(document: IndexedDocument) -> Iterator[tuple[Any, ...]]:
    from psycopg.types.range import Range

    for item in document.sentences:
        yield (
            item.sentence_id, item.doc_id, item.index, item.chunk_id, item.text, item.source, item.page,
            _boxes(item.boxes), item.confidence, item.start, item.length, item.paragraph_id, item.section_id,
            list(item.section_path), item.previous_id, item.next_id, document.sentence_vectors[item.sentence_id],
            item.paragraph_start, item.paragraph_length, Range(item.paragraph_span.start, item.paragraph_span.end),
            item.lead,
        )  # fmt: skip
