"""What buckets of all providers have in common: addresses SCHEME://BUCKET/PREFIX, and the options of their servers."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from pipelines.errors import SettingsError, SourceError
from resources.connectors.source import Address, Entry

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LONGEST = 300


def place_of(address: Address) -> tuple[str, str]:
    """The bucket, and the prefix with a slash at its end, "" where there is none. Raises SettingsError."""
    parts = urlsplit(address.url)
    if not parts.netloc:
        raise SettingsError(f"source {address.name!r}: no bucket in its path; write {parts.scheme}://BUCKET/PREFIX")
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def is_anonymous(address: Address, options: dict[str, str]) -> bool:
    """By the option `anonymous`. Raises SettingsError where it, or what `endpoint` says, cannot be meant."""
    name, endpoint = address.name, options["endpoint"]
    if options["anonymous"] not in ("true", "false"):
        raise SettingsError(f"source {name!r}: its option anonymous is true or false")
    anonymous = options["anonymous"] == "true"
    if endpoint.startswith("http://") and urlsplit(endpoint).hostname not in LOOPBACK and not anonymous:
        raise SettingsError(f"source {name!r}: its endpoint is plain HTTP, and not on loopback; use https")
    return anonymous


def entries_of(found: Iterable[tuple[str, str, int]], prefix: str) -> list[Entry]:
    """Key, revision and size of objects as entries: what ends in a slash is how consoles keep an empty folder."""
    return [Entry(key.removeprefix(prefix), revision, size) for key, revision, size in found if not key.endswith("/")]


def said(error: BaseException) -> str:
    """What an error tells, on one line."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def fault(address: Address, error: BaseException, remedy: str = "", credentials: bool = False) -> SourceError:
    """Of a listing that failed."""
    told = f"source {address.name!r}: cannot list {address.url}: {said(error)}; nothing was changed"
    return SourceError(f"{told}. {remedy}" if remedy else told, *(["credentials"] if credentials else []))


def missing(address: Address, extra: str) -> SourceError:
    """Of a library that comes with an extra."""
    return SourceError(f"source {address.name!r}: its library is not installed: pip install 'pincite[{extra}]'")
