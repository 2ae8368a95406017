"""What every test run loads."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from tests.support.projects import MEMORY, ROOM, end_kept_workers

pytest_plugins = ["tests.support.reliability"]

# A shell without job control ignores Ctrl-C for what it runs in the background. Dagster takes that over for SIGTERM,
# and children that tests start would end at neither.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is. Examples are the same in every run, so that a commit passes or
# fails whoever tests it.
settings.register_profile(
    "any machine", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Keep the files of tests in memory where there is room: thousands of commits would each wait for the disk."""
    with suppress(OSError):
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize > ROOM and not found.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish() -> None:
    """Leave what is collected out of garbage collection: it stays until the end, and is millions of objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def kept_workers_end() -> Iterator[None]:
    """End what `kept_workers` keeps from one module to the next."""
    yield
    end_kept_workers()
