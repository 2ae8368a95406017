"""What every test run loads."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.reliability"]

# How long an example takes says how busy the machine is. Examples are the same in every run, so that a commit passes or
# fails whoever tests it.
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
