"""Buckets of the three kinds whose server says what a test makes it say: pages of a listing, and objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape

import pytest

from pipelines.settings.sources import SourceSettings
from resources.connectors.source import Source
from tests.support.lying_server import LyingServer, Said, answer
from tests.support.s3_server import ENVIRONMENT
from tests.support.stores import ACCOUNT, KEY

KINDS = ("s3", "gs", "az")
_LISTING = {"s3": "list-type=2", "gs": r"/o\?", "az": "comp=list"}
_MEDIA = {"s3": r"GET /papers/([^? ]*)", "gs": r"/o/(.*?)\?", "az": r"GET /[a-z]+/papers/([^? ]*)"}
_TOKEN = {"s3": "continuation-token=([^& ]*)", "gs": "pageToken=([^& ]*)", "az": "marker=([^& ]*)"}


@dataclass(frozen=True)
class Object:
    """What the listing says of an object; None is left out."""

    key: str | None
    size: int | str | None = 4
    revision: str | None = "17"


@dataclass
class LyingBucket:
    """`pages` by the token that asks for them, "" for the first: objects, and the next token. A whole answer or its
    pieces may be in the place of a page. `objects` are whole answers by key."""

    kind: str
    server: LyingServer
    pages: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, Said] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    source: Source | None = None
    """Connected when it is first asked, since that takes botocore a second."""

    def __post_init__(self) -> None:
        self.server.says = {_LISTING[self.kind]: self._page, _MEDIA[self.kind]: self._object}

    @property
    def settings(self) -> SourceSettings:
        endpoint = f"{self.server.url}/{ACCOUNT}" if self.kind == "az" else self.server.url
        options = {"endpoint": endpoint}
        options |= {"account": ACCOUNT} if self.kind == "az" else {}
        options |= {"anonymous": "true"} if self.kind == "gs" else {}
        return SourceSettings(name="papers", path=f"{self.kind}://papers/under", options=options)

    def holds(self, **texts: bytes) -> None:
        """Objects `under/NAME.md`, all on the first page."""
        named = {f"under/{name}.md": text for name, text in texts.items()}
        self.pages = {"": ([Object(key, len(text)) for key, text in named.items()], "")}
        self.objects = {key: self.given(text) for key, text in named.items()}

    def given(self, body: bytes, *headers: str, length: int | None = None) -> bytes:
        """The answer that has an object, as a server of this kind gives it."""
        more = [*headers, 'ETag: "17"']
        if self.kind != "az":
            return answer(body, *more, length=length)
        total = len(body) if length is None else length
        told = [*more, f"Content-Range: bytes 0-{total - 1}/{total}", "x-ms-blob-type: BlockBlob"]
        return answer(body, *told, status="206 Partial Content", length=length)

    def page(self, body: bytes, *headers: str, status: str = "200 OK") -> bytes:
        """An answer to a request for a page."""
        kind = "json" if self.kind == "gs" else "xml"
        return answer(body, f"Content-Type: application/{kind}", *headers, status=status)

    def _page(self, line: str, headers: str) -> bytes | Iterable[bytes]:
        found = re.search(_TOKEN[self.kind], line)
        token = unquote(found[1]) if found else ""
        self.asked.append(token)
        page = self.pages.get(token) or self.pages["*"]
        if isinstance(page, tuple):
            return self.page(self.listing(*page))
        return page(line, headers) if callable(page) else page

    def _object(self, line: str, headers: str) -> bytes | Iterable[bytes]:
        found = re.search(_MEDIA[self.kind], line)
        key = unquote(found[1]) if found else ""
        self.asked.append(f"GET {key}")
        said = self.objects.get(key, answer(b"", status="404 Not Found"))
        return said(line, headers) if callable(said) else said

    def listing(self, objects: Iterable[Object], token: str = "") -> bytes:
        """A sound page."""
        if self.kind == "gs":
            items = [{"name": item.key, "size": item.size, "generation": item.revision} for item in objects]
            kept = [{key: value for key, value in item.items() if value is not None} for item in items]
            next_page = {"nextPageToken": token} if token else {}
            return json.dumps({"kind": "storage#objects", "items": kept, **next_page}).encode()
        xml = _s3_page if self.kind == "s3" else _azure_page
        return xml(objects, token).encode()


def lying_bucket(kind: str, server: LyingServer, patch: pytest.MonkeyPatch) -> LyingBucket:
    """Return a bucket whose clients try once, and hardly wait."""
    for name, value in {**ENVIRONMENT, "AZURE_STORAGE_KEY": KEY}.items():
        patch.setenv(name, value)
    patch.setattr("resources.connectors.bucket.PATIENCE", 0.0)
    return LyingBucket(kind, server)


def _s3_page(objects: Iterable[Object], token: str) -> str:
    found = "".join(
        f"<Contents>{_tag('Key', item.key)}{_tag('Size', item.size)}{_tag('ETag', item.revision and _quoted(item))}"
        "</Contents>"
        for item in objects
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    truncated = "true" if token else "false"
    return f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{more}{found}</ListBucketResult>"


def _azure_page(objects: Iterable[Object], token: str) -> str:
    found = "".join(
        f"<Blob>{_tag('Name', item.key)}<Properties>{_tag('Content-Length', item.size)}"
        f"{_tag('Etag', item.revision and _quoted(item))}<BlobType>BlockBlob</BlobType></Properties></Blob>"
        for item in objects
    )
    more = _tag("NextMarker", token)
    return f'<EnumerationResults ContainerName="papers"><Blobs>{found}</Blobs>{more}</EnumerationResults>'


def _quoted(item: Object) -> str:
    return f'"{item.revision}"'


def _tag(name: str, value: object) -> str:
    return "" if value is None else f"<{name}>{escape(str(value))}</{name}>"
