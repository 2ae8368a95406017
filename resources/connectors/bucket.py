"""Buckets of the clouds as sources: their options, their listing, and the reading of the objects that were listed.

An object whose server breaks off while it is read is read on from there, as long as it has the revision that was
listed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from pipelines.errors import DocumentError, SourceError
from resources.clouds.bucket import AT_ONCE, Bucket, Passing, Refused, Unauthenticated, Unusable, patiently
from resources.connectors.bucket_address import is_anonymous, require_bucket
from resources.connectors.source import Address, Entry, fault, options_of

PATIENCE = 20.0
"""Seconds of pauses after which a request that a busy server refuses is given up."""


def connect(address: Address) -> BucketSource:
    """Return the source of an address.

    Options: `endpoint` (another server that speaks the same), `anonymous` (true for a public bucket), and `region` of
    S3."""
    from resources.clouds import s3

    require_bucket(address)
    options = options_of(address, endpoint=None, region=None, anonymous="false")
    anonymous = is_anonymous(address, options)
    try:
        bucket = s3.connect(
            address.url,
            f"source {address.name!r}",
            endpoint=options["endpoint"],
            region=options["region"],
            anonymous=anonymous,
        )
    except Unusable as error:
        told = f"source {address.name!r}: {address.url} cannot be used: {error}"
        raise SourceError(f"{told}; {error.remedy}") from None
    return BucketSource(address, bucket)


class BucketSource:
    """The objects below a prefix. An entry's revision is the object's ETag or generation."""

    at_once = AT_ONCE

    def __init__(self, address: Address, bucket: Bucket) -> None:
        self._address, self._bucket = address, bucket

    def entries(self) -> Iterator[Sequence[Entry]]:
        token = ""
        try:
            while True:
                found, token = patiently(lambda token=token: self._bucket.page("", token), PATIENCE)  # type: ignore[misc]
                if unknown := next((item for item in found if not item.revision), None):
                    raise Unusable(f"it lists {unknown.key[:100]!r} without its revision", "")
                yield [Entry(item.key, item.revision, item.size) for item in found]
                if not token:
                    return
        except (Passing, Refused, Unusable, FileNotFoundError) as error:
            raise self._fault(error) from None

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing, since each object is a request of its own."""

    def read(self, entry: Entry) -> Generator[bytes]:
        read, size = 0, entry.size or 0
        pieces: Iterator[bytes] = iter(())

        def piece() -> bytes | None:
            nonlocal pieces
            try:
                return next(pieces, None)
            except Passing:
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
            raise self._fault(error) from None
        except (Passing, Refused, Unusable, OSError) as error:
            raise DocumentError(f"{entry.uri}: the bucket does not give it: {error}", "unreadable") from None

    def close(self) -> None:
        self._bucket.close()

    def _fault(self, error: Exception) -> SourceError:
        if isinstance(error, Refused):
            told = f"Give credentials that may read it: {self._bucket.credentials}"
            return fault(self._address, error, told, credentials=True)
        remedy = error.remedy if isinstance(error, Unusable) else ""
        return fault(self._address, error, remedy[:1].upper() + remedy[1:])
