"""What stands beside a file that is not there any more, or has another name: it may have restricted the file.

Nobody can tell what a side-car without its file was to restrict, so it is named by every run; and a file without a
side-car that may be the one meant is withheld. A structural map of a file that is gone is no document."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, media_type_of
from resources.sources.siblings import Names
from resources.sources.side_cars import SIDE_CAR


class Contents(Protocol):
    """Contents of files by their uri."""

    def get(self, uri: str) -> str | None:
        """None where nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of a source: contents of its files as they were last listed, by uri, of those that are gone too
    while a side-car is left of them; which named groups of their own; and what was withheld."""

    contents: Contents | Mapping[str, str] = field(default_factory=dict)
    restricted: Container[str] = ()
    withheld: Container[str] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    """Of the contents those of files that are gone, or are withheld for what lies beside them."""


@dataclass
class Orphans:
    """Side-cars of no file, and siblings of one that is not there, each with its name; and of those that restrict, by
    what their file may be known: its name, its content, its folder and kind."""

    before: Before
    side_cars: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)

    def restricts(self, side_car: str) -> None:
        """Withholds what may be the file of a side-car."""
        name = self.side_cars[side_car]
        self.names[_folded(name)] = side_car
        self.bases[_folded(Path(name).name)] = side_car
        if content := self.before.contents.get(name):
            self.contents[content] = side_car
            self.places[_place(name)] = side_car

    def doubt(self, uri: str, content: str) -> str | None:
        """Why a file without a side-car may be one that is restricted: its name is nearly that of the side-car, or
        the same in another folder; it is the file that is gone, or a new one in its place; it was withheld before."""
        if not self.names:
            return None
        side_car = self.names.get(_folded(uri)) or self.names.get(_folded(str(Path(uri).with_suffix(""))))
        known = self.before.contents.get(uri)
        new = known is None
        if side_car is None and content != known:
            side_car = self.contents.get(content)
        if side_car is None and (new or uri in self.before.restricted):
            side_car = self.bases.get(_folded(Path(uri).name))
        if side_car is None and new:
            side_car = self.places.get(_place(uri))
        if side_car is None and uri in self.before.withheld:
            side_car = next(iter(self.names.values()), None)
        if side_car is None:
            return None
        return f"{uri}: withheld, since {side_car} may be meant for it: name that {uri}{SIDE_CAR}, or remove it"


def orphan_maps(present: Names, files: Names) -> Mapping[str, str]:
    """Maps whose names say that they are of a file, which is not there; those with a side-car of their own are
    documents."""
    return dict(_orphan_maps(present, files))


def _orphan_maps(present: Names, files: Names) -> Iterator[tuple[str, str]]:
    for uri in files:
        name = uri.removesuffix(ELEMENTS_SUFFIX)
        known = name != uri and media_type_of(Path(name)) not in (None, ELEMENTS)
        if known and name not in files and uri + SIDE_CAR not in present:
            yield uri, name


def _place(uri: str) -> tuple[str, str]:
    path = Path(uri)
    return str(path.parent), path.suffix.lower()


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
