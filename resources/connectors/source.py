"""The protocol of connectors to sources, the limits on every connector, and the connector for each scheme of addresses.

`tests/support/source_contract.py` tests the protocol with each connector. Connectors are built in, or come from
installed packages by the entry-point group `pincite.sources`.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol, runtime_checkable
from urllib.parse import parse_qsl

from pipelines.errors import DocumentError, PinciteError, SettingsError, SourceError
from pipelines.settings.sources import SourceSettings

# ---------------------------------------------------------------- source
#
# The protocol of a source that is not a folder, and its limits.


LONGEST = 16_384
"""Most characters of a name or a revision. A name that is too long for a file system fails the document; a name longer
than this limit fails the listing."""
MOST_TEXT = 4 << 30
"""Most characters of all names and revisions of a listing, since they are kept on disk."""
MOST_EMPTY = 10_000
"""Most consecutive pages without an entry. A listing with more counts as endless."""
LISTING_SECONDS = 172_800.0
"""Most seconds of a listing: two days, since a site may ask for ten seconds between each of 10,000 pages."""
READING_SECONDS = 3600.0
"""Most seconds for reading one entry, so that a slow server cannot delay a run forever."""
_MOST_BYTES = 1 << 62
_LONGEST_TOLD = 300
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a source. `uri` is its name, like a path in a folder; `revision` changes whenever its bytes change,
    and a file with the same revision is not fetched again; `size` is in bytes, if known.

    Properties of a document (title, groups) come from a separate entry, the side-car `uri.meta.yaml`.
    """

    uri: str
    revision: str
    size: int | None = None


class Source(Protocol):
    """A source, which is only read. It keeps at most one page of its listing in memory, and every wait has a limit.

    Every method raises SourceError if the source as a whole cannot be used. The error names the source's setting and
    the remedy, and repeats no secret.
    """

    at_once: int
    """Number of entries that may be read at the same time, each in a separate thread."""

    def entries(self) -> Iterator[Sequence[Entry]]:
        """Yield all entries, in pages. The end of the iteration means that the listing is complete; a failed page
        raises SourceError."""

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Prepare for reading these entries next, so that they can be fetched together. One thread calls this."""

    def read(self, entry: Entry) -> Generator[bytes]:
        """Yield the bytes of an entry, in pieces; the caller may stop early. Raise DocumentError: `changed` if it now
        has another revision, `unreadable` if it cannot be read."""

    def close(self) -> None: ...


@runtime_checkable
class TellsMemberships(Protocol):
    """A source that can also list the members of its documents' principals."""

    def memberships(self) -> Iterable[tuple[str | None, str | None]] | None:
        """Return all pairs of a principal and a group of askers, or None if the settings do not ask for them. Raise
        SourceError, also while the pairs are read."""


class CheckedSource:
    """A source with limits: its listing and its reading end, and errors name it, whatever its connector or server
    does."""

    def __init__(self, name: str, source: Source) -> None:
        self._name, self._source, self.at_once = name, source, source.at_once

    def entries(self) -> Iterator[Sequence[Entry]]:
        ends, empty, text = time.monotonic() + LISTING_SECONDS, 0, 0
        try:
            for page in self._source.entries():
                empty = 0 if page else empty + 1
                if empty > MOST_EMPTY:
                    raise self._fault(f"its listing goes on without entries, for {MOST_EMPTY} pages")
                if time.monotonic() > ends:
                    raise self._fault(f"its listing does not end within {LISTING_SECONDS / 3600:.0f} hours")
                for entry in page:
                    if problem := _problem(entry):
                        raise self._fault(f"its listing has {problem}")
                    text += len(entry.uri) + len(entry.revision)
                if text > MOST_TEXT:
                    raise self._fault(f"its names and revisions have over {MOST_TEXT >> 30} GB")
                yield page
        except PinciteError:
            raise
        except Exception as error:  # libraries raise errors without a common base for an answer that they cannot read
            raise self._fault(f"its listing cannot be read: {_error_text(error)}") from error

    def prepare(self, entries: Sequence[Entry]) -> None:
        try:
            self._source.prepare(entries)
        except PinciteError:
            raise
        except Exception as error:
            raise self._fault(f"its documents cannot be read: {_error_text(error)}") from error

    def read(self, entry: Entry) -> Generator[bytes]:
        ends = time.monotonic() + READING_SECONDS
        try:
            with closing(self._source.read(entry)) as reading:
                for piece in reading:
                    if time.monotonic() > ends:
                        told = f"{entry.uri}: it does not end within {READING_SECONDS:.0f} s"
                        raise DocumentError(told, "unreadable")
                    yield piece
        except PinciteError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                raise
            raise DocumentError(
                f"{entry.uri}: the entry cannot be read ({_error_text(error)}); the next run tries again", "unreadable"
            ) from error

    def close(self) -> None:
        self._source.close()

    def _fault(self, told: str) -> SourceError:
        return SourceError(f"source {self._name!r}: {told}; nothing was changed")


class CheckedTelling(CheckedSource):
    """A checked source that also has memberships."""

    _source: TellsMemberships  # type: ignore[assignment]

    def memberships(self) -> Iterable[tuple[str | None, str | None]] | None:
        return self._source.memberships()


def check_source(name: str, source: Source) -> Source:
    """Return the source of this name with the limits of this module."""
    return (CheckedTelling if isinstance(source, TellsMemberships) else CheckedSource)(name, source)


