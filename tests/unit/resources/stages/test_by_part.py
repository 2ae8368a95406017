"""resources/stages/in_worker.py: whatever order documents come back in, each work is handed back once, and whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from resources.stages.in_worker import Given, by_part


@dataclass
class Planned:
    """As much of a Work as is asked for."""

    number: int
    compute: Sequence[str]

    @property
    def part(self) -> Any:
        return self


class Parts:
    """Planned one at a time; `open` are those that were planned and not handed back yet, at most so far."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes, self.planned, self.back, self.open = sizes, 0, 0, 0

    def __iter__(self) -> Iterator[Planned]:
        for number, size in enumerate(self.sizes):
            self.planned += 1
            self.open = max(self.open, self.planned - self.back)
            yield Planned(number, [f"{number}.{at}" for at in range(size)])


def handed_back(parts: Parts, work: Any) -> list[tuple[int, dict[str, str]]]:
    found = []
    for back, outcome in by_part(cast(Any, parts), work):
        parts.back += 1
        found.append((cast(Any, back).part.number, outcome))
    return found


@given(st.lists(st.integers(1, 4), max_size=8), st.integers(1, 6), st.randoms(use_true_random=False))
def test_each_work_comes_back_once_and_whole(sizes: list[int], ahead: int, chance: Random) -> None:
    parts = Parts(sizes)

    def work(documents: Iterator[Given]) -> Iterator[tuple[str, str]]:
        taken: list[str] = []
        while True:
            taken += [doc_id for _, doc_id in islice(documents, ahead - len(taken))]
            if not taken:
                return
            doc_id = taken.pop(chance.randrange(len(taken)))
            yield doc_id, f"made of {doc_id}"

    found = handed_back(parts, work)
    assert sorted(number for number, _ in found) == list(range(len(sizes)))
    for number, outcome in found:
        assert list(outcome.items()) == [(f"{number}.{at}", f"made of {number}.{at}") for at in range(sizes[number])]
    assert parts.open <= ahead + 1


def test_a_document_that_takes_long_holds_up_its_own_part_only() -> None:
    parts = Parts([2] * 50)

    def work(documents: Iterator[Given]) -> Iterator[tuple[str, str]]:
        _, slow = next(documents)
        for _, doc_id in documents:
            yield doc_id, ""
        yield slow, ""

    found = handed_back(parts, work)
    assert [number for number, _ in found] == [*range(1, 50), 0]
    assert parts.open <= 3
