"""The vector indexes of a generation, HNSW graphs over its chunks and sentences, and their construction."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.settings.base import VectorIndexSettings
from resources.postgres.run_lock import lock_key
from resources.postgres.statements import query

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.errors import Diagnostic

    from resources.postgres.catalog import GenerationRow
    from resources.postgres.database import Database

INDEXED_TABLES = ("chunks", "sentences")
GRAPH_BYTES = 1500
"""Bytes of memory for one vector in an HNSW graph under construction, in addition to the vector."""
NETWORKED_MB = 2048
SHARED_MEMORY = "shared memory segment"
"""Part of the server's message if it cannot allocate shared memory for a graph built by several processes; the error is
otherwise the same as for a full disk."""

_log = logging.getLogger("pincite")


@dataclass(frozen=True, slots=True)
class Indexed:
    """The built vector indexes, the seconds that building took, and the server's messages about graphs larger than its
    memory."""

    built: tuple[str, ...]
    seconds: float
    unfitting: tuple[str, ...]


def _unfitting(notice: Diagnostic) -> list[str]:
    """Return the server's message that a graph is larger than its memory, with the remedy."""
    said = notice.message_primary or ""
    return [f"{said}; raise vector_index.memory_mb"] if "no longer fits" in said else []


def index_name(table: str) -> str:
    return f"{table}_embedding"


class VectorIndexes:
    """The vector indexes of one generation, built with these settings."""

    def __init__(self, database: Database, generation: GenerationRow, settings: VectorIndexSettings) -> None:
        self._database, self._generation, self._settings = database, generation, settings
        self._schema = generation.schema

    def build(self, live: bool = False, anew: Collection[str] = ()) -> Indexed:
        """Build the vector indexes that are missing, invalid or of another precision, and those of the tables `anew`;
        with `live`, writers are not blocked."""
        started = time.perf_counter()
        unfitting: list[str] = []
        with self._database.connect(autocommit=True) as connection:
            connection.add_notice_handler(lambda notice: unfitting.extend(_unfitting(notice)))
            # The server goes on building for a run that was killed; the next one waits for its end.
            connection.execute(query("session", "lock_build"), {"key": lock_key(f"build {self._schema}")})
            self._database.require_newest(connection)
            valid = self._states(connection)
            missing = [table for table in INDEXED_TABLES if table in anew or not valid.get(index_name(table))]
            for table in missing:
                self._database.require_newest(connection)
                if index_name(table) in valid:
                    self._drop(connection, table, live)
                self._build(connection, table, live)
            if missing:
                connection.execute(query("generation", "analyze", schema=self._schema))
        return Indexed(tuple(missing), time.perf_counter() - started, tuple(unfitting))

    def states(self) -> dict[str, bool]:
        """Return the existing vector indexes, and whether each is finished and has the form that searches use."""
        with self._database.connect(autocommit=True, sets=False) as connection:
            return self._states(connection)

    def _states(self, connection: Connection[Any]) -> dict[str, bool]:
        kind = {"half": self._generation.half, "dimension": self._generation.dimension}
        names = [index_name(table) for table in INDEXED_TABLES]
        statement = query("generation", "index_states")
        return dict(connection.execute(statement, {"schema_name": self._schema, "names": names, **kind}).fetchall())

    def _build(self, connection: Connection[Any], table: str, live: bool) -> None:
        from psycopg.errors import DiskFull

        dimension, half = self._generation.dimension, self._generation.half
        count = connection.execute(query("generation", "row_count", schema=self._schema, table=table)).fetchone()
        rows = count[0] if count else 0
        need = 1 + (rows * (dimension * (2 if half else 4) + GRAPH_BYTES) >> 20)
        least, have = self._megabytes(connection)
        if need > have:  # warned of before the build, which then takes hours
            _log.warning(
                f"the vector index of {self._schema}.{table}, of {rows:,} vectors, may take about {need:,} MB to build "
                f"and has {have:,}: what does not fit is built on disk, many times slower; raise "
                "vector_index.memory_mb if the server's machine has more"
            )
        connection.execute(query("generation", "take_memory"), {"megabytes": max(least, min(need, have))})
        if (workers := self._workers) is not None:
            connection.execute(query("generation", "take_workers"), {"workers": workers})
        try:
            self._create(connection, table, live)
        except DiskFull as error:
            if SHARED_MEMORY not in str(error):
                raise
            _log.warning(
                f"several processes cannot build the vector index of {self._schema}.{table} together, one does it: "
                "the server's shared memory is too small; give it more (docker run --shm-size=..., or a larger "
                "/dev/shm), or set vector_index.workers: 0"
            )
            connection.execute(query("generation", "take_workers"), {"workers": 0})
            if index_name(table) in self._states(connection):
                self._drop(connection, table, live)
            self._create(connection, table, live)

    def _create(self, connection: Connection[Any], table: str, live: bool) -> None:
        statement = "create_half_vector_index" if self._generation.half else "create_vector_index"
        values: dict[str, str | int] = {"schema": self._schema, "index": index_name(table), "table": table}
        if self._generation.half:
            values["dimension"] = self._generation.dimension
        connection.execute(query("generation", statement + ("_concurrently" if live else ""), **values))

    def _drop(self, connection: Connection[Any], table: str, live: bool) -> None:
        names = {"schema": self._schema, "index": index_name(table)}
        connection.execute(query("generation", "drop_vector_index" + ("_concurrently" if live else ""), **names))

    def _megabytes(self, connection: Connection[Any]) -> tuple[int, int]:
        """Return the megabytes that a build always gets, and the most that it may get."""
        own = connection.execute(query("generation", "maintenance_megabytes")).fetchone()
        least = int(own[0]) if own else 0
        if (wanted := self._settings.memory_mb) is not None:
            return min(least, wanted), wanted
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 >> 20
        return least, max(machine if self._database.embedded else NETWORKED_MB, least)

    @property
    def _workers(self) -> int | None:
        if self._settings.workers is not None or not self._database.embedded:
            return self._settings.workers
        return len(os.sched_getaffinity(0)) - 1
