"""resources/stages/enrichment.py: replies go to what they were asked for, and no more waits than a model asks ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from itertools import count, islice
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck
from resources.stages import enrichment as module
from resources.stages.enrichment import WINDOW, replies_by_document, windows


class Model:
    """Takes so many prompts ahead, and says them again."""

    name = "echo"

    def __init__(self, ahead: int, most: int | None = None) -> None:
        self.ahead, self.most, self.closed = ahead, most, False

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply | NoReply, None, None]:
        coming, waiting = iter(prompts), deque[Prompt]()
        try:
            for number in count():
                waiting.extend(islice(coming, self.ahead - len(waiting)))
                if not waiting:
                    return
                if number == self.most:
                    raise ConnectionError
                yield Reply(waiting.popleft().user)
        finally:
            self.closed = True


def asked(sizes: list[int], taken: list[int]) -> Iterator[tuple[int, Iterator[Prompt]]]:
    for item, size in enumerate(sizes):
        taken.append(item)
        yield item, (Prompt("", f"{item}.{at}", 1) for at in range(size))


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 7))
def test_each_has_its_own_replies_in_order(sizes: list[int], ahead: int) -> None:
    taken: list[int] = []
    back = 0
    for item, replies in replies_by_document(Model(ahead), asked(sizes, taken), lambda reply: None):
        assert item == back
        assert [cast(Reply, reply).text for reply in replies] == [f"{item}.{at}" for at in range(sizes[item])]
        assert sum(sizes[back : len(taken)]) <= ahead + 2 * max(sizes)
        back += 1
    assert back == len(sizes)


def test_documents_without_questions_are_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture in every hundredth document, say."""
    monkeypatch.setattr(module, "MOST_WAITING", 50)
    taken: list[int] = []
    sizes = [int(number % 100 == 70) for number in range(1000)]
    waited = []
    for item, replies in replies_by_document(Model(8), asked(sizes, taken), lambda reply: None):
        assert len(replies) == sizes[item]
        waited.append(len(taken) - item)
    assert len(waited) == 1000 and max(waited) == 50


def test_a_model_is_left_when_nobody_wants_more() -> None:
    model, taken = Model(2), list[int]()
    found = replies_by_document(model, asked([1] * 9, taken), lambda reply: None)
    assert next(found)[0] == 0
    found.close()
    assert model.closed and len(taken) <= 3


def test_an_error_of_a_model_comes_through() -> None:
    found = replies_by_document(Model(2, most=3), asked([1] * 9, []), lambda reply: None)
    with pytest.raises(ConnectionError):
        list(found)


class Work:
    def __init__(self, number: int) -> None:
        self.number, self.part, self.read = number, SimpleNamespace(first=str(number)), True

    def forget(self) -> None:
        self.read = False


def test_data_read_for_a_work_is_released_when_others_follow() -> None:
    works = [Work(number) for number in range(5)]
    given = ((work, f"{work.number}.{at}") for work in works for at in range(WINDOW))
    held, documents = [], 0
    for window in windows(cast(Any, given)):
        documents += len(window)
        held.append(sum(work.read for work in works[: int(window[-1][0].part.first) + 1]))
    assert (documents, held) == (5 * WINDOW, [1] * 5)
    assert not any(work.read for work in works)
