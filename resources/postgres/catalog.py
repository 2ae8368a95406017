"""What is known across generations: sources, the manifest, failures, generations, costs, scores.

Every method is one transaction. `Database.migrate` comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, IndexStateError, SourceError
from pipelines.records import Failure
from resources.postgres.statements import query, script

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.database import Database

HIGHEST_INDEXED_DIMENSION = 4000
"""Most dimensions that a vector index takes, in half precision."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A remembered folder; `settings` are those of the source but its name and path."""

    name: str
    root: str
    settings: Mapping[str, Any]
    added_at: datetime
    indexed_at: datetime | None


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """The commit of one table's file for one shard. `input` and `output` are hashes of what it
    was made from and of what it holds; `file` is empty where the rows are in Postgres, which are those of a bucket."""

    table: str
    key: str
    bucket: int
    file: str
    input: str
    output: str
    rows: int
    documents: int
    run_id: str | None = None
    committed_at: datetime | None = None


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
        """The schema of its tables."""
        return schema_name(self.generation)

    @property
    def half(self) -> bool:
        """Whether its vector indexes are of half precision."""
        return is_half(self.dimension, self.statistics)

    @property
    def precision(self) -> str:
        """`half` or `full`, as it was chosen."""
        return str(self.statistics.get("precision", "full"))


MOST_VECTOR_DIMENSIONS = 2_000
"""Over this a vector index can only be of half precision."""


def is_half(dimension: int, statistics: Mapping[str, Any]) -> bool:
    return dimension > MOST_VECTOR_DIMENSIONS or statistics.get("precision") == "half"


def schema_name(generation: int) -> str:
    return f"g{generation:04d}"


def commit_row(connection: Connection[Any], row: ManifestRow) -> None:
    """Commit a row with whatever else the transaction writes."""
    connection.execute(query("catalog", "commit_row"), asdict(row))


def add_statistics(connection: Connection[Any], number: int, statistics: Mapping[str, Any]) -> GenerationRow:
    """Freeze more statistics with whatever else the transaction writes."""
    from psycopg.types.json import Jsonb

    values = {"generation": number, "statistics": Jsonb(dict(statistics))}
    row = connection.execute(query("catalog", "add_statistics"), values).fetchone()
    if row is None:
        raise IndexStateError(f"there is no generation {number}; see `pincite generations list`", "no_generation")
    return GenerationRow(*row)


def source_moved(name: str, known: str, root: str) -> SourceError:
    """A name that is known with another folder."""
    return SourceError(
        f"source {name!r} is known with the folder {known}, not {root}. Give the new folder a name of its "
        f"own with --source NAME={root}, or forget the old one with `pincite sources remove {name}`",
        "source_moved",
    )


