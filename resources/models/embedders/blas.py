"""NumPy's products in one thread, where each is small.

Its threads share every product and wait for one another actively. Where another process takes one of the cores, each
product waits for the thread that lost its core: a question then takes ten times as long as one thread alone takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_LIMITED = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """While a thread is within it, products have one thread each in the whole process, since OpenBLAS knows no other
    limit. So one thread at a time is within it."""
    with _LIMITED, _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
