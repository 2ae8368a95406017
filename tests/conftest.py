"""What every test run loads."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.projects import end_kept_workers

pytest_plugins = ["tests.support.reliability"]

# How long an example takes says how busy the machine is. Examples are the same in every run, so that a commit passes or
# fails whoever tests it.
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def kept_workers_end() -> Iterator[None]:
    """End what `kept_workers` keeps from one module to the next."""
    yield
    end_kept_workers()
