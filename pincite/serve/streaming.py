"""What a thread tells while it works, for an answer that comes as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from starlette.concurrency import iterate_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from pincite.serve.turns import Begun, Caller, SearchFirst, Turns, took_too_long

T = TypeVar("T")
HEARTBEAT_SECONDS = 10.0
PRIVATE = {"Cache-Control": "private, no-cache"}
STILL_AT_WORK = ": still at work\n\n"


async def telling(
    turns: Turns | SearchFirst, caller: Caller, work: Callable[[Callable[[T], None]], T]
) -> AsyncIterator[T | None]:
    """Begin work in the caller's turn; return what it tells by the function that it is given, then what it returns, and
    None every HEARTBEAT_SECONDS while there is nothing. That raises what the work raises, and PinciteError `timeout`.

    Raises as `Turns.begin`, so that nothing is sent before the turn has come."""
    loop, told = asyncio.get_running_loop(), asyncio.Queue[T]()

    def tell(item: T) -> None:
        loop.call_soon_threadsafe(told.put_nowait, item)

    return _told(await turns.begin(caller, partial(work, tell)), told)


async def _told(begun: Begun[T], told: asyncio.Queue[T]) -> AsyncIterator[T | None]:
    loop, future = asyncio.get_running_loop(), begun.future
    while not (future.done() and told.empty()):
        left = HEARTBEAT_SECONDS if begun.until is None else begun.until - loop.time()
        if left <= 0:
            raise took_too_long()
        next_told = asyncio.ensure_future(told.get())
        try:
            await asyncio.wait(
                {next_told, future}, timeout=min(left, HEARTBEAT_SECONDS), return_when=asyncio.FIRST_COMPLETED
            )
            if next_told.done():
                yield next_told.result()
            elif not future.done():
                yield None
        finally:
            next_told.cancel()
    yield future.result()


class Download(StreamingResponse):
    """The bytes of a file, sent in a turn that the caller has, which is given back when they are sent or nobody takes
    them."""

    def __init__(
        self, content: Generator[bytes, None, None], headers: Mapping[str, str], give_back: Callable[[], None]
    ):
        super().__init__(iterate_in_threadpool(content), 200, headers, "application/octet-stream")
        self._content, self._give_back = content, give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._give_back()
            with suppress(ValueError):  # a thread still reads a piece; the file is closed after it
                self._content.close()


def event(value: Any, name: str = "") -> str:
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}\n\n"


def as_events(lines: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(lines, media_type="text/event-stream", headers=PRIVATE)
