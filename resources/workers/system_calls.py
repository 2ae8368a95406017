"""What a process that reads documents never asks of the kernel: a short seccomp filter, and no capabilities.

The filter refuses (EPERM) sockets, other processes' memory, descriptors and limits, rights and owners of files, mounts,
namespaces and the parts of the kernel through which most holes were found; all else goes on. It holds for all threads,
and for what they start.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys
from collections.abc import Iterator

from resources.workers.landlock import libc

_NO_NEW_PRIVILEGES, _DUMPABLE, _PARENT_DEATH_SIGNAL = 38, 4, 1
_CAPABILITIES_3 = 0x20080522
READ_ANY_FILE = 1 << 2
"""CAP_DAC_READ_SEARCH: who indexes as root indexes files of others."""
_MACHINES = {"x86_64": (0xC000003E, 317, 126), "aarch64": (0xC00000B7, 277, 91)}
"""The kernel's name of the machine, and its numbers of seccomp and capset."""
_SOCKET = {"x86_64": 41, "aarch64": 198}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_NAMESPACES, _THREAD = 0x7E020000, 0x00010000
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
_REFUSED = {
    "x86_64": (
        *(101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
        *(165, 166, 155, 161, 272, 308),  # mount, umount2, pivot_root, chroot, unshare, setns
        *(321, 298, 323, 319),  # bpf, perf_event_open, userfaultfd, memfd_create
        *(248, 249, 250, 303, 304, 135),  # add_key, request_key, keyctl, name_to_handle_at, open_by_..., personality
        322,  # execveat
        # Landlock leaves rights, owners, times and attributes of files as they are, and who watches them.
        *(90, 91, 268, 92, 93, 94, 260),  # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat
        *(132, 235, 261, 280, 188, 189, 190, 197, 198, 199),  # utime and its kind, setxattr, removexattr
        *(253, 294, 300),  # inotify_init, inotify_init1, fanotify_init
        *(29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240),  # shared memory, semaphores and queues of System V
    ),
    "aarch64": (
        *(117, 270, 271, 272),
        *(40, 39, 41, 51, 97, 268),
        *(280, 241, 282, 279),
        *(217, 218, 219, 264, 265, 92),
        281,
        *(52, 53, 54, 55),
        *(88, 5, 6, 7, 14, 15, 16),
        *(26, 262),
        *(*range(186, 198), 180),
    ),
}
_REFUSED_EVERYWHERE = (
    *(425, 426, 427),  # io_uring, which opens sockets without socket()
    *(428, 429, 430, 431, 432, 433, 442),  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
    *(438, 440),  # pidfd_getfd, process_madvise
    *(452, 463, 466),  # fchmodat2, setxattrat, removexattrat
)
_STARTING = {"x86_64": (57, 58, 59), "aarch64": (221,)}
"""fork, vfork, execve."""
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def end_with_parent() -> None:
    """The kernel kills this process when the thread that started it ends, also where no Python of it runs any more."""
    if sys.platform == "linux":
        libc().prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def give_up_privileges() -> bool:
    """No program that this process starts has more rights than it has (no_new_privs); it leaves no core."""
    if sys.platform != "linux":
        return False
    libc().prctl(_DUMPABLE, 0, 0, 0, 0)
    return bool(libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0)


def drop_capabilities() -> bool:
    """Of root nothing is left but to read files; of others nothing. After `give_up_privileges` none comes back."""
    machine = _MACHINES.get(os.uname().machine)
    if sys.platform != "linux" or machine is None:
        return False
    kept = READ_ANY_FILE if os.geteuid() == 0 else 0
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITIES_3, 0))
    sets = ctypes.create_string_buffer(struct.pack("=6I", kept, kept, 0, 0, 0, 0))
    done: bool = libc().syscall(ctypes.c_long(machine[2]), header, sets) == 0
    if not done and kept:  # a container's root may not have that one either
        sets = ctypes.create_string_buffer(struct.pack("=6I", *(0,) * 6))
        done = libc().syscall(ctypes.c_long(machine[2]), header, sets) == 0
    return done


def filter_calls(network: bool, programs: bool) -> bool:
    """Whether the filter holds; `programs` lets the process start others."""
    name = os.uname().machine
    if sys.platform != "linux" or name not in _MACHINES:
        return False
    steps = list(_steps(name, network, programs))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    all_threads, set_filter = 1, 1
    arguments = (ctypes.c_long(set_filter), ctypes.c_long(all_threads), program)
    return bool(libc().syscall(ctypes.c_long(_MACHINES[name][1]), *arguments) == 0)


def _steps(name: str, network: bool, programs: bool) -> Iterator[tuple[int, int, int, int]]:
    """Of a BPF program: code, how many steps to skip if so and if not, value."""
    refuse, allow = (_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)
    yield _LOAD, 0, 0, 4  # the machine: 32-bit calls have other numbers
    yield from ((_EQUAL, 1, 0, _MACHINES[name][0]), refuse)
    yield _LOAD, 0, 0, 0  # the call
    if name == "x86_64":
        yield from ((_AT_LEAST, 0, 1, _X32), refuse)
    numbers = [*_REFUSED[name], *_REFUSED_EVERYWHERE]
    numbers += [] if network else [_SOCKET[name]]
    numbers += [] if programs else _STARTING[name]
    for number in numbers:
        yield from ((_EQUAL, 0, 1, number), refuse)
    yield from ((_EQUAL, 0, 4, _PRLIMIT[name]), (_LOAD, 0, 0, 16))  # whose limits: only its own
    yield from ((_EQUAL, 1, 0, 0), refuse, allow)
    # Its flags lie in memory, which a filter cannot read; without it, clone is called instead.
    yield from ((_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS))
    yield from ((_EQUAL, 1, 0, _CLONE[name]), allow)
    yield _LOAD, 0, 0, 16  # its flags
    yield from ((_ANY_BIT, 0, 1, _NAMESPACES), refuse)
    if not programs:
        yield from ((_ANY_BIT, 1, 0, _THREAD), refuse)
    yield allow
