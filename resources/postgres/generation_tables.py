"""The writer of one generation's tables: documents with their chunks, sentences, postings and links.

A reader sees a document's old rows or its new ones, never a mixture: each method is one transaction, or part of the
caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.records import SentenceLink
from pipelines.settings.base import VectorIndexSettings
from resources.postgres.database import damaged_postings
from resources.postgres.statements import query, statements
from resources.postgres.vector_indexes import VectorIndexes

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection
    from psycopg.sql import Composed

    from resources.postgres.catalog import GenerationRow
    from resources.postgres.database import Database
    from resources.postgres.index_rows import Columns, IndexedDocument
    from resources.postgres.postings import Groups, Postings, Row, StandingPostings


STAGED_TABLES = ("staged_postings", "staged_links")
"""Tables of the session, whose rows are merged into the generation's."""


END = "g"
"""An upper bound of all document ids, which are hexadecimal."""
EMPTY = ""
"""The state text of an empty bucket."""
BLOCK = 10_000
"""Most documents whose content hashes are read in one answer."""
FEW = 4
"""Number of buckets up to which they are queried one by one; for more, one query for all is cheaper."""

Commit = Callable[["Connection[Any]", str, int], None]
"""A callback at the end of a transaction, with its connection, the bucket's state and its number of chunks."""


