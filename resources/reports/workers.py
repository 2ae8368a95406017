"""The runs that are at work on a state, on whatever machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resources.dagster_instance.home import SESSION
from resources.postgres.catalog import LaunchedRuns

if TYPE_CHECKING:
    from resources.postgres.database import Database


def workers(database: Database) -> list[dict[str, Any]]:
    """One a run that Dagster launched and whose session is there, in the order in which they began: `run`, its `host`
    and `process`, `since` when, its `buckets` (none if what it makes has none), the `lock` that it holds (`exclusive`,
    `shared`; none while it waits), and how far it is: `done` of `total` in its `stage`."""
    return [
        {
            "run": row.run_id,
            "host": row.host,
            "process": row.process,
            "since": row.began.isoformat(timespec="seconds"),
            "buckets": list(row.buckets),
            "lock": None if row.alone is None else "exclusive" if row.alone else "shared",
            "stage": row.stage,
            "done": row.done,
            "total": row.total,
        }
        for row in LaunchedRuns(database).at_work(SESSION)
    ]
