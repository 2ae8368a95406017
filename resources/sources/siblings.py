"""Files beside documents that may be meant as side-cars, and side-cars whose file is gone or has another name.

A sibling is in the folder of a document.

Its name is the document's name, with or without the ending, followed by a sign other than a letter or digit and further
text. Names are compared without regard to case and Unicode form, and without leading signs, so `.pay.md.meta.yaml` is a
sibling of `pay.md`. It is unknown which file an orphaned side-car was meant to restrict. Every run reports it, and any
file without a side-car that it may have meant is withheld. The contents of all sources at the last listing are read
only for this.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pipelines.fingerprint import document_id
from pipelines.settings.sources import SourceSettings
from resources.connectors.source import named_by_strangers
from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, MEDIA_TYPES, media_type_of
from resources.side_cars import SIDE_CAR
from resources.sources.files import is_hidden, is_taken
from resources.sources.memberships import is_file
from resources.sources.sorted_spool import SortedSpool, TextSet

if TYPE_CHECKING:
    import pyarrow as pa


# ---------------------------------------------------------------- siblings, by their names
#
# A file that a parser takes is a sibling only if it continues a whole name, as `pay.md.meta.txt` does. The content of
# siblings is read in resources/sources/folder.py.


class Names(Protocol):
    """The names in a source, in any order; there may be as many as files."""

    def __contains__(self, name: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...


class Meant(NamedTuple):
    """The documents for which a sibling may be meant: existing ones, by their keys, and one missing document."""

    keys: list[str]
    whole: bool
    """True if the name continues the whole name of a document."""
    missing: str = ""


NOTHING_MEANT = Meant([], False)


class Siblings:
    """The siblings among the names of a source; empty if untrusted people choose its names.

    `lost` has the names of removed documents that had siblings. Names are looked up in sets on disk and never compared
    with each other, so the time is proportional to the number of names.
    """

    def __init__(self, source: SourceSettings, names: Names, lost: Iterable[str] = ()) -> None:
        self._source, self._names = source, names
        self._lost = {key: uri for uri in lost for key in keys_of(uri)}

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._candidates if name in self)

    def __contains__(self, name: object) -> bool:
        meant = self.meaning_of(str(name))
        return bool(meant.keys or meant.missing)

    def meaning_of(self, name: str) -> Meant:
        """Return the documents for which a file may be meant, by its name. If it continues a whole name, only that
        document counts."""
        if name not in self._candidates:
            return NOTHING_MEANT
        prefixes = list(_prefixes(name))
        whole = [key for prefix in prefixes if (key := _key(name, prefix)) in self._keys]
        stems = [] if whole or _is_parsed(name) else [_key(name, prefix, stem=True) for prefix in prefixes]
        keys = whole or [key for key in stems if key in self._keys]
        own = name.endswith(SIDE_CAR) and not is_hidden(name)
        return Meant(keys, bool(whole), self._missing(name, prefixes) if own or not keys else "")

    def _missing(self, name: str, prefixes: Iterable[str]) -> str:
        """Return the missing document whose name a file continues: a side-car's, a name with a document's ending, or
        the name of a removed document."""
        if name.endswith(SIDE_CAR) and not is_hidden(name):
            found = name.removesuffix(SIDE_CAR)
            return found if is_taken(found, self._source) or not _is_parsed(found) else ""
        keys = (key for prefix in prefixes for key in (_key(name, prefix), _key(name, prefix, stem=True)))
        found = next((self._lost[key] for key in keys if key in self._lost), "") or _inner_name(name)
        return "" if _is_parsed(name) or found in self._names or not is_taken(found, self._source) else found

    @cached_property
    def _candidates(self) -> TextSet:
        strangers = named_by_strangers(self._source.scheme)
        return TextSet(() if strangers else filter(self._is_candidate, self._names))

    @cached_property
    def _keys(self) -> TextSet:
        return TextSet(key for uri in self._names if self._is_document(uri) for key in keys_of(uri))

    def _is_candidate(self, uri: str) -> bool:
        """Say whether a file may be a sibling. Not counted are the side-car of an existing file, and a file with a
        side-car, which is itself a document."""
        if is_file(uri) or uri.endswith(ELEMENTS_SUFFIX):
            return False
        if uri.endswith(SIDE_CAR):
            return is_hidden(uri) or uri.removesuffix(SIDE_CAR) not in self._names
        if not _is_parsed(uri) or is_hidden(uri):
            return True
        return bool(_inner_name(uri)) and uri + SIDE_CAR not in self._names

    def _is_document(self, uri: str) -> bool:
        return _is_parsed(uri) and not is_hidden(uri) and not is_file(uri) and is_taken(uri, self._source)


def keys_of(uri: str) -> tuple[str, str]:
    """Return the keys of a document for its siblings: its name, and its name without the ending."""
    name = PurePosixPath(uri).name
    return _key(uri, _sibling_folded(name)), _key(uri, _sibling_folded(PurePosixPath(name).stem), stem=True)


def _key(uri: str, name: str, stem: bool = False) -> str:
    return f"{uri.rpartition('/')[0]}{'//' if stem else '/'}{name}"


def _is_parsed(uri: str) -> bool:
    return media_type_of(Path(uri)) is not None


def _prefixes(uri: str) -> Iterator[str]:
    """Return the beginnings of a name before each sign other than a letter or digit, longest first."""
    name = _sibling_folded(uri.rpartition("/")[2])
    return (name[:at] for at in range(len(name) - 1, 0, -1) if _is_sign(name[at]))


def _inner_name(uri: str) -> str:
    """Return the longest beginning of a name that has a document's ending, or ""."""
    folder, slash, name = uri.rpartition("/")
    begin = next((at for at, char in enumerate(name) if not _is_sign(char)), 0)
    for dot in range(len(name) - 1, begin, -1):
        if name[dot] == ".":
            end = next((at for at in range(dot + 1, len(name)) if _is_sign(name[at])), len(name))
            if end < len(name) and name[dot:end].lower() in MEDIA_TYPES:
                return f"{folder}{slash}{name[begin:end]}"
    return ""


