"""The code location, which misses a run's session for two seconds where it has thirty before it takes it for dead."""

from __future__ import annotations

from assets import sensors
from resources.dagster_instance import home

*_others, _gone_for = home.dead_runs.__defaults__ or ()
assert _gone_for == home.GONE_FOR
home.dead_runs.__defaults__ = (*_others, 2.0)
sensors.DEAD_SECONDS = 1

from assets.definitions import defs  # noqa: E402

__all__ = ["defs"]
