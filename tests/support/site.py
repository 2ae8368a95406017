"""A small site on loopback, whose pages a test changes while it runs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from resources.hashes import bytes_hash
from tests.support.asgi import in_thread


@dataclass
class Site:
    """`pages` by path; `redirects` by path to where; `faults` are statuses by path. `asked` are path and status."""

    port: int = 0
    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    endless: set[str] = field(default_factory=set)
    asked: list[tuple[str, int]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def html(self, path: str, text: str, *links: str) -> None:
        linked = "".join(f'<a href="{link}">next</a>' for link in links)
        page = f"<html><body><h1>{path}</h1><p>{text}</p>{linked}</body></html>"
        self.pages[path] = "text/html; charset=utf-8", page.encode()

    def paths(self, status: int = 200) -> list[str]:
        """What was asked for, robots.txt apart."""
        return [path for path, found in self.asked if found == status and path != "/robots.txt"]

    def answer(self, request: Request) -> Response:
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        made = self._answer(path, request)
        self.asked.append((path, made.status_code))
        return made

    def _answer(self, path: str, request: Request) -> Response:
        if path in self.faults:
            return Response(status_code=self.faults[path])
        if path in self.redirects:
            return RedirectResponse(self.redirects[path])
        if path in self.endless:
            return StreamingResponse(_endless(), media_type="text/html")
        if path.startswith("/docs/calendar/"):
            day = int(path.rsplit("/", 1)[1])
            return Response(f'<a href="/docs/calendar/{day + 1}">next</a>', media_type="text/html")
        if path not in self.pages:
            return Response(status_code=404)
        kind, body = self.pages[path]
        tag = f'"{bytes_hash(body)}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        return Response(body, headers={"content-type": kind, "etag": tag})


async def _endless() -> AsyncIterator[bytes]:
    for number in itertools.count():
        await asyncio.sleep(0)  # or a server whose asker has gone would never look
        yield f"<p>{number}</p>".encode() * 1000


@contextmanager
def running_site() -> Iterator[Site]:
    site = Site()

    async def answer(request: Request) -> Response:
        return site.answer(request)

    with in_thread(Starlette(routes=[Route("/{path:path}", answer)])) as port:
        site.port = port
        yield site
