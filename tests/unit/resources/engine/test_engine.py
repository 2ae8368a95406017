"""A stage is brought up to date over an engine in memory: what is computed, kept, and committed together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from pipelines.errors import IndexStateError
from pipelines.fingerprint import document_id
from pipelines.increments import DocumentState
from pipelines.ranges import Range, bucket_of, bucket_range
from pipelines.records import OFF, DocumentSummary, Failure
from pipelines.schemas import schema_of
from pipelines.settings.base import settings_from
from pipelines.stages import STAGE_OF_TABLE, STAGES, Frozen
from resources.engine import Engine, Outcomes, Works
from resources.engine.memory import MemoryFiles, MemoryManifest
from resources.engine.tables import ParquetTables
from resources.postgres.catalog import ManifestRow
from resources.state.run import Run

STAGE, BUCKETS = "document_summaries", 8
INPUTS = (*STAGES[STAGE].inputs, *STAGES[STAGE].looks_at)
DOCUMENTS = [document_id("docs", f"{number}.txt") for number in range(3)]
FULL = {bucket_of(doc_id, BUCKETS) for doc_id in DOCUMENTS}


def buckets_of(ranges: Sequence[Range]) -> list[int]:
    return [bucket_of(first, BUCKETS) for first, _ in ranges]


class Counting(MemoryManifest):
    """A manifest that notes every transaction with the buckets that it commits, and the one that it says it is of."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[list[int]] = []
        self.named: list[int | None] = []

    def commit(
        self,
        rows: Sequence[ManifestRow],
        stage: str,
        key: str,
        over: Sequence[Range],
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
        bucket: int | None = None,
    ) -> None:
        self.transactions.append(buckets_of(over))
        self.named.append(bucket)
        super().commit(rows, stage, key, over, failures, keep_failures_of, bucket)


def engine_over(manifest: MemoryManifest, run: Run | None = None) -> Engine:
    settings = settings_from({"buckets": BUCKETS})
    return Engine(settings, ParquetTables(MemoryFiles()), manifest, run or Run("a run"), Frozen(), {})


def put(engine: Engine, outputs: dict[str, str]) -> None:
    """The inputs of the stage: each document with the hash of its rows, which the stage is not asked to read."""
    for table in INPUTS:
        key, record = engine.key(STAGE_OF_TABLE[table].name), STAGE_OF_TABLE[table].tables[table]
        for bucket in range(BUCKETS):
            ends = bucket_range(bucket, BUCKETS)
            own = {doc: DocumentState("", out) for doc, out in outputs.items() if bucket_of(doc, BUCKETS) == bucket}
            file = engine.tables.write(table, key, ends, schema_of(record).empty_table(), own)
            row = ManifestRow(table, key, *ends, file, True, "", str(sorted(own.items())), 0, len(own))
            MemoryManifest.commit(engine.catalog, [row], "", key, [ends])  # type: ignore[arg-type]


def summaries(works: Works) -> Outcomes:
    for work in works:
        yield work, {doc_id: {STAGE: [DocumentSummary(doc_id, "S.", OFF)]} for doc_id in work.doc_ids}


def test_buckets_without_documents_are_committed_together_and_without_files() -> None:
    manifest = Counting()
    engine = engine_over(manifest)
    put(engine, dict.fromkeys(DOCUMENTS, "one"))
    failed = Failure("00" * 16, "docs", "gone.txt", STAGE, "limit", "It was too long.")
    empty = sorted(set(range(BUCKETS)) - FULL)
    assert bucket_of(failed.doc_id, BUCKETS) in empty
    ends = bucket_range(bucket_of(failed.doc_id, BUCKETS), BUCKETS)
    MemoryManifest.commit(manifest, [], STAGE, engine.key(STAGE), [ends], [failed])
    report = engine.run(STAGE, range(BUCKETS), summaries)
    assert manifest.transactions[0] == empty and sorted(manifest.transactions[1:]) == [
        [bucket] for bucket in sorted(FULL)
    ]
    assert (report.computed, report.kept, report.total, sorted(report.buckets)) == (3, 0, 3, list(range(BUCKETS)))
    assert len(engine.tables.files(STAGE)) == len(FULL)
    assert engine.unmade(STAGE) == [] and engine.table(STAGE).column("doc_id") == sorted(DOCUMENTS)
    assert engine.failures() == [], "no document of the bucket is left to have failed"


