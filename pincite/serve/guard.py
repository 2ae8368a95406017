"""The checks that every request passes first: a host of ours, no other site's page, a size, and a known asker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pincite.same_site import SAFE, is_json, named, names_of, of_our_pages, with_headers
from pincite.serve.access import Access, Asker
from pincite.serve.requests import no_text
from pipelines.errors import PinciteError

MOST_BODY = 1 << 20
MOST_QUERY = 64 << 10
BODY_SECONDS = 20.0
OPEN, OPEN_BELOW = frozenset({"/health", "/login"}), "/static/"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}

OTHER_HOST = (
    "not served under this name; use the address that `pincite serve` printed, or set serve.url to the one that "
    "people reach it by"
)
OTHER_SITE = "the request comes from another site's page"
FOR_PROGRAMS = ("/api/", "/v1/", "/mcp")
"""Prefixes of the paths that programs ask, and that take JSON."""
NOT_JSON = (
    "the body has to be JSON that is sent as such, with one header Content-Type: application/json; without it a page "
    "of another site could send it in your name"
)
NOBODY = {
    True: "a token is needed: send it as Authorization: Bearer, or sign in at /login; `pincite tokens add` makes one",
    False: "the proxy before this server did not say who asks, or does not know the secret; see serve.proxy",
}


class Guard:
    """The gate that lets requests through to `app` with `scope["state"]["asker"]`. `names` are hosts that it is reached
    by, besides loopback. A request by the state's own socket is its owner's, who may read the state anyway."""

    def __init__(self, app: ASGIApp, access: Access, names: Collection[str] = (), any_address: bool = False) -> None:
        self._app, self._access, self._any_address = app, access, any_address
        self._names = names_of(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket is served; the server refuses it
        asked, sent = HTTPConnection(scope), with_headers(send, _HEADERS)
        answer = self._refused(asked, scope)
        if answer is not None:
            await answer(scope, receive, sent)
        else:
            await self._app(scope, _bounded(receive), sent)

    def _refused(self, asked: HTTPConnection, scope: Scope) -> Response | None:
        """Return the answer in the app's place; None if the app may answer itself."""
        state = scope.setdefault("state", {})
        if by_socket(scope):
            state["asker"], state["owner"] = Asker("owner", (), True), True
            return None
        method = scope["method"]
        if not named(asked.headers.getlist("host"), self._names, self._any_address):
            return error(403, "other_host", OTHER_HOST)
        length = asked.headers.get("content-length", "0")
        if len(scope["query_string"]) > MOST_QUERY or not length.isdecimal() or int(length[:20]) > MOST_BODY:
            return error(
                413, "too_large", f"a request has at most {MOST_BODY >> 20} MB, its address {MOST_QUERY >> 10} KB"
            )
        if "\0" in scope["path"] or b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
            return error(400, "usage", no_text("\0"))
        try:
            asker = self._access.who(asked)
        except PinciteError as problem:
            return error(503, problem.code, "nobody is let in: the file of tokens cannot be read; see the server's log")
        by_cookie, for_programs = asker is not None and asker.by_cookie, scope["path"].startswith(FOR_PROGRAMS)
        if not of_our_pages(asked, method, (by_cookie and not for_programs) or scope["path"] == "/login"):
            return error(403, "other_site", OTHER_SITE)
        if method == "POST" and by_cookie and for_programs and not is_json(asked):
            return error(415, "not_json", NOT_JSON)
        state["asker"], state["owner"] = asker, False
        if asker is None and scope["path"] not in OPEN and not scope["path"].startswith(OPEN_BELOW):
            return self._stranger(asked, scope)
        return None

    def _stranger(self, asked: HTTPConnection, scope: Scope) -> Response:
        page = "text/html" in asked.headers.get("accept", "") and scope["method"] in SAFE
        if page and self._access.signs_in:
            there = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
            return RedirectResponse(f"/login?next={quote(there, safe='')}", 303)
        answer = error(401, "not_signed_in", NOBODY[self._access.signs_in])
        if self._access.signs_in:
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


def by_socket(scope: Scope) -> bool:
    """Say whether a request came by a Unix socket: its server has a path and no port."""
    server = scope.get("server")
    return server is not None and server[1] is None and str(server[0]).startswith("/")


def asker_of(asked: HTTPConnection) -> Asker:
    """Return who asks. Raises HTTPException 401 if nobody was let in, whichever way the request came here."""
    found = asked.scope.get("state", {}).get("asker")
    if not isinstance(found, Asker):
        raise HTTPException(401, "nobody is signed in")
    return found


def for_groups(asker: Asker, groups: tuple[str, ...]) -> Asker:
    """Return the asker with these groups: the state's owner asks for those that the command was given."""
    return replace(asker, groups=groups)


def error(status: int, code: str, message: str) -> Response:
    """Return an error in the form of the command's JSON."""
    return JSONResponse({"error": {"code": code, "message": message}}, status, {"Cache-Control": "no-store"})


def _bounded(receive: Receive) -> Receive:
    """Return a `receive` that bounds the size of a body and the seconds it takes. Raises HTTPException 408 and 413."""
    total, ended, until = 0, False, asyncio.get_running_loop().time() + BODY_SECONDS

    async def received() -> Message:
        nonlocal total, ended
        if ended:
            return await receive()  # the end of the connection, however late
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the request did not come within its time") from None
        if message["type"] == "http.request":
            total += len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if total > MOST_BODY:
                raise HTTPException(413, f"a request has at most {MOST_BODY >> 20} MB")
        return message

    return received
