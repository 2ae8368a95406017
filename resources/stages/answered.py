"""Documents that a language model is asked about, each with the replies to its prompts: as far ahead as it asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from pipelines.ports import LanguageModel, NoReply, Prompt, Reply, ReplyCheck

if TYPE_CHECKING:
    from resources.stages.by_worker import Given

T = TypeVar("T")
WINDOW = 256
"""Documents that are made ready for their prompts together."""
MOST_WAITING = 10_000
"""Documents that wait for replies, or in which prompts are looked for, before the first of them is handed back."""


def windows(given: Iterator[Given]) -> Iterator[list[Given]]:
    """Documents by WINDOW, however many works they are of. What was read of a work is let go of when none of the next
    are of it."""
    last: dict[int, Given] = {}
    while window := list(islice(given, WINDOW)):
        here = {each[0].shard: each for each in window}
        for shard in last.keys() - here.keys():
            last[shard][0].forget()
        last = here
        yield window
    for work, _ in last.values():
        work.forget()


@dataclass
class _Asked(Generic[T]):
    item: T
    wanted: int = 0
    whole: bool = False
    """Whether all of its prompts were taken."""
    said: list[Reply | NoReply] = field(default_factory=list)


def answered(
    model: LanguageModel, asked: Iterable[tuple[T, Iterable[Prompt]]], unusable: ReplyCheck
) -> Generator[tuple[T, list[Reply | NoReply]], None, None]:
    """Each of what is asked about with the replies to its prompts, in order. What waits for them is what the model has
    taken prompts of, and what stands between of which it is asked nothing."""
    coming, waiting, more = iter(asked), deque[_Asked[T]](), True

    def prompts() -> Iterator[Prompt]:
        nonlocal more
        while len(waiting) < MOST_WAITING:
            found = next(coming, None)
            if found is None:
                more = False
                return
            taken = _Asked(found[0])
            waiting.append(taken)
            for prompt in found[1]:
                taken.wanted += 1
                yield prompt
            taken.whole = True

    def whole() -> Iterator[tuple[T, list[Reply | NoReply]]]:
        while waiting and waiting[0].whole and len(waiting[0].said) == waiting[0].wanted:
            done = waiting.popleft()
            yield done.item, done.said

    while more:
        with closing(model.replies(prompts(), unusable)) as replies:
            for reply in replies:
                yield from whole()  # what it is asked nothing about
                waiting[0].said.append(reply)
                yield from whole()
        yield from whole()
        assert not waiting, f"{model.name} left prompts unanswered"
