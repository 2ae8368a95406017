"""The embedded Postgres of one state folder: its creation, start, sharing and stop, and its roles.

<state>/postgres         the data folder
    <state>/postgres.log     the log of the server
    <state>/postgres.lock    held while the server is created, started or stopped
    <state>/postgres.users   each process that uses the server holds a shared lock on it
    <state>/postgres.keep    while it exists, the last user leaves the server running

The kernel releases the locks of a killed process. Pid files are not trusted: the server is the process that listens on
the socket. Its roles are a superuser that is used only here, and the owner of the index.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pipelines.errors import DatabaseError
from resources.postgres.address import is_full, is_transient
from resources.postgres.server_process import (
    ADMINISTRATOR,
    OWNER,
    REMEDIES,
    SOCKET,
    account_for,
    admit,
    launch,
    name_of,
    server_user,
    socket_folder,
)
from resources.postgres.statements import query

if TYPE_CHECKING:
    import psycopg


# ---------------------------------------------------------------- roles


def is_settled(connection: psycopg.Connection[Any]) -> bool:
    """Say whether the connected owner is not a superuser; in states of older versions it still is."""
    return connection.info.parameter_status("is_superuser") == "off"


def missing_role(reason: str) -> bool:
    """Say whether the server answers but does not have the owner's role yet."""
    return f'role "{OWNER}" does not exist' in reason


