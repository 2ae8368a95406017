"""An application on a real port of loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from pincite.listening import listener


@contextmanager
def in_thread(app: ASGIApp, **options: Any) -> Iterator[int]:
    """The port that it is answered on while this lasts; `options` are uvicorn's."""
    with listener("127.0.0.1", 0) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", proxy_headers=False, **options))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
