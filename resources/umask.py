"""Who else may read what this process makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
