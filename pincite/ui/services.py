"""`pincite ui`: Dagster's webserver behind a guard, its daemon and its code server, against one state."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pincite.console import say
from pincite.environment import RUN_TMPDIR
from pincite.listening import ANY_ADDRESS, address_of, interruptible, listener, private_folder
from pipelines.errors import IndexStateError, PinciteError, UsageError
from resources.child_process import ROOT, module_path, tied_command
from resources.dagster_instance.home import dagster_home, instance_home
from resources.dagster_instance.run_history import noted_runs
from resources.private_files import private
from resources.settings_file import CONFIG_VARIABLE, STATE_VARIABLE, Project

TOKEN_VARIABLE = "PINCITE_UI_TOKEN"
GUARD_VARIABLE = "PINCITE_UI_GUARD"
"""Environment variable with JSON for the webserver: the settings of pincite/ui/webserver.py and its listening
socket."""
_SHORTEST_TOKEN = 16
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WORKSPACE = """\
# Written by `pincite ui` at every start.
load_from:
  - grpc_server:
      location_name: pincite
      socket: {socket}
"""
_LOCK = "ui.lock"
_LOOK_SECONDS = 0.2
_SIGN_SECONDS = 60.0
"""Seconds after which a silent daemon counts as ended: twice the interval of its heartbeats."""


def environment(project: Project) -> dict[str, str]:
    """Return the environment in which Dagster's processes find the same settings, state and instance."""
    made = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
        # A user's own folder `assets` or `resources` must not be imported for ours.
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(module_path()),
        STATE_VARIABLE: str(project.state),
        "DAGSTER_HOME": str(instance_home(project.state).absolute()),
    }
    made.pop(TOKEN_VARIABLE, None)
    if project.file:
        made[CONFIG_VARIABLE] = str(project.file)
    return made


def run_ui(project: Project, host: str, port: int, read_only: bool = False, names: Sequence[str] = ()) -> int:
    """Serve until Ctrl-C or SIGTERM, then return 0 with all processes ended; a second Ctrl-C kills them.

    Port 0 means any free one. Raises UsageError if the address cannot be listened on, IndexStateError `state`, or
    `in_use` if the state has a UI already, and PinciteError if Dagster ends by itself."""
    token, given = _token()
    listening = listener(host, port)
    port, url = listening.getsockname()[1], address_of(host, listening)
    home = dagster_home(project.state)
    guard = {"fd": listening.fileno(), "token": token, "port": port, "names": [host, *names],
             "any_address": host in ANY_ADDRESS}  # fmt: skip
    with (
        listening,
        private(project.state),
        _only_ui(home, url) as lock,
        interruptible(),
        private_folder("pincite-ui-") as folder,
    ):
        workspace = home / "workspace.yaml"
        workspace.write_text(_WORKSPACE.format(socket=json.dumps(str(folder / "code"))), encoding="utf-8")
        services = _Services(workspace, environment(project), lock)
        _record_direct_runs(project.state)
        try:
            services.start_code_server(folder / "code")
            services.start_webserver(host, guard, read_only)
            if _has_daemon(project.state):
                say("a daemon of this Dagster instance gave a sign of life a minute ago or less, so none starts here; "
                    "if it has ended since, start `pincite ui` again")  # fmt: skip
            else:
                services.start_daemon()
            _require_guard(services, ANY_ADDRESS.get(host, host), port)
            shown = f"{url}/?token={quote(token, safe='')}" if not given else url
            more = f", token as {TOKEN_VARIABLE} has it" if given else ""
            say(f"Dagster's UI is at {shown} (state {project.state}{more}); Ctrl-C stops it and its daemon")
            if host not in _LOOPBACK:
                say("warning: others on the network can read along, the token included: this is plain HTTP. Keep it on "
                    "loopback behind a proxy with TLS, or an SSH tunnel")  # fmt: skip
            services.wait()
        except KeyboardInterrupt:
            say("stopping; runs in progress are finished first, a second Ctrl-C kills them")
            services.stop()
            return 0
        except BaseException:
            services.kill()
            raise
    raise AssertionError("unreachable")


def _record_direct_runs(state: Path) -> None:
    """Write the runs into Dagster's storage that were made without it."""
    if not noted_runs(state / "dagster"):
        return
    import assets.definitions  # noqa: F401  it says which assets each comes after
    from assets.metadata import record_direct_runs
    from resources.dagster_instance.run_history import run_history

    with run_history(instance_home(state)) as instance:
        record_direct_runs(instance, state)


def _has_daemon(state: Path) -> bool:
    """Say whether the instance named by an operator already has a daemon, since two daemons would launch every run
    twice.

    The state's own instance has only the daemon of its UI.
    """
    if instance_home(state) == dagster_home(state):
        return False
    from resources.dagster_instance.backfills import last_signs
    from resources.dagster_instance.home import workers_history

    with workers_history(state) as instance:
        return all(time.time() - at < _SIGN_SECONDS for at in last_signs(instance).values())


