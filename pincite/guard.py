"""The guard in front of every server of pincite, which decides whether a request may be answered, and for whom.

`pincite serve` and the webserver of `pincite ui` make the same checks in the same order: the host that a request names,
its size, who asks, the page that it comes from, and what it may change. Each server's guard only adds its differences.
Attacks to stop: another site's host name may point to this address, and another site's page may send a request with the
browser's cookies for this server.

<state>/tokens.json      {"NAME": {"sha256", "groups", "operator", "created"}}

The file holds hashes, never a token. A token has 256 random bits, so its plain SHA-256 reveals nothing about it. If the
file cannot be read, nobody has access.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from pincite.connections import OWNER, peer_of
from pipelines.errors import IndexStateError, PinciteError, SettingsError, UsageError
from pipelines.escaped_text import one_line
from pipelines.groups import group_names
from pipelines.settings.serve import ServeSettings
from resources.private_files import private
from resources.settings_file import Project

# ---------------------------------------------------------------- tokens


FILE = "tokens.json"
PREFIX = "pincite_"
MOST_BYTES = 10 << 20
LONGEST_NAME = 100
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Token:
    """The owner of a token. An `operator` sees the names of failed documents; `created` is in ISO 8601 form."""

    sha256: str
    groups: tuple[str, ...]
    operator: bool
    created: str


class TokenFile:
    """The tokens of one state, read again when their file changes."""

    def __init__(self, state: Path) -> None:
        self._state, self._file = state, state / FILE
        self._read: tuple[tuple[int, ...], dict[str, Token]] | None = None

    def all(self) -> Mapping[str, Token]:
        """Return the tokens by name. Raises SettingsError naming the file if it is not a file of tokens."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._no_tokens(error) from None
        identity = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        if self._read is None or self._read[0] != identity:
            self._read = identity, self._parse()
        return self._read[1]

    def who(self, given: str) -> tuple[str, Token] | None:
        """Return the name and the entry of a token, or None if the token is unknown. Raises SettingsError."""
        held = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for name, token in self.all().items():  # all of them, so that the time taken reveals nothing
            if _same(token.sha256.encode(), held):
                found = name, token
        return found

    def add(self, name: str, groups: tuple[str, ...], operator: bool) -> str:
        """Return a new token, which cannot be shown again. Raises UsageError, IndexStateError `name_taken`."""
        if not name.strip() or len(name) > LONGEST_NAME or one_line(name) != name:
            raise UsageError(f"{name!a} is not a valid name; give up to {LONGEST_NAME} printable characters")
        token = PREFIX + secrets.token_urlsafe(32)
        made = Token(hashlib.sha256(token.encode()).hexdigest(), groups, operator,
                     datetime.now(UTC).isoformat(timespec="seconds"))  # fmt: skip
        with self._changing() as tokens:
            if name in tokens:
                raise IndexStateError(
                    f"{name} already has a token; remove it first: `pincite tokens remove {name}`", "name_taken"
                )
            tokens[name] = made
        return token

    def remove(self, name: str) -> None:
        """Remove the token of a name. Raises IndexStateError `unknown_name`."""
        with self._changing() as tokens:
            if tokens.pop(name, None) is None:
                raise IndexStateError(f"{name!a} has no token; see `pincite tokens list`", "unknown_name")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """Yield the tokens, and write all of them back if the block succeeds; only one process at a time does so."""
        with private(self._state), (self._state / f"{FILE}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = dict(self.all())
            yield tokens
            partial = self._file.with_suffix(".partial")
            written = {name: asdict(token) for name, token in sorted(tokens.items())}
            with partial.open("w", encoding="utf-8") as stream:
                json.dump(written, stream, ensure_ascii=False, indent=2)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, self._file)

    def _parse(self) -> dict[str, Token]:
        try:
            with self._file.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES >> 20} MB")
            values = json.loads(data, object_pairs_hook=_once)
            tokens = {name: _token(value) for name, value in values.items()}
            if len({token.sha256 for token in tokens.values()}) < len(tokens):
                raise ValueError("two names have the same token")
            return tokens
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise self._no_tokens(error) from None

    def _no_tokens(self, error: Exception) -> SettingsError:
        return SettingsError(
            f"{self._file}: the file is not in the form of `pincite tokens` ({error}), so nobody has access; repair "
            "it, or delete it and add the tokens again"
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _token(value: Any) -> Token:
    made = Token(value["sha256"], tuple(value["groups"]), value["operator"], value["created"])
    known = set(value) == {"sha256", "groups", "operator", "created"} and isinstance(value["groups"], list)
    texts = isinstance(made.created, str) and isinstance(made.sha256, str) and _HASH.fullmatch(made.sha256)
    if not known or not texts or not isinstance(made.operator, bool):
        raise ValueError("an entry has other keys or values than it should")
    if made.groups and group_names(list(made.groups)) != made.groups:
        raise ValueError("an entry names groups that are none")
    return made


# ---------------------------------------------------------------- access


COOKIE = "pincite_token"
LONGEST_SECRET = 1_000
_SHORTEST_SECRET = 16


@dataclass(frozen=True, slots=True)
class Asker:
    """The identity of an asker, from a secret or a trusted proxy and never from a parameter; `name` is "" if
    unknown. An `operator` sees the names of failed documents. `by_cookie` marks requests that a page of another site
    may cause."""

    name: str = ""
    groups: tuple[str, ...] = ()
    operator: bool = False
    by_cookie: bool = False


class Access(Protocol):
    """A way to identify askers. `signs_in` says whether people sign in by typing a secret."""

    signs_in: bool

    def who(self, asked: HTTPConnection) -> Asker | None:
        """Return the asker of a request, or None if the request has no access."""


class Anybody:
    """Access under `serve.auth: none`: anybody on this machine (loopback), for public documents."""

    signs_in = False

    def who(self, asked: HTTPConnection) -> Asker | None:
        return Asker()


class ByToken:
    """Access under `serve.auth: tokens`: an Authorization header, or the cookie that holds a person's token."""

    signs_in = True

    def __init__(self, tokens: TokenFile, operators: str | None) -> None:
        self._tokens, self._operators = tokens, operators

    def who(self, asked: HTTPConnection) -> Asker | None:
        header = asked.headers.get("authorization", "")
        kind, _, given = header.partition(" ")
        by_cookie = not header
        given = asked.cookies.get(COOKIE, "") if by_cookie else given.strip()
        return self.asker_of(given, by_cookie) if by_cookie or kind.lower() == "bearer" else None

    def asker_of(self, token: str, by_cookie: bool = False) -> Asker | None:
        found = self._tokens.who(token) if 0 < len(token) <= LONGEST_SECRET else None
        if found is None:
            return None
        name, entry = found
        return Asker(name, entry.groups, entry.operator or self._operators in entry.groups, by_cookie)

    def remember(self, answer: Response, token: str, secure: bool) -> None:
        """Set the token itself as the cookie, so that removing the token ends all its sessions."""
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")


class ByProxy:
    """Access under `serve.auth: proxy`: names and groups from headers of a proxy that knows the secret. A missing
    groups header means no groups. A request is refused if its user header is missing, or a header is repeated or
    malformed."""

    signs_in = False

    def __init__(self, settings: ServeSettings, secret: str) -> None:
        """Take the settings and the secret. Raise SettingsError if no header could contain the secret."""
        self._proxy, self._operators = settings.proxy, settings.operators
        try:
            self._secret = secret.encode()
        except UnicodeEncodeError:
            raise SettingsError(
                f"the environment variable {settings.proxy.secret_env} (serve.proxy.secret_env) has bytes that are not "
                "UTF-8, so no proxy could send it; set another secret, here and in the proxy"
            ) from None

    def who(self, asked: HTTPConnection) -> Asker | None:
        secret = _only(asked, self._proxy.secret_header)
        user, groups = _only(asked, self._proxy.user_header), _only(asked, self._proxy.groups_header)
        if secret is None or not _same(self._secret, secret):
            return None
        if user is None or groups is None or not user.strip():
            return None
        try:
            named = group_names(groups) if groups.strip() else ()
        except ValueError:
            return None
        return Asker(user.strip(), named, self._operators in named, by_cookie=True)


class ByPrintedToken:
    """Access to `pincite ui`: the token in the printed address, or the cookie that replaces it."""

    signs_in = True

    def __init__(self, token: str, port: int) -> None:
        # Browsers keep cookies by host, not by port. This one ends with the process, and is not the token.
        self._token, self._cookie, self._session = token, f"pincite_ui_{port}", secrets.token_urlsafe(32)

    def who(self, asked: HTTPConnection) -> Asker | None:
        by_token = self.has(asked.headers.get("authorization", "").removeprefix("Bearer "))
        if not by_token and not _same(self._session.encode(), asked.cookies.get(self._cookie, "")):
            return None
        return Asker(by_cookie=not by_token)

    def has(self, *given: str) -> bool:
        """Say whether the given value is the token."""
        return len(given) == 1 and _same(self._token.encode(), given[0])

    def remember(self, answer: Response) -> None:
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")


def _same(secret: bytes, given: str) -> bool:
    """Say whether the given value is the secret, in a time that reveals nothing about the secret."""
    return hmac.compare_digest(secret, given.encode("utf-8", "replace"))


def _only(asked: HTTPConnection, header: str) -> str | None:
    """Return the value of a header, or "" if it is missing; return None if it is repeated or not UTF-8."""
    values: Sequence[str] = asked.headers.getlist(header)
    if len(values) > 1:
        return None
    try:
        return values[0].encode("latin-1").decode("utf-8") if values else ""
    except UnicodeDecodeError:
        return None


def access_of(project: Project) -> Access:
    """Return the access that the settings define. Raises SettingsError naming the setting and the remedy."""
    settings = project.settings.serve
    if settings.auth == "none":
        return Anybody()
    if settings.auth == "tokens":
        tokens = TokenFile(project.state)
        if not tokens.all():
            raise SettingsError(
                "serve.auth is tokens, but no token exists yet; run `pincite tokens add NAME --group GROUP`"
            )
        return ByToken(tokens, settings.operators)
    secret = os.environ.get(settings.proxy.secret_env, "")
    if len(secret) < _SHORTEST_SECRET:
        raise SettingsError(
            f"serve.auth is proxy, and the environment variable {settings.proxy.secret_env} "
            f"(serve.proxy.secret_env) holds no secret of at least {_SHORTEST_SECRET} characters; set it here and have "
            f"the proxy send it as {settings.proxy.secret_header}"
        )
    return ByProxy(settings, secret)


# ---------------------------------------------------------------- hosts and sites


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE = frozenset({"GET", "HEAD"})


def names_of(names: Collection[str]) -> frozenset[str]:
    """Return host names, and those of loopback, in the form used for comparison."""
    return LOOPBACK | {name.lower().rstrip(".") for name in names}


def is_named(hosts: list[str], names: Collection[str], any_address: bool = False) -> bool:
    """Say whether a request has one Host header that is among the names, or is an IP address if the server listens on
    `any_address`."""
    if len(hosts) != 1:
        return False
    try:
        name = (urlsplit(f"//{hosts[0]}").hostname or "").rstrip(".")
    except ValueError:
        return False
    return name in names or (any_address and _is_address(name))


def of_our_pages(asked: HTTPConnection, method: str, by_cookie: bool) -> bool:
    """Say whether a request does not come from a page of another site or port, according to the headers Origin and
    Sec-Fetch-Site.

    A request with the cookie and neither header must not change anything.
    """
    origins, site = asked.headers.getlist("origin"), asked.headers.get("sec-fetch-site")
    if any(_site(origin) != asked.headers["host"].lower() for origin in origins):
        return False
    visit = method in SAFE and asked.headers.get("sec-fetch-mode") == "navigate"
    if site not in (None, "none", "same-origin") and not visit:
        return False
    return method in SAFE or not by_cookie or bool(origins) or site == "same-origin"


def is_json(asked: HTTPConnection) -> bool:
    """Say whether a request's single Content-Type is JSON.

    A browser sends such a body to another site only after a preflight request by OPTIONS, which is never granted.
    """
    kinds = asked.headers.getlist("content-type")
    return len(kinds) == 1 and kinds[0].partition(";")[0].strip(" \t").lower() == "application/json"


def _site(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def inside_site(path: str) -> str:
    """Return the path if it is on this site, else the path of the front page."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Return a `send` that sets these headers on every answer, replacing previous values."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = MutableHeaders(scope=message)
            for name, value in headers.items():
                kept[name] = value
        await send(message)

    return send_with_headers


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- guard


class Guard(ABC):
    """The gate that lets requests through to `app`, with `scope["state"]["asker"]`. `names` are the host names of the
    server, besides loopback; `any_address` says that it listens on all addresses of the machine, so any IP address is
    valid. Everything is refused unless a server's own guard allows it."""

    headers: ClassVar[Mapping[str, str]]
    """Headers of every answer."""
    bounds_body = True
    serves_websockets = False

    def __init__(self, app: ASGIApp, access: Access, names: Collection[str] = (), any_address: bool = False) -> None:
        self._app, self._access, self._any_address = app, access, any_address
        self._names = names_of(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http" and not self.serves_websockets:
            return  # the server refuses it
        answer = self._answer(HTTPConnection(scope), scope.get("method", "WEBSOCKET"))
        if scope["type"] != "http":
            await (self._app if answer is None else WebSocketClose(1008))(scope, receive, send)
            return
        sent = _with_headers(send, self.headers)
        if answer is not None:
            await answer(scope, receive, sent)
        else:
            await self._app(scope, _bound_body(receive) if self.bounds_body else receive, sent)

    def _answer(self, asked: HTTPConnection, method: str) -> Response | None:
        """Return the guard's own answer, or None if the request may go to the app."""
        state = asked.scope.setdefault("state", {})
        if self.by_owner(asked):
            state["asker"], state["owner"] = Asker("owner", (), True), True
            return None
        state["asker"], state["owner"] = None, False
        if not is_named(asked.headers.getlist("host"), self._names, self._any_address):
            return self.refusal(403, "other_host", asked)
        if (answer := self.before_asker(asked, method)) is not None:
            return answer
        try:
            state["asker"] = asker = self._access.who(asked)
        except PinciteError as problem:
            return self.refusal(503, problem.code, asked)
        if not of_our_pages(asked, method, self.needs_origin(asked, asker)):
            return self.refusal(403, "other_site", asked)
        if asker is None:
            return None if self.is_open(asked.scope["path"]) else self.stranger(asked)
        return self.refuse(asked, method, asker)

    # ------------------------------------------------------------ rules of one server

    def by_owner(self, asked: HTTPConnection) -> bool:
        """Say whether a request comes from the state's owner, who needs no check."""
        return False

    def is_open(self, path: str) -> bool:
        """Say whether a path is answered without a known asker."""
        return False

    @abstractmethod
    def before_asker(self, asked: HTTPConnection, method: str) -> Response | None:
        """Return the answer to a request that does not depend on the asker, or None."""

    @abstractmethod
    def needs_origin(self, asked: HTTPConnection, asker: Asker | None) -> bool:
        """Say whether a request that changes something needs an Origin header of this site."""

    @abstractmethod
    def refuse(self, asked: HTTPConnection, method: str, asker: Asker) -> Response | None:
        """Return the refusal of a request that no asker may make in this way, or None."""

    @abstractmethod
    def stranger(self, asked: HTTPConnection) -> Response:
        """Return the answer to a request without a known asker."""

    @abstractmethod
    def refusal(self, status: int, code: str, asked: HTTPConnection) -> Response:
        """Return a refusal in the format of this server's clients."""


def asker_of(asked: HTTPConnection) -> Asker:
    """Return the asker. Raises HTTPException 401 if the request has no access, over HTTP and WebSocket alike."""
    found = asked.scope.get("state", {}).get("asker")
    if not isinstance(found, Asker):
        raise HTTPException(401, "nobody is signed in")
    return found


def is_owner(asked: HTTPConnection) -> bool:
    """Say whether the request comes from the state's owner, over the state's own socket."""
    return asked.scope.get("state", {}).get("owner") is True


def counted_as(asked: HTTPConnection) -> str:
    """Return the name under which requests are counted: of a person or program, or else of an address."""
    if is_owner(asked):
        return OWNER
    asker = asked.scope.get("state", {}).get("asker")
    return f"name {asker.name}" if asker and asker.name else f"address {peer_of(asked.scope.get('client'))}"


# ---------------------------------------------------------------- guard of pincite serve


MOST_BODY = 1 << 20
MOST_QUERY = 64 << 10
BODY_SECONDS = 20.0
OPEN, OPEN_BELOW = frozenset({"/health", "/login"}), "/static/"
FOR_PROGRAMS = ("/api/", "/v1/", "/mcp")
"""Prefixes of the paths for programs, whose requests have JSON bodies."""
_SERVE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
}
_SERVE_MESSAGES = {
    "other_host": "not served under this name; use the address that `pincite serve` printed, or set serve.url to the "
    "one that people reach it by",
    "too_large": f"a request has at most {MOST_BODY >> 20} MB, its address {MOST_QUERY >> 10} KB",
    "other_site": "the request comes from another site's page",
    "not_json": "the body has to be JSON that is sent as such, with one header Content-Type: application/json; without "
    "it a page of another site could send it in your name",
}
_UNREADABLE = "nobody is let in: the file of tokens cannot be read; see the server's log"
_NOBODY = {
    True: "a token is needed: send it as Authorization: Bearer, or sign in at /login; `pincite tokens add` makes one",
    False: "the proxy before this server did not say who asks, or does not know the secret; see serve.proxy",
}


class ServeGuard(Guard):
    """The guard of `pincite serve`. A request over the state's own socket comes from its owner, who may read the state
    anyway. Paths for programs accept only JSON, which replaces the check of the origin."""

    headers = _SERVE_HEADERS

    def by_owner(self, asked: HTTPConnection) -> bool:
        return by_socket(asked.scope)

    def is_open(self, path: str) -> bool:
        return path in OPEN or path.startswith(OPEN_BELOW)

    def before_asker(self, asked: HTTPConnection, method: str) -> Response | None:
        query, length = asked.scope["query_string"], asked.headers.get("content-length", "0")
        if len(query) > MOST_QUERY or not length.isdecimal() or int(length[:20]) > MOST_BODY:
            return self.refusal(413, "too_large", asked)
        if "\0" in asked.scope["path"] or b"%00" in query or b"\0" in query:
            return error(400, "usage", no_text("\0"))
        return None

    def needs_origin(self, asked: HTTPConnection, asker: Asker | None) -> bool:
        path = asked.scope["path"]
        by_browser = asker is not None and asker.by_cookie and not path.startswith(FOR_PROGRAMS)
        return path in ("/login", "/feedback") or by_browser

    def refuse(self, asked: HTTPConnection, method: str, asker: Asker) -> Response | None:
        for_programs = asked.scope["path"].startswith(FOR_PROGRAMS)
        if method == "POST" and asker.by_cookie and for_programs and not is_json(asked):
            return self.refusal(415, "not_json", asked)
        return None

    def stranger(self, asked: HTTPConnection) -> Response:
        scope = asked.scope
        page = "text/html" in asked.headers.get("accept", "") and scope["method"] in SAFE
        if page and self._access.signs_in:
            there = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
            return RedirectResponse(f"/login?next={quote(there, safe='')}", 303)
        answer = error(401, "not_signed_in", _NOBODY[self._access.signs_in])
        if self._access.signs_in:
            answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def refusal(self, status: int, code: str, asked: HTTPConnection) -> Response:
        return error(status, code, _SERVE_MESSAGES.get(code, _UNREADABLE))


def by_socket(scope: Scope) -> bool:
    """Say whether a request came over a Unix socket: its server then has a path and no port."""
    server = scope.get("server")
    return server is not None and server[1] is None and str(server[0]).startswith("/")


def error(status: int, code: str, message: str) -> Response:
    """Return an error in the form of the command's JSON."""
    return JSONResponse({"error": {"code": code, "message": message}}, status, {"Cache-Control": "no-store"})


def no_text(char: str) -> str:
    """Return the message about a character that is not allowed in a text."""
    return f"the request holds the character U+{ord(char):04X}, which cannot stand in a text; send it without"


def _bound_body(receive: Receive) -> Receive:
    """Return a `receive` that limits the size and the time of a body. Raises HTTPException 408 and 413."""
    total, ended, until = 0, False, asyncio.get_running_loop().time() + BODY_SECONDS

    async def receive_bounded() -> Message:
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

    return receive_bounded


# ---------------------------------------------------------------- guard of pincite ui


NO_TOKEN = (
    "Open the address that `pincite ui` printed when it started: it ends in ?token=... and is good until it stops. "
    "Where PINCITE_UI_TOKEN was set, its value is the token. Programs send it as Authorization: Bearer."
)
_UI_HEADERS = {
    "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "same-origin"
}  # fmt: skip
UI_MESSAGES = {
    "other_host": "The UI is not served under this name. Use the address that `pincite ui` printed, or start it with "
    "--allowed-host and the name that it is reached by.",
    "other_site": "The request comes from another site's page; open the address that `pincite ui` printed.",
    "not_signed_in": NO_TOKEN,
    "not_json": "Only pages and files are read by GET; all else is GraphQL, by POST with Content-Type "
    "application/json.",
}
_UI_PAGE = """<!doctype html><meta charset="utf-8"><title>pincite</title>
<body style="font-family: sans-serif; max-width: 40em; margin: 4em auto"><h1>Not let in</h1><p>{told}</p></body>"""


class UiGuard(Guard):
    """The guard of `pincite ui` in front of Dagster's webserver, which has no access control. Only GraphQL requests by
    POST can change anything."""

    bounds_body = False
    serves_websockets = True
    headers = _UI_HEADERS

    def __init__(
        self, app: ASGIApp, token: str, port: int, names: Collection[str] = (), any_address: bool = False
    ) -> None:
        self._printed = ByPrintedToken(token, port)
        super().__init__(app, self._printed, names, any_address)

    def before_asker(self, asked: HTTPConnection, method: str) -> Response | None:
        """Exchange the token in the address for a cookie, and redirect to the same page without the token."""
        if method not in SAFE or "token" not in asked.query_params:
            return None
        query = parse_qsl(asked.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if not self._printed.has(*(value for name, value in query if name == "token")):
            return self.stranger(asked)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash: `//elsewhere` would be another host.
        answer = RedirectResponse("/" + asked.scope["path"].lstrip("/\\") + (f"?{rest}" if rest else ""), 303)
        self._printed.remember(answer)
        return answer

    def needs_origin(self, asked: HTTPConnection, asker: Asker | None) -> bool:
        return asker is None or asker.by_cookie

    def refuse(self, asked: HTTPConnection, method: str, asker: Asker) -> Response | None:
        """Refuse all requests except GET, and GraphQL by POST of JSON, which a form of another site cannot send."""
        if asked.scope["path"].rstrip("/").rpartition("/")[2] == "graphql":
            harmless = method == "POST" and is_json(asked)
        else:
            harmless = method in SAFE
        return None if harmless or method == "WEBSOCKET" else self.refusal(405, "not_json", asked)

    def stranger(self, asked: HTTPConnection) -> Response:
        return self.refusal(403, "not_signed_in", asked)

    def refusal(self, status: int, code: str, asked: HTTPConnection) -> Response:
        if code == "other_site" and asked.scope["state"]["asker"] is None:
            code = "not_signed_in"  # what helps
        headers = {
            "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
        }  # fmt: skip
        told = UI_MESSAGES.get(code, NO_TOKEN)
        if "text/html" in asked.headers.get("accept", ""):
            return HTMLResponse(_UI_PAGE.format(told=told), status, headers)
        return PlainTextResponse(told + "\n", status, headers)
