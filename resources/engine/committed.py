"""The committed rows of tables, read by document, whatever files hold them.

A table is read as a whole, or in parts: neighbouring documents, few enough to be held. A stage reads its own earlier
files under any number of shards, too: those of another number hold the same documents in other groups, and are
planned, kept and committed like a shard's own file. So a state whose number of shards changes computes nothing again,
and if a run ends midway, the next one continues.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.fingerprint import bucket_of, combined, first_id, overlapping
from pipelines.fingerprint import shard_name as named
from pipelines.schemas import from_table, schema_of
from pipelines.stages import STAGE_OF_TABLE, UNPARTITIONED
from resources.engine.tables import DOC_ID, as_states

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from pipelines.increments import DocumentState
    from pipelines.records import Failure
    from resources.engine.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow


Commits = Mapping[str, Mapping[int, "ManifestRow"]]
"""Commits of files, by table and shard."""


# ---------------------------------------------------------------- parts and tables


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring documents of one bucket, few enough to be held, as they are committed in some tables. Their ids are
    from `first` to before `after`; parts are in order of `number`. A table that is not parted has one part, with the
    number UNPARTITIONED."""

    number: int
    bucket: int
    first: str
    after: str
    _files: ParquetTables
    _rows: Mapping[str, ManifestRow]

    @property
    def name(self) -> str:
        """The part's name for people."""
        return named(self.number)

    def has(self, table: str) -> bool:
        """Say whether the table was made for these documents."""
        return table in self._rows

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows of a table in order of documents. Raise DamagedFile."""
        return self._files.read(self._rows[table].file, columns)

    def pieces(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of `read`, some at a time."""
        return self._files.pieces(self._rows[table].file, columns)

    def records(self, table: str, doc_ids: Collection[str]) -> dict[str, list[Any]]:
        """Return the records of some documents by document, in table order."""
        return by_document(self.read(table), table, doc_ids)

    def states(self, table: str) -> dict[str, DocumentState]:
        """Return the state of every document in a table, also of documents without rows."""
        return self._files.documents(self._rows[table].file)

    def finished(self, table: str) -> dict[str, DocumentState]:
        """Return the documents that have a result, of this version or of their last good one, with their states."""
        return with_rows(self.states(table))

    def states_table(self, table: str) -> pa.Table:
        """Return the same states as rows: doc_id and the fields of DocumentState, in order of doc_id."""
        return self._files.states(self._rows[table].file)

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self._rows[table].rows

    def stored_rows(self, table: str) -> int:
        """Return the number of rows that the file of a table itself has. Raise DamagedFile."""
        return self._files.rows(self._rows[table].file)

    def documents(self, table: str) -> int:
        """Return the number of documents in a table, with those that have no rows."""
        return self._rows[table].documents

    def output(self, table: str) -> str:
        """Return the hash of the documents and rows of a table."""
        return self._rows[table].output

    def input(self, table: str) -> str:
        """Return the hash of the inputs that the rows of a table were made from."""
        return self._rows[table].input

    def same(self, other: Part, table: str) -> bool:
        """Say whether both have the same commit of a table."""
        rows = (self._rows.get(table), other._rows.get(table))
        return all(rows) and len({row.file for row in rows if row}) == 1

    def note(self, table: str) -> str:
        """Return what the stage noted with the rows of a table: the identity of an embedder, or a floor."""
        return self._files.note(self._rows[table].file)

    def origin(self, table: str) -> tuple[str, datetime | None]:
        """Return for people where the rows of a table lie, and when they were committed."""
        row = self._rows[table]
        return row.file, row.committed_at


