"""Dagster's webserver behind a guard, since it lets everybody in: `python -m pincite.ui.webserver`.

It takes the webserver's own arguments, and from the environment the listening socket, the token and the names that
`pincite ui` gives it. A request must name a host of ours (another site's name may lead to this address), come from a
page of ours or from none, and carry the token of the printed address, or the cookie that it was exchanged for. GET
changes nothing, and neither does any request except GraphQL's own.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
from collections.abc import Collection
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode

import uvicorn
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from pincite.connections import LARGEST_HEAD, Connections, limits_for
from pincite.same_site import SAFE, is_json, named, names_of, of_our_pages, with_headers
from pincite.ui.services import GUARD_VARIABLE

# ---------------------------------------------------------------- guard


_HEADERS = {"X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "same-origin"}
_PAGE = """<!doctype html><meta charset="utf-8"><title>pincite</title>
<body style="font-family: sans-serif; max-width: 40em; margin: 4em auto"><h1>Not let in</h1><p>{told}</p></body>"""

NO_TOKEN = (
    "Open the address that `pincite ui` printed when it started: it ends in ?token=... and is good until it stops. "
    "Where PINCITE_UI_TOKEN was set, its value is the token. Programs send it as Authorization: Bearer."
)
OTHER_HOST = (
    "The UI is not served under this name. Use the address that `pincite ui` printed, or start it with "
    "--allowed-host and the name that it is reached by."
)
OTHER_SITE = "The request comes from another site's page; open the address that `pincite ui` printed."
ONLY_GRAPHQL = "Only pages and files are read by GET; all else is GraphQL, by POST with Content-Type application/json."


class Guard:
    """The gate that lets requests through to `app`. `names` are the hosts that it is reached by, besides loopback;
    `any_address` says that it listens on all addresses of the machine, so that any number may be one of them."""

    def __init__(
        self, app: ASGIApp, token: str, port: int, names: Collection[str] = (), any_address: bool = False
    ) -> None:
        self._app, self._token, self._any_address = app, token, any_address
        self._names = names_of(names)
        # Browsers keep cookies by host, not by port. This one ends with the process, and is not the token.
        self._cookie, self._session = f"pincite_ui_{port}", secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        answer = self._answer(connection, scope.get("method", "") if scope["type"] == "http" else "WEBSOCKET")
        if answer is None:
            await self._app(scope, receive, send if scope["type"] == "websocket" else with_headers(send, _HEADERS))
        elif scope["type"] == "websocket":
            await WebSocketClose(1008)(scope, receive, send)
        else:
            await answer(scope, receive, with_headers(send, _HEADERS))

    def _answer(self, asked: HTTPConnection, method: str) -> Response | None:
        """Return the answer in the app's place; None if the app may answer itself."""
        if not named(asked.headers.getlist("host"), self._names, self._any_address):
            return _refused(asked, OTHER_HOST)
        if method in SAFE and "token" in asked.query_params:
            return self._welcomed(asked)
        by_token = self._is(self._token, asked.headers.get("authorization", "").removeprefix("Bearer "))
        if not by_token and not self._is(self._session, asked.cookies.get(self._cookie, "")):
            return _refused(asked, NO_TOKEN)
        if not of_our_pages(asked, method, by_cookie=not by_token):
            return _refused(asked, OTHER_SITE)
        if method != "WEBSOCKET" and not _harmless(asked, method):
            return _refused(asked, ONLY_GRAPHQL, 405)
        return None

    def _welcomed(self, asked: HTTPConnection) -> Response:
        """Exchange the token of the address for a cookie, and lead to the same page without it."""
        query = parse_qsl(asked.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if not self._is(self._token, *(value for name, value in query if name == "token")):
            return _refused(asked, NO_TOKEN)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash: `//elsewhere` would be another host.
        answer = RedirectResponse("/" + asked.scope["path"].lstrip("/\\") + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    @staticmethod
    def _is(secret: str, *given: str) -> bool:
        return len(given) == 1 and hmac.compare_digest(secret.encode(), given[0].encode("utf-8", "replace"))


def _harmless(asked: HTTPConnection, method: str) -> bool:
    """Say whether a request is GraphQL by POST of JSON, which no form of another site can send, or else a GET."""
    if asked.scope["path"].rstrip("/").rpartition("/")[2] == "graphql":
        return method == "POST" and is_json(asked)
    return method in SAFE


def _refused(asked: HTTPConnection, told: str, status: int = 403) -> Response:
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    if "text/html" in asked.headers.get("accept", ""):
        return HTMLResponse(_PAGE.format(told=told), status, headers)
    return PlainTextResponse(told + "\n", status, headers)


# ---------------------------------------------------------------- webserver


_CONNECTIONS = 1_024
_FAREWELL_SECONDS = 5
"""Seconds to wait at the end for open pages, each of which keeps a connection and so the webserver for ever."""


def main() -> None:
    from dagster_webserver.cli import main as webserver

    told = json.loads(os.environ.pop(GUARD_VARIABLE))
    listener = socket.socket(fileno=told.pop("fd"))

    def serve(app: Any, *, log_level: str = "warning", **_: Any) -> None:
        limits, backlog = limits_for(_CONNECTIONS)
        config = uvicorn.Config(
            Guard(app, **told), log_level=log_level, timeout_graceful_shutdown=_FAREWELL_SECONDS, backlog=backlog,
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
