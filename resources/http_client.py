"""The HTTP client: answers are bounded in bytes and time, redirects stay on one server, and errors have a reason.

The limits apply to the bytes from the socket. So they count everything: endless status lines, informational answers,
headers, chunks, trailers and bodies of one byte a minute. Nothing is decompressed here, and a compressed answer is
refused by its headers, since a few bytes of gzip may become gigabytes. The limits work for every library based on
urllib3: requests, botocore and the clients of Google and Azure.
"""

from __future__ import annotations

import http.client
import io
import netrc
import os
import re
import socket
import time
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import parse_url

from pipelines.errors import SettingsError, SourceError
from pipelines.settings.models import is_loopback

if TYPE_CHECKING:
    import requests
    from botocore.httpsession import URLLib3Session
    from typing_extensions import Buffer

# ---------------------------------------------------------------- bounded answers


MOST_BYTES = 64 << 20
"""Most bytes of one answer with its headers, unless the caller sets another limit. A page of a listing has about 1
MB."""
SECONDS = 600.0
"""Most seconds of one answer, unless the caller sets another limit."""
HEAD_SECONDS = 120.0
"""Most seconds until the headers of an answer are complete."""
CONNECTS, SILENCE = 5.0, 30.0
"""Seconds to wait for a connection, and between two pieces of an answer."""
_PLAIN = frozenset({"", "identity"})
_PORTS = {"http": 80, "https": 443}
_UNCLEAN = re.compile(r"[\x00-\x20\x7f\\]")
"""Pattern of characters in a server's name that URL parsers interpret differently."""
_DROPPED = re.compile(r"[\t\r\n]")
"""Pattern of characters that only some URL parsers ignore."""
_DEEPEST = 10


class Overrun(OSError):
    """An answer that is longer or slower than allowed, or compressed without a request for it."""


@dataclass(frozen=True, slots=True)
class _Allowance:
    most: int | None = MOST_BYTES
    seconds: float = SECONDS
    packed: bool = False


_allowance: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def answer_limits(most: int | None, seconds: float, packed: bool = False) -> Iterator[None]:
    """Set the limits of answers to requests that are sent within. `packed` treats a Content-Encoding as a property of
    the file: its bytes are returned unchanged, and never decompressed."""
    token = _allowance.set(_Allowance(most, seconds, packed))
    try:
        yield
    finally:
        _allowance.reset(token)


def bound_answers(session: requests.Session, at_once: int) -> None:
    """Limit all answers to a session. The session follows no redirects, keeps no cookies and requests uncompressed
    bytes."""
    from http.cookiejar import DefaultCookiePolicy

    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *given: Any, **named: Any) -> None:
            super().init_poolmanager(*given, **named)
            self.poolmanager.pool_classes_by_scheme = POOLS

        def proxy_manager_for(self, *given: Any, **named: Any) -> Any:
            manager = super().proxy_manager_for(*given, **named)
            manager.pool_classes_by_scheme = POOLS
            return manager

        def add_headers(self, request: requests.PreparedRequest, **_: Any) -> None:
            """Request uncompressed bytes, except for files that stay compressed, whatever the library would request."""
            if not (_allowance.get() or _Allowance()).packed:
                request.headers["Accept-Encoding"] = "identity"

    for scheme in ("https://", "http://"):
        session.mount(scheme, Adapter(pool_maxsize=at_once))
    session.headers["Accept-Encoding"] = "identity"
    session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))


def bounded_session(at_once: int) -> requests.Session:
    """Return a session that uses proxies and certificates from the environment, but no credentials."""
    import requests

    made = requests.Session()
    bound_answers(made, at_once)
    made.auth = lambda request: request  # else those of a netrc file are sent, for whichever host
    made.verify = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR") or True
    return made


def botocore_session(**named: Any) -> URLLib3Session:
    """Return an HTTP session for botocore with limited answers."""
    from botocore.httpsession import URLLib3Session

    made = URLLib3Session(timeout=(CONNECTS, SILENCE), **named)
    made._pool_classes_by_scheme = made._manager.pool_classes_by_scheme = POOLS
    return made


