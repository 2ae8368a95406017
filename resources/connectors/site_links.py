"""Addresses of a site: which belong to a source, what their documents are named, what a page or sitemap links to."""

from __future__ import annotations

import html
import re
import zlib
from dataclasses import dataclass
from itertools import islice
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from resources.bounded_http import server_of

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
"""What a name may end in that is of a media type; the first is added to one that does not."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The pages of a source: those of one site whose path begins with `prefix`."""

    start: str
    site: tuple[str, str]
    prefix: str

    @classmethod
    def of(cls, start: str) -> Scope:
        parts = urlsplit(start)
        folder, _, last = parts.path.rpartition("/")
        prefix = f"{folder}/" if "." in last else f"{parts.path.rstrip('/')}/"
        return cls(start, _site(start), prefix)

    def same_site(self, url: str) -> bool:
        return _site(url) == self.site

    def has(self, url: str) -> bool:
        if not self.same_site(url):
            return False
        path = urlsplit(url).path or "/"
        return path.startswith(self.prefix) or f"{path}/" == self.prefix

    def at(self, path: str) -> str:
        parts = urlsplit(self.start)
        return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _site(url: str) -> tuple[str, str]:
    """Scheme, and host with port; ("", "") of what is no address."""
    scheme, host, port = server_of(url)
    return scheme, f"{host}:{port}" if scheme else ""


def named(scope: Scope, url: str, media_type: str) -> str:
    """The name of a page's document: its path below the source's, with the ending of what it is."""
    parts = urlsplit(url)
    path = unquote(parts.path)[len(scope.prefix) :] if parts.path.startswith(scope.prefix) else ""
    if not path or path.endswith("/"):
        path += "index"
    path += f"?{parts.query}" if parts.query else ""
    endings = _ENDINGS.get(media_type, ())
    if not endings or path.lower().endswith(endings):
        return path
    return f"{path}/index{endings[0]}" if endings[0] == ".html" and not path.endswith("index") else path + endings[0]


def links_of(body: bytes, url: str, scope: Scope, most: int) -> tuple[str, ...]:
    """Addresses below the source's that a page of HTML links to, each once and in order, and no more than `most`."""
    text = body.decode("utf-8", "replace")
    found: dict[str, None] = {}
    for match in _LINK.finditer(text):
        link = html.unescape(match[1] or match[2] or match[3] or "").strip()
        try:
            target = urldefrag(urljoin(url, link)).url
        except ValueError:  # a host in brackets that is none
            continue
        if scope.has(target):
            found[target] = None
        if len(found) >= most:
            break
    return tuple(found)


def sitemap_urls(body: bytes, scope: Scope, most: int) -> tuple[list[str], list[str]]:
    """Return the pages of the source, and further sitemaps of its site, that a sitemap names (sitemaps.org, 0.9): no
    more than `most` of each. Raise ValueError where it cannot be unpacked, or is longer than it may be."""
    if body.startswith(_GZIP):
        body = _unpacked(body)
    text = body.decode("utf-8", "replace")
    of_index = _OF_INDEX.search(text)
    wanted = scope.same_site if of_index else scope.has
    places = (html.unescape(match[1]) for match in _PLACE.finditer(text))
    found = list(islice(dict.fromkeys(filter(wanted, places)), most))
    return ([], found) if of_index else (found, [])


def _unpacked(body: bytes) -> bytes:
    """Return what a gzip file holds, once: what is packed within it is not unpacked."""
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
