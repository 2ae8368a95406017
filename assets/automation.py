"""The jobs, and the schedules and sensors that act without a person: they start jobs, and fail runs that were killed.

The schedules and the sensor `changed_sources` are off until somebody turns them on in the UI. `dead_runs` is on.
"""

import json
import time

import dagster as dg

from assets.declare import range_tags
from assets.metadata import table
from resources.dagster_instance.home import fail_dead_runs
from resources.settings_file import locate
from resources.state.access import sync_state
from resources.state.source_watch import change_since, watch

# ---------------------------------------------------------------- jobs


index_job = dg.define_asset_job(
    "index",
    selection=dg.AssetSelection.all(),
    description="Everything from the listing to the published index, for all buckets.",
)

GPU = {
    "dagster-celery/queue": "gpu",
    "dagster-k8s/config": {"container_config": {"resources": {"limits": {"nvidia.com/gpu": "1"}}}},
}
"""Tags that send a run to workers with a GPU. A job carries them, since assets cannot (dagster#33430)."""

embed_job = dg.define_asset_job(
    "embed",
    selection=dg.AssetSelection.assets("chunk_embeddings", "sentence_embeddings"),
    tags=GPU,
    description="Vectors alone, by workers with a GPU: of Celery's queue `gpu`, or by pods that ask for one.",
)


@dg.op(description="Reads who is behind the principals of all sources that tell it, waiting for no other run.")
def read_memberships(context: dg.OpExecutionContext) -> None:
    """Read the memberships of all sources. If those of some cannot be read, fail after the others are done."""
    found = sync_state(locate())
    context.add_output_metadata({"sources": table(found)})
    if problems := [f"{item['source']}: {item['problem']}" for item in found if item["problem"]]:
        raise dg.Failure("; ".join(problems))


@dg.job(
    name="sync_access",
    description="Who is behind the principals of sources, read anew; nothing is indexed.",
    executor_def=dg.in_process_executor,
)
def access_job() -> None:
    read_memberships()


# ---------------------------------------------------------------- schedules


def nightly(partitions: dg.PartitionsDefinition, cron: str, timezone: str) -> dg.ScheduleDefinition:
    """Return the schedule of one index run over all buckets. It is off until somebody turns it on in the UI."""

    @dg.schedule(
        name="nightly",
        job=index_job,
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Lists every known source and brings the index up to date, all buckets in one run.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        # A ScheduleDefinition refuses Dagster's own tags; a request may carry them.
        return dg.RunRequest(tags=range_tags(partitions))

    return schedule


def hourly_access(cron: str, timezone: str) -> dg.ScheduleDefinition:
    """Return the schedule that reads memberships, more often than documents. It is off until somebody turns it on in
    the UI."""
    return dg.ScheduleDefinition(
        name="hourly_access",
        job=access_job,
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Reads who is behind the principals of sources, without indexing anything.",
    )


# ---------------------------------------------------------------- sensors


INTERVAL_SECONDS = 300
DEAD_SECONDS = 15
"""Seconds between two searches for killed runs, shorter than the 30 seconds for which a session must be gone."""


def changed_sources(partitions: dg.PartitionsDefinition) -> dg.SensorDefinition:
    """Return the sensor that starts the job `index` for the sources whose files were added, changed or removed. It is
    off until somebody turns it on in the UI."""

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
    """Return the sensor that fails killed runs. A worker that is killed, or whose machine is lost, cannot report it,
    and its launcher may never notice."""

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
