"""The pages of a web site below an address as a source, found by links or by a sitemap. robots.txt is obeyed, no
request goes to another host, and redirects are followed only within the site.

A page that cannot be fetched stays in the listing with its earlier links. It fails as a document, so no page counts as
deleted because of a fault.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import time
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from resources.connectors.source import Entry, SourceAddress, options_of
from resources.hashes import bytes_hash
from resources.http_client import HttpClient, HttpResponse, LedAway, Unreached, server_of
from resources.parsers.registry import media_type_of

if TYPE_CHECKING:
    from urllib.robotparser import RobotFileParser

    import requests


# ---------------------------------------------------------------- site links
#
# Which addresses belong to a source, how their documents are named, and which addresses a page or sitemap links to.


_LINK = re.compile(
    r"""<a\s[^<>]{0,2000}?\bhref\s{0,9}=\s{0,9}(?:"([^"<>]{0,2000})"|'([^'<>]{0,2000})'|([^\s"'<>]{1,2000}))""",
    re.IGNORECASE,
)
_PLACE = re.compile(r"<(?:\w{1,20}:)?loc>\s{0,99}([^<\s]{1,2000})\s{0,99}<", re.IGNORECASE)
_OF_INDEX = re.compile(r"<(?:\w{1,20}:)?sitemapindex\b", re.IGNORECASE)
_MOST_OF_A_SITEMAP = 64 << 20
_GZIP = b"\x1f\x8b"
_ENDINGS = {
    "text/html": (".html", ".htm", ".xhtml"),
    "application/xhtml+xml": (".xhtml", ".html", ".htm"),
    "application/pdf": (".pdf",),
    "text/markdown": (".md", ".markdown"),
    "text/plain": (".txt", ".text", ".md", ".rst", ".org", ".log", ".csv"),
}
"""Endings of names by media type. The first is added to a name without one of them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The pages of a source: those of one site whose path begins with `prefix`."""

    start: str
    site: tuple[str, str, int]
    prefix: str

    @classmethod
    def from_start(cls, start: str) -> Scope:
        parts = urlsplit(start)
        folder, _, last = parts.path.rpartition("/")
        prefix = f"{folder}/" if "." in last else f"{parts.path.rstrip('/')}/"
        return cls(start, server_of(start), prefix)

    def same_site(self, url: str) -> bool:
        return server_of(url) == self.site

    def has(self, url: str) -> bool:
        if not self.same_site(url):
            return False
        path = urlsplit(url).path or "/"
        return path.startswith(self.prefix) or f"{path}/" == self.prefix

    def address_at(self, path: str) -> str:
        parts = urlsplit(self.start)
        return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def document_name(scope: Scope, url: str, media_type: str) -> str:
    """Return the name of a page's document: its path relative to the source, with the ending of its media type."""
    parts = urlsplit(url)
    path = unquote(parts.path)[len(scope.prefix) :] if parts.path.startswith(scope.prefix) else ""
    if not path or path.endswith("/"):
        path += "index"
    path += f"?{parts.query}" if parts.query else ""
    endings = _ENDINGS.get(media_type, ())
    if not endings or path.lower().endswith(endings):
        return path
    return f"{path}/index{endings[0]}" if endings[0] == ".html" and not path.endswith("index") else path + endings[0]


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def links_of(body: bytes, url: str, scope: Scope, most: int) -> tuple[str, ...]:
    """Return the addresses within the source to which an HTML page links, each once, in order, and at most `most`."""
    text = body.decode("utf-8", "replace")
    found: dict[str, None] = {}
    for match in _LINK.finditer(text):
        link = html.unescape(match[1] or match[2] or match[3] or "").strip()
        try:
            target = urldefrag(urljoin(url, link)).url
        except ValueError:  # a host in brackets that is not an IP address
            continue
        if scope.has(target):
            found[target] = None
        if len(found) >= most:
            break
    return tuple(found)


def sitemap_urls(body: bytes, scope: Scope, most: int) -> tuple[list[str], list[str]]:
    """Return the pages of the source, and further sitemaps of its site, from a sitemap (sitemaps.org, 0.9): at most
    `most` of each. Raise ValueError if the sitemap cannot be unpacked, or is too long."""
    if body.startswith(_GZIP):
        body = _unpack(body)
    text = body.decode("utf-8", "replace")
    of_index = _OF_INDEX.search(text)
    wanted = scope.same_site if of_index else scope.has
    places = (html.unescape(match[1]) for match in _PLACE.finditer(text))
    found = list(islice(dict.fromkeys(filter(wanted, places)), most))
    return ([], found) if of_index else (found, [])


