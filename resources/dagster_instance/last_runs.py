"""The last runs of a state, read where Dagster keeps them and without importing it, which takes a second."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from resources.postgres.statements import statements

_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LastRun:
    """`status` is Dagster's, such as SUCCESS; `seconds` is None while it goes on."""

    job: str
    status: str
    started: str
    seconds: float | None


def last_runs(home: Path, most: int) -> list[LastRun]:
    """The newest runs first; none where Dagster keeps them elsewhere, or otherwise than this knows."""
    file = home / "history" / "runs.db"
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=_WAIT_SECONDS)) as opened:
            rows = opened.execute(statements("dagster_runs")["last_runs"], {"most": most}).fetchall()
        return [
            LastRun(str(job), str(status), _shown(float(start)), None if end is None else float(end) - float(start))
            for job, status, start, end in rows
        ]
    except (sqlite3.Error, OSError, TypeError, ValueError):
        return []


def _shown(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
