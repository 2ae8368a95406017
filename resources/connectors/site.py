"""Pages of a site below an address, found by their links or by its sitemap. robots.txt is obeyed, nothing of another
host is asked for, and redirects are followed within the site alone.

A page that cannot be had now keeps its place in the listing, and what it linked to when it last could be: it fails as a
document, and nothing counts as gone for it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from resources.connectors.registry import options_of
from resources.connectors.site_client import Answer, SiteClient, Unreached
from resources.connectors.site_links import Scope, links_of, named, sitemap_urls
from resources.connectors.source import Address, Entry
from resources.hashes import bytes_hash

if TYPE_CHECKING:
    from urllib.robotparser import RobotFileParser

_PIECE = 1 << 20
_PAGE = 64
_MOST_SITEMAPS = 100
MOST_OF_ROBOTS = 512 << 10
"""Bytes of a robots.txt; RFC 9309 asks for 500 KB at least. What is past them may forbid something."""
MOST_LINKS = 10_000_000
"""Links between the pages of a site, which are kept for when a page fails."""
_DELAYED = 1
"""Pages at once where robots.txt asks for a delay."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is known of a page: `revision` is a hash of its bytes; `fault` says why it cannot be had now."""

    url: str
    uri: str
    revision: str
    size: int | None = None
    etag: str = ""
    modified: str = ""
    links: tuple[str, ...] = ()
    fault: str = ""


def connect(address: Address) -> SiteSource:
    """Options: `most`, the pages after which a listing is given up (10000); `sitemap`, an address that names the
    pages, in place of their links."""
    options = options_of(address, most="10000", sitemap=None)
    if not options["most"].isdigit() or not int(options["most"]):
        raise SettingsError(f"source {address.name!r}: its option most is a number of pages")
    start = address.url.removeprefix("web+")
    if not urlsplit(start).hostname:
        raise SettingsError(f"source {address.name!r}: no host in its path; write web+https://HOST/PATH/")
    scope = Scope.of(start)
    if options["sitemap"] and not scope.same_site(options["sitemap"]):
        raise SettingsError(f"source {address.name!r}: its sitemap is on another host")
    return SiteSource(address, scope, int(options["most"]), options["sitemap"])


