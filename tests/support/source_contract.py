"""What every source must do that is no folder, tried on a real one: `Place` is where its documents are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from pipelines.errors import DocumentError, SettingsError
from pipelines.settings.sources import SourceSettings
from resources.connectors.source import Entry, Source, connect


class Place(Protocol):
    """Where a source's documents are; `ending` is what all their names end in. A place that names them by itself, or
    wraps what is put there, says how."""

    ending: str

    @property
    def settings(self) -> SourceSettings: ...

    def put(self, uri: str, text: str) -> None: ...

    def delete(self, uri: str) -> None: ...

    def named(self, uri: str) -> str:
        """What the source calls what was put there as this."""
        return uri

    def wrapped(self, uri: str, text: str) -> str:
        """What the source gives of a text that was put there."""
        return text


def content(source: Source, entry: Entry) -> str:
    source.prepare([entry])
    return b"".join(source.read(entry)).decode()


@dataclass
class Listed:
    """A source as it is now."""

    entries: dict[str, Entry]
    texts: dict[str, str]


def listed(place: Place, folder: Path) -> Listed:
    with closing(connect(place.settings, folder)) as source:
        entries = {entry.uri: entry for page in source.entries() for entry in page}
        source.prepare(list(entries.values()))
        return Listed(entries, {uri: b"".join(source.read(entry)).decode() for uri, entry in entries.items()})


def keeps_the_contract(place: Place, folder: Path) -> None:
    """Fails where a source does not do what resources/connectors/source.py says."""
    folder.mkdir(exist_ok=True)
    first, second, deep = (f"{name}{place.ending}" for name in ("first", "second", "deep/third"))
    for uri in (first, second, deep):
        place.put(uri, f"The text of {uri}.\n")
    before = listed(place, folder)
    given = {uri: place.wrapped(uri, f"The text of {uri}.\n") for uri in (first, second, deep)}
    assert before.texts == {place.named(uri): text for uri, text in given.items()}
    assert all(entry.size in (None, len(before.texts[uri])) for uri, entry in before.entries.items())
    assert listed(place, folder).entries == before.entries, "what did not change has its revision"

    place.put(second, "Another text.\n")
    place.delete(deep)
    now = listed(place, folder)
    assert now.texts == {
        place.named(first): given[first],
        place.named(second): place.wrapped(second, "Another text.\n"),
    }
    assert now.entries[place.named(first)] == before.entries[place.named(first)]
    assert now.entries[place.named(second)].revision != before.entries[place.named(second)].revision
    _serves_no_other_bytes(place, folder, before, place.named(second))
    _can_be_left_in_the_middle(place, folder, place.named(first))


def _serves_no_other_bytes(place: Place, folder: Path, before: Listed, second: str) -> None:
    """Under a revision that is past: its own bytes, or a failure of the document."""
    with closing(connect(place.settings, folder)) as source:
        assert sum(len(page) for page in source.entries()) == 2
        try:
            assert content(source, before.entries[second]) == before.texts[second]
        except DocumentError as error:
            assert error.code in ("changed", "unreadable") and second in str(error)


def _can_be_left_in_the_middle(place: Place, folder: Path, first: str) -> None:
    """A document that is too large is not read to its end; the next is read as if it had been."""
    large = f"large{place.ending}"
    place.put(large, "x" * 3_000_000)
    with closing(connect(place.settings, folder)) as source:
        entries = {entry.uri: entry for page in source.entries() for entry in page}
        source.prepare(list(entries.values()))
        reading = source.read(entries[place.named(large)])
        assert next(reading)
        reading.close()
        assert "The text of first" in b"".join(source.read(entries[first])).decode()


def refuses_what_it_does_not_know(make: Callable[[dict[str, str]], SourceSettings], folder: Path, near: str) -> None:
    """An option with a slip in its name is refused, with the one that is meant."""
    with pytest.raises(SettingsError, match=f"did you mean '{near}'"):
        connect(make({f"{near}x": "1"}), folder)
