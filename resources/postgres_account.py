"""Under which user Postgres runs. It refuses root, so root hands its processes to another user.

No permission of any folder that is not ours is changed. Where that user cannot pass a parent
folder (a state under root's home), the process is given the capability to do so instead.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pipelines.errors import DatabaseError

REMEDIES = "choose another folder with --state, or set database: postgresql://... to use a server of your own"


@dataclass(frozen=True, slots=True)
class Account:
    """How a command is run: `prefix` goes before it, `options` to subprocess."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    blocked: Path | None = None

    def start(self, command: Sequence[str], output: int | IO[bytes]) -> subprocess.Popen[bytes]:
        """Start in a session of its own, so that Ctrl-C of the caller does not reach it, without
        the caller's input, working folder, and environment (which may hold keys).

        Raises DatabaseError naming the command."""
        try:
            return subprocess.Popen(
                [*self.prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                **self.options,
            )
        except OSError as error:
            raise DatabaseError(f"{command[0]} cannot be started: {error.strerror}; {REMEDIES}") from error

    def run(self, command: Sequence[str]) -> str:
        """Run to the end and return the output. Raises DatabaseError with its last lines."""
        process = self.start(command, subprocess.PIPE)
        output = process.communicate()[0].decode(errors="replace").strip()
        if process.returncode:
            tail = " | ".join(output.splitlines()[-5:])
            where = f" ({self.blocked} cannot be entered by the user it runs as)" if self.blocked else ""
            raise DatabaseError(f"{Path(command[0]).name} failed{where}: {tail}; {REMEDIES}")
        return output

    def own(self, folder: Path) -> None:
        """Make a folder of ours this account's alone."""
        try:
            os.chmod(folder, 0o700)
            if os.geteuid() == 0:
                os.chown(folder, self.uid, self.gid)
        except OSError as error:
            raise DatabaseError(f"{folder} cannot be given to user {self.uid}: {error.strerror}; {REMEDIES}") from error


def _first_blocked(paths: Sequence[Path], uid: int, gid: int) -> Path | None:
    """The first of the paths, or of their parents, that the user may not enter."""
    for path in paths:
        for place in reversed([path, *path.parents]):
            status = place.stat()
            if status.st_uid == uid:
                allowed = status.st_mode & stat.S_IXUSR
            elif status.st_gid == gid:
                allowed = status.st_mode & stat.S_IXGRP
            else:
                allowed = status.st_mode & stat.S_IXOTH
            if not allowed:
                return place
    return None


def _unprivileged(owner: int | None) -> tuple[int, int]:
    """uid and gid that root hands over to: the data's owner, else `postgres`, else `nobody`."""
    if owner:
        try:
            return owner, pwd.getpwuid(owner).pw_gid
        except KeyError:
            return owner, owner
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise DatabaseError(f"Postgres refuses to run as root, and there is no user postgres or nobody; {REMEDIES}")


def account_for(data: Path, binaries: Path) -> Account:
    """The account for a data folder (which may not exist yet; its parent must).

    Raises DatabaseError when the data belong to another user, or when root cannot pass them on."""
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise DatabaseError(f"{data} belongs to user {owner}; run as that user, or {REMEDIES}")
        return Account(os.geteuid(), os.getegid())
    uid, gid = _unprivileged(owner)
    blocked = _first_blocked([data.parent, binaries / "postgres"], uid, gid)
    setpriv = shutil.which("setpriv")
    prefix = (setpriv or "", f"--reuid={uid}", f"--regid={gid}", "--clear-groups")
    if blocked is None:
        # A change of user by subprocess itself forks, which processes with gRPC in them do not survive.
        options = {} if setpriv else {"user": uid, "group": gid, "extra_groups": []}
        return Account(uid, gid, prefix if setpriv else (), options)
    if setpriv is None:
        raise DatabaseError(
            f"Postgres refuses to run as root, the user it would run as cannot enter {blocked}, "
            f"and the command setpriv, which would let it, is not installed; {REMEDIES}"
        )
    capability = "+dac_override"
    return Account(uid, gid, (*prefix, f"--inh-caps={capability}", f"--ambient-caps={capability}"), blocked=blocked)
