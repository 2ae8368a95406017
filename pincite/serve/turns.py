"""Turns of askers: how much is worked on at once, who waits, and who must come back.

A turn is taken on the event loop, before a thread is used, and each kind of work has its own threads: a slow kind
holds up no other. Turns alternate between askers and ignore the order of requests, so a queue of one asker makes
another asker wait for one of them at most. When the queue is full, the asker with the most waiting questions gives up
a place to somebody new.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from starlette.requests import ClientDisconnect, Request

from pincite.guard import counted_as
from pipelines.errors import PinciteError
from resources.search.reading import answered_within
from resources.threads import Workers

if TYPE_CHECKING:
    from pipelines.settings.serve import ServeSettings

T = TypeVar("T")
QUESTIONS_A_CORE = 2
FILES_AT_ONCE = 16
"""Files of documents that are sent at once; each may take some megabytes of memory until it is taken."""


class Busy(PinciteError):
    """The error that more work waits than the server takes, or that it has waited too long."""

    default_code = "busy"


class NotDrawn(Exception):
    """The sign that a picture has to be drawn, which is not allowed in this turn."""


async def _stays() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who asks for a turn. `left` returns when they are gone, after which nobody waits for the answer. `since`
    is the time of the loop when they asked, from which all turns of a request together are counted; None means now."""

    name: str
    left: Callable[[], Awaitable[None]] = _stays
    since: float | None = None

    def time_after(self, seconds: float) -> float:
        """Return the time of the loop at which these seconds are over."""
        return (asyncio.get_running_loop().time() if self.since is None else self.since) + seconds


