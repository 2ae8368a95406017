"""The confinement of a process that reads documents: it may only use its own code and its given files, without a
network or other programs.

The process itself calls `confine`, before it touches a document and before it starts a thread, since Landlock and
capabilities belong to threads. A process that will become a helper program calls `become`. Every layer that the kernel
supports is used; `holds` returns the supported layers. The confinement cannot be undone.

Landlock, by its three system calls, limits the files, programs, connections and signals of the process. The libraries
on PyPI for this are each a few months old and by one person. A seccomp filter allows listed system calls only. Others
fail with EPERM, or with ENOSYS if they are newer than the list, so that libraries use an older call. No call on the
list creates a process, runs a program, creates a socket that can connect, or refers to another process or its owner. A
call that could do so with some arguments is allowed only with others. The filter applies to all threads.
"""

from __future__ import annotations

import array
import ctypes
import errno
import glob
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from resources.child_process import ROOT, child_command, child_environment, module_path
from resources.programs import ERRORS, OUTPUT

# ---------------------------------------------------------------- landlock


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, USE_DEVICE = 1 << 13, 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE | REFER
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | USE_DEVICE
_TCP = 0b11
"""The permissions to bind and to connect."""
_SCOPES = 0b11
"""The scopes of abstract sockets and of signals: they refuse those of processes outside the confinement."""


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of Landlock's interface, from 1, or 0 if the kernel does not have it."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _ASK_VERSION))


def files_known(version: int) -> int:
    """Return all permissions on files that this version can refuse."""
    return (1 << 13) - 1 | (version >= 2) * REFER | (version >= 3) * TRUNCATE | (version >= 5) * USE_DEVICE


def restrict(allowed: Mapping[int, Iterable[str]]) -> int:
    """Allow the calling thread only these files and folders, by permission.

    Refuse TCP, and signals to processes outside. Missing paths are ignored. Return the version in effect, or 0 if the
    kernel lacks Landlock. Needs no_new_privs.
    """
    known = version()
    if not known:
        return 0
    handled = [files_known(known), 0 if known < 4 else _TCP, _SCOPES if known >= 6 else 0]
    attributes = (ctypes.c_uint64 * 3)(*handled)
    size = 8 * (1 if known < 4 else 2 if known < 6 else 3)
    rules = _call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    if rules < 0:
        return 0
    try:
        for rights, paths in allowed.items():
            for path in paths:
                _allow(rules, path, rights & handled[0])
        return known if _call(_RESTRICT_SELF, rules, 0) == 0 else 0
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        # The kernel's struct is packed: eight bytes of rights, four of the descriptor.
        beneath = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
        _call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.c_char_p(beneath), 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    whole = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(libc().syscall(ctypes.c_long(number), *whole))


# ---------------------------------------------------------------- system calls


READ_ANY_FILE = 1 << 2
"""The capability CAP_DAC_READ_SEARCH, as a bit: it lets root index files of other users."""

_ALLOWED = """
read 0 63, write 1 64, close 3 57, fstat 5 80, lseek 8 62, mmap 9 222, mprotect 10 226, munmap 11 215, brk 12 214,
mremap 25 216, madvise 28 233, msync 26 227, futex 202 98, rt_sigaction 13 134, rt_sigprocmask 14 135,
rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132,
restart_syscall 219 128, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, preadv 295 69, pwritev 296 70,
preadv2 327 286, pwritev2 328 287, open 2 -, openat 257 56, openat2 437 437, creat 85 -, stat 4 -, lstat 6 -,
newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78,
getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50, statfs 137 43, fstatfs 138 44, rename 82 -,
renameat 264 38, renameat2 316 276, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, link 86 -,
linkat 265 37, symlink 88 -, symlinkat 266 36, truncate 76 45, ftruncate 77 46, fallocate 285 47, fadvise64 221 223,
fsync 74 82, fdatasync 75 83, flock 73 32, sendfile 40 71, copy_file_range 326 285, umask 95 166, dup 32 23, dup2 33 -,
dup3 292 24, close_range 436 436, pipe 22 -, pipe2 293 59, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72,
epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441,
eventfd 284 -, eventfd2 290 19, nanosleep 35 101,
gettimeofday 96 169, time 201 -, times 100 153, getitimer 36 102, setitimer 38 103, alarm 37 -, pause 34 -,
timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109, timer_delete 226 111,
timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, getpid 39 172, getppid 110 173, gettid 186 178,
getpgrp 111 -, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148,
getresgid 120 150, uname 63 160, sysinfo 99 179, getrlimit 97 163, setrlimit 160 164, getrusage 98 165, getcpu 309 168,
getrandom 318 278, sched_yield 24 124, sched_getaffinity 204 123, sched_get_priority_max 146 125,
sched_get_priority_min 147 126, get_mempolicy 239 236, membarrier 324 283, rseq 334 293, set_tid_address 218 96,
set_robust_list 273 99, arch_prctl 158 -, futex_waitv 449 449, futex_wake 454 454, futex_wait 455 455,
futex_requeue 456 456, mseal 462 462, map_shadow_stack 453 453, wait4 61 260, waitid 247 95, exit 60 93,
exit_group 231 94, sendto 44 206, recvfrom 45 207, shutdown 48 210
"""
"""Names of calls, with their numbers on x86_64 and aarch64. Frequent calls come first, since the filter tests them in
order."""
_ON_CLOCKS = "clock_gettime 228 113, clock_nanosleep 230 115, clock_getres 229 114, timer_create 222 107"
"""Calls on a clock, which may be another process's processor time, selected by its id."""
_CLOCKS, _OWN_CLOCKS = 16, 0xFFFFFFF8
"""The first clock number after the system's clocks, and the first one of the clocks of the calling process."""
_NEWEST = 469
"""The newest call that was known when the list was made. Newer ones fail with ENOSYS."""


