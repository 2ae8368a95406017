"""The report of `pincite verify`: files, rows, vector indexes, failures and generations. Nothing is written.

All of Postgres is read in one repeatable-read transaction, so a run in progress does not change the result. Parquet
files never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, SettingsError
from pipelines.plural import plural
from pipelines.ranges import bucket_of
from pipelines.stages import STAGE_OF_TABLE, STAGES, UNPARTITIONED
from resources.checks.audit import audit
from resources.checks.findings import SECURED, Finding, group_findings
from resources.checks.row_diff import bucket_findings, link_findings
from resources.checks.stages import empty_documents, text_coverage, unsound_sentence_vectors, unsound_vectors
from resources.postgres.catalog import Catalog
from resources.postgres.database import APPLICATION, Database
from resources.postgres.generation_tables import EMPTY, GenerationTables
from resources.postgres.row_security import security_problems
from resources.postgres.run_lock import lock_key
from resources.postgres.statements import query
from resources.sources.stored_documents import wanted_names
from resources.stages.embedded_items import imported_vectors as waiting
from resources.stages.indexed_documents import IndexBuild
from resources.state.access import groups_now
from resources.state.listing import listing_output
from resources.state.parts import Parts
from resources.state.state import State

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.catalog import GenerationRow


# ---------------------------------------------------------------- live generation
#
# Findings are (code, message). All is read through `seen`, the state of the generation at one moment.


Progress = Callable[[str, int, int], None]

# ---------------------------------------------------------------- its files


def file_findings(seen: State, generation: GenerationRow) -> Iterator[Finding]:
    """Yield the problems of every table: each bucket must be committed, with intact files and with vectors of the right
    embedder."""
    embedder = generation.embedder["identity"]
    for table in STAGE_OF_TABLE:
        for bucket in seen.engine.unmade(table):
            yield "missing_bucket", table if bucket == UNPARTITIONED else f"bucket {bucket:02d} of {table}"
        yield from seen.engine.table(table).unsound(embedder if table.endswith("_embeddings") else None)
    yield from IndexBuild(seen).missing_buckets()


def _outdated_parts(seen: State) -> Iterator[tuple[int, str]]:
    """Yield each bucket with outdated rows, and the first stage whose rows were made from older inputs."""
    stages = [name for name, stage in STAGES.items() if stage.inputs and stage.parted]
    due = {name: set(seen.engine.due(name)) for name in stages}
    for part in seen.engine.parts([table for table, stage in STAGE_OF_TABLE.items() if stage.parted]):
        for name in (name for name in stages if part.range in due[name]):
            yield part.bucket, f"{name} of {part.name}"
            break


# ---------------------------------------------------------------- its rows


def live_findings(seen: State, generation: GenerationRow, progress: Progress) -> Iterator[Finding]:
    """Yield all findings except those of the files and the audit. A bucket with unfinished work is not compared."""
    behind = list(_outdated_parts(seen))
    yield from (("unfinished", text) for _, text in behind)
    if not behind and generation.built_from != listing_output(seen.engine):
        yield "unfinished", "the last run ended before it had audited what it wrote"
    yield from _failures(seen)
    yield from _rows(seen, generation, {bucket for bucket, _ in behind}, progress)
    links = seen.engine.whole("sentence_links")
    with seen.database.connect() as connection:
        yield from link_findings(connection, generation.schema, links.pieces("sentence_links"))
    yield from empty_documents(seen, everywhere=True)
    yield from text_coverage(seen, everywhere=True)
    yield from unsound_vectors(seen, "chunk_embeddings", "chunks", everywhere=True)
    yield from unsound_sentence_vectors(seen, everywhere=True)


def _rows(seen: State, generation: GenerationRow, behind: set[int], progress: Progress) -> Iterator[Finding]:
    wanted, average = range(seen.settings.buckets), generation.statistics.get("average_terms", 1.0)
    held = seen.engine.held_documents()
    with seen.database.connect() as connection:
        stored = connection.execute(query("verify", "buckets", schema=generation.schema)).fetchall()
        buckets = sorted({*wanted, *(row[0] for row in stored)} - behind)
        for done, bucket in enumerate(buckets, start=1):
            parts = IndexBuild(seen).documents(bucket) if bucket in wanted else ()
            yield from bucket_findings(connection, generation.schema, bucket, parts, average, held)
            progress("verify", done, len(buckets))


def _failures(seen: State) -> Iterator[Finding]:
    """Yield failed documents for which Parquet and the records of failures disagree. Failed listings leave no trace in
    Parquet."""
    recorded = {
        (item.doc_id, item.stage): f"{item.source}/{item.uri}"
        for item in seen.engine.failures()
        if item.stage != "raw_documents"
    }
    failed = set()
    for name, stage in STAGES.items():
        for doc_id, state in seen.engine.table(next(iter(stage.tables))).states():
            if state.failed is not None:
                failed.add((doc_id, name))
    unrecorded = sorted(failed - recorded.keys())
    places = _places(seen, {doc_id for doc_id, _ in unrecorded})
    for doc_id, name in unrecorded:
        yield "unrecorded_failure", f"{doc_id} ({places.get(doc_id, 'no longer listed')}) at {name}"
    for doc_id, name in sorted(recorded.keys() - failed):
        yield "false_failure", f"{doc_id} ({recorded[doc_id, name]}) at {name}"


def _places(seen: State, doc_ids: set[str]) -> dict[str, str]:
    """Return source and path of listed documents, by doc_id."""
    return {doc_id: "/".join(place) for doc_id, place in seen.listing.places(doc_ids).items()}


def term_findings(seen: State, generation: GenerationRow) -> Iterator[Finding]:
    """Yield the errors in the frozen document frequencies that a comparison with the other frozen statistics shows."""
    frozen = generation.statistics
    with seen.database.connect() as connection:
        row = connection.execute(query("verify", "term_counts", schema=generation.schema)).fetchone()
    count, least, most = row or (0, 0, 0)
    wanted = frozen.get("terms", count)
    if count != wanted or (frozen.get("chunks") and not count):
        yield "terms", f"{count} of {wanted or 'the'} terms are there"
    elif count and not 1 <= least <= most <= frozen["chunks"]:
        yield "terms", f"some stand in {least} or in {most} of {frozen['chunks']} chunks"


# ---------------------------------------------------------------- report


TABLES = {"documents", "document_names", "abbreviations", "chunks", "sentences", "sentence_links", "postings", "terms"}


def verify(state: State, progress: Progress | None = None) -> dict[str, Any]:
    """Return the JSON of `verify`: {"ok", "problems": [{"code", "message"}], "notes": [text]}.

    There is one problem for each code and generation. `progress` is called with ("verify", buckets done, all buckets).
    """
    problems: list[dict[str, str]] = []
    notes: list[str] = []
    try:
        state.catalog  # noqa: B018  (brings the catalog to this version)
        with state.database.connect("pincite verify") as connection:
            connection.execute(query("session", "begin"))
            oracle = _Oracle(state, connection, progress or state.run.progress)
            notes = oracle.notes
            problems.extend({"code": code, "message": message} for code, message in oracle.problems())
    except IndexStateError as error:
        if error.code != "damaged_schema":
            raise
        problems.extend(
            {"code": code, "message": text} for code, text in group_findings([("damaged_schema", str(error.__cause__))])
        )
    return {"ok": not problems, "problems": problems, "notes": notes}


class _Snapshot(Database):
    """A database whose connections all read in one transaction: the one of the given connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.embedded, self.server, self._connection = False, None, connection

    @contextmanager
    def connect(
        self, application: str = APPLICATION, autocommit: bool = False, sets: bool = True
    ) -> Iterator[Connection[Any]]:
        yield self._connection


