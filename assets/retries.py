"""Steps that wait for a service: tried again where nobody watches, at once an error where somebody does.

Not a RetryPolicy: that also retries what no waiting mends, such as wrong settings, and a run that
its user interrupts.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import dagster as dg

from pipelines.errors import DatabaseError, ModelError

PATIENCE = dg.RetryPolicy(max_retries=3, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
_UNATTENDED = ("dagster/schedule_name", "dagster/sensor_name", "dagster/backfill")
"""Tags of runs that Dagster launched by itself."""


def patient(body: Callable[..., Any]) -> Callable[..., Any]:
    """The body of an asset that needs a service. What it committed before the failure stands."""

    @wraps(body)
    def run(context: dg.AssetExecutionContext, **resources: Any) -> Any:
        try:
            return body(context, **resources)
        except (ModelError, DatabaseError) as error:
            if not any(tag in context.run.tags for tag in _UNATTENDED):
                raise
            wait = PATIENCE.calculate_delay(context.retry_number + 1)
            raise dg.RetryRequested(PATIENCE.max_retries, wait) from error

    return run
