"""Writes one generation's tables: documents with their chunks, sentences and postings, links, indexes.

A reader sees a document's old rows or its new ones, never a mixture: each method is one transaction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.records import SentenceLink
from resources import index_rows
from resources.index_rows import MOST_VECTOR_DIMENSIONS, IndexedDocument
from resources.sql_files import query, statements

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

    from resources.catalog import GenerationRow
    from resources.database import Database

__all__ = ["IndexBuild", "IndexTables", "IndexedDocument"]

INDEXED_TABLES = ("chunks", "sentences")
RELATED_BUDGET, EDGE_BUDGET = 2, 5
"""Most RELATED_TO links, and most edges of all kinds, for each sentence on average."""
_GRAPH_BYTES = 1500
"""Memory of one vector's place in an HNSW graph under construction, beside the vector."""
_REMOTE_KILOBYTES = 2 << 20

_PROBLEMS = {
    "orphan_sentence": "{count} sentences lie in no chunk of their document, such as {example}",
    "empty_document": "{count} documents have no chunk, such as {example}",
    "zero_vector": "{count} vectors are zero, such as that of {example}",
    "posting_without_chunk": "{count} chunk numbers in the postings have no chunk, such as {example}",
    "chunk_without_postings": "{count} chunks cannot be found by their terms, such as {example}",
    "uneven_postings": "{count} terms have more chunks than weights or fewer, such as {example!r}",
    "chunk_next_not_mutual": "{count} chunks have a neighbour that does not know them, such as {example}",
    "sentence_next_not_mutual": "{count} sentences have a neighbour that does not know them, such as {example}",
    "link_without_sentence": "{count} links lead from or to no sentence, or to their own, such as {example}",
}


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """Which vector indexes were built, in what time, and what Postgres remarked on it."""

    built: tuple[str, ...]
    seconds: float
    notices: tuple[str, ...]

    @property
    def fitted(self) -> bool:
        """Whether memory sufficed for the graphs."""
        return not any("no longer fits" in notice for notice in self.notices)


