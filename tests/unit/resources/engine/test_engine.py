"""A stage is brought up to date over an engine in memory: what is computed, kept, and committed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipelines.errors import IndexStateError
from pipelines.fingerprint import bucket_of, document_id
from pipelines.increments import DocumentState
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


class Counting(MemoryManifest):
    """A manifest that notes every transaction with the shards that it commits."""

    def __init__(self) -> None:
        super().__init__(shard_of=lambda doc_id: bucket_of(doc_id, BUCKETS))
        self.transactions: list[list[int]] = []

    def commit(self, rows: Sequence[ManifestRow], stage: str, key: str, shard: int, *more: Any, **named: Any) -> None:
        self.transactions.append([shard])
        super().commit(rows, stage, key, shard, *more, **named)

    def commit_shards(self, rows: Any, stage: str, key: str, shards: Sequence[int], bucket: int | None) -> None:
        before = len(self.transactions)
        super().commit_shards(rows, stage, key, shards, bucket)
        self.transactions[before:] = [list(shards)]


def engine_over(manifest: MemoryManifest, run: Run | None = None) -> Engine:
    settings = settings_from({"buckets": BUCKETS, "shards": 1})
    return Engine(settings, ParquetTables(MemoryFiles()), manifest, run or Run("a run"), Frozen(), {})


def put(engine: Engine, outputs: dict[str, str]) -> None:
    """The inputs of the stage: each document with the hash of its rows, which the stage is not asked to read."""
    for table in INPUTS:
        key, record = engine.key(STAGE_OF_TABLE[table].name), STAGE_OF_TABLE[table].tables[table]
        for shard in range(BUCKETS):
            own = {doc: DocumentState("", out) for doc, out in outputs.items() if bucket_of(doc, BUCKETS) == shard}
            file = engine.tables.write(table, key, shard, schema_of(record).empty_table(), own)
            row = ManifestRow(table, key, shard, file, "", str(sorted(own.items())), 0, len(own))
            MemoryManifest.commit(engine.catalog, [row], "", key, shard)  # type: ignore[arg-type]


def summaries(works: Works) -> Outcomes:
    for work in works:
        yield work, {doc_id: {STAGE: [DocumentSummary(doc_id, "S.", OFF)]} for doc_id in work.doc_ids}


def test_shards_without_documents_are_committed_together_and_without_files() -> None:
    manifest = Counting()
    engine = engine_over(manifest)
    put(engine, dict.fromkeys(DOCUMENTS, "one"))
    failed = Failure("00" * 16, "docs", "gone.txt", STAGE, "limit", "It was too long.")
    empty = sorted(set(range(BUCKETS)) - FULL)
    assert bucket_of(failed.doc_id, BUCKETS) in empty
    MemoryManifest.commit(manifest, [], STAGE, engine.key(STAGE), bucket_of(failed.doc_id, BUCKETS), [failed])
    report = engine.run(STAGE, range(BUCKETS), summaries)
    assert manifest.transactions[0] == empty and sorted(manifest.transactions[1:]) == [
        [shard] for shard in sorted(FULL)
    ]
    assert (report.computed, report.kept, report.total, sorted(report.shards)) == (3, 0, 3, list(range(BUCKETS)))
    assert len(engine.tables.files(STAGE)) == len(FULL)
    assert engine.unmade(STAGE) == [] and engine.table(STAGE).column("doc_id") == sorted(DOCUMENTS)
    assert engine.failures() == [], "no document of the shard is left to have failed"


def test_a_run_of_some_buckets_commits_the_empty_ones_each_in_its_own_bucket() -> None:
    manifest = Counting()
    engine = engine_over(manifest, Run("a run", buckets=frozenset(range(BUCKETS))))
    put(engine, {})
    engine.run(STAGE, range(BUCKETS), summaries)
    assert manifest.transactions == [[shard] for shard in range(BUCKETS)], "another run may hold the bucket beside"


def test_only_what_changed_is_computed_and_a_document_that_is_gone_leaves_its_shard_empty() -> None:
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


def test_nothing_is_committed_where_an_input_was_never_made() -> None:
    manifest = Counting()
    engine = engine_over(manifest)
    with pytest.raises(IndexStateError, match="shard 00 of chunks has not been made with these settings"):
        engine.run(STAGE, range(BUCKETS), summaries)
    assert manifest.transactions == []
