"""Calls of endpoints whose time is over when a test says so, and never because the machine is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from resources.llm.endpoint import _Watch
from tests.support.waiting import HANG_SECONDS


@contextmanager
def time_over() -> Iterator[Callable[[int], None]]:
    """Within the block no call has a limit of its own; what is given ends the calls from this port of the asker."""
    watches: list[Any] = []
    begin = _Watch.__init__

    def begun(watch: Any, seconds: float, opened: list[Any]) -> None:
        begin(watch, HANG_SECONDS, opened)
        watches.append(watch)

    def over(port: int) -> None:
        ending = [watch for watch in watches if port in map(_port, watch._own or watch._opened)]
        for watch in ending:
            watch._end = 0.0
        for watch in ending:  # only now: an earlier call over the same connection is a match as well
            watch._hang_up()

    with mock.patch.object(_Watch, "__init__", begun):
        yield over


def _port(stream: Any) -> int:
    """The own port of a connection; -1 where it is closed."""
    try:
        return int(stream.get_extra_info("socket").getsockname()[1])
    except (OSError, AttributeError):
        return -1
