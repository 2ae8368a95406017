"""Batches through a model, each by one thread: nothing waits for the slowest of several at every product.

Where another process takes one of the cores, threads that share each product stand still with the one that lost its
core; those that have a batch each go on. On free cores the gain is what the barriers cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def lanes_of(device: Any) -> int:
    """On a processor as many as torch would share a product among: its cores, or what OMP_NUM_THREADS says."""
    import torch

    return int(torch.get_num_threads()) if device.type == "cpu" else 1


def in_lanes(work: Callable[[T], R], batches: Sequence[T], lanes: int) -> Iterator[R]:
    """What `work` makes of each batch, in order. One batch alone has all threads. Whoever stops in the middle waits for
    the batches at hand only."""
    if lanes < 2 or len(batches) < 2:
        yield from map(work, batches)
        return
    with _pool(lanes) as pool:
        yield from pool.map(work, batches)


def in_one_lane(work: Callable[[], R]) -> R:
    """What `work` gives where it has one thread."""
    with _pool(1) as pool:
        return pool.submit(work).result()


@contextmanager
def _pool(lanes: int) -> Iterator[ThreadPoolExecutor]:
    import torch

    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(lanes, "lane", lambda: torch.set_num_threads(1))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        # A thread that is new takes what was set last, in whichever thread.
        torch.set_num_threads(threads)
