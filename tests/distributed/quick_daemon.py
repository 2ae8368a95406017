"""Dagster's daemon, with a second between two looks at backfills where it has thirty."""

from __future__ import annotations

from dagster._daemon import controller
from dagster._daemon.cli import main

controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 1

if __name__ == "__main__":
    main()