class SiteSource:
    at_once = 4

    def __init__(self, address: Address, scope: Scope, most: int, sitemap: str) -> None:
        self._address, self._scope, self._most, self._sitemap = address, scope, most, sitemap
        self._known_file, self._bodies = address.folder / "pages.json", address.folder / "bodies"
        self._client = SiteClient(scope)
        self._now: dict[str, Page] = {}
        self._urls: dict[str, str] = {}
        self._linked: dict[str, str] = {}

    # ------------------------------------------------------------ listing

    def entries(self) -> Iterator[Sequence[Entry]]:
        shutil.rmtree(self._bodies, ignore_errors=True)
        self._bodies.mkdir(mode=0o700, parents=True)
        robots = self._robots()
        delay = min(float(robots.crawl_delay(self._client.name) or 0), 10.0)
        known, self._now, self._linked, links = self._read_known(), {}, {}, 0
        with ThreadPoolExecutor(_DELAYED if delay else self.at_once) as threads:
            level, seen = self._first(), set[str]()
            while level := [url for url in self._unseen(level, seen) if robots.can_fetch(self._client.name, url)]:
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
                    if len(found) > 2 * self._most:  # each may be there with a slash at its end and without
                        raise self._too_many()
                    yield [entry for page in pages if (entry := self._taken(page))]
                level = [] if self._sitemap else list(found)
        self._known_file.write_text(json.dumps([asdict(page) for page in self._now.values()]), encoding="utf-8")

    def _too_many(self) -> SourceError:
        return self._fault(f"it has more than {self._most} pages", "raise its option most, or name less of it")

    def _taken(self, page: Page) -> Entry | None:
        """The page as an entry; None where a redirect led to one that is there already."""
        if page.url in self._now:
            return None
        uri = page.uri
        if uri in self._urls:  # two addresses that make one name
            stem, dot, ending = uri.rpartition(".")
            uri = f"{stem}~{bytes_hash(page.url.encode())[:8]}{dot}{ending}"
        self._now[page.url], self._urls[uri] = page, page.url
        return Entry(uri, page.revision, page.size)

    def _unseen(self, urls: Iterable[str], seen: set[str]) -> list[str]:
        """Those that are below the address and were not met before, with and without a slash at the end."""
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

        answer = self._asked(self._scope.at("/robots.txt"), "see that its site is reachable", MOST_OF_ROBOTS)
        if answer.status >= 500:
            raise self._fault(f"its robots.txt answers {answer.status}", "try again when it is well")
        rules = RobotFileParser()
        try:
            rules.parse(answer.body.decode("utf-8", "replace").splitlines() if answer.status == 200 else [])
            min(float(rules.crawl_delay(self._client.name) or 0), 10.0)
        except (ValueError, OverflowError) as error:
            raise self._fault(f"its robots.txt cannot be read: {error}", "mend it, or ask whoever keeps it") from None
        return rules

    def _asked(self, url: str, remedy: str, most: int = 0, packed: bool = False) -> Answer:
        try:
            return self._client.get(url, most=most, packed=packed)
        except Unreached as error:
            raise self._fault(f"{url}: {error}", remedy) from None

    def _first(self) -> list[str]:
        if not self._sitemap:
            answer = self._asked(self._scope.start, "see that its page is there")
            if answer.status not in (200, 304) or not self._scope.has(answer.url):
                led = f"leads to {answer.url}" if answer.status < 400 else f"answers {answer.status}"
                raise self._fault(f"{self._scope.start} {led}", "name the address of its first page")
            return [self._scope.start]
        found, sitemaps, read = list[str](), [self._sitemap], 0
        while sitemaps and read < _MOST_SITEMAPS:
            answer, read = self._asked(sitemaps.pop(), "see its option sitemap", packed=True), read + 1
            if answer.status != 200:
                raise self._fault(f"the sitemap {answer.url} answers {answer.status}", "see its option sitemap")
            try:
                pages, more = sitemap_urls(answer.body, self._scope, max(self._most, _MOST_SITEMAPS) + 1)
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
        """A page as it is now, what it was where it cannot be had; None where there is none."""
        self._client.pause(delay)
        before = known.get(url)
        try:
            answer = self._client.get(url, before.etag if before else "", before.modified if before else "")
        except Unreached as error:
            return self._failing(url, before, str(error))
        if answer.status == 304 and before is not None:
            return before
        if answer.status in (404, 410) or not self._scope.has(answer.url):
            return None
        if answer.status != 200:
            return self._failing(url, before, f"it answers {answer.status}")
        uri = named(self._scope, answer.url, answer.media_type)
        if answer.unread:
            return Page(answer.url, uri, answer.etag or answer.modified or "not read")
        revision = bytes_hash(answer.body)
        (self._bodies / revision).write_bytes(answer.body)
        linking = uri.endswith((".html", ".htm", ".xhtml"))
        # One more than there may be pages is as good as all: the listing is given up.
        links = links_of(answer.body, answer.url, self._scope, self._most + 1) if linking else ()
        shared = tuple(self._linked.setdefault(link, link) for link in links)  # most pages link to the same ones
        return Page(answer.url, uri, revision, len(answer.body), answer.etag, answer.modified, shared)

    def _failing(self, url: str, before: Page | None, fault: str) -> Page:
        uri = before.uri if before else named(self._scope, url, "text/html")
        return Page(url, uri, f"failing: {fault}", links=before.links if before else (), fault=fault)

    def _read_known(self) -> dict[str, Page]:
        """Of the last whole listing; what cannot be read is asked for anew."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            rows = json.loads(self._known_file.read_text(encoding="utf-8"))
            pages = [Page(**{**row, "links": tuple(row["links"])}) for row in rows]
            return {page.url: page for page in pages}
        return {}

    # ------------------------------------------------------------ reading

    def prepare(self, entries: Sequence[Entry]) -> None:
        """What changed was read when it was listed."""

    def read(self, entry: Entry) -> Generator[bytes]:
        page = self._now.get(self._urls.get(entry.uri, ""))
        if page is None or page.fault:
            raise DocumentError(f"{entry.uri}: {page.fault if page else 'it is listed no more'}", "unreadable")
        body = self._bodies / entry.revision
        if not body.is_file():
            self._fetch(entry, page, body)
        with open(body, "rb") as stream:
            while piece := stream.read(_PIECE):
                yield piece

    def _fetch(self, entry: Entry, page: Page, into: Path) -> None:
        try:
            answer = self._client.get(page.url)
        except Unreached as error:
            raise DocumentError(f"{entry.uri}: {error}", "unreadable") from None
        if answer.status != 200 or bytes_hash(answer.body) != entry.revision:
            raise DocumentError(f"{entry.uri}: it changed after it was listed; the next run reads it again", "changed")
        into.write_bytes(answer.body)

    def close(self) -> None:
        self._client.close()
        shutil.rmtree(self._bodies, ignore_errors=True)

    def _fault(self, told: str, remedy: str) -> SourceError:
        return SourceError(f"source {self._address.name!r}: {told}; {remedy}. Nothing was changed")