class _Machine(NamedTuple):
    """A machine architecture, by the kernel's number, and the numbers of system calls there."""

    name: int
    seccomp: int
    capset: int
    clone: int
    prctl: int
    prlimit: int
    kill: int
    tgkill: int
    fcntl: int
    ioctl: int
    execve: int
    sendmsg: int
    socketpair: int


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, 126, 56, 157, 302, 62, 234, 72, 16, 59, 46, 53),
    "aarch64": _Machine(0xC00000B7, 277, 91, 220, 167, 261, 129, 131, 25, 29, 221, 211, 199),
}
_CLONE3 = 435
_X32 = 0x40000000
_NAMESPACES, _THREAD = 0x7E020000, 0x00010000

_DUMPABLE, _NO_NEW_PRIVILEGES = 4, 38
_OPTIONS = (2, 3, 15, 16, 21, 23, 30, 39, 41, 42, 0x53564D41)
"""Allowed prctl options: read settings of this process, name its threads and mappings, huge pages. The option for the
signal that ends a worker with its parent is not among them."""
_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1024 + 6, 1024 + 7, 1024 + 8, 1024 + 10)
"""Allowed fcntl commands: duplicate, flags, locks, sizes of pipes, reading seals. The command that names a process to
signal is not among them."""
_CONTROLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Allowed ioctl requests: terminal test, window size, number of readable bytes, flags of a descriptor."""

_UNIX, _STREAMS = 1, tuple(1 | flags for flags in (0, 0x800, 0x80000, 0x80800))
"""Pairs of connected stream sockets, with which threads wake each other. A datagram socket could send to any
address."""

_SET_FILTER, _ACTION_AVAILABLE = 1, 2
_ALL_THREADS, _LISTENER = 1, 8
_LOAD, _EQUAL, _AT_LEAST, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x06
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_FIRST_ARGUMENT, _SECOND_ARGUMENT = 16, 24
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
"""The ioctl numbers SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND."""
_CONTINUE = 1
_CAPABILITIES_3 = 0x20080522
_Step = tuple[int, int, int, int]


def _machine() -> _Machine | None:
    return _MACHINES.get(os.uname().machine) if sys.platform == "linux" else None


def give_up_privileges() -> bool:
    """Set no_new_privs, so that no program started by this process gets more permissions. Also disable core dumps."""
    if sys.platform != "linux":
        return False
    libc().prctl(_DUMPABLE, 0, 0, 0, 0)
    return bool(libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0)


def drop_capabilities() -> bool:
    """Drop all capabilities, except reading any file for root. After `give_up_privileges` they cannot be regained."""
    machine = _machine()
    if machine is None:
        return False
    kept = READ_ANY_FILE if os.geteuid() == 0 else 0
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITIES_3, 0))
    sets = ctypes.create_string_buffer(struct.pack("=6I", kept, kept, 0, 0, 0, 0))
    done: bool = libc().syscall(ctypes.c_long(machine.capset), header, sets) == 0
    if not done and kept:  # a container's root may lack this capability
        sets = ctypes.create_string_buffer(struct.pack("=6I", *(0,) * 6))
        done = libc().syscall(ctypes.c_long(machine.capset), header, sets) == 0
    return done


def filter_calls() -> bool:
    """Refuse every unlisted call in all threads of this process. Return whether the filter is in effect."""
    machine = _machine()
    return machine is not None and _install(machine, None, _ALL_THREADS) == 0


# ---------------------------------------------------------------- a helper program


def filter_calls_of_program() -> int | None:
    """Install the filter of `filter_calls` in a process that will become a program; the kernel asks the starter about
    this one start.

    Return the descriptor on which the starter answers once (`let_become`); afterwards no program can be started. Return
    None if the kernel cannot ask: then the program may start others. The process must have one thread.
    """
    machine = _machine()
    if machine is None:
        return None
    if can_ask():
        descriptor = _install(machine, _NOTIFY, _LISTENER)
        if descriptor >= 0:
            return descriptor
    _install(machine, _ALLOW, _ALL_THREADS)
    return None


def can_ask() -> bool:
    """Say whether the kernel lets a process ask another one about a system call, and accepts the answer "continue"."""
    machine = _machine()
    if machine is None:
        return False
    release = [int("0" + "".join(filter(str.isdigit, part))) for part in os.uname().release.split(".")[:2]]
    action = ctypes.c_uint32(_NOTIFY)
    known = libc().syscall(ctypes.c_long(machine.seccomp), ctypes.c_long(_ACTION_AVAILABLE), 0, ctypes.byref(action))
    return release >= [5, 5] and bool(known == 0)


def hand_over(listener: int | None, starter: socket.socket) -> None:
    """Give the descriptor of `filter_calls_of_program` to the starter."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))] if listener is not None else []
    starter.sendmsg([b"x"], rights)