class Catalog:
    def __init__(self, database: Database) -> None:
        self.database = database

    # ------------------------------------------------------------ sources

    def remember_source(self, name: str, root: str, settings: Mapping[str, Any]) -> None:
        """Keep a source. Raises SourceError when the name is known with another root."""
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
        """By source, contents of files that are gone and whose side-cars are left, by uri."""
        return dict(self._rows("lost_files"))

    def remember_lost(self, name: str, lost: Mapping[str, str]) -> None:
        from psycopg.types.json import Jsonb

        with self._connect() as connection:
            connection.execute(query("catalog", "remember_lost"), {"name": name, "lost": Jsonb(dict(lost))})

    def remove_source(self, name: str) -> None:
        """Forget a source. Raises SourceError where there is none of that name."""
        with self._connect() as connection:
            if not connection.execute(query("catalog", "remove_source"), {"name": name}).rowcount:
                raise SourceError(f"no source is named {name!r}; see `pincite sources list`", "unknown_source")

    def touch_sources(self, names: Iterable[str]) -> None:
        """Note that these were indexed now."""
        with self._connect() as connection:
            connection.execute(query("catalog", "touch_sources"), {"names": list(names)})

    # ------------------------------------------------------------ manifest and failures

    def manifest_of(self, table: str, key: str, shards: Collection[int] | None = None) -> dict[int, ManifestRow]:
        """Committed files of a table under one key, by shard; of these shards where they are named."""
        wanted = None if shards is None else list(shards)
        rows = [ManifestRow(*row) for row in self._rows("manifest_of", table=table, key=key, shards=wanted)]
        return {row.bucket: row for row in rows}

    def files_under(self, keys: Collection[str]) -> set[str]:
        """The committed files of these keys."""
        return {row[0] for row in self._rows("files_under", keys=list(keys))}

    def forget_keys(self, kept: Collection[str]) -> None:
        """Forget all commits and failures but those of these keys."""
        with self.database.writing() as connection:
            connection.execute(query("catalog", "forget_commits"), {"keys": list(kept)})
            connection.execute(query("catalog", "forget_failures_of_keys"), {"keys": list(kept)})

    def commit(
        self,
        rows: Sequence[ManifestRow],
        stage: str,
        key: str,
        shard: int,
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
        bucket: int | None = None,
    ) -> None:
        """Commit files of one stage, key and shard, and replace the failures recorded for it, in one
        transaction. Those of the documents in `keep_failures_of` stay as they are. `bucket` is the one that the shard
        is of; what is of none only a run may write that is alone.

        Raises IndexStateError (`lock_lost`) where another run may write by now."""
        with self.database.writing(bucket) as connection, connection.cursor() as cursor:
            failed = [failure.doc_id for failure in failures]
            values = {"stage": stage, "key": key, "bucket": shard, "keep": list(keep_failures_of), "failed": failed}
            cursor.execute(query("catalog", "forget_failures"), values)
            if failures:
                records = [{**asdict(failure), "key": key, "bucket": shard} for failure in failures]
                cursor.executemany(query("catalog", "record_failure"), records)
            for row in rows:
                commit_row(connection, row)

    # ------------------------------------------------------------ shards

    def shards(self, buckets: int) -> int:
        """The most shards that each of so many buckets has had in this state."""
        return int(self._rows("shards", buckets=buckets)[0][0])

    def last_layout(self) -> int | None:
        """Among how many shards, in all, the sources were listed last; None where an older version did."""
        return next((int(row[0]) for row in self._rows("last_layout")), None)

    def settle_layout(self, buckets: int, shards: int) -> None:
        """Keep that the sources are listed by these from now on."""
        with self.database.writing() as connection:
            connection.execute(query("catalog", "settle_layout"), {"buckets": buckets, "shards": shards})

    def keep_layout(self, buckets: int, shards: int) -> None:
        """Keep that tables are parted among so many buckets and shards of each."""
        with self.database.writing() as connection:
            connection.execute(query("catalog", "keep_layout"), {"buckets": buckets, "shards": shards})

    def layouts(self) -> set[int]:
        """Among how many shards, in all, tables of this state were parted."""
        return {int(row[0]) for row in self._rows("layouts")}

    def failures(self, keys: Collection[str]) -> list[Failure]:
        """All that failed and still do under these keys of stages, by source and uri."""
        return [Failure(*row) for row in self._rows("failures", keys=list(keys))]

    # ------------------------------------------------------------ generations

    def generations(self) -> list[GenerationRow]:
        """All, the oldest first."""
        return [GenerationRow(*row) for row in self._rows("generations")]

    def generation(self, number: int) -> GenerationRow | None:
        return self._generation("generation", generation=number)

    def find_generation(self, key: str) -> GenerationRow | None:
        """The newest generation of a key."""
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
        """A new generation with its empty tables. Raises DatabaseError for vectors too long to index."""
        from psycopg.types.json import Jsonb

        if not 1 <= dimension <= HIGHEST_INDEXED_DIMENSION:
            raise DatabaseError(
                f"vectors of {dimension} dimensions cannot be indexed; choose an embedder of at most "
                f"{HIGHEST_INDEXED_DIMENSION}"
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
        """Freeze more statistics. Raises IndexStateError where there is no such generation."""
        with self.database.writing() as connection:
            return add_statistics(connection, number, statistics)

    def mark_built(self, number: int, built_from: str) -> None:
        """Note the listing that the generation holds; writes nothing where it is the same."""
        with self.database.writing() as connection:
            connection.execute(query("catalog", "mark_built"), {"generation": number, "built_from": built_from})

    def publish(self, number: int, held: bool = False) -> bool:
        """Make a generation the live one; `held` until a person publishes. False, with nothing written,
        where it is."""
        with self.database.writing() as connection:
            values = {"generation": number, "held": held}
            flipped = connection.execute(query("catalog", "publish"), values).rowcount > 0
            if flipped:
                connection.execute(query("catalog", "mark_published"), {"generation": number})
        return flipped

    def held(self) -> bool:
        """Whether the live generation stays until a person publishes."""
        return bool([row for row in self._rows("live") if row[2]])

    def previous(self) -> int | None:
        """The generation that was live before the live one."""
        return next((row[1] for row in self._rows("live")), None)

    def set_verdict(self, number: int, verdict: Mapping[str, Any] | None) -> None:
        """Note why a generation was not published, or that it was."""
        from psycopg.types.json import Jsonb

        value = None if verdict is None else Jsonb(dict(verdict))
        with self.database.writing() as connection:
            connection.execute(query("catalog", "set_verdict"), {"generation": number, "verdict": value})

    def drop_generation(self, generation: GenerationRow) -> None:
        """Its tables, scores and row; never of the live one, which the pointer refers to."""
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
        """Sums by stage and generation: stage, generation, items, tokens, seconds."""
        return self._records("costs")

    def every_cost(self) -> list[dict[str, Any]]:
        """In order of time: at, run_id, generation, stage, model, items, tokens, seconds, cost, currency."""
        return self._records("every_cost")

    def costs_of_run(self, run_id: str, stage: str, key: str, generation: int) -> dict[str, Any] | None:
        """Items, tokens and seconds that a run spent on a stage under this key; None where nothing."""
        found = self._records("costs_of_run", run_id=run_id, stage=stage, key=key, generation=generation)
        return found[0] if found else None

    def add_scores(self, generation: int, name: str, metrics: Mapping[str, Any]) -> None:
        from psycopg.types.json import Jsonb

        with self._connect() as connection:
            values = {"generation": generation, "name": name, "metrics": Jsonb(dict(metrics))}
            connection.execute(query("catalog", "add_scores"), values)

    def scores(self) -> list[dict[str, Any]]:
        """Every score, the oldest first: generation, at, name, metrics."""
        return self._records("scores")

    # ------------------------------------------------------------ within

    def _connect(self) -> AbstractContextManager[Connection[Any]]:
        return self.database.connect()

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        with self._connect() as connection:
            return connection.execute(query("catalog", name), values).fetchall()

    def _records(self, name: str, **values: Any) -> list[dict[str, Any]]:
        from psycopg.rows import dict_row

        with self._connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query("catalog", name), values).fetchall()

    def _generation(self, name: str, **values: Any) -> GenerationRow | None:
        rows = self._rows(name, **values)
        return GenerationRow(*rows[0]) if rows else None
