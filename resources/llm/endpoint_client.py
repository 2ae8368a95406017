"""The one way to an endpoint of models: the openai client over a connection that is held to what was asked.

A request carries what it needs and our key, and nothing that the client reads from the environment (organisation,
project, headers, another key, cookies). A reply, whatever its status, has so many bytes and so much time; a redirect
is not followed, since it would take the documents' text along.
"""

from __future__ import annotations

import importlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

from pipelines.settings.models import is_loopback, require_private

NO_KEY = "none"
"""What is sent where there is no key: many servers want any."""
MOST_BYTES = 1 << 24
"""Of a reply for which nothing else is said."""
_SENT = frozenset(
    {"host", "content-type", "content-length", "transfer-encoding", "accept", "connection", "user-agent"}
    # By which the client remembers what its caller wants of the reply.
    | {"x-stainless-raw-response"}
)
_LONGEST_HOST = 100
_GRACE_SECONDS = 1.0
"""A silent server is left by the time out of the socket, before the watch ends it."""
_CONNECTED = ("connect_tcp.complete", "start_tls.complete")

_allowed: ContextVar[tuple[int, float]] = ContextVar("allowed", default=(MOST_BYTES, 0.0))
"""Bytes of a reply, and seconds beyond those of the client."""


class NotRead(Exception):
    """A reply that was not taken. kind: `large` (or compressed, and so of any size), `slow`, `moved` (a redirect)."""

    def __init__(self, kind: Literal["large", "slow", "moved"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def at_most(size: int, more_seconds: float = 0.0) -> Iterator[None]:
    """Replies to what is asked within have so many bytes at most, and so many seconds more, as a large file needs."""
    token = _allowed.set((size, more_seconds))
    try:
        yield
    finally:
        _allowed.reset(token)


def endpoint_client(address: str, key: Callable[[], str], *, timeout: float, retries: int, setting: str) -> Any:
    """An openai client of one endpoint; `setting` names where its address and key stand.

    Raises SettingsError where a key would be sent in the clear."""
    import openai

    require_private(address, key(), setting)
    connection = _connection()(key, timeout, trust_env=not is_loopback(address))
    return openai.OpenAI(base_url=address, api_key=NO_KEY, max_retries=retries, timeout=timeout, http_client=connection)


def posted(client: Any, path: str, body: Mapping[str, Any]) -> bytes:
    """The reply to a request that the client has no method for, or one that adds to it."""
    raw = {"headers": {"X-Stainless-Raw-Response": "true"}}
    reply: bytes = client.post(path, body=dict(body), cast_to=object, options=raw).content
    return reply


def fetched(client: Any, path: str) -> bytes:
    """The reply to a request that sends nothing but the key."""
    raw = {"headers": {"X-Stainless-Raw-Response": "true"}}
    reply: bytes = client.get(path, cast_to=object, options=raw).content
    return reply


@cache
def _connection() -> Any:
    """The class of connections, made from the HTTP library that this openai client speaks."""
    import openai

    base: Any = openai.DefaultHttpxClient
    http = importlib.import_module(base.__mro__[1].__module__.partition(".")[0])
    stream_base: Any = http.SyncByteStream

    class Bounded(stream_base):  # type: ignore[misc]
        """The bytes of a reply, as far as they may go."""

        def __init__(self, stream: Any, most: int, watch: _Watch) -> None:
            self._stream, self._most, self._watch = stream, most, watch

        def __iter__(self) -> Iterator[bytes]:
            left = self._most
            try:
                for part in self._stream:
                    left -= len(part)
                    if left < 0:
                        raise NotRead("large", f"its reply has more than the {self._most:,} bytes that it may have")
                    yield part
                    self._watch.require_time()
            except http.TransportError:
                self._watch.require_time()
                raise

        def close(self) -> None:
            self._watch.end()
            self._stream.close()

    class Connection(base):  # type: ignore[misc]
        def __init__(self, key: Callable[[], str], seconds: float, trust_env: bool) -> None:
            super().__init__(follow_redirects=False, trust_env=trust_env, timeout=seconds)
            self._key, self._seconds = key, seconds
            self._opened: list[Any] = []

        def send(self, request: Any, *, stream: bool = False, **_: Any) -> Any:
            _only_ours(request, self._key())
            watch = _Watch(self._seconds + _allowed.get()[1], self._opened)
            request.extensions = {**request.extensions, "trace": watch.trace}
            try:
                return self._sent(request, stream, watch)
            except BaseException as error:
                watch.end()
                if watch.over and isinstance(error, (NotRead, http.TransportError)):
                    # The client takes this for what it is, and tries again.
                    raise http.ReadTimeout("the reply did not end in its time", request=request) from None
                raise

        def _sent(self, request: Any, stream: bool, watch: _Watch) -> Any:
            response = super().send(request, stream=True, follow_redirects=False)
            try:
                _require_plain(response)
                watch.only(response.extensions.get("network_stream"))
                response.stream = Bounded(response.stream, _allowed.get()[0], watch)
                if not stream:
                    response.read()
            except BaseException:
                response.close()
                raise
            return response

    return Connection


class _Watch:
    """The time of one call, headers included: a server may send one byte before every time out of the socket."""

    def __init__(self, seconds: float, opened: list[Any]) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._opened = opened
        self._own: list[Any] = []
        self._timer = threading.Timer(seconds + _GRACE_SECONDS, self._hang_up)
        self._timer.daemon = True
        self._timer.start()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Called by the HTTP library with what it does; connections that it opens are told."""
        if event.endswith(_CONNECTED):
            self._opened[:] = [*(stream for stream in self._opened if _number(stream) >= 0), info["return_value"]]
            self._own = [info["return_value"]]

    def only(self, stream: Any) -> None:
        """The reply has begun, over this connection."""
        self._own = [stream] if stream is not None else self._own

    def end(self) -> None:
        self._timer.cancel()

    @property
    def over(self) -> bool:
        return time.monotonic() > self._end

    def require_time(self) -> None:
        if self.over:
            raise NotRead("slow", f"it did not end its reply within {self._seconds:g} s")

    def _hang_up(self) -> None:
        # Which connection was taken again is told with the reply only; before it, all of the endpoint's are ended.
        for stream in self._own or list(self._opened):
            with suppress(OSError, AttributeError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


def _number(stream: Any) -> int:
    """The descriptor of a connection's socket; -1 where it is closed."""
    found = stream.get_extra_info("socket")
    return found.fileno() if found is not None else -1


def _only_ours(request: Any, key: str) -> None:
    for name in list(request.headers):
        if name.lower() not in _SENT:
            del request.headers[name]
    request.headers["Authorization"] = f"Bearer {key or NO_KEY}"
    request.headers["Accept-Encoding"] = "identity"  # a few bytes may become gigabytes


def _require_plain(response: Any) -> None:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise NotRead("large", "its reply is compressed, which was not asked for")
    if 300 <= response.status_code < 400:
        host = _host(response.headers.get("location", ""))
        raise NotRead(
            "moved",
            f"it answered {response.status_code}, which leads to {host or 'another address of its own'}; redirects are "
            "not followed, since they would take what is sent along",
        )


def _host(location: str) -> str:
    """Of an address, without what else it may hold."""
    try:
        return (urlsplit(location).hostname or "")[:_LONGEST_HOST]
    except ValueError:
        return ""