class IndexTables:
    def __init__(self, database: Database, generation: GenerationRow) -> None:
        self.database = database
        self.generation = generation
        self.schema = generation.schema

    # ------------------------------------------------------------ what is there

    def content_hashes(self) -> dict[str, str]:
        """doc_id to content hash, of all documents."""
        return dict(self._rows("content_hashes"))

    def document_hashes(self, bucket: int) -> dict[str, str]:
        """doc_id to row hash, of a bucket's documents."""
        return dict(self._rows("document_hashes", bucket=bucket))

    def chunk_count(self, bucket: int) -> int:
        return int(self._rows("chunk_count", bucket=bucket)[0][0])

    def counts(self) -> dict[str, int]:
        """Rows of documents, chunks, sentences and sentence_links."""
        names = ("documents", "chunks", "sentences", "sentence_links")
        return dict(zip(names, self._rows("counts")[0], strict=True))

    # ------------------------------------------------------------ documents

    def replace(self, bucket: int, documents: Sequence[IndexedDocument], removed_doc_ids: Collection[str] = ()) -> int:
        """Replace these documents of a bucket and remove others; returns the chunks deleted.

        Raises ModelError for a vector that cannot be stored, before anything is written, and
        IndexStateError where the generation's statistics are not frozen yet."""
        index_rows.check_vectors(documents, self.generation.dimension)
        average = self.generation.statistics.get("average_terms")
        if average is None and documents:
            raise IndexStateError(f"generation {self.generation.generation} has no frozen average_terms yet")
        doc_ids = [*removed_doc_ids, *(document.raw.doc_id for document in documents)]
        with self.database.connect() as connection:
            removed = [row[0] for row in self._run(connection, "chunk_numbers_of", doc_ids=doc_ids)]
            self._run(connection, "delete_documents", doc_ids=doc_ids)
            numbers = self._copy_documents(connection, bucket, documents)
            if removed:
                self._run(connection, "prune_postings", bucket=bucket, removed=removed)
                self._run(connection, "delete_empty_postings", bucket=bucket)
            if numbers and average:
                self._add_postings(connection, bucket, index_rows.postings_of(documents, numbers, average))
        return len(removed)

    def _copy_documents(
        self, connection: Connection[Any], bucket: int, documents: Sequence[IndexedDocument]
    ) -> dict[str, int]:
        """Returns the number of every new chunk."""
        from pgvector.psycopg import register_vector

        register_vector(connection)
        chunk_ids = [chunk.chunk_id for document in documents for chunk in document.chunks]
        fresh = self._run(connection, "new_chunk_numbers", count=len(chunk_ids))
        numbers = {chunk_id: row[0] for chunk_id, row in zip(chunk_ids, fresh, strict=True)}
        rows: Iterable[tuple[Any, ...]] = (index_rows.document_row(document, bucket) for document in documents)
        self._copy(connection, "copy_documents", index_rows.DOCUMENT_TYPES, rows)
        rows = (row for document in documents for row in index_rows.chunk_rows(document, numbers))
        self._copy(connection, "copy_chunks", index_rows.CHUNK_TYPES, rows)
        rows = (row for document in documents for row in index_rows.sentence_rows(document))
        self._copy(connection, "copy_sentences", index_rows.SENTENCE_TYPES, rows)
        return numbers

    def _add_postings(self, connection: Connection[Any], bucket: int, postings: index_rows.Postings) -> None:
        merged = self._run(connection, "has_postings", bucket=bucket)[0][0]
        if merged:
            connection.execute(query("index", "stage_postings"))
        statement = query("index", "copy_staged_postings") if merged else self._query("copy_postings")
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for data in index_rows.packed_postings(postings, bucket):
                copy.write(data)
        if merged:
            self._run(connection, "merge_postings")

    # ------------------------------------------------------------ statistics and links

    def freeze_terms(self, frequencies: Mapping[str, int]) -> None:
        """Set in how many chunks each term stands: once, when the generation's statistics are frozen."""
        with self.database.connect() as connection:
            self._run(connection, "clear_terms")
            self._copy(connection, "copy_terms", index_rows.TERM_TYPES, frequencies.items())

    def replace_links(self, links: Iterable[SentenceLink]) -> tuple[int, int]:
        """Make RELATED_TO these links; only rows that differ are touched. Returns (written, deleted)."""
        with self.database.connect() as connection:
            connection.execute(query("index", "stage_links"))
            rows = ((link.source_id, link.target_id, link.similarity) for link in links)
            self._copy(connection, "copy_staged_links", index_rows.LINK_TYPES, rows)
            deleted = connection.execute(self._query("delete_links")).rowcount
            return connection.execute(self._query("merge_links")).rowcount, deleted

    # ------------------------------------------------------------ vector indexes

    def build_vector_indexes(self, live: bool = False) -> IndexBuild:
        """Build the vector indexes that are missing or invalid; `live` keeps writers unblocked."""
        started = time.perf_counter()
        notices: list[str] = []
        with self.database.connect(autocommit=True) as connection:
            connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
            valid = self._valid_indexes(connection)
            missing = [table for table in INDEXED_TABLES if not valid.get(_index_name(table))]
            for table in missing:
                if _index_name(table) in valid:
                    names = {"schema": self.schema, "index": _index_name(table)}
                    connection.execute(query("index", "drop_vector_index", **names))
                self._build(connection, table, live)
            if missing:
                self._run(connection, "analyze")
        return IndexBuild(tuple(missing), time.perf_counter() - started, tuple(notices))

    def _build(self, connection: Connection[Any], table: str, live: bool) -> None:
        dimension, half = self.generation.dimension, self.generation.dimension > MOST_VECTOR_DIMENSIONS
        count = connection.execute(query("index", "row_count", schema=self.schema, table=table)).fetchone()
        rows = count[0] if count else 0
        need = rows * (dimension * (2 if half else 4) + _GRAPH_BYTES) // 1024
        self._run(connection, "more_memory", kilobytes=min(need, self._most_kilobytes()))
        statement = "create_half_vector_index" if half else "create_vector_index"
        values: dict[str, str | int] = {"schema": self.schema, "index": _index_name(table), "table": table}
        if half:
            values["dimension"] = dimension
        connection.execute(query("index", statement + ("_concurrently" if live else ""), **values))

    def _most_kilobytes(self) -> int:
        """A quarter of this machine's memory for a server on it."""
        if not self.database.embedded:
            return _REMOTE_KILOBYTES
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4096

    def _valid_indexes(self, connection: Connection[Any]) -> dict[str, bool]:
        names = [_index_name(table) for table in INDEXED_TABLES]
        return dict(self._run(connection, "index_states", schema_name=self.schema, names=names))

    # ------------------------------------------------------------ audit

    def audit(self) -> list[tuple[str, str]]:
        """Problems as (code, message); empty when everything holds. Codes of RELATED_TO have `link`
        in them, those of NEXT and PREVIOUS `next`."""
        problems = []
        with self.database.connect() as connection:
            for code, message in _PROBLEMS.items():
                count, example = self._audit(connection, code)
                if count:
                    problems.append((code, message.format(count=count, example=example)))
            sentences, related, edges = self._audit(connection, "edges")
            valid = self._valid_indexes(connection)
        if related > RELATED_BUDGET * sentences or edges > EDGE_BUDGET * sentences:
            problems.append(
                ("link_budget", f"{related} links and {edges} edges in all are too many for {sentences} sentences")
            )
        for table in INDEXED_TABLES:
            if not valid.get(_index_name(table)):
                state = "invalid" if _index_name(table) in valid else "missing"
                problems.append(("vector_index", f"the vector index of {self.schema}.{table} is {state}"))
        return problems

    def _audit(self, connection: Connection[Any], name: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = connection.execute(query("audit", name, schema=self.schema)).fetchone()
        assert row is not None, name
        return row

    # ------------------------------------------------------------ within

    def _query(self, name: str) -> Composed:
        has_schema = "{schema}" in statements("index")[name]
        return query("index", name, schema=self.schema) if has_schema else query("index", name)

    def _run(self, connection: Connection[Any], name: str, **values: Any) -> list[tuple[Any, ...]]:
        cursor = connection.execute(self._query(name), values)
        return cursor.fetchall() if cursor.description else []

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            return self._run(connection, name, **values)

    def _copy(
        self, connection: Connection[Any], name: str, types: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        with connection.cursor() as cursor, cursor.copy(self._query(name)) as copy:
            copy.set_types(types)
            write: Callable[[Sequence[Any]], None] = copy.write_row
            for row in rows:
                write(row)


def _index_name(table: str) -> str:
    return f"{table}_embedding"
