"""Containers of Azure Blob Storage, by azure-storage-blob; redirects are refused.

Credentials are AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, else those that azure-identity finds: the environment's
service principal, a workload's or machine's identity, the Azure CLI's.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, SettingsError, SourceError
from resources.connectors.bucket import entries_of, is_anonymous, missing, place_of, whole
from resources.connectors.source import Address, Entry, fault, options_of
from resources.http_client import CONNECTS, MOST_BYTES, SECONDS, SILENCE, allowed, bounded_session, said

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

ATTEMPTS = 4
"""Tries of each request, since the server may be busy or fail for a moment."""
_AT_ONCE = 16
_PAGE = 1000
_PIECE = 4 << 20
_STORAGE = "storage.azure.com"
_REMEDY = (
    "Give credentials that may read it: AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, `az login`, or an identity that "
    "has the role Storage Blob Data Reader"
)


def connect(address: Address) -> ContainerSource:
    """Return the source of an address.

    Options: `account`, `endpoint` (the address of the account if it is not Azure's own), `anonymous` (true for a
    public container)."""
    options = options_of(address, account=None, endpoint=None, anonymous="false")
    (container, prefix), anonymous = place_of(address), is_anonymous(address, options)
    account = options["account"] or os.environ.get("AZURE_STORAGE_ACCOUNT", "")
    if not account:
        raise SettingsError(f"source {address.name!r}: its options need an account, which has the container")
    try:
        from azure.core.pipeline.transport import RequestsTransport
        from azure.storage.blob import ContainerClient
    except ImportError:
        raise missing(address, "az") from None
    try:
        client = ContainerClient(
            options["endpoint"] or f"https://{account}.blob.core.windows.net",
            container,
            None if anonymous else _credential(account),
            transport=RequestsTransport(
                session=bounded_session(_AT_ONCE), connection_timeout=CONNECTS, read_timeout=SILENCE
            ),
            permit_redirects=False,
            retry_total=ATTEMPTS - 1,
            initial_backoff=1,
            increment_base=2,
            max_single_get_size=_PIECE,
            max_chunk_get_size=_PIECE,
        )
    except ValueError as error:
        raise SourceError(f"source {address.name!r}: {address.url} cannot be used: {said(error)}") from None
    return ContainerSource(address, client, prefix)


def _credential(account: str) -> Any:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
    from azure.identity import DefaultAzureCredential

    if key := os.environ.get("AZURE_STORAGE_KEY"):
        return AzureNamedKeyCredential(account, key)
    if token := os.environ.get("AZURE_STORAGE_SAS_TOKEN"):
        return AzureSasCredential(token)
    return _ForStorage(DefaultAzureCredential(), account)


class _ForStorage:
    """A credential that gives tokens for storage alone. A server may name another service when it refuses a token, and
    the library would send it a token for that service."""

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


class ContainerSource:
    """The blobs below a prefix. The revision is the blob's ETag."""

    at_once = _AT_ONCE

    def __init__(self, address: Address, client: ContainerClient, prefix: str) -> None:
        self._address, self._client, self._prefix = address, client, prefix

    def entries(self) -> Iterator[Sequence[Entry]]:
        from azure.core.exceptions import AzureError

        try:
            found = self._client.list_blobs(name_starts_with=self._prefix or None, results_per_page=_PAGE)
            for page in found.by_page():
                blobs = ((blob.name, blob.etag, blob.size) for blob in page)
                yield entries_of(self._address, blobs, self._prefix)
        except AzureError as error:
            raise self._fault(error) from None

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since each blob is a request of its own."""

    def read(self, entry: Entry) -> Generator[bytes]:
        from azure.core.exceptions import (
            AzureError,
            ClientAuthenticationError,
            ResourceModifiedError,
            ResourceNotFoundError,
        )

        try:
            yield from whole(entry, self._pieces(entry))
        except (ResourceModifiedError, ResourceNotFoundError):
            told = "it changed or went away after it was listed; the next run reads it again"
            raise DocumentError(f"{entry.uri}: {told}", "changed") from None
        except ClientAuthenticationError as error:
            raise self._fault(error) from None
        except (AzureError, OSError) as error:
            raise DocumentError(f"{entry.uri}: the container does not give it: {said(error)}", "unreadable") from None

    def _pieces(self, entry: Entry) -> Iterator[bytes]:
        """Yield the pieces of a blob, each a request of its own. A blob that is stored compressed stays compressed."""
        from azure.core import MatchConditions

        key, same = self._prefix + entry.uri, MatchConditions.IfNotModified
        with allowed(MOST_BYTES, SECONDS, packed=True):
            blob = self._client.download_blob(key, etag=entry.revision, match_condition=same, decompress=False)
            pieces = iter(blob.chunks())
        while True:
            with allowed(MOST_BYTES, SECONDS, packed=True):
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def close(self) -> None:
        self._client.close()

    def _fault(self, error: Exception) -> SourceError:
        from azure.core.exceptions import ClientAuthenticationError, ResourceNotFoundError

        if isinstance(error, ClientAuthenticationError) or getattr(error, "status_code", None) in (401, 403):
            return fault(self._address, error, _REMEDY, credentials=True)
        absent = isinstance(error, ResourceNotFoundError)
        return fault(self._address, error, "See that the container is there, and the account right" if absent else "")
