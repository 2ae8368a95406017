"""What goes to an endpoint of models, and how much of what it says is read."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import ModelError, SettingsError
from pipelines.evaluation.matrix import MatrixRun, settings_of
from pipelines.ports import Prompt
from pipelines.settings.base import settings_from
from pipelines.settings.models import EmbedderSettings, LlmSettings, is_loopback, key_variable, recorded_variable
from resources.llm import endpoint as module
from resources.llm.endpoint import MOST_BYTES, CallFailed, Endpoint, NotRead, at_most, endpoint_client
from resources.models.embedders.endpoint import EndpointEmbedder
from resources.models.embedders.specs import named_spec
from tests.support.time_over import time_over
from tests.support.waiting import AT_ONCE_SECONDS, HANG_SECONDS

Say = Callable[[socket.socket], None]
PART = b"x" * 65536


class RawServer:
    """Says the same to every connection; keeps what it was asked, and counts what it could say."""

    def __init__(self, say: Say) -> None:
        self.asked: list[bytes] = []
        self._speaking: list[threading.Thread] = []
        self._say = say
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Returns when nobody is spoken to any more."""
        self._listener.close()
        for thread in [thread for thread in self._speaking if thread.ident]:
            thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                thread = threading.Thread(target=self._one, args=(self._listener.accept()[0],), daemon=True)
                self._speaking.append(thread)
                thread.start()

    def _one(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                data += client.recv(65536)
            head, _, body = data.partition(b"\r\n\r\n")
            size = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
            )
            while len(body) < size:
                body += client.recv(65536)
            self.asked.append(head + b"\r\n\r\n" + body)
            self._say(client)


@contextmanager
def serving(say: Say) -> Iterator[RawServer]:
    server = RawServer(say)
    try:
        yield server
    finally:
        server.close()


def answer(body: bytes, status: str = "200 OK", *headers: str) -> Say:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return lambda client: client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def endless(status: str, said: list[int], start: bytes = b"") -> Say:
    """A body without end; how many bytes of it were taken is put into `said`."""

    def say(client: socket.socket) -> None:
        client.sendall(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n".encode() + start)
        sent = 0
        try:
            while sent < 1 << 32:
                client.sendall(PART)
                sent += len(PART)
        finally:
            said.append(sent)

    return say


def dripping(text: bytes) -> Say:
    """One byte every tenth of a second, for as long as somebody listens."""

    def say(client: socket.socket) -> None:
        client.sendall(text)
        while True:
            client.sendall(b"a")
            threading.Event().wait(0.1)

    return say


def embedder(url: str, **settings: Any) -> EndpointEmbedder:
    chosen = EmbedderSettings(endpoint=url, model="m", **settings)
    made = EndpointEmbedder(named_spec(chosen), chosen)
    made._client.max_retries = 0
    return made


def written(url: str, **settings: Any) -> Any:
    chosen = LlmSettings(
        base_url=url, model="m", timeout_seconds=settings.pop("timeout_seconds", HANG_SECONDS), **settings
    )
    return Endpoint(chosen.role("answer"), chosen).complete(Prompt("", "Who keeps the key?", 10), 0.0)


# ---------------------------------------------------------------- keys

ENVIRONMENT = {
    "OPENAI_API_KEY": "canary-key", "OPENAI_ADMIN_KEY": "canary-admin", "OPENAI_ORG_ID": "canary-organisation",
    "OPENAI_PROJECT_ID": "canary-project", "OPENAI_BASE_URL": "http://canary.example/v1",
    "OPENAI_CUSTOM_HEADERS": "X-Canary: canary-header\nAuthorization: Bearer canary-custom",
    "HTTP_PROXY": "http://canary.example:1", "http_proxy": "http://canary.example:1", "ALL_PROXY": "socks5://canary:1",
}  # fmt: skip


@pytest.mark.defends("5c")
def test_nothing_of_the_environment_goes_to_an_endpoint_that_was_given_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with serving(answer(b"{}")) as server:
        with suppress(CallFailed):
            written(server.url)
        with suppress(ModelError):
            embedder(server.url).queries(["a"])
        client = endpoint_client(server.url, lambda: "", timeout=HANG_SECONDS, retries=0, setting="llm")
        for ask in (
            lambda: client.files.create(file=("a", b"x"), purpose="batch"),
            lambda: list(client.batches.list()),
            lambda: client.files.with_streaming_response.content("f").__enter__(),
        ):
            with suppress(Exception):
                ask()
    assert len(server.asked) == 5
    for asked in server.asked:
        assert b"canary" not in asked.lower()
        assert b"authorization: bearer none\r\n" in asked.lower()


def test_a_key_that_is_given_is_sent_and_nothing_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENVIRONMENT, "OURS": "sk-ours"}.items():
        monkeypatch.setenv(name, value)
    with serving(answer(b"{}")) as server:
        with suppress(CallFailed):
            written(server.url, api_key_env="OURS")
        with suppress(ModelError):
            embedder(server.url, api_key_env="OURS").queries(["a"])
    assert len(server.asked) == 2
    for asked in server.asked:
        assert b"Bearer sk-ours\r\n" in asked
        assert b"canary" not in asked.lower()


