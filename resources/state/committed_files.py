"""The committed files of a stage or table, read by shard under any number of shards.

Files that were written under another number of shards hold the same documents in other groups. They are planned, kept
and committed like a shard's own file, so a state whose number of shards changes computes nothing again. If a run ends
midway, the next one continues.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.errors import IndexStateError
from pipelines.fingerprint import bucket_of, first_id, overlapping
from pipelines.fingerprint import shard_name as named
from pipelines.stages import MAKER, WHOLE
from resources.parquet.tables import DOC_ID, as_states

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.increments import DocumentState
    from pipelines.records import Failure
    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow


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
        return self.first.keys() in ({WHOLE}, set(range(self.shards)))

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


def committed(table: str, shard: int, commits: dict[int, ManifestRow]) -> ManifestRow:
    """Return the commit of a shard. Raise IndexStateError (`missing_input`) if it was never made."""
    if shard not in commits:
        part = table if shard == WHOLE else f"{named(shard)} of {table}"
        raise IndexStateError(
            f"{part} has not been made with these settings; materialise {MAKER[table].name} first", "missing_input"
        )
    return commits[shard]
