"""resources/engine/work.py: how many documents there are to compute is known without a plan of every part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from pipelines.ranges import ALL_IDS
from resources.engine import Work, Works
from resources.engine.work import Ends

Parts = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 3)), max_size=8)
"""The kinds of parts: made before or not, how many documents are computed, and how many failed in the inputs."""


def works(parts: list[tuple[bool, int, int]], planned: list[int], settled: list[int]) -> Works:
    def plan(at: Ends) -> Work:
        number, _ = at
        planned.append(number)
        compute = dict.fromkeys(map(str, range(parts[number][1])))
        return cast(Work, SimpleNamespace(part=SimpleNamespace(bucket=number), compute=compute))

    most = {
        (number, ALL_IDS): None if before else count + failed for number, (before, count, failed) in enumerate(parts)
    }
    return Works(most, plan, lambda work: settled.append(work.part.bucket))


@given(Parts)
def test_only_parts_that_were_made_before_are_planned_to_count(parts: list[tuple[bool, int, int]]) -> None:
    planned: list[int] = []
    settled: list[int] = []
    found = works(parts, planned, settled)
    assert found.documents == sum(count + (0 if before else failed) for before, count, failed in parts)
    assert planned == [number for number, (before, _, _) in enumerate(parts) if before]
    assert settled == [number for number in planned if not parts[number][1]]


@given(Parts, st.integers(1, 3))
def test_the_document_count_becomes_exact_and_is_never_too_low(parts: list[tuple[bool, int, int]], passes: int) -> None:
    settled: list[int] = []
    found, every = works(parts, [], settled), sum(count for _, count, _ in parts)
    told: list[int] = []
    for _ in range(passes):
        seen = []
        for work in found:
            seen.append(work.part.bucket)
            told.append(found.documents)
        assert seen == [number for number, (_, count, _) in enumerate(parts) if count]
    assert sorted(settled) == [number for number, (_, count, _) in enumerate(parts) if not count]
    assert told == sorted(told, reverse=True) and all(total >= every for total in told)
    assert found.documents == every
