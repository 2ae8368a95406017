"""What makes the index follow its sources."""

import json
import time

import dagster as dg

from assets.declare import range_tags
from assets.jobs import index_job
from resources.dagster_instance.home import fail_dead_runs
from resources.settings_file import locate
from resources.state.source_watch import change_since, watch

INTERVAL_SECONDS = 300
DEAD_SECONDS = 15
"""Between two looks for runs that were killed."""


def changed_sources(partitions: dg.PartitionsDefinition) -> dg.SensorDefinition:
    """A run of the job `index` for the sources of which a file was added, changed or removed. Off
    until it is turned on in the UI."""

    @dg.sensor(
        name="changed_sources",
        job=index_job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Compares names, sizes and times of all files with those of its last run.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        seen = watch(locate())
        change = change_since(seen, context.cursor)
        if change is None:
            return dg.SensorResult(skip_reason=f"nothing changed: {seen}", cursor=context.cursor)
        for problem in seen.problems.values():
            context.log.warning("not looked at: %s", problem)
        config = {"ops": {"raw_documents": {"config": {"sources": list(change.sources)}}}}
        request = dg.RunRequest(run_key=change.key, run_config=config, tags=range_tags(partitions))
        return dg.SensorResult(run_requests=[request], cursor=change.cursor)

    return sensor


def dead_runs() -> dg.SensorDefinition:
    """A worker that is killed, or whose machine is lost, tells nobody, and its launcher may never notice."""

    @dg.sensor(
        name="dead_runs",
        minimum_interval_seconds=DEAD_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Fails runs whose session in Postgres is gone, so that Dagster starts them again.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        dead, missed = fail_dead_runs(locate(), context.instance, json.loads(context.cursor or "{}"), time.time())
        context.update_cursor(json.dumps(missed))
        return dg.SkipReason(f"failed, since they were killed: {', '.join(dead)}" if dead else "no run was killed")

    return sensor
