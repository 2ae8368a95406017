"""Loading Postgres and building vector indexes, each against its peer in the same run.

    python benchmarks/loading.py [--parts copy hnsw] [--rows 50000] [--vectors 100000]

copy: chunk rows of 384 dimensions and 1 KB of text, written as the pipeline writes them (every column,
      into the generation's tables with their keys), against bare psycopg binary COPY loops: of number,
      text and vector into a table without keys, and of the very same rows into such a table.
hnsw: the build of the chunks' vector index, in full and in half precision, against CREATE INDEX by hand on a copy
      of the table with the same maintenance_work_mem, in turn, the best of each; its bytes, and how many of the
      nearest in full precision a walk of it finds, in what time.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.increments import DIMENSION, invented  # noqa: E402  (path above)
from pipelines.fingerprint import document_id, fingerprint  # noqa: E402
from pipelines.indexing.indexed_documents import DocumentFacts  # noqa: E402
from pipelines.records import Chunk, ParsedDocument, RawDocument, Span  # noqa: E402
from pipelines.settings.base import VectorIndexSettings  # noqa: E402
from resources.postgres import index_rows  # noqa: E402
from resources.postgres.catalog import Catalog  # noqa: E402
from resources.postgres.database import Database  # noqa: E402
from resources.postgres.generation_tables import GenerationTables  # noqa: E402
from resources.postgres.index_rows import IndexedDocument  # noqa: E402
from resources.postgres.search_index import LEAST_EF_SEARCH  # noqa: E402
from resources.postgres.statements import query  # noqa: E402
from resources.postgres.vector_indexes import VectorIndexes  # noqa: E402

PARTS = ("copy", "hnsw")
CHUNKS_A_DOCUMENT = 100
PROBES, NEAREST, WIDTH = 100, 10, LEAST_EF_SEARCH

# ---------------------------------------------------------------- COPY


def made_document(number: int, words: Sequence[str], vectors: Any) -> IndexedDocument:
    """A document of chunks of 1 KB with a box each, and no sentences."""
    chance = random.Random(number)
    doc_id = document_id("s", str(number))
    chunks = []
    for place in range(len(vectors)):
        text = " ".join(chance.choices(words, k=170))[:1024]
        chunk = Chunk(
            doc_id=doc_id, index=place, chunk_id=fingerprint(doc_id, place), section_id="s",
            header_chain=("Notices", f"Part {place}"), block_types=("paragraph",), text=text,
            spans=(Span(place * 1100, place * 1100 + 1024),), units=(place,), offsets=(0,), page_start=None,
            page_end=None, boxes=(), tokens=250, metadata={}, has_overlap=False, overlap="", overlap_spans=(),
        )  # fmt: skip
        chunks.append(chunk)
    return IndexedDocument(
        raw=RawDocument(doc_id, "s", f"{number}.md", "0" * 32, 1, "text/markdown", None, None, None, None, (), {}),
        parsed=ParsedDocument(doc_id, "Notice", False, "en", "", None, None, None, None, {}, ()),
        facts=DocumentFacts("Notice", "notice", None, None, (), {}),
        summary="",
        stale=False,
        row_hash="",
        chunks=chunks,
        contexts={},
        terms={chunk.chunk_id: Counter(chunk.text.split()) for chunk in chunks},
        vectors={chunk.chunk_id: vector for chunk, vector in zip(chunks, vectors, strict=True)},
        sentences=[],
        sentence_vectors={},
    )


def made_documents(rows: int) -> Iterator[IndexedDocument]:
    """Vectors lie in clusters, as those of texts do."""
    noise, words = np.random.default_rng(1), invented(random.Random(5), 4000)
    centres = noise.standard_normal((500, DIMENSION))
    for number in range(rows // CHUNKS_A_DOCUMENT):
        block = centres[noise.integers(0, len(centres), CHUNKS_A_DOCUMENT)]
        block = (block + noise.standard_normal(block.shape)).astype(np.float32)
        yield made_document(number, words, block / np.linalg.norm(block, axis=1, keepdims=True))


class TimedTables(GenerationTables):
    """The project's own writer; remembers the seconds of each COPY."""

    spent: Counter[str]

    def _copy(self, connection: Any, table: str, columns: Any, rows: Any) -> None:
        started = time.perf_counter()
        super()._copy(connection, table, columns, rows)
        self.spent[table] += time.perf_counter() - started  # type: ignore[assignment]


