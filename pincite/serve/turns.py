"""The turns of askers: the amount of work in progress, the waiting askers, and those who must try again later.

A turn is taken on the event loop, before a thread is used, and each kind of work has its own threads, so a slow kind
does not delay others. Turns alternate between askers regardless of the order of requests, so an asker waits for at most
one request of another asker's queue. When the queue is full, the asker with the most waiting requests loses one to a
new asker.
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
"""Most files of documents that are sent at once; each may use some megabytes of memory until the client has read it."""


class Busy(PinciteError):
    """The error that too much work is waiting, or that a request has waited too long."""

    default_code = "busy"


class NotDrawn(Exception):
    """The signal that a picture must be drawn, which is not allowed in this turn."""


async def _stays() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `left` returns when the sender has disconnected and no longer waits. `since` is the loop
    time of the request, from which the time of all its turns is counted; None means now."""

    name: str
    left: Callable[[], Awaitable[None]] = _stays
    since: float | None = None

    def time_after(self, seconds: float) -> float:
        """Return the loop time after these seconds."""
        return (asyncio.get_running_loop().time() if self.since is None else self.since) + seconds


def caller_of(request: Request) -> Caller:
    """Return the sender of a request. Its body must be read first."""

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
    """Work in a thread. `until` is the loop time after which nobody waits for the result, or None."""

    future: asyncio.Future[T]
    until: float | None

    async def result(self) -> T:
        """Return the result of the work. Raises the errors of the work, and PinciteError `timeout`."""
        try:
            async with asyncio.timeout_at(self.until):
                return await asyncio.shield(self.future)
        except TimeoutError:
            if self.future.done():
                return self.future.result()
            raise took_too_long() from None


def took_too_long() -> PinciteError:
    return PinciteError("the answer took longer than serve.seconds allows; ask with fewer words or a filter", "timeout")


class Turns:
    """The turns of one kind of work.

    At most `at_once` requests are in progress and `waiting` are queued; one asker may have at most `each` of the former
    and half of the latter. Work begins within half of `seconds`, or not at all; if it is `timed`, the caller waits for
    the rest of that time. Everything except the work happens on the event loop.
    """

    def __init__(
        self, name: str, at_once: int, waiting: int, seconds: float, *, each: int | None = None, timed: bool = True
    ) -> None:
        self.name, self.at_once, self.waiting, self.seconds, self.timed = name, at_once, waiting, seconds, timed
        self._each = at_once if each is None else each
        self._running: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """The queues by asker; the asker whose turn was last is at the end."""
        self._threads = Workers(at_once, name)

    async def run(self, caller: Caller, work: Callable[[], T]) -> T:
        """Do the work in a thread in the caller's turn, and return its result.

        Raises Busy, ClientDisconnect if the caller disconnected before the turn, PinciteError `timeout`, and the errors
        of the work.
        """
        begun = await self.begin(caller, work)
        return await begun.result()

    async def begin(self, caller: Caller, work: Callable[[], T]) -> Begun[T]:
        """Begin the work in the caller's turn, which lasts until the work ends, even if nobody waits for it. Raises the
        errors of `run`."""
        until = caller.time_after(self.seconds) if self.timed else None
        await self.take(caller)
        return self.start(caller, work, until)

    def start(self, caller: Caller, work: Callable[[], T], until: float | None) -> Begun[T]:
        """Begin the work in the turn that the caller already has."""
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
        """Cancel queued work and end the threads; work in progress continues."""
        self._threads.stop(0)

    # ------------------------------------------------------------ turns alone

    async def take(self, caller: Caller) -> None:
        """Wait for a turn, which the caller must give back. Raises Busy, ClientDisconnect."""
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
            raise Busy("the server was too busy to begin in time; ask again in a few seconds")
        except BaseException:
            self._forget(name, mine)
            raise
        finally:
            if not leaving.cancel() and not leaving.cancelled():
                leaving.exception()  # seen, whatever came first

    def give_back(self, name: str) -> None:
        """End a turn of an asker; the next asker in the queues gets it."""
        self._running[name] -= 1
        if not self._running[name]:
            del self._running[name]
        self._hand_out()

    # ------------------------------------------------------------ who waits

    def _queue(self, name: str) -> asyncio.Future[None]:
        """Return a future that is done when the turn begins. Raises Busy."""
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
        """Return the asker who gets a free turn: one with the fewest in progress, and among these the one whose last
        turn is longest ago."""
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
        """Give up a place in the queue, or a turn that has begun in the meantime."""
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
        return Busy("the server has too many questions at once; ask again in a few seconds")


def on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call a function on the loop, from any thread; if the loop has ended, call it directly, since nobody waits
    then."""
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        call()


_searched: ContextVar[Callable[[], None]] = ContextVar("searched", default=lambda: None)


def note_searched() -> None:
    """Report that this thread has finished searching and from now on only waits for a language model."""
    _searched.get()()


class SearchFirst:
    """The turns of work that searches and then waits for a language model. The work also has a turn of `questions`
    until it calls `note_searched`, so that the number of simultaneous searches stays limited."""

    def __init__(self, answers: Turns, questions: Turns) -> None:
        self._answers, self._questions = answers, questions

    async def run(self, caller: Caller, work: Callable[[], T]) -> T:
        """Do the work and return its result, like `Turns.run`."""
        return await (await self.begin(caller, work)).result()

    async def begin(self, caller: Caller, work: Callable[[], T]) -> Begun[T]:
        """Begin the work, like `Turns.begin`."""
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
    """The turns of all kinds of work in a process."""

    def __init__(self, settings: ServeSettings) -> None:
        at_once = settings.questions or QUESTIONS_A_CORE * len(os.sched_getaffinity(0))
        waiting, seconds = settings.waiting, settings.seconds
        self.questions = Turns("question", at_once, waiting, seconds)
        self.answers = Turns(
            "answer", settings.answers, waiting, seconds, each=settings.answers - settings.answers // 4, timed=False
        )
        """Turns for a language model. One asker may have at most three quarters of them, since each may take
        minutes."""
        self.answers_after_search = SearchFirst(self.answers, self.questions)
        self.reading = Turns("reading", at_once, waiting, seconds)
        self.pictures = Turns("picture", 1, waiting, seconds)
        self.files = Turns("file", FILES_AT_ONCE, waiting, seconds, each=FILES_AT_ONCE // 4)

    def all(self) -> list[Turns]:
        return [self.questions, self.answers, self.reading, self.pictures, self.files]

    async def draw(self, caller: Caller, look: Callable[[bool], T]) -> T:
        """Return look(False) in a turn of reading if the needed pictures are cached, or else look(True) in a turn of
        drawing. Raises the errors of `Turns.run`."""
        try:
            return await self.reading.run(caller, partial(look, False))
        except NotDrawn:
            return await self.pictures.run(caller, partial(look, True))

    def close(self) -> None:
        for turns in self.all():
            turns.close()
