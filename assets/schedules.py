"""When the index is brought up to date by itself."""

import dagster as dg

from assets.declare import range_tags
from assets.jobs import access_job, index_job


def nightly(partitions: dg.PartitionsDefinition, cron: str, timezone: str) -> dg.ScheduleDefinition:
    """One run over all buckets. Off until it is turned on in the UI."""

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
    """Memberships, more often than documents. Off until it is turned on in the UI."""
    return dg.ScheduleDefinition(
        name="hourly_access",
        job=access_job,
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Reads who is behind the principals of sources, without indexing anything.",
    )
