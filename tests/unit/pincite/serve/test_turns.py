"""Turns: who is next, who waits, who is told to come back, and when a turn ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from pincite.connections import OWNER
from pincite.guard import Asker
from pincite.serve.turns import Busy, Caller, NotDrawn, Queues, SearchFirst, Turns, caller_of, note_searched
from pipelines.errors import PinciteError
from pipelines.settings.serve import ServeSettings
from resources.search.reading import seconds_left
from tests.support.waiting import AT_ONCE_SECONDS

HOUR = 3600.0


def turns(at_once: int = 1, waiting: int = 100, seconds: float = HOUR, **more: Any) -> Turns:
    return Turns("test", at_once, waiting, seconds, **more)


async def rounds() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def asked(made: Turns, names: str, order: list[str]) -> list[asyncio.Task[None]]:
    """A task for each letter, in this order, that notes its turn and gives it back at once."""

    async def turn(name: str) -> None:
        await made.take(Caller(name))
        order.append(name)
        made.give_back(name)

    return [asyncio.ensure_future(turn(name)) for name in names]


def test_askers_are_served_by_turns_however_many_one_of_them_sends() -> None:
    async def run() -> None:
        made, order = turns(), list[str]()
        await made.take(Caller("a"))
        tasks = asked(made, "aaaaabbc", order)
        await rounds()
        assert not order
        made.give_back("a")
        await asyncio.gather(*tasks)
        assert order == list("abcabaaa")

    asyncio.run(run())


def test_who_has_fewest_at_work_is_next() -> None:
    async def run() -> None:
        made = turns(at_once=3)
        for _ in range(3):
            await made.take(Caller("a"))
        order: list[str] = []
        tasks = asked(made, "ab", order)
        await rounds()
        made.give_back("a")
        await asyncio.gather(*tasks)
        assert order == ["b", "a"]

    asyncio.run(run())


def test_an_asker_leaves_turns_to_others() -> None:
    async def run() -> None:
        made, order = turns(at_once=3, each=2), list[str]()
        for _ in range(2):
            await made.take(Caller("a"))
        own, other = asked(made, "a", order), asked(made, "b", order)
        await asyncio.gather(*other)
        assert order == ["b"], "there is a turn, and not for a third of one asker"
        made.give_back("a")
        await asyncio.gather(*own)

    asyncio.run(run())


async def outcome(waiting: Awaitable[None]) -> str:
    try:
        await waiting
    except Busy:
        return "busy"
    except ClientDisconnect:
        return "left"
    return "served"


def test_too_many_are_told_to_come_back_and_one_asker_has_half_of_the_places() -> None:
    async def run() -> None:
        made, order = turns(waiting=4), list[str]()
        await made.take(Caller("x"))
        tasks = asked(made, "aaab", order)
        await rounds()
        assert [task.done() for task in tasks] == [False, False, True, False]
        made.give_back("x")
        assert [await outcome(task) for task in tasks] == ["served", "served", "busy", "served"]

    asyncio.run(run())


def test_where_the_queue_is_full_somebody_new_has_the_last_place_of_who_has_most() -> None:
    async def run() -> None:
        made, order = turns(waiting=4), list[str]()
        await made.take(Caller("x"))
        tasks = asked(made, "aabbcc", order)
        await rounds()
        made.give_back("x")
        assert [await outcome(task) for task in tasks] == ["served", "busy", "served", "served", "served", "busy"]
        assert order == ["a", "b", "c", "b"]

    asyncio.run(run())


def test_nobody_waits_if_there_are_no_places_to_wait() -> None:
    async def run() -> None:
        made = turns(waiting=0)
        await made.take(Caller("a"))
        assert await outcome(made.take(Caller("b"))) == "busy"
        made.give_back("a")
        assert await outcome(made.take(Caller("b"))) == "served"

    asyncio.run(run())


def test_a_turn_that_does_not_come_is_not_waited_for() -> None:
    async def run() -> None:
        made = turns(seconds=AT_ONCE_SECONDS)
        await made.take(Caller("a"))
        assert await outcome(made.take(Caller("b"))) == "busy"
        made.give_back("a")
        assert not made._queues and not made._running

    asyncio.run(run())


@pytest.mark.parametrize("cancelled", [False, True])
def test_who_leaves_gives_up_the_place(cancelled: bool) -> None:
    async def run() -> None:
        made, left, order = turns(), asyncio.Event(), list[str]()
        await made.take(Caller("a"))

        async def leaves() -> None:
            await left.wait()

        waiting = asyncio.ensure_future(made.take(Caller("b", leaves)))
        others = asked(made, "c", order)
        await rounds()
        if cancelled:
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
        else:
            left.set()
            assert await outcome(waiting) == "left"
        assert "b" not in made._queues
        made.give_back("a")
        await asyncio.gather(*others)
        assert not made._running

    asyncio.run(run())


def test_a_turn_that_comes_as_its_caller_leaves_is_given_on() -> None:
    async def run() -> None:
        made, order = turns(), list[str]()
        await made.take(Caller("a"))
        waiting = asyncio.ensure_future(made.take(Caller("b")))
        others = asked(made, "c", order)
        await rounds()
        made.give_back("a")
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await asyncio.gather(*others)
        assert order == ["c"] and not made._running

    asyncio.run(run())


# ---------------------------------------------------------------- work


@contextmanager
def held() -> Iterator[tuple[Callable[[], str], threading.Event]]:
    """Work that ends when it is let."""
    free = threading.Event()

    def work() -> str:
        free.wait()
        return "done"

    try:
        yield work, free
    finally:
        free.set()


def test_no_work_reaches_a_thread_before_its_turn() -> None:
    async def run(work: Callable[[], str], free: threading.Event) -> None:
        made, begun = turns(at_once=2), list[int]()

        def counted() -> str:
            begun.append(1)
            return work()

        tasks = [asyncio.ensure_future(made.run(Caller(str(at)), counted)) for at in range(50)]
        await rounds()
        assert made._running.total() == 2 and len(made._threads._threads) == 2
        free.set()
        assert set(await asyncio.gather(*tasks)) == {"done"} and len(begun) == 50
        assert len(made._threads._threads) == 2
        made.close()

    with held() as (work, free):
        asyncio.run(run(work, free))


def test_a_turn_lasts_as_long_as_its_work_whoever_waits_for_it() -> None:
    async def run(work: Callable[[], str], free: threading.Event) -> None:
        made = turns(seconds=AT_ONCE_SECONDS)
        with pytest.raises(PinciteError) as caught:
            await made.run(Caller("a"), work)
        assert caught.value.code == "timeout"
        made.seconds = HOUR
        given_up = asyncio.ensure_future(made.run(Caller("b"), work))
        await rounds()
        assert made._running == {"a": 1}, "the thread has not ended"
        free.set()
        assert await given_up == "done"

    with held() as (work, free):
        asyncio.run(run(work, free))


def test_an_error_in_the_work_is_raised_and_its_turn_given_back() -> None:
    async def run() -> None:
        made = turns()
        for error in (ValueError("no"), TimeoutError("slow"), NotDrawn()):

            def fails(error: Exception = error) -> None:
                raise error

            with pytest.raises(type(error)):
                await made.run(Caller("a"), fails)
        assert await made.run(Caller("b"), lambda: 1) == 1

    asyncio.run(run())


def test_work_has_the_time_that_is_left() -> None:
    async def run() -> None:
        left = await turns().run(Caller("a"), lambda: seconds_left(2 * HOUR))
        assert left is not None and left <= HOUR
        assert await turns(timed=False).run(Caller("a"), lambda: seconds_left(20.0)) == 20.0

    asyncio.run(run())
    assert seconds_left(20.0) == 20.0


def test_all_turns_of_a_request_have_one_time() -> None:
    async def run(work: Callable[[], str], free: threading.Event) -> None:
        now = asyncio.get_running_loop().time()
        late = Caller("a", since=now - 9 * HOUR)
        made = turns(seconds=10 * HOUR)
        left = await made.run(late, lambda: seconds_left(20 * HOUR))
        assert left is not None and left <= HOUR
        await made.take(Caller("x"))
        assert await outcome(made.take(Caller("a", since=now - 10 * HOUR))) == "busy"
        with pytest.raises(PinciteError, match=r"serve\.seconds"):
            await turns(seconds=10 * HOUR).run(Caller("a", since=now - 10 * HOUR), work)

    with held() as (work, free):
        asyncio.run(run(work, free))


def test_pictures_that_are_kept_are_shown_while_others_are_drawn() -> None:
    async def run() -> None:
        made = Queues(ServeSettings())
        await made.pictures.take(Caller("a"))
        assert await made.draw(Caller("b"), lambda draw: f"kept {draw}") == "kept False"

        def drawn(draw: bool) -> str:
            if not draw:
                raise NotDrawn()
            return "drawn"

        waiting = asyncio.ensure_future(made.draw(Caller("b"), drawn))
        while not made.pictures._queues:
            await asyncio.sleep(0)
        made.pictures.give_back("a")
        assert await waiting == "drawn"
        made.close()

    asyncio.run(run())


def test_who_waits_for_a_language_model_holds_up_no_search() -> None:
    """But takes a turn of searching as long as it searches."""

    async def run(wait: Callable[[], str], free: threading.Event) -> None:
        questions, answers = turns(), turns(at_once=40, timed=False)
        both = SearchFirst(answers, questions)
        loop, model = asyncio.get_running_loop(), asyncio.Event()

        def work() -> str:
            assert questions._running.total() == 1
            note_searched()
            loop.call_soon_threadsafe(model.set)
            return wait()

        await questions.take(Caller("x"))
        waiting = [asyncio.ensure_future(both.run(Caller("a"), work)) for _ in range(40)]
        await rounds()
        assert answers._running.total() == 40 and not model.is_set()
        questions.give_back("x")
        await model.wait()
        for _ in range(3):
            assert await questions.run(Caller("b"), lambda: 1) == 1
        assert not any(each.done() for each in waiting)
        free.set()
        assert set(await asyncio.gather(*waiting)) == {"done"}
        await rounds()
        assert not questions._running and not answers._running

    with held() as (work, free):
        asyncio.run(run(work, free))


def test_an_answer_that_gets_no_turn_of_searching_gives_the_other_back() -> None:
    async def run() -> None:
        questions, answers = turns(waiting=0), turns()
        await questions.take(Caller("x"))
        with pytest.raises(Busy):
            await SearchFirst(answers, questions).run(Caller("a"), lambda: 1)
        assert not answers._running
        questions.give_back("x")
        for error in (ValueError(), None):

            def work(error: Exception | None = error) -> int:
                if error:
                    raise error
                return 1

            with suppress(ValueError):
                assert await SearchFirst(answers, questions).run(Caller("a"), work) == 1
            await rounds()
            assert not answers._running and not questions._running

    asyncio.run(run())


# ---------------------------------------------------------------- who asks


@pytest.mark.parametrize(
    ("state", "client", "name"),
    [
        ({"asker": Asker("ann")}, ("127.0.0.1", 5), "name ann"),
        ({"asker": Asker()}, ("127.0.0.9", 5), "address 127.0.0.9"),
        ({}, ("2001:db8::7", 5), "address 2001:db8::/64"),
        ({"asker": Asker("owner"), "owner": True}, None, OWNER),
        ({"asker": Asker(OWNER), "owner": False}, ("127.0.0.1", 5), f"name {OWNER}"),
    ],
)
def test_askers_are_told_apart_by_name_else_by_address(state: dict[str, Any], client: Any, name: str) -> None:
    async def run() -> None:
        request = Request({"type": "http", "state": state, "client": client})
        assert caller_of(request).name == name
        assert caller_of(request) is caller_of(request), "all turns of a request have one time"

    asyncio.run(run())


def test_a_caller_has_left_when_the_connection_has_ended() -> None:
    async def run() -> None:
        messages = [{"type": "http.request"}, {"type": "http.disconnect"}]

        async def receive() -> Any:
            return messages.pop(0)

        await caller_of(Request({"type": "http", "client": None}, receive)).left()
        assert not messages

    asyncio.run(run())
