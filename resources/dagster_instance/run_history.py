"""Dagster's record of the runs of a state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster import DagsterInstance

from pipelines.errors import IndexStateError
from resources.dagster_instance.home import workers_home


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


@contextmanager
def workers_history(state: Path) -> Iterator[DagsterInstance]:
    """The instance that a daemon and workers elsewhere share. Raises IndexStateError `no_instance`."""
    home = workers_home(state)
    try:
        made = DagsterInstance.from_config(str(home))
    except Exception as error:  # whose text may hold an address with its password
        raise IndexStateError(
            f"the Dagster instance of {home / 'dagster.yaml'} cannot be opened ({type(error).__name__}); see that its "
            "storage answers, and that the packages that it names are installed here too",
            "no_instance",
        ) from error
    with made as instance:
        yield instance
