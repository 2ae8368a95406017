"""Buckets of S3, Google and Azure whose server lies: each lie is an error with a name, and deletes nothing."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import RequestsTransport, RequestsTransportResponse
from requests import Response

from pipelines.errors import SourceError
from pipelines.settings.sources import SourceSettings
from resources import http_client
from resources.connectors import source as source_module
from resources.connectors.source import connect
from resources.sources.folder import FolderListing, list_source
from resources.sources.landing import Landing
from tests.support.lying_buckets import KINDS, LyingBucket, Object, lying_bucket
from tests.support.lying_server import Said, answer, lying_server

pytestmark = pytest.mark.integration


@pytest.fixture(params=KINDS)
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[LyingBucket]:
    with lying_server() as server:
        made = lying_bucket(request.param, server, monkeypatch)
        made.holds(a=b"# A\n\nThe ferry crosses.\n", b=b"# B\n\nThe choir sings.\n")
        yield made
        if made.source is not None:
            made.source.close()


def bring(bucket: LyingBucket, folder: Path) -> FolderListing:
    landing = Landing(folder, bucket.settings)
    with landing.alone():
        bucket.source = bucket.source or connect(bucket.settings, landing.folder)
        landing.bring(bucket.source, 1)
    return listed(bucket, folder)


def listed(bucket: LyingBucket, folder: Path) -> FolderListing:
    landing = Landing(folder, bucket.settings)
    with landing.open_result() as brought:
        return list_source(bucket.settings, landing.root, None, brought=brought)


def names(listing: FolderListing) -> list[str]:
    return [raw.uri for raw in listing.documents]


def fault(bucket: LyingBucket, folder: Path) -> str:
    """Return what is said of a listing that cannot be believed. What was brought before stays."""
    pages, bucket.asked = bucket.pages, []
    before = names(listed(bucket, folder)) if (folder / "sources").exists() else []
    with pytest.raises(SourceError) as caught:
        bring(bucket, folder)
    assert "othing was changed" in str(caught.value) and len(str(caught.value)) < 1000
    assert (names(listed(bucket, folder)) if before else []) == before and bucket.pages is pages
    return str(caught.value)


def test_sound_listings_are_fetched(bucket: LyingBucket, tmp_path: Path) -> None:
    assert names(bring(bucket, tmp_path)) == ["a.md", "b.md"]
    (first, *_), *_ = bucket.pages.values()
    bucket.pages = {"": (first[:1], "2"), "2": ([Object("under/b.md", 24)], "3"), "3": ([], "")}
    assert names(bring(bucket, tmp_path)) == ["a.md", "b.md"]


# ---------------------------------------------------------------- listings


NO_PAGES = (
    b"",
    b"<html><body>Sign in to the network</body></html>",
    b"<Error><Code>InternalError</Code><Message>later</Message></Error>",
    b'{"error": {"code": 500, "message": "later"}}',
    b"{}",
    b"[]",
    b"null",
    b'"text"',
    b"<ListBucketResult/>",
    b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    b"<EnumerationResults/>",
    b'{"kind": "storage#objects", "items": 7}',
    b'{"kind": "storage#objects", "items": [7]}',
    b"[" * 20_000,
    b"<a>" * 20_000,
    b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%b">' % (98 + at, b"&%c;" % (97 + at) * 10) for at in range(12))
    + b"]><ListBucketResult><IsTruncated>false</IsTruncated><Prefix>&m;</Prefix></ListBucketResult>",
    b"\xff\xfe\x00",
)


def test_a_page_that_is_none_fails_the_source(bucket: LyingBucket, tmp_path: Path) -> None:
    bring(bucket, tmp_path)
    (first, *_), *_ = bucket.pages.values()
    for body in NO_PAGES:
        bucket.pages = {"": (first[:1], "2"), "2": bucket.page(body)}
        assert fault(bucket, tmp_path), body[:60]


def test_a_listing_without_end_is_given_up(
    bucket: LyingBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same page comes again, or pages come in a circle. They have objects or are empty."""
    monkeypatch.setattr(source_module, "MOST_EMPTY", 20)
    for token, filled in itertools.product("23", (True, False)):
        one, two = ([Object(f"under/{name}.md")] if filled else [] for name in "ab")
        bucket.pages = {"": (one, "2"), "2": (two, token), "3": (one, "2")}
        fault(bucket, tmp_path)
        assert len(bucket.asked) < 30, (token, filled)


LIES = (
    Object("other/a.md"),
    Object("under"),
    Object("/etc/passwd"),
    Object(None),
    Object("under/c.md", size=None),
    Object("under/c.md", size=-1),
    Object("under/c.md", size=10**30),
    Object("under/c.md", size="many"),
    Object("under/c.md", revision=None),
    Object("under/c.md", revision="7" * 100_000),
    Object("under/" + "c" * 100_000),
    Object("under/a.md"),
)


def test_an_object_that_cannot_be_meant_fails_the_source(bucket: LyingBucket, tmp_path: Path) -> None:
    bring(bucket, tmp_path)
    (first, *_), *_ = bucket.pages.values()
    for lie in LIES:
        bucket.pages = {"": ([first[0], lie], "2"), "2": ([Object("under/a.md")], "")}
        assert fault(bucket, tmp_path), str(lie)[:60]


