"""An application on a real port of loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from pincite.listening import listener


class _Server(uvicorn.Server):
    """A server that says when it has started, or has ended without that."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun, self.ending = threading.Event(), threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    async def main_loop(self) -> None:
        """Until it is told to end, at once; uvicorn looks ten times a second whether it is."""
        await self.on_tick(0)
        await asyncio.to_thread(self.ending.wait)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            self.begun.set()


@contextmanager
def in_thread(app: ASGIApp, **options: Any) -> Iterator[int]:
    """The port that it is answered on while this lasts; `options` are uvicorn's."""
    with listener("127.0.0.1", 0) as listening:
        server = _Server(uvicorn.Config(app, log_level="error", proxy_headers=False, **options))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            server.begun.wait()
            assert server.started
            yield listening.getsockname()[1]
        finally:
            server.ending.set()
            thread.join()