class Table:
    """The committed rows of one table. Rows whose file is `lost` were never made."""

    def __init__(self, name: str, files: ParquetTables, rows: Mapping[int, ManifestRow], count: int = 1) -> None:
        """Take the commits by shard, of `count` shards."""
        self.name, self._files, self._count = name, files, count
        self._all = dict(sorted(rows.items()))
        self._rows = {shard: row for shard, row in self._all.items() if files.exists(row.file)}
        self.lost = tuple(row.file for shard, row in self._all.items() if shard not in self._rows)
        """Names of committed files that are gone or damaged, for people."""
        self.lost_parts = frozenset(self._all.keys() - self._rows.keys())
        """Numbers of the parts whose file is gone or damaged."""

    @property
    def made(self) -> bool:
        """True if anything of the table was made."""
        return bool(self._rows)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(row.rows for row in self._rows.values())

    @property
    def documents(self) -> int:
        """The number of documents, with those that have no rows."""
        return sum(row.documents for row in self._rows.values())

    @property
    def output(self) -> str:
        """The hash of the documents and rows."""
        return combined(row.output for row in self._rows.values())

    @property
    def note(self) -> str:
        """The note of the stage with a table that is not parted, "" if it was never made."""
        return self._files.note(self._rows[UNPARTITIONED].file) if UNPARTITIONED in self._rows else ""

    def unsound(self, note: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield the problems of committed files, as a code and a text: they must be intact, with the rows that they
        were committed with, and have this note if one is given."""
        for row in self._all.values():
            if not self._files.exists(row.file):
                yield "missing_file", row.file
            elif not self._files.intact(row.file):
                yield "damaged_file", row.file
            elif self._files.rows(row.file) != row.rows:
                yield "miscounted_file", row.file
            elif note is not None and row.documents and (found := self._files.note(row.file)) != note:
                yield "embedder", f"{row.file} has those of {found!r}"

    @property
    def files(self) -> list[str]:
        """Names that change with the rows, for keys of caches and for people."""
        return [row.file for row in self._rows.values()]

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows in order of documents, as many at a time as can be held."""
        for row in self._rows.values():
            yield from self._files.pieces(row.file, columns)

    def reads(self, columns: Sequence[str] | None = None, required: bool = False) -> Iterator[pa.Table]:
        """Yield the same rows, a whole part at a time. Raise IndexStateError for a part that is lost if all are
        `required`."""
        for row in (self._all if required else self._rows).values():
            yield self._files.read(row.file, columns)

    def between(self, first: str, after: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of the documents whose ids are from `first` to before `after`, in order of documents."""
        import pyarrow as pa

        found = []
        for shard in self._within(first, after):
            if (row := self._rows.get(shard)) is None:
                continue
            if first <= self._starts[shard] and self._starts[shard + 1] <= after:
                found.append(self._files.read(row.file, columns))
            else:
                found.append(StandingElsewhere(self._files, (row.file,), first, after).read(columns))
        if not found:
            nothing = schema_of(STAGE_OF_TABLE[self.name].tables[self.name]).empty_table()
            return nothing.select(list(columns)) if columns else nothing
        return pa.concat_tables([read.replace_schema_metadata(None) for read in found])

    def is_lost(self, doc_id: str) -> bool:
        """Say whether a document belongs to a part whose file is gone or damaged."""
        return bucket_of(doc_id, self._count) in self.lost_parts

    def holds(self, first: str, after: str) -> bool:
        """Say whether the table was made for all documents whose ids are from `first` to before `after`."""
        return all(shard in self._rows for shard in self._within(first, after))

    def _within(self, first: str, after: str) -> range:
        """Return the shards that may hold documents whose ids are from `first` to before `after`."""
        return range(max(bisect_right(self._starts, first) - 1, 0), bisect_left(self._starts, after))

    @cached_property
    def _starts(self) -> list[str]:
        """The first id of each shard, and the first id after all of them."""
        return [first_id(shard, self._count) for shard in range(self._count + 1)]

    def states(self) -> Iterator[tuple[str, DocumentState]]:
        """Yield every document with its state, also documents without rows."""
        for row in self._rows.values():
            yield from self._files.documents(row.file).items()

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        return [value for read in self.pieces([name]) for value in read[name].to_pylist()]

    def records(self) -> Iterator[Any]:
        """Yield the records in order of documents."""
        for piece in self.pieces():
            yield from from_table(STAGE_OF_TABLE[self.name].tables[self.name], piece)


def with_rows(states: Mapping[str, DocumentState]) -> dict[str, DocumentState]:
    """Return the documents that have a result, of this version or of their last good one."""
    return {doc_id: state for doc_id, state in states.items() if state.output}


def rows_of(rows: pa.Table, doc_ids: Collection[str]) -> pa.Table:
    """Return the rows of some documents."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows["doc_id"], pa.array(sorted(doc_ids), pa.string())))


def by_document(read: pa.Table, table: str, doc_ids: Collection[str]) -> dict[str, list[Any]]:
    """Return the records of some documents of these rows by document, in table order."""
    rows: list[Any] = from_table(STAGE_OF_TABLE[table].tables[table], rows_of(read, doc_ids))
    grouped: dict[str, list[Any]] = {}
    for row in rows:
        grouped.setdefault(row.doc_id, []).append(row)
    return grouped


# ---------------------------------------------------------------- previous files


@dataclass(frozen=True, slots=True)
class Standing:
    """The committed file of one shard of one table."""

    tables: ParquetTables
    row: ManifestRow

    @property
    def input(self) -> str:
        """The hash of the shard's inputs when it was made."""
        return self.row.input

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self.tables.read(self.row.file, columns)

    def documents(self) -> dict[str, DocumentState]:
        return self.tables.documents(self.row.file)


@dataclass(frozen=True, slots=True)
class StandingElsewhere:
    """One shard of one table in files that were written under another number of shards. Its input hash is not known, so
    each document is compared on its own."""

    tables: ParquetTables
    files: tuple[str, ...]
    """Paths of the files, in order of their shards."""
    first: str
    after: str
    """Bounds of the shard's document ids: `first` is included, `after` is not."""

    input = ""

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        import pyarrow as pa

        wanted = None if columns is None else list(dict.fromkeys([DOC_ID, *columns]))
        parts = [self._own(self.tables.read(file, wanted)) for file in self.files]
        whole = pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
        return whole if columns is None else whole.select(list(columns))

    def documents(self) -> dict[str, DocumentState]:
        found: dict[str, DocumentState] = {}
        for file in self.files:
            found.update(as_states(self._own(self.tables.states(file))))
        return found

    def _own(self, rows: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        ids = rows[DOC_ID]
        return rows.filter(pc.and_(pc.greater_equal(ids, self.first), pc.less(ids, self.after)))


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a stage under another number of shards: its key, and its commits by table and shard."""

    shards: int
    key: str
    commits: Mapping[str, Mapping[int, ManifestRow]]

    @property
    def first(self) -> Mapping[int, ManifestRow]:
        """The commits of the stage's first table, by shard."""
        return next(iter(self.commits.values()))

    @property
    def whole(self) -> bool:
        return self.first.keys() in ({UNPARTITIONED}, set(range(self.shards)))

    @property
    def made(self) -> float:
        """When its newest file was committed, in seconds since the epoch."""
        return max(row.committed_at.timestamp() if row.committed_at else 0.0 for row in self.first.values())

    def part(self, tables: ParquetTables, table: str, shard: int, count: int) -> StandingElsewhere | None:
        """Return one of `count` shards as these files hold it, or None if a file of it is missing."""
        rows = [self.commits[table].get(other) for other in overlapping(shard, count, self.shards)]
        files = tuple(row.file for row in rows if row)
        if len(files) < len(rows):
            return None
        return StandingElsewhere(tables, files, first_id(shard, count), first_id(shard + 1, count))


@dataclass(frozen=True, slots=True)
class Previous:
    """The committed files of a stage, by table and shard, and the `failures` of documents in shards that have only
    files of another number of shards."""

    tables: Mapping[str, Mapping[int, Standing | StandingElsewhere]]
    failures: Sequence[Failure] = field(default=())

    def of(self, table: str, shard: int) -> Standing | StandingElsewhere | None:
        return self.tables[table].get(shard)

    @property
    def first(self) -> Mapping[int, Standing | StandingElsewhere]:
        """The files of the stage's first table, by shard."""
        return next(iter(self.tables.values()))

    def moved(self, doc_ids: Collection[str]) -> list[Failure]:
        """Return the failures of these documents that were recorded under another number of shards."""
        return [failure for failure in self.failures if failure.doc_id in doc_ids]


def previous(
    tables: ParquetTables,
    own: Mapping[str, Mapping[int, ManifestRow]],
    layout: Layout | None,
    count: int,
    failures: Sequence[Failure],
) -> Previous:
    """Return the files of a stage in `count` shards. Shards without an own file are taken from `layout`, with its
    `failures`."""
    found: dict[str, dict[int, Standing | StandingElsewhere]] = {
        table: {shard: Standing(tables, row) for shard, row in rows.items()} for table, rows in own.items()
    }
    if layout is None:
        return Previous(found)
    lacking = set(range(count)) - next(iter(own.values())).keys()
    for table, standing in found.items():
        parts = {shard: layout.part(tables, table, shard, count) for shard in sorted(lacking)}
        standing.update({shard: part for shard, part in parts.items() if part})
    return Previous(found, [failure for failure in failures if bucket_of(failure.doc_id, count) in lacking])


def committed(table: str, shard: int, commits: Mapping[int, ManifestRow]) -> ManifestRow:
    """Return the commit of a shard. Raise IndexStateError (`missing_input`) if it was never made."""
    if shard not in commits:
        part = table if shard == UNPARTITIONED else f"{named(shard)} of {table}"
        raise IndexStateError(
            f"{part} has not been made with these settings; materialise {STAGE_OF_TABLE[table].name} first",
            "missing_input",
        )
    return commits[shard]
