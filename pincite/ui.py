"""`pincite ui`: Dagster's webserver and daemon against one state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from pincite.index_run import dagster_home
from resources.settings_file import CONFIG_VARIABLE, STATE_VARIABLE, Located


def environment(located: Located) -> dict[str, str]:
    """What Dagster's processes need to find the same settings, state and instance."""
    made = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
        STATE_VARIABLE: str(located.state),
        "DAGSTER_HOME": str(dagster_home(located.state)),
    }
    if located.file:
        made[CONFIG_VARIABLE] = str(located.file)
    return made


def run_ui(located: Located, host: str, port: int) -> int:
    """Runs until interrupted; the exit code is that of `dagster dev`."""
    command = [sys.executable, "-m", "dagster", "dev", "-m", "assets.definitions", "-h", host, "-p", str(port)]
    located.state.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(command, env=environment(located))
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait()
        return 0
