"""Requests to the one server of a source: bounded in time, tried again if it is busy, and redirected within that
server alone. Credentials come from the netrc file, or are a token in an environment variable."""

from __future__ import annotations

import netrc
import os
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from pipelines.errors import SettingsError, SourceError
from resources.bounded_http import CONNECTS, SILENCE, allowed, bounded_session, overran, server_of
from resources.connectors.bucket_address import LOOPBACK, said
from resources.connectors.source import Address

if TYPE_CHECKING:
    import requests

ATTEMPTS = 4
"""Tries of each request, since the server may be busy or fail for a moment."""
LONGEST_WAIT = 10.0
"""Most seconds between two tries, whatever the server asks for."""
SECONDS = 3600.0
"""Most seconds that one body may take, so that a slow server cannot hold up a run forever."""
_BUSY = frozenset({429, 500, 502, 503, 504})
_MOST_REDIRECTS = 5
_AT_ONCE = 8
_PIECE = 1 << 20


class Unreached(Exception):
    """No answer, or an invalid one; the message says why."""


class HttpClient:
    """A client of one server, safe in several threads."""

    def __init__(self, address: Address, url: str, token: str) -> None:
        """Open a session. `token` names the environment variable that has one, "" for none.

        Raise SettingsError for an address that may not be used, SourceError for missing credentials."""
        self.server = server_of(url)
        if not self.server[1]:
            raise SettingsError(f"source {address.name!r}: no host in its path; write {urlsplit(url).scheme}://HOST/")
        if self.server[0] != "https" and self.server[1] not in LOOPBACK:
            raise SettingsError(f"source {address.name!r}: plain HTTP is for loopback; use https")
        self._session = bounded_session(_AT_ONCE)
        self._session.headers["User-Agent"] = "pincite"
        if token:
            if not os.environ.get(token):
                raise SourceError(f"source {address.name!r}: the variable {token} is not set", "credentials")
            self._session.headers["Authorization"] = f"Bearer {os.environ[token]}"
        elif found := _of_netrc(address, self.server[1]):
            user, password = (text.encode() for text in found)  # text would go as Latin-1, which lacks letters
            self._session.auth = (user, password)  # type: ignore[assignment]

    @contextmanager
    def asked(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> Iterator[requests.Response]:
        """Yield an answer whose body is not read yet. Raise Unreached."""
        response = self._answered(method, url, dict(headers or {}), content)
        try:
            yield response
        finally:
            response.close()

    def _answered(self, method: str, url: str, headers: dict[str, str], content: bytes | None) -> requests.Response:
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._sent(method, url, headers, content)
            if not response.is_redirect:
                return response
            response.close()
            url = joined(url, response.headers["location"])
            if server_of(url) != self.server:
                raise Unreached("it redirects to another server, which is not followed")
        raise Unreached(f"it redirects more than {_MOST_REDIRECTS} times")

    def _sent(self, method: str, url: str, headers: dict[str, str], content: bytes | None) -> requests.Response:
        import requests

        for attempt in range(1, ATTEMPTS + 1):
            wait = 0.5 * 2.0**attempt
            try:
                with allowed(None, SECONDS):
                    response = self._session.request(
                        method, url, headers=headers, data=content, timeout=(CONNECTS, SILENCE), stream=True
                    )
                if response.status_code not in _BUSY or attempt == ATTEMPTS:
                    return response
                wait = _asked_wait(response.headers.get("retry-after", ""), wait)
                response.close()
            except (requests.RequestException, OSError, ValueError) as error:
                passing = isinstance(error, requests.ConnectionError | requests.Timeout) and not overran(error)
                if attempt == ATTEMPTS or not passing:
                    raise Unreached(said(error) or type(error).__name__) from None
            time.sleep(min(wait, LONGEST_WAIT))
        raise AssertionError("the last attempt answers or raises")

    def close(self) -> None:
        self._session.close()


def joined(url: str, location: str) -> str:
    """Return the address that a server names. Raise Unreached if it is invalid."""
    try:
        return urljoin(url, location)
    except ValueError:
        raise Unreached("it names an address that is none") from None


def body_of(response: requests.Response, most: int | None = None) -> Generator[bytes]:
    """Yield the body in pieces, which are never unpacked. Raise Unreached if it breaks off, or is longer or
    slower than allowed."""
    from urllib3.exceptions import HTTPError

    size = 0
    try:
        for piece in response.raw.stream(_PIECE, decode_content=False):
            size += len(piece)
            if most is not None and size > most:
                raise Unreached(f"it is over {most >> 20} MB")
            yield piece
    except (HTTPError, OSError, ValueError) as error:
        raise Unreached(said(error) or type(error).__name__) from None


def revision_of(response: requests.Response) -> str:
    """Return the ETag of an answer, else its modification time and size, or "" if the server gives neither."""
    etag, modified = response.headers.get("etag", ""), response.headers.get("last-modified", "")
    return etag or (f"{modified} {response.headers.get('content-length', '')}" if modified else "")


def same_revision(asked: str, response: requests.Response) -> bool:
    """Return whether an answer is of a revision from `revision_of`. An answer without a revision counts as the same."""
    told = revision_of(response)
    return response.status_code not in (404, 410, 412) and told.removeprefix("W/") in ("", asked.removeprefix("W/"))


def pinned(revision: str) -> dict[str, str]:
    """Return the header that asks only for this revision, or no header if it is not a strong ETag."""
    return {"If-Match": revision} if revision.startswith('"') else {}


def length_of(told: str) -> int | None:
    """Return the number of bytes that a server gives, or None if it is not a number."""
    return int(told) if told.isascii() and told.isdigit() and len(told) < 19 else None


def _of_netrc(address: Address, host: str) -> tuple[str, str] | None:
    """Return the user and password for a host, and no other, from the file NETRC, else ~/.netrc."""
    file = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    try:
        found = netrc.netrc(str(file)).hosts.get(host)
    except FileNotFoundError:
        return None
    except (OSError, netrc.NetrcParseError) as error:
        told = error.msg if isinstance(error, netrc.NetrcParseError) else error.strerror
        raise SourceError(f"source {address.name!r}: {file} cannot be read: {told}", "credentials") from None
    return (found[0], found[2]) if found else None


def _asked_wait(told: str, otherwise: float) -> float:
    """Return the seconds that a server asks for, as a number or a date, else `otherwise`."""
    if (seconds := length_of(told)) is not None:
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return otherwise
