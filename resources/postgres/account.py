"""Under which user Postgres runs. It refuses root, so root hands its processes to another user, who gets no capability.

No permission of any folder that is not ours is changed. Where that user cannot pass a parent folder of the data (a
state under root's home), the process is started within the data folder, which it then names by itself; the programs,
where it cannot pass to them, are copied to a folder that it can.
"""

from __future__ import annotations

import hashlib
import os
import pwd
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

REMEDIES = "choose another folder with --state, or set database: postgresql://... to use a server of your own"
WITHIN = "/proc/self/cwd"
"""The folder that a process was started in, whatever the permissions of those above it."""
PROGRAMS = Path("/var/cache/pincite")
"""Where the programs are copied to, when they lie in a folder of root's that is closed."""


@dataclass(frozen=True, slots=True)
class Account:
    """How a command is run: `prefix` goes before it, `options` to subprocess. `shut` where this user cannot pass to
    the data."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    shut: bool = False

    def place(self, folder: Path) -> str:
        """The name of a folder of ours for a command that is started in it."""
        return WITHIN if self.shut else str(folder)

    def start(self, command: Sequence[str], output: int | IO[bytes], folder: Path) -> subprocess.Popen[bytes]:
        """Start in a session of its own, so that Ctrl-C of the caller does not reach it, without
        the caller's input and environment (which may hold keys).

        Raises DatabaseError naming the command."""
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
        """Run to the end and return the output. Raises DatabaseError with its last lines."""
        process = self.start(command, subprocess.PIPE, folder)
        output = process.communicate()[0].decode(errors="replace").strip()
        if process.returncode:
            tail = " | ".join(output.splitlines()[-5:])
            raise DatabaseError(f"{Path(command[0]).name} failed: {tail}; {REMEDIES}")
        return output

    def own(self, folder: Path) -> None:
        """Make a folder of ours this account's alone; a link in its place is refused."""
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
        """A file of this account's, new or in the place of one. The folder is the account's, who may be less trusted
        than we are: no link in it is followed."""
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
    """The user's name, by which the ends of a connection know each other. Raises DatabaseError where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise DatabaseError(
            f"user {uid} has no name here, which Postgres needs to tell users apart: add it to /etc/passwd, or set "
            "database: postgresql://... to use a server of your own"
        ) from None


def server_user(data: Path) -> int:
    """The user that a server on this data folder runs as: the data's owner; where root has it, or nobody that is
    known here, or there are none yet, `postgres`, else `nobody`."""
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
    """Whether the user may enter all of these folders and those above them, or run the file."""
    for place in {place for path in paths for place in [path, *path.parents]}:
        status = place.stat()
        own = stat.S_IXUSR if status.st_uid == uid else stat.S_IXGRP if status.st_gid == gid else stat.S_IXOTH
        if not status.st_mode & own:
            return False
    return True


def account_for(data: Path) -> Account:
    """The account for a data folder (which may not exist yet; its parent must).

    Raises DatabaseError when the data belong to another user."""
    uid = server_user(data)
    owner = data.stat().st_uid if data.exists() else uid
    if os.geteuid() != 0:
        if owner != uid:
            raise DatabaseError(f"{data} belongs to user {owner}; run as that user, or {REMEDIES}")
        return Account(uid, os.getegid())
    gid = pwd.getpwuid(uid).pw_gid
    if owner != uid:
        _take_over(data, owner, uid, gid)
    shut = not _passes([data.parent], uid, gid)
    if setpriv := program_path("setpriv"):
        # A change of user by subprocess itself forks, which processes with gRPC in them do not survive.
        bare = ("--clear-groups", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs")
        return Account(uid, gid, (setpriv, f"--reuid={uid}", f"--regid={gid}", *bare), shut=shut)
    return Account(uid, gid, options={"user": uid, "group": gid, "extra_groups": []}, shut=shut)


def _take_over(data: Path, owner: int, uid: int, gid: int) -> None:
    """Data that a copy left to root, or to a user of another machine."""
    os.chown(data, uid, gid, follow_symlinks=False)
    for _, folders, files, within in os.fwalk(data, follow_symlinks=False):
        for name in [*folders, *files]:
            if os.stat(name, dir_fd=within, follow_symlinks=False).st_uid == owner:
                os.chown(name, uid, gid, dir_fd=within, follow_symlinks=False)


def reachable(installed: Path, account: Account) -> Path:
    """The folder of an installation of Postgres, or a copy of it that the account can get to.

    Raises DatabaseError where the copy cannot be made."""
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
        PROGRAMS.chmod(0o755)  # commands have a umask that shuts what they make
        if not copy.exists():
            _copy_programs(installed, copy)
    except OSError as error:
        raise DatabaseError(
            f"user {account.uid}, as whom Postgres runs, cannot enter the folders of {program}, and it cannot be "
            f"copied to {copy}: {error}; install pincite where others may enter, or {REMEDIES}"
        ) from error
    return copy / installed.parent.name / installed.name


def _libraries(installed: Path) -> Path:
    """Beside the package that the programs are in: they look for them there, by a path relative to their own."""
    package = installed.parent
    return package.with_name(f"{package.name}.libs")


def _copy_programs(installed: Path, copy: Path) -> None:
    """Beside its place, then renamed, so that it is there whole or not at all."""
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
