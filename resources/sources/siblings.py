"""Files beside documents that may be meant as side-cars: told by their names here; what they say is asked elsewhere.

A sibling lies in the folder of a document, and its name continues the document's name, or its name without the ending,
with a sign that is no letter or digit. No parser takes it; or one does, and it continues a whole name, as
`pay.md.meta.txt` does. Names are compared as people read them: in any case and form of Unicode, without signs before
them, so that `.pay.md.meta.yaml` is a sibling too."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from pipelines.settings.sources import SourceSettings
from resources.connectors.source import named_by_strangers
from resources.parsers.registry import ELEMENTS_SUFFIX, MEDIA_TYPES, media_type_of
from resources.sources.memberships import is_file
from resources.sources.scratch import TextSet
from resources.sources.side_cars import SIDE_CAR
from resources.sources.walk import hidden, taken


class Names(Protocol):
    """The names that a source holds, in whatever order; as many as there are files."""

    def __contains__(self, name: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...


class Meant(NamedTuple):
    """What a sibling may be meant for: documents that are there, by their keys, and one that is not."""

    keys: list[str]
    whole: bool
    """Whether it continues the whole name of a document."""
    missing: str = ""


NOTHING_MEANT = Meant([], False)


class Siblings:
    """The siblings among the names of a source; none where strangers choose its names.

    `lost` are names of documents that are gone and had siblings. Names are looked up in sets on disk and never compared
    with each other, so that the time grows with the names alone."""

    def __init__(self, source: SourceSettings, names: Names, lost: Iterable[str] = ()) -> None:
        self._source, self._names = source, names
        self._lost = {key: uri for uri in lost for key in keys_of(uri)}

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._candidates if name in self)

    def __contains__(self, name: object) -> bool:
        meant = self.meant(str(name))
        return bool(meant.keys or meant.missing)

    def meant(self, name: str) -> Meant:
        """Return what a file may be meant for by its name. Where that continues a whole name, no other is meant."""
        if name not in self._candidates:
            return NOTHING_MEANT
        prefixes = list(_prefixes(name))
        whole = [key for prefix in prefixes if (key := _key(name, prefix)) in self._keys]
        stems = [] if whole or _is_parsed(name) else [_key(name, prefix, stem=True) for prefix in prefixes]
        keys = whole or [key for key in stems if key in self._keys]
        own = name.endswith(SIDE_CAR) and not hidden(name)
        return Meant(keys, bool(whole), self._missing(name, prefixes) if own or not keys else "")

    def _missing(self, name: str, prefixes: Iterable[str]) -> str:
        """Return the document that is not there and whose name is continued: by a side-car, by what continues the name
        of a kind of document, or of one that is known to be gone."""
        if name.endswith(SIDE_CAR) and not hidden(name):
            found = name.removesuffix(SIDE_CAR)
            return found if taken(found, self._source) or not _is_parsed(found) else ""
        keys = (key for prefix in prefixes for key in (_key(name, prefix), _key(name, prefix, stem=True)))
        found = next((self._lost[key] for key in keys if key in self._lost), "") or _inner_name(name)
        return "" if _is_parsed(name) or found in self._names or not taken(found, self._source) else found

    @cached_property
    def _candidates(self) -> TextSet:
        strangers = named_by_strangers(self._source.scheme)
        return TextSet(() if strangers else filter(self._is_candidate, self._names))

    @cached_property
    def _keys(self) -> TextSet:
        return TextSet(key for uri in self._names if self._is_document(uri) for key in keys_of(uri))

    def _is_candidate(self, uri: str) -> bool:
        """Return whether a file may be a sibling. A side-car of a file is none, and one that is described is a document
        of its own."""
        if is_file(uri) or uri.endswith(ELEMENTS_SUFFIX):
            return False
        if uri.endswith(SIDE_CAR):
            return hidden(uri) or uri.removesuffix(SIDE_CAR) not in self._names
        if not _is_parsed(uri) or hidden(uri):
            return True
        return bool(_inner_name(uri)) and uri + SIDE_CAR not in self._names

    def _is_document(self, uri: str) -> bool:
        return _is_parsed(uri) and not hidden(uri) and not is_file(uri) and taken(uri, self._source)


def keys_of(uri: str) -> tuple[str, str]:
    """Return what a document is known by to its siblings: its name, and its name without the ending."""
    name = PurePosixPath(uri).name
    return _key(uri, _folded(name)), _key(uri, _folded(PurePosixPath(name).stem), stem=True)


def _key(uri: str, name: str, stem: bool = False) -> str:
    return f"{uri.rpartition('/')[0]}{'//' if stem else '/'}{name}"


def _is_parsed(uri: str) -> bool:
    return media_type_of(Path(uri)) is not None


def _prefixes(uri: str) -> Iterator[str]:
    """Yield what a name continues with a sign that is no letter or digit, the longest first."""
    name = _folded(uri.rpartition("/")[2])
    return (name[:at] for at in range(len(name) - 1, 0, -1) if _is_sign(name[at]))


def _inner_name(uri: str) -> str:
    """Return the longest beginning of a name that is the name of a kind of document, "" where there is none."""
    folder, slash, name = uri.rpartition("/")
    begin = next((at for at, char in enumerate(name) if not _is_sign(char)), 0)
    for dot in range(len(name) - 1, begin, -1):
        if name[dot] == ".":
            end = next((at for at in range(dot + 1, len(name)) if _is_sign(name[at])), len(name))
            if end < len(name) and name[dot:end].lower() in MEDIA_TYPES:
                return f"{folder}{slash}{name[begin:end]}"
    return ""


def _is_sign(char: str) -> bool:
    """Return whether a character is no letter or digit; marks that stand on a letter belong to it."""
    return not char.isalnum() and not unicodedata.category(char).startswith("M")


def _folded(name: str) -> str:
    """Return a name as people read it: `_` and `.` before it say nothing, nor do capital letters."""
    plain = name.lower() if name.isascii() else _plain(name)
    begin = next((at for at, char in enumerate(plain) if not _is_sign(char)), 0)
    return plain[begin:]


def _plain(name: str) -> str:
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
