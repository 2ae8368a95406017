"""From Parquet to the generation's Postgres tables: rows, links, indexes, audit, publishing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.fingerprint import combined
from pipelines.increments import DocumentState
from pipelines.indexing.indexed_documents import chunk_terms, document_facts, row_hash
from pipelines.indexing.sentence_links import sentence_links
from pipelines.records import Chunk, ParsedDocument, RawDocument, SentenceLink
from pipelines.schemas import from_table, to_table
from pipelines.stages import WHOLE
from resources import generations
from resources.catalog import ManifestRow
from resources.index_tables import IndexedDocument, IndexTables
from resources.outcome import listing_output
from resources.stage_runner import StageReport, rows_by_document
from resources.vectors import matrix, vectors_of

if TYPE_CHECKING:
    from resources.workspace import Workspace

TEXTS = ("chunks", "sentences", "document_summaries", "chunk_contexts")
VECTORS = ("chunk_embeddings", "sentence_embeddings")
INPUTS = ("raw_documents", "parsed_documents", *TEXTS, *VECTORS)
"""The tables that a document's rows are made of."""


@dataclass
class Built:
    """What publishing did. Problems of the audit keep a generation from being published."""

    generation: int
    published: bool
    problems: list[tuple[str, str]]
    counts: dict[str, int]
    seconds: float


@dataclass
class _Bucket:
    """One bucket's documents as Parquet has them, and the hash of each one's rows."""

    bucket: int
    files: Mapping[str, str]
    states: Mapping[str, Mapping[str, DocumentState]]
    raws: Mapping[str, RawDocument]
    parsed: Mapping[str, ParsedDocument]
    hashes: dict[str, str] = field(default_factory=dict)

    def stale(self, doc_id: str) -> bool:
        return self.states["parsed_documents"][doc_id].failed is not None


