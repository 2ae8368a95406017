"""The client of Google Cloud Storage, by google-cloud-storage; redirects are refused.

Credentials are those that Google's libraries find: GOOGLE_APPLICATION_CREDENTIALS, the login of gcloud, or those of the
machine. STORAGE_EMULATOR_HOST names another server, which gets no credentials.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.clouds.bucket import (
    AT_ONCE,
    ObjectInfo,
    Passing,
    Refused,
    Unauthenticated,
    Unusable,
    broken_answer,
    found_of,
    given_more,
    no_page,
    open_body,
    place_of,
    require_https,
)
from resources.http_client import (
    CONNECTS,
    MOST_BYTES,
    SECONDS,
    SILENCE,
    answer_limits,
    bound_answers,
    error_text,
    server_of,
)

if TYPE_CHECKING:
    import requests
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Client

_PAGE = 1000
_PIECE = 8 << 20
_LISTING = "storage#objects"
_SCOPES = "https://www.googleapis.com/auth/devstorage."
_SEE_SERVER = "see its endpoint (STORAGE_EMULATOR_HOST); it must speak as Google's does"
_BUSY = frozenset({408, 429})


def connect(
    address: str, owner: str, *, endpoint: str = "", anonymous: bool = False, writes: bool = False
) -> GoogleBucket:
    """Return the bucket of an address. `owner` begins the message of a SettingsError.

    Raise SettingsError, Unauthenticated, Unusable."""
    try:
        from google.cloud.storage import Client
    except ImportError:
        raise Unusable("its library is not installed", "pip install 'pincite[gs]'") from None
    if not endpoint and (emulated := require_https("STORAGE_EMULATOR_HOST", owner)):
        endpoint, anonymous = emulated, True
    if not endpoint and not anonymous:
        require_https("API_ENDPOINT_OVERRIDE", owner)  # which Google's library reads
    given = {"client_options": {"api_endpoint": endpoint}} if endpoint else {}
    session = _session(anonymous, "read_write" if writes else "read_only")
    client = Client(project="pincite", credentials=session.credentials, _http=session, **given)
    server = server_of(client.api_endpoint)

    def send(request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Refuse to send credentials to another server: an answer names the address for the parts of an upload."""
        if server_of(request.url or "") != server:
            raise Unusable("it leads to another server, which is not followed", _SEE_SERVER)
        return request

    session.auth = send
    return GoogleBucket(address, client)


def _session(anonymous: bool, scope: str) -> AuthorizedSession:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    try:
        found = AnonymousCredentials() if anonymous else google.auth.default(scopes=[_SCOPES + scope])[0]
    except (GoogleAuthError, OSError, ValueError) as error:  # the latter of files that cannot be read, or are damaged
        raise Unauthenticated(error_text(error)) from None
    session = AuthorizedSession(found)
    bound_answers(session, AT_ONCE)
    return session


class GoogleBucket:
    """The objects below a prefix; implements bucket.Bucket. The revision is the object's generation."""

    def __init__(self, address: str, client: Client) -> None:
        name, self._prefix = place_of(address)
        self.address, self._client, self._bucket = address, client, client.bucket(name)
        self._asked: dict[str, Any] = {"timeout": (CONNECTS, SILENCE), "retry": None}

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object. Its checksum is sent too, and Google compares it."""
        blob = self._bucket.blob(self._prefix + key, chunk_size=_PIECE)
        with self._asking(of_object=False), open_body(body) as stream:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            blob.upload_from_file(stream, size=size, checksum="md5", **self._asked)

    def read(self, key: str, start: int, end: int | None, revision: str = "") -> Generator[bytes]:
        """Yield pieces of the same revision, with one request for each."""
        whole = end is None or (start == 0 and bool(revision))
        if end is None:
            with self._asking():
                if (blob := self._blob(key)) is None:
                    raise FileNotFoundError(key)
            end, revision = blob.size or 0, str(blob.generation)
        for at in range(start, end, _PIECE):
            whole = whole and (at, min(end, at + _PIECE)) == (0, end)
            yield self._piece(key, at, min(end, at + _PIECE), revision, whole)

    def _piece(self, key: str, start: int, end: int, revision: str, whole: bool) -> bytes:
        """Return part of an object. If the whole object is requested, Google's checksum is compared."""
        part = {} if whole else {"start": start, "end": end - 1}
        same = {"if_generation_match": int(revision)} if revision else {}
        into = _Bounded(key, end - start)
        with self._asking(), answer_limits(MOST_BYTES, SECONDS, packed=True):
            blob = self._bucket.blob(self._prefix + key)
            blob.download_to_file(into, raw_download=True, **same, **part, **self._asked)
        if into.tell() != end - start:
            raise Passing(f"it gives less of {key} than was asked for")
        return into.getvalue()

    def size(self, key: str) -> int | None:
        with self._asking():
            blob = self._blob(key)
        return None if blob is None else int(blob.size or 0)

    def _blob(self, key: str) -> Any:
        from google.api_core.exceptions import NotFound

        blob = self._bucket.blob(self._prefix + key)
        try:
            blob.reload(**self._asked)
        except NotFound:
            return None
        return blob

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        wanted = {"fields": "kind,items(name,generation,size,updated),nextPageToken", "page_size": _PAGE}
        with self._asking(of_object=False):
            found = self._client.list_blobs(
                self._bucket, prefix=self._prefix + below, page_token=token or None, **wanted, **self._asked
            )
            page = next(found.pages, None)
            if page is None or page.raw_page.get("kind") != _LISTING:
                raise no_page(remedy=_SEE_SERVER)
            items = [(blob.name, blob.size, blob.generation, blob.updated) for blob in page]
        return found_of(items, self._prefix, _SEE_SERVER), found.next_page_token or ""

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with suppress(FileNotFoundError), self._asking():
                self._bucket.blob(self._prefix + key).delete(**self._asked)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _asking(self, of_object: bool = True) -> Iterator[None]:
        """Translate the errors of Google's libraries to those of Bucket. Only a request `of_object` may report that the
        object is missing."""
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage.exceptions import DataCorruption
        from urllib3.exceptions import HTTPError

        try:
            yield
        except FileNotFoundError:
            raise
        except (DataCorruption, HTTPError, OSError) as error:  # errors of requests are OSErrors
            raise broken_answer(error, _SEE_SERVER) from None
        except (GoogleAPIError, GoogleAuthError) as error:
            raise _translate_error(error, of_object) from None


class _Bounded(io.BytesIO):
    """A buffer that accepts no more bytes than were requested."""

    def __init__(self, key: str, most: int) -> None:
        super().__init__()
        self._key, self._most = key, most

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self._most:
            raise given_more(self._key)
        return super().write(data)


def _translate_error(error: Exception, of_object: bool) -> Exception:
    from google.api_core.exceptions import Forbidden, NotFound, PreconditionFailed, Unauthorized
    from google.auth.exceptions import GoogleAuthError, TransportError

    code = int(getattr(error, "code", None) or 0)
    if isinstance(error, NotFound) and not of_object:
        return Unusable("there is no such bucket", "see that the bucket is there")
    if isinstance(error, NotFound | PreconditionFailed):
        return FileNotFoundError(error_text(error))
    if isinstance(error, TransportError) or code >= 500 or code in _BUSY:
        return broken_answer(error, _SEE_SERVER)
    if isinstance(error, GoogleAuthError | Unauthorized):
        return Unauthenticated(error_text(error))
    if isinstance(error, Forbidden):
        return Refused(error_text(error))
    return Unusable(error_text(error), _SEE_SERVER)
