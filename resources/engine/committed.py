"""The committed rows of tables, read by document, regardless of the files that contain them.

A commit covers a range of document ids. A table is read as a whole, or in parts: neighbouring documents that fit in
memory. The ranges of commits may differ from those of parts: a stage reads the rows of its current documents from all
files that contain some of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.fingerprint import combine
from pipelines.ranges import Range, buckets_over
from pipelines.schemas import from_table, schema_of
from pipelines.stages import STAGE_OF_TABLE
from resources.engine.tables import DOC_ID, as_states, states_schema
from resources.postgres.catalog import UNCOUNTED

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from pipelines.increments import DocumentState
    from resources.engine.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow


# ---------------------------------------------------------------- commits of one table


class Commits:
    """Commits of one table under one key, in order of their ranges, which do not overlap."""

    def __init__(self, rows: Iterable[ManifestRow] = ()) -> None:
        self.rows = list(rows)
        self._firsts = [row.first for row in self.rows]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def commits_over(self, ends: Range) -> list[ManifestRow]:
        """Return the commits that have documents of a range."""
        start, end = bisect_right(self._firsts, ends[0]), bisect_left(self._firsts, ends[1])
        before = self.rows[start - 1 : start] if start and self.rows[start - 1].after > ends[0] else []
        return [*before, *self.rows[start:end]]

    def cut_to(self, ends: Range) -> tuple[ManifestRow, ...]:
        """Return the commits of a range; a commit that reaches beyond it is cut."""
        return tuple(row.part(ends) for row in self.commits_over(ends))

    def cover(self, ends: Range) -> bool:
        """Say whether all documents of a range are committed."""
        at = ends[0]
        for row in self.commits_over(ends):
            if row.first > at:
                return False
            at = row.after
        return at >= ends[1]


class StoredRows:
    """The rows of some commits of a table, and the states of their documents, in order of documents."""

    def __init__(self, files: ParquetTables, table: str, commits: Sequence[ManifestRow]) -> None:
        self._files, self._table, self.commits = files, table, commits

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows. Raise DamagedFile."""
        import pyarrow as pa

        found = [read for row in self.commits for read in [self._read(row, columns)] if read.num_rows]
        if len(found) == 1:
            return found[0]
        if not found:
            nothing = schema_of(STAGE_OF_TABLE[self._table].tables[self._table]).empty_table()
            return nothing.select(list(columns)) if columns else nothing
        return pa.concat_tables([read.replace_schema_metadata(None) for read in found])

    def reads(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of `read`, one commit at a time."""
        for row in self.commits:
            yield self._read(row, columns)

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of `read` in pieces that fit in memory."""
        for row in self.commits:
            for piece in self._files.pieces(row.file, _with_ids(row, columns)):
                yield _rows_of_commit(row, piece, columns)

    def require_intact(self) -> None:
        """Check the bytes of the files. Raise DamagedFile."""
        for row in self.commits:
            self._files.require_intact(row.file)

    def _read(self, row: ManifestRow, columns: Sequence[str] | None) -> pa.Table:
        return _rows_of_commit(row, self._files.read(row.file, _with_ids(row, columns)), columns)

    def states_table(self) -> pa.Table:
        """Return the states as rows: doc_id and the fields of DocumentState, in order of doc_id."""
        import pyarrow as pa

        found = [_rows_of_commit(row, self._files.states(row.file), None) for row in self.commits]
        return found[0] if len(found) == 1 else pa.concat_tables(found) if found else states_schema().empty_table()

    def states(self) -> dict[str, DocumentState]:
        """Return the state of every document, also of documents without rows."""
        return as_states(self.states_table())

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self._read(row, [DOC_ID]).num_rows if row.rows == UNCOUNTED else row.rows for row in self.commits)

    @property
    def documents(self) -> int:
        """The number of documents, with those that have no rows."""
        return sum(
            _rows_of_commit(row, self._files.states(row.file), None).num_rows
            if row.documents == UNCOUNTED
            else row.documents
            for row in self.commits
        )

    @property
    def stored_count(self) -> int:
        """The number of rows in the files themselves. Raise DamagedFile."""
        return sum(
            self._files.rows(row.file) if row.whole else self._read(row, [DOC_ID]).num_rows for row in self.commits
        )

    @property
    def note(self) -> str:
        """The note that the stage stored with the rows, or "" if there are no documents."""
        return next((note for row in self.commits if (note := self._files.note(row.file))), "")