class GenerationTables:
    """The tables of one generation. `vector_index` holds the settings for building its vector indexes."""

    def __init__(
        self, database: Database, generation: GenerationRow, vector_index: VectorIndexSettings | None = None
    ) -> None:
        self.database = database
        self.generation = generation
        self.schema = generation.schema
        self._vector_index = vector_index or VectorIndexSettings()

    # ------------------------------------------------------------ statements of sql/queries/generation.sql, and COPY

    def _query(self, name: str) -> Composed:
        has_schema = "{schema}" in statements("generation")[name]
        return query("generation", name, schema=self.schema) if has_schema else query("generation", name)

    def _run(
        self, connection: Connection[Any], name: str, *, binary: bool = False, **values: Any
    ) -> list[tuple[Any, ...]]:
        cursor = connection.execute(self._query(name), values, binary=binary)
        return cursor.fetchall() if cursor.description else []

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        return self.database.rows(self._query(name), values)

    def _copy(self, connection: Connection[Any], table: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> None:
        """Copy rows into a table of the generation, or a staged one. Postgres refuses COPY for a user subject to
        row-level security, such as an owner who is not a superuser; such rows go through a temporary table."""
        from resources.postgres.index_rows import packed_rows

        staged = table in STAGED_TABLES
        held = not staged and self._run(connection, "row_security_holds")[0][0]
        names = {"schema": self.schema, "table": table}
        if held:
            connection.execute(query("generation", "stage_rows", **names))
        schema = "pg_temp" if held or staged else self.schema
        statement = query("generation", "copy_rows", schema=schema, table=table, columns=tuple(columns))
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for data in packed_rows(columns.values(), rows):
                copy.write(data)
        if held:
            connection.execute(query("generation", "move_staged_rows", **names))
            connection.execute(query("generation", "drop_staged_rows", table=table))

    # ------------------------------------------------------------ postings, in the transaction of the connection

    def _standing(self, connection: Connection[Any], bucket: int) -> StandingPostings:
        from resources.postgres.postings import StandingPostings

        try:
            return StandingPostings(bucket, self._run(connection, "postings_in", binary=True, bucket=bucket))
        except ValueError as error:
            raise damaged_postings(self.schema, f"{error} in bucket {bucket:02d}") from None

    def _add_postings(self, connection: Connection[Any], bucket: int, posted: Mapping[Groups, Postings]) -> None:
        """Add the postings of new documents, by their groups."""
        from resources.postgres.index_rows import POSTINGS

        if not any(own.terms for own in posted.values()):
            return
        rows = (row for groups, own in posted.items() for row in own.rows(bucket, groups))
        if self._run(connection, "has_postings", bucket=bucket)[0][0]:
            self._stage(connection, rows)
            self._run(connection, "append_postings")
        else:
            self._copy(connection, "postings", POSTINGS, rows)

    def _set_postings(self, connection: Connection[Any], rows: Iterable[Row]) -> None:
        """Set rows to these postings, whether they exist or not; delete rows that become empty."""
        self._stage(connection, rows)
        self._run(connection, "set_postings")
        self._run(connection, "delete_empty_postings")

    def _move_postings(self, connection: Connection[Any], bucket: int, groups: Mapping[int, Groups]) -> None:
        """Change the groups of a bucket's chunks, given by number."""
        standing = self._standing(connection, bucket)
        self._set_postings(connection, standing.rows_without(list(groups)))
        self._set_postings(connection, standing.rows_with_moves(groups))

    def _stage(self, connection: Connection[Any], rows: Iterable[Row]) -> None:
        from resources.postgres.index_rows import POSTINGS

        self._run(connection, "drop_staged_postings")
        self._run(connection, "stage_postings")
        self._copy(connection, "staged_postings", POSTINGS, rows)

    # ------------------------------------------------------------ reading

    def content_hashes(self, first: str = "", after: str = END) -> dict[str, str]:
        """Return doc_id -> content hash of all documents with `first` <= id < `after`."""
        return dict(self._rows("content_hashes", first=first, after=after))

    def all_content_hashes(self) -> Iterator[dict[str, str]]:
        """Yield the same of all documents, block by block."""
        last = ""
        while rows := self._rows("content_hashes_after", last=last, most=BLOCK):
            yield dict(rows)
            last = rows[-1][0]
            if len(rows) < BLOCK:
                return

    def served_documents(self, first: str = "", after: str = END) -> pa.Table:
        """Return doc_id, source, content_hash, groups and uri of the same documents."""
        import pyarrow as pa

        rows = self._rows("served_documents", first=first, after=after)
        columns = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        kinds = {"doc_id": pa.string(), "source": pa.string(), "content_hash": pa.string(),
                 "groups": pa.list_(pa.string()), "uri": pa.string()}  # fmt: skip
        return pa.table([pa.array(own, kind) for own, kind in zip(columns, kinds.values(), strict=True)], list(kinds))

    def document_hashes(self, bucket: int) -> dict[str, str]:
        """Return doc_id -> row hash of a bucket's documents."""
        return dict(self._rows("document_hashes", bucket=bucket))

    def bucket_states(self, buckets: Collection[int] = ()) -> dict[int, str]:
        """Return a text for every non-empty bucket that changes whenever the bucket's rows change. All buckets are read
        if none are named, or more than FEW."""
        if 0 < len(buckets) <= FEW:
            return dict(row for bucket in buckets for row in self._rows("bucket_states", bucket=bucket))
        return dict(self._rows("bucket_states", bucket=None))

    def bytes(self) -> int:
        """Return the bytes of the generation's tables and indexes on disk."""
        return int(self._rows("schema_bytes", schema_name=self.schema)[0][0])

    def document_groups(self, first: str = "", after: str = END) -> dict[str, tuple[int, tuple[str, ...]]]:
        """Return doc_id -> (bucket, groups) of all documents with `first` <= id < `after`."""
        rows = self._rows("document_groups", first=first, after=after)
        return {doc_id: (bucket, tuple(groups)) for doc_id, bucket, groups in rows}

    def chunks_of(self, doc_ids: Collection[str]) -> int:
        """Return the number of chunks of these documents."""
        return len(self._rows("chunk_numbers_of", doc_ids=sorted(doc_ids)))

    def methods(self) -> dict[str, dict[str, int]]:
        """Return how summaries and contexts were made: table -> method -> number of rows."""
        found: dict[str, dict[str, int]] = {}
        for table, method, count in self._rows("methods"):
            found.setdefault(table, {})[method] = count
        return found

    def counts(self) -> dict[str, int]:
        """Return the numbers of rows of documents, chunks, sentences, sentence_links and terms."""
        names = ("documents", "chunks", "sentences", "sentence_links", "terms")
        return dict(zip(names, self._rows("counts")[0], strict=True))

    def link_count(self) -> int:
        return int(self._rows("link_count")[0][0])

    def require_names(self) -> None:
        """Raise IndexStateError (`damaged_schema`) if the tables of names and abbreviations are gone."""
        self._rows("look_at_names")

    def term_count(self) -> int:
        return int(self._rows("term_count")[0][0])

    # ------------------------------------------------------------ documents

    def replace(
        self,
        bucket: int,
        documents: Sequence[IndexedDocument],
        removed_doc_ids: Collection[str] = (),
        *,
        whole: bool = False,
        held: Collection[str] = (),
        regrouped: Mapping[str, Sequence[str]] | None = None,
        commit: Commit | None = None,
    ) -> int:
        """Replace these documents of a bucket and remove others; return the number of chunks deleted.

        `whole` first removes all other rows of the bucket. `held` are documents whose rows are kept and marked stale;
        `regrouped` changes only the groups of documents. `commit` is called within the transaction.

        Raises ModelError if a vector cannot be stored, and IndexStateError if the generation's statistics are not
        frozen yet; nothing is written then.
        """
        removed = [*removed_doc_ids, *(document.raw.doc_id for document in documents)]
        parts = [documents] if documents else []
        return self.replace_by_parts(bucket, parts, removed, whole=whole, held=held, regrouped=regrouped, commit=commit)

    def replace_by_parts(
        self,
        bucket: int,
        parts: Iterable[Sequence[IndexedDocument]],
        removed_doc_ids: Sequence[str],
        *,
        whole: bool = False,
        held: Collection[str] = (),
        regrouped: Mapping[str, Sequence[str]] | None = None,
        commit: Commit | None = None,
    ) -> int:
        """Replace documents like `replace`, with one part of them in memory at a time. `removed_doc_ids` must include
        those that the bucket may already have."""
        from resources.postgres.postings import joined_postings

        with self.database.writing(bucket) as connection:
            deleted = (
                self._clear(connection, bucket, held) if whole else self._remove(connection, bucket, removed_doc_ids)
            )
            posted: dict[Groups, list[Postings]] = {}
            for documents in filter(None, parts):
                for groups, own in self._add_documents(connection, bucket, documents).items():
                    posted.setdefault(groups, []).append(own)
            self._add_postings(connection, bucket, {groups: joined_postings(own) for groups, own in posted.items()})
            if held:
                self._run(connection, "hold_documents", doc_ids=sorted(held))
            for doc_id, readers in (regrouped or {}).items():
                self._run(connection, "regroup_document", doc_id=doc_id, groups=list(readers))
            if regrouped:
                moved = self._run(connection, "chunk_numbers_by_groups", doc_ids=list(regrouped))
                self._move_postings(connection, bucket, {number: tuple(readers) for number, readers in moved})
            if commit:
                rows = int(self._run(connection, "chunk_count", bucket=bucket)[0][0])
                states = self._run(connection, "bucket_states", bucket=bucket)
                commit(connection, states[0][1] if states else EMPTY, rows)
        return deleted

    def _average_terms(self) -> float:
        found = self.generation.statistics.get("average_terms")
        if found is None:
            raise IndexStateError(
                f"generation {self.generation.generation} was never completed: it has no frozen statistics; run "
                "`pincite index` with its settings first",
                "not_built",
            )
        return float(found)

    def _remove(self, connection: Connection[Any], bucket: int, doc_ids: Sequence[str]) -> int:
        if not doc_ids:
            return 0
        removed = [row[0] for row in self._run(connection, "chunk_numbers_of", doc_ids=doc_ids)]
        self._run(connection, "delete_documents", doc_ids=doc_ids)
        if removed:
            self._set_postings(connection, self._standing(connection, bucket).rows_without(removed))
        return len(removed)

    def _clear(self, connection: Connection[Any], bucket: int, held: Collection[str]) -> int:
        before = len(self._run(connection, "chunk_numbers_in", bucket=bucket))
        self._run(connection, "clear_bucket", bucket=bucket, held=sorted(held))
        kept = [row[0] for row in self._run(connection, "chunk_numbers_in", bucket=bucket)]
        if kept:
            self._set_postings(connection, self._standing(connection, bucket).only(kept))
        else:
            self._run(connection, "clear_postings", bucket=bucket)
        return before - len(kept)

    def _add_documents(
        self, connection: Connection[Any], bucket: int, documents: Sequence[IndexedDocument]
    ) -> dict[Groups, Postings]:
        """Copy all rows of documents, and return their postings, which are computed while Postgres stores the rows."""
        from resources.postgres import index_rows
        from resources.postgres.postings import by_groups, postings_of

        average = self._average_terms()
        index_rows.check_vectors(documents, self.generation.dimension, self.generation.half)
        chunk_ids = [chunk.chunk_id for document in documents for chunk in document.chunks]
        fresh = self._run(connection, "new_chunk_numbers", count=len(chunk_ids))
        numbers = {chunk_id: row[0] for chunk_id, row in zip(chunk_ids, fresh, strict=True)}
        with ThreadPoolExecutor(1) as beside:
            posted = {
                groups: beside.submit(postings_of, own, numbers, average)
                for groups, own in by_groups(documents).items()
            }
            self._copy_documents(connection, bucket, documents, numbers)
        return {groups: own.result() for groups, own in posted.items()}

    def _copy_documents(
        self,
        connection: Connection[Any],
        bucket: int,
        documents: Sequence[IndexedDocument],
        numbers: Mapping[str, int],
    ) -> None:
        from resources.postgres import index_rows

        rows: Iterable[tuple[Any, ...]] = (index_rows.document_row(document, bucket) for document in documents)
        self._copy(connection, "documents", index_rows.DOCUMENTS, rows)
        rows = (row for document in documents for row in index_rows.name_rows(document))
        self._copy(connection, "document_names", index_rows.DOCUMENT_NAMES, rows)
        rows = (row for document in documents for row in index_rows.abbreviation_rows(document))
        self._copy(connection, "abbreviations", index_rows.ABBREVIATIONS, rows)
        rows = (row for document in documents for row in index_rows.chunk_rows(document, numbers))
        self._copy(connection, "chunks", index_rows.CHUNKS, rows)
        rows = (row for document in documents for row in index_rows.sentence_rows(document))
        self._copy(connection, "sentences", index_rows.SENTENCES, rows)

    # ------------------------------------------------------------ statistics and links

    def freeze_terms(
        self,
        frequencies: Mapping[tuple[str, ...], Mapping[str, int]],
        commit: Callable[[Connection[Any]], None] | None = None,
    ) -> None:
        """Store the number of chunks with each term, by their documents' groups: once, when the generation's statistics
        are frozen. `commit` is called within the transaction."""
        from resources.postgres import index_rows

        rows = ((term, groups, count) for groups, counts in frequencies.items() for term, count in counts.items())
        with self.database.writing() as connection:
            self._run(connection, "clear_terms")
            self._copy(connection, "terms", index_rows.TERMS, rows)
            if commit:
                commit(connection)

    def replace_links(self, links: Iterable[SentenceLink]) -> tuple[int, int]:
        """Make these links the rows of RELATED_TO; only rows that differ are written. Return (written, deleted)."""
        from resources.postgres import index_rows

        with self.database.writing() as connection:
            connection.execute(query("generation", "stage_links"))
            rows = ((link.source_id, link.target_id, link.similarity) for link in links)
            self._copy(connection, "staged_links", index_rows.SENTENCE_LINKS, rows)
            deleted = connection.execute(self._query("delete_links")).rowcount
            return connection.execute(self._query("merge_links")).rowcount, deleted

    def delete_dangling_links(self) -> None:
        """Delete links without a target, after a document was removed from a generation whose links are not rebuilt."""
        with self.database.writing() as connection:
            self._run(connection, "delete_dangling_links")

    @property
    def vector_indexes(self) -> VectorIndexes:
        return VectorIndexes(self.database, self.generation, self._vector_index)
