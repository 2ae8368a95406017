"""Documents made by hand in the tables of a generation: a chunk of one sentence for each text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import psycopg

from pipelines.fingerprint import document_id, fingerprint
from pipelines.indexing.indexed_documents import DocumentFacts
from pipelines.records import Box, Chunk, ParsedDocument, Sentence, Span
from resources.postgres.catalog import Catalog
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.index_rows import IndexedDocument
from resources.postgres.server_process import ADMINISTRATOR
from tests.support.builders import raw

DIMENSION = 4
AVERAGE = 3.0
INVALID = "invalid, or not the one that searches use"


def tables(database: Database, dimension: int = DIMENSION) -> GenerationTables:
    generation = Catalog(database).create_generation("k", {}, {}, dimension, {"average_terms": AVERAGE}, {})
    return GenerationTables(database, generation)


def vector(seed: str, dimension: int = DIMENSION) -> np.ndarray:
    found = np.random.default_rng(int(fingerprint(seed)[:8], 16)).standard_normal(dimension).astype(np.float32)
    return found / np.linalg.norm(found)


def _chunk(doc_id: str, number: int, text: str) -> Chunk:
    return Chunk(
        doc_id=doc_id, index=number, chunk_id=fingerprint("chunk", doc_id, number), section_id="s1",
        header_chain=("Top", "Part"), block_types=("paragraph",), text=text, spans=(Span(0, 5), Span(9, 12)),
        units=(number,), offsets=(0,), page_start=1, page_end=2, boxes=(Box(1, 0.5, 1.0, 2.0, 3.0),), tokens=7,
        metadata={"kv.form": "W-4"}, has_overlap=False, overlap="before", overlap_spans=(),
    )  # fmt: skip


def _sentences(chunks: Sequence[Chunk]) -> list[Sentence]:
    ids = [fingerprint("sentence", chunk.chunk_id) for chunk in chunks]
    around = zip([None, *ids], ids, [*ids[1:], None], chunks, strict=False)
    return [
        Sentence(
            doc_id=chunk.doc_id, index=number, sentence_id=own, text=chunk.text, source="parse", page=1, boxes=(),
            confidence=0.5, chunk_id=chunk.chunk_id, start=0, length=len(chunk.text), paragraph_id="p",
            paragraph=chunk.text, paragraph_start=0, paragraph_length=len(chunk.text), paragraph_span=chunk.spans[0],
            section_id="s1", section_path=("Top",), previous_id=previous, next_id=following,
        )
        for number, (previous, own, following, chunk) in enumerate(around)
    ]  # fmt: skip


def document(uri: str, *texts: str, dimension: int = DIMENSION, **changes: Any) -> IndexedDocument:
    """A document with a chunk of one sentence for each text; its terms are the words."""
    doc_id = document_id("s", uri)
    chunks = [_chunk(doc_id, number, text) for number, text in enumerate(texts)]
    sentences = _sentences(chunks)
    values: dict[str, Any] = {
        "raw": raw(uri, "s", content_hash=f"content of {uri}"),
        "parsed": ParsedDocument(doc_id, "Title", False, "en", "body", 2, None, None, None, {}, ()),
        "facts": DocumentFacts("Title", "title", date(2026, 1, 31), "2", ("hr",), {"owner": "me"}),
        "summary": "about",
        "stale": False,
        "row_hash": fingerprint(uri, texts),
        "chunks": chunks,
        "contexts": {chunks[0].chunk_id: "context"} if chunks else {},
        "terms": {chunk.chunk_id: Counter(chunk.text.split()) for chunk in chunks},
        "vectors": {chunk.chunk_id: vector(chunk.text, dimension) for chunk in chunks},
        "sentences": sentences,
        "sentence_vectors": {item.sentence_id: vector(item.text, dimension) for item in sentences},
    }
    return IndexedDocument(**{**values, **changes})


def rows(index: GenerationTables, statement: str) -> list[tuple[Any, ...]]:
    with index.database.connect() as connection:
        return connection.execute(statement.replace("FROM ", f"FROM {index.schema}.", 1)).fetchall()


def spoil(index: GenerationTables, statement: str) -> None:
    with psycopg.connect(index.database.url, user=ADMINISTRATOR) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(f"SET LOCAL search_path = {index.schema}, public")
        connection.execute(statement)
