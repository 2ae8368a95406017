"""The Dagster instance with the record of a state's runs: opened with its storage kept open, or as the instance that
workers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster import DagsterInstance

from pipelines.errors import IndexStateError
from resources.dagster_instance.home import workers_home


@contextmanager
def run_history(home: Path) -> Iterator[DagsterInstance]:
    """Open the instance of a folder with a dagster.yaml, and keep its storage open. This uses private parts of Dagster.
    If they have changed, the instance is opened in Dagster's own way, which is slower."""
    try:
        from resources.dagster_instance.storage import instance_reference

        made = DagsterInstance.from_ref(instance_reference(home))
    except (ImportError, AttributeError):
        made = DagsterInstance.from_config(str(home))
    with made as instance:
        yield instance


@contextmanager
def workers_history(state: Path) -> Iterator[DagsterInstance]:
    """Open the instance that a daemon and workers on other machines share. Raise IndexStateError `no_instance`."""
    home = workers_home(state)
    try:
        made = DagsterInstance.from_config(str(home))
    except Exception as error:  # its text may hold an address with its password
        raise IndexStateError(
            f"the Dagster instance of {home / 'dagster.yaml'} cannot be opened ({type(error).__name__}); see that its "
            "storage answers, and that the packages that it names are installed here too",
            "no_instance",
        ) from error
    with made as instance:
        yield instance
