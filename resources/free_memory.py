"""Memory that is free and kept for the next time."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

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