def let_become(listener: int, seconds: float) -> None:
    """Let the process at the other end become its program. Raise OSError if it does not ask within `seconds`. The
    caller must then close the descriptor, so that every further question fails."""
    import fcntl

    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    if not any(event & select.POLLIN for _, event in waiting.poll(seconds * 1000)):
        raise TimeoutError
    asked = bytearray(80)
    fcntl.ioctl(listener, _RECEIVE, asked)
    (number,) = struct.unpack_from("=Q", asked)
    fcntl.ioctl(listener, _SEND, bytearray(struct.pack("=QqiI", number, 0, 0, _CONTINUE)))


# ---------------------------------------------------------------- the filter


def _install(machine: _Machine, become: int | None, flags: int) -> int:
    """Install the filter. Return a descriptor or 0, or -1 if it failed."""
    steps = list(_steps(machine, become))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    arguments = (ctypes.c_long(_SET_FILTER), ctypes.c_long(flags), program)
    return int(libc().syscall(ctypes.c_long(machine.seccomp), *arguments))


def _numbers(machine: _Machine, calls: str) -> Iterator[int]:
    column = 1 if machine is _MACHINES["x86_64"] else 2
    for entry in calls.split(","):
        number = entry.split()[column]
        if number != "-":
            yield int(number)


def _steps(machine: _Machine, become: int | None) -> Iterator[_Step]:
    """Yield the steps of a BPF program: code, steps to skip if true and if false, value. `become` is the action for
    execve."""
    refuse, allow = _answer(_ERRNO | errno.EPERM), _answer(_ALLOW)
    unknown = _answer(_ERRNO | errno.ENOSYS)
    yield _LOAD, 0, 0, 4  # the machine: 32-bit calls have other numbers
    yield from ((_EQUAL, 1, 0, machine.name), refuse)
    yield _LOAD, 0, 0, 0  # the call
    if machine is _MACHINES["x86_64"]:
        yield from ((_AT_LEAST, 0, 1, _X32), refuse)
    for number in _numbers(machine, _ALLOWED):
        yield from ((_EQUAL, 0, 1, number), allow)
    for number in _numbers(machine, _ON_CLOCKS):
        yield from ((_EQUAL, 0, 5, number), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_AT_LEAST, 2, 0, _OWN_CLOCKS))
        yield from ((_AT_LEAST, 0, 1, _CLOCKS), refuse, allow)
    if become is not None:
        yield from ((_EQUAL, 0, 1, machine.execve), _answer(become))
        yield from ((_EQUAL, 0, 1, machine.sendmsg), allow)  # for `hand_over`; the program has no socket
    own = (os.getpid(),)
    yield from _only(machine.prctl, _FIRST_ARGUMENT, _OPTIONS)
    yield from _only(machine.prlimit, _FIRST_ARGUMENT, (0,))  # this process
    yield from _only(machine.kill, _FIRST_ARGUMENT, own)
    yield from _only(machine.tgkill, _FIRST_ARGUMENT, own)
    yield from _only(machine.fcntl, _SECOND_ARGUMENT, _COMMANDS)
    yield from _only(machine.ioctl, _SECOND_ARGUMENT, _CONTROLS)
    yield from ((_EQUAL, 0, 3, machine.socketpair), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUAL, 1, 0, _UNIX), refuse)
    yield _LOAD, 0, 0, 0
    yield from _only(machine.socketpair, _SECOND_ARGUMENT, _STREAMS)
    # The flags of clone3 lie in memory, which a filter cannot read. It fails with ENOSYS, so clone is called instead.
    yield from ((_EQUAL, 0, 1, _CLONE3), unknown)
    yield from ((_EQUAL, 0, 5, machine.clone), (_LOAD, 0, 0, _FIRST_ARGUMENT))
    yield from ((_ANY_BIT, 2, 0, _NAMESPACES), (_ANY_BIT, 0, 1, _THREAD), allow, refuse)
    yield from ((_ABOVE, 0, 1, _NEWEST), unknown)
    yield refuse


