"""From Parquet to the generation's Postgres tables: rows and links, and whether they agree."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.fingerprint import combined
from pipelines.increments import DocumentState
from pipelines.indexing.indexed_documents import DocumentFacts, document_facts, row_hash
from pipelines.records import ChunkTerms, ParsedDocument, RawDocument, SentenceLink
from pipelines.schemas import from_table
from pipelines.stages import WHOLE
from resources.parquet.vectors import vectors_of
from resources.postgres.catalog import ManifestRow, add_statistics, commit_row
from resources.postgres.generation_tables import EMPTY, GenerationTables, IndexedDocument
from resources.postgres.vector_indexes import INDEXED_TABLES, Indexed, index_name
from resources.state import generation as generations
from resources.state.stage_work import StageReport, rows_by_document
from resources.state.table import committed

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

TEXTS = ("chunks", "sentences", "document_summaries", "chunk_contexts")
TERMS = "chunk_terms"
"""Made of chunks and title, whose hashes stand for it."""
VECTORS = ("chunk_embeddings", "sentence_search_embeddings")
INPUTS = ("raw_documents", "parsed_documents", *TEXTS, *VECTORS)
"""The tables that a document's rows are made of."""


@dataclass
class _Bucket:
    """One bucket's documents as Parquet has them, and the hash of each one's rows."""

    bucket: int
    files: Mapping[str, str]
    states: Mapping[str, Mapping[str, DocumentState]]
    raws: Mapping[str, RawDocument]
    parsed: Mapping[str, ParsedDocument]
    hashes: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    """Documents that a stage after parsing could not make: what readers are served of them stays."""

    def stale(self, doc_id: str) -> bool:
        return self.states["parsed_documents"][doc_id].failed is not None