class _Counted(io.RawIOBase):
    """The bytes of a socket, counted up to the limits."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, allowance: _Allowance) -> None:
        self._raw, self._sock, self._allowance = raw, sock, allowance
        self._silence = sock.gettimeout() or SILENCE
        self._left, self._began = allowance.most, time.monotonic()
        self._seconds = min(HEAD_SECONDS, allowance.seconds)

    def headers_end(self) -> None:
        self._seconds = self._allowance.seconds

    def readable(self) -> bool:
        return True

    def readinto(self, into: Buffer, /) -> int:
        left = self._began + self._seconds - time.monotonic()
        if left <= 0:
            raise self._slow()
        if left < self._silence:
            self._sock.settimeout(left)
        try:
            count = self._raw.readinto(into) or 0
        except TimeoutError:
            if left < self._silence:
                raise self._slow() from None
            raise
        if self._left is not None:
            self._left -= count
            if self._left < 0:
                raise Overrun(f"its answer is over {self._allowance.most:,} bytes")
        return int(count)

    def _slow(self) -> Overrun:
        return Overrun(f"its answer does not end within {self._seconds:g} s")

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    fp: Any

    def __init__(self, sock: socket.socket, *given: Any, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        self._allowance = _allowance.get() or _Allowance(MOST_BYTES, SECONDS)
        self._counted = _Counted(self.fp.detach(), sock, self._allowance)
        self.fp = io.BufferedReader(self._counted)

    def begin(self) -> None:
        super().begin()
        self._counted.headers_end()
        if _header_value(self.headers, "Transfer-Encoding") not in _PLAIN | {"chunked"}:
            raise Overrun("its answer is sent in a transfer encoding that was not asked for")
        if not self._allowance.packed and _header_value(self.headers, "Content-Encoding") not in _PLAIN:
            raise Overrun("its answer is packed (Content-Encoding), which was not asked for")


def _header_value(headers: http.client.HTTPMessage, name: str) -> str:
    return ",".join(headers.get_all(name) or ()).strip().lower()


class _CountedConnection(HTTPConnection):
    response_class = _Answer


class _SecureConnection(HTTPSConnection):
    response_class = _Answer


class _Pool(HTTPConnectionPool):
    ConnectionCls = _CountedConnection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS = {"http": _Pool, "https": _SecurePool}
"""Classes of connections, for a PoolManager of urllib3."""


# ---------------------------------------------------------------- errors and addresses


_LONGEST_SAID = 300


def why(error: BaseException) -> str:
    """Return the message of the exceeded limit, even if libraries wrapped it, or else the error's own message."""
    seen: list[object] = [error]
    for found in seen:
        if isinstance(found, Overrun):
            return str(found)
        if isinstance(found, BaseException) and len(seen) < _DEEPEST:
            seen += [found.__cause__, found.__context__, *found.args, getattr(found, "reason", None)]
    return str(error) or type(error).__name__


def overran(error: BaseException) -> bool:
    """Say whether an error comes from a limit, so that another try would exceed it again."""
    return why(error) != (str(error) or type(error).__name__) or isinstance(error, Overrun)


def server_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address. They are empty if the parser of the check and the parser of the
    connection might disagree about the address."""
    try:
        parts, sent_to = urlsplit(url), parse_url(url)
        host = parts.hostname or ""
        named = parse_url(f"//[{host}]" if ":" in host else f"//{host}").host if host else None
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except (ValueError, LocationParseError):
        return "", "", 0
    if _UNCLEAN.search(parts.netloc) or _DROPPED.search(url):
        return "", "", 0
    agreed = (sent_to.scheme, sent_to.host, sent_to.port or port) == (parts.scheme, named, port)
    return (parts.scheme, (named or "").strip("[]"), port) if agreed else ("", "", 0)


def error_text(error: BaseException) -> str:
    """Return an error's message on one line of bounded length."""
    text = " ".join(why(error).split())
    return text if len(text) <= _LONGEST_SAID else f"{text[:_LONGEST_SAID]}..."


# ---------------------------------------------------------------- client of one server


