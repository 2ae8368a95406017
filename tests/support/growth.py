"""Measures of whether work costs in proportion to how much there is: by calls, or in seconds of the processor, again
where a machine that does other work may be why."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

MUCH = 0.1
"""Seconds of the processor from which the growth of a part is looked at."""
TIMES, REPETITIONS = 2.0**1.6, 3
"""By which the time of a part may grow where there is twice as much: n log n, what memory costs, and a machine that
does other work; and how often that is measured before it is believed."""


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, steps of generators and calls of built-in functions among them."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


class Parts:
    """The parts of some work, with the seconds of the processor that each takes in this thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        gc.disable()  # which looks through all that the tests hold, for the longer text and not for the shorter
        try:
            begun = time.thread_time()
            made = work()
            self.seconds[name] = time.thread_time() - begun
        finally:
            gc.enable()
        return made


def assert_linear(measured: Callable[[int], Mapping[str, float]], shortest: int, doublings: int = 1) -> None:
    """`measured` gives the seconds that each part takes of so much; a part that much has and little has not does not
    count. A step is no growth: what is read in another way from some length on grows once, and not again where there
    is twice as much."""
    grown = _grown(measured, shortest, doublings) and _grown(measured, 2 * shortest, doublings)
    assert not grown, grown


def _grown(
    measured: Callable[[int], Mapping[str, float]], shortest: int, doublings: int
) -> list[tuple[str, float, float]]:
    longest = shortest << doublings
    before, now = dict(measured(shortest)), dict(measured(longest))

    def grown() -> list[str]:
        most = TIMES**doublings
        return [name for name, seconds in now.items() if seconds > max(MUCH, most * before.get(name, seconds))]

    for _ in range(REPETITIONS):
        if not grown():
            break
        before = {name: max(seconds, before.get(name, 0.0)) for name, seconds in measured(shortest).items()}
        now = {name: min(seconds, now.get(name, seconds)) for name, seconds in measured(longest).items()}
    return [(name, before[name], now[name]) for name in grown()]