def new_tables(database: Database) -> TimedTables:
    generation = Catalog(database).create_generation("bench", {}, {}, DIMENSION, {"average_terms": 150.0}, {})
    tables = TimedTables(database, generation)
    tables.spent = Counter()
    return tables


def bare_copy(
    database: Database, create: str, types: Sequence[str], rows: Sequence[Sequence[Any]], by_hand: bool = False
) -> float:
    """Seconds of a plain loop of write_row into a new table without keys, or of rows packed by hand."""
    from pgvector.psycopg import register_vector

    with database.connect() as connection:
        register_vector(connection)
        connection.execute("DROP TABLE IF EXISTS bare")
        connection.execute(create)
    with database.connect() as connection:
        register_vector(connection)
        started = time.perf_counter()
        with connection.cursor() as cursor, cursor.copy("COPY bare FROM STDIN (FORMAT binary)") as copy:
            if by_hand:
                for block in index_rows.packed_rows(types, rows):
                    copy.write(block)
            else:
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
        return time.perf_counter() - started


def measure_copy(database: Database, rows: int) -> None:
    documents = list(made_documents(rows))
    numbers = {chunk.chunk_id: place for place, chunk in enumerate(c for d in documents for c in d.chunks)}
    wide = [row for item in documents for row in index_rows.chunk_rows(item, numbers)]
    places = [list(index_rows.CHUNKS).index(name) for name in ("number", "text", "embedding")]
    narrow = [tuple(row[place] for place in places) for row in wide]
    vectors = [row[-1:] for row in narrow]
    tables, whole, copied, bare, same, packed, adapted, by_hand = None, [], [], [], [], [], [], []
    for _ in range(3):
        kind = f"CREATE TABLE bare (embedding vector({DIMENSION}))"
        adapted.append(bare_copy(database, kind, ("vector",), vectors))
        by_hand.append(bare_copy(database, kind, ("vector",), vectors, by_hand=True))
        bare.append(
            bare_copy(
                database,
                f"CREATE TABLE bare (number int, text text, embedding vector({DIMENSION}))",
                ("int4", "text", "vector"),
                narrow,
            )
        )
        tables = new_tables(database)
        alike, types = f"CREATE TABLE bare (LIKE {tables.schema}.chunks)", tuple(index_rows.CHUNKS.values())
        same.append(bare_copy(database, alike, types, wide))
        packed.append(bare_copy(database, alike, types, wide, by_hand=True))
        started = time.perf_counter()
        for bucket, first in enumerate(range(0, len(documents), 32)):
            tables.replace(bucket, documents[first : first + 32])
        whole.append(time.perf_counter() - started)
        copied.append(tables.spent["chunks"])
    print(f"COPY of {len(wide)} rows of {DIMENSION} dimensions and 1 KB of text, the best of three")
    for name, spent in (
        ("bare, vectors alone", min(adapted)),
        ("the same, packed by hand", min(by_hand)),
        ("bare, number, text and vector", min(bare)),
        ("bare, the same rows", min(same)),
        ("the same, packed by hand", min(packed)),
        ("pincite, COPY of chunks", min(copied)),
        ("pincite, documents replaced with postings", min(whole)),
    ):
        rate, peer = len(wide) / spent, min(bare) / spent
        print(f"  {name:44}{rate:8,.0f} rows/s   {peer:.2f} x the first   (at least 40,000 for COPY)")


# ---------------------------------------------------------------- HNSW


