"""The client of Azure Blob Storage, by azure-storage-blob; redirects are refused.

Credentials are AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or else those that azure-identity finds: a service
principal in the environment, the identity of a workload or machine, or the login of the Azure CLI.
"""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import SettingsError
from resources.clouds.bucket import (
    AT_ONCE,
    ObjectInfo,
    Refused,
    Unauthenticated,
    Unusable,
    broken_answer,
    exactly,
    found_of,
    open_body,
    place_of,
)
from resources.http_client import CONNECTS, MOST_BYTES, SECONDS, SILENCE, answer_limits, bounded_session, error_text

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

_PAGE = 1000
_PIECE = 4 << 20
_STORAGE = "storage.azure.com"
_SEE_SERVER = "see its endpoint; it must speak as Azure's does"
_BUSY = frozenset({408, 429})


def connect(
    address: str,
    owner: str,
    *,
    account: str = "",
    endpoint: str = "",
    anonymous: bool = False,
    writes: bool = False,
) -> AzureContainer:
    """Return the container of an address. `account` is the storage account, by default AZURE_STORAGE_ACCOUNT;
    `endpoint` is its address, if not Azure's default. `owner` begins the message of a SettingsError.

    Raise SettingsError, Unusable.
    """
    account = account or os.environ.get("AZURE_STORAGE_ACCOUNT", "")
    if not account:
        raise SettingsError(
            f"{owner}: addresses of az:// need an account, which has the container; set AZURE_STORAGE_ACCOUNT, or the "
            "option account of a source"
        )
    try:
        from azure.core.pipeline.transport import RequestsTransport
        from azure.storage.blob import ContainerClient
    except ImportError:
        raise Unusable("its library is not installed", "pip install 'pincite[az]'") from None
    session = bounded_session(AT_ONCE)
    try:
        client = ContainerClient(
            endpoint or f"https://{account}.blob.core.windows.net",
            place_of(address)[0],
            None if anonymous else _credential(account),
            transport=RequestsTransport(session=session, connection_timeout=CONNECTS, read_timeout=SILENCE),
            permit_redirects=False,
            retry_total=0,
            max_single_get_size=_PIECE,
            max_chunk_get_size=_PIECE,
            max_single_put_size=_PIECE,
            max_block_size=_PIECE,
        )
    except ValueError as error:
        raise Unusable(error_text(error), "see the account, its endpoint and its key") from None
    return AzureContainer(address, client)


def _credential(account: str) -> Any:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
    from azure.identity import DefaultAzureCredential

    if key := os.environ.get("AZURE_STORAGE_KEY"):
        return AzureNamedKeyCredential(account, key)
    if token := os.environ.get("AZURE_STORAGE_SAS_TOKEN"):
        return AzureSasCredential(token)
    return _ForStorage(DefaultAzureCredential(), account)


class _ForStorage:
    """A credential that requests tokens only for storage. A server that refuses a token may name another service, and
    the library would then send it a token for that service."""

    def __init__(self, credential: Any, account: str) -> None:
        self._credential = credential
        self._scopes = {f"https://{host}/.default" for host in (_STORAGE, f"{account}.blob.core.windows.net")}

    def get_token(self, *scopes: str, **named: Any) -> Any:
        from azure.core.exceptions import ClientAuthenticationError

        if not self._scopes.issuperset(scopes):
            raise ClientAuthenticationError("the server asks for a token of another service than storage")
        return self._credential.get_token(*scopes, **named)

    def close(self) -> None:
        self._credential.close()


