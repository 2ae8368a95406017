"""The memory of this process: one heap, the return of free memory, and imports that take less."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_ARENAS = -8
"""The number of the option M_ARENA_MAX in malloc.h."""


@cache
def _of_glibc(name: str) -> Any:
    """Return a function of glibc by name, or None if the C library is not glibc."""
    return getattr(ctypes.CDLL(None), name, None)


def one_heap() -> None:
    """Make all threads of this process, and Arrow, take memory from one heap. Memory freed in a thread's own heap would
    never be returned: a hundred MB at ten thousand documents. Call it only in a process of pincite, before it has
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
def without_collection() -> Iterator[None]:
    """Switch garbage collection off within the block. Imports leave little garbage, and collection takes a fifth of
    their time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def without_module(name: str) -> Iterator[None]:
    """Hide a module from all imports within the block, unless it is imported already: a library takes what it finds,
    such as torch for a second and 180 MB, also if nothing here needs it. Other code may import it later."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def arrow_without_pandas() -> None:
    """Keep pyarrow from importing pandas, where that is installed, until `to_pandas` is called.

    At its first array pyarrow imports pandas to see whether the values are a Series, which takes .4 s and 30 MB of a
    process. It looks once, so it is made to look while pandas is hidden, as soon as something imports pyarrow. Call
    this only in a process of pincite, since the Series of others would be read as plain sequences.
    """
    if "pyarrow" not in sys.modules and not any(isinstance(finder, _ArrowFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ArrowFinder())


class _ArrowFinder:
    """Finds pyarrow as Python would, and lets it look for pandas when it has been imported."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if name != "pyarrow":
            return None
        found = PathFinder.find_spec(name)
        if found is None or found.loader is None:
            return found
        run = found.loader.exec_module

        def run_and_look(module: Any) -> None:
            run(module)
            sys.meta_path.remove(self)
            if "pandas" in sys.modules:
                return
            sys.meta_path.insert(0, hidden := _Hidden("pandas"))
            try:
                module.array([])
            finally:
                sys.meta_path.remove(hidden)

        found.loader.exec_module = run_and_look  # type: ignore[method-assign]
        return found


class _Hidden:
    """Finds no module of one name. Compiled code takes a None in `sys.modules`, as `without_module` has it, for the
    module."""

    def __init__(self, hidden: str) -> None:
        self._hidden = hidden

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        if name == self._hidden:
            raise ModuleNotFoundError(f"no module named {name!r} is to be found now", name=name)
