"""The code location, which misses a run's session for two seconds where it has thirty before it takes it for dead."""

from __future__ import annotations

from datetime import timedelta

from assets import sensors
from resources.dagster_instance import home

assert home.dead_runs.__defaults__ == (home.GONE_FOR, home._SILENT)
home.dead_runs.__defaults__ = 2.0, timedelta(minutes=1)
sensors.DEAD_SECONDS = 1

from assets.definitions import defs  # noqa: E402

__all__ = ["defs"]
