"""Calls of an OpenAI-compatible endpoint: the bounded connection, the requests, the replies, and the errors.

A request contains only its own data and the key of the settings, and nothing that the openai client would read from the
environment. A reply is bounded in bytes and time, and redirects are not followed, since they would take the documents'
text along.

A key is read for each call and never stored. Endpoints may repeat it in their errors, and the client's exceptions
contain the request, so error texts are masked and exceptions are not chained.
"""

from __future__ import annotations

import base64
import email.utils
import importlib
import json
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pipelines.errors import ModelError, SettingsError
from pipelines.llm.prompts import estimated_tokens, prompt_tokens
from pipelines.ports import Prompt, Reply
from pipelines.settings.models import LlmSettings, Role, is_loopback, require_private

if TYPE_CHECKING:
    from openai import APIError, APIStatusError


# ---------------------------------------------------------------- endpoint client
#
# The openai client over a bounded connection. Headers that it reads from the environment (organisation, project,
# another key, cookies) are removed. The bounds hold for replies of any status.


NO_KEY = "none"
"""Text that is sent in place of a missing key: many servers require some key."""
MOST_BYTES = 1 << 24
"""Most bytes of a reply if the caller sets no other limit."""
_SENT = frozenset(
    {"host", "content-type", "content-length", "transfer-encoding", "accept", "connection", "user-agent"}
    # The client notes its caller's wishes for the reply in this header.
    | {"x-stainless-raw-response"}
)
_LONGEST_HOST = 100
_GRACE_SECONDS = 1.0
"""Seconds after the time limit at which the watch closes a connection, so that the socket's own timeout ends a silent
one first."""
_CONNECTED = ("connect_tcp.complete", "start_tls.complete")

_allowed: ContextVar[tuple[int, float]] = ContextVar("allowed", default=(MOST_BYTES, 0.0))
"""Most bytes of a reply, and seconds in addition to the client's timeout."""


