"""The forms of answers and errors, which are the same on every route of the server: the message and status of an error,
and the events that are streamed while a thread works."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from starlette.concurrency import iterate_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from pincite.serve.turns import Begun, Caller, SearchFirst, Turns, took_too_long
from pipelines.defused_text import clear
from pipelines.errors import DatabaseError, DocumentError, IndexStateError, PinciteError, UsageError

LOG = logging.getLogger("pincite.serve")
T = TypeVar("T")

# ---------------------------------------------------------------- errors


UNFORESEEN = "an error that was not foreseen; the server's log has it"
_NOT_THERE = frozenset({"unknown_chunk", "unknown_document", "no_pages", "no_page", "no_file", "ambiguous_chunk"})
_SAYABLE = frozenset({"busy", "no_index", "text_moved", "too_many"})


def status_of(error: PinciteError) -> int:
    """Return the HTTP status of an error."""
    if error.code in _NOT_THERE:
        return 404
    if isinstance(error, UsageError):
        return 400
    if isinstance(error, DocumentError):
        return 409
    if error.code == "timeout":
        return 504
    if error.code == "too_many":
        return 429
    if error.code in ("busy", "no_index") or isinstance(error, DatabaseError | IndexStateError):
        return 503
    return 502


def told_of(error: PinciteError) -> str:
    """Return the message for the asker: an error that they can correct, or a note that the server's log has the reason.

    A message that names paths on the server stays in its log.
    """
    if error.code in _TOLD:
        return _TOLD[error.code]
    if error.code in _NOT_THERE | _SAYABLE or type(error) is UsageError:
        return clear(str(error))  # it may name a document
    return f"the server cannot answer this now ({error.code}); its log says why"


_TOLD = {
    "no_pages": "this document has no pages that can be drawn; read its text",
    "timeout": "this took longer than the server lets it; ask again later, for a search with fewer words or a filter",
    "changed": "the file has changed since it was indexed, so that its pages are not shown; it is indexed again by the "
    "next run",
    "gone": "the file is gone from its source, so that its pages are not shown",
    "unreadable": "the file cannot be read now, so that its pages are not shown",
    "corrupt": "the page cannot be drawn",
}


# ---------------------------------------------------------------- places


def place_of(item: Mapping[str, Any]) -> str:
    """Return the path of a hit or citation in the reader, below `/passages/`; the reader highlights a citation's
    sentence."""
    sentence = item.get("sentence_id")
    return f"{item['chunk_id']}?sentence={sentence}" if sentence else str(item["chunk_id"])


# ---------------------------------------------------------------- streaming


HEARTBEAT_SECONDS = 10.0
PRIVATE = {"Cache-Control": "private, no-cache"}
STILL_AT_WORK = ": still at work\n\n"


async def telling(
    turns: Turns | SearchFirst, caller: Caller, work: Callable[[Callable[[T], None]], T]
) -> AsyncIterator[T | None]:
    """Begin work in the caller's turn.

    Return an iterator of the values that the work reports and then of its result, with None every HEARTBEAT_SECONDS in
    between. The iterator raises the errors of the work, and PinciteError `timeout`. This function raises the errors of
    `Turns.begin`, so that nothing is sent before the turn begins.
    """
    loop, told = asyncio.get_running_loop(), asyncio.Queue[T]()

    def tell(item: T) -> None:
        loop.call_soon_threadsafe(told.put_nowait, item)

    return _reports(await turns.begin(caller, partial(work, tell)), told)


async def _reports(begun: Begun[T], told: asyncio.Queue[T]) -> AsyncIterator[T | None]:
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
    """The bytes of a file, sent in the caller's turn, which ends when they are sent or the client stops reading."""

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


_OTHER_LINE_ENDS = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\x85\u2028\u2029"}
"""Characters that JSON does not escape, but that line readers such as Python's take for the end of a line."""


def event(value: Any, name: str = "") -> str:
    """Return a server-sent event: a text unchanged, any other value as JSON on one line."""
    named = f"event: {name}\n" if name else ""
    sent = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False).translate(_OTHER_LINE_ENDS)
    return f"{named}data: {sent}\n\n"


def as_events(
    told: AsyncIterator[T | None],
    line: Callable[[T], str],
    failed: Callable[[dict[str, str]], str],
    begin: str = "",
    end: str = "",
) -> StreamingResponse:
    """Return a streamed answer: `begin`, then `line` of each item that `told` yields, or `failed` of an error, then
    `end`."""

    async def lines() -> AsyncIterator[str]:
        if begin:
            yield begin
        try:
            async for item in told:
                yield STILL_AT_WORK if item is None else line(item)
        except PinciteError as error:
            yield failed({"code": error.code, "message": told_of(error)})
        except Exception:
            LOG.exception("an answer failed")
            yield failed({"code": "internal", "message": UNFORESEEN})
        if end:
            yield end

    return StreamingResponse(lines(), media_type="text/event-stream", headers=PRIVATE)