def _problem(entry: Entry) -> str:
    """Return the fault of an entry, or "" if it is valid."""
    if not isinstance(entry.uri, str) or not isinstance(entry.revision, str) or not entry.revision:
        return "an entry without a name or a revision"
    if len(entry.uri) > LONGEST or len(entry.revision) > LONGEST:
        return f"a name or a revision of over {LONGEST} characters"
    if entry.size is not None and (not isinstance(entry.size, int) or not 0 <= entry.size < _MOST_BYTES):
        return "an entry whose size is no number of bytes"
    return ""


def _error_text(error: Exception) -> str:
    text = " ".join(str(error).split())[:_LONGEST_TOLD]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """The address of a source in its settings: the address without its query, and the query's values together with
    `options`."""

    name: str
    url: str
    options: dict[str, str]
    folder: Path
    """The source's folder in the state, for files that it keeps between runs."""


def fault(address: SourceAddress, error: BaseException, remedy: str = "", credentials: bool = False) -> SourceError:
    """Return the error of a listing that failed."""
    from resources.http_client import error_text  # here, since all that read settings import this module

    told = f"source {address.name!r}: cannot list {address.url}: {error_text(error)}; nothing was changed"
    return SourceError(f"{told}. {remedy}" if remedy else told, *(["credentials"] if credentials else []))


Connect = Callable[[SourceAddress], Source]
"""A function that connects to the source at an address. Its attribute `named_by_strangers` is true if people who are
not trusted choose the names of the source's entries; entries then cannot define who may find documents.

It raises SettingsError if an option is missing or invalid, and SourceError if the source does not exist.
"""


# ---------------------------------------------------------------- registry
#
# The connector of each scheme: built in, or from the entry-point group `pincite.sources`.


GROUP = "pincite.sources"
_BUILT_IN = {
    "s3": "bucket",
    "gs": "bucket",
    "az": "bucket",
    "git+https": "git",
    "git+ssh": "git",
    "git+file": "git",
    "imap": "mail",
    "imaps": "mail",
    "postgresql": "sql_rows",
    "webdav+http": "webdav",
    "webdav+https": "webdav",
    "http": "web_files",
    "https": "web_files",
    "web+http": "site",
    "web+https": "site",
}

_STRANGERS = ("mail", "site")
"""Connectors of sources in which people who are not trusted name the files: senders of mail, visitors who upload."""


def schemes() -> list[str]:
    """Return all schemes that can be read here, sorted."""
    return sorted({*_BUILT_IN, *(item.name for item in _entry_points())})


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def named_by_strangers(scheme: str) -> bool:
    """Say whether people who are not trusted choose the names in a source. If so, files in it cannot define who may
    find documents: only the source's own groups count. The connector of a package says so with an attribute
    `named_by_strangers` of its entry point's object."""
    if not scheme or scheme in _BUILT_IN:
        return _BUILT_IN.get(scheme) in _STRANGERS
    return any(getattr(item.load(), "named_by_strangers", False) for item in _entry_points() if item.name == scheme)


def require_known(source: SourceSettings) -> None:
    """Raise SettingsError if no connector reads the source's scheme."""
    if source.scheme not in schemes():
        near = difflib.get_close_matches(source.scheme, schemes(), n=1)
        hint = f"did you mean {near[0]}://?" if near else f"known: {', '.join(schemes())}, or a folder"
        raise SettingsError(f"source {source.name!r}: no connector reads {source.scheme}://; {hint}")


def connect(source: SourceSettings, folder: Path) -> Source:
    """Connect to the source of these settings; `folder` is its folder in the state.

    Raise SettingsError or SourceError.
    """
    require_known(source)
    url, _, query = source.path.partition("?")
    try:
        asked = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError:
        raise SettingsError(
            f"source {source.name!r}: its path has options that are not NAME=VALUE&... after the ?; correct them"
        ) from None
    if both := sorted(asked.keys() & source.options.keys()):
        raise SettingsError(f"source {source.name!r}: {both[0]} is in its path and in its options; leave one out")
    if source.memberships and named_by_strangers(source.scheme):
        told = "people who are not trusted name its files, so that any of them could say who reads it by memberships"
        raise SettingsError(
            f"source {source.name!r}: {told}: remove `memberships`, and restrict the source by `groups`"
        )
    if source.memberships and "memberships" in {**asked, **source.options}:
        raise SettingsError(f"source {source.name!r}: memberships are given as a file and as an option; leave one out")
    made = _connector(source.scheme)(SourceAddress(source.name, url, {**asked, **source.options}, folder))
    return check_source(source.name, made)


def _connector(scheme: str) -> Connect:
    if scheme in _BUILT_IN:
        module = importlib.import_module(f"resources.connectors.{_BUILT_IN[scheme]}")
        made: Connect = module.connect
        return made
    loaded: Connect = next(item for item in _entry_points() if item.name == scheme).load()
    return loaded


def options_of(address: SourceAddress, **known: str | None) -> dict[str, str]:
    """Return the options of an address, with the default of each that is left out ("" for None).

    Raise SettingsError for an option that the source does not have."""
    for name in address.options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
            raise SettingsError(f"source {address.name!r}: the option {name!r} is unknown; {hint}")
    return {name: address.options.get(name, value or "") for name, value in known.items()}
