"""A folder of a WebDAV server, such as Nextcloud or ownCloud, as a source.

Each folder is listed by a PROPFIND of depth 1, and at most one entry of an answer is in memory at a time. Only names
directly in the requested folder count, so a server cannot lead to other folders.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from pipelines.errors import DocumentError, SourceError
from resources.connectors.source import Entry, SourceAddress, fault, options_of
from resources.http_client import (
    HttpClient,
    Unreached,
    body_of,
    credentials_of,
    if_match,
    joined_address,
    length_of,
    same_revision,
)

if TYPE_CHECKING:
    from lxml.etree import _Element

MOST_BYTES = 256 << 20
"""Most bytes of the listing of one folder."""
MOST_OF_ONE = 4 << 20
"""Most bytes of one entry in a listing, which is read into memory."""
MOST_FOLDERS = 1_000_000
LONGEST_NAME = 4096
"""Most characters of the name of a file or folder; no file system allows more than 255 bytes."""
DEEPEST = 100
"""Most levels of folders, so that a folder that contains itself is not read forever."""
_AT_ONCE = 8
_PAGE = 1000
_DAV = "{DAV:}"
_ASKED = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getetag/><getlastmodified/>'
    b"<getcontentlength/></prop></propfind>"
)
_REMEDY = "Give credentials that may read it in ~/.netrc, or the file that NETRC names, or by its option token"


def connect(address: SourceAddress) -> WebdavSource:
    """Connect to a folder. Options: `token`, the name of an environment variable with a bearer token."""
    options = options_of(address, token=None)
    url = address.url.removeprefix("webdav+")
    auth = credentials_of(f"source {address.name!r}", url, options["token"])
    return WebdavSource(address, f"{url.rstrip('/')}/", HttpClient(url, _AT_ONCE, auth=auth))


class WebdavSource:
    """A source of files in a WebDAV folder. The revision is the file's ETag, or else the time of its last change with
    its size."""

    at_once = _AT_ONCE

    def __init__(self, address: SourceAddress, root: str, client: HttpClient) -> None:
        self._address, self._root, self._client = address, root, client

    # ------------------------------------------------------------ listing

    def entries(self) -> Iterator[Sequence[Entry]]:
        page: list[Entry] = []
        pending, met = [""], 0
        while pending:
            folder, met = pending.pop(), met + 1
            if met + len(pending) > MOST_FOLDERS:
                raise self._fault(Unreached(f"it has over {MOST_FOLDERS} folders"))
            for name, entry in self._folder(folder):
                if entry is None:
                    pending.append(f"{folder}{name}/")
                    continue
                page.append(entry)
                if len(page) == _PAGE:
                    yield page
                    page = []
        yield page

    def _folder(self, folder: str) -> Iterator[tuple[str, Entry | None]]:
        """Yield the names in a folder, each with its entry, or with None if it is a folder."""
        url = self._root + quote(folder)
        if folder.count("/") > DEEPEST:
            raise self._fault(Unreached(f"{folder}: over {DEEPEST} folders are within each other"))
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        try:
            with self._client.open_answer("PROPFIND", url, headers, _ASKED) as response:
                if response.status_code != 207:
                    raise self._refusal(folder, response.status_code)
                own, found = _parts(url), False
                for element in _responses(body_of(response, MOST_BYTES)):
                    parts = _parts(joined_address(url, (element.findtext(f"{_DAV}href") or "").strip()))
                    found = found or parts == own
                    # A server may ignore the depth: entries that are deeper are skipped, since every folder is listed
                    # by its own request.
                    if parts[:-1] == own:
                        if len(parts[-1]) > LONGEST_NAME:
                            raise Unreached(f"{folder or 'the folder'}: it lists a name of {len(parts[-1])} characters")
                        yield self._entry(folder, parts[-1], element)
                if not found:
                    raise Unreached(f"{folder or 'the folder'}: the server lists another folder than was asked for")
        except Unreached as error:
            raise self._fault(error) from None

    def _entry(self, folder: str, name: str, element: _Element) -> tuple[str, Entry | None]:
        values = {}
        for found in element.iterfind(f"{_DAV}propstat"):
            if " 200" in (found.findtext(f"{_DAV}status") or " 200"):
                for value in found.iterfind(f"{_DAV}prop/*"):
                    values[value.tag] = value
        kind = values.get(f"{_DAV}resourcetype")
        if kind is not None and kind.find(f"{_DAV}collection") is not None and name not in (".", ".."):
            if "/" in name:
                raise Unreached(f"{folder or 'the folder'}: it lists {name!r}, which is the name of no folder")
            return name, None
        etag, modified, length = (
            (values[tag].text or "").strip() if (tag := f"{_DAV}{told}") in values else ""
            for told in ("getetag", "getlastmodified", "getcontentlength")
        )
        if not etag and not modified:
            raise Unreached(f"{folder}{name}: the server tells neither getetag nor getlastmodified of it")
        tag = etag if '"' in etag or not etag else f'"{etag}"'  # some servers leave out the quotes, here only
        return name, Entry(folder + name, tag or f"{modified} {length}", length_of(length))

    # ------------------------------------------------------------ reading

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since each file needs a separate request."""

    def read(self, entry: Entry) -> Generator[bytes]:
        try:
            with self._client.open_answer("GET", self._root + quote(entry.uri), if_match(entry.revision)) as response:
                if not same_revision(entry.revision, response):
                    told = "it changed or went away after it was listed; the next run reads it again"
                    raise DocumentError(f"{entry.uri}: {told}", "changed")
                if response.status_code == 401:
                    raise self._refusal(entry.uri, 401)
                if response.status_code != 200:
                    raise Unreached(f"the server answers {response.status_code}")
                yield from body_of(response)
        except Unreached as error:
            raise DocumentError(f"{entry.uri}: {error}", "unreadable") from None

    def close(self) -> None:
        self._client.close()

    def _refusal(self, what: str, status: int) -> SourceError:
        told = Unreached(f"{what or 'the folder'}: the server answers {status}")
        if status in (401, 403):
            return fault(self._address, told, _REMEDY, credentials=True)
        return fault(self._address, told, "See that the address is that of a WebDAV folder")

    def _fault(self, error: Unreached) -> SourceError:
        return fault(self._address, error, "See that the server is well, and try again")


def _parts(url: str) -> list[str]:
    """Split the path of an address into its decoded parts. Equal paths compare equal however they are escaped, and an
    escaped slash does not split a part."""
    return [unquote(part) for part in urlsplit(url).path.rstrip("/").split("/")]


def _responses(pieces: Iterator[bytes]) -> Iterator[_Element]:
    """Yield the `response` elements of a multistatus, and free each after it was read. Raise Unreached."""
    from lxml import etree

    parser = etree.XMLPullParser(
        events=("end",), resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False
    )
    first, unended = True, 0
    try:
        for piece in pieces:
            parser.feed(piece)
            unended += len(piece)
            for _, element in parser.read_events():
                parent = element.getparent()
                if parent is None or parent.getparent() is not None:
                    continue
                if first and element.getroottree().docinfo.internalDTD is not None:
                    raise Unreached("its answer declares a document type")
                first = False
                if element.tag == f"{_DAV}response":
                    yield element
                element.clear()
                while element.getprevious() is not None:
                    del parent[0]
                unended = 0
            if unended > MOST_OF_ONE:
                raise Unreached(f"an entry of its answer is over {MOST_OF_ONE >> 20} MB")
        parser.close()
    except etree.XMLSyntaxError as error:
        raise Unreached(f"its answer is no XML: {error}") from None
