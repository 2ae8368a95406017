"""What is left to a process that reads documents: its own code, the files it was given, and nothing to talk to.

`confine` is called by the process itself, before it touches a document and before it starts a thread (Landlock and
capabilities belong to the thread). Every layer is used where the kernel has it and left out where not; `holds` says
which there are. Nothing of it can be taken back.
"""

from __future__ import annotations

import glob
import json
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from resources.child_process import child_command, child_environment, module_path
from resources.shipped import ROOT
from resources.workers import landlock
from resources.workers.system_calls import drop_capabilities, filter_calls, give_up_privileges

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
LAYERS = {
    "no_new_privileges": "no program gains rights",
    "capabilities": "rights of root are given up",
    "files": "only files that were given are read",
    "network": "no network",
    "signals": "no other process is signalled",
    "limits": "open files, file sizes and core dumps are limited",
}


def confine(
    reads: Sequence[Path], writes: Sequence[Path] = (), *, programs: Sequence[Path] = (), network: bool = False
) -> dict[str, bool]:
    """Leave this process its code, `reads`, `writes` (folders, or files that exist) and `programs`; which layers hold.

    The first folder of `writes` is its temporary one from now on. Where there are no programs, it can start no
    process at all."""
    if writes:
        tempfile.tempdir = os.environ["TMPDIR"] = str(writes[0])
    limits = _limit()
    privileges = give_up_privileges()
    version = landlock.restrict(_allowed(reads, writes, programs), network) if privileges else 0
    # The last: it would refuse nothing of the above, but what is refused is refused from here on.
    capabilities = drop_capabilities()
    calls = filter_calls(network, bool(programs)) if privileges else False
    return {
        "no_new_privileges": privileges,
        "capabilities": capabilities,
        "files": version >= 1,
        "network": calls and not network,
        "signals": version >= 6,
        "limits": limits,
    }


def _allowed(reads: Sequence[Path], writes: Sequence[Path], programs: Sequence[Path]) -> dict[int, list[str]]:
    libraries = [entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    models = [path for path in (os.environ.get("TESSDATA_PREFIX"),) if path]
    return {
        landlock.READ: [*_SYSTEM, *_code(), *libraries, *models, *map(str, reads)],
        landlock.READ | landlock.EXECUTE: [*map(str, programs), *(_loaders() if programs else ())],
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
        for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES)):
            _lower(kind, most)
        _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    except (OSError, ValueError):
        return False
    return True


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


def shown(held: dict[str, bool]) -> str:
    """The layers in words, those that are missing by what they would do."""
    missing = [words for layer, words in LAYERS.items() if not held.get(layer)]
    if not missing:
        return "documents are read by processes without network and other files"
    return f"documents are read by processes of which this kernel does not ensure: {', '.join(missing)}"


if __name__ == "__main__":
    print(json.dumps(confine([])))
