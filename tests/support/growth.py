"""Counts of steps that show whether work grows in proportion to its input, the same on every machine.

A step is a line of Python, each round of a loop on one line, or a call of a built-in function. A method that goes
through all of a text or list counts for its length too. The steps of a pattern are not seen here:
`tests/unit/test_patterns.py` counts those of every pattern.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import FrameType
from typing import Any

MUCH = 20_000
"""Steps from which the growth of a part is looked at: a fixed cost of some thousand does not hide or feign growth."""
TIMES = 2.0**1.6
"""Factor by which the steps of a part may grow where there is twice as much: n log n, and some more."""
TRIES = 3
"""Doublings in a row that a part must grow too much at: what grows by a step may do so once, and then be cut."""
PLENTY = 1_000_000
"""Steps of a part from which a short text shows its growth as well as a long one, for which they would take minutes."""
_A_STEP = 256
"""Characters or items that a built-in method goes through in about the time of a step."""
_WHOLE = frozenset({
    "casefold", "copy", "encode", "insert", "lower", "lstrip", "partition", "remove", "replace", "rpartition", "rsplit",
    "rstrip", "split", "splitlines", "strip", "title", "translate", "upper",
})  # fmt: skip
"""Methods that go through all of what they are called of, or copy it. Those that may be given a place to begin at, as
`find`, are not: how far they go is not seen."""


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


_settled: set[str] = set()
"""The parts whose growth `assert_linear` knows by now. They are not counted any more: counting is most of the work."""


class Parts:
    """The parts of some work, with the steps that each takes in this thread."""

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}

    def counted(self, name: str, work: Callable[[], Any]) -> Any:
        if name in _settled:
            return work()
        count = 0

        def line(frame: FrameType, event: str, _: object) -> Any:
            nonlocal count
            count += 1
            return line

        def call(frame: FrameType, event: str, called: Any) -> None:
            nonlocal count
            if event == "c_call":
                count += 1
                if called.__name__ in _WHOLE and isinstance(called.__self__, (str, bytes, bytearray, list)):
                    count += len(called.__self__) // _A_STEP

        before = sys.gettrace(), sys.getprofile()
        sys.setprofile(call)
        sys.settrace(line)
        try:
            return work()
        finally:
            sys.settrace(before[0])
            sys.setprofile(before[1])
            self.steps[name] = count


def assert_linear(
    counted: Callable[[int], Mapping[str, int]],
    shortest: int,
    doublings: int = 1,
    times: float = TIMES,
    much: int | None = None,
) -> None:
    """`counted` gives the steps that each part takes of so much; a part that much has and little has not does not
    count. A step is no growth: a part that is read in another way from some length on grows once or twice, and not at
    each of `TRIES` doublings. `times` and `much` stand in for `TIMES` and `MUCH`."""
    most, much = times**doublings, MUCH if much is None else much
    steps = cache(counted)  # what a text has been counted for once may be remembered of it
    little = max(1, shortest // 4)
    counted(little // 2)  # what is made once and kept is made
    try:
        dear = {name for name, count in steps(little).items() if count >= PLENTY}
        _settled.update(dear - _grown(steps, little, doublings, most, much).keys() if dear else ())
        grown: dict[str, list[tuple[int, int]]] = {}
        for longer in range(TRIES):
            found = _grown(steps, shortest << longer, doublings, most, much)
            grown = {name: [*grown.get(name, []), found[name]] for name in found if longer == 0 or name in grown}
            if not grown:
                return
            _settled.update(steps(shortest).keys() - grown.keys())
        raise AssertionError(f"steps before and after each doubling: {grown}")
    finally:
        _settled.clear()


def _grown(
    counted: Callable[[int], Mapping[str, int]], shortest: int, doublings: int, most: float, much: int
) -> dict[str, tuple[int, int]]:
    """Return the steps before and after of each part that grew by more than it may."""
    before, now = counted(shortest), counted(shortest << doublings)
    return {
        name: (before[name], steps)
        for name, steps in now.items()
        if name in before and steps > max(much, most * before[name])
    }
