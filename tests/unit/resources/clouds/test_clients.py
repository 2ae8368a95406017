"""Clients of the clouds before servers that fail, and before servers that answer what was not asked for."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.errors import SettingsError
from resources import http_client
from resources.clouds import connect
from resources.clouds.bucket import Bucket, Passing, Unauthenticated, Unusable
from tests.support.lying_buckets import KINDS, LyingBucket, lying_bucket
from tests.support.lying_server import LyingServer, answer, lying_server

TEXT = b"The ferry crosses."


@pytest.fixture
def server() -> Iterator[LyingServer]:
    with lying_server() as made:
        yield made


def connected(kind: str, server: LyingServer, patch: pytest.MonkeyPatch) -> tuple[Bucket, LyingBucket]:
    lying = lying_bucket(kind, server, patch)
    options = lying.settings.options
    given = {**options, "anonymous": options.get("anonymous") == "true"}
    return connect(f"{kind}://papers/under", "tables", writes=True, **given), lying  # type: ignore[arg-type]


def parts_of(text: bytes, lying: LyingBucket, *headers: str) -> Callable[[str, str], bytes]:
    """Return the answers of a server that gives the part that is asked for."""

    def given(line: str, asked: str) -> bytes:
        found = re.search(r"range: bytes=(\d+)-(\d+)", asked, re.IGNORECASE)
        if not found:
            return lying.given(text, *headers)
        start, end = int(found[1]), min(int(found[2]) + 1, len(text))
        told = f"Content-Range: bytes {start}-{end - 1}/{len(text)}"
        more = (told, 'ETag: "17"', "x-ms-blob-type: BlockBlob", *headers)
        return answer(text[start:end], *more, status="206 Partial Content")

    return given


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


# ---------------------------------------------------------------- objects


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_is_longer_than_its_revision_is_refused(
    kind: str, server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, lying = connected(kind, server, monkeypatch)
    lying.objects["under/a"] = parts_of(TEXT + b" Twice.", lying)
    with pytest.raises(Unusable, match="more"):
        list(bucket.read("a", 0, len(TEXT), "17"))
    lying.objects["under/a"] = parts_of(TEXT, lying)
    assert b"".join(bucket.read("a", 0, len(TEXT), "17")) == TEXT
    assert b"".join(bucket.read("a", 4, len(TEXT), "17")) == TEXT[4:]
    bucket.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_object_in_the_place_of_a_part_is_not_read(
    kind: str, server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, lying = connected(kind, server, monkeypatch)
    lying.objects["under/a"] = answer(TEXT, 'ETag: "17"')
    with pytest.raises(Unusable):
        next(bucket.read("a", 4, len(TEXT), "17"))
    bucket.close()
    bucket, lying = connected(kind, server, monkeypatch)
    lying.objects["under/a"] = lambda line, headers: iter([answer(TEXT[:3], 'ETag: "17"', length=len(TEXT))])
    with pytest.raises((Unusable, Passing)):
        next(bucket.read("a", 4, len(TEXT), "17"))
    bucket.close()


@pytest.mark.parametrize("revision", ["17", ""])
def test_an_object_with_another_checksum_than_google_says_is_refused(
    revision: str, server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, lying = connected("gs", server, monkeypatch)
    told = b'{"kind": "storage#object", "name": "under/a", "generation": "17", "size": "%d"}' % len(TEXT)
    server.says = {
        "alt=media": parts_of(TEXT, lying, "x-goog-hash: crc32c=AAAAAA==,md5=AAAAAAAAAAAAAAAAAAAAAA=="),
        "": answer(told, "Content-Type: application/json"),
    }
    with pytest.raises(Passing, match=r"(?i)checksum"):
        list(bucket.read("a", 0, len(TEXT) if revision else None, revision))
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
