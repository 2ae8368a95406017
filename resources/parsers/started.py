"""A bound on what a parser starts."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_CPU_SECONDS = 120


@contextmanager
def bounded() -> Iterator[None]:
    """What is started meanwhile ends by itself: a process that is stopped for its time cannot stop what it started."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    least = int(used.ru_utime + used.ru_stime) + _MOST_CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (least if hard == resource.RLIM_INFINITY else min(least, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
