"""The code location of a test's daemon, whose runs are forked from a process that has the imports and the models.

Dagster's server starts a Python process for each run, and the run starts another for its documents. Both import for
longer than a run of a few documents works.
"""

from __future__ import annotations

from multiprocessing import context, set_forkserver_preload

from tests.faults.held_run import divide_here

# The process class of the context that Dagster's server takes.
context.SpawnContext.Process = context.ForkServerProcess  # type: ignore[assignment, misc]
set_forkserver_preload(["tests.faults.preloaded", __name__])
divide_here()

from pincite.definitions import defs  # noqa: E402

__all__ = ["defs"]
