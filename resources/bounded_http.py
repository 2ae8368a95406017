"""HTTP answers with a limit of bytes and of time, for every library that stands on urllib3: requests, botocore and the
clients of Google and Azure.

The limits hold where bytes come off the socket. So they count everything: status lines that never end, informational
answers, headers, chunks, trailers and bodies of one byte a minute. Nothing is unpacked here, and an answer that is
packed is refused by its headers: a few bytes of gzip may become gigabytes.
"""

from __future__ import annotations

import http.client
import io
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

if TYPE_CHECKING:
    import requests
    from botocore.httpsession import URLLib3Session
    from typing_extensions import Buffer

MOST_BYTES = 64 << 20
"""Bytes of one answer with its headers, where the caller allows no other number. A page of a listing has about 1 MB."""
SECONDS = 600.0
"""Seconds that one answer may take, where the caller allows no other number."""
HEAD_SECONDS = 120.0
"""Seconds until the headers of an answer have come."""
CONNECTS, SILENCE = 5.0, 30.0
"""Seconds to wait for a connection, and between two pieces of an answer."""
_PLAIN = frozenset({"", "identity"})
_PORTS = {"http": 80, "https": 443}
_UNCLEAN = re.compile(r"[\x00-\x20\x7f\\]")
"""Signs in the name of a server that parsers of addresses read differently."""
_DROPPED = re.compile(r"[\t\r\n]")
"""Signs that only one of them leaves out."""
_DEEPEST = 10


class Overrun(OSError):
    """An answer that is longer or slower than it may be, or packed in a way that was not asked for."""


@dataclass(frozen=True, slots=True)
class _Allowance:
    most: int | None = MOST_BYTES
    seconds: float = SECONDS
    packed: bool = False


_allowance: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allowed(most: int | None, seconds: float, packed: bool = False) -> Iterator[None]:
    """Set the limits of answers to requests that are sent within. `packed` takes a Content-Encoding as a property of
    the file: its bytes are given as they come, and never unpacked."""
    token = _allowance.set(_Allowance(most, seconds, packed))
    try:
        yield
    finally:
        _allowance.reset(token)


def bound(session: requests.Session, at_once: int) -> None:
    """Make all answers to a session bounded. It follows no redirects, keeps no cookies and asks for plain bytes."""
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
            """Ask for plain bytes, whatever the library asks for, but for files that are kept packed."""
            if not (_allowance.get() or _Allowance()).packed:
                request.headers["Accept-Encoding"] = "identity"

    for scheme in ("https://", "http://"):
        session.mount(scheme, Adapter(pool_maxsize=at_once))
    session.headers["Accept-Encoding"] = "identity"
    session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))


def bounded_session(at_once: int) -> requests.Session:
    """Return a session that takes proxies and certificates from the environment, and no credentials."""
    import requests

    made = requests.Session()
    bound(made, at_once)
    made.auth = lambda request: request  # else those of a netrc file are sent, for whichever host
    made.verify = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR") or True
    return made


def botocore_session(**named: Any) -> URLLib3Session:
    """Return a sender of botocore's whose answers are bounded."""
    from botocore.httpsession import URLLib3Session

    made = URLLib3Session(timeout=(CONNECTS, SILENCE), **named)
    made._pool_classes_by_scheme = made._manager.pool_classes_by_scheme = POOLS
    return made


def why(error: BaseException) -> str:
    """Return the message of the limit that an answer overran, however libraries wrapped it; else the error's own."""
    seen: list[object] = [error]
    for found in seen:
        if isinstance(found, Overrun):
            return str(found)
        if isinstance(found, BaseException) and len(seen) < _DEEPEST:
            seen += [found.__cause__, found.__context__, *found.args, getattr(found, "reason", None)]
    return str(error) or type(error).__name__


def overran(error: BaseException) -> bool:
    """Tell whether an error is of a limit, so that another try would meet it again."""
    return why(error) != (str(error) or type(error).__name__) or isinstance(error, Overrun)


def server_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address, or empty ones where the parser that decides and the one that
    connects would not agree about it."""
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


class _Counted(io.RawIOBase):
    """The bytes of a socket, as far as they are allowed."""

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
        if _named(self.headers, "Transfer-Encoding") not in _PLAIN | {"chunked"}:
            raise Overrun("its answer is sent in a transfer encoding that was not asked for")
        if not self._allowance.packed and _named(self.headers, "Content-Encoding") not in _PLAIN:
            raise Overrun("its answer is packed (Content-Encoding), which was not asked for")


def _named(headers: http.client.HTTPMessage, name: str) -> str:
    return ",".join(headers.get_all(name) or ()).strip().lower()


class _Connection(HTTPConnection):
    response_class = _Answer


class _SecureConnection(HTTPSConnection):
    response_class = _Answer


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS = {"http": _Pool, "https": _SecurePool}
"""Classes of connections, as a PoolManager of urllib3 takes them."""
