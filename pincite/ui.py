"""`pincite ui`: Dagster's webserver and daemon against one state."""

from __future__ import annotations

import fcntl
import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pincite.console import say
from pipelines.errors import IndexStateError, PinciteError, UsageError
from resources.dagster_home import dagster_home
from resources.settings_file import CONFIG_VARIABLE, STATE_VARIABLE, Located

_WORKSPACE = """\
# Written by `pincite ui` at every start.
load_from:
  - python_module:
      module_name: assets.definitions
      location_name: pincite
      working_directory: {root}
"""
_LOCK = "ui.lock"
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def environment(located: Located) -> dict[str, str]:
    """What Dagster's processes need to find the same settings, state and instance."""
    made = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
        # A folder `assets` or `resources` of the user's is not ours.
        "PYTHONSAFEPATH": "1",
        STATE_VARIABLE: str(located.state),
        "DAGSTER_HOME": str(dagster_home(located.state)),
    }
    if located.file:
        made[CONFIG_VARIABLE] = str(located.file)
    return made


def run_ui(located: Located, host: str, port: int) -> int:
    """Serves until Ctrl-C or SIGTERM, then returns 0 with both processes ended; a second Ctrl-C kills them.

    Port 0 means any free one. Raises UsageError where the address cannot be listened on, IndexStateError `state`,
    or `in_use` where the state has a UI already, PinciteError when Dagster ends by itself."""
    host, port = _free_address(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    home = dagster_home(located.state)
    workspace = home / "workspace.yaml"
    with _only_ui(home, url) as lock, _interruptible():
        workspace.write_text(_WORKSPACE.format(root=Path(__file__).resolve().parent.parent), encoding="utf-8")
        command = [sys.executable, "-m", "dagster", "dev", "--log-level", "warning"]
        # In a session of its own, so that a terminal's Ctrl-C reaches it once, through us. What it says
        # goes to standard error. It holds the lock too, in case only this process is killed.
        process = subprocess.Popen(
            [*command, "-w", str(workspace), "-h", host, "-p", str(port)],
            env=environment(located),
            stdout=sys.stderr,
            start_new_session=True,
            pass_fds=[lock],
        )
        try:
            _wait_until_served(process, host, port)
            say(f"Dagster's UI is at {url} (state {located.state}); Ctrl-C stops it and its daemon")
            process.wait()
        except KeyboardInterrupt:
            say("stopping; runs in progress are finished first, a second Ctrl-C kills them")
            _stop(process)
            return 0
    raise PinciteError("Dagster's webserver or daemon ended by itself; the lines above say why", "ui_ended")


def _free_address(host: str, port: int) -> tuple[str, int]:
    """The address as it can be listened on. Whoever takes it before Dagster does makes Dagster end."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host, port))
            return host, int(server.getsockname()[1])
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "ports go up to 65535"
        raise UsageError(f"cannot listen on {host} port {port} ({reason}); choose another --port or --host") from None


def running_ui(state: Path) -> str | None:
    """Address and process of the state's UI, whose schedules and sensors may start a run at any time."""
    file = state / "dagster" / _LOCK
    if not file.exists():
        return None
    with file.open(encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read()
    return None


@contextmanager
def _only_ui(home: Path, url: str) -> Iterator[int]:
    """Holds the home for one UI: two daemons on one instance would launch every run twice."""
    with (home / _LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise IndexStateError(f"this state has a UI already: {lock.read()}; use or stop it", "in_use") from None
        lock.truncate(0)
        lock.write(f"{url}, process {os.getpid()}")
        lock.flush()
        yield lock.fileno()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Every signal that asks for an end raises KeyboardInterrupt, also where it was ignored (`... &`)."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_until_served(process: subprocess.Popen[Any], host: str, port: int) -> None:
    """Returns when the webserver answers, or the process has ended."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
            return
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(reached, port, timeout=5)
            connection.request("GET", "/server_info")
            connection.getresponse().close()
            return


def _stop(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