class _Oracle:
    def __init__(self, state: State, connection: Connection[Any], progress: Progress) -> None:
        self._connection, self._progress, self.notes = connection, progress, list[str]()
        self._buckets = state.settings.buckets
        self._database = _Snapshot(connection)
        self._catalog, self._tables = Catalog(self._database), state.parts.tables
        parts = Parts(state.project, database=self._database, catalog=self._catalog, tables=self._tables)
        self._seen = State(state.project, parts=parts)

    def problems(self) -> Iterator[Finding]:
        live, generations = self._catalog.live(), self._catalog.generations()
        schemas = {name: set(tables) for name, tables in self._rows("verify", "schemas")}
        # This comes before other checks, which may end in an error, since a query reads any generation that it asks
        # for, complete or not.
        for row in generations:
            if schemas.get(row.schema, set()) & TABLES:
                yield from group_findings(security_problems(self._database, row.schema), row.generation)
        if self._rows("session", "lock_holders", key=lock_key("index")):
            self.notes.append("a run is in progress; what it is changing may show here")
        self._note_files()
        yield from group_findings(self._leftovers(schemas, generations))
        yield from group_findings(self._nameless())
        yield from group_findings(self._overlaps())
        present = {row.generation: row for row in generations if schemas.get(row.schema, set()) >= TABLES}
        for row in generations:
            if row.generation not in present:
                missing = sorted(f"{row.schema}.{name}" for name in TABLES - schemas.get(row.schema, set()))
                yield from group_findings([("missing_tables", ", ".join(missing))], row.generation)
        seen = None
        if live is None:
            yield from group_findings([("not_published", "none is live")])
        elif live.generation in present:
            try:
                seen = self._seen.of_generation(live)
            except SettingsError as error:
                yield from group_findings([("settings", str(error))], live.generation)
            else:
                broken = list(file_findings(seen, live))
                yield from group_findings(self._raw_files(seen, whole=not broken), live.generation)
                yield from group_findings(chain(broken, self._live(seen, live, whole=not broken)), live.generation)
                seen = None if broken else seen
        for row in present.values():
            if live is None or row.generation != live.generation:
                yield from group_findings(self._check_kept(row, seen), row.generation, kept=True)

    def _rows(self, file: str, name: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query(file, name), values).fetchall()

    # ------------------------------------------------------------ outside the generations

    @staticmethod
    def _leftovers(schemas: Iterable[str], generations: Iterable[GenerationRow]) -> Iterator[Finding]:
        for schema in sorted(set(schemas) - {row.schema for row in generations}):
            yield "leftover_schema", schema

    def _nameless(self) -> Iterator[Finding]:
        for doc_id, *said in self._rows("verify", "nameless_failures"):
            yield "nameless_failure", f"document {doc_id}: stage, source, path, code are {', '.join(map(repr, said))}"

    def _overlaps(self) -> Iterator[Finding]:
        """Yield sources that overlap, and documents listed in one source that belong to another."""
        overlaps = self._seen.parts.sources.overlaps()
        for problem in overlaps.problems:
            yield "overlap", problem
        elsewhere = {name: overlaps.of_name(name) for name in overlaps.names}
        if any(each.names for each in elsewhere.values()):
            for read in self._seen.listing.pieces(["source", "uri"]):
                for source, uri in zip(*(read[name].to_pylist() for name in ("source", "uri")), strict=True):
                    if source in elsewhere and (why := elsewhere[source].why(uri)):
                        yield "overlap", f"{source}/{uri}: {why}"

    def _raw_files(self, seen: State, whole: bool) -> Iterator[Finding]:
        """Yield listed documents whose raw files are missing from the object store, if there is one."""
        stored = self._seen.parts.sources.stored
        if stored is None or not whole:
            return
        held = stored.stored_sizes()
        for raw in seen.listing.raw_documents():
            if not wanted_names([raw]) <= held.keys():
                yield "missing_raw_file", f"{raw.source}/{raw.uri} (raw/{raw.content_hash})"

    def _note_files(self) -> None:
        committed = {row[0] for row in self._rows("verify", "files")}
        sizes = self._tables.sizes()
        _, imported = waiting(self._seen, sizes.keys() - committed)
        loose = [size for name, size in sizes.items() if name not in committed and name not in imported]
        if loose:
            files = f"{plural(len(loose), 'file')} ({sum(loose) / 1e6:.1f} MB)"
            self.notes.append(f"no commit names {files}; `pincite generations prune` collects them")
        if imported:
            kept = plural(len(imported), "file of imported vectors waits", "files of imported vectors wait")
            self.notes.append(f"{kept} for the next `pincite index`")

    # ------------------------------------------------------------ generations

    def _live(self, seen: State, live: GenerationRow, whole: bool) -> Iterator[Finding]:
        wrong = list(self._dimensions(live))
        yield from wrong
        if not wrong:
            yield from (found for found in audit(GenerationTables(self._database, live)) if found[0] not in SECURED)
        yield from term_findings(seen, live)
        if whole:
            yield from self._visible(seen, live)
            yield from live_findings(seen, live, self._progress)
        else:
            self.notes.append("rows, texts, groups and failures were not compared with Parquet, which is not whole")

    def _dimensions(self, generation: GenerationRow) -> Iterator[Finding]:
        for table, found in self._rows("verify", "dimensions", schema=generation.schema):
            if found != generation.dimension:
                yield "dimension", f"{generation.schema}.{table} has {found}, the generation {generation.dimension}"

    def _check_kept(self, generation: GenerationRow, seen: State | None) -> Iterator[Finding]:
        """Yield the problems of a generation that is kept beside the live one. Such a generation receives only
        deletions and groups, so its rows are compared by counts and hashes."""
        if generation.built_at is None:
            self.notes.append(f"generation {generation.generation} was never completed; its rows are not verified")
            return
        yield from self._dimensions(generation)
        commits = self._catalog.index_commits("indexed_documents", generation.schema)
        buckets = generation.settings.get("buckets", self._buckets)
        committed = {bucket_of(first, buckets): row for first, row in commits.items()}
        states = GenerationTables(self._database, generation).bucket_states()
        for bucket in sorted(committed.keys() | states.keys()):
            if states.get(bucket, EMPTY) != (committed[bucket].output if bucket in committed else EMPTY):
                yield "changed_rows", f"bucket {bucket:02d}"
        if seen:
            parsed = seen.engine.table("parsed_documents", key=generation.keys.get("parsed_elements", ""))
            broken = list(parsed.unsound())
            yield from broken or self._visible(seen, generation)

    def _visible(self, seen: State, generation: GenerationRow) -> Iterator[Finding]:
        """Yield documents that a generation still shows although they are deleted, or shows to the wrong groups."""
        tables = GenerationTables(self._database, generation)
        for ids, now in groups_now(seen, generation):
            for doc_id, (_, groups) in sorted(tables.document_groups(*ids).items()):
                if doc_id not in now:
                    yield "deleted_document", doc_id
                elif (wanted := now[doc_id]) is not None and wanted != groups:
                    shown, meant = (", ".join(names) or "public" for names in (groups, wanted))
                    yield "groups", f"{doc_id} ({shown}, not {meant})"
