"""The tables in Postgres that outlive a generation: sources, manifest, generations, costs, and memberships.

Every method is one transaction. Call `Database.migrate` first. Files that pincite wrote into an object store are
recorded here, because other programs may write to the store, but not to Postgres.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, IndexStateError, PinciteError, SourceError
from pipelines.fingerprint import combine
from pipelines.ranges import ALL_IDS, Range, join_ranges, overlap
from pipelines.records import Failure
from resources.postgres.statements import query, script

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.database import Database


# ---------------------------------------------------------------- sources, manifest, generations, costs


HIGHEST_INDEXED_DIMENSION = 4000
"""Most dimensions of a vector that pgvector can index, in half precision."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A remembered folder; `settings` are the source's settings without its name and path."""

    name: str
    root: str
    settings: Mapping[str, Any]
    added_at: datetime
    indexed_at: datetime | None


@dataclass(frozen=True, slots=True)
class IndexCommit:
    """The commit of rows of a generation in Postgres, for the documents of a bucket or part, or for all links. `input`
    hashes the data that they were made from, `output` the rows. `key` is the generation's schema."""

    table: str
    key: str
    first: str
    after: str
    input: str
    output: str
    rows: int
    documents: int
    run_id: str | None = None
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """The commit of one table's rows for a range of documents, used only by the engine. `input` hashes the data that
    the rows were made from, `output` the rows.

    If the row is not `whole`, its file holds other documents too. Then `rows` and `documents` may be UNCOUNTED.
    """

    table: str
    key: str
    first: str
    after: str
    file: str
    whole: bool
    input: str
    output: str
    rows: int
    documents: int
    run_id: str | None = None
    committed_at: datetime | None = None

    @property
    def range(self) -> Range:
        return self.first, self.after

    def part(self, ends: Range) -> ManifestRow:
        """Return the row for those of its documents that are in a range. It has no hash of its inputs, so documents are
        compared one by one, and their number is unknown."""
        common = overlap(self.range, ends)
        assert common, f"no document of {self.file} is from {ends[0]} to before {ends[1]}"
        if common == self.range:
            return self
        first, after = common
        output, count = combine([self.output, first, after]), UNCOUNTED if self.documents else 0
        return replace(
            self, first=first, after=after, whole=False, input="", output=output, rows=count, documents=count
        )


UNCOUNTED = -1
"""The number of rows in a part of a file that nobody has counted yet."""


def rest(rows: Iterable[ManifestRow], over: Range) -> list[ManifestRow]:
    """Return the parts of rows outside of the ranges."""
    others = (("", over[0]), (over[1], ALL_IDS[1]))
    return [row.part(ends) for row in rows for ends in others if overlap(row.range, ends)]


@dataclass(frozen=True, slots=True)
class GenerationRow:
    generation: int
    key: str
    settings: Mapping[str, Any]
    embedder: Mapping[str, Any]
    dimension: int
    statistics: Mapping[str, Any]
    built_from: str | None
    created_at: datetime
    built_at: datetime | None
    published_at: datetime | None
    keys: Mapping[str, str]
    verdict: Mapping[str, Any] | None

    @property
    def schema(self) -> str:
        """Return the schema of the generation's tables."""
        return schema_name(self.generation)

    @property
    def half(self) -> bool:
        """Say whether the generation's vector indexes are of half precision."""
        return is_half(self.dimension, self.statistics)

    @property
    def precision(self) -> str:
        """Return the chosen precision, `half` or `full`."""
        return str(self.statistics.get("precision", "full"))


MOST_VECTOR_DIMENSIONS = 2_000
"""Most dimensions of a vector index in full precision, by pgvector's limit; above it only half precision is
possible."""


def is_half(dimension: int, statistics: Mapping[str, Any]) -> bool:
    return dimension > MOST_VECTOR_DIMENSIONS or statistics.get("precision") == "half"


def schema_name(generation: int) -> str:
    return f"g{generation:04d}"


def commit_index_rows(connection: Connection[Any], rows: Sequence[IndexCommit]) -> None:
    """Commit rows of a generation, replacing those that overlap them, in the caller's transaction."""
    for row in rows:
        values = {"tables": [row.table], "key": row.key, "first": row.first, "after": row.after}
        connection.execute(query("catalog", "forget_overlapping"), values)
        fields = {**asdict(row), "file": "", "whole": True, "committed_at": None}
        connection.execute(query("catalog", "commit_row"), fields)