ATTEMPTS = 4
"""Tries of each request, since the server may be busy or fail for a moment."""
LONGEST_WAIT = 10.0
"""Most seconds between two tries, even if the server asks for more."""
BODY_SECONDS = 3600.0
"""Most seconds for one body, so that a slow server cannot delay a run forever."""
BUSY = frozenset({429, 500, 502, 503, 504})
"""Statuses after which a request is retried, unless the caller names others."""
_MOST_REDIRECTS = 5
_PIECE = 1 << 20
T = TypeVar("T")
_Take = Callable[[str, "requests.Response"], T]
"""A function that extracts the wanted data from an answer and its address."""


class Unreached(Exception):
    """No answer, or an invalid one; the message says why."""


class LedAway(Unreached):
    """A redirect to another server, which is not followed. `url` is its target."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__("it redirects to another server, which is not followed")
        self.url, self.status = url, status


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete answer. `url` is its address after redirects; `body` is None if it was not wanted."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes | None = None


class HttpClient:
    """A client of one server that several threads may use. It has no credentials unless `auth` has some."""

    def __init__(
        self,
        url: str,
        at_once: int,
        *,
        attempts: int | None = None,
        seconds: float | None = None,
        busy: Container[int] = BUSY,
        headers: Mapping[str, str] | None = None,
        auth: Callable[[requests.PreparedRequest], requests.PreparedRequest] | None = None,
    ) -> None:
        self.server = server_of(url)
        self._attempts, self._seconds, self._busy = attempts or ATTEMPTS, seconds or BODY_SECONDS, busy
        self._session = bounded_session(at_once)
        self._session.headers.update({"User-Agent": "pincite", **(headers or {})})
        if auth is not None:
            self._session.auth = auth

    @contextmanager
    def open_answer(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> Iterator[requests.Response]:
        """Yield an answer whose body is not yet read. Raise Unreached."""
        response = self._follow(method, url, dict(headers or {}), content, False, lambda _, response: response)
        try:
            yield response
        finally:
            response.close()

    def fetch(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        most: int,
        packed: bool = False,
        wanted: Callable[[str, requests.Response], bool] = lambda _, response: response.status_code == 200,
    ) -> HttpResponse:
        """Return an answer, with its body of at most `most` bytes if `wanted` returns true for its address and headers.
        An interrupted body is requested again. With `packed`, a gzip file stays compressed. Raise Unreached."""

        def take(at: str, response: requests.Response) -> HttpResponse:
            with response:
                body = b"".join(_pieces(response, most)) if wanted(at, response) else None
                return HttpResponse(at, response.status_code, response.headers, body)

        return self._follow("GET", url, dict(headers or {}), None, packed, take)

    def _follow(
        self, method: str, url: str, headers: dict[str, str], content: bytes | None, packed: bool, take: _Take[T]
    ) -> T:
        """Return the result of `take` for the answer at the end of the redirects, which stay on this server."""
        for _ in range(_MOST_REDIRECTS + 1):
            response, taken = self._send_once(method, url, headers, content, packed, take)
            if taken is not None:
                return taken
            url = joined_address(url, response.headers["location"])
            if server_of(url) != self.server:
                raise LedAway(url, response.status_code)
        raise Unreached(f"it redirects more than {_MOST_REDIRECTS} times")

    def _send_once(
        self, method: str, url: str, headers: dict[str, str], content: bytes | None, packed: bool, take: _Take[T]
    ) -> tuple[requests.Response, T | None]:
        """Return an answer and the result of `take` for it, or None for a redirect."""
        import requests

        for attempt in range(1, self._attempts + 1):
            wait = 0.5 * 2.0**attempt
            try:
                with answer_limits(None, self._seconds, packed):
                    response = self._session.request(
                        method, url, headers=headers, data=content, timeout=(CONNECTS, SILENCE), stream=True
                    )
                if response.is_redirect:
                    response.close()
                    return response, None
                if response.status_code not in self._busy or attempt == self._attempts:
                    return response, take(url, response)
                wait = _asked_wait(response.headers.get("retry-after", ""), wait)
                response.close()
            except (requests.RequestException, HTTPError, OSError, ValueError) as error:
                broken = isinstance(error, requests.ConnectionError | requests.Timeout | HTTPError)
                if attempt == self._attempts or not broken or overran(error):
                    raise Unreached(error_text(error)) from None
            time.sleep(min(wait, LONGEST_WAIT))
        raise AssertionError("the last attempt answers or raises")

    def close(self) -> None:
        self._session.close()


def credentials_of(
    owner: str, url: str, token: str
) -> Callable[[requests.PreparedRequest], requests.PreparedRequest] | None:
    """Return the credentials for a server: the bearer token in the environment variable `token`, or else those for the
    host in the netrc file. `owner` begins the message of an error.

    Raise SettingsError for an address that may not be used, SourceError for missing credentials.
    """
    from requests.auth import HTTPBasicAuth

    scheme, host, _ = server_of(url)
    if not host:
        raise SettingsError(f"{owner}: its path has no host; write {urlsplit(url).scheme}://HOST/")
    if scheme != "https" and not is_loopback(url):
        raise SettingsError(f"{owner}: plain HTTP is allowed only on this machine; use https")
    if token:
        if not (value := os.environ.get(token)):
            raise SourceError(
                f"{owner}: the environment variable {token} is not set; set it to the token", "credentials"
            )
        if not value.isprintable():  # the error of sending it would show it
            told = f"the variable {token} has a line break or another sign that no header may have"
            raise SourceError(f"{owner}: {told}; set it to the token alone", "credentials")
        return _Bearer(value)
    if found := _of_netrc(owner, host):
        user, password = (text.encode() for text in found)  # text would go as Latin-1, which lacks letters
        return HTTPBasicAuth(user, password)
    return None


class _Bearer:
    """A token that is sent with each request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def joined_address(url: str, location: str) -> str:
    """Return the absolute form of an address from a server. Raise Unreached if it is invalid."""
    try:
        return urljoin(url, location)
    except ValueError:
        raise Unreached("it names an address that is none") from None


