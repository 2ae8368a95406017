"""Dagster's webserver behind the guard, since it has no access control: `python -m pincite.ui.webserver`.

It takes the webserver's own arguments. The listening socket, the token and the host names come from `pincite ui`
through the environment.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Any

import uvicorn

from pincite.connections import LARGEST_HEAD, Connections, limits_for
from pincite.guard import UiGuard
from pincite.ui.services import GUARD_VARIABLE

_CONNECTIONS = 1_024
_FAREWELL_SECONDS = 5
"""Seconds to wait for open pages when the webserver ends; each page keeps a connection open and would delay the end
forever."""


def main() -> None:
    from dagster_webserver.cli import main as webserver

    told = json.loads(os.environ.pop(GUARD_VARIABLE))
    listener = socket.socket(fileno=told.pop("fd"))

    def serve(app: Any, *, log_level: str = "warning", **_: Any) -> None:
        limits, backlog = limits_for(_CONNECTIONS)
        config = uvicorn.Config(
            UiGuard(app, **told), log_level=log_level, timeout_graceful_shutdown=_FAREWELL_SECONDS, backlog=backlog,
            http=Connections(limits).protocol(), h11_max_incomplete_event_size=LARGEST_HEAD,
        )  # fmt: skip
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])

    # This is the one place where Dagster hands its app over. If it were served another way, it would have no listener,
    # and `pincite ui` would notice: it asks for a page without the token first.
    uvicorn.run = serve  # type: ignore[assignment]
    webserver()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