def add_statistics(connection: Connection[Any], number: int, statistics: Mapping[str, Any]) -> GenerationRow:
    """Add frozen statistics in the caller's transaction."""
    from psycopg.types.json import Jsonb

    values = {"generation": number, "statistics": Jsonb(dict(statistics))}
    row = connection.execute(query("catalog", "add_statistics"), values).fetchone()
    if row is None:
        raise IndexStateError(f"generation {number} does not exist; see `pincite generations list`", "no_generation")
    return GenerationRow(*row)


def source_moved(name: str, known: str, root: str) -> SourceError:
    """Return the error for a source's name that is already used for another folder."""
    return SourceError(
        f"source {name!r} is known with the folder {known}, not {root}. Name the new folder "
        f"differently with --source NAME={root}, or forget the old one with `pincite sources remove {name}`",
        "source_moved",
    )


class Catalog:
    def __init__(self, database: Database) -> None:
        self.database = database

    # ------------------------------------------------------------ sources

    def remember_source(self, name: str, root: str, settings: Mapping[str, Any]) -> None:
        """Store a source. Raise SourceError if the name is used for another root."""
        from psycopg.types.json import Jsonb

        with self._connect() as connection:
            values = {"name": name, "root": root, "settings": Jsonb(dict(settings))}
            connection.execute(query("catalog", "remember_source"), values)
            known = connection.execute(query("catalog", "source_root"), {"name": name}).fetchone()
        if known is not None and known[0] != root:
            raise source_moved(name, known[0], root)

    def sources(self) -> list[SourceRow]:
        return [SourceRow(*row) for row in self._rows("sources")]

    def lost_files(self) -> dict[str, dict[str, str]]:
        """Return, by source and uri, the contents of files that are gone although their side-cars remain."""
        return dict(self._rows("lost_files"))

    def remember_lost(self, name: str, lost: Mapping[str, str]) -> None:
        from psycopg.types.json import Jsonb

        with self._connect() as connection:
            connection.execute(query("catalog", "remember_lost"), {"name": name, "lost": Jsonb(dict(lost))})

    def remove_source(self, name: str) -> None:
        """Forget a source. Raise SourceError if no source has this name."""
        with self._connect() as connection:
            if not connection.execute(query("catalog", "remove_source"), {"name": name}).rowcount:
                raise SourceError(f"no source is named {name!r}; see `pincite sources list`", "unknown_source")

    def touch_sources(self, names: Iterable[str]) -> None:
        """Record that these sources were indexed now."""
        with self._connect() as connection:
            connection.execute(query("catalog", "touch_sources"), {"names": list(names)})

    # ------------------------------------------------------------ manifest and failures

    def manifest_of(self, table: str, key: str) -> list[ManifestRow]:
        """Return the commits of a table under one key, in order of their ranges, which do not overlap."""
        return [ManifestRow(*row) for row in self._rows("manifest_of", table=table, key=key)]

    def manifests_of(self, keys: Mapping[str, str]) -> dict[str, list[ManifestRow]]:
        """Return the same of several tables, each with its key, by table."""
        found: dict[str, list[ManifestRow]] = {table: [] for table in keys}
        if keys:
            for row in self._rows("manifests_of", tables=list(keys), keys=list(keys.values())):
                found[row[0]].append(ManifestRow(*row))
        return found

    def index_commits(self, name: str, schema: str) -> dict[str, IndexCommit]:
        """Return the commits of a generation's rows in Postgres under a name, by the first id of their range."""
        rows = self._rows("manifest_of", table=name, key=schema)
        return {row[2]: IndexCommit(*row[:4], *row[6:]) for row in rows}

    def commit_index(self, commit: IndexCommit) -> None:
        """Commit rows in a separate transaction."""
        with self.database.writing() as connection:
            commit_index_rows(connection, [commit])

    def files_under(self, keys: Collection[str]) -> set[str]:
        """Return the committed files of these keys."""
        return {row[0] for row in self._rows("files_under", keys=list(keys))}

    def forget_keys(self, kept: Collection[str]) -> None:
        """Delete all commits and failures except those of these keys."""
        with self.database.writing() as connection:
            connection.execute(query("catalog", "forget_commits"), {"keys": list(kept)})
            connection.execute(query("catalog", "forget_failures_of_keys"), {"keys": list(kept)})

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
        """Commit rows of a stage's tables, replacing all commits in these ranges and the failures of their documents,
        in one transaction.

        If there are no rows, only failures are replaced. A commit that extends beyond the ranges keeps its part
        outside. Failures of the documents in `keep_failures_of` stay unchanged. `bucket` is the ranges' bucket; without
        a bucket, the run must hold the lock exclusively.

        Raises IndexStateError (`lock_lost`) if another run may write by now.
        """
        tables, failed = sorted({row.table for row in rows}), [failure.doc_id for failure in failures]
        values = {"stage": stage, "key": key, "tables": tables, "keep": [*keep_failures_of, *failed]}
        with self.database.writing(bucket) as connection, connection.cursor() as cursor:
            if tables:  # a row may reach into a bucket of which another run commits, if the number of buckets changed
                cursor.execute(query("catalog", "lock_commits"), {"key": key})
            left: list[ManifestRow] = []
            for first, after in join_ranges(over):
                at = {"first": first, "after": after}
                cursor.execute(query("catalog", "forget_failures"), {**values, **at})
                if tables:
                    cursor.execute(query("catalog", "forget_overlapping"), {**values, **at})
                    left += [ManifestRow(*row) for row in cursor.fetchall()]
            for ends in over:
                left = rest(left, ends)
            if failures:
                records = [{**asdict(failure), "key": key} for failure in failures]
                cursor.executemany(query("catalog", "record_failure"), records)
            if tables:
                cursor.executemany(query("catalog", "commit_row"), [asdict(row) for row in (*rows, *left)])

    def failures(self, keys: Collection[str]) -> list[Failure]:
        """Return all current failures under these keys of stages, by source and uri."""
        return [Failure(*row) for row in self._rows("failures", keys=list(keys))]

    # ------------------------------------------------------------ generations

    def generations(self) -> list[GenerationRow]:
        """Return all generations, the oldest first."""
        return [GenerationRow(*row) for row in self._rows("generations")]

    def generation(self, number: int) -> GenerationRow | None:
        return self._generation("generation", generation=number)

    def find_generation(self, key: str) -> GenerationRow | None:
        """Return the newest generation of a key."""
        return self._generation("generation_by_key", key=key)

    def live(self) -> GenerationRow | None:
        return self._generation("live_generation")

    def create_generation(
        self,
        key: str,
        settings: Mapping[str, Any],
        embedder: Mapping[str, Any],
        dimension: int,
        statistics: Mapping[str, Any],
        keys: Mapping[str, str],
    ) -> GenerationRow:
        """Create a generation with its empty tables. Raise DatabaseError if its vectors are too long to index."""
        from psycopg.types.json import Jsonb

        if not 1 <= dimension <= HIGHEST_INDEXED_DIMENSION:
            raise DatabaseError(
                f"vectors of {dimension} dimensions cannot be indexed; choose an embedder of at most "
                f"{HIGHEST_INDEXED_DIMENSION} dimensions"
            )
        values = {"key": key, "settings": settings, "embedder": embedder, "statistics": statistics,
                  "keys": keys}  # fmt: skip
        with self.database.writing() as connection:
            parameters = {name: Jsonb(dict(value)) if isinstance(value, Mapping) else value
                          for name, value in values.items()}  # fmt: skip
            row = connection.execute(
                query("catalog", "create_generation"), {**parameters, "dimension": dimension}
            ).fetchone()
            assert row is not None
            made = GenerationRow(*row)
            connection.execute(script("generation.sql", schema=made.schema, dimension=dimension))
            connection.execute(query("generation", "protect"), {"schema_name": made.schema})
        return made

    def add_statistics(self, number: int, statistics: Mapping[str, Any]) -> GenerationRow:
        """Freeze more statistics. Raise IndexStateError if the generation does not exist."""
        with self.database.writing() as connection:
            return add_statistics(connection, number, statistics)

    def mark_built(self, number: int, built_from: str) -> None:
        """Record the listing from which the generation was built; write nothing if it is unchanged."""
        with self.database.writing() as connection:
            connection.execute(query("catalog", "mark_built"), {"generation": number, "built_from": built_from})

    def publish(self, number: int, held: bool = False) -> bool:
        """Make a generation the live one; with `held`, it stays live until a person publishes. Return False, and write
        nothing, if it is already live."""
        with self.database.writing() as connection:
            values = {"generation": number, "held": held}
            flipped = connection.execute(query("catalog", "publish"), values).rowcount > 0
            if flipped:
                connection.execute(query("catalog", "mark_published"), {"generation": number})
        return flipped

    def is_held(self) -> bool:
        """Say whether the live generation stays until a person publishes."""
        return bool([row for row in self._rows("live") if row[2]])

    def previous(self) -> int | None:
        """Return the generation that was live before the present one."""
        return next((row[1] for row in self._rows("live")), None)

    def set_verdict(self, number: int, verdict: Mapping[str, Any] | None) -> None:
        """Record why a generation was not published, or that it was."""
        from psycopg.types.json import Jsonb

        value = None if verdict is None else Jsonb(dict(verdict))
        with self.database.writing() as connection:
            connection.execute(query("catalog", "set_verdict"), {"generation": number, "verdict": value})

    def drop_generation(self, generation: GenerationRow) -> None:
        """Drop a generation's tables, scores and row. The live one cannot be dropped, since the pointer refers to
        it."""
        with self.database.writing() as connection:
            connection.execute(query("catalog", "forget_previous"), {"generation": generation.generation})
            connection.execute(query("catalog", "delete_generation"), {"generation": generation.generation})
            connection.execute(query("generation", "drop_schema", schema=generation.schema))

    # ------------------------------------------------------------ costs and scores

    def add_cost(
        self, run_id: str, stage: str, items: int, tokens: int, seconds: float, generation: int | None = None
    ) -> None:
        values = {"run_id": run_id, "stage": stage, "items": items, "tokens": tokens, "seconds": seconds}
        with self._connect() as connection:
            connection.execute(query("catalog", "add_cost"), {**values, "generation": generation})

    def costs(self) -> list[dict[str, Any]]:
        """Return sums of costs by stage and generation: stage, generation, items, tokens, seconds."""
        return self._records("costs")

    def every_cost(self) -> list[dict[str, Any]]:
        """Return all costs in order of time: at, run_id, generation, stage, model, items, tokens, seconds, cost,
        currency."""
        return self._records("every_cost")

    def costs_of_run(self, run_id: str, stage: str, key: str, generation: int) -> dict[str, Any] | None:
        """Return the items, tokens and seconds of a run for a stage under this key, or None if there are none."""
        found = self._records("costs_of_run", run_id=run_id, stage=stage, key=key, generation=generation)
        return found[0] if found else None

    def add_scores(self, generation: int, name: str, metrics: Mapping[str, Any]) -> None:
        from psycopg.types.json import Jsonb

        with self._connect() as connection:
            values = {"generation": generation, "name": name, "metrics": Jsonb(dict(metrics))}
            connection.execute(query("catalog", "add_scores"), values)

    def scores(self) -> list[dict[str, Any]]:
        """Return every score, the oldest first: generation, at, name, metrics."""
        return self._records("scores")

    # ------------------------------------------------------------ within

    def _connect(self) -> AbstractContextManager[Connection[Any]]:
        return self.database.connect()

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        return self.database.rows(query("catalog", name), values)

    def _records(self, name: str, **values: Any) -> list[dict[str, Any]]:
        from psycopg.rows import dict_row

        with (
            self.database.connect(autocommit=True, sets=False) as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            return cursor.execute(query("catalog", name), values).fetchall()

    def _generation(self, name: str, **values: Any) -> GenerationRow | None:
        rows = self._rows(name, **values)
        return GenerationRow(*rows[0]) if rows else None


# ---------------------------------------------------------------- work on each generation
#
# A broken generation must not keep such work from the others.


_DROP = "`pincite generations prune --keep 1` drops all but the live one"


def each_generation(catalog: Catalog, do: Callable[[GenerationRow], None]) -> None:
    """Call `do` for the live generation, then for the others, newest first. At the end, raise the first error of these
    calls; a PinciteError names every generation for which it failed."""
    live = catalog.live()
    failed: list[tuple[GenerationRow, Exception]] = []
    number = live.generation if live else 0
    for row in sorted(catalog.generations(), key=lambda row: (row.generation != number, -row.generation)):
        try:
            do(row)
        except Exception as error:
            failed.append((row, error))
    if not failed:
        return
    _, first = failed[0]
    if isinstance(first, PinciteError):
        told = "; ".join(f"generation {row.generation}: {error}" for row, error in failed)
        droppable = live and first.code == "damaged_schema" and any(row.generation != number for row, _ in failed)
        first.args = (f"{told}; {_DROP}" if droppable else told,)
    raise first


# ---------------------------------------------------------------- memberships
#
# `pincite.asker_groups()` reads these with every question.


@dataclass(frozen=True, slots=True)
class MembershipCount:
    """The number of pairs of principal and group from a source, and the time of reading, by the database's clock."""

    count: int
    at: datetime
    hours: float
    """Hours since the pairs were read."""


class MembershipTable:
    """The pairs of principal and group from sources. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def clock(self) -> datetime:
        """Return the current time of the database; take it before memberships are read."""
        with self._database.connect() as connection:
            row = connection.execute(query("memberships", "clock")).fetchone()
        assert row is not None
        at: datetime = row[0]
        return at

    def replace(self, source: str, pairs: Collection[tuple[str, str]], at: datetime) -> tuple[int, int] | None:
        """Replace all pairs of a source by these, which were read at time `at` of `clock`. Return the numbers of added
        and removed pairs. If the stored pairs were read later, write nothing and return None."""
        named = {"source": source}
        with self._database.connect() as connection, connection.cursor() as cursor:
            if not cursor.execute(query("memberships", "take"), {**named, "at": at}).rowcount:
                return None
            cursor.execute(query("memberships", "stage"))
            with cursor.copy(query("memberships", "copy")) as copy:
                for pair in pairs:
                    copy.write_row(pair)
            gone = cursor.execute(query("memberships", "drop_gone"), named).rowcount
            return cursor.execute(query("memberships", "add"), named).rowcount, gone

    def forget(self, sources: Sequence[str]) -> None:
        """Delete all pairs of sources without memberships."""
        with self._database.connect() as connection:
            connection.execute(query("memberships", "forget"), {"sources": list(sources)})

    def counts(self) -> dict[str, MembershipCount]:
        """Return the counts and times by source, for the sources that were read."""
        with self._database.connect() as connection:
            return {
                name: MembershipCount(*row)
                for name, *row in connection.execute(query("memberships", "told")).fetchall()
            }


# ---------------------------------------------------------------- written files
#
# They are kept in Postgres, since others may write in the object store, but not here.


@dataclass(frozen=True, slots=True)
class Written:
    """A file's size in bytes, and the hashes of its blocks, joined; empty if they are unknown."""

    size: int
    blocks: bytes = b""


class WrittenFiles:
    """The files written by pincite, by name. Every method is one transaction; several threads may call them."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    def any_known(self) -> bool:
        """Say whether any file is recorded."""
        with self._database().connect() as connection:
            row = connection.execute(query("written_files", "known")).fetchone()
        return bool(row and row[0])

    def note(self, files: Mapping[str, Written]) -> None:
        """Record files that are written now, or that were in the store before the database had a record of files."""
        rows = [{"name": name, "size": file.size, "blocks": file.blocks} for name, file in files.items()]
        with self._database().connect() as connection, connection.cursor() as cursor:
            cursor.executemany(query("written_files", "note"), rows)

    def file(self, name: str) -> Written | None:
        """Return the record of one file, or None."""
        with self._database().connect() as connection:
            row = connection.execute(query("written_files", "file"), {"name": name}).fetchone()
        return Written(*row) if row else None

    def files_below(self, folder: str) -> dict[str, Written]:
        """Return the files whose names begin with a folder's name."""
        with self._database().connect() as connection:
            rows = connection.execute(query("written_files", "below"), {"folder": folder}).fetchall()
        return {name: Written(size, blocks) for name, size, blocks in rows}

    def forget(self, names: Collection[str]) -> None:
        """Delete the records of deleted files."""
        with self._database().connect() as connection:
            connection.execute(query("written_files", "forget"), {"names": list(names)})
