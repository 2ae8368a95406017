"""What every test run loads."""

pytest_plugins = ["tests.reliability"]