def test_a_run_of_some_buckets_commits_the_empty_ones_each_in_its_own_bucket() -> None:
    manifest = Counting()
    engine = engine_over(manifest, Run("a run", buckets=frozenset(range(BUCKETS))))
    put(engine, {})
    engine.run(STAGE, range(BUCKETS), summaries)
    assert manifest.transactions == [[bucket] for bucket in range(BUCKETS)], "another run may hold the bucket beside"
    assert manifest.named == list(range(BUCKETS))


def test_only_what_changed_is_computed_and_a_document_that_is_gone_leaves_its_bucket_empty() -> None:
    manifest = Counting()
    engine = engine_over(manifest)
    put(engine, dict.fromkeys(DOCUMENTS, "one"))
    engine.run(STAGE, range(BUCKETS), summaries)
    manifest.transactions.clear()
    again = engine.run(STAGE, range(BUCKETS), summaries)
    assert (again.computed, again.kept, manifest.transactions) == (0, 3, [])
    changed, gone, kept = DOCUMENTS
    put(engine, {changed: "other", kept: "one"})
    edited = engine.run(STAGE, range(BUCKETS), summaries)
    assert (edited.computed, edited.kept, edited.gone) == (1, 1, 1)
    assert engine.table(STAGE).column("doc_id") == sorted([changed, kept])
    part = engine.part_of(gone, [STAGE])
    assert gone not in part.states(STAGE) and gone not in part.read(STAGE)["doc_id"].to_pylist()


def test_documents_whose_inputs_changed_since_they_failed_are_tried_again() -> None:
    failing, served, other = DOCUMENTS
    manifest = MemoryManifest()
    engine = engine_over(manifest)

    def made(works: Works) -> Outcomes:
        failed = Failure(failing, "docs", "0.txt", STAGE, "limit", "It was too long.")
        for work in works:
            summary = {doc_id: {STAGE: [DocumentSummary(doc_id, "S.", OFF)]} for doc_id in work.doc_ids}
            yield work, {**summary, **({failing: failed} if failing in summary else {})}

    put(engine, dict.fromkeys(DOCUMENTS, "one"))
    engine.run(STAGE, range(BUCKETS), made)
    assert [item.doc_id for item in engine.failures()] == [failing] and engine.tried_again() == set()
    put(engine, {failing: "two", served: "two", other: "one"})
    assert engine.tried_again() == {failing}

    # A file that cannot be looked at any more fails in the listing, which keeps its last row.
    listing, ends = "raw_documents", bucket_range(bucket_of(served, BUCKETS), BUCKETS)
    key, rows = engine.key(listing), schema_of(STAGES[listing].tables[listing]).empty_table()
    file = engine.tables.write(listing, key, ends, rows, {served: DocumentState("content", "one")})
    failed = Failure(served, "docs", "1.txt", listing, "unreadable", "It cannot be read.")
    manifest.commit([ManifestRow(listing, key, *ends, file, True, "", "one", 0, 1)], listing, key, [ends], [failed])
    assert {item.doc_id for item in engine.failures()} == {failing, served}
    assert engine.tried_again() == {failing}


def test_nothing_is_committed_where_an_input_was_never_made() -> None:
    manifest = Counting()
    engine = engine_over(manifest)
    with pytest.raises(IndexStateError, match="chunks has not been made with these settings for bucket 00"):
        engine.run(STAGE, range(BUCKETS), summaries)
    assert manifest.transactions == []
