"""Threads that work beside their caller: reading ahead, and calls that may hang without holding up the exit."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

# ---------------------------------------------------------------- read ahead


T = TypeVar("T")
K = TypeVar("K")

READERS = 2


def read_ahead(keys: Sequence[K], read: Callable[[K], Iterator[T]]) -> Iterator[T]:
    """Yield what `read` yields for each key, which must not be None.

    READERS threads take turns: each reads every READERS-th key, and one item ahead. If `read` yields one item for a
    key, the items come in the order of the keys."""

    def of_turn(first: int) -> Iterator[T]:
        for key in keys[first::READERS]:
            yield from read(key)

    with ThreadPoolExecutor(READERS) as readers:
        turns = deque((turn, readers.submit(next, turn, None)) for turn in map(of_turn, range(READERS)))
        while turns:
            turn, ahead = turns.popleft()
            if (found := ahead.result()) is not None:
                turns.append((turn, readers.submit(next, turn, None)))
                yield found


# ---------------------------------------------------------------- workers
#
# An executor's threads are joined when the interpreter ends, so a call that hangs would hold up the exit.


class Workers:
    """A pool of at most `most` daemon threads, started when there is work for them."""

    def __init__(self, most: int, name: str = "language model") -> None:
        self._most, self._name = most, name
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._futures: set[Future[Any]] = set()

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        self._work.put((future, function))
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def stop(self, seconds: float) -> None:
        """Cancel the calls that have not begun. Wait `seconds` for those that run, then leave them alone."""
        for _ in self._threads:
            self._work.put(None)
        running = list(self._futures)
        wait([future for future in running if not future.cancel()], seconds)

    def _run(self) -> None:
        while item := self._work.get():
            future, function = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