def _with_ids(row: ManifestRow, columns: Sequence[str] | None) -> Sequence[str] | None:
    return columns if row.whole or not columns else list(dict.fromkeys([DOC_ID, *columns]))


def _rows_of_commit(row: ManifestRow, read: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    """Return the rows that belong to a commit, from the rows of its file."""
    if row.whole:
        return read
    import pyarrow.compute as pc

    ids = read[DOC_ID]
    own = read.filter(pc.and_(pc.greater_equal(ids, row.first), pc.less(ids, row.after)))
    return own.select(list(columns)) if columns else own


# ---------------------------------------------------------------- parts and tables


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring documents of one bucket that fit in memory, with their committed rows in some tables. Their ids are
    from `first` to before `after`. A table that is not parted has one part, of all ids."""

    bucket: int
    first: str
    after: str
    _rows: Mapping[str, StoredRows]

    @property
    def range(self) -> Range:
        return self.first, self.after

    @property
    def name(self) -> str:
        """The part's name for people."""
        return f"bucket {self.bucket:02d} from {self.first}"

    def has(self, table: str) -> bool:
        """Say whether the table was made for these documents."""
        return table in self._rows

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows of a table in order of documents. Raise DamagedFile."""
        return self._rows[table].read(columns)

    def require_intact(self, table: str) -> None:
        """Check the files of a table as `read` does, without reading their rows. Raise DamagedFile."""
        self._rows[table].require_intact()

    def pieces(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of `read` in pieces."""
        return self._rows[table].pieces(columns)

    def records(self, table: str, doc_ids: Collection[str]) -> dict[str, list[Any]]:
        """Return the records of some documents by document, in table order."""
        return by_document(self.read(table), table, doc_ids)

    def states(self, table: str) -> dict[str, DocumentState]:
        """Return the state of every document in a table, also of documents without rows."""
        return self._rows[table].states()

    def finished_documents(self, table: str) -> dict[str, DocumentState]:
        """Return the documents that have a result, of this version or of their last good one, with their states."""
        return with_rows(self.states(table))

    def states_table(self, table: str) -> pa.Table:
        """Return the same states as rows: doc_id and the fields of DocumentState, in order of doc_id."""
        return self._rows[table].states_table()

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self._rows[table].rows

    def stored_rows(self, table: str) -> int:
        """Return the number of rows in the files of a table. Raise DamagedFile."""
        return self._rows[table].stored_count

    def documents(self, table: str) -> int:
        """Return the number of documents in a table, with those that have no rows."""
        return self._rows[table].documents

    def output(self, table: str) -> str:
        """Return the hash of the documents and rows of a table."""
        return output_of(self._rows[table].commits)

    def input(self, table: str) -> str:
        """Return the hash of the inputs that the rows of a table were made from; "" if these documents were not made
        together."""
        found = [row.input for row in self._rows[table].commits]
        return found[0] if len(found) == 1 else ""

    def has_own_file(self, table: str) -> bool:
        """Say whether a file of a table contains exactly these documents."""
        commits = self._rows[table].commits if table in self._rows else ()
        return len(commits) == 1 and commits[0].whole

    def same(self, other: Part, table: str) -> bool:
        """Say whether both have the same commits of a table."""
        if not (self.has(table) and other.has(table)):
            return False
        own, others = ([(row.file, row.range) for row in part._rows[table].commits] for part in (self, other))
        return own == others

    def note(self, table: str) -> str:
        """Return the note that the stage stored with the rows of a table: the identity of an embedder, or a floor."""
        return self._rows[table].note

    def origin(self, table: str, doc_id: str) -> tuple[str, datetime | None]:
        """Return the file with the rows of a document, and the time of its commit, for people."""
        row = next(row for row in self._rows[table].commits if row.first <= doc_id < row.after)
        return row.file, row.committed_at


def output_of(commits: Sequence[ManifestRow]) -> str:
    """Return the hash of the documents and rows of some commits of a table."""
    return commits[0].output if len(commits) == 1 else combine(row.output for row in commits)


class Table:
    """The committed rows of one table. Rows in a `lost` file count as not made."""

    def __init__(self, name: str, files: ParquetTables, rows: Sequence[ManifestRow]) -> None:
        self.name, self._files, self._all = name, files, rows
        self._commits = Commits(row for row in rows if files.exists(row.file))
        self._stored = StoredRows(files, name, self._commits.rows)
        self._lost = Commits(row for row in rows if not files.exists(row.file))
        self.lost = tuple(dict.fromkeys(row.file for row in self._lost.rows))
        """Names of committed files that are gone or damaged, for people."""

    @property
    def is_made(self) -> bool:
        """True if anything of the table was made."""
        return bool(self._commits)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._stored.rows

    @property
    def documents(self) -> int:
        """The number of documents, with those that have no rows."""
        return self._stored.documents

    @property
    def output(self) -> str:
        """The hash of the documents and rows."""
        return combine(row.output for row in self._commits.rows)

    @property
    def note(self) -> str:
        """The note that the stage stored with the rows, or "" if the table was never made."""
        return self._stored.note

    def unsound(self, note: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield the problems of committed files, as a code and a text: a file is not intact, lacks committed rows, or
        has another note than the given one."""
        for row in {row.file: row for row in self._all}.values():
            if not self._files.exists(row.file):
                yield "missing_file", row.file
            elif not self._files.intact(row.file):
                yield "damaged_file", row.file
            elif row.whole and self._files.rows(row.file) != row.rows:
                yield "miscounted_file", row.file
            elif note is not None and row.documents and (found := self._files.note(row.file)) != note:
                yield "embedder", f"{row.file} has those of {found!r}"

    @property
    def files(self) -> list[str]:
        """Names that change with the rows, for cache keys and for people."""
        return [row.file for row in self._commits.rows]

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows in order of documents, in pieces that fit in memory."""
        return self._stored.pieces(columns)

    def reads(self, columns: Sequence[str] | None = None, required: bool = False) -> Iterator[pa.Table]:
        """Yield the same rows, one whole commit at a time. If all are `required`, raise IndexStateError for a commit
        whose file is lost."""
        return StoredRows(self._files, self.name, self._all if required else self._commits.rows).reads(columns)

    def rows_between(self, first: str, after: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of the documents whose ids are from `first` to before `after`, in order of documents."""
        return StoredRows(self._files, self.name, self._commits.cut_to((first, after))).read(columns)

    def is_lost(self, doc_id: str) -> bool:
        """Say whether the file with a document's rows is gone or damaged."""
        return bool(self._lost.commits_over((doc_id, f"{doc_id}0")))

    def lost_buckets(self, buckets: int) -> set[int]:
        """Return the buckets with a file that is missing or known to be damaged; there are `buckets` buckets."""
        return {bucket for row in self._lost.rows for bucket in buckets_over(row.range, buckets)}

    def holds(self, first: str, after: str) -> bool:
        """Say whether the table was made for all documents whose ids are from `first` to before `after`."""
        return self._commits.cover((first, after))

    def states(self) -> Iterator[tuple[str, DocumentState]]:
        """Yield every document with its state, also documents without rows."""
        for row in self._commits.rows:
            yield from StoredRows(self._files, self.name, [row]).states().items()

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
    """Return the records of some documents among these rows, by document, in table order."""
    rows: list[Any] = from_table(STAGE_OF_TABLE[table].tables[table], rows_of(read, doc_ids))
    grouped: dict[str, list[Any]] = {}
    for row in rows:
        grouped.setdefault(row.doc_id, []).append(row)
    return grouped


def require_commits(tables: Mapping[str, Commits], ends: Range, where: str) -> dict[str, tuple[ManifestRow, ...]]:
    """Return the commits of a range in each table. Raise IndexStateError (`missing_input`), with `where` in its
    message, if a table was not made for all these documents."""
    for table, commits in tables.items():
        if not commits.cover(ends):
            raise IndexStateError(
                f"{table} has not been made with these settings{where}; materialise {STAGE_OF_TABLE[table].name} first",
                "missing_input",
            )
    return {table: commits.cut_to(ends) for table, commits in tables.items()}
