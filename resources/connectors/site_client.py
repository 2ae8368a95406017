"""Requests to one site: bounded in time and bytes, redirects within the site alone, nothing asked of another host."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from resources.connectors.site_links import Scope, named
from resources.parsers.registry import media_type_of

if TYPE_CHECKING:
    import httpx

_MOST_REDIRECTS = 5
_ATTEMPTS = 2
SECONDS = 60.0
"""That one page may take."""
MOST_BYTES = 128 << 20


class Unreached(Exception):
    """No answer, or none that ends; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`unread`: it is of a kind that nobody reads, so its body was not asked for. `url` is where redirects led; one to
    another site is not followed, and is `url` then."""

    url: str
    status: int
    media_type: str = ""
    etag: str = ""
    modified: str = ""
    body: bytes = b""
    unread: bool = False


class SiteClient:
    """Safe in several threads."""

    name = "pincite"
    """The robot that robots.txt may speak of."""

    def __init__(self, scope: Scope) -> None:
        import httpx

        self._scope, self._lock, self._next = scope, Lock(), 0.0
        headers = {"User-Agent": self.name, "Accept": "text/html,application/pdf,text/*;q=0.9,*/*;q=0.5"}
        timeout = httpx.Timeout(30.0, connect=5.0)
        self._client = httpx.Client(follow_redirects=False, timeout=timeout, headers=headers)

    def pause(self, seconds: float) -> None:
        """Keeps so long between two pages, whichever threads ask for them."""
        if seconds:
            with self._lock:
                time.sleep(max(0.0, self._next - time.monotonic()))
                self._next = time.monotonic() + seconds

    def get(self, url: str, etag: str = "", modified: str = "") -> Answer:
        """A page, where it is not what the tags are of. Raises Unreached."""
        asked = {"If-None-Match": etag, "If-Modified-Since": modified}
        headers = {name: value for name, value in asked.items() if value}
        for _ in range(_MOST_REDIRECTS + 1):
            answer, location = self._tried(url, headers)
            if not location:
                return answer
            url = urljoin(url, location)
            if not self._scope.same_site(url):
                return Answer(url, answer.status)
        raise Unreached(f"it redirects more than {_MOST_REDIRECTS} times")

    def _tried(self, url: str, headers: dict[str, str]) -> tuple[Answer, str]:
        import httpx

        fault = ""
        for _ in range(_ATTEMPTS):
            try:
                with self._client.stream("GET", url, headers=headers) as response:
                    found = self._answer(url, response)
                if found.status < 500:
                    return found, response.headers.get("location", "") if response.is_redirect else ""
                fault = f"it answers {found.status}"
            except (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict) as error:
                fault = str(error) or type(error).__name__
        raise Unreached(fault)

    def _answer(self, url: str, response: httpx.Response) -> Answer:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        tags = response.headers.get("etag", ""), response.headers.get("last-modified", "")
        if response.status_code != 200:
            return Answer(url, response.status_code, media_type, *tags)
        whole_site = not url.startswith(self._scope.at(self._scope.prefix))  # robots.txt and sitemaps
        if not whole_site and media_type_of(Path(named(self._scope, url, media_type))) is None:
            return Answer(url, 200, media_type, *tags, unread=True)
        return Answer(url, 200, media_type, *tags, _bounded(response))

    def close(self) -> None:
        self._client.close()


def _bounded(response: httpx.Response) -> bytes:
    """Raises Unreached where the body is longer, or takes longer, than it may."""
    ends, pieces, size = time.monotonic() + SECONDS, [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise Unreached(f"it is over {MOST_BYTES >> 20} MB")
        if time.monotonic() > ends:
            raise Unreached(f"it does not end within {SECONDS:.0f} s")
    return b"".join(pieces)
