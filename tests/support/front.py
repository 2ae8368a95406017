"""What stands before a real server and passes on what it is asked, but where a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import requests
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from tests.support.asgi import in_thread
from tests.support.waiting import HANG_SECONDS

_OF_THE_WAY = frozenset({"connection", "content-encoding", "date", "keep-alive", "server", "transfer-encoding"})
Fault = tuple[int, str] | Callable[[], Response]
"""A status and a body, or what makes a response."""


@dataclass
class Front:
    """`faults` by a part of method, path and query, of which the first that is found counts."""

    url: str
    behind: str
    faults: dict[str, Fault] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, request: Request, body: bytes) -> Response:
        path = f"{request.scope['raw_path'].decode()}?{request.url.query}"
        self.asked.append(f"{request.method} {path}")
        for part, fault in list(self.faults.items()):  # another request may end one meanwhile
            if part in self.asked[-1]:
                return fault() if callable(fault) else Response(fault[1], fault[0], media_type="application/xml")
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        found = requests.request(
            request.method,
            f"{self.behind}{path}",
            headers=headers,
            data=body,
            timeout=HANG_SECONDS,
            allow_redirects=False,
        )
        kept = {name: value for name, value in found.headers.items() if name.lower() not in _OF_THE_WAY}
        return Response(found.content, found.status_code, kept)


MadeFront = TypeVar("MadeFront", bound=Front)


@contextmanager
def front_before(front: MadeFront) -> Iterator[MadeFront]:
    """Answers for the server behind it, and has an address while this lasts."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        made = await run_in_threadpool(front.answer, request, body)
        await made(scope, receive, send)

    with in_thread(Starlette(routes=[Mount("/", app)])) as port:
        front.url = f"http://127.0.0.1:{port}"
        yield front
