"""Tables that a worker which a document has taken over may send: each is refused before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.indexing.enrichment import chunk_contexts
from pipelines.indexing.indexed_documents import chunk_term_counts
from pipelines.indexing.overlap import with_own_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import sentences
from pipelines.records import TABLES, Box, Span
from pipelines.schemas import schema_of, to_table
from resources.documents.checks import sound
from resources.documents.tasks import TASK_TYPES
from resources.models.text_models import TextModels
from resources.workers.frames import decode, encode
from tests.support.builders import heading, noise_rules, paragraph, units

DOCUMENT, ELEMENTS, UNITS = units(
    heading("Wells"), paragraph("The well is nine metres deep. " * 40, page=1), paragraph("It is dug again.")
)
PACKED = packed_chunks(UNITS, ELEMENTS, 60, 80)
CHUNKS = with_own_overlap(PACKED, {DOCUMENT.doc_id: DOCUMENT.body}, 0)
FOUND, NOISE = sentences(DOCUMENT, ELEMENTS, UNITS, CHUNKS, TextModels().split, noise_rules())
ROWS: dict[str, list[Any]] = {
    "parsed_documents": [DOCUMENT],
    "parsed_elements": list(ELEMENTS),
    "packed_chunks": list(PACKED),
    "chunks": list(CHUNKS),
    "chunk_terms": [chunk_term_counts(chunk, DOCUMENT.title) for chunk in CHUNKS],
    "sentences": list(FOUND),
    "filtered_sentences": list(NOISE),
    "chunk_contexts": chunk_contexts(DOCUMENT, CHUNKS, FOUND, 250),
}
GIVEN = {name: to_table(TABLES[name], ROWS[name]) for name in ("packed_chunks", "chunks")}
Change = Callable[[list[Any]], list[Any]]


def check(kind: str, changed: str = "", change: Change = list) -> None:
    rows = {name: change(ROWS[name]) if name == changed else ROWS[name] for name in TASK_TYPES[kind].tables}
    made = {name: to_table(record, rows[name]) for name, record in TASK_TYPES[kind].tables.items()}
    sound(kind, TASK_TYPES[kind].tables, made, GIVEN, [DOCUMENT.doc_id])


def first(**changes: Any) -> Change:
    return lambda rows: [replace(rows[0], **changes), *rows[1:]]


@pytest.mark.parametrize("kind", ["parsed_elements", "packed_chunks", "chunks", "sentences", "chunk_contexts"])
def test_the_results_of_an_honest_worker_are_valid(kind: str) -> None:
    assert len(PACKED) > 3 and len(FOUND) > 10
    check(kind)


@pytest.mark.parametrize(
    ("kind", "table", "change"),
    [
        pytest.param("parsed_elements", "parsed_documents", lambda rows: [], id="no document"),
        pytest.param("parsed_elements", "parsed_documents", lambda rows: rows * 2, id="two documents"),
        pytest.param("parsed_elements", "parsed_documents", first(effective_date="x"), id="a date that is none"),
        pytest.param("parsed_elements", "parsed_documents", first(body=None), id="no body"),
        pytest.param("parsed_elements", "parsed_elements", first(page_start=1 << 40), id="a page too large"),
        pytest.param("parsed_elements", "parsed_elements", first(confidence=float("nan")), id="no number"),
        pytest.param("parsed_elements", "parsed_elements", first(end=1 << 30), id="outside of the body"),
        pytest.param("parsed_elements", "parsed_elements", first(start=-1), id="a negative span"),
        pytest.param("parsed_elements", "parsed_elements", lambda rows: rows[::-1], id="out of order"),
        pytest.param("packed_chunks", "packed_chunks", first(chunk_id="0" * 32), id="another's id"),
        pytest.param("packed_chunks", "packed_chunks", first(text=None), id="no text"),
        pytest.param("packed_chunks", "packed_chunks", first(spans=(Span(5, 1),)), id="a span that ends first"),
        pytest.param(
            "packed_chunks",
            "packed_chunks",
            first(boxes=(Box(1, 0.0, float("inf"), 1.0, 1.0),)),
            id="no end",
        ),
        pytest.param("packed_chunks", "packed_chunks", first(header_chain=(None,)), id="no heading"),
        pytest.param("chunks", "chunks", lambda rows: rows[1:], id="a chunk too few"),
        pytest.param("chunks", "chunk_terms", lambda rows: rows[:1], id="terms too few"),
        pytest.param("chunks", "chunk_terms", first(terms=("a", "a"), counts=(1, 1)), id="a term twice"),
        pytest.param("chunks", "chunk_terms", first(terms=("a",), counts=(0,)), id="a term that does not occur"),
        pytest.param("sentences", "sentences", first(sentence_id="0" * 32), id="another's sentence"),
        pytest.param("sentences", "sentences", first(chunk_id="0" * 32), id="of another's chunk"),
        pytest.param("sentences", "sentences", first(next_id=None), id="a broken chain"),
        pytest.param("chunk_contexts", "chunk_contexts", lambda rows: rows[1:], id="a context too few"),
        pytest.param("chunk_contexts", "chunk_contexts", first(chunk_id="0" * 32), id="another's context"),
    ],
)
def test_a_result_that_would_end_a_run_or_is_of_another_document_is_refused(
    kind: str, table: str, change: Change
) -> None:
    with pytest.raises(ValueError):
        check(kind, table, change)


def stream(schema: pa.Schema, table: pa.Table, **options: Any) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def test_a_table_that_is_larger_than_its_bytes_is_not_unpacked() -> None:
    schema, table = pa.schema([("text", pa.string())]), pa.table({"text": ["x" * 10_000_000]})
    assert decode(stream(schema, table), schema).num_rows == 1
    for compression in ("zstd", "lz4"):
        packed = stream(schema, table, compression=compression)
        assert len(packed) < 200_000
        with pytest.raises(ValueError, match="compressed"):
            decode(packed, schema)
    words = pa.table({"text": pa.array(["x"] * 5).dictionary_encode()})
    with pytest.raises(ValueError, match=r"dictionary|schema"):
        decode(stream(words.schema, words), schema)


def test_bytes_that_are_no_table_are_a_value_error() -> None:
    schema = schema_of(TABLES["chunks"])
    whole = bytes(encode(to_table(TABLES["chunks"], CHUNKS)))
    assert decode(memoryview(whole), schema).num_rows == len(CHUNKS)
    for cut in (0, 1, 7, 100, len(whole) // 2):
        with pytest.raises(ValueError):
            decode(memoryview(whole[:cut]), schema)


def test_rows_of_several_documents_are_parted_in_the_order_in_which_they_were_given() -> None:
    kind, names = "chunk_contexts", ["a", "b", "c"]
    chunks = to_table(TABLES["chunks"], [replace(CHUNKS[0], doc_id=name) for name in "ac"])
    contexts = [replace(ROWS["chunk_contexts"][0], doc_id=name) for name in "ac"]

    def parts(rows: list[Any], *doc_ids: str) -> list[list[str]]:
        made = {"chunk_contexts": to_table(TABLES["chunk_contexts"], rows)}
        found = sound(kind, TASK_TYPES[kind].tables, made, {"chunks": chunks}, doc_ids)
        return [own["chunk_contexts"]["doc_id"].to_pylist() for own in found]

    assert parts(contexts, *names) == [["a"], [], ["c"]]
    for wrong in (
        contexts[::-1],
        [contexts[0], contexts[1], contexts[0]],
        [*contexts, replace(contexts[0], doc_id="x")],
    ):
        with pytest.raises(ValueError, match="another document"):
            parts(wrong, *names)
