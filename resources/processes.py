"""Processes of this machine: whether one is there still, and file modes, memory and garbage collection of our own."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

# ---------------------------------------------------------------- processes
#
# Whether a process of this machine that somebody named is still there.


GONE = "gone"


def process_of(pid: int) -> list[Any]:
    """The machine, a process of this one, and when it began, so that another of that number is told from it; `gone`
    where there is none."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        began = GONE if found[0] in "ZX" else found[19]  # killed, and asked for by nobody
    except (OSError, IndexError):
        began = GONE if Path("/proc/self/stat").exists() or not _answers(pid) else "unknown"
    return [socket.gethostname(), pid, began]


def is_gone(pid: int) -> bool:
    return bool(process_of(pid)[2] == GONE)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# ---------------------------------------------------------------- umask
#
# Who else may read what this process makes.


OTHERS = 0o077
_wanted: list[int] = []
"""The user's own umask first, while another one holds."""


@contextmanager
def unshared() -> Iterator[None]:
    """While it lasts, what this process makes nobody else may read. Every command runs so, since most may write into
    a state."""
    before = os.umask(OTHERS)
    _wanted.append(before)
    try:
        yield
    finally:
        _wanted.pop()
        os.umask(before)


@contextmanager
def for_the_user() -> Iterator[None]:
    """While it lasts, what is made, outside of a state and where the user said, has the modes that the user wants."""
    held = os.umask(_wanted[0]) if _wanted else None
    try:
        yield
    finally:
        if held is not None:
            os.umask(held)


# ---------------------------------------------------------------- free memory
#
# Memory that is free and kept for the next time.


_ARENAS = -8
"""M_ARENA_MAX of malloc.h."""


@cache
def _of_glibc(name: str) -> Any:
    """None where the C library is another one."""
    return getattr(ctypes.CDLL(None), name, None)


def one_heap() -> None:
    """Has all threads of this process, and Arrow, take memory from one heap: what they free in heaps of their own is
    kept there for good, a hundred MB at ten thousand documents. For a process that is ours alone, before it has threads
    or imports pyarrow."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if set_option := _of_glibc("mallopt"):
        set_option(_ARENAS, 1)


def give_back() -> None:
    """Gives it back to the machine, where others, such as the database that builds an index, may need it now: of what
    a stage held, allocators keep some hundreds of MB."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if trim := _of_glibc("malloc_trim"):
        trim(0)


# ---------------------------------------------------------------- slow imports
#
# Imports that take seconds.


@contextmanager
def uncollected() -> Iterator[None]:
    """Imports make little that is garbage, and looking for it takes a fifth of their time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