def caller_of(request: Request) -> Caller:
    """Return who sent a request. Its body has to be read before."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    state = request.scope.setdefault("state", {})
    if (known := state.get("caller")) is not None:
        return cast(Caller, known)
    state["caller"] = made = Caller(counted_as(request), leave, asyncio.get_running_loop().time())
    return made


@dataclass(frozen=True, slots=True)
class Begun(Generic[T]):
    """Work that a thread does. `until` is the time of the loop when nobody waits for it any longer, None for never."""

    future: asyncio.Future[T]
    until: float | None

    async def result(self) -> T:
        """Return what the work returns. Raises what it raises, and PinciteError `timeout`."""
        try:
            async with asyncio.timeout_at(self.until):
                return await asyncio.shield(self.future)
        except TimeoutError:
            if self.future.done():
                return self.future.result()
            raise took_too_long() from None


def took_too_long() -> PinciteError:
    return PinciteError("this took longer than the server lets it (serve.seconds)", "timeout")


class Turns:
    """The turns of one kind of work: `at_once` are worked on and `waiting` wait, of which one asker has at most `each`
    and half. Work begins within half of `seconds`, or never; if it is `timed`, its caller waits for the rest of them.

    Everything except the work happens on the event loop."""

    def __init__(
        self, name: str, at_once: int, waiting: int, seconds: float, *, each: int | None = None, timed: bool = True
    ) -> None:
        self.name, self.at_once, self.waiting, self.seconds, self.timed = name, at_once, waiting, seconds, timed
        self._each = at_once if each is None else each
        self._running: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """The queues by asker; the asker who was given a turn last comes last."""
        self._threads = Workers(at_once, name)

    async def run(self, caller: Caller, work: Callable[[], T]) -> T:
        """Return what the work returns, done by a thread in the caller's turn.

        Raises Busy, ClientDisconnect if the caller left before the turn came, PinciteError `timeout`, and what the work
        raises."""
        begun = await self.begin(caller, work)
        return await begun.result()

    async def begin(self, caller: Caller, work: Callable[[], T]) -> Begun[T]:
        """Begin the work in the caller's turn, which lasts until it has ended, even if nobody waits for it. Raises as
        `run`."""
        until = caller.time_after(self.seconds) if self.timed else None
        await self.take(caller)
        return self.start(caller, work, until)

    def start(self, caller: Caller, work: Callable[[], T], until: float | None) -> Begun[T]:
        """Begin the work in a turn that the caller has."""
        loop = asyncio.get_running_loop()
        left = until - loop.time() if until is not None else None
        try:
            done = self._threads.submit(partial(answered_within, left, work))
        except BaseException:
            self.give_back(caller.name)
            raise
        done.add_done_callback(lambda _: on_loop(loop, partial(self.give_back, caller.name)))
        future = asyncio.wrap_future(done)
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody may be left to see it
        return Begun(future, until)

    def close(self) -> None:
        """Cancel what waits for a thread and end the threads; what runs is left alone."""
        self._threads.stop(0)

    # ------------------------------------------------------------ turns alone

    async def take(self, caller: Caller) -> None:
        """Wait for a turn, which is to be given back. Raises Busy, ClientDisconnect."""
        name = caller.name
        if self._running.total() < self.at_once and self._running[name] < self._each:
            self._running[name] += 1
            return
        most = min(self.seconds / 2, caller.time_after(self.seconds) - asyncio.get_running_loop().time())
        mine = self._queue(name)
        leaving = asyncio.ensure_future(caller.left())
        try:
            await asyncio.wait({mine, leaving}, timeout=max(most, 0.0), return_when=asyncio.FIRST_COMPLETED)
            if mine.done():
                mine.result()
                return
            if leaving.done():
                leaving.result()
                raise ClientDisconnect()
            raise Busy("no turn came in time; ask again in a few seconds")
        except BaseException:
            self._forget(name, mine)
            raise
        finally:
            if not leaving.cancel() and not leaving.cancelled():
                leaving.exception()  # seen, whatever came first

    def give_back(self, name: str) -> None:
        """End a turn of an asker; the next one in the queues gets it."""
        self._running[name] -= 1
        if not self._running[name]:
            del self._running[name]
        self._hand_out()

    # ------------------------------------------------------------ who waits

    def _queue(self, name: str) -> asyncio.Future[None]:
        """Return a future that is done when the turn comes. Raises Busy."""
        own = self._queues.get(name, ())
        if len(own) >= max(1, self.waiting // 2) or not self.waiting:
            raise self._full()
        if sum(map(len, self._queues.values())) >= self.waiting:
            largest = max(self._queues, key=lambda each: len(self._queues[each]))
            if len(self._queues[largest]) <= len(own) + 1:
                raise self._full()
            last = self._queues[largest].pop()
            if not self._queues[largest]:
                del self._queues[largest]
            last.set_exception(self._full())
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(name, deque()).append(mine)
        return mine

    def _next(self) -> str | None:
        """Return who gets a free turn: of those with fewest running, the one whose last turn is longest ago."""
        able = [name for name in self._queues if self._running[name] < self._each]
        return min(able, key=lambda name: self._running[name], default=None)

    def _hand_out(self) -> None:
        while self._running.total() < self.at_once and (name := self._next()) is not None:
            queue = self._queues.pop(name)
            mine = queue.popleft()
            if queue:
                self._queues[name] = queue  # behind all others
            self._running[name] += 1
            mine.set_result(None)

    def _forget(self, name: str, mine: asyncio.Future[None]) -> None:
        """Give up a place, or the turn that came meanwhile."""
        if mine.done():
            if mine.exception() is None:
                self.give_back(name)
            return
        queue = self._queues[name]
        queue.remove(mine)
        if not queue:
            del self._queues[name]
        mine.cancel()

    def _full(self) -> Busy:
        return Busy("too many ask at once; ask again in a few seconds")


def on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call a function on the loop, from any thread; or here if the loop has ended, and with it all who wait."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        call()


_searched: ContextVar[Callable[[], None]] = ContextVar("searched", default=lambda: None)


def note_searched() -> None:
    """Report that this thread has searched, and from here on only waits for a language model."""
    _searched.get()()


class SearchFirst:
    """The turns of work that searches and then waits for a language model. It holds a turn of `questions`, too, until
    it calls `searched`, so that no more searches run at once than there are turns of them."""

    def __init__(self, answers: Turns, questions: Turns) -> None:
        self._answers, self._questions = answers, questions

    async def run(self, caller: Caller, work: Callable[[], T]) -> T:
        """Return what the work returns, as `Turns.run`."""
        return await (await self.begin(caller, work)).result()

    async def begin(self, caller: Caller, work: Callable[[], T]) -> Begun[T]:
        """Begin the work, as `Turns.begin`."""
        await self._answers.take(caller)
        try:
            await self._questions.take(caller)
        except BaseException:
            self._answers.give_back(caller.name)
            raise
        loop, held = asyncio.get_running_loop(), [caller.name]

        def give_back() -> None:
            if held:
                self._questions.give_back(held.pop())

        def whole() -> T:
            token = _searched.set(partial(on_loop, loop, give_back))
            try:
                return work()
            finally:
                _searched.reset(token)
                on_loop(loop, give_back)

        try:
            return self._answers.start(caller, whole, None)
        except BaseException:
            give_back()
            raise


class Queues:
    """The turns of all kinds of work that a process does."""

    def __init__(self, settings: ServeSettings) -> None:
        at_once = settings.questions or QUESTIONS_A_CORE * len(os.sched_getaffinity(0))
        waiting, seconds = settings.waiting, settings.seconds
        self.questions = Turns("question", at_once, waiting, seconds)
        self.answers = Turns(
            "answer", settings.answers, waiting, seconds, each=settings.answers - settings.answers // 4, timed=False
        )
        """Turns for a language model. One asker leaves a quarter of them to others, since each may take minutes."""
        self.answers_after_search = SearchFirst(self.answers, self.questions)
        self.reading = Turns("reading", at_once, waiting, seconds)
        self.pictures = Turns("picture", 1, waiting, seconds)
        self.files = Turns("file", FILES_AT_ONCE, waiting, seconds, each=FILES_AT_ONCE // 4)

    def all(self) -> list[Turns]:
        return [self.questions, self.answers, self.reading, self.pictures, self.files]

    async def draw(self, caller: Caller, look: Callable[[bool], T]) -> T:
        """Return look(False), in a turn of reading, if the pictures that it needs are kept; else look(True), in a turn
        of drawing. Raises as `Turns.run`."""
        try:
            return await self.reading.run(caller, partial(look, False))
        except NotDrawn:
            return await self.pictures.run(caller, partial(look, True))

    def close(self) -> None:
        for turns in self.all():
            turns.close()