def body_of(response: requests.Response, most: int | None = None) -> Generator[bytes]:
    """Yield the body in pieces, without decompression. Raise Unreached if it is interrupted, or longer or slower than
    allowed."""
    try:
        yield from _pieces(response, most)
    except (HTTPError, OSError, ValueError) as error:
        raise Unreached(error_text(error)) from None


def _pieces(response: requests.Response, most: int | None) -> Generator[bytes]:
    """Yield the body in pieces. Raise Unreached if it is too long, and the errors of urllib3."""
    size = 0
    for piece in response.raw.stream(_PIECE, decode_content=False):
        size += len(piece)
        if most is not None and size > most:
            raise Unreached(f"it is over {most >> 20} MB" if most >> 20 else f"it is over {most >> 10} KB")
        yield piece


def revision_of(response: requests.Response) -> str:
    """Return the ETag of an answer, or else its modification time and size, or "" if the server sends neither."""
    etag, modified = response.headers.get("etag", ""), response.headers.get("last-modified", "")
    return etag or (f"{modified} {response.headers.get('content-length', '')}" if modified else "")


def same_revision(asked: str, response: requests.Response) -> bool:
    """Say whether an answer has a revision from `revision_of`. An answer without a revision counts as the same."""
    told = revision_of(response)
    return response.status_code not in (404, 410, 412) and told.removeprefix("W/") in ("", asked.removeprefix("W/"))


def if_match(revision: str) -> dict[str, str]:
    """Return the header that requests only this revision, or no header if it is not a strong ETag."""
    return {"If-Match": revision} if revision.startswith('"') else {}


def length_of(told: str) -> int | None:
    """Return the number of bytes from a server's header, or None if it is not a number."""
    return int(told) if told.isascii() and told.isdigit() and len(told) < 19 else None


def _of_netrc(owner: str, host: str) -> tuple[str, str] | None:
    """Return the user and password for exactly this host from the file NETRC, or else from ~/.netrc."""
    file = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    try:
        found = netrc.netrc(str(file)).hosts.get(host)
    except FileNotFoundError:
        return None
    except (OSError, netrc.NetrcParseError) as error:
        told = error.msg if isinstance(error, netrc.NetrcParseError) else error.strerror
        raise SourceError(f"{owner}: {file} cannot be read: {told}", "credentials") from None
    return (found[0], found[2]) if found else None


def _asked_wait(told: str, otherwise: float) -> float:
    """Return the seconds that a server asks to wait, given as a number or a date, or else `otherwise`."""
    if (seconds := length_of(told)) is not None:
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return otherwise
