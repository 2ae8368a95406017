"""Dagster's record of the runs of a state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster import DagsterInstance


@contextmanager
def run_history(home: Path) -> Iterator[DagsterInstance]:
    """The instance of a folder with a dagster.yaml, its storage kept open. That takes parts of Dagster which it may
    move: where they are not as they were, the instance is as Dagster makes it, and slower."""
    try:
        from resources.dagster_instance.storage import kept

        made = DagsterInstance.from_ref(kept(home))
    except (ImportError, AttributeError):
        made = DagsterInstance.from_config(str(home))
    with made as instance:
        yield instance