class IndexBuild:
    """The last part of a run, over one generation."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._tables, self._catalog = workspace.tables, workspace.catalog
        self.generation = workspace.ensure_generation()
        self.index = IndexTables(workspace.database, self.generation)

    # ------------------------------------------------------------ rows

    def write(self, buckets: Sequence[int]) -> StageReport:
        """Replaces the rows of documents that changed; a bucket whose inputs did not is not read."""
        report, started = StageReport("indexed_documents"), time.perf_counter()
        committed = self._catalog.manifest_of("indexed_documents", self._key)
        self._freeze_statistics()
        for done, bucket in enumerate(buckets, start=1):
            wanted = self._input(bucket)
            before = committed.get(bucket)
            if before and before.input == wanted:
                report.kept += before.documents
                report.total += before.rows
                continue
            rows = self._write_bucket(self._read(bucket), report)
            row = ManifestRow(
                "indexed_documents", self._key, bucket, "", wanted, wanted, rows, report.buckets[bucket]["documents"],
                self._workspace.run_id,
            )  # fmt: skip
            self._catalog.commit([row], "indexed_documents", bucket, [], keep_failures_of=set())
            report.total += rows
            self._workspace.progress("indexed_documents", done, len(buckets))
        report.seconds = time.perf_counter() - started
        return report

    @property
    def _key(self) -> str:
        return f"g{self.generation.generation:04d}"

    def _input(self, bucket: int) -> str:
        rows = [self._workspace.manifest_row(table, bucket) for table in INPUTS]
        return combined([*(row.output for row in rows), *(row.input for row in rows)])

    def _read(self, bucket: int) -> _Bucket:
        """A bucket's listing, parse and states; the rows of changed documents are read later."""
        files = {table: self._workspace.manifest_file(table, bucket) for table in INPUTS}
        states = {table: self._tables.documents(file) for table, file in files.items()}
        raws = {raw.doc_id: raw for raw in from_table(RawDocument, self._tables.read(files["raw_documents"]))}
        parsed = from_table(ParsedDocument, self._tables.read(files["parsed_documents"]))
        found = _Bucket(bucket, files, states, raws, {document.doc_id: document for document in parsed})
        for doc_id, document in found.parsed.items():
            facts = document_facts(raws[doc_id], document)
            outputs = [states[table][doc_id].output for table in INPUTS[1:]]
            found.hashes[doc_id] = row_hash(
                facts, raws[doc_id].uri, raws[doc_id].content_hash, found.stale(doc_id), outputs
            )
        return found

    def _write_bucket(self, bucket: _Bucket, report: StageReport) -> int:
        """Returns the chunks that the bucket holds now."""
        known = self.index.document_hashes(bucket.bucket)
        changed = [doc_id for doc_id, value in bucket.hashes.items() if known.get(doc_id) != value]
        gone = [doc_id for doc_id in known if doc_id not in bucket.hashes]
        if changed or gone:
            documents = self._documents(bucket, changed)
            deleted = self.index.replace(bucket.bucket, documents, gone)
            report.written += sum(len(document.chunks) for document in documents)
            report.notes["chunks deleted"] = report.notes.get("chunks deleted", 0) + deleted
        report.computed += len(changed)
        report.kept += len(bucket.hashes) - len(changed)
        report.gone += len(gone)
        rows = self.index.chunk_count(bucket.bucket)
        report.buckets[bucket.bucket] = {"documents": len(bucket.hashes), "written": len(changed), "rows": rows}
        return rows

    def _documents(self, bucket: _Bucket, doc_ids: Sequence[str]) -> list[IndexedDocument]:
        wanted = set(doc_ids)
        if not wanted:
            return []
        rows = {table: rows_by_document(self._tables, bucket.files[table], table, wanted) for table in TEXTS}
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
        facts = document_facts(raw, parsed)
        return IndexedDocument(
            raw=raw,
            parsed=parsed,
            facts=facts,
            summary=rows["document_summaries"][0].text if rows["document_summaries"] else "",
            stale=bucket.stale(doc_id),
            row_hash=bucket.hashes[doc_id],
            chunks=rows["chunks"],
            contexts={item.chunk_id: item.text for item in rows["chunk_contexts"]},
            terms={chunk.chunk_id: Counter(chunk_terms(chunk, facts.title)) for chunk in rows["chunks"]},
            vectors=vectors["chunk_embeddings"],
            sentences=rows["sentences"],
            sentence_vectors=vectors["sentence_embeddings"],
        )

    def _freeze_statistics(self) -> None:
        """Document frequencies and mean length of the lexical index, once for a generation."""
        if "average_terms" in self.generation.statistics:
            return
        generations.require_whole(self._workspace.runner, "chunks")
        frequency: Counter[str] = Counter()
        chunks = total = 0
        for _, row in sorted(self._workspace.runner.manifest("chunks").items()):
            titles = self._titles(row.bucket)
            for chunk in from_table(Chunk, self._tables.read(row.file)):
                terms = chunk_terms(chunk, titles[chunk.doc_id])
                frequency.update(set(terms))
                chunks += 1
                total += len(terms)
        self.index.freeze_terms(frequency)
        frozen = {"chunks": chunks, "average_terms": total / chunks if chunks else 1.0}
        self.generation = self._catalog.add_statistics(self.generation.generation, frozen)
        self.index = IndexTables(self._workspace.database, self.generation)

    def _titles(self, bucket: int) -> dict[str, str]:
        parsed = self._tables.read(self._workspace.manifest_file("parsed_documents", bucket), ["doc_id", "title"])
        return dict(zip(parsed["doc_id"].to_pylist(), parsed["title"].to_pylist(), strict=True))

    # ------------------------------------------------------------ links

    def link_sentences(self) -> StageReport:
        """RELATED_TO over all sentences; made again only where a sentence or vector changed."""
        report, started = StageReport("sentence_links"), time.perf_counter()
        runner, settings = self._workspace.runner, self._workspace.settings.sentences
        made = {table: runner.manifest(table) for table in ("sentences", "sentence_embeddings")}
        wanted = combined(rows[bucket].output for rows in made.values() for bucket in sorted(rows))
        before = runner.manifest("sentence_links").get(WHOLE)
        if before and before.input == wanted:
            report.kept, report.total = 1, before.rows
            return report
        ids, chunk_ids, vectors = self._sentence_vectors(made)
        links = sentence_links(
            ids, chunk_ids, vectors, settings.related_floor, settings.related_most,
            lambda done, total: self._workspace.progress("sentence_links", done, total),
        )  # fmt: skip
        key = runner.key("sentence_links")
        file = self._tables.write("sentence_links", key, WHOLE, to_table(SentenceLink, links), {})
        row = ManifestRow("sentence_links", key, WHOLE, file, wanted, file, len(links), 0, self._workspace.run_id)
        self._catalog.commit([row], "sentence_links", WHOLE, [], keep_failures_of=set())
        report.computed, report.written, report.total = 1, len(links), len(links)
        report.seconds = time.perf_counter() - started
        return report

    def _sentence_vectors(self, made: Mapping[str, Mapping[int, ManifestRow]]) -> tuple[list[str], list[str], Any]:
        ids: list[str] = []
        chunk_ids: list[str] = []
        blocks = []
        for bucket in sorted(made["sentences"]):
            read = self._tables.read(made["sentences"][bucket].file, ["sentence_id", "chunk_id"])
            embedded = self._tables.read(made["sentence_embeddings"][bucket].file, ["item_id", "vector"])
            if not read.num_rows:
                continue
            rows = {item: number for number, item in enumerate(embedded["item_id"].to_pylist())}
            names = read["sentence_id"].to_pylist()
            blocks.append(matrix(embedded["vector"])[[rows[name] for name in names]])
            ids.extend(names)
            chunk_ids.extend(read["chunk_id"].to_pylist())
        empty = np.zeros((0, self.generation.dimension), dtype=np.float32)
        return ids, chunk_ids, np.concatenate(blocks) if blocks else empty

    # ------------------------------------------------------------ publishing

    def publish(self) -> Built:
        """Loads the links, builds what vector indexes are missing, audits, and flips the pointer."""
        started = time.perf_counter()
        links = self._workspace.manifest_row("sentence_links", WHOLE)
        loaded = self._catalog.manifest_of("loaded_links", self._key).get(WHOLE)
        if loaded is None or loaded.input != links.output:
            self.index.replace_links(from_table(SentenceLink, self._tables.read(links.file)))
            row = ManifestRow(
                "loaded_links", self._key, WHOLE, "", links.output, links.output, links.rows, 0, self._workspace.run_id
            )
            self._catalog.commit([row], "loaded_links", WHOLE, [], keep_failures_of=set())
        self.index.build_vector_indexes()
        problems = [*self._missing_buckets(), *self.index.audit()]
        number = self.generation.generation
        if not problems:
            self._catalog.mark_built(number, listing_output(self._workspace))
            self._catalog.publish(number)
        live = self._catalog.live()
        published = live is not None and live.generation == number and not problems
        return Built(number, published, problems, self.index.counts(), time.perf_counter() - started)

    def _missing_buckets(self) -> list[tuple[str, str]]:
        """A generation that a backfill has not filled yet is no whole index."""
        written = self._catalog.manifest_of("indexed_documents", self._key)
        missing = [f"{bucket:02d}" for bucket in range(self._workspace.settings.buckets) if bucket not in written]
        if not missing:
            return []
        return [("missing_bucket", f"indexed_documents has not been made for buckets {', '.join(missing)}")]

    def disagreements(self) -> list[tuple[str, str]]:
        """Where the rows in Postgres are not those that Parquet says they should be."""
        problems = self._missing_buckets()
        for bucket in self._catalog.manifest_of("indexed_documents", self._key):
            known, wanted = self.index.document_hashes(bucket), self._read(bucket).hashes
            for doc_id in sorted(known.keys() | wanted.keys()):
                if known.get(doc_id) != wanted.get(doc_id):
                    problems.append(("disagree", f"document {doc_id} differs between Parquet and Postgres"))
        counts = self.index.counts()
        for table in ("chunks", "sentences"):
            expected = sum(row.rows for row in self._workspace.runner.manifest(table).values())
            if counts[table] != expected:
                problems.append(("count", f"{counts[table]} {table} in Postgres, {expected} in Parquet"))
        return problems

    def link_problems(self) -> list[tuple[str, str]]:
        return [problem for problem in self.index.audit() if "link" in problem[0] or "next" in problem[0]]