@pytest.mark.defends("5c")
@pytest.mark.parametrize(
    ("address", "given", "variable"),
    [
        ("https://api.openai.com/v1", None, "OPENAI_API_KEY"), ("https://api.openai.com:443", None, "OPENAI_API_KEY"),
        ("https://api.openai.com/v1", "MINE", "MINE"), ("https://api.openai.com/v1", "", ""),
        ("http://api.openai.com/v1", None, ""), ("https://api.openai.com:444/v1", None, ""),
        ("https://api.openai.com.example/v1", None, ""), ("https://openai.com/v1", None, ""),
        ("https://api.openai.com@example.org/v1", None, ""), ("http://127.0.0.1/v1", None, ""),
        ("https://API.OpenAI.com/v1", None, "OPENAI_API_KEY"), ("https://example.org/?api.openai.com", None, ""),
    ],
)  # fmt: skip
def test_the_provider_gets_its_own_key_and_others_the_one_they_were_given(
    address: str, given: str | None, variable: str
) -> None:
    assert key_variable(address, given) == variable


@pytest.mark.defends("5c")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"embedder": {"endpoint": "http://gpu/v1", "model": "m", "api_key_env": "KEY"}}, "embedder"),
        ({"llm": {"base_url": "http://10.0.0.7/v1", "model": "m", "api_key_env": "KEY"}}, "llm"),
        ({"llm": {"base_url": "https://a.example/v1", "model": "m",
                  "roles": {"answer": {"base_url": "http://b.example/v1", "api_key_env": "KEY"}}}}, "llm.roles.answer"),
        ({"llm": {"base_url": "http://b.example/v1", "model": "m", "roles": {"rerank": {"api_key_env": "KEY"}}}},
         "llm.roles.rerank"),
    ],
)  # fmt: skip
def test_a_key_over_plain_http_is_refused_before_anything_is_sent(values: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=f"{named} would send its key over plain HTTP"):
        settings_from(values)


def test_a_client_refuses_the_same_of_a_recorded_endpoint() -> None:
    with pytest.raises(SettingsError, match="embedder would send its key"):
        endpoint_client("http://192.0.2.1/v1", lambda: "sk", timeout=HANG_SECONDS, retries=0, setting="embedder")


@pytest.mark.parametrize(
    "address", ["http://localhost/v1", "http://127.0.0.1:80", "http://127.9.9.9", "http://[::1]:1/v1"]
)
def test_loopback_is_private(address: str) -> None:
    assert is_loopback(address)
    settings_from({"llm": {"base_url": address, "model": "m", "api_key_env": "KEY"}})


