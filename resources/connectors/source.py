"""What a source that is no folder must do. tests/support/source_contract.py tries it on each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a source. `uri` is its name as that of a file in a folder; `revision` changes whenever its bytes do,
    and equal ones fetch nothing; `size` in bytes where it is known.

    What else is known of a document (title, groups) is an entry of its own, the side-car `uri.meta.yaml`."""

    uri: str
    revision: str
    size: int | None = None


class Source(Protocol):
    """Reads only, holds no more than a page of its listing, and waits for nothing without a limit.

    Every method raises SourceError, which names the source's setting and the remedy and repeats no secret, where the
    source as a whole cannot be used."""

    at_once: int
    """Entries that may be read at the same time, by as many threads."""

    def entries(self) -> Iterator[Sequence[Entry]]:
        """All entries, in pages. Coming to its end says that they are all: a page that fails is a SourceError."""

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Told which entries are read next, by one thread, so that they can be asked for together."""

    def read(self, entry: Entry) -> Generator[bytes]:
        """The bytes of an entry, in pieces, of which not all may be asked for. Raises DocumentError: `changed` where it
        has another revision by now, `unreadable` where it cannot be read."""

    def close(self) -> None: ...


@runtime_checkable
class TellsMemberships(Protocol):
    """A source that knows who is behind the principals of its documents, beside what it lists."""

    def memberships(self) -> Iterable[tuple[str | None, str | None]] | None:
        """All pairs of a principal and a group of askers; None where its settings do not ask for them. Raises
        SourceError, also in the middle."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a source is, by its settings: the address without its query, and the query's values with `options`."""

    name: str
    url: str
    options: dict[str, str]
    folder: Path
    """Of its own, in the state, for what it keeps between runs."""


Connect = Callable[[Address], Source]
"""Has an attribute `named_by_strangers`, true, where people who are not trusted choose the names of its entries: no
entry then says who may find it or another.

Raises SettingsError where an option is missing or cannot be meant, SourceError where nothing is there."""
