"""Memory that is free and kept for the next time."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """None where the C library is not glibc."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """Gives it back to the machine, where others, such as the database that builds an index, may need it now: of what
    a stage held, allocators keep some hundreds of MB."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if trim := _trim():
        trim(0)
