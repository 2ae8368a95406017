"""Requests to one site: bounded in time and bytes, redirects within the site alone, nothing asked of another host."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from resources.bounded_http import CONNECTS, SILENCE, allowed, bounded_session, overran, why
from resources.connectors.site_links import Scope, named
from resources.parsers.registry import media_type_of

if TYPE_CHECKING:
    import requests

_MOST_REDIRECTS = 5
_ATTEMPTS = 2
_AT_ONCE = 4
_PIECE = 1 << 16
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
        self._scope, self._lock, self._next = scope, Lock(), 0.0
        self._session = bounded_session(_AT_ONCE)
        self._session.headers["User-Agent"] = self.name
        self._session.headers["Accept"] = "text/html,application/pdf,text/*;q=0.9,*/*;q=0.5"

    def pause(self, seconds: float) -> None:
        """Keeps so long between two pages, whichever threads ask for them."""
        if seconds:
            with self._lock:
                time.sleep(max(0.0, self._next - time.monotonic()))
                self._next = time.monotonic() + seconds

    def get(self, url: str, etag: str = "", modified: str = "", most: int = 0, packed: bool = False) -> Answer:
        """Return a page, where it is not what the tags are of: at most `most` bytes of it (MOST_BYTES), and with
        `packed` as a file that may be a gzip file. Raise Unreached."""
        asked = {"If-None-Match": etag, "If-Modified-Since": modified}
        headers = {name: value for name, value in asked.items() if value}
        for _ in range(_MOST_REDIRECTS + 1):
            answer, location = self._tried(url, headers, most or MOST_BYTES, packed)
            if not location:
                return answer
            try:
                url = urljoin(url, location)
            except ValueError:
                raise Unreached("it redirects to an address that is none") from None
            if not self._scope.same_site(url):
                return Answer(url, answer.status)
        raise Unreached(f"it redirects more than {_MOST_REDIRECTS} times")

    def _tried(self, url: str, headers: dict[str, str], most: int, packed: bool) -> tuple[Answer, str]:
        import requests
        from urllib3.exceptions import HTTPError

        fault = ""
        for _ in range(_ATTEMPTS):
            try:
                with (
                    allowed(None, SECONDS, packed),
                    self._session.get(url, headers=headers, timeout=(CONNECTS, SILENCE), stream=True) as response,
                ):
                    found = self._answer(url, response, most)
                if found.status < 500:
                    return found, response.headers.get("location", "") if response.is_redirect else ""
                fault = f"it answers {found.status}"
            except (requests.RequestException, HTTPError, OSError, ValueError) as error:
                fault = why(error)
                if overran(error):
                    break
        raise Unreached(fault)

    def _answer(self, url: str, response: requests.Response, most: int) -> Answer:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        tags = response.headers.get("etag", ""), response.headers.get("last-modified", "")
        if response.status_code != 200:
            return Answer(url, response.status_code, media_type, *tags)
        whole_site = not url.startswith(self._scope.at(self._scope.prefix))  # robots.txt and sitemaps
        if not whole_site and media_type_of(Path(named(self._scope, url, media_type))) is None:
            return Answer(url, 200, media_type, *tags, unread=True)
        return Answer(url, 200, media_type, *tags, _bounded(response, most))

    def close(self) -> None:
        self._session.close()


def _bounded(response: requests.Response, most: int) -> bytes:
    """Return the body as it was sent. Raise Unreached where it is longer than it may be."""
    pieces, size = [], 0
    for piece in response.raw.stream(_PIECE, decode_content=False):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise Unreached(f"it is over {most >> 20} MB" if most >> 20 else f"it is over {most >> 10} KB")
    return b"".join(pieces)
