"""Answers over HTTP have limits of bytes and of time, whatever a server makes of them."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from resources import http_client
from resources.http_client import (
    HttpClient,
    LedAway,
    Unreached,
    answer_limits,
    bounded_session,
    credentials_of,
    server_of,
    why,
)
from tests.support.lying_server import LyingServer, Said, answer, lying_server
from tests.support.waiting import AT_ONCE_SECONDS, HANG_SECONDS

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SLOW, LARGE = "does not end within 0.2 s", "is over 100,000 bytes"


@pytest.fixture
def server() -> Iterator[LyingServer]:
    with lying_server() as made:
        yield made


def fault(server: LyingServer, said: Said, seconds: float = HANG_SECONDS) -> str:
    server.says = {"GET": said}
    with bounded_session(1) as session, pytest.raises(Exception) as caught:
        with answer_limits(100_000, seconds):
            response = session.get(server.url, stream=True, timeout=HANG_SECONDS)
        for _ in response.raw.stream(1 << 20, decode_content=False):
            pass
    return why(caught.value)


@pytest.mark.parametrize(
    ("head", "piece", "seconds", "told"),
    [
        (HEAD, b"X-A: b", 0.01, SLOW),
        (HEAD + b"X-A: ", b"x", 0.01, SLOW),
        (b"", b"H", 0.01, SLOW),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, SLOW),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0.0, LARGE),
        (HEAD + b"Content-Length: 90000\r\n\r\n", b"x", 0.01, SLOW),
        (HEAD + b"\r\n", b"x", 0.01, SLOW),
        (HEAD + b"\r\n", b"x" * 1000, 0.0, LARGE),
        (CHUNKED, b"1\r\nx\r\n", 0.01, SLOW),
        (CHUNKED, b"1;" + b"x" * 1000 + b"\r\nx\r\n", 0.0, LARGE),
        (CHUNKED + b"0\r\n", b"X-A: b\r\n", 0.01, SLOW),
        (CHUNKED + b"0\r\n", b"X-A: b\r\n" * 1000, 0.0, LARGE),
    ],
    ids=[
        "one-header", "a-header", "status", "informational", "many-informational", "body", "body-to-the-end",
        "endless-body", "chunks", "chunk-extensions", "trailers", "many-trailers",
    ],
)  # fmt: skip
def test_an_answer_without_end_is_left(
    head: bytes, piece: bytes, seconds: float, told: str, server: LyingServer
) -> None:
    limit = AT_ONCE_SECONDS if told == SLOW else HANG_SECONDS
    assert told in fault(server, server.trickle(head, piece, seconds), limit)
    assert server.sent < 20 << 20


@pytest.mark.parametrize(
    "line",
    ["Content-Encoding: gzip, gzip", "Content-Encoding: br", "Content-Encoding: identity, gzip", "content-encoding: x"],
)
def test_a_packed_answer_is_refused_by_its_headers(line: str, server: LyingServer) -> None:
    bomb = gzip.compress(gzip.compress(bytes(50 << 20)))
    tracemalloc.start()
    told = fault(server, answer(bomb, line))
    assert "packed" in told and tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()
    (_, headers), *_ = server.asked
    assert "Accept-Encoding: identity" in headers


def test_an_answer_that_is_kept_packed_is_given_as_it_is(server: LyingServer) -> None:
    packed = gzip.compress(bytes(1 << 20))
    server.says = {"GET": answer(packed, "Content-Encoding: gzip")}
    with bounded_session(1) as session:
        with answer_limits(None, HANG_SECONDS, packed=True):
            response = session.get(server.url, stream=True, timeout=HANG_SECONDS)
        assert b"".join(response.raw.stream(1 << 20, decode_content=False)) == packed


def test_transfer_encodings_that_nobody_asked_for_are_refused(server: LyingServer) -> None:
    assert "transfer encoding" in fault(server, HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")


def test_a_body_that_breaks_off_is_an_error(server: LyingServer) -> None:
    assert "IncompleteRead" in fault(server, lambda line, headers: iter([answer(b"abc", length=7)]))
    assert fault(server, lambda line, headers: iter([CHUNKED + b"9\r\nabc"]))


def test_no_redirect_is_followed_and_no_cookie_kept(server: LyingServer) -> None:
    server.says = {"/b": answer(b"b"), "": answer(b"", "Location: /b", "Set-Cookie: a=b", status="302 Found")}
    with bounded_session(1) as session:
        for _ in range(2):
            assert session.get(server.url, timeout=HANG_SECONDS).status_code == 302
    assert len(server.asked) == 2 and not any("cookie" in headers.lower() for _, headers in server.asked)


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.test\\@example.org/a",
        "http://example.org\\@evil.test/a",
        "http://exam\nple.org/a",
        "http://example.org\t@evil.test/",
        "http://example.org:x/",
        "http://[::1/",
        "http://example.org .evil.test/",
    ],
)
def test_an_address_that_is_read_in_two_ways_is_of_no_server(url: str) -> None:
    assert server_of(url) == ("", "", 0)


def test_an_address_is_of_its_server() -> None:
    assert server_of("HTTPS://Example.org/a b?c=http://x") == ("https", "example.org", 443)
    assert server_of("http://u:p@example.org:81/") == ("http", "example.org", 81)
    assert server_of("http://[::1]:80/") == ("http", "::1", 80)
    assert server_of("https://b\u00fccher.example/") == ("https", "xn--bcher-kva.example", 443)
    assert server_of("mailto:a@b") == ("mailto", "", 0)


def test_headers_have_a_time_of_their_own(server: LyingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "HEAD_SECONDS", AT_ONCE_SECONDS)
    server.says = {"GET": server.trickle(HEAD, b"X-A: b", 0.01)}
    with bounded_session(1) as session, pytest.raises(OSError) as caught, answer_limits(None, HANG_SECONDS):
        session.get(server.url, timeout=HANG_SECONDS)
    assert f"within {AT_ONCE_SECONDS} s" in why(caught.value)


# ---------------------------------------------------------------- client of one server


def test_a_body_that_breaks_off_is_asked_for_again(server: LyingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "LONGEST_WAIT", 0.0)
    whole = iter([answer(b"ab", length=3), answer(b"abc")])
    server.says = {"GET": lambda line, headers: iter([next(whole)])}
    client = HttpClient(server.url, 1)
    assert client.fetch(server.url, most=9).body == b"abc" and len(server.asked) == 2
    server.says = {"GET": answer(b"x" * 10)}
    with pytest.raises(Unreached, match="over 0 KB"):
        client.fetch(server.url, most=9)
    assert len(server.asked) == 3, "a longer body would be as long again"
    client.close()


@pytest.mark.parametrize("token", ["s3cret\n", "s3\x00cret", "s3cret\udcff"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"TOKEN": token})
    with pytest.raises(SourceError, match="TOKEN") as caught:
        credentials_of("source 'x'", "https://example.org/", "TOKEN")
    assert caught.value.code == "credentials" and "cret" not in str(caught.value)


def test_credentials_are_of_one_server_and_only_where_they_are_wanted(
    server: LyingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password s3cret\n")
    monkeypatch.setenv("TOKEN", "t0ken")
    with lying_server() as other:
        server.says = {"/away": answer(b"", f"Location: {other.url}/x", status="307 Away"), "": answer(b"")}
        for auth, sent in (
            (None, ""),
            (credentials_of("source 'x'", server.url, ""), "Basic"),
            (credentials_of("source 'x'", server.url, "TOKEN"), "Bearer t0ken"),
        ):
            client = HttpClient(server.url, 1, auth=auth)
            assert client.fetch(server.url, most=9).body == b""
            _, headers = server.asked[-1]
            assert f"Authorization: {sent}" in headers if sent else "Authorization" not in headers
            with pytest.raises(LedAway, match="another server") as led:
                client.fetch(f"{server.url}/away", most=9)
            assert (led.value.url, led.value.status) == (f"{other.url}/x", 307)
            client.close()
        assert other.asked == []
