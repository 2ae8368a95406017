"""resources/engine/work.py: how many documents there are to compute is known without a plan of every shard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from resources.engine import Work, Works

Shards = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 3)), max_size=8)
"""Whether a shard was made before, how many of its documents are computed, and how many failed in its inputs."""


def works(shards: list[tuple[bool, int, int]], planned: list[int], settled: list[int]) -> Works:
    def plan(shard: int) -> Work:
        planned.append(shard)
        compute = dict.fromkeys(map(str, range(shards[shard][1])))
        return cast(Work, SimpleNamespace(part=SimpleNamespace(number=shard), compute=compute))

    most = {shard: None if before else count + failed for shard, (before, count, failed) in enumerate(shards)}
    return Works(most, plan, lambda work: settled.append(work.part.number))


@given(Shards)
def test_only_shards_that_were_made_before_are_planned_to_count(shards: list[tuple[bool, int, int]]) -> None:
    planned: list[int] = []
    settled: list[int] = []
    found = works(shards, planned, settled)
    assert found.documents == sum(count + (0 if before else failed) for before, count, failed in shards)
    assert planned == [shard for shard, (before, _, _) in enumerate(shards) if before]
    assert settled == [shard for shard in planned if not shards[shard][1]]


@given(Shards, st.integers(1, 3))
def test_what_is_counted_becomes_exact_and_is_never_too_little(
    shards: list[tuple[bool, int, int]], passes: int
) -> None:
    settled: list[int] = []
    found, every = works(shards, [], settled), sum(count for _, count, _ in shards)
    told: list[int] = []
    for _ in range(passes):
        seen = []
        for work in found:
            seen.append(work.part.number)
            told.append(found.documents)
        assert seen == [shard for shard, (_, count, _) in enumerate(shards) if count]
    assert sorted(settled) == [shard for shard, (_, count, _) in enumerate(shards) if not count]
    assert told == sorted(told, reverse=True) and all(total >= every for total in told)
    assert found.documents == every
