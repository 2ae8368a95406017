"""The common part of all providers' buckets: addresses SCHEME://BUCKET/PREFIX, options, checks, and errors."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any
from urllib.parse import urlsplit

from pipelines.errors import DocumentError, SettingsError, SourceError
from pipelines.settings.models import is_loopback
from resources.connectors.source import Address, Entry, fault


def place_of(address: Address) -> tuple[str, str]:
    """Return the bucket, and the prefix with a slash at its end, or "" without a prefix. Raise SettingsError."""
    parts = urlsplit(address.url)
    if not parts.netloc:
        raise SettingsError(f"source {address.name!r}: no bucket in its path; write {parts.scheme}://BUCKET/PREFIX")
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def require_bucket(address: Address) -> None:
    """Raise SettingsError for an address without a bucket."""
    place_of(address)


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