class IndexBuild:
    """The last part of a run, over one generation."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables, self._catalog = state.parts.tables, state.parts.catalog

    @property
    def generation(self) -> GenerationRow:
        return self._state.ensure_generation()

    @property
    def index(self) -> GenerationTables:
        return GenerationTables(self._state.parts.database, self.generation, self._state.settings.vector_index)

    # ------------------------------------------------------------ rows

    def write(self, buckets: Sequence[int]) -> StageReport:
        """Replaces the rows of documents that changed. A bucket is left alone whose inputs are those it was
        written from and whose rows are as they were left; one that somebody else has changed is
        written anew. A bucket's rows and its commit are one transaction."""
        report, started = StageReport("indexed_documents"), time.perf_counter()
        written = self._catalog.manifest_of("indexed_documents", self.key)
        inputs = {table: self._state.runner.manifest(table) for table in INPUTS}
        self.require_terms()
        states = self.index.bucket_states()
        for done, bucket in enumerate(buckets, start=1):
            files = {table: committed(table, bucket, rows) for table, rows in inputs.items()}
            wanted, before = _input(files.values()), written.get(bucket)
            touched = states.get(bucket, EMPTY) != (before.output if before else EMPTY)
            if before and before.input == wanted and not touched:
                report.kept += before.documents
                report.total += before.rows
                report.buckets[bucket] = {"documents": before.documents, "written": 0, "rows": before.rows}
            else:
                self._write_bucket(self._read(bucket, files), wanted, touched, report)
            self._state.run.progress("indexed_documents", done, len(buckets))
        report.seconds = time.perf_counter() - started
        return report

    @property
    def key(self) -> str:
        """Of the manifest rows that stand for rows in this generation's tables."""
        return self.generation.schema

    def standing(self) -> bool:
        """Whether all rows are as they were left, as far as counts and hashes of documents tell."""
        committed = self._catalog.manifest_of("indexed_documents", self.key)
        states = self.index.bucket_states()
        if any(states.get(bucket, EMPTY) != row.output for bucket, row in committed.items()):
            return False
        links = self._catalog.manifest_of("loaded_links", self.key).get(WHOLE)
        if links is None or len(committed) != self._state.settings.buckets:
            return False
        counts, valid = self.index.counts(), self.index.vector_indexes.states()
        return (
            self.precision == self.generation.precision
            and counts["sentence_links"] == links.rows
            and counts["terms"] == self.generation.statistics.get("terms", counts["terms"])
            and all(valid.get(index_name(table)) for table in INDEXED_TABLES)
        )

    @property
    def precision(self) -> str:
        """Of the vectors in the vector indexes, as the settings want it."""
        wanted = self._state.settings.vector_index.precision
        return self.generation.precision if wanted == "auto" else wanted

    def build_vector_indexes(self, live: bool) -> Indexed:
        """Builds what is missing or of another precision; with `live` writers are not blocked."""
        if self.precision != self.generation.precision:
            self.note({"precision": self.precision})
        return self.index.vector_indexes.build(live)

    def _read(self, bucket: int, rows: Mapping[str, ManifestRow]) -> _Bucket:
        """A bucket's listing, parse and states; the rows of changed documents are read later."""
        files = {table: row.file for table, row in rows.items()}
        states = {table: self._tables.documents(file) for table, file in files.items()}
        raws = {raw.doc_id: raw for raw in from_table(RawDocument, self._tables.read(files["raw_documents"]))}
        parsed = from_table(ParsedDocument, self._tables.read(files["parsed_documents"]))
        found = _Bucket(bucket, files, states, raws, {document.doc_id: document for document in parsed})
        for doc_id, document in found.parsed.items():
            facts = document_facts(raws[doc_id], document)
            outputs = [state.output for table in INPUTS[1:] if (state := states[table].get(doc_id))]
            if not all(outputs) or len(outputs) < len(INPUTS) - 1:
                found.held.add(doc_id)
                continue
            found.hashes[doc_id] = row_hash(
                facts, raws[doc_id].uri, raws[doc_id].content_hash, found.stale(doc_id), outputs
            )
        return found

    def wanted(self, bucket: int) -> dict[str, str]:
        """doc_id to the hash of the rows that the bucket's documents should have, by Parquet."""
        return self._read(bucket, {table: self._state.table(table).commit(bucket) for table in INPUTS}).hashes

    def documents(self, bucket: int) -> list[IndexedDocument]:
        """A bucket's documents as their rows should be, by Parquet."""
        found = self._read(bucket, {table: self._state.table(table).commit(bucket) for table in INPUTS})
        return self._documents(found, list(found.hashes))

    def _write_bucket(self, bucket: _Bucket, wanted: str, whole: bool, report: StageReport) -> None:
        stands = self.index.document_hashes(bucket.bucket)
        known = {} if whole else stands
        changed = [doc_id for doc_id, value in bucket.hashes.items() if known.get(doc_id) != value]
        gone = [doc_id for doc_id in known if doc_id not in bucket.hashes and doc_id not in bucket.held]
        documents = self._documents(bucket, changed)

        def commit(connection: Connection[Any], state: str, rows: int) -> None:
            commit_row(
                connection,
                ManifestRow(
                    "indexed_documents", self.key, bucket.bucket, "", wanted, state, rows, len(bucket.hashes),
                    self._state.run.id,
                ),
            )  # fmt: skip
            report.buckets[bucket.bucket] = {"documents": len(bucket.hashes), "written": len(changed), "rows": rows}
            report.total += rows

        held = bucket.held & stands.keys()
        deleted = self.index.replace(
            bucket.bucket,
            documents,
            gone,
            whole=whole,
            held=held,
            regrouped=self._regrouped(bucket, held),
            commit=commit,
        )
        report.written += sum(len(document.chunks) for document in documents)
        report.notes["chunks deleted"] = report.notes.get("chunks deleted", 0) + deleted
        report.computed += len(changed)
        report.kept += len(bucket.hashes) - len(changed)
        report.gone += len(gone)

    def _regrouped(self, bucket: _Bucket, held: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Of documents whose rows stay, those that are for others now, with their groups."""
        if not held:
            return {}
        served = self.index.document_groups()
        now = {doc_id: document_facts(bucket.raws[doc_id], bucket.parsed[doc_id]).groups for doc_id in held}
        return {doc_id: groups for doc_id, groups in now.items() if served[doc_id][1] != groups}

    def _documents(self, bucket: _Bucket, doc_ids: Sequence[str]) -> list[IndexedDocument]:
        wanted = set(doc_ids)
        if not wanted:
            return []
        files = {**bucket.files, TERMS: self._state.table(TERMS).commit(bucket.bucket).file}
        rows = {table: rows_by_document(self._tables, files[table], table, wanted) for table in (*TEXTS, TERMS)}
        vectors = {table: vectors_of(self._tables, bucket.files[table], wanted) for table in VECTORS}
        return [
            self._document(
                bucket,
                doc_id,
                {table: found.get(doc_id, []) for table, found in rows.items()},
                {table: found[doc_id] for table, found in vectors.items()},
            )
            for doc_id in doc_ids
        ]

    def _document(
        self, bucket: _Bucket, doc_id: str, rows: Mapping[str, Sequence[Any]], vectors: Mapping[str, Mapping[str, Any]]
    ) -> IndexedDocument:
        raw, parsed = bucket.raws[doc_id], bucket.parsed[doc_id]
        facts, (summary,) = document_facts(raw, parsed), rows["document_summaries"]
        return IndexedDocument(
            raw=raw,
            parsed=parsed,
            facts=facts,
            summary=summary.text,
            stale=bucket.stale(doc_id),
            row_hash=bucket.hashes[doc_id],
            chunks=rows["chunks"],
            contexts={item.chunk_id: item.text for item in rows["chunk_contexts"]},
            terms={row.chunk_id: dict(zip(row.terms, row.counts, strict=True)) for row in rows[TERMS]},
            vectors=vectors["chunk_embeddings"],
            sentences=rows["sentences"],
            sentence_vectors=vectors["sentence_search_embeddings"],
            summary_method=summary.method,
            context_methods={item.chunk_id: item.method for item in rows["chunk_contexts"]},
        )

    def require_terms(self) -> None:
        """The statistics that rows are weighed by, frozen where they are not, which a run of some buckets does not do.

        Raises IndexStateError (`missing_input`) in such a run where they were not."""
        if self._state.run.alone:
            self.freeze_terms()
        elif "average_terms" not in self.generation.statistics:
            raise IndexStateError(
                f"the terms of generation {self.generation.generation} were not counted, and a run of some buckets "
                "does not do it; materialise term_statistics first",
                "missing_input",
            )

    def freeze_terms(self) -> None:
        """Document frequencies and mean length of the lexical index, once for a generation; the frequencies
        again where somebody has taken them away."""
        statistics = self.generation.statistics
        if not statistics.get("chunks"):  # of documents that all failed: no row was weighed by them
            statistics = {name: value for name, value in statistics.items() if name != "average_terms"}
        if "average_terms" in statistics and self.index.counts()["terms"] == statistics.get("terms"):
            return
        generations.require_whole(self._state.runner, "chunks")
        frequency: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        chunks = total = 0
        for _, row in sorted(self._state.runner.manifest(TERMS).items()):
            facts = self._facts(row.bucket)
            for own in from_table(ChunkTerms, self._tables.read(row.file)):
                frequency[facts[own.doc_id].groups].update(own.terms)
                chunks += 1
                total += sum(own.counts)
        average = statistics.get("average_terms", total / chunks if chunks else 1.0)
        values = {"chunks": chunks, "average_terms": average, "terms": sum(map(len, frequency.values()))}

        def commit(connection: Connection[Any]) -> None:
            self._state.renew(add_statistics(connection, self.generation.generation, values))

        self.index.freeze_terms(frequency, commit)

    def _facts(self, bucket: int) -> dict[str, DocumentFacts]:
        read = {table: self._tables.read(self._state.table(table).commit(bucket).file) for table in INPUTS[:2]}
        raws = {raw.doc_id: raw for raw in from_table(RawDocument, read["raw_documents"])}
        parsed = from_table(ParsedDocument, read["parsed_documents"])
        return {document.doc_id: document_facts(raws[document.doc_id], document) for document in parsed}

    # ------------------------------------------------------------ links

    def load_links(self) -> None:
        """Brings RELATED_TO in Postgres to what Parquet says; reads nothing where it is."""
        links = self._state.table("sentence_links").commit(WHOLE)
        loaded = self._catalog.manifest_of("loaded_links", self.key).get(WHOLE)
        if loaded and loaded.input == links.output and self.index.counts()["sentence_links"] == loaded.rows:
            return
        self.index.replace_links(from_table(SentenceLink, self._tables.read(links.file)))
        row = ManifestRow(
            "loaded_links", self.key, WHOLE, "", links.output, links.output, links.rows, 0, self._state.run.id
        )
        self._catalog.commit([row], "loaded_links", self.key, WHOLE)

    # ------------------------------------------------------------ what must hold

    def note(self, statistics: Mapping[str, Any]) -> None:
        """Keeps statistics with the generation."""
        self._state.renew(self._catalog.add_statistics(self.generation.generation, statistics))

    def missing_buckets(self) -> list[tuple[str, str]]:
        """A generation that a backfill has not filled yet is no whole index."""
        written = self._catalog.manifest_of("indexed_documents", self.key)
        missing = [f"{bucket:02d}" for bucket in range(self._state.settings.buckets) if bucket not in written]
        if not missing:
            return []
        return [("missing_bucket", f"indexed_documents has not been made for buckets {', '.join(missing)}")]

    def disagreements(self) -> list[tuple[str, str]]:
        """Where the rows of the buckets that were written are not those that Parquet says they should be."""
        problems = []
        states = self.index.bucket_states()
        inputs = {table: self._state.runner.manifest(table) for table in INPUTS}
        for bucket, row in self._catalog.manifest_of("indexed_documents", self.key).items():
            files = {table: committed(table, bucket, rows) for table, rows in inputs.items()}
            found = None if files["chunks"].rows == row.rows else self._read(bucket, files)
            if found:
                column = self._tables.read(files["chunks"].file, ["doc_id"])["doc_id"].to_pylist()
                wanted = sum(doc_id not in found.held for doc_id in column)
                stored = row.rows - self.index.chunks_of(found.held)
                if stored != wanted:
                    told = f"{stored} chunks in Postgres, {wanted} in Parquet"
                    problems.append(("count", f"bucket {bucket:02d}: {told}"))
            if states.get(bucket, EMPTY) == row.output and row.input == _input(files.values()):
                continue
            found = found or self._read(bucket, files)
            known, hashes = self.index.document_hashes(bucket), found.hashes
            both = (known.keys() | hashes.keys()) - found.held
            differ = sorted(doc for doc in both if known.get(doc) != hashes.get(doc))
            problems += [("disagree", f"document {doc_id} differs between Parquet and Postgres") for doc_id in differ]
            if states.get(bucket, EMPTY) != row.output and not differ:
                problems.append(("disagree", f"rows of bucket {bucket:02d} were changed by somebody else"))
        return problems


def _input(rows: Iterable[ManifestRow]) -> str:
    made = list(rows)
    return combined([*(row.output for row in made), *(row.input for row in made)])
