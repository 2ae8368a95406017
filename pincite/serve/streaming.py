"""What a thread tells while it works, for an answer that comes as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

T = TypeVar("T")
HEARTBEAT_SECONDS = 10.0
PRIVATE = {"Cache-Control": "private, no-cache"}
STILL_AT_WORK = ": still at work\n\n"


async def told_by(work: Callable[[Callable[[T], None]], T]) -> AsyncIterator[T | None]:
    """What `work` tells by the function that it is given, then what it returns; None every HEARTBEAT_SECONDS while
    there is nothing. Raises what it raises."""
    loop, told = asyncio.get_running_loop(), asyncio.Queue[T]()

    def tell(item: T) -> None:
        loop.call_soon_threadsafe(told.put_nowait, item)

    task = asyncio.ensure_future(run_in_threadpool(work, tell))
    try:
        while not (task.done() and told.empty()):
            next_told = asyncio.ensure_future(told.get())
            try:
                await asyncio.wait({next_told, task}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if next_told.done():
                    yield next_told.result()
                elif not task.done():
                    yield None
            finally:
                next_told.cancel()
        yield task.result()
    finally:
        task.cancel()


def event(value: Any, name: str = "") -> str:
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}\n\n"


def as_events(lines: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(lines, media_type="text/event-stream", headers=PRIVATE)
