"""Linux's Landlock, by its three system calls: what this process may open, run, dial and signal from now on.

It holds for the calling thread and for what that thread starts, so it is called before there are others. What a kernel
does not know is left out. The libraries on PyPI that do this are each a few months old and by one person.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Mapping

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, USE_DEVICE = 1 << 13, 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE | REFER
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | USE_DEVICE
_TCP = 0b11
"""To bind, to connect."""
_SCOPES = 0b11
"""Abstract sockets of, and signals to, processes that are not confined with this one."""


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Of the interface, from 1; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _ASK_VERSION))


def files_known(version: int) -> int:
    """All that the version can refuse of files."""
    return (1 << 13) - 1 | (version >= 2) * REFER | (version >= 3) * TRUNCATE | (version >= 5) * USE_DEVICE


def restrict(allowed: Mapping[int, Iterable[str]]) -> int:
    """Allows of files and folders only what is named, by right; of processes outside nothing; no TCP.

    Paths that are not there are left out. Returns the version that holds, 0 where none does. Needs no_new_privs."""
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