def _token() -> tuple[str, bool]:
    """Return the token of this start, and whether it comes from the environment: then it is not shown again."""
    given = os.environ.get(TOKEN_VARIABLE, "")
    if given and len(given) < _SHORTEST_TOKEN:
        raise UsageError(f"{TOKEN_VARIABLE} is too short for a secret: give at least {_SHORTEST_TOKEN} characters, "
                         "or leave it out and use the printed token")  # fmt: skip
    return given or secrets.token_urlsafe(32), bool(given)


@dataclass
class _Services:
    """Dagster's three processes, each in its own session, so that a terminal's Ctrl-C reaches them only through this
    process. Their output goes to standard error. If this process is killed, they get the signals of `stop`, and hold
    the lock until they have ended."""

    workspace: Path
    environment: Mapping[str, str]
    lock: int
    running: list[subprocess.Popen[Any]] = field(default_factory=list)

    def start_code_server(self, at: Path) -> None:
        """Start the code server, and return when it listens.

        It runs the launched runs, and ends after the last one. It loads the code in a separate process, and starts a
        new one when somebody reloads the code location, so changed settings take effect without a restart.
        """
        named = ["-m", "pincite.definitions", "--working-directory", ROOT, "--location-name", "pincite"]
        self._start(
            "dagster", "code-server", "start", "--socket", str(at), "--log-level", "warning", *named,
            # The process's own socket, too, is where no other user may enter. Runs have the user's folder.
            environment={"TMPDIR": str(at.parent), RUN_TMPDIR: os.environ.get("TMPDIR", "")},
        )  # fmt: skip
        while not _listens(at):
            self._look()

    def start_webserver(self, host: str, guard: Mapping[str, Any], read_only: bool) -> None:
        arguments = ["-w", str(self.workspace), "-h", host, "-p", str(guard["port"]), "--dagster-log-level", "warning"]
        self._start(
            "pincite.ui.webserver",
            *arguments,
            *(["--read-only"] if read_only else []),
            pass_fds=[guard["fd"]],
            environment={GUARD_VARIABLE: json.dumps(guard)},
        )

    def start_daemon(self) -> None:
        # The module of the program `dagster-daemon`: a module's process ends with this one, a program's does not.
        self._start("dagster._daemon", "run", "-w", str(self.workspace), "--log-level", "warning")

    def _start(
        self, module: str, *arguments: str, pass_fds: Sequence[int] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        process = subprocess.Popen(
            tied_command(module, *arguments, ends=signal.SIGINT),
            env={**self.environment, **(environment or {})},
            cwd=self.workspace.parent,  # Dagster lays a file .env of its current folder over its environment
            stdout=sys.stderr,
            start_new_session=True,
            pass_fds=[self.lock, *pass_fds],
        )
        self.running.append(process)

    def wait(self) -> None:
        """Wait until one of the processes ends, which is an error."""
        while True:
            self._look()

    def _look(self) -> None:
        """Raise PinciteError if one of the processes has ended."""
        if any(process.poll() is not None for process in self.running):
            raise PinciteError("Dagster's webserver or daemon ended unexpectedly; the lines above say why", "ui_ended")
        time.sleep(_LOOK_SECONDS)

    def stop(self) -> None:
        """End all processes; the code server is last, since the daemon needs it and its runs need no other process."""
        try:
            for group in (self.running[1:], self.running[:1]):
                for process in group:
                    process.send_signal(signal.SIGINT)
                for process in group:
                    process.wait()
        except KeyboardInterrupt:
            self.kill()

    def kill(self) -> None:
        for process in self.running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _listens(at: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.connect(str(at))
        return True
    return False


def _require_guard(services: _Services, host: str, port: int) -> None:
    """Wait until the webserver answers that it requires a token. Raises PinciteError if it answers without one."""
    while True:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(host, port, timeout=5)
            connection.request("GET", "/server_info")
            status = connection.getresponse().status
            connection.close()
            if status == 403:
                return
            raise PinciteError(
                f"Dagster's webserver answered {status} without a token, so it was stopped; this version of "
                "dagster-webserver cannot be guarded; install the one in constraints.txt",
                "ui_ended",
            )
        services._look()


def running_ui(state: Path) -> str | None:
    """Return address and process of the state's UI, whose schedules and sensors may start a run at any time; return
    None if no UI runs."""
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
    """Lock the home for one UI, since two daemons on one instance would launch every run twice."""
    with (home / _LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise IndexStateError(f"the state already has a UI: {lock.read()}; use or stop it", "in_use") from None
        lock.truncate(0)
        lock.write(f"{url}, process {os.getpid()}")
        lock.flush()
        yield lock.fileno()
