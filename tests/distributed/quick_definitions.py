"""The code location, which looks for killed runs every second where it has fifteen.

How long a run may be without a session is as shipped: on a busy machine it takes seconds to end, and would be started
again.
"""

from __future__ import annotations

from assets import automation as sensors

sensors.DEAD_SECONDS = 1

from assets.definitions import defs  # noqa: E402

__all__ = ["defs"]
