"""The documents of a listing, stored on disk and read by ranges of ids, so that only some are in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.records import RawDocument
from pipelines.schemas import from_table, schema_of
from resources.sources.sorted_spool import AT_ONCE, SortedSpool

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ranges import Range

_NAMES = tuple(field.name for field in fields(RawDocument))
_NONE = "{}"
_LISTS = ("groups", "source_groups")
NAMED = ("doc_id", "source", "content_hash", "size")


class DocumentsById(Protocol):
    """The documents of a listing, wherever they are stored."""

    def documents_between(self, first: str, after: str) -> pa.Table:
        """Return the documents whose ids are from `first` to before `after`, as rows of RawDocument in order of
        ids."""

    def sources(self) -> Collection[str]:
        """Return the names of their sources."""


class ListedDocuments:
    """The listed documents of a source, added in any order, and the groups of documents that could not be read."""

    def __init__(self, documents: Iterable[RawDocument] = ()) -> None:
        self._scratch, self._waiting = SortedSpool("listed"), list[tuple[Any, ...]]()
        self._sources = set[str]()
        for raw in documents:
            self.add(raw)

    def add(self, raw: RawDocument) -> None:
        values = [getattr(raw, name) for name in _NAMES[:-3]]
        metadata = json.dumps(raw.metadata) if raw.metadata else _NONE
        self._sources.add(raw.source)
        self._waiting.append((*values, _groups_json(raw.groups), _groups_json(raw.source_groups), metadata))
        if len(self._waiting) >= AT_ONCE:
            self._settle()

    def restrict(self, doc_id: str, groups: Sequence[str] | None) -> None:
        """Record the groups of a document that is not listed, if it names any."""
        if groups:
            self._settle().write("restrict", [(doc_id, _groups_json(tuple(groups)))])

    def drop(self, doc_ids: Iterable[str]) -> None:
        """Remove documents from the listing, but keep their groups."""
        self._settle().write("unlist", ((doc_id,) for doc_id in doc_ids))

    def _settle(self) -> SortedSpool:
        if self._waiting:
            self._scratch.write("list", self._waiting)
            self._waiting = []
        return self._scratch

    # ------------------------------------------------------------ reading

    def __len__(self) -> int:
        return int(self._settle().run("count_listed")[0][0])

    def __iter__(self) -> Iterator[RawDocument]:
        """Return the documents ordered by source and uri."""
        return map(_record, self._settle().each("listed_by_place"))

    def sources(self) -> Collection[str]:
        return self._sources

    def groups_of(self, doc_id: str) -> tuple[str, ...] | None:
        """Return the groups of a document, listed or not, or None if they are unknown."""
        found = self._settle().run("groups", doc_id)
        return _tuple(found[0][0]) if found else None

    def documents_between(self, first: str, after: str) -> pa.Table:
        rows = self._settle().run("listed_between", first, after)
        return _as_table(dict(zip(_NAMES, zip(*rows, strict=True), strict=True)) if rows else {})

    def records_between(self, first: str, after: str) -> list[RawDocument]:
        """Return the same documents as records."""
        return list(map(_record, self._settle().run("listed_between", first, after)))

    def names(self, first: str, after: str) -> pa.Table:
        """Return the columns NAMED of the documents whose ids are from `first` to before `after`."""
        import pyarrow as pa

        rows = self._settle().run("names_between", first, after)
        columns = zip(*rows, strict=True) if rows else ((),) * len(NAMED)
        types = (schema_of(RawDocument).field(name).type for name in NAMED)
        return pa.table(list(map(pa.array, columns, types)), list(NAMED))


@dataclass(frozen=True, slots=True)
class AllListed:
    """The documents of several sources."""

    parts: Sequence[ListedDocuments] = ()

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[RawDocument]:
        for part in self.parts:
            yield from part

    def sources(self) -> Collection[str]:
        return {name for part in self.parts for name in part.sources()}

    def drop(self, doc_ids: Collection[str]) -> None:
        for part in self.parts if doc_ids else ():
            part.drop(doc_ids)

    def get(self, doc_id: str) -> tuple[str, ...] | None:
        """Return the groups that a document names, or None if it is not known to name any."""
        return next((groups for part in self.parts if (groups := part.groups_of(doc_id))), None)

    def documents_between(self, first: str, after: str) -> pa.Table:
        return _in_order([part.documents_between(first, after) for part in self.parts] or [_as_table({})])

    def records_between(self, first: str, after: str) -> list[RawDocument]:
        """Return the same documents as records."""
        found = [raw for part in self.parts for raw in part.records_between(first, after)]
        return sorted(found, key=attrgetter("doc_id")) if len(self.parts) > 1 else found

    def names(self, first: str, after: str) -> pa.Table:
        """Return the columns NAMED of the documents whose ids are from `first` to before `after`."""
        return _in_order([part.names(first, after) for part in self.parts] or [_as_table({}).select(NAMED)])


class OfRanges:
    """The documents of some ranges of ids."""

    def __init__(self, documents: AllListed, ranges: Collection[Range]) -> None:
        self._documents, self._ranges = documents, ranges

    def __len__(self) -> int:
        return sum(self._documents.names(*ends).num_rows for ends in self._ranges)

    def __iter__(self) -> Iterator[RawDocument]:
        for ends in self._ranges:
            yield from from_table(RawDocument, self._documents.documents_between(*ends))


def _in_order(parts: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return parts[0] if len(parts) == 1 else pa.concat_tables(parts).sort_by("doc_id")


def _as_table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    import pyarrow as pa

    schema = schema_of(RawDocument)
    if not columns:
        return schema.empty_table()
    read: dict[str, Sequence[Any]] = {name: [_tuple(text) for text in columns[name]] for name in _LISTS}
    read["metadata"] = [_pairs(text) for text in columns["metadata"]]
    return pa.table([pa.array(read.get(each.name, columns[each.name]), each.type) for each in schema], schema=schema)


def _record(row: Sequence[Any]) -> RawDocument:
    own, of_source, metadata = row[-3:]
    values: list[Any] = [*row[:-3], _tuple(own), _tuple(of_source), json.loads(metadata)]
    return RawDocument(*values)


@lru_cache(maxsize=1000)
def _groups_json(groups: tuple[str, ...] | None) -> str | None:
    return None if groups is None else json.dumps(groups)


@lru_cache(maxsize=1000)
def _tuple(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(json.loads(text))


def _pairs(text: str) -> list[tuple[str, str]]:
    return sorted(json.loads(text).items()) if text != _NONE else []
