"""The jobs, and the schedules and sensors, which start jobs and mark killed runs as failed.

The schedules and the sensor `changed_sources` are off until somebody turns them on in the UI. `dead_runs` is on.
"""

import json
import time
from collections.abc import Sequence
from typing import Any

import dagster as dg

from assets.metadata import IO_MANAGER, key_of, range_tags, table
from pipelines.settings.base import Settings
from resources.dagster_instance.home import fail_dead_runs, job_tags
from resources.settings_file import FindProject
from resources.state.access import sync_state
from resources.state.source_watch import change_since, watch

GPU = {
    "dagster-celery/queue": "gpu",
    "dagster-k8s/config": {"container_config": {"resources": {"limits": {"nvidia.com/gpu": "1"}}}},
}
"""Tags that send a run to workers with a GPU. They are tags of a job, since assets cannot have them (dagster#33430)."""

INTERVAL_SECONDS = 300
DEAD_SECONDS = 15
"""Seconds between two searches for killed runs; less than the 30 seconds after which a missing session counts as
ended."""


class Automation:
    """The jobs, schedules and sensors of one index. Each job has the in-process executor, since its steps share the
    state, which the run locks."""

    def __init__(
        self,
        settings: Settings,
        partitions: dg.PartitionsDefinition,
        assets: Sequence[dg.AssetKey],
        find: FindProject,
    ) -> None:
        self._settings, self._partitions, self._find = settings, partitions, find
        self._names = names = settings.dagster
        # Dagster makes no assets with partitions in a run that names none, such as `dagster job launch` starts.
        whole = range_tags(partitions)
        self._index = dg.define_asset_job(
            names.name("index"),
            selection=dg.AssetSelection.assets(*assets),
            tags={**whole, **job_tags(names, "index")},
            executor_def=dg.in_process_executor,
            description="Everything from the listing to the published index, for all buckets.",
        )
        self._embed = dg.define_asset_job(
            names.name("embed"),
            selection=dg.AssetSelection.assets(*(key_of(name, names) for name in _EMBEDDED)),
            tags={**GPU, **job_tags(names, "embed")},
            executor_def=dg.in_process_executor,
            description="Vectors alone, by workers with a GPU: of Celery's queue `gpu`, or by pods that ask for one.",
        )
        self._access = self._access_job()

    # ------------------------------------------------------------ jobs

    def jobs(self) -> list[Any]:
        return [self._index, self._embed, self._access]

    def _access_job(self) -> dg.JobDefinition:
        @dg.op(
            name=self._names.name("read_memberships"),
            description="Reads who is behind the principals of all sources that tell it, waiting for no other run.",
            out=dg.Out(dg.Nothing, io_manager_key=self._names.name(IO_MANAGER)),
        )
        def read_memberships(context: dg.OpExecutionContext) -> None:
            # If the memberships of some sources cannot be read, it fails after the others are done.
            found = sync_state(self._find())
            context.add_output_metadata({"sources": table(found)})
            if problems := [f"{item['source']}: {item['problem']}" for item in found if item["problem"]]:
                raise dg.Failure("; ".join(problems))

        @dg.job(
            name=self._names.name("sync_access"),
            description="Reads the members of the sources' principals again; nothing is indexed.",
            executor_def=dg.in_process_executor,
        )
        def access_job() -> None:
            read_memberships()

        return access_job

    # ------------------------------------------------------------ schedules

    def schedules(self) -> list[dg.ScheduleDefinition]:
        return [self._nightly(), self._hourly_access()]

    def _nightly(self) -> dg.ScheduleDefinition:
        @dg.schedule(
            name=self._names.name("nightly"),
            job=self._index,
            cron_schedule=self._settings.schedule.cron,
            execution_timezone=self._settings.schedule.timezone,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description="Lists every known source and brings the index up to date, all buckets in one run.",
        )
        def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
            # A ScheduleDefinition refuses Dagster's own tags; a request may carry them.
            return dg.RunRequest(tags=range_tags(self._partitions))

        return schedule

    def _hourly_access(self) -> dg.ScheduleDefinition:
        """Return the schedule that reads memberships; it runs more often than the schedule for documents."""
        return dg.ScheduleDefinition(
            name=self._names.name("hourly_access"),
            job=self._access,
            cron_schedule=self._settings.access.cron,
            execution_timezone=self._settings.schedule.timezone,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description="Reads who is behind the principals of sources, without indexing anything.",
        )

    # ------------------------------------------------------------ sensors

    def sensors(self) -> list[dg.SensorDefinition]:
        return [self._changed_sources(), *([] if self._settings.database == "embedded" else [self._dead_runs()])]

    def _changed_sources(self) -> dg.SensorDefinition:
        """Return the sensor that starts the job `index` for sources with added, changed or removed files."""

        @dg.sensor(
            name=self._names.name("changed_sources"),
            job=self._index,
            minimum_interval_seconds=INTERVAL_SECONDS,
            default_status=dg.DefaultSensorStatus.STOPPED,
            description="Compares names, sizes and times of all files with those of its last run.",
        )
        def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
            seen = watch(self._find())
            change = change_since(seen, context.cursor)
            if change is None:
                return dg.SensorResult(skip_reason=f"nothing changed: {seen}", cursor=context.cursor)
            for problem in seen.problems.values():
                context.log.warning("not looked at: %s", problem)
            listing = key_of("raw_documents", self._names).to_python_identifier()
            config = {"ops": {listing: {"config": {"sources": list(change.sources)}}}}
            request = dg.RunRequest(run_key=change.key, run_config=config, tags=range_tags(self._partitions))
            return dg.SensorResult(run_requests=[request], cursor=change.cursor)

        return sensor

    def _dead_runs(self) -> dg.SensorDefinition:
        """Return the sensor that marks killed runs as failed. A killed worker cannot report its end, and its launcher
        may never notice."""

        @dg.sensor(
            name=self._names.name("dead_runs"),
            minimum_interval_seconds=DEAD_SECONDS,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description="Fails runs whose session in Postgres is gone, so that Dagster starts them again.",
        )
        def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
            missed = json.loads(context.cursor or "{}")
            dead, missed = fail_dead_runs(self._find(), context.instance, missed, time.time())
            context.update_cursor(json.dumps(missed))
            return dg.SkipReason(f"failed, since they were killed: {', '.join(dead)}" if dead else "no run was killed")

        return sensor


_EMBEDDED = ("chunk_embeddings", "sentence_embeddings")
