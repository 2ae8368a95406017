"""The operating system's view of processes: whether another one still runs, and our own file modes, memory and
garbage collection.
"""

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

# ---------------------------------------------------------------- other processes


GONE = "gone"


def process_of(pid: int) -> list[Any]:
    """Return the machine's name, a process's number, and its start time, which tells it from a later process of that
    number; `gone` if it no longer runs."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        began = GONE if found[0] in "ZX" else found[19]  # a zombie was killed, and nobody waits for it
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


OTHERS = 0o077
_wanted: list[int] = []
"""The user's own umask as first element, while another one holds."""


@contextmanager
def unshared() -> Iterator[None]:
    """Keep all files made within the block from other users. Every command runs so, since most may write into a
    state."""
    before = os.umask(OTHERS)
    _wanted.append(before)
    try:
        yield
    finally:
        _wanted.pop()
        os.umask(before)


@contextmanager
def for_the_user() -> Iterator[None]:
    """Give files made within the block, outside of a state and where the user said, the modes that the user wants."""
    held = os.umask(_wanted[0]) if _wanted else None
    try:
        yield
    finally:
        if held is not None:
            os.umask(held)


# ---------------------------------------------------------------- free memory


_ARENAS = -8
"""The number of the option M_ARENA_MAX in malloc.h."""


@cache
def _of_glibc(name: str) -> Any:
    """Return a function of glibc by name; None if the C library is another one."""
    return getattr(ctypes.CDLL(None), name, None)


def one_heap() -> None:
    """Make all threads of this process, and Arrow, take memory from one heap. Memory freed in a thread's own heap is
    kept there for good, a hundred MB at ten thousand documents. It is for a process of ours alone, before it has
    threads or imports pyarrow."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if set_option := _of_glibc("mallopt"):
        set_option(_ARENAS, 1)


def give_back() -> None:
    """Return free memory to the machine, for others such as the database that builds an index: allocators keep some
    hundreds of MB after a stage."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if trim := _of_glibc("malloc_trim"):
        trim(0)


# ---------------------------------------------------------------- slow imports


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch garbage collection off within the block. Imports leave little garbage, and looking for it takes a fifth
    of their time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
