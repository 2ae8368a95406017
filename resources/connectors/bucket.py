"""Cloud buckets as sources: their options, their listing, and the reading of listed objects.

If reading is interrupted, it continues at the same byte, as long as the object still has the listed revision.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from pipelines.settings.models import is_loopback
from resources.clouds import CREDENTIALS, OPTIONS
from resources.clouds import connect as connect_bucket
from resources.clouds.bucket import AT_ONCE, Bucket, Passing, Refused, Unauthenticated, Unusable, next_page, patiently
from resources.connectors.source import Entry, SourceAddress, fault, options_of

PATIENCE = 20.0
"""Seconds of pauses in total after which a request to a busy server is given up."""


def connect(address: SourceAddress) -> BucketSource:
    """Return the source of an address.

    Options: `anonymous` (true for a public bucket), `endpoint` (another server with the same protocol), `region` of S3,
    `account` of Azure.
    """
    parts = urlsplit(address.url)
    if not parts.netloc:
        raise SettingsError(f"source {address.name!r}: its path has no bucket; write {parts.scheme}://BUCKET/PREFIX")
    options = options_of(address, **dict.fromkeys(OPTIONS[parts.scheme]), anonymous="false")
    given: dict[str, Any] = {**options, "anonymous": _is_anonymous(address, options)}
    try:
        return BucketSource(address, connect_bucket(address.url, f"source {address.name!r}", **given))
    except Unusable as error:
        told = f"source {address.name!r}: {address.url} cannot be used: {error}"
        raise SourceError(f"{told}; {error.remedy}") from None
    except Refused as error:
        raise _listing_error(address, error) from None


class BucketSource:
    """The objects below a prefix. An entry's revision is the object's ETag or generation."""

    at_once = AT_ONCE

    def __init__(self, address: SourceAddress, bucket: Bucket) -> None:
        self._address, self._bucket = address, bucket

    def entries(self) -> Iterator[Sequence[Entry]]:
        token = ""
        try:
            while True:
                found, token = patiently(lambda token=token: next_page(self._bucket.page, "", token), PATIENCE)  # type: ignore[misc]
                if unknown := next((item for item in found if not item.revision), None):
                    raise Unusable(f"it lists {unknown.key[:100]!r} without its revision", "")
                yield [Entry(item.key, item.revision, item.size) for item in found]
                if not token:
                    return
        except (Passing, Refused, Unusable, FileNotFoundError) as error:
            raise _listing_error(self._address, error) from None

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since each object needs a separate request."""

    def read(self, entry: Entry) -> Generator[bytes]:
        read, size = 0, entry.size or 0
        pieces: Iterator[bytes] = iter(())

        def piece() -> bytes | None:
            nonlocal pieces
            try:
                return next(pieces, None)
            except Passing:
                if read == size:  # only the end of the answer is missing
                    return None
                pieces = self._bucket.read(entry.uri, read, size, entry.revision)
                raise

        try:
            if size:
                pieces = self._bucket.read(entry.uri, 0, size, entry.revision)
            while (part := patiently(piece, PATIENCE)) is not None:
                read += len(part)
                yield part
        except FileNotFoundError:
            told = "it changed or went away after it was listed; the next run reads it again"
            raise DocumentError(f"{entry.uri}: {told}", "changed") from None
        except Unauthenticated as error:
            raise _listing_error(self._address, error) from None
        except (Passing, Refused, Unusable, OSError) as error:
            raise DocumentError(
                f"{entry.uri}: the object cannot be read ({error}); the next run tries again", "unreadable"
            ) from None

    def close(self) -> None:
        self._bucket.close()


def _listing_error(address: SourceAddress, error: Exception) -> SourceError:
    """Return the error for a failed listing, from an error of the bucket's client."""
    if isinstance(error, Refused):
        told = f"Give credentials that may read it: {CREDENTIALS[urlsplit(address.url).scheme]}"
        return fault(address, error, told, credentials=True)
    remedy = error.remedy if isinstance(error, Unusable) else ""
    return fault(address, error, remedy[:1].upper() + remedy[1:])


def _is_anonymous(address: SourceAddress, options: dict[str, str]) -> bool:
    """Return the option `anonymous`. Raise SettingsError if it is invalid, or `endpoint` is plain HTTP to another host
    and credentials would be sent."""
    name, endpoint = address.name, options["endpoint"]
    if options["anonymous"] not in ("true", "false"):
        raise SettingsError(f"source {name!r}: its option anonymous must be true or false")
    anonymous = options["anonymous"] == "true"
    if urlsplit(endpoint).scheme == "http" and not is_loopback(endpoint) and not anonymous:
        raise SettingsError(f"source {name!r}: its endpoint is plain HTTP to another machine; use https")
    return anonymous
