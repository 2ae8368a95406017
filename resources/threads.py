"""Threads for calls that may hang, which do not delay the exit of the process.

An executor's threads are joined when the interpreter ends, so a hanging call would delay the exit.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any


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
        """Cancel the calls that have not begun. Wait `seconds` for those in progress, then abandon them."""
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
