"""The listing of the sources as a table of its own, committed bucket by bucket."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from pipelines.fingerprint import bucket_of, combined, fingerprint
from pipelines.increments import DocumentState
from pipelines.records import Failure, RawDocument
from pipelines.schemas import from_table, to_table
from resources.state.stage_runner import time_shown, withheld
from resources.state.stage_work import StageReport

if TYPE_CHECKING:
    from resources.postgres.catalog import ManifestRow
    from resources.sources.book import Restrictions
    from resources.state.stage_runner import StageRunner

D = TypeVar("D", RawDocument, Failure)


def commit_listing(
    runner: StageRunner,
    documents: Sequence[RawDocument],
    sources: Sequence[str],
    failures: Sequence[Failure] = (),
    buckets: Sequence[int] | None = None,
    known: Restrictions | None = None,
) -> StageReport:
    """Replaces the listing of some sources; documents of other sources stay as they are, and so does the last listing
    of a document that could not be read this time, under what is known now of who may find it. One that is withheld
    is listed no more."""
    report, started = StageReport("raw_documents", failures=list(failures)), time.perf_counter()
    previous, failed = runner.manifest("raw_documents"), by_bucket(failures, runner.settings.buckets)
    merged = merged_listing(runner, documents, sources, failures, known)
    listed = runner.catalog.failures([runner.key("raw_documents")])
    others = {item.doc_id for item in listed if item.source not in sources}
    for bucket in merged if buckets is None else buckets:
        old, rows = merged[bucket]
        last = {row.doc_id: row for row in old}
        report.total += len(rows)
        report.computed += sum(last.get(row.doc_id) != row for row in rows)
        report.gone += len(set(last) - {row.doc_id for row in rows})
        report.buckets[bucket] = {"rows": len(rows)}
        _commit_bucket(runner, bucket, rows, previous.get(bucket), failed.get(bucket, []), others)
    report.kept = report.total - report.computed
    report.seconds = time.perf_counter() - started
    return report


def adopt_listing(runner: StageRunner, documents: Sequence[RawDocument], failures: Sequence[Failure]) -> None:
    """Commits a whole listing made under other settings; does nothing under the same."""
    sources = {document.source for document in documents} | {failure.source for failure in failures}
    old = {raw.source for bucket, _ in merged_listing(runner, [], []).values() for raw in bucket}
    failed = [failure for failure in failures if failure.stage == "raw_documents"]
    commit_listing(runner, documents, sorted(sources | old), failed)


def merged_listing(
    runner: StageRunner,
    documents: Sequence[RawDocument],
    sources: Sequence[str],
    failures: Sequence[Failure] = (),
    known: Restrictions | None = None,
) -> dict[int, tuple[list[RawDocument], list[RawDocument]]]:
    """By bucket: the committed listing, and what it becomes with that of these sources."""
    previous, listed = runner.manifest("raw_documents"), by_bucket(documents, runner.settings.buckets)
    unread = {failure.doc_id for failure in failures}
    hidden = {failure.doc_id for failure in failures if withheld(failure)}
    merged = {}
    for bucket in range(runner.settings.buckets):
        before = previous.get(bucket)
        old = from_table(RawDocument, runner.tables.read(before.file)) if before else []
        stay = [row for row in old if row.source not in sources or row.doc_id in unread]
        stay = [row for row in stay if row.doc_id not in hidden]
        stay = [known.applied(row) for row in stay] if known else stay
        merged[bucket] = (old, sorted([*listed.get(bucket, []), *stay], key=lambda row: row.doc_id))
    return merged


def _commit_bucket(
    runner: StageRunner,
    bucket: int,
    rows: Sequence[RawDocument],
    before: ManifestRow | None,
    failures: Sequence[Failure],
    others: Collection[str],
) -> None:
    from resources.postgres.catalog import ManifestRow

    key, output, committed = runner.key("raw_documents"), fingerprint(rows), []
    if before is None or before.output != output:
        known = runner.tables.documents(before.file) if before else {}
        states = {row.doc_id: _state(runner, row, known.get(row.doc_id)) for row in rows}
        file = runner.tables.write("raw_documents", key, bucket, to_table(RawDocument, rows), states)
        count = len(rows)
        committed = [ManifestRow("raw_documents", key, bucket, file, output, output, count, count, runner.run_id)]
    runner.catalog.commit(committed, "raw_documents", key, bucket, failures, keep_failures_of=others)


def _state(runner: StageRunner, row: RawDocument, before: DocumentState | None) -> DocumentState:
    output = parse_input(row)
    if before and (before.fingerprint, before.output) == (row.content_hash, output):
        return before
    reason = "new document" if before is None else "changed: the file"
    return DocumentState(row.content_hash, output, None, runner.run_id, time_shown(), reason)


def listing_output(runner: StageRunner) -> str:
    """Hash of the committed listing of all sources."""
    rows = runner.manifest("raw_documents")
    return combined(rows[bucket].output for bucket in sorted(rows))


def parse_input(raw: RawDocument) -> str:
    """What of a listed document decides its parse; metadata and groups do not."""
    return fingerprint(raw.content_hash, raw.media_type, raw.title, raw.uri.rsplit("/", 1)[-1])


def by_bucket(items: Sequence[D], buckets: int) -> dict[int, list[D]]:
    grouped: dict[int, list[D]] = {}
    for item in items:
        grouped.setdefault(bucket_of(item.doc_id, buckets), []).append(item)
    return grouped
