"""One file at an address as a source, or the files listed in a manifest, all on one server.

A manifest is text with one file on each line: an address, or a hash and an address in the form of sha256sum. It may
also be JSON: a list of addresses, or of objects with `url` and optionally `name`, `revision` and `sha256`. Addresses
may be relative to it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urlsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from resources.connectors.source import Entry, SourceAddress, fault, options_of
from resources.http_client import (
    HttpClient,
    Unreached,
    body_of,
    credentials_of,
    if_match,
    joined_address,
    length_of,
    revision_of,
    same_revision,
    server_of,
)

if TYPE_CHECKING:
    import requests

MOST_BYTES = 64 << 20
"""Most bytes of a manifest, which is read into memory."""
MOST_UNTOLD = 256 << 20
"""Most bytes of a file that a listing downloads to see whether it changed, if its server sends neither an ETag nor a
date."""
_AT_ONCE = 8
_PAGE = 256
_SUM = re.compile(r"([0-9a-fA-F]{64}) [ *](\S.*)")
_HASH = re.compile(r"[0-9a-fA-F]{64}")
_HASHED, _GIVEN, _FAILS = _TOLD = ("sha256:", "revision:", "failing: ")
"""Prefixes of revisions that do not come from the server."""
_FAILING = 20
"""Fewest files of a page that must all fail for the source to count as failing."""
_REMEDY = "Give credentials that may read it in ~/.netrc, or the file that NETRC names, or by its option token"


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read. `revision` and `name` are "" if the manifest does not have them."""

    url: str
    revision: str = ""
    name: str = ""


def connect(address: SourceAddress) -> WebFilesSource:
    """Connect to an address. Options: `manifest` (true if the address is a list of files), `token`, the name of an
    environment variable with a bearer token."""
    options = options_of(address, manifest="false", token=None)
    if options["manifest"] not in ("true", "false"):
        raise SettingsError(f"source {address.name!r}: its option manifest must be true or false")
    if address.url.endswith("/"):
        told = "its path names no file; pages of a site are web+https://, a folder of files webdav+https://"
        raise SettingsError(f"source {address.name!r}: {told}")
    auth = credentials_of(f"source {address.name!r}", address.url, options["token"])
    client = HttpClient(address.url, _AT_ONCE, auth=auth)
    return WebFilesSource(address, client, options["manifest"] == "true")