@pytest.mark.parametrize(
    "address", ["http://localhost.example", "http://0.0.0.0", "http://127.0.0.1.example", "http://10.1"]
)
def test_an_address_that_only_looks_like_loopback_is_not_loopback(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize(
    ("address", "checked"),
    [("https://localhost:1/v1", True), ("https://a.example/v1", True), ("http://a.example/v1", True),
     ("http://localhost:1/v1", False), ("http://127.0.0.1:1/v1", False)],
)  # fmt: skip
def test_certificates_are_checked_wherever_a_call_may_be_encrypted(address: str, checked: bool) -> None:
    """A proxy may be asked over TLS where the endpoint is plain HTTP, but none is asked for this machine."""
    client = endpoint_client(address, lambda: "", timeout=HANG_SECONDS, retries=0, setting="llm")
    context = client._client._transport._pool._ssl_context
    assert (context.verify_mode is ssl.CERT_REQUIRED) is checked and bool(context.get_ca_certs()) is checked


def test_a_variable_recorded_by_an_earlier_version_is_not_a_given_key() -> None:
    here, there = "https://here.example/v1", "https://there.example/v1"
    assert recorded_variable("OPENAI_API_KEY", here, None, here) is None
    assert recorded_variable("OPENAI_API_KEY", there, "OPENAI_API_KEY", here) is None
    assert recorded_variable("OPENAI_API_KEY", here, "OPENAI_API_KEY", here) == "OPENAI_API_KEY"
    assert recorded_variable("OTHER", there, None, here) == "OTHER"


@pytest.mark.parametrize(
    ("over", "keys"),
    [
        ({}, ("E", "L", "R")), ({"embedder": {"endpoint": "https://x.example/v1"}}, (None, "L", "R")),
        ({"llm": {"base_url": "https://x.example/v1"}}, ("E", "", "")),
        ({"llm": {"base_url": "https://x.example/v1", "api_key_env": "X"}}, ("E", "X", "X")),
        ({"llm": {"roles": {"rerank": {"base_url": "https://x.example/v1"}}}}, ("E", "L", "")),
    ],
)  # fmt: skip
def test_a_run_of_a_matrix_takes_no_key_to_another_endpoint(over: dict[str, Any], keys: tuple[str | None, ...]) -> None:
    base = settings_from({
        "embedder": {"endpoint": "https://e.example/v1", "model": "m", "api_key_env": "E"},
        "llm": {"base_url": "https://l.example/v1", "model": "m", "api_key_env": "L",
                "roles": {"rerank": {"api_key_env": "R"}}},
    })  # fmt: skip
    made = settings_of(MatrixRun("run", {}, over), base, "a matrix")
    assert (made.embedder.api_key_env, *(made.llm.role(name).api_key_env for name in ("answer", "rerank"))) == keys


# ---------------------------------------------------------------- replies


@pytest.mark.defends("5d")
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "401 Unauthorized", "404 Not Found", "429 Too Many",
                                    "500 Error"])  # fmt: skip
def test_a_reply_without_end_is_left(status: str) -> None:
    said: list[int] = []
    with serving(endless(status, said)) as server:
        with pytest.raises(CallFailed, match=f"more than the {MOST_BYTES:,} bytes") as failed:
            written(server.url)
        assert (failed.value.code, failed.value.passing) == ("unreachable", False)
        with pytest.raises(ModelError, match="bytes that it may have") as refused:
            embedder(server.url).queries(["a"])
        assert refused.value.code == "unreachable"
    assert len(said) == 2
    assert all(sent < 2 * MOST_BYTES for sent in said)


def test_a_file_is_read_as_far_as_it_may_go() -> None:
    said: list[int] = []
    with serving(endless("200 OK", said)) as server:
        client = endpoint_client(server.url, lambda: "", timeout=HANG_SECONDS, retries=0, setting="llm")
        with (
            pytest.raises(NotRead) as left,
            at_most(1 << 20),
            client.files.with_streaming_response.content("f") as response,
        ):
            for _ in response.iter_bytes():
                pass
    assert left.value.kind == "large"