def test_no_name_leads_out_of_the_folder_of_the_source(bucket: LyingBucket, tmp_path: Path) -> None:
    hostile = [
        "../up.md", "../../../../../tmp/up.md", "x/../y.md", "./here.md", "/absolute.md", "a//b.md", "line\nbreak.md",
        "tab\t.md", "c" * 255 + ".md", "d/" * 2100 + "deep.md", "e" * 10_000 + ".md", ".hidden/x.md", "md/../../z.md",
    ]  # fmt: skip
    sound = ["A.md", "a.md", "caf\u00e9.md", "cafe\u0301.md", "a..\\up.md", "%2e%2e%2fup.md", "f/" * 60 + "deep.md"]
    # XML has no way to write some of the signs.
    hostile += ["nul\0.md", "esc\x1b.md"] if bucket.kind == "gs" else []
    keys = [f"under/{name}" for name in [*hostile, *sound]]
    bucket.pages = {"": ([Object(key) for key in keys], "")}
    bucket.objects = {key: bucket.given(b"text") for key in keys}
    found = bring(bucket, tmp_path / "state")
    assert set(names(found)) == set(sound)
    told = {item.uri for item in found.skipped} | {item.uri for item in found.failures}
    assert told == {name for name in hostile if not name.startswith(".hidden")}
    made = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")}
    assert made == {"state"} and not any(key in {f"GET under/{name}" for name in hostile} for key in bucket.asked)


def test_a_key_that_is_also_a_folder_costs_one_of_them(bucket: LyingBucket, tmp_path: Path) -> None:
    keys = ["under/a.md", "under/a.md/b.md"]
    bucket.pages = {"": ([Object(key) for key in keys], "")}
    bucket.objects = {key: bucket.given(b"text") for key in keys}
    found = bring(bucket, tmp_path)
    assert len(found.documents) == 1 and [item.code for item in found.failures] == ["name"]


# ---------------------------------------------------------------- answers


def test_a_packed_listing_is_not_unpacked(bucket: LyingBucket, tmp_path: Path) -> None:
    for coding in ("gzip, gzip", "gzip", "br", "zstd", "deflate", "compress, identity"):
        bucket.pages = {"": answer(b"\x1f\x8b" + b"x" * 600, f"Content-Encoding: {coding}")}
        assert "packed" in fault(bucket, tmp_path)
    (_, headers), *_ = bucket.server.asked
    assert not any(word in headers.lower() for word in ("gzip", "deflate", "br,", "zstd"))