def _answer(action: int) -> _Step:
    return _RETURN, 0, 0, action


def _only(number: int, argument: int, values: Sequence[int]) -> Iterator[_Step]:
    """Allow a call only with these values of an argument. Only the lower half is compared, since the kernel uses only
    that."""
    yield from ((_EQUAL, 0, 2 + 2 * len(values), number), (_LOAD, 0, 0, argument))
    for value in values:
        yield from ((_EQUAL, 0, 1, value), _answer(_ALLOW))
    yield _answer(_ERRNO | errno.EPERM)


# ---------------------------------------------------------------- sandbox


_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/nix/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/fonts", "/etc/localtime", "/etc/mime.types"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/sys/vm"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage"),
    *("/dev/urandom", "/dev/random", "/dev/zero"),
)
"""Paths that libraries read. Everything else in /etc and /proc is refused, since passwords, keys and other processes
are there."""
_PACKAGES = ("pincite", "assets", "resources", "pipelines", "sql", "prompts")
OPEN_FILES = 1024
FILE_BYTES = 1 << 30
MEGABYTE = 1 << 20
GUESSED_BYTES = 1 << 30
"""Bytes of address space that a process is assumed to use if the system does not say."""
_PROBE_SECONDS = 30.0
MOST_TASKS = 4096
"""Most new processes and threads, in addition to all existing ones, until a worker is refused another one. The kernel
counts the tasks of a user, but not those of root."""
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
    """Confine this process to its code, `reads` and `writes` (folders, or files that exist). Return the layers in
    effect.

    The first folder of `writes` becomes its temporary folder. It cannot start a process or run a program.
    """
    if writes:
        tempfile.tempdir = os.environ["TMPDIR"] = str(writes[0])
    limits = _limit()
    privileges = give_up_privileges()
    version = restrict(_allowed_calls([*_code(), *map(str, reads)], writes)) if privileges else 0
    # The filter comes last: every call that it does not allow fails from then on.
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
    """Become a program that may read `reads` and a worker's folder `writes`, and works in an inner folder.

    The program is confined like a worker, and cannot start others. The process at the other end of `starter` must allow
    this one start: it gets the descriptor of `filter_calls_of_program` and answers once. With `code` the program may
    read pincite's code and the interpreter's. Raise OSError if it cannot be started.
    """
    _limit()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit it
        signal.signal(ignored, signal.SIG_DFL)
    listener = None
    privileges = give_up_privileges()
    if privileges:
        restrict(_allowed_calls([*(_code() if code else ()), *reads], [writes], [command[0], *_loaders()]))
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


def _allowed_calls(reads: Sequence[str], writes: Sequence[Path], programs: Sequence[str] = ()) -> dict[int, list[str]]:
    libraries = [entry for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    return {
        READ: [*_SYSTEM, *libraries, *reads],
        READ | EXECUTE: [*programs],
        READ | WRITE_FILE: ["/dev/null"],
        WRITE: [*map(str, writes)],
    }


def _code() -> list[str]:
    """Return the paths of the interpreter and of everything that it may import. If pincite runs from its sources, only
    its packages are included."""
    installed = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    others = [entry for entry in module_path() if entry != ROOT or entry in installed]
    return [sys.prefix, sys.base_prefix, *others, *(os.path.join(ROOT, name) for name in _PACKAGES)]


def _loaders() -> list[str]:
    """Return the dynamic loaders, which run every program."""
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
    """Allow the address space to grow by `megabytes` from its current size; 0 means no limit but the
    one that this process was started with (`ulimit -v`)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        pages = GUESSED_BYTES // resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + megabytes * MEGABYTE if megabytes else hard
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def holds() -> dict[str, bool]:
    """Return the layers in effect on this machine, tested in a separate process."""
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
    """Say whether a process can start one program and no other after it, tested in a fork."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if give_up_privileges() and filter_calls_of_program() is not None else 1)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def layers_text(held: dict[str, bool]) -> str:
    """Return the layers in words. Missing layers are described by their protection."""
    missing = [words for layer, words in LAYERS.items() if not held.get(layer)]
    if not missing:
        return "documents are read by processes without network and other files"
    return f"documents are read by processes of which this kernel does not ensure: {', '.join(missing)}"


if __name__ == "__main__":
    once = _starts_once()
    held = confine([])
    print(json.dumps({**held, "processes": held["processes"] and once}))