def _unpack(body: bytes) -> bytes:
    """Unpack a gzip file once: gzip data within it stays packed."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        made = unpacking.decompress(body, _MOST_OF_A_SITEMAP)
    except zlib.error:
        raise ValueError("it is no whole gzip file") from None
    if unpacking.unconsumed_tail:
        raise ValueError(f"it is over {_MOST_OF_A_SITEMAP >> 20} MB when it is unpacked")
    if not unpacking.eof:
        raise ValueError("it is no whole gzip file")
    return made


# ---------------------------------------------------------------- site
#
# The order in which a site is crawled, what robots.txt lets it read, and what is kept from one listing to the next.


NAME = "pincite"
"""The user agent of pincite for rules in robots.txt."""
SECONDS = 60.0
"""Most seconds for one complete page, so that a slow server cannot delay a listing."""
MOST_BYTES = 128 << 20
_ATTEMPTS = 2
_BUSY = frozenset({429, *range(500, 1000)})
"""Statuses after which a page is requested again: all that report a server error, including non-standard ones."""
_AT_ONCE = 4
_ACCEPTED = "text/html,application/pdf,text/*;q=0.9,*/*;q=0.5"
_PAGE_PIECE = 1 << 20
_PAGE = 64
_MOST_SITEMAPS = 100
MOST_OF_ROBOTS = 512 << 10
"""Most bytes of a robots.txt; RFC 9309 requires at least 500 KB. A longer file is refused, since the unread part might
forbid pages."""
MOST_LINKS = 10_000_000
"""Most links between the pages of a site. They are kept in memory and on disk, in case a page fails later."""
_DELAYED = 1
"""Number of pages read at once if robots.txt asks for a delay."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page in its last known form: `revision` is a hash of its bytes; `fault` says why it cannot be fetched now."""

    url: str
    uri: str
    revision: str
    size: int | None = None
    etag: str = ""
    modified: str = ""
    links: tuple[str, ...] = ()
    fault: str = ""


def connect(address: SourceAddress) -> SiteSource:
    """Connect to a site. Options: `most`, the largest number of pages in a listing (10000); `sitemap`, the address of a
    sitemap, which is read instead of links."""
    options = options_of(address, most="10000", sitemap=None)
    if not options["most"].isdigit() or not int(options["most"]):
        raise SettingsError(f"source {address.name!r}: its option most must be a number of pages from 1")
    start = address.url.removeprefix("web+")
    if not urlsplit(start).hostname:
        raise SettingsError(f"source {address.name!r}: its path has no host; write web+https://HOST/PATH/")
    scope = Scope.from_start(start)
    if options["sitemap"] and not scope.same_site(options["sitemap"]):
        raise SettingsError(f"source {address.name!r}: its sitemap is on another host; name one on the same host")
    return SiteSource(address, scope, int(options["most"]), options["sitemap"])