def test_a_large_file_has_more_time_than_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def say(client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(8):
            now[0] += HANG_SECONDS
            client.sendall(b"a")

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with serving(say) as server:
        client = endpoint_client(server.url, lambda: "", timeout=4 * HANG_SECONDS, retries=0, setting="llm")
        read = client.files.with_streaming_response.content
        with at_most(1 << 20, more_seconds=6 * HANG_SECONDS), read("f") as response:
            assert b"".join(response.iter_bytes()) == b"a" * 8
        with pytest.raises(NotRead, match="did not end") as left, read("f") as response:
            b"".join(response.iter_bytes())
    assert left.value.kind == "slow"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x-unknown"])
@pytest.mark.parametrize("status", ["200 OK", "500 Error"])
def test_a_compressed_response_is_not_decompressed(encoding: str, status: str) -> None:
    bomb = gzip.compress(bytes(1 << 22))
    encoded = answer(bomb, status, f"Content-Encoding: {encoding}")
    with serving(encoded) as server, pytest.raises(CallFailed, match="compressed"):
        written(server.url)
    assert b"accept-encoding: identity" in server.asked[0].lower()


@pytest.mark.defends("5d")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with serving(answer(b"{}")) as elsewhere:
        place = elsewhere.url.replace("127.0.0.1", "localhost") + "?key=sk-secret"
        with serving(answer(b"", f"{status} Moved", f"Location: {place}")) as server:
            with pytest.raises(CallFailed, match=f"answered {status}, which leads to localhost") as failed:
                written(server.url)
            with pytest.raises(ModelError, match="leads to localhost"):
                embedder(server.url).queries(["a"])
    assert elsewhere.asked == []
    assert "sk-secret" not in str(failed.value)
    assert (failed.value.code, failed.value.passing, failed.value.hopeless) == ("rejected", False, True)


@pytest.mark.defends("5d")
@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\n\r\n{",
        b"HTTP/1.1 500 Error\r\n\r\n",
        b"HTTP/1.1 429 No\r\n\r\n",
    ],
)
def test_a_reply_that_drips_ends_with_its_time(text: bytes) -> None:
    with serving(dripping(text)) as server:
        with pytest.raises(CallFailed, match=r"within llm.timeout_seconds") as failed:
            written(server.url, timeout_seconds=AT_ONCE_SECONDS)
        assert failed.value.passing


def test_headers_that_drip_over_a_connection_that_is_taken_again_end_too() -> None:
    good = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()

    def say(client: socket.socket) -> None:
        client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(good)}\r\n\r\n".encode() + good)
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        over(client.getpeername()[1])
        dripping(b"")(client)

    with serving(say) as server, time_over() as over:
        chosen = LlmSettings(base_url=server.url, model="m", timeout_seconds=HANG_SECONDS)
        endpoint = Endpoint(chosen.role("answer"), chosen)
        prompt = Prompt("", "Who keeps the key?", 10)
        assert endpoint.complete(prompt, 0.0).reply.text == "yes"
        with pytest.raises(CallFailed, match=r"within llm.timeout_seconds"):
            endpoint.complete(prompt, 0.0)
    assert len(server.asked) == 1


# ---------------------------------------------------------------- numbers and depths


def vectors(*embeddings: Any, usage: str = '{"total_tokens": 3}', index: str = "0") -> bytes:
    data = ", ".join(f'{{"index": {index}, "embedding": {item}}}' for item in embeddings)
    return f'{{"data": [{data}], "usage": {usage}}}'.encode()


@pytest.mark.parametrize(
    "reply",
    [
        b"[" * 100_000, b'{"data": ' + b"[" * 100_000, vectors("[[1, 2], [3, 4]]"), vectors("[]"), vectors('""'),
        vectors('"AAA"'), vectors('{"a": 1}'), vectors("[1]", index="Infinity"), vectors("[1]", index="NaN"),
        vectors("[1]", index="-1"), vectors("[1]", index="1e400"), vectors('["a"]'), vectors("null"), b"", b"null",
        b"7", b'{"data": [], "usage": null}', vectors("[" + "9" * 5000 + "]"),
    ],
)  # fmt: skip
def test_a_reply_that_holds_no_vector_is_an_error_by_name(reply: bytes) -> None:
    with serving(answer(reply)) as server, pytest.raises(ModelError) as told:
        embedder(server.url).queries(["a"])
    assert server.url in str(told.value)


@pytest.mark.parametrize("usage", ['{"total_tokens": -5}', '{"total_tokens": 1e308}', '{"total_tokens": "many"}', "[]",
                                   "7",
                                   '{"total_tokens": Infinity}', '{"total_tokens": 99999999999999999999}'])  # fmt: skip
def test_tokens_that_cannot_be_are_not_counted(usage: str) -> None:
    with serving(answer(vectors("[1.0, 0.0]", usage=usage))) as server:
        made = embedder(server.url)
        assert made.queries(["a"]).shape == (1, 2)
    assert made.tokens == 0


@pytest.mark.parametrize("reply", [b"[" * 200_000, b'{"choices": ' + b"[" * 200_000, b'{"a":' * 100_000])
def test_a_deep_answer_is_no_completion(reply: bytes) -> None:
    for status in ("200 OK", "400 Bad"):
        with serving(answer(reply, status)) as server:
            if status == "200 OK":
                assert written(server.url).reply.finish == "malformed"
            else:
                with pytest.raises(CallFailed):
                    written(server.url)