class NotRead(Exception):
    """The error for a reply that was not read. kind: `large` (or compressed, so its size is unknown), `slow`, `moved`
    (a redirect)."""

    def __init__(self, kind: Literal["large", "slow", "moved"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


@contextmanager
def at_most(size: int, more_seconds: float = 0.0) -> Iterator[None]:
    """Limit replies to requests in this context to `size` bytes, with `more_seconds` in addition to the timeout, for
    large files."""
    token = _allowed.set((size, more_seconds))
    try:
        yield
    finally:
        _allowed.reset(token)


def endpoint_client(address: str, key: Callable[[], str], *, timeout: float, retries: int, setting: str) -> Any:
    """Make an openai client of one endpoint; `setting` is the section with its address and key.

    Raise SettingsError if a key would be sent unencrypted.
    """
    import openai

    require_private(address, key(), setting)
    here = is_loopback(address)
    # Nothing is encrypted over plain HTTP without a proxy, and a machine's certificates take 50 to 100 ms to read.
    may_encrypt = not (here and urlsplit(address).scheme == "http")
    connection = _connection()(key, timeout, trust_env=not here, verify=may_encrypt)
    return openai.OpenAI(base_url=address, api_key=NO_KEY, max_retries=retries, timeout=timeout, http_client=connection)


def post(client: Any, path: str, body: Mapping[str, Any]) -> bytes:
    """Return the reply to a request for which the client has no method, or to which the caller adds fields."""
    raw = {"headers": {"X-Stainless-Raw-Response": "true"}}
    reply: bytes = client.post(path, body=dict(body), cast_to=object, options=raw).content
    return reply


def fetch(client: Any, path: str) -> bytes:
    """Return the reply to a request that sends only the key."""
    raw = {"headers": {"X-Stainless-Raw-Response": "true"}}
    reply: bytes = client.get(path, cast_to=object, options=raw).content
    return reply


@cache
def _connection() -> Any:
    """Return the class of connections, made from the HTTP library that this openai client uses."""
    import openai

    base: Any = openai.DefaultHttpxClient
    http = importlib.import_module(base.__mro__[1].__module__.partition(".")[0])
    stream_base: Any = http.SyncByteStream

    class Bounded(stream_base):  # type: ignore[misc]
        """The bytes of a reply, up to the limits."""

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

    class BoundedConnection(base):  # type: ignore[misc]
        def __init__(self, key: Callable[[], str], seconds: float, trust_env: bool, verify: bool) -> None:
            super().__init__(follow_redirects=False, trust_env=trust_env, timeout=seconds, verify=verify)
            self._key, self._seconds = key, seconds
            self._opened: list[Any] = []

        def send(self, request: Any, *, stream: bool = False, **_: Any) -> Any:
            _only_ours(request, self._key())
            watch = _Watch(self._seconds + _allowed.get()[1], self._opened)
            request.extensions = {**request.extensions, "trace": watch.trace}
            try:
                return self._send(request, stream, watch)
            except BaseException as error:
                watch.end()
                if watch.is_over and isinstance(error, (NotRead, http.TransportError)):
                    # The client then sees a time out, and tries again.
                    raise http.ReadTimeout("the reply did not end in its time", request=request) from None
                raise

        def _send(self, request: Any, stream: bool, watch: _Watch) -> Any:
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

    return BoundedConnection


class _Watch:
    """A limit on the time of one call, including headers: a server could avoid the socket's timeout by sending single
    bytes."""

    def __init__(self, seconds: float, opened: list[Any]) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._opened = opened
        self._own: list[Any] = []
        self._timer = threading.Timer(seconds + _GRACE_SECONDS, self._hang_up)
        self._timer.daemon = True
        self._timer.start()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Note each connection that the HTTP library opens; the library calls this method for every step."""
        if event.endswith(_CONNECTED):
            self._opened[:] = [*(stream for stream in self._opened if _number(stream) >= 0), info["return_value"]]
            self._own = [info["return_value"]]

    def only(self, stream: Any) -> None:
        """Record that the reply has begun on this connection."""
        self._own = [stream] if stream is not None else self._own

    def end(self) -> None:
        self._timer.cancel()

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._end

    def require_time(self) -> None:
        if self.is_over:
            raise NotRead("slow", f"it did not end its reply within {self._seconds:g} s")

    def _hang_up(self) -> None:
        # Which open connection is reused is known only with the reply. Before it, all of the endpoint's connections are
        # ended.
        for stream in self._own or list(self._opened):
            with suppress(OSError, AttributeError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


def _number(stream: Any) -> int:
    """Return the file descriptor of a connection's socket, or -1 if it is closed."""
    found = stream.get_extra_info("socket")
    return found.fileno() if found is not None else -1


def _only_ours(request: Any, key: str) -> None:
    for name in list(request.headers):
        if name.lower() not in _SENT:
            del request.headers[name]
    request.headers["Authorization"] = f"Bearer {key or NO_KEY}"
    request.headers["Accept-Encoding"] = "identity"  # a few compressed bytes may become gigabytes


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
    """Return the host of an address without its other parts, which may be secret."""
    try:
        return (urlsplit(location).hostname or "")[:_LONGEST_HOST]
    except ValueError:
        return ""


# ---------------------------------------------------------------- endpoint


T = TypeVar("T")

MALFORMED = "malformed"
"""Value of `finish` for an answer that is not a chat completion."""

_SHORTEST_SECRET = 16
"""Fewest characters of a key that is removed from answers. Shorter keys are words such as `local` for endpoints that
require some key, and a reply may contain these."""
_PASSING = frozenset({408, 409, 425, 429})
_HOPELESS = frozenset({401, 402, 403, 404})
_LONGEST_ERROR = 300
_LONGEST_FINISH = 40
_MOST_TOKENS = 1 << 40
_LEAST_LOGPROB = -9999.0
_SENDABLE = re.compile("[\x21-\x7e]+")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class CallFailed(Exception):
    """The error for a call without an answer. code: `unreachable` or `rejected`, as in ports.NoReply. `passing` is true
    if the same call may succeed later, after `retry_after` seconds if the endpoint says so; `hopeless` if other prompts
    would fail too; `status` is the HTTP status, 0 if there was no response."""

    def __init__(
        self, message: str, code: str = "unreachable", passing: bool = True, hopeless: bool = False, status: int = 0
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.passing, self.hopeless, self.status = message, code, passing, hopeless, status
        self.retry_after: float | None = None

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply with its use of tokens; `estimated_tokens` counts the tokens, of both kinds, that the endpoint did not
    report."""

    reply: Reply
    prompt_tokens: int
    completion_tokens: int
    estimated_tokens: int = 0


def request_body(role: Role, prompt: Prompt, temperature: float | None) -> dict[str, Any]:
    """Return the JSON of a chat completion's request."""
    content: Any = prompt.user
    if prompt.images:
        content = [{"type": "text", "text": prompt.user}]
        content += [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in prompt.images]
    system = [{"role": "system", "content": prompt.system}] if prompt.system else []
    body = {"model": role.model, "messages": [*system, {"role": "user", "content": content}],
            role.completion_limit: prompt.most_tokens}  # fmt: skip
    if temperature is not None:
        body["temperature"] = temperature
    if prompt.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": prompt.top_logprobs}
    return body


def _data_url(image: bytes) -> str:
    kind = "png" if image.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


class Endpoint:
    """The endpoint of a role. Threads share one client, which does not retry."""

    def __init__(self, role: Role, settings: LlmSettings) -> None:
        self.role, self.settings = role, settings
        self.where = f"the language model endpoint {_address_text(role.base_url)} (model {role.model!r})"
        self._lock = threading.Lock()
        self._client: Any = None

    def complete(self, prompt: Prompt, temperature: float | None) -> Completion:
        """Request one completion. Raise CallFailed."""
        body = request_body(self.role, prompt, temperature)
        read = _json(self._without_key(self.call(lambda client: self._read(client, body))))
        if isinstance(read, dict) and read.get("error") and not read.get("choices"):
            raise self._error_in_answer(read["error"])
        made = completion(read, prompt)
        if prompt.top_logprobs and not made.reply.logprobs and made.reply.finish in ("stop", "length"):
            # Not kept as a reply: the same endpoint may be set up to report them.
            raise CallFailed(
                f"{self.where} told no token probabilities; take another in llm.roles.{self.role.name}, or the "
                "reranker 'listwise'",
                "no_logprobs",
                passing=False,
                hopeless=True,
            )
        return made

    def call(self, ask: Callable[[Any], T]) -> T:
        """Return the result of `ask(client)`. Raise CallFailed for any error in it."""
        key = self._key()
        failed: CallFailed
        if not _SENDABLE.fullmatch(key):
            raise self._unusable_key()  # libraries log values that they cannot send
        try:
            return ask(self._shared_client())
        except SettingsError:
            raise
        except CallFailed as error:
            failed = error
        except NotRead as error:
            failed = self._not_read(error)
        except Exception as error:
            failed = self._failure(error, key)
        # Raised outside the handler: an error raised in it would carry the client's exception, which holds the request.
        raise failed

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _shared_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = endpoint_client(
                    self.role.base_url,
                    self._given_key,
                    timeout=self.settings.timeout_seconds,
                    retries=0,
                    setting=f"llm.roles.{self.role.name}, or llm,",
                )
            return self._client

    @staticmethod
    def _read(client: Any, body: Mapping[str, Any]) -> bytes:
        create = client.chat.completions.with_streaming_response.create
        with create(**body) as response:
            return b"".join(response.iter_bytes())

    # ------------------------------------------------------------ errors

    def _failure(self, error: Exception, key: str) -> CallFailed:
        import openai

        if isinstance(error, openai.APIStatusError):
            return self._refusal(error, key)
        if isinstance(error, openai.APITimeoutError):
            return CallFailed(f"{self.where} did not answer within llm.timeout_seconds "
                              f"({self.settings.timeout_seconds:g})")  # fmt: skip
        transport = type(error).__module__.partition(".")[0].startswith(("httpx", "httpcore"))
        kind = type(error.__cause__ or error).__name__
        if isinstance(error, (openai.APIConnectionError, OSError)) or transport:
            return CallFailed(f"{self.where} did not answer: {kind}; check that it runs and that llm.base_url is right")
        return CallFailed(f"{self.where} cannot be asked: {kind}; check llm.base_url", "rejected", False, True)

    def _not_read(self, error: NotRead) -> CallFailed:
        if error.kind == "slow":
            return CallFailed(f"{self.where} did not end its answer within llm.timeout_seconds "
                              f"({self.settings.timeout_seconds:g})")  # fmt: skip
        moved = error.kind == "moved"
        remedy = "; check llm.base_url" if moved else ""
        return CallFailed(f"{self.where} cannot be asked: {error}{remedy}", "rejected" if moved else "unreachable",
                          passing=False, hopeless=moved)  # fmt: skip

    def _unusable_key(self) -> CallFailed:
        said = f"the key in the environment variable {self.role.api_key_env} has characters that a key cannot have"
        return CallFailed(f"{self.where} cannot be asked: {said}", "rejected", passing=False, hopeless=True)

    def _refusal(self, error: Any, key: str) -> CallFailed:
        status, spent = int(error.status_code), error.code == "insufficient_quota"
        body = error.body if isinstance(error.body, dict) else {}
        said = mask_key(_plain(body.get("message")) or _plain(error.message), key)
        passing = (status in _PASSING or (status >= 500 and status != 501)) and not spent
        hopeless = status in _HOPELESS or spent
        remedy = ""
        if status in (401, 403):
            named = self.role.api_key_env
            remedy = (
                f"; check the key in the environment variable {named}" if named
                else f"; no key was sent: name its variable in api_key_env, of llm or of llm.roles.{self.role.name}"
            )  # fmt: skip
        elif status == 404:
            remedy = "; check llm.base_url and the model's name"
        failed = CallFailed(
            f"{self.where} answered {status}: {said}{remedy}",
            "unreachable" if passing else "rejected", passing, hopeless, status,
        )  # fmt: skip
        failed.retry_after = retry_after(error.response.headers, time.time())
        return failed

    def _error_in_answer(self, error: Any) -> CallFailed:
        """Return the error in an answer with status 200: some gateways send the errors of their models in this way."""
        said = (error.get("message") or error.get("code")) if isinstance(error, dict) else error
        return CallFailed(f"{self.where} answered with an error: {self.safe(said)}")

    def safe(self, said: object) -> str:
        """Return the endpoint's message, without its key."""
        return mask_key(_plain(said) or "it does not say which", self._key())

    def _without_key(self, answer: bytes) -> bytes:
        """Remove the key from an answer: some gateways repeat the request in it, including its headers."""
        key = self._key()
        return answer.replace(key.encode(), b"***") if len(key) >= _SHORTEST_SECRET else answer

    def _key(self) -> str:
        return self._given_key() or NO_KEY

    def _given_key(self) -> str:
        return os.environ.get(self.role.api_key_env, "").strip() if self.role.api_key_env else ""


def _address_text(url: str) -> str:
    """Return an address without its user, password and query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def mask_key(text: str, key: str) -> str:
    """Return one line of bounded length without the endpoint's key."""
    text = text.replace(key, "***") if key != NO_KEY else text
    text = re.sub(r"(?i)(bearer)\s+[^\s\"',}]+", r"\1 ***", text)
    return storable(" ".join(text.split()))[:_LONGEST_ERROR]


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds from `now` (Unix time) that the endpoint asks to wait, or None."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


# ---------------------------------------------------------------- the answer


def storable(text: str) -> str:
    """Remove the characters that Postgres does not store: NUL, and halves of surrogate pairs."""
    return _UNSTORABLE.sub("", text)


def _plain(value: object) -> str:
    """Return a text of a reply in a form that can be stored; "" if the value is not a text.

    A list or mapping is not converted, since that would fail if it is deeply nested.
    """
    return storable(value) if isinstance(value, str) else ""


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return None


def completion(read: Any, prompt: Prompt | None) -> Completion:
    """Return the first choice of a chat completion, parsed from JSON; MALFORMED if there is no choice.

    Missing token counts are estimated, for the prompt only if `prompt` is given.
    """
    read = read if isinstance(read, dict) else {}
    choices = read.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    message = choice.get("message") if choice else None
    if choice and isinstance(message, dict):
        finish = _plain(choice.get("finish_reason"))[:_LONGEST_FINISH] or "stop"
        reply = Reply(storable(_text(message.get("content"))), finish, _first_logprobs(choice.get("logprobs")))
    else:
        reply = Reply("", MALFORMED)
    usage = read.get("usage") if isinstance(read.get("usage"), dict) else {}
    counts, estimated = [], 0
    for name, estimate in (
        ("prompt_tokens", prompt_tokens(prompt) if prompt else 0),
        ("completion_tokens", estimated_tokens(reply.text)),
    ):
        told = usage.get(name)
        if type(told) is int and 0 <= told < _MOST_TOKENS:
            counts.append(told)
        else:
            counts.append(estimate)
            estimated += estimate
    return Completion(reply, counts[0], counts[1], estimated)


def _text(content: Any) -> str:
    """Return a message's content: a text, or the texts among its parts."""
    if isinstance(content, list):
        return "".join(_plain(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _first_logprobs(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """Return (token, natural logarithm of its probability) for the alternatives of the first token."""
    try:
        first = logprobs["content"][0]
        pairs = [(item["token"], float(item["logprob"])) for item in first.get("top_logprobs") or [first]]
    except (TypeError, LookupError, ValueError, AttributeError, OverflowError):
        return ()
    return tuple(
        (_plain(token), min(value, 0.0) if math.isfinite(value) else _LEAST_LOGPROB) for token, value in pairs
    )  # fmt: skip


# ---------------------------------------------------------------- endpoint faults
#
# The errors for an endpoint of models that did not answer: each says what happened and what to do.


_LONGEST_PAUSE_SECONDS = 60.0
"""Longest pause in seconds that the client makes at an endpoint's request."""


class LeaveAlone(ModelError):
    """The error for an endpoint that asks for a longer pause than a run makes."""


def refusal(error: APIStatusError, where: str, section: str) -> ModelError:
    """Return the error for an endpoint that refuses this sender, or temporarily all senders. `section` names the
    settings of its address, model and key."""
    said, wait = f"{where} answered {error.status_code}", retry_after(error.response.headers, time.time())
    if error.status_code != 429 and error.status_code < 500:
        names = ("endpoint", "model", "api_key_env")
        return ModelError(f"{said}; check the address, model and key ({', '.join(f'{section}.{n}' for n in names)})")
    busy = ", too many requests" if error.status_code == 429 else ""
    asks = f", and asks to be left alone for {wait:,.0f} s" if wait and wait >= 1 else ""
    kind = LeaveAlone if wait and wait > _LONGEST_PAUSE_SECONDS else ModelError
    return kind(f"{said}{busy}{asks}; run again later", "unreachable")


def not_read(error: NotRead, where: str) -> ModelError:
    return ModelError(
        f"{where} cannot be called: {error}; check its settings", "model" if error.kind == "moved" else "unreachable"
    )


def silent(error: APIError, where: str) -> ModelError:
    return ModelError(f"{where} did not answer: {type(error).__name__}; check that it is running", "unreachable")