class SiteSource:
    at_once = _AT_ONCE

    def __init__(self, address: SourceAddress, scope: Scope, most: int, sitemap: str) -> None:
        self._address, self._scope, self._most, self._sitemap = address, scope, most, sitemap
        self._known_file, self._bodies = address.folder / "pages.json", address.folder / "bodies"
        headers = {"User-Agent": NAME, "Accept": _ACCEPTED}
        self._client = HttpClient(
            scope.start, _AT_ONCE, attempts=_ATTEMPTS, seconds=SECONDS, busy=_BUSY, headers=headers
        )
        self._lock, self._next = Lock(), 0.0
        self._now: dict[str, Page] = {}
        self._urls: dict[str, str] = {}
        self._linked: dict[str, str] = {}

    # ------------------------------------------------------------ listing

    def entries(self) -> Iterator[Sequence[Entry]]:
        shutil.rmtree(self._bodies, ignore_errors=True)
        self._bodies.mkdir(mode=0o700, parents=True)
        robots = self._robots()
        delay = min(float(robots.crawl_delay(NAME) or 0), 10.0)
        known, self._now, self._linked, links = self._read_known(), {}, {}, 0
        with ThreadPoolExecutor(_DELAYED if delay else self.at_once) as threads:
            level, seen = self._first(), set[str]()
            while level := [url for url in self._new_addresses(level, seen) if robots.can_fetch(NAME, url)]:
                if len(seen) > self._most:
                    raise self._too_many()
                found: dict[str, None] = {}
                for at in range(0, len(level), _PAGE):
                    visits = threads.map(lambda url: self._visit(url, known, delay), level[at : at + _PAGE])
                    pages = [page for page in visits if page is not None]
                    links += sum(len(page.links) for page in pages)
                    if links > MOST_LINKS:
                        raise self._fault(f"its pages have over {MOST_LINKS} links", "name less of it")
                    found |= {link: None for page in pages for link in page.links if link.rstrip("/") not in seen}
                    if len(found) > 2 * self._most:  # each may be there with and without a slash at its end
                        raise self._too_many()
                    yield [entry for page in pages if (entry := self._entry_of(page))]
                level = [] if self._sitemap else list(found)
        self._known_file.write_text(json.dumps([asdict(page) for page in self._now.values()]), encoding="utf-8")

    def _too_many(self) -> SourceError:
        return self._fault(f"it has more than {self._most} pages", "raise its option most, or name less of it")

    def _entry_of(self, page: Page) -> Entry | None:
        """Return the page as an entry, or None if a redirect led to a page that is already listed."""
        if page.url in self._now:
            return None
        uri = page.uri
        if uri in self._urls:  # two addresses that give one name
            stem, dot, ending = uri.rpartition(".")
            uri = f"{stem}~{bytes_hash(page.url.encode())[:8]}{dot}{ending}"
        self._now[page.url], self._urls[uri] = page, page.url
        return Entry(uri, page.revision, page.size)

    def _new_addresses(self, urls: Iterable[str], seen: set[str]) -> list[str]:
        """Return the new addresses that are in scope; a final slash is ignored."""
        found = []
        for url in urls:
            if len(seen) > self._most:
                break
            if self._scope.has(url) and url.rstrip("/") not in seen:
                seen.add(url.rstrip("/"))
                found.append(url)
        return found

    def _robots(self) -> RobotFileParser:
        from urllib.robotparser import RobotFileParser

        answer = self._ask(self._scope.address_at("/robots.txt"), "see that its site is reachable", MOST_OF_ROBOTS)
        rules = RobotFileParser()
        try:
            rules.parse((answer.body or b"").decode("utf-8", "replace").splitlines() if answer.status == 200 else [])
            min(float(rules.crawl_delay(NAME) or 0), 10.0)
        except (ValueError, OverflowError) as error:
            raise self._fault(
                f"its robots.txt cannot be read: {error}", "ask the owner of the site to correct it"
            ) from None
        return rules

    def _ask(self, url: str, remedy: str, most: int = 0, packed: bool = False) -> HttpResponse:
        try:
            return self._get(url, most=most, packed=packed)
        except Unreached as error:
            raise self._fault(f"{url}: {error}", remedy) from None

    def _first(self) -> list[str]:
        if not self._sitemap:
            answer = self._ask(self._scope.start, "see that its page is there")
            if answer.status not in (200, 304) or not self._scope.has(answer.url):
                led = f"leads to {answer.url}" if answer.status < 400 else f"answers {answer.status}"
                raise self._fault(f"{self._scope.start} {led}", "name the address of its first page")
            return [self._scope.start]
        found, sitemaps, read = list[str](), [self._sitemap], 0
        while sitemaps and read < _MOST_SITEMAPS:
            answer, read = self._ask(sitemaps.pop(), "see its option sitemap", packed=True), read + 1
            if answer.status != 200:
                raise self._fault(f"the sitemap {answer.url} answers {answer.status}", "see its option sitemap")
            try:
                pages, more = sitemap_urls(answer.body or b"", self._scope, max(self._most, _MOST_SITEMAPS) + 1)
            except ValueError as error:
                raise self._fault(f"the sitemap {answer.url}: {error}", "see its option sitemap") from None
            found += pages
            sitemaps += more
            if len(found) > self._most or len(sitemaps) > _MOST_SITEMAPS:
                break
        if sitemaps and len(found) <= self._most:
            raise self._fault(f"its sitemaps are more than {_MOST_SITEMAPS}", "name one of them as its option sitemap")
        return found

    def _visit(self, url: str, known: dict[str, Page], delay: float) -> Page | None:
        """Fetch a page. If it cannot be fetched, return it with its earlier links and the fault. Return None if it is
        deleted or outside the scope."""
        self._pause(delay)
        before = known.get(url)
        try:
            answer = self._get(url, before)
        except Unreached as error:
            return self._failing(url, before, str(error))
        if answer.status == 304 and before is not None:
            return before
        if answer.status in (404, 410) or not self._scope.has(answer.url):
            return None
        if answer.status != 200:
            return self._failing(url, before, f"it answers {answer.status}")
        uri = document_name(self._scope, answer.url, _media_type(answer.headers))
        etag, modified = answer.headers.get("etag", ""), answer.headers.get("last-modified", "")
        if answer.body is None:
            return Page(answer.url, uri, etag or modified or "not read")
        revision = bytes_hash(answer.body)
        (self._bodies / revision).write_bytes(answer.body)
        linking = uri.endswith((".html", ".htm", ".xhtml"))
        # One link more than the limit of pages is enough: the listing is given up then.
        links = links_of(answer.body, answer.url, self._scope, self._most + 1) if linking else ()
        shared = tuple(self._linked.setdefault(link, link) for link in links)  # most pages link to the same ones
        return Page(answer.url, uri, revision, len(answer.body), etag, modified, shared)

    def _pause(self, seconds: float) -> None:
        """Wait until this many seconds have passed since the last page was requested by any thread."""
        if seconds:
            with self._lock:
                time.sleep(max(0.0, self._next - time.monotonic()))
                self._next = time.monotonic() + seconds

    def _get(self, url: str, before: Page | None = None, most: int = 0, packed: bool = False) -> HttpResponse:
        """Fetch a page if it has changed since `before`; at most `most` bytes (MOST_BYTES if 0).

        The body is left out if no parser reads its media type. A redirect to another site is returned with the address
        there. Raise Unreached.
        """
        tags = {"If-None-Match": before.etag, "If-Modified-Since": before.modified} if before else {}
        headers = {name: value for name, value in tags.items() if value}
        try:
            answer = self._client.fetch(url, headers, most=most or MOST_BYTES, packed=packed, wanted=self._is_read)
        except LedAway as error:
            return HttpResponse(error.url, error.status, {})
        if answer.status >= 500:
            raise Unreached(f"it answers {answer.status}")
        return answer

    def _is_read(self, url: str, response: requests.Response) -> bool:
        whole_site = not url.startswith(self._scope.address_at(self._scope.prefix))  # robots.txt and sitemaps
        name = Path(document_name(self._scope, url, _media_type(response.headers)))
        return response.status_code == 200 and (whole_site or media_type_of(name) is not None)

    def _failing(self, url: str, before: Page | None, fault: str) -> Page:
        uri = before.uri if before else document_name(self._scope, url, "text/html")
        return Page(url, uri, f"failing: {fault}", links=before.links if before else (), fault=fault)

    def _read_known(self) -> dict[str, Page]:
        """Return the pages of the last complete listing, or no pages if they cannot be read; then every page is fetched
        again."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            rows = json.loads(self._known_file.read_text(encoding="utf-8"))
            pages = [Page(**{**row, "links": tuple(row["links"])}) for row in rows]
            return {page.url: page for page in pages}
        return {}

    # ------------------------------------------------------------ reading

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since changed pages are fetched during the listing."""

    def read(self, entry: Entry) -> Generator[bytes]:
        page = self._now.get(self._urls.get(entry.uri, ""))
        if page is None or page.fault:
            raise DocumentError(f"{entry.uri}: {page.fault if page else 'the page is no longer listed'}", "unreadable")
        body = self._bodies / entry.revision
        if not body.is_file():
            self._fetch(entry, page, body)
        with open(body, "rb") as stream:
            while piece := stream.read(_PAGE_PIECE):
                yield piece

    def _fetch(self, entry: Entry, page: Page, into: Path) -> None:
        try:
            answer = self._get(page.url)
        except Unreached as error:
            raise DocumentError(f"{entry.uri}: {error}", "unreadable") from None
        if answer.status != 200 or answer.body is None or bytes_hash(answer.body) != entry.revision:
            raise DocumentError(
                f"{entry.uri}: the page changed after the listing; the next run reads it again", "changed"
            )
        into.write_bytes(answer.body)

    def close(self) -> None:
        self._client.close()
        shutil.rmtree(self._bodies, ignore_errors=True)

    def _fault(self, told: str, remedy: str) -> SourceError:
        return SourceError(f"source {self._address.name!r}: {told}; {remedy}. Nothing was changed")
