"""Thin Dagster shells over the plain resources. Keep all logic out of this module."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from resources.dagster_home import close_dead_runs
from resources.settings_file import locate
from resources.workspace import Workspace

LONGEST_WAIT = 6 * 3600.0
"""Seconds that a run waits for another on the same state."""


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One state, opened for a run. Empty values mean PINCITE_CONFIG and PINCITE_STATE, else the defaults."""

    config: str = ""
    state: str = ""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Workspace]:
        workspace = Workspace(locate(self.config or None, self.state or None), run_id=context.run_id or "")
        try:
            with workspace.database.exclusive("index", wait_seconds=LONGEST_WAIT):
                if context.instance:
                    close_dead_runs(context.instance)
                yield workspace
        finally:
            workspace.close()
