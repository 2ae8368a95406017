"""Buckets of Google Cloud Storage, by google-cloud-storage; redirects are refused.

Credentials are those that Google's libraries find: GOOGLE_APPLICATION_CREDENTIALS, gcloud's, the machine's.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, SourceError
from resources.connectors.bucket_address import broken_off, entries_of, is_anonymous, missing, place_of
from resources.connectors.source import Address, Entry, fault, options_of
from resources.http_client import CONNECTS, MOST_BYTES, SECONDS, SILENCE, allowed, bound, said

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Client

PATIENCE = 60.0
"""Seconds in which a request is tried again, since the server may be busy or fail for a moment."""
_AT_ONCE = 16
_PAGE = 1000
_PIECE = 8 << 20
_LISTING = "storage#objects"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_REMEDY = (
    "Give credentials that may read it: GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or "
    "the machine's account"
)


def connect(address: Address) -> GoogleBucketSource:
    """Return the source of an address.

    Options: `endpoint` (another server that speaks the same), `anonymous` (true for a public bucket)."""
    options = options_of(address, endpoint=None, anonymous="false")
    place, anonymous = place_of(address), is_anonymous(address, options)
    try:
        from google.cloud.storage import Client
    except ImportError:
        raise missing(address, "gs") from None
    given = {"client_options": {"api_endpoint": options["endpoint"]}} if options["endpoint"] else {}
    session = _session(address, anonymous)
    client = Client(project="pincite", credentials=session.credentials, _http=session, **given)
    return GoogleBucketSource(address, client, *place)


def _session(address: Address, anonymous: bool) -> AuthorizedSession:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    try:
        found = AnonymousCredentials() if anonymous else google.auth.default(scopes=[_SCOPE])[0]
    except GoogleAuthError as error:
        raise fault(address, error, _REMEDY, credentials=True) from None
    session = AuthorizedSession(found)
    bound(session, _AT_ONCE)
    return session


class GoogleBucketSource:
    """The objects below a prefix. The revision is the object's generation."""

    at_once = _AT_ONCE

    def __init__(self, address: Address, client: Client, bucket: str, prefix: str) -> None:
        from google.cloud.storage.retry import DEFAULT_RETRY

        self._address, self._client, self._bucket, self._prefix = address, client, client.bucket(bucket), prefix
        self._asked: dict[str, Any] = {"timeout": (CONNECTS, SILENCE), "retry": DEFAULT_RETRY.with_timeout(PATIENCE)}

    def entries(self) -> Iterator[Sequence[Entry]]:
        wanted = {"fields": "kind,items(name,generation,size),nextPageToken", "page_size": _PAGE}
        try:
            found = self._client.list_blobs(self._bucket, prefix=self._prefix, **wanted, **self._asked)
            for page in found.pages:
                if page.raw_page.get("kind") != _LISTING:
                    raise broken_off(self._address)
                blobs = ((blob.name, blob.generation, blob.size) for blob in page)
                yield entries_of(self._address, blobs, self._prefix)
        except _faults() as error:
            raise self._fault(error) from None

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since each object is a request of its own."""

    def read(self, entry: Entry) -> Generator[bytes]:
        size = entry.size or 0
        for at in range(0, size, _PIECE):
            yield self._piece(entry, at, min(size, at + _PIECE))

    def _piece(self, entry: Entry, start: int, end: int) -> bytes:
        """Return part of an object. If the part is the whole object, Google's checksum is compared."""
        from google.api_core.exceptions import NotFound, PreconditionFailed, Unauthorized
        from google.auth.exceptions import GoogleAuthError

        part = {} if (start, end) == (0, entry.size) else {"start": start, "end": end - 1}
        into = _Bounded(end - start)
        try:
            with allowed(MOST_BYTES, SECONDS, packed=True):
                self._bucket.blob(self._prefix + entry.uri).download_to_file(
                    into, raw_download=True, if_generation_match=int(entry.revision), **part, **self._asked
                )
        except (NotFound, PreconditionFailed):
            told = "it changed or went away after it was listed; the next run reads it again"
            raise DocumentError(f"{entry.uri}: {told}", "changed") from None
        except (GoogleAuthError, Unauthorized) as error:
            raise self._fault(error) from None
        except _faults() as error:
            raise DocumentError(f"{entry.uri}: the bucket does not give it: {said(error)}", "unreadable") from None
        if into.tell() != end - start:
            raise DocumentError(f"{entry.uri}: the bucket gives less of it than it lists", "unreadable")
        return into.getvalue()

    def close(self) -> None:
        self._client.close()

    def _fault(self, error: Exception) -> SourceError:
        from google.api_core.exceptions import Forbidden, NotFound, Unauthorized
        from google.auth.exceptions import GoogleAuthError

        if isinstance(error, GoogleAuthError | Forbidden | Unauthorized):
            return fault(self._address, error, _REMEDY, credentials=True)
        return fault(self._address, error, "See that the bucket is there" if isinstance(error, NotFound) else "")


class _Bounded(io.BytesIO):
    """A buffer that takes no more bytes than were asked for, whatever a server sends."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self._most:
            raise OSError("it gives more than was asked for")
        return super().write(data)


def _faults() -> tuple[type[Exception], ...]:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption

    return GoogleAPIError, GoogleAuthError, DataCorruption, OSError  # errors of requests are OSErrors