def measure_hnsw(database: Database, vectors: int) -> None:
    tables = new_tables(database)
    for bucket, item in enumerate(made_documents(vectors)):
        tables.replace(bucket % 16, [item])
    settings = VectorIndexSettings(memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 >> 20)
    with database.connect(autocommit=True) as connection:
        connection.execute(f"CREATE TABLE by_hand AS TABLE {tables.schema}.chunks")
        connection.execute(f"VACUUM ANALYZE by_hand, {tables.schema}.chunks")
    nearest = exactly(database, tables.schema)
    print(
        f"HNSW of {vectors:,} vectors of {DIMENSION} dimensions, {settings.memory_mb} MB to build it, the best of two"
    )
    for precision, kind in (("full", "embedding vector"), ("half", f"(embedding::halfvec({DIMENSION})) halfvec")):
        row = Catalog(database).add_statistics(tables.generation.generation, {"precision": precision})
        indexes, ours, by_hand = VectorIndexes(database, row, settings), [], []
        for _ in range(2):
            ours.append(indexes.build(anew=["chunks"]).seconds)
            with database.connect(autocommit=True) as connection:
                connection.execute(query("generation", "take_memory"), {"megabytes": settings.memory_mb})
                started = time.perf_counter()
                connection.execute(f"CREATE INDEX by_hand_embedding ON by_hand USING hnsw ({kind}_cosine_ops)")
                connection.execute("ANALYZE by_hand")
                by_hand.append(time.perf_counter() - started)
                connection.execute("DROP INDEX by_hand_embedding")
                size = connection.execute(f"SELECT pg_relation_size('{tables.schema}.chunks_embedding')").fetchall()[0][
                    0
                ]
        found, milliseconds = walked(database, tables.schema, nearest, precision)
        hand, own = min(by_hand), min(ours)
        print(f"  {precision}: by hand {hand:6.1f} s, pincite {own:6.1f} s, {own / hand:.2f} x (at most 1.20); "
              f"{size / 1e6:,.0f} MB; a walk of width {WIDTH} finds {found:.4f} of the {NEAREST} nearest in full "
              f"precision and takes {milliseconds:.2f} ms")  # fmt: skip


def exactly(database: Database, schema: str) -> list[tuple[str, set[int]]]:
    """Some of the vectors, moved a little, and the numbers of the nearest chunks of each, in full precision."""
    chance = np.random.default_rng(7)
    with database.connect() as connection:
        rows = connection.execute(
            f"SELECT embedding::text FROM {schema}.chunks ORDER BY md5(number::text) LIMIT {PROBES}"
        ).fetchall()
        connection.execute("SET LOCAL enable_indexscan = off")
        probes = []
        for (text,) in rows:
            vector = np.array([float(value) for value in text.strip("[]").split(",")])
            moved = str((vector + chance.normal(0, 0.2 / len(vector) ** 0.5, len(vector))).tolist())
            probes.append((moved, _numbers(connection, schema, "embedding <=> %s::vector", moved)))
    return probes


def walked(
    database: Database, schema: str, nearest: Sequence[tuple[str, set[int]]], precision: str
) -> tuple[float, float]:
    """Share of the nearest that a walk finds, and the milliseconds of one at the median."""
    half = f"halfvec({DIMENSION})"
    order = f"embedding::{half} <=> %s::{half}" if precision == "half" else "embedding <=> %s::vector"
    found, spent = 0, []
    with database.connect() as connection:
        connection.execute(f"SET LOCAL hnsw.ef_search = {WIDTH}")
        connection.execute("SET LOCAL enable_seqscan = off")
        for probe, wanted in nearest:
            started = time.perf_counter()
            found += len(_numbers(connection, schema, order, probe) & wanted)
            spent.append(1000 * (time.perf_counter() - started))
    return found / (NEAREST * len(nearest)), sorted(spent)[len(spent) // 2]


def _numbers(connection: Any, schema: str, order: str, probe: str) -> set[int]:
    rows = connection.execute(f"SELECT number FROM {schema}.chunks ORDER BY {order} LIMIT {NEAREST}", [probe])
    return {number for (number,) in rows.fetchall()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=50_000, help="Rows of the COPY.")
    parser.add_argument("--vectors", type=int, default=100_000, help="Vectors of the HNSW index.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        database = Database("embedded", Path(folder) / "state")
        database.migrate()
        try:
            if "copy" in options.parts:
                measure_copy(database, options.rows)
            if "hnsw" in options.parts:
                measure_hnsw(database, options.vectors)
        finally:
            database.close()


if __name__ == "__main__":
    main()
