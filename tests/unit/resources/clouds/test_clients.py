"""What the clients of the clouds make of servers that fail, and of those that answer what was not asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.errors import SettingsError
from resources import http_client
from resources.clouds import connect
from resources.clouds.bucket import Bucket, Passing, Unauthenticated, Unusable
from tests.support.lying_buckets import KINDS, LyingBucket, lying_bucket
from tests.support.lying_server import LyingServer, answer, lying_server


@pytest.fixture
def server() -> Iterator[LyingServer]:
    with lying_server() as made:
        yield made


def connected(kind: str, server: LyingServer, patch: pytest.MonkeyPatch) -> tuple[Bucket, LyingBucket]:
    lying = lying_bucket(kind, server, patch)
    options = lying.settings.options
    given = {**options, "anonymous": options.get("anonymous") == "true"}
    return connect(f"{kind}://papers/under", "tables", writes=True, **given), lying  # type: ignore[arg-type]


# ---------------------------------------------------------------- buckets that are not there


ASKS = {
    "page": lambda bucket: bucket.page("", ""),
    "put": lambda bucket: bucket.put("a", b"x"),
    "read": lambda bucket: list(bucket.read("a", 0, None)),
    "delete": lambda bucket: bucket.delete(["a"]),
}


@pytest.mark.parametrize(
    ("kind", "asks"), [("s3", ["page", "put", "read", "delete"]), ("gs", ["page", "put"]), ("az", ["page", "put"])]
)
def test_not_found_of_a_bucket_is_no_missing_object(
    kind: str, asks: list[str], server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, _ = connected(kind, server, monkeypatch)
    server.says = {"": answer(b"", status="404 Not Found")}
    for ask in asks:
        with pytest.raises(Unusable):
            ASKS[ask](bucket)
    bucket.close()


@pytest.mark.parametrize("ask", ["page", "put", "delete"])
def test_a_missing_key_where_none_was_read_is_an_answer_without_sense(
    ask: str, server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, _ = connected("s3", server, monkeypatch)
    server.says = {"": answer(b"<Error><Code>NoSuchKey</Code></Error>", status="404 Not Found")}
    with pytest.raises(Unusable):
        ASKS[ask](bucket)
    with pytest.raises(FileNotFoundError):
        ASKS["read"](bucket)
    with pytest.raises(FileNotFoundError):
        bucket.put("a", Path("/there/is/no/such/file"))
    bucket.close()


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_over_its_limits_would_be_so_again(
    kind: str, server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MOST_BYTES", 100_000)
    bucket, _ = connected(kind, server, monkeypatch)
    server.says = {"": answer(b"x" * 200_000)}
    with pytest.raises(Unusable, match="over 100,000 bytes"):
        bucket.page("", "")
    bucket.close()


def test_a_server_that_is_not_reached_may_be_later_and_no_signature_is_shown(
    server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = listening.getsockname()[1]
    bucket, _ = connected("s3", LyingServer(refusing), monkeypatch)
    for ask in ("read", "page", "put", "delete"):
        with pytest.raises(Passing) as caught:
            ASKS[ask](bucket)
        assert "ignature" not in str(caught.value), ask
    bucket.close()


def test_requests_that_botocore_adds_are_bounded_too(server: LyingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect that names no region makes it ask for the bucket's head."""
    monkeypatch.setattr(http_client, "MOST_BYTES", 20_000)
    bucket, _ = connected("s3", server, monkeypatch)
    body = b"<Error><Code>PermanentRedirect</Code></Error>"
    server.says = {
        "HEAD": lambda line, headers: iter([b"HTTP/1.1 100 Continue\r\n\r\n" * 2000, answer(b"")]),
        "": answer(body, status="301 Moved Permanently"),
    }
    with pytest.raises(Unusable, match="over 20,000 bytes"):
        bucket.page("", "")
    assert [line for line, _ in server.asked if line.startswith("HEAD")]
    bucket.close()


# ---------------------------------------------------------------- Google's credentials and servers


def test_credentials_that_cannot_be_read_are_told_as_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))
    with pytest.raises(Unauthenticated, match="directory"):
        connect("gs://papers/under", "tables")

    def damaged(**_: object) -> None:
        raise ValueError("no key")

    monkeypatch.setattr("google.auth.default", damaged)
    with pytest.raises(Unauthenticated, match="no key"):
        connect("gs://papers/under", "tables")


def test_google_credentials_are_not_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_ENDPOINT_OVERRIDE", "HTTP://storage.example")
    monkeypatch.setattr("google.auth.default", lambda **_: pytest.fail("credentials were looked for"))
    with pytest.raises(SettingsError, match="API_ENDPOINT_OVERRIDE is plain HTTP"):
        connect("gs://papers/under", "tables")
    connect("gs://papers/under", "tables", anonymous=True).close()


def test_another_server_for_the_parts_of_an_upload_would_be_named_again(
    server: LyingServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bucket, _ = connected("gs", server, monkeypatch)
    (tmp_path / "large").write_bytes(bytes(9 << 20))
    server.says = {"": answer(b"", "Location: http://127.0.0.1:9/upload")}
    with pytest.raises(Unusable, match="leads to another server"):
        bucket.put("a", tmp_path / "large")
    bucket.close()
