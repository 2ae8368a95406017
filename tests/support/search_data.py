"""Generations for tests of the search index, written without the code that writes generations."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from psycopg.types.range import Int4Range

from pipelines.terms import terms_of
from resources.postgres.catalog import Catalog, GenerationRow
from resources.postgres.database import Database
from resources.postgres.search_index import PostgresSearchIndex, search_index
from tests.support.projects import drop_database

K1, B = 1.2, 0.75
BUCKETS, BLOCK = 4, 7


@contextmanager
def search_database(server_url: str, folder: Path, name: str) -> Iterator[Database]:
    """A migrated database of its own, dropped at the end."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with Database(server_url.replace("/postgres?", f"/{name}?"), folder) as made:
            made.migrate()
            yield made
    drop_database(server_url, name)


@dataclass
class Document:
    doc_id: str
    texts: list[str]
    values: dict[str, Any] = field(default_factory=dict)
    section: str | None = None
    block_type: str | None = None


def bm25(term_lists: Sequence[Sequence[str]], question: Sequence[str]) -> np.ndarray:
    """Scores of every chunk by the definition, term by term."""
    lengths = np.array([len(terms) for terms in term_lists], dtype=float)
    scores = np.zeros(len(term_lists))
    for term in question:
        tf = np.array([terms.count(term) for terms in term_lists], dtype=float)
        df = float((tf > 0).sum())
        idf = math.log(1 + (len(term_lists) - df + 0.5) / (df + 0.5))
        scores += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths / lengths.mean()))
    return scores


def bm25_weights(term_lists: Sequence[Sequence[str]]) -> dict[tuple[str, int], tuple[list[int], list[float]]]:
    """Postings of chunks numbered from 1: {(term, bucket): (numbers, weights)}."""
    average = sum(map(len, term_lists)) / len(term_lists)
    postings: dict[tuple[str, int], tuple[list[int], list[float]]] = {}
    for number, terms in enumerate(term_lists, start=1):
        for term, tf in Counter(terms).items():
            numbers, weights = postings.setdefault((term, number % BUCKETS), ([], []))
            numbers.append(number)
            weights.append(tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(terms) / average)))
    return postings


def packed_posting(numbers: Sequence[int], weights: Sequence[float]) -> tuple[bytes, bytes, bytes]:
    """Numbers, weights, and blocks of a few of them."""
    parts = [(numbers[at : at + BLOCK], weights[at : at + BLOCK]) for at in range(0, len(numbers), BLOCK)]
    blocks = b"".join(struct.pack(">3if", len(own), own[0], own[-1], max(of)) for own, of in parts)
    return struct.pack(f">{len(numbers)}i", *numbers), struct.pack(f">{len(weights)}f", *weights), blocks


def load(
    database: Database,
    documents: Sequence[Document],
    vectors: np.ndarray,
    half: bool = False,
    publish: bool = True,
) -> GenerationRow:
    """A generation with these documents, written without the code that writes generations."""
    catalog, dimension = Catalog(database), vectors.shape[1]
    texts = [text for document in documents for text in document.texts]
    term_lists = [terms_of(text) for text in texts]
    frequencies = Counter(term for terms in term_lists for term in set(terms))
    average = sum(map(len, term_lists)) / max(1, len(texts))
    statistics = {"chunks": len(texts), "average_terms": average}
    generation = catalog.create_generation("k", {}, {"identity": "e"}, dimension, statistics, {})
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET search_path = {generation.schema}, public")
        number = 0
        for position, document in enumerate(documents):
            row = {"source": "s", "uri": f"{document.doc_id}.pdf", "title": "T", "family": "f", "language": "en",
                   "effective_date": None, "version": None, "groups": [], "metadata": {}} | document.values  # fmt: skip
            columns = ", ".join(row)
            marks = ", ".join(f"%({name})s" for name in row)
            cursor.execute(
                f"INSERT INTO documents (doc_id, bucket, summary, content_hash, stale, row_hash, {columns}) "
                f"VALUES (%(doc_id)s, %(bucket)s, '', '', false, '', {marks})",
                {**row, "metadata": Jsonb(row["metadata"]), "doc_id": document.doc_id, "bucket": position % BUCKETS},
            )
        with cursor.copy(
            "COPY chunks (number, chunk_id, doc_id, ordinal, section_id, header_chain, block_types, text, overlap, "
            "context, page_start, page_end, boxes, spans, tokens, terms, metadata, previous_id, next_id, embedding) "
            "FROM STDIN"
        ) as copy:
            for document in documents:
                for ordinal, text in enumerate(document.texts):
                    vector = "[" + ",".join(map(str, vectors[number].tolist())) + "]"
                    number += 1
                    copy.write_row(
                        (number, f"c{number:05d}", document.doc_id, ordinal,
                         document.section or f"section{ordinal}", ["Top", f"Part {ordinal}"],
                         [document.block_type or ("paragraph" if ordinal else "table-row")], text, "before", "about",
                         1, 2, Jsonb([{"page": 1, "x0": 0, "y0": 1, "x1": 2, "y1": 3}]),
                         [Int4Range(0, 5), Int4Range(9, 12)], 1, len(term_lists[number - 1]),
                         Jsonb({"kv.form": "W-4\nI-9"} if ordinal == 2 else {}), None, None, vector)
                    )  # fmt: skip
        with cursor.copy("COPY postings (term, bucket, chunks, weights, blocks) FROM STDIN") as copy:
            for (term, bucket), (numbers, weights) in bm25_weights(term_lists).items():
                copy.write_row((term, bucket, *packed_posting(numbers, weights)))
        with cursor.copy("COPY terms (term, documents) FROM STDIN") as copy:
            for term, count in frequencies.items():
                copy.write_row((term, count))
        what = f"(embedding::halfvec({dimension})) halfvec_cosine_ops" if half else "embedding vector_cosine_ops"
        cursor.execute(f"CREATE INDEX ON chunks USING hnsw ({what})")
        cursor.execute("ANALYZE chunks, documents, postings, terms")
    if publish:
        catalog.publish(generation.generation)
    return generation


@contextmanager
def opened(
    database: Database, generation: GenerationRow, *keys: str, exact: bool = False
) -> Iterator[PostgresSearchIndex]:
    with database.connect() as connection, search_index(connection, generation.generation, keys, exact) as index:
        yield index


def walks(index: PostgresSearchIndex, table: str) -> int:
    """How often this connection walked the vector index of a table, since the server last took its counts."""
    schema = f"g{index.generation.number:04d}"
    asked = index.connection.execute(
        "SELECT pg_stat_get_xact_numscans(%s::regclass)", [f"{schema}.{table}_embedding_idx"]
    )
    ((count,),) = asked.fetchall()
    return int(count)


def clustered(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    vectors = (
        rng.standard_normal((count, dimension)) + 2 * rng.standard_normal((20, dimension))[rng.integers(0, 20, count)]
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def near(vectors: np.ndarray, count: int) -> np.ndarray:
    """Questions as close to some chunks as real ones are."""
    rng = np.random.default_rng(1)
    chosen = vectors[rng.integers(0, len(vectors), count)] + 0.1 * rng.standard_normal((count, vectors.shape[1]))
    return (chosen / np.linalg.norm(chosen, axis=1, keepdims=True)).astype(np.float32)


def nearest(vectors: np.ndarray, question: np.ndarray, allowed: np.ndarray, k: int) -> list[str]:
    scores = np.where(allowed, vectors @ question, -9)
    best = np.argsort(-scores, kind="stable")[: min(k, int(allowed.sum()))]
    return [f"c{at + 1:05d}" for at in best]
