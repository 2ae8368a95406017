"""Thin Dagster wrappers of the plain resources. This module contains no logic."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import dagster as dg

from resources.dagster_instance.home import OWN_JOBS, close_dead_runs, present
from resources.dagster_instance.run_errors import add_codes
from resources.generations.upkeep import nothing_to_keep, restricted_whatever
from resources.postgres.row_security import secure
from resources.private_files import private
from resources.settings_file import FindProject, Project, locate
from resources.state.launched import buckets_alone, is_for, request_of, require_same, require_whole, telling
from resources.state.run import Run
from resources.state.state import State

LONGEST_WAIT = 6 * 3600.0
"""Seconds that a run waits for another on the same state, since a full index run may take hours."""


class StateResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The state that PINCITE_CONFIG and PINCITE_STATE name on the machine of the run, opened for a run. It has no
    configuration, so the user who launches a run chooses neither settings nor state."""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[State]:
        with add_codes(), _open_state(context, locate(), by_steps=False) as state:
            yield state


def state_resource(find: FindProject) -> dg.ResourceDefinition:
    """Return a resource that opens the state of a project for a run.

    It needs no configuration. It is for definitions that are merged with others, whose executor may run each step in a
    separate process: each process opens the state, and waits for the others.
    """

    @dg.resource(description="The state of one index, opened for a run or, in another project's job, for a step.")
    def state(context: dg.InitResourceContext) -> Iterator[State]:
        project = find()
        own = {project.settings.dagster.name(job) for job in OWN_JOBS}
        by_steps = context.run is None or context.run.job_name not in own
        with add_codes(), _open_state(context, project, by_steps) as opened:
            yield opened

    return state


@contextmanager
def _open_state(context: dg.InitResourceContext, project: Project, by_steps: bool) -> Iterator[State]:
    tags = context.run.tags if context.run else {}
    require_same(tags, project.settings)
    if context.run:
        require_whole(context.run, project.settings)
    # Steps of one run that shared the lock would write the same buckets.
    buckets = buckets_alone(context.run, project.settings) if context.run and not by_steps else None
    run = Run(context.run_id or "", retry_failed=request_of(tags).retry_failed, buckets=buckets)
    state = State(project, run)
    told = telling(state, tags) if context.run else nullcontext()
    try:
        with private(project.state), _present(context, state, by_steps), told, _lock(context, state):
            if run.alone and state.database.is_fenced:
                _begin_alone(context, state)
            yield state
    finally:
        state.close()


def _begin_alone(context: dg.InitResourceContext, state: State) -> None:
    if context.instance:
        close_dead_runs(context.instance, state.database, state.run.id, names=state.settings.dagster)
    with restricted_whatever(state):
        secure(state.catalog)


def _lock(context: dg.InitResourceContext, state: State) -> AbstractContextManager[None]:
    if context.run and is_for(context.run, "kept_generations", state.settings.dagster) and nothing_to_keep(state):
        return nullcontext()  # a backfill asks for it beside the first runs of buckets, which would all wait for it
    database, run, waits = state.database, state.run, partial(_waits, context, state)
    if run.buckets is None:
        return database.exclusive("index", LONGEST_WAIT, waits, run.id)
    return database.share("index", sorted(run.buckets), LONGEST_WAIT, waits, run.id, state.settings.buckets)


def _present(context: dg.InitResourceContext, state: State, by_steps: bool) -> AbstractContextManager[None]:
    if context.instance is None or not context.run_id:
        return nullcontext()
    return present(context.instance, context.run_id, state.database, by_steps)


def _waits(context: dg.InitResourceContext, state: State, busy: str) -> None:
    state.run.report_start("waiting for another run")
    if context.log:
        context.log.info("%s; waiting for it to end, at most %d hours", busy, LONGEST_WAIT // 3600)