def settle(url: str) -> None:
    """Create the missing roles, and make the owner the owner of everything that belongs to the superuser; `url` is the
    owner's address. Repeating this is safe, and an interrupted step has no effect.

    Raises psycopg.Error.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    try:
        connection = psycopg.connect(url, user=ADMINISTRATOR)
    except psycopg.OperationalError as error:
        if f'role "{ADMINISTRATOR}" does not exist' not in str(error):
            raise
        connection = psycopg.connect(url)
        for step in ("make_other_superuser", "become_other_superuser", "rename_superuser", "become_superuser_again",
                     "drop_other_superuser"):  # fmt: skip
            connection.execute(query("session", step))
    with connection:
        connection.execute(query("session", "make_owner"))
        connection.execute(query("session", "hand_over_database"))
        databases = [row[0] for row in connection.execute(query("session", "databases"))]
        here = connection.info.dbname
        connection.execute(query("session", "reload"))
    for name in databases:
        if name != here:
            with psycopg.connect(make_conninfo(url, user=ADMINISTRATOR, dbname=name)) as other:
                other.execute(query("session", "hand_over_database"))


# ---------------------------------------------------------------- server


Log = Callable[[str], None]

START_SECONDS = 600.0
SETTLE_SECONDS = 60.0
HURRY_SECONDS = 20.0
STOP_SECONDS = 60.0
SURVIVOR_SECONDS = 90.0

# Started servers that are no longer waited for, kept so that their exit status is collected.
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class ServerStatus:
    running: bool
    pid: int | None
    kept: bool
    url: str
    folder: str


class PostgresServer:
    """One state's server, seen from one process. It must not be shared with a forked child."""

    def __init__(self, state: Path, log: Log | None = None) -> None:
        self.state = state.resolve()
        self.data = (self.state / "postgres").resolve()
        self._log_file = self.state / "postgres.log"
        self._keep = self.state / "postgres.keep"
        self._sockets = socket_folder(self.state)
        self._say: Log = log or (lambda message: None)
        self._hold: int | None = None
        self._holder = 0
        self._settled = True

    @property
    def url(self) -> str:
        """The address for all work. A client that uses it, with any program, refuses another user's server."""
        return self._address(OWNER)

    @property
    def administrator_url(self) -> str:
        """Return the superuser's address."""
        return self._address(ADMINISTRATOR)

    def _address(self, role: str) -> str:
        server = quote(name_of(server_user(self.data)), safe="")
        return f"postgresql://{role}@/postgres?host={self._sockets}&requirepeer={server}"

    def acquire(self) -> str:
        """Count this process among the users and return the URL of a server that answers.

        Raises DatabaseError if the server cannot be created or started."""
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock(), self._among_users():
                self._ensure_running()
        except OSError as error:
            raise DatabaseError(f"the state folder {self.state} cannot be used: {error}; {REMEDIES}") from error
        return self.url

    def release(self) -> None:
        """End this process's use. The last user stops the server, unless it must be kept."""
        if self._hold is None or self._holder != os.getpid():
            return
        atexit.unregister(self.release)
        fcntl.flock(self._hold, fcntl.LOCK_UN)
        os.close(self._hold)
        self._hold = None
        if not self.state.exists():
            return
        with self._lock(), self._alone() as alone:
            if alone and not self._keep.exists():
                self._stop()

    def keep_running(self) -> str:
        """Start the server, and leave it running until `stop`; return the URL."""
        url = self.acquire()
        self._keep.touch()
        self.release()
        return url

    def stop(self, force: bool = False) -> bool:
        """Stop the server; return True if it was running. Raise DatabaseError (`in_use`) while others use it, unless
        forced."""
        if not self.state.exists():
            return False
        with self._lock(), self._alone() as alone:
            if not alone and not force:
                raise DatabaseError(
                    f"the Postgres of {self.state} is in use by another process; wait for it, or stop with --force",
                    "in_use",
                )
            self._keep.unlink(missing_ok=True)
            return self._stop()

    def is_running(self) -> bool:
        return self._listener() is not None

    def status(self) -> ServerStatus:
        pid = self._listener()
        return ServerStatus(pid is not None, pid, self._keep.exists(), self.url, str(self.data))

    # ------------------------------------------------------------ locks

    def _open(self, name: str) -> int:
        return os.open(self.state / name, os.O_RDWR | os.O_CREAT, 0o600)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        descriptor = self._open("postgres.lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _among_users(self) -> Iterator[None]:
        """Hold the users' lock until `release`, or until an error in the block."""
        if self._hold is not None:
            yield
            return
        descriptor = self._open("postgres.users")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield
        except BaseException:
            os.close(descriptor)
            raise
        self._hold, self._holder = descriptor, os.getpid()
        atexit.register(self.release)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Yield whether no other process uses the server; none can begin while `_locked` is held."""
        descriptor = self._open("postgres.users")
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                alone = True
            except BlockingIOError:
                alone = False
            yield alone
        finally:
            os.close(descriptor)

    # ------------------------------------------------------------ the listening process

    def _listener(self) -> int | None:
        """Return the process that listens on the socket, according to the kernel, or None.

        Raises DatabaseError if it belongs to another user, who would get access to the index: the folder's name can be
        guessed, and while no server runs anybody may create it.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            try:
                client.connect(str(self._sockets / SOCKET))
                packed = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            except OSError:
                return None
        pid, user, _ = struct.unpack("3i", packed)
        if user not in (os.geteuid(), self.data.stat().st_uid if self.data.exists() else None):
            raise DatabaseError(
                f"the process that listens in {self._sockets} is of user {user}, not of the owner of {self.data}; "
                f"nothing was sent. Remove that folder, or {REMEDIES}"
            )
        return int(pid)

    def _answers(self) -> bool:
        """Say whether the listener accepts connections; it does not while it starts, recovers or stops."""
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=10) as connection:
                self._settled = is_settled(connection)
        except psycopg.OperationalError as error:
            reason = str(error)
            if missing_role(reason):
                self._settled = False
                return True
            if not is_transient(reason):
                raise DatabaseError(
                    f"the Postgres of {self.state} refuses connections: {reason}; see {self._log_file}"
                ) from error
            return is_full(reason)
        return True

    def _settle(self) -> None:
        """Set up, before any work, who may connect and with which roles."""
        import psycopg

        try:
            admit(self.data, account_for(self.data))
            settle(self.url)
        except psycopg.Error as error:
            raise DatabaseError(
                f"the roles of the Postgres of {self.state} cannot be created: {error}; see {self._log_file}"
            ) from error

    # ------------------------------------------------------------ start and stop

    def _ensure_running(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        begun = time.monotonic()
        told, log_start = begun, 0
        _children[:] = [child for child in _children if child.poll() is None]
        while True:
            listening = self._listener() is not None
            if listening and self._answers():
                if process is not None or not self._settled:
                    self._settle()
                return
            now = time.monotonic()
            if process is not None and process.poll() is not None:
                tail = self._tail(log_start)
                # Backends of a killed server outlive it by moments, and a server whose socket was deleted notices its
                # changed pid file within a minute. Until then they hold its shared memory.
                if "pre-existing shared memory" not in tail or now - begun > SURVIVOR_SECONDS:
                    raise DatabaseError(f"Postgres did not start. Its log ({self._log_file}) ends: {tail}")
                process = None
                time.sleep(0.2)
            if process is None and not listening:
                process, log_start = launch(self.data, self._sockets, self._log_file)
                _children[:] = [child for child in _children if child.poll() is None] + [process]
            if now - begun > START_SECONDS:
                raise DatabaseError(f"Postgres is not ready after {now - begun:.0f} s; see {self._log_file}")
            if now - told > 5:
                told = now + 25
                self._say(f"waiting for Postgres, which is recovering its data ({now - begun:.0f} s)")
            time.sleep(0.01)

    def _stop(self) -> bool:
        """Stop the server in fast mode and wait for its end."""
        pid = self._listener()
        if pid is None:
            return False
        if pid == 0:
            raise DatabaseError(f"the Postgres of {self.state} runs in another container; stop it there")
        # A server that recovers from the death of one of its processes never ends if it gets the signal then.
        begun = time.monotonic()
        while self._listener() == pid and not self._in_peace() and time.monotonic() - begun < SETTLE_SECONDS:
            time.sleep(0.01)
        os.kill(pid, signal.SIGINT)
        begun, hurried = time.monotonic(), False
        while (self.data / "postmaster.pid").exists() and self._listener() is not None:
            waited = time.monotonic() - begun
            if waited > HURRY_SECONDS and not hurried:
                self._say("Postgres does not stop; it is stopped at once, and recovers at its next start")
                os.kill(pid, signal.SIGQUIT)
                hurried = True
            if waited > STOP_SECONDS:
                raise DatabaseError(f"Postgres (process {pid}) has not stopped; see {self._log_file}")
            time.sleep(0.005)
        self._collect(pid)
        return True

    def _in_peace(self) -> bool:
        """Say whether the server accepts connections, or refuses them permanently."""
        try:
            return self._answers()
        except DatabaseError:
            return True

    def _collect(self, pid: int) -> None:
        """Wait for the server if it is a child of this process, to leave no zombie."""
        for child in _children:
            if child.pid == pid:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=10)
        with suppress(OSError):
            self._sockets.rmdir()

    def _tail(self, start: int) -> str:
        with self._log_file.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-8:])
