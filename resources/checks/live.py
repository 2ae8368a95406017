"""What must hold of the live generation: its files, rows, links, texts, vectors and failures, by Parquet.

Findings are (code, message). All is read through `seen`, the state of the generation at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pipelines.fingerprint import combined
from pipelines.fingerprint import shard_name as named
from pipelines.stages import MAKER, STAGES, WHOLE
from resources.checks.findings import Finding
from resources.checks.row_diff import bucket_findings, link_findings
from resources.checks.stages import empty_documents, text_coverage, unsound_sentence_vectors, unsound_vectors
from resources.postgres.statements import query
from resources.stages.indexed_documents import IndexBuild
from resources.state.committed_listing import listing_output

if TYPE_CHECKING:
    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import GenerationRow, ManifestRow
    from resources.state.state import State

Progress = Callable[[str, int, int], None]

# ---------------------------------------------------------------- files


def file_findings(seen: State, generation: GenerationRow) -> Iterator[Finding]:
    """Every shard of every table committed, its file there and whole, its vectors of the right embedder."""
    embedder = generation.embedder["identity"]
    for table, stage in MAKER.items():
        rows = seen.parts.catalog.manifest_of(table, seen.runner.key(stage.name))
        shards = [WHOLE] if stage.name == "sentence_links" else range(seen.settings.shard_count)
        yield from (("missing_bucket", f"{named(shard)} of {table}") for shard in shards if shard not in rows)
        broken = dict(unsound_files(seen.parts.tables, rows.values()))
        yield from ((code, file) for file, code in broken.items())
        for row in rows.values() if table.endswith("_embeddings") else ():
            note = embedder if row.file in broken else seen.parts.tables.note(row.file)
            if note != embedder:
                yield "embedder", f"{row.file} has those of {note!r}"
    yield from IndexBuild(seen).missing_buckets()


def unsound_files(tables: ParquetTables, rows: Iterable[ManifestRow]) -> Iterator[tuple[str, str]]:
    """Committed files and the codes of what is wrong with them."""
    for row in rows:
        if not tables.exists(row.file):
            yield row.file, "missing_file"
        elif not tables.intact(row.file):
            yield row.file, "damaged_file"
        elif tables.rows(row.file) != row.rows:
            yield row.file, "miscounted_file"


def _behind(seen: State) -> Iterator[tuple[int, str]]:
    """Shards of which a stage was made from other inputs than there are now, and the first such stage."""
    rows = {table: seen.runner.manifest(table) for table in MAKER}
    for shard in range(seen.settings.shard_count):
        for name, stage in STAGES.items():
            if not stage.inputs or name == "sentence_links":
                continue
            made = rows[next(iter(stage.tables))][shard].input
            if made != combined(rows[table][shard].output for table in stage.inputs):
                yield shard, f"{name} of {named(shard)}"
                break


# ---------------------------------------------------------------- rows


def live_findings(seen: State, generation: GenerationRow, progress: Progress) -> Iterator[Finding]:
    """Everything but the files and the audit. A bucket that is behind is not compared: what it should hold is not
    made yet."""
    behind = dict(_behind(seen))
    yield from (("unfinished", text) for text in behind.values())
    if not behind and generation.built_from != listing_output(seen.runner):
        yield "unfinished", "the last run ended before it had audited what it wrote"
    yield from _failures(seen)
    yield from _rows(seen, generation, set(seen.settings.buckets_of(behind)), progress)
    links = seen.table("sentence_links").commit(WHOLE).file
    with seen.parts.database.connect() as connection:
        yield from link_findings(connection, generation.schema, seen.parts.tables.pieces(links))
    yield from empty_documents(seen, everywhere=True)
    yield from text_coverage(seen, everywhere=True)
    yield from unsound_vectors(seen, "chunk_embeddings", "chunks", everywhere=True)
    yield from unsound_sentence_vectors(seen, everywhere=True)


def _rows(seen: State, generation: GenerationRow, behind: set[int], progress: Progress) -> Iterator[Finding]:
    wanted, average = range(seen.settings.buckets), generation.statistics.get("average_terms", 1.0)
    held = seen.runner.held()
    with seen.parts.database.connect() as connection:
        stored = connection.execute(query("verify", "buckets", schema=generation.schema)).fetchall()
        buckets = sorted({*wanted, *(row[0] for row in stored)} - behind)
        for done, bucket in enumerate(buckets, start=1):
            shards = IndexBuild(seen).documents(bucket) if bucket in wanted else ()
            yield from bucket_findings(connection, generation.schema, bucket, shards, average, held)
            progress("verify", done, len(buckets))


def _failures(seen: State) -> Iterator[Finding]:
    """Documents that failed, by Parquet and by the records. A failed listing leaves no trace in Parquet."""
    recorded = {
        (item.doc_id, item.stage): f"{item.source}/{item.uri}"
        for item in seen.runner.failures()
        if item.stage != "raw_documents"
    }
    failed = set()
    for name, stage in STAGES.items():
        for row in seen.runner.manifest(next(iter(stage.tables))).values():
            states = seen.parts.tables.documents(row.file)
            failed |= {(doc_id, name) for doc_id, state in states.items() if state.failed is not None}
    unrecorded = sorted(failed - recorded.keys())
    places = _places(seen, {doc_id for doc_id, _ in unrecorded})
    for doc_id, name in unrecorded:
        yield "unrecorded_failure", f"{doc_id} ({places.get(doc_id, 'no longer listed')}) at {name}"
    for doc_id, name in sorted(recorded.keys() - failed):
        yield "false_failure", f"{doc_id} ({recorded[doc_id, name]}) at {name}"


def _places(seen: State, doc_ids: set[str]) -> dict[str, str]:
    """doc_id to source and path, of those that are listed."""
    shards = set(map(seen.runner.shard_of, doc_ids))
    read = (seen.parts.tables.read(row.file, ["doc_id", "source", "uri"]).to_pylist()
            for shard, row in seen.runner.manifest("raw_documents").items() if shard in shards)  # fmt: skip
    return {raw["doc_id"]: f"{raw['source']}/{raw['uri']}" for rows in read for raw in rows if raw["doc_id"] in doc_ids}


def term_findings(seen: State, generation: GenerationRow) -> Iterator[Finding]:
    """The document frequencies that were frozen, as far as the other frozen statistics tell."""
    frozen = generation.statistics
    with seen.parts.database.connect() as connection:
        row = connection.execute(query("verify", "term_counts", schema=generation.schema)).fetchone()
    count, least, most = row or (0, 0, 0)
    wanted = frozen.get("terms", count)
    if count != wanted or (frozen.get("chunks") and not count):
        yield "terms", f"{count} of {wanted or 'the'} terms are there"
    elif count and not 1 <= least <= most <= frozen["chunks"]:
        yield "terms", f"some stand in {least} or in {most} of {frozen['chunks']} chunks"
