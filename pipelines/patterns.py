"""How long a regular expression of the settings may take, told before it is run.

Python's engine tries every way in which a pattern can take a text. Counted here are the ways that a text of LONGEST
characters can offer, at most: alternatives add up, what follows one another multiplies, and repeats of what itself
has several ways grow without bound. A possessive repeat or an atomic group keeps the first way that it finds.
"""

from __future__ import annotations

import re._constants as op
import re._parser as parser
from collections.abc import Iterable
from typing import Any

LONGEST = 120
"""Characters that a pattern of the settings is searched for in."""
MOST_STEPS = 20_000_000
_CAP = 10**12


def most_steps(pattern: str) -> int:
    """Steps that a search over LONGEST characters takes, at most. Raises re.error where it is no pattern."""
    return min(_CAP, LONGEST * _sequence(parser.parse(pattern))[1])


def _sequence(items: Iterable[tuple[Any, Any]]) -> tuple[int, int]:
    """Ways and steps of parts that follow one another."""
    ways, steps = 1, 1
    for code, value in items:
        own, taken = _part(code, value)
        steps = min(_CAP, steps + ways * taken)
        ways = min(_CAP, ways * own)
    return ways, steps


def _part(code: Any, value: Any) -> tuple[int, int]:
    if code is op.BRANCH:
        return _either(value[1])
    if code is op.SUBPATTERN:
        return _sequence(value[3])
    if code is op.GROUPREF_EXISTS:
        return _either(filter(None, value[1:]))
    if code in (op.ASSERT, op.ASSERT_NOT):
        return 1, _sequence(value[1])[1]
    if code is op.ATOMIC_GROUP:
        return 1, _sequence(value)[1]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return _repeated(int(value[0]), min(int(value[1]), LONGEST), *_sequence(value[2]), code is op.POSSESSIVE_REPEAT)
    return 1, LONGEST if code is op.GROUPREF else 1


def _either(branches: Iterable[Any]) -> tuple[int, int]:
    found = [_sequence(branch) for branch in branches]
    return min(_CAP, sum(ways for ways, _ in found)), min(_CAP, sum(steps for _, steps in found))


def _repeated(least: int, most: int, ways: int, steps: int, possessive: bool) -> tuple[int, int]:
    most = max(min(least, LONGEST), most)
    if possessive:
        return 1, min(_CAP, steps * most)
    if ways == 1:
        return most - min(least, most) + 1, min(_CAP, steps * most)
    total = sum(min(_CAP, ways**times) for times in range(min(most, 40) + 1))
    return min(_CAP, total), min(_CAP, steps * total)
