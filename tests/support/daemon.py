"""Dagster's own daemon in a process of its own, with an instance and a code location as an operator has them."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import dagster as dg

from resources.dagster_instance.backfills import last_signs
from tests.support.places import ROOT
from tests.support.projects import Project
from tests.support.waiting import HANG_SECONDS, until

INSTANCE = """\
telemetry: {enabled: false}
run_coordinator:
  module: dagster._core.run_coordinator
  class: QueuedRunCoordinator
  config: {dequeue_interval_seconds: 1, max_concurrent_runs: 3}
run_retries: {enabled: true, max_retries: 1, retry_on_asset_or_op_failure: false}
run_monitoring: {enabled: true, poll_interval_seconds: 2}
compute_logs: {module: dagster._core.storage.noop_compute_log_manager, class: NoOpComputeLogManager}
"""
_QUICK = """\
import sys
import dagster._daemon.controller as controller
controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 1
controller.RELOAD_WORKSPACE_INTERVAL = controller.DEFAULT_WORKSPACE_FRESHNESS_TOLERANCE = 10**6
from dagster._daemon.cli import main
sys.argv[0] = "dagster-daemon"
main()
"""
"""The daemon as it is, but that it looks every second and not every half minute, and never loads the code anew."""


def make_home(folder: Path, settings: str = INSTANCE) -> Path:
    """Make the home of an instance with its tables, before two processes want to make them."""
    shutil.copytree(_tables(), folder)
    (folder / "dagster.yaml").write_text(settings)
    return folder


@cache
def _tables() -> Path:
    """Return a folder with the empty tables of an instance, which take longer to make than to copy."""
    folder = Path(tempfile.mkdtemp(prefix="dagster-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        instance.get_asset_keys()
    return folder


@contextmanager
def running_daemon(home: Path, project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """Serves the code location with the settings of a project, and runs what is launched, until the end."""
    environment = {
        **os.environ, "DAGSTER_HOME": str(home), "PINCITE_CONFIG": str(project.config), "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    # Dagster takes the first entry of the path for the current folder and drops it. With PYTHONSAFEPATH, which a test
    # before this may have set, it would be the first of PYTHONPATH.
    environment.pop("PYTHONSAFEPATH", None)
    log = home / "daemon.log"
    with log.open("ab") as said:
        daemon = subprocess.Popen(
            [sys.executable, "-c", _QUICK, "run", "-m", "tests.support.forked_location"],
            cwd=home, env=environment, stdout=said, stderr=said, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
        )  # fmt: skip
    try:
        _wait_for_signs(home, daemon, log)
        yield daemon
    finally:
        with suppress(ProcessLookupError):
            os.killpg(daemon.pid, signal.SIGINT)
        try:
            daemon.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()


def _wait_for_signs(home: Path, daemon: subprocess.Popen[bytes], log: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as instance:
        until(lambda: all(last_signs(instance).values()), log.read_text, daemon)
