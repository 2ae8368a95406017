"""Buckets of the clouds as sources: their options, their listing, and the reading of the objects that were listed.

An object whose server breaks off while it is read is read on from there, as long as it has the revision that was
listed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from pipelines.settings.models import is_loopback
from resources.clouds import CREDENTIALS, OPTIONS
from resources.clouds import connect as connect_bucket
from resources.clouds.bucket import AT_ONCE, Bucket, Passing, Refused, Unauthenticated, Unusable, patiently
from resources.connectors.source import Address, Entry, fault, options_of

PATIENCE = 20.0
"""Seconds of pauses after which a request that a busy server refuses is given up."""


def connect(address: Address) -> BucketSource:
    """Return the source of an address.

    Options: `anonymous` (true for a public bucket), `endpoint` (another server that speaks the same), `region` of S3,
    `account` of Azure."""
    place_of(address)
    options = options_of(address, **dict.fromkeys(OPTIONS[urlsplit(address.url).scheme]), anonymous="false")
    given: dict[str, Any] = {**options, "anonymous": is_anonymous(address, options)}
    try:
        return BucketSource(address, connect_bucket(address.url, f"source {address.name!r}", **given))
    except Unusable as error:
        told = f"source {address.name!r}: {address.url} cannot be used: {error}"
        raise SourceError(f"{told}; {error.remedy}") from None
    except Refused as error:
        raise _failed(address, error) from None


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
            raise _failed(self._address, error) from None

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
            raise _failed(self._address, error) from None
        except (Passing, Refused, Unusable, OSError) as error:
            raise DocumentError(f"{entry.uri}: the bucket does not give it: {error}", "unreadable") from None

    def close(self) -> None:
        self._bucket.close()


def _failed(address: Address, error: Exception) -> SourceError:
    """Return the error of a listing, from an error of the bucket's client."""
    if isinstance(error, Refused):
        told = f"Give credentials that may read it: {CREDENTIALS[urlsplit(address.url).scheme]}"
        return fault(address, error, told, credentials=True)
    remedy = error.remedy if isinstance(error, Unusable) else ""
    return fault(address, error, remedy[:1].upper() + remedy[1:])


def place_of(address: Address) -> tuple[str, str]:
    """Return the bucket, and the prefix with a slash at its end, or "" without a prefix. Raise SettingsError."""
    parts = urlsplit(address.url)
    if not parts.netloc:
        raise SettingsError(f"source {address.name!r}: no bucket in its path; write {parts.scheme}://BUCKET/PREFIX")
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def is_anonymous(address: Address, options: dict[str, str]) -> bool:
    """Return the option `anonymous`. Raise SettingsError if it is invalid, or `endpoint` is plain HTTP to another host
    and credentials would be sent."""
    name, endpoint = address.name, options["endpoint"]
    if options["anonymous"] not in ("true", "false"):
        raise SettingsError(f"source {name!r}: its option anonymous is true or false")
    anonymous = options["anonymous"] == "true"
    if endpoint.startswith("http://") and not is_loopback(endpoint) and not anonymous:
        raise SettingsError(f"source {name!r}: its endpoint is plain HTTP, and not on loopback; use https")
    return anonymous


def entries_of(address: Address, found: Iterable[tuple[Any, Any, Any]], prefix: str) -> list[Entry]:
    """Return objects as entries, from key, revision and size. Skip keys that end in a slash, by which consoles keep an
    empty folder. Raise SourceError if an object lacks a part, or is not below the prefix."""
    made = []
    for key, revision, size in found:
        if not isinstance(key, str) or not key.startswith(prefix):
            raise fault(address, _Unmeant(f"it lists {str(key)[:100]!r}, which was not asked for"))
        if key.endswith("/"):
            continue
        if not revision or not isinstance(size, int) or size < 0:
            raise fault(address, _Unmeant(f"it lists {key[:100]!r} without its revision or its size"))
        made.append(Entry(key.removeprefix(prefix), str(revision), size))
    return made


def broken_off(address: Address) -> SourceError:
    """Return the error of a page that belongs to no listing, or that has a next page but does not name it."""
    return fault(address, _Unmeant("it answers with what is no page of a listing"))


def whole(entry: Entry, pieces: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of an object. Raise DocumentError if they are more or fewer than listed."""
    left = entry.size or 0
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        told = "more" if left < 0 else "less"
        raise DocumentError(f"{entry.uri}: the server gives {told} of it than it lists", "unreadable")


class _Unmeant(Exception):
    """An answer of a server that makes no sense."""


def missing(address: Address, extra: str) -> SourceError:
    """Return the error of a missing library that comes with an extra."""
    return SourceError(f"source {address.name!r}: its library is not installed: pip install 'pincite[{extra}]'")