def test_an_answer_without_end_is_given_up(
    bucket: LyingBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MOST_BYTES", 1 << 20)

    def endless(line: str, headers: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n<a>"
        while not bucket.server.ended.is_set():
            yield b"x" * 65_536

    for said in (endless, lambda line, headers: iter([b"HTTP/1.1 403 No\r\n\r\n", *[b"x" * 65_536] * 100])):
        bucket.pages = {"": said}
        assert "over 1,048,576 bytes" in fault(bucket, tmp_path)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"])
def test_an_answer_that_trickles_is_given_up(
    head: bytes, bucket: LyingBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "SECONDS", 0.3)
    bucket.pages = {"": bucket.server.trickle(head)}
    assert "does not end within 0.3 s" in fault(bucket, tmp_path)


def test_a_busy_server_does_not_say_how_long_is_waited(
    bucket: LyingBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("resources.connectors.bucket.PATIENCE", 20.0)
    for wait in ("31536000", "Fri, 31 Dec 9999 23:59:59 GMT", "-1", "nan", "9" * 5000):
        told = (f"Retry-After: {wait}", f"x-ms-retry-after-ms: {wait}", f"x-amz-retry-after: {wait}")
        bucket.pages = {"": answer(b"", *told, status="503 Slow Down")}
        slept.clear()
        fault(bucket, tmp_path)
        assert sum(slept) < 120, wait


def test_no_redirect_is_followed(bucket: LyingBucket, tmp_path: Path) -> None:
    with lying_server() as other:
        bring(bucket, tmp_path)
        body = b"<Error><Code>PermanentRedirect</Code><Endpoint>127.0.0.1:9</Endpoint></Error>"
        ours, elsewhere = f"{other.url}/x", ("http://169.254.169.254/latest/", "file:///etc/passwd", "//x[")
        statuses = ("301 Moved", "302 Found", "307 Temporary", "308 Permanent")
        for to, status in (*((ours, status) for status in statuses), *((to, "302 Found") for to in elsewhere)):
            region = ("x-amz-bucket-region: eu-1@127.0.0.1", f"Location: {to}")
            bucket.pages = {"": bucket.page(body, *region, status=status)}
            fault(bucket, tmp_path)
        assert other.asked == []


# ---------------------------------------------------------------- objects


def _endless(bucket: LyingBucket) -> Iterator[bytes]:
    yield bucket.given(b"", length=10**12)
    while not bucket.server.ended.is_set():
        yield b"x" * 65_536


def test_an_object_that_is_not_as_listed_fails_alone(bucket: LyingBucket, tmp_path: Path) -> None:
    text = b"# A\n\nThe ferry crosses.\n"
    lies: dict[str, Said] = {
        "longer": bucket.given(text * 100_000),
        "shorter": bucket.given(text[:-1]),
        "breaks off": lambda line, headers: iter([bucket.given(text[:-1], length=len(text))]),
        "endless": lambda line, headers: _endless(bucket),
        "other": answer(b"", status="412 Precondition Failed"),
        "empty": answer(b"", status="204 No Content"),
    }
    for lie, said in lies.items():
        bucket.server.sent, bucket.objects["under/a.md"] = 0, said
        found = bring(bucket, tmp_path / lie)
        assert names(found) == ["b.md"], lie
        assert {item.uri: item.code for item in found.failures}.keys() == {"a.md"}, lie
        assert bucket.server.sent < 64 << 20, lie


def test_an_object_that_is_kept_packed_is_given_as_it_is(bucket: LyingBucket, tmp_path: Path) -> None:
    packed = b"\x1f\x8b of a file"
    bucket.pages = {"": ([Object("under/a.md", len(packed))], "")}
    bucket.objects["under/a.md"] = bucket.given(packed, "Content-Encoding: gzip, gzip")
    bring(bucket, tmp_path)
    assert (Landing(tmp_path, bucket.settings).root / "a.md").read_bytes() == packed


def test_an_object_whose_server_breaks_off_is_read_on(
    bucket: LyingBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of S3 breaks off after five bytes; of the others, the answer to the second request."""
    module = {"s3": "s3", "gs": "google", "az": "azure"}[bucket.kind]
    monkeypatch.setattr(f"resources.clouds.{module}._PIECE", 5)
    monkeypatch.setattr("resources.connectors.bucket.PATIENCE", 5.0)
    monkeypatch.setattr("resources.clouds.bucket.FIRST_PAUSE", 0.001)
    text, starts = b"# A\n\nThe ferry crosses.\n", list[int]()

    def part(line: str, headers: str) -> Iterator[bytes]:
        found = re.search(r"range: bytes=(\d+)-(\d+)", headers, re.IGNORECASE)
        start, end = (int(found[1]), int(found[2]) + 1) if found else (0, len(text))
        starts.append(start)
        body, told = text[start:end], ['ETag: "17"', f"Content-Range: bytes {start}-{end - 1}/{len(text)}"]
        sent = {"s3": body[:5]}.get(bucket.kind, body[:2]) if len(starts) == (1 if bucket.kind == "s3" else 2) else body
        return iter([answer(sent, *told, "x-ms-blob-type: BlockBlob", status="206 Partial", length=len(body))])

    bucket.holds(a=text)
    bucket.objects["under/a.md"] = part
    found = bring(bucket, tmp_path)
    assert names(found) == ["a.md"], found.failures
    assert (Landing(tmp_path, bucket.settings).root / "a.md").read_bytes() == text
    assert starts[:2] == [0, 5] and starts.count(0) == 1, starts


def test_objects_that_all_fail_are_the_source_failing(bucket: LyingBucket, tmp_path: Path) -> None:
    keys = [f"under/{number}.md" for number in range(30)]
    bucket.pages = {"": ([Object(key) for key in keys], "")}
    bucket.objects = {key: answer(b"", status="500 Broken") for key in keys}
    with pytest.raises(SourceError, match="20 entries in a row"):
        bring(bucket, tmp_path)


# ---------------------------------------------------------------- credentials


def test_a_server_gets_no_token_for_another_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A token of Azure is of one service; a server that refuses it may name the service whose token it wants."""
    given, wanted = list[str](), list[str]()

    class Identity:
        def get_token(self, *scopes: str, **_: object) -> AccessToken:
            given.extend(scopes)
            return AccessToken("t0ken", 2**31)

    class Server(RequestsTransport):
        def send(self, request: Any, **_: Any) -> Any:
            answered = Response()
            answered.status_code, answered.raw = 401, io.BytesIO()
            told = f"Bearer authorization_uri=https://login.evil.test/t resource_id={wanted[-1]}"
            answered.headers["WWW-Authenticate"] = told
            return RequestsTransportResponse(request, answered)

    monkeypatch.delenv("AZURE_STORAGE_KEY", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_SAS_TOKEN", raising=False)
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Identity)
    monkeypatch.setattr("azure.core.pipeline.transport.RequestsTransport", Server)
    monkeypatch.setattr("resources.connectors.bucket.PATIENCE", 0.0)
    settings = SourceSettings(name="papers", path="az://papers/under", options={"account": "papersaccount"})
    source = connect(settings, tmp_path)
    for resource, told in (
        ("https://vault.azure.net", "another service"),
        ("https://storage.azure.com", "role Storage"),
    ):
        wanted.append(resource)
        with pytest.raises(SourceError, match=told) as caught:
            list(source.entries())
        assert caught.value.code == "credentials"
    assert set(given) == {"https://storage.azure.com/.default"}