class WebFilesSource:
    """A source of files at addresses. A file's revision comes from the manifest, or else from the server's ETag, or
    else from the time of its last change with its size, or else from a hash of the file."""

    at_once = _AT_ONCE

    def __init__(self, address: SourceAddress, client: HttpClient, manifest: bool) -> None:
        self._address, self._client, self._manifest = address, client, manifest
        self._urls: dict[str, str] = {}

    # ------------------------------------------------------------ listing

    def entries(self) -> Iterator[Sequence[Entry]]:
        try:
            files = self._list_files() if self._manifest else [_File(self._address.url)]
            self._urls = {}
            with ThreadPoolExecutor(self.at_once, thread_name_prefix="ask") as threads:
                for at in range(0, len(files), _PAGE):
                    page = list(threads.map(self._entry, files[at : at + _PAGE]))
                    if len(page) >= _FAILING and all(entry.revision.startswith(_FAILS) for entry in page):
                        raise Unreached(page[-1].revision.removeprefix(_FAILS))
                    yield page
        except Unreached as error:
            raise fault(self._address, error, "See that its addresses are right, and try again") from None

    def _entry(self, file: _File) -> Entry:
        """Return the entry of a file. A manifest's file that cannot be fetched now stays in the listing, and fails as a
        document."""
        uri = file.name or self._file_path(file.url)
        self._urls[uri] = file.url
        if file.revision:
            return Entry(uri, file.revision)
        try:
            return self._looked_at(uri, file.url)
        except Unreached as error:
            if not self._manifest:
                raise
            return Entry(uri, f"{_FAILS}{error}")

    def _file_path(self, url: str) -> str:
        """Return a file's path, relative to the manifest's folder if the file is below it."""
        path, folder = unquote(urlsplit(url).path), unquote(urlsplit(self._address.url).path).rpartition("/")[0] + "/"
        return path.removeprefix(folder).lstrip("/")

    def _looked_at(self, uri: str, url: str) -> Entry:
        """Request the file's headers with HEAD. Fall back to GET if the server rejects HEAD or sends neither an ETag
        nor a date; hash the file if GET sends neither."""
        for method in ("HEAD", "GET"):
            with self._client.open_answer(method, url) as response:
                self._require_known(url, response)
                if response.status_code == 200 and (revision := revision_of(response)):
                    return Entry(uri, revision, length_of(response.headers.get("content-length", "")))
                if method == "GET":
                    if response.status_code != 200:
                        raise _answers(url, response)
                    return Entry(uri, _hash_of(response))
        raise AssertionError("a GET ends the loop")

    def _list_files(self) -> list[_File]:
        with self._client.open_answer("GET", self._address.url) as response:
            self._require_known(self._address.url, response)
            if response.status_code != 200:
                raise _answers(self._address.url, response)
            body = b"".join(body_of(response, MOST_BYTES))
        try:
            text = body.decode("utf-8-sig")
            files = _of_json(text) if text.lstrip().startswith("[") else _of_lines(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self._unmeant(str(error)) from None
        found = [replace(file, url=urldefrag(joined_address(self._address.url, file.url))[0]) for file in files]
        for file in found:
            if server_of(file.url) != self._client.server:
                raise self._unmeant(f"{file.url} is on another server")
        return found

    def _require_known(self, url: str, response: requests.Response) -> None:
        """Raise SourceError if the server asks for credentials."""
        if response.status_code == 401:
            raise fault(self._address, _answers(url, response), _REMEDY, credentials=True)

    def _unmeant(self, told: str) -> SourceError:
        return fault(
            self._address, Unreached(f"its manifest cannot be meant: {told}"), "docs/guide/sources.md shows one"
        )

    # ------------------------------------------------------------ reading

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since each file needs a separate request."""

    def read(self, entry: Entry) -> Generator[bytes]:
        url, asked = self._urls.get(entry.uri, ""), entry.revision
        own = not asked.startswith(_TOLD)
        try:
            with self._client.open_answer("GET", url, if_match(asked)) as answer:
                self._require_known(url, answer)
                if own and not same_revision(asked, answer):
                    raise _changed_error(entry.uri)
                if answer.status_code != 200:
                    raise _answers(url, answer)
                whole = hashlib.sha256()
                for piece in body_of(answer):
                    whole.update(piece)
                    yield piece
        except Unreached as error:
            raise DocumentError(f"{entry.uri}: {error}", "unreadable") from None
        if asked.startswith(_HASHED) and whole.hexdigest() != asked.removeprefix(_HASHED):
            raise _changed_error(entry.uri)

    def close(self) -> None:
        self._client.close()


def _of_lines(text: str) -> list[_File]:
    found = []
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            summed = _SUM.fullmatch(line)
            found.append(_File(summed[2], _HASHED + summed[1].lower()) if summed else _File(line))
    return found


def _of_json(text: str) -> list[_File]:
    return [_of_item(item) for item in json.loads(text)]


def _of_item(item: Any) -> _File:
    if isinstance(item, str):
        return _File(item)
    if not isinstance(item, dict) or not isinstance(item.get("url"), str):
        raise ValueError("an item is an address, or an object that has a url")
    if unknown := sorted(item.keys() - {"url", "name", "revision", "sha256"}):
        raise ValueError(f"an item has {unknown[0]!r}; it may have url, name, revision and sha256")
    name, revision, sha256 = (item.get(key) for key in ("name", "revision", "sha256"))
    if not isinstance(name or "", str):
        raise ValueError(f"the name of {item['url']} is no text")
    if sha256 is not None:
        if not isinstance(sha256, str) or not _HASH.fullmatch(sha256):
            raise ValueError(f"the sha256 of {item['url']} is not 64 hexadecimal digits")
        revision = _HASHED + sha256.lower()
    elif revision is not None:
        if not isinstance(revision, str | int):
            raise ValueError(f"the revision of {item['url']} is neither text nor a whole number")
        revision = f"{_GIVEN}{revision}"
    return _File(item["url"], revision or "", name or "")


def _hash_of(response: requests.Response) -> str:
    whole = hashlib.sha256()
    for piece in body_of(response, MOST_UNTOLD):
        whole.update(piece)
    return _HASHED + whole.hexdigest()


def _answers(url: str, response: requests.Response) -> Unreached:
    return Unreached(f"{url} answers {response.status_code}")


def _changed_error(uri: str) -> DocumentError:
    return DocumentError(
        f"{uri}: the file was changed or deleted after the listing; the next run reads it again", "changed"
    )
