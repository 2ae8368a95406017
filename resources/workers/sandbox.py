"""What is left to a process that reads documents: its own code, the files it was given, and nothing to talk to.

`confine` is called by the process itself, before it touches a document and before it starts a thread (Landlock and
capabilities belong to the thread); `become` by one that is about to become a helper program. Every layer is used where
the kernel has it and left out where not; `holds` says which there are. Nothing of it can be taken back.
"""

from __future__ import annotations

import glob
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from resources.child_process import child_command, child_environment, module_path
from resources.programs import ERRORS, OUTPUT
from resources.shipped import ROOT
from resources.workers import landlock
from resources.workers.system_calls import (
    drop_capabilities,
    filter_calls,
    filter_calls_of_program,
    give_up_privileges,
    hand_over,
)

_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/nix/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/fonts", "/etc/localtime", "/etc/mime.types"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage"),
    *("/dev/urandom", "/dev/random", "/dev/zero"),
)
"""What libraries read. Of /etc and /proc no more: passwords, keys and other processes are there."""
_PACKAGES = ("pincite", "assets", "resources", "pipelines", "sql", "prompts")
OPEN_FILES = 1024
FILE_BYTES = 1 << 30
MEGABYTE = 1 << 20
GUESSED_BYTES = 1 << 30
"""Of address space that a process has by itself, where the system does not tell."""
_PROBE_SECONDS = 30.0
MOST_TASKS = 4096
"""Processes and threads that may start, beside those of the whole machine, before a worker is refused another one. The
kernel counts those of a user, and none of root's."""
LAYERS = {
    "no_new_privileges": "no program gains rights",
    "capabilities": "rights of root are given up",
    "files": "only files that were given are read",
    "network": "no network",
    "processes": "no process is started",
    "signals": "no other process is signalled",
    "limits": "open files, file sizes and core dumps are limited",
}


def confine(reads: Sequence[Path], writes: Sequence[Path] = ()) -> dict[str, bool]:
    """Leave this process its code, `reads` and `writes` (folders, or files that exist). Return which layers hold.

    The first folder of `writes` is its temporary one from now on. It can start no process and run no program."""
    if writes:
        tempfile.tempdir = os.environ["TMPDIR"] = str(writes[0])
    limits = _limit()
    privileges = give_up_privileges()
    version = landlock.restrict(_allowed([*_code(), *map(str, reads)], writes)) if privileges else 0
    # The last: it would refuse nothing of the above, but what is refused is refused from here on.
    capabilities = drop_capabilities()
    calls = filter_calls() if privileges else False
    return {
        "no_new_privileges": privileges,
        "capabilities": capabilities,
        "files": version >= 1,
        "network": calls,
        "processes": calls,
        "signals": calls or version >= 6,
        "limits": limits,
    }


def become(
    command: Sequence[str],
    reads: Sequence[str],
    writes: Path,
    folder: Path,
    environment: Mapping[str, str],
    starter: socket.socket,
    code: bool,
) -> NoReturn:
    """Become a program that reads `reads` and a worker's folder `writes`, and works in a folder within.

    It is confined like a worker, and starts nothing: this one start is asked of the other end of `starter`, which
    takes the descriptor of `filter_calls_of_program` and answers once. With `code` it reads pincite's code and the
    interpreter's. Raises OSError where it cannot be started."""
    _limit()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and the program would go on ignoring them
        signal.signal(ignored, signal.SIG_DFL)
    listener = None
    privileges = give_up_privileges()
    if privileges:
        landlock.restrict(_allowed([*(_code() if code else ()), *reads], [writes], [command[0], *_loaders()]))
    drop_capabilities()
    os.chdir(folder)
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    for number, place, flags in ((0, "/dev/null", os.O_RDONLY), (1, OUTPUT, new), (2, ERRORS, new)):
        opened = os.open(place, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    if privileges:
        listener = filter_calls_of_program()
    hand_over(listener, starter)
    if listener is not None:
        os.close(listener)
    os.execve(command[0], [*command], environment)


def _allowed(reads: Sequence[str], writes: Sequence[Path], programs: Sequence[str] = ()) -> dict[int, list[str]]:
    libraries = [entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    return {
        landlock.READ: [*_SYSTEM, *libraries, *reads],
        landlock.READ | landlock.EXECUTE: [*programs],
        landlock.READ | landlock.WRITE_FILE: ["/dev/null"],
        landlock.WRITE: [*map(str, writes)],
    }


def _code() -> list[str]:
    """The interpreter and all that it may import; where pincite runs from its sources, its packages and not what
    else lies beside them."""
    installed = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    others = [entry for entry in module_path() if entry != ROOT or entry in installed]
    return [sys.prefix, sys.base_prefix, *others, *(os.path.join(ROOT, name) for name in _PACKAGES)]


def _loaders() -> list[str]:
    """Which every program is run by."""
    return [path for pattern in ("/lib/ld-*", "/lib64/ld-*", "/usr/lib/*/ld-linux-*") for path in glob.glob(pattern)]


def _limit() -> bool:
    try:
        for kind, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_FSIZE, FILE_BYTES),
            *_limit_of_tasks(),
        ):
            _lower(kind, most)
    except (OSError, ValueError):
        return False
    return True


def _limit_of_tasks() -> Iterator[tuple[int, int]]:
    with suppress(OSError, ValueError, IndexError):
        now = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
        yield resource.RLIMIT_NPROC, now + MOST_TASKS


def _lower(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (least, least))


def limit_memory(megabytes: int) -> None:
    """Let the address space grow by `megabytes` from what it is now; without end for 0."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        pages = GUESSED_BYTES // resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + megabytes * MEGABYTE if megabytes else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def holds() -> dict[str, bool]:
    """Which layers there are here: tried in a process of its own."""
    try:
        done = subprocess.run(
            child_command("resources.workers.sandbox"),
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        found = {}
    return {layer: found.get(layer) is True for layer in LAYERS}


def _starts_once() -> bool:
    """Return whether a process can be let start a program and no other after it: tried in a fork."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if give_up_privileges() and filter_calls_of_program() is not None else 1)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def shown(held: dict[str, bool]) -> str:
    """The layers in words, those that are missing by what they would do."""
    missing = [words for layer, words in LAYERS.items() if not held.get(layer)]
    if not missing:
        return "documents are read by processes without network and other files"
    return f"documents are read by processes of which this kernel does not ensure: {', '.join(missing)}"


if __name__ == "__main__":
    once = _starts_once()
    held = confine([])
    print(json.dumps({**held, "processes": held["processes"] and once}))