class AzureContainer:
    """The blobs below a prefix; implements bucket.Bucket. The revision is the blob's ETag.

    An account with folders lists them as blobs with a mark, and they are left out."""

    def __init__(self, address: str, client: ContainerClient) -> None:
        self.address, self._client, self._prefix = address, client, place_of(address)[1]

    def put(self, key: str, body: bytes | Path) -> None:
        """Write a blob. If it has several blocks, it becomes visible with the last one."""
        with self._asking(of_object=False), open_body(body) as stream:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            self._client.upload_blob(self._prefix + key, stream, length=size, overwrite=True)

    def read(self, key: str, start: int, end: int | None, revision: str = "") -> Generator[bytes]:
        pieces = self._pieces(key, start, end, revision)
        yield from pieces if end is None else exactly(key, pieces, end - start)

    def _pieces(self, key: str, start: int, end: int | None, revision: str) -> Iterator[bytes]:
        """Yield the pieces of a blob, with one request for each. A compressed blob is not decompressed."""
        from azure.core import MatchConditions

        asked: dict[str, Any] = {"etag": revision, "match_condition": MatchConditions.IfNotModified} if revision else {}
        if start or not (revision or end is None):
            asked |= {"offset": start, "length": None if end is None else end - start}
        with self._asking(), answer_limits(MOST_BYTES, SECONDS, packed=True):
            pieces = iter(self._client.download_blob(self._prefix + key, decompress=False, **asked).chunks())
        while True:
            with self._asking(), answer_limits(MOST_BYTES, SECONDS, packed=True):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def size(self, key: str) -> int | None:
        try:
            with self._asking():
                found = self._client.get_blob_client(self._prefix + key).get_blob_properties()
        except FileNotFoundError:
            return None
        return None if _is_folder(found.metadata) else int(found.size)

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        prefix = self._prefix + below
        with self._asking(of_object=False):
            pages = self._client.list_blobs(
                name_starts_with=prefix or None, results_per_page=_PAGE, include=["metadata"]
            ).by_page(token or None)
            blobs = list(next(pages, ()))
        items = (
            (blob.name, blob.size, blob.etag, blob.last_modified) for blob in blobs if not _is_folder(blob.metadata)
        )
        return found_of(items, self._prefix, _SEE_SERVER), pages.continuation_token or ""  # type: ignore[attr-defined]

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with suppress(FileNotFoundError), self._asking():
                self._client.delete_blob(self._prefix + key)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _asking(self, of_object: bool = True) -> Iterator[None]:
        """Translate the errors of Azure's library to those of Bucket. Only a request `of_object` may report that the
        object is missing."""
        from azure.core.exceptions import AzureError

        try:
            yield
        except FileNotFoundError:
            raise
        except AzureError as error:
            raise _translate_error(error, of_object) from None
        except ValueError as error:  # an answer without Content-Range
            raise Unusable(error_text(error), _SEE_SERVER) from None
        except OSError as error:
            raise broken_answer(error, _SEE_SERVER) from None


def _is_folder(metadata: Mapping[str, str] | None) -> bool:
    return any(name.lower() == "hdi_isfolder" and value == "true" for name, value in (metadata or {}).items())


def _translate_error(error: Any, of_object: bool) -> Exception:
    from azure.core.exceptions import (
        ClientAuthenticationError,
        DecodeError,
        HttpResponseError,
        ResourceModifiedError,
        ResourceNotFoundError,
    )

    status, code = getattr(error, "status_code", None) or 0, str(getattr(error, "error_code", "") or "")
    told = f"{code}: {error_text(error)}" if code and code not in error_text(error) else error_text(error)
    if isinstance(error, ClientAuthenticationError) or status == 401:
        return Unauthenticated(told)
    if code == "ContainerNotFound":
        return Unusable("there is no such container", "see that the container is there, and the account right")
    if isinstance(error, ResourceNotFoundError | ResourceModifiedError) and of_object:
        return FileNotFoundError(told)
    if status == 403:
        return Refused(told)
    passing = not isinstance(error, HttpResponseError) or status >= 500 or status in _BUSY
    if passing and not isinstance(error, DecodeError):
        return broken_answer(error, _SEE_SERVER)
    return Unusable(told, _SEE_SERVER)