def _is_sign(char: str) -> bool:
    """Say whether a character is a sign, not a letter or digit. Combining marks belong to their letter."""
    return not char.isalnum() and not unicodedata.category(char).startswith("M")


def _sibling_folded(name: str) -> str:
    """Return a name in a form for comparison: in lower case, and without leading `_` and `.`."""
    plain = name.lower() if name.isascii() else _plain(name)
    begin = next((at for at, char in enumerate(plain) if not _is_sign(char)), 0)
    return plain[begin:]


def _plain(name: str) -> str:
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())


# ---------------------------------------------------------------- side-cars whose file is gone or renamed
#
# A structural map of a file that is gone is no document.


class Contents(Protocol):
    """The content hashes of files by uri."""

    def get(self, uri: str) -> str | None:
        """Return the content hash of a file, or None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Before:
    """Earlier knowledge of a source: content hashes of its files at the last listing, by uri, including removed files
    with remaining side-cars; the files that named groups themselves; and the withheld files."""

    contents: Contents | Mapping[str, str] = field(default_factory=dict)
    restricted: Container[str] = ()
    withheld: Container[str] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    """The contents of files that are gone, or are withheld because of a file beside them."""
    below: Callable[[str], Iterable[str]] = lambda folder: ()
    """A function that returns the names in the last listing that begin with a text, such as those of a mail's
    attachments."""


@dataclass
class StraySideCars:
    """Side-cars without a file, and siblings of a missing one, each with the name of the file. If they restrict it,
    also the properties that may identify the file: its name, its content, its folder and kind."""

    before: Before
    side_cars: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)

    def restricts(self, side_car: str) -> None:
        """Withhold every file that a side-car may be meant to restrict."""
        name = self.side_cars[side_car]
        self.names[_case_folded(name)] = side_car
        self.bases[_case_folded(Path(name).name)] = side_car
        if content := self.before.contents.get(name):
            self.contents[content] = side_car
            self.places[_place(name)] = side_car

    def doubt(self, uri: str, content: str) -> str | None:
        """Return why a file without a side-car may be a restricted one, or None. Reasons: its name is similar to the
        name in the side-car, or the same name in another folder; its content is the missing file's; it is new in that
        file's place; it was withheld before."""
        if not self.names:
            return None
        side_car = self.names.get(_case_folded(uri)) or self.names.get(_case_folded(str(Path(uri).with_suffix(""))))
        known = self.before.contents.get(uri)
        new = known is None
        if side_car is None and content != known:
            side_car = self.contents.get(content)
        if side_car is None and (new or uri in self.before.restricted):
            side_car = self.bases.get(_case_folded(Path(uri).name))
        if side_car is None and new:
            side_car = self.places.get(_place(uri))
        if side_car is None and uri in self.before.withheld:
            side_car = next(iter(self.names.values()), None)
        if side_car is None:
            return None
        return f"{uri}: withheld, since {side_car} may be meant for it: name that {uri}{SIDE_CAR}, or remove it"


def orphan_maps(present: Names, files: Names) -> Mapping[str, str]:
    """Return the maps whose file does not exist. A map with a side-car is itself a document, and is left out."""
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


def _case_folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


# ---------------------------------------------------------------- contents at the last listing


KNOWN = ("doc_id", "source", "uri", "content_hash", "groups")
"""Columns of a listed document that are read."""


class KnownContents:
    """Contents of all sources at the last listing, read on first use. `read` yields tables with the columns KNOWN."""

    def __init__(self, read: Callable[[], Iterable[pa.Table]]) -> None:
        self._read = read

    def contents_of(self, source: str, lost: Mapping[str, str]) -> ContentsOf:
        """Return the contents of a source; `lost` has contents of removed files with remaining side-cars."""
        return ContentsOf(self, source, lost)

    def one(self, doc_id: str) -> tuple[str, bool] | None:
        """Return the content hash of a document, and whether it named groups itself; return None if it was not
        listed."""
        found = self._spool.run("content", doc_id)
        return (found[0][0], bool(found[0][1])) if found else None

    def names_below(self, source: str, beginning: str) -> list[str]:
        """Return the names of a source's documents that begin with a text."""
        found = self._spool.run("names_from", source, beginning, beginning[:-1] + chr(ord(beginning[-1]) + 1))
        return [uri for (uri,) in found]

    @cached_property
    def _spool(self) -> SortedSpool:
        noted = SortedSpool("contents", "names")
        for read in self._read():
            noted.write("add_content", _rows(read))
            noted.write("add_name", zip(read["source"].to_pylist(), read["uri"].to_pylist(), strict=True))
        return noted


def _rows(read: pa.Table) -> Iterator[tuple[Any, ...]]:
    columns = (read[name].to_pylist() for name in ("doc_id", "content_hash", "groups"))
    return ((doc_id, content, bool(groups)) for doc_id, content, groups in zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class ContentsOf:
    """The contents of a source's files by uri."""

    known: KnownContents
    source: str
    lost: Mapping[str, str]

    def get(self, uri: str) -> str | None:
        found = self.known.one(document_id(self.source, uri))
        return found[0] if found else self.lost.get(uri)

    @property
    def restricted_files(self) -> Container[str]:
        """The files that named groups themselves."""
        return _Restricted(self)


@dataclass(frozen=True, slots=True)
class _Restricted:
    contents: ContentsOf

    def __contains__(self, uri: object) -> bool:
        found = self.contents.known.one(document_id(self.contents.source, str(uri)))
        return bool(found and found[1])
