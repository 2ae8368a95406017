"""The form of a table in Parquet: immutable files, named by their content, with the states of documents in the footer.

The footer has the state of every document in the file, also of those without rows: columns, compressed, in base64,
since a footer is text and JSON took longer to read than the rows. Older files have JSON; both are read.

A file does not count until the manifest names it. It is read only if its bytes match its name; a damaged file is
treated as missing. A table without documents has a name but no file.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from pipelines.errors import DamagedFile, IndexStateError
from pipelines.increments import DocumentState
from pipelines.ranges import ALL_IDS
from pipelines.schemas import schema_of
from pipelines.stages import STAGE_OF_TABLE
from resources.engine.files import Files, Harmed, LocalFiles

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ranges import Range

    Documents: TypeAlias = Mapping[str, DocumentState] | pa.Table


# ---------------------------------------------------------------- document states


DOC_ID = "doc_id"


@cache
def states_schema() -> pa.Schema:
    """Return the schema: doc_id, then the fields of DocumentState."""
    import pyarrow as pa

    return pa.schema([pa.field(DOC_ID, pa.string()), *schema_of(DocumentState)])


def states_table(documents: Mapping[str, DocumentState]) -> pa.Table:
    """Return the states as a table in order of doc_id."""
    import pyarrow as pa

    names = sorted(documents)
    states = [documents[name] for name in names]
    columns = [list(map(attrgetter(field.name), states)) for field in fields(DocumentState)]
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in (names, *columns)], schema=states_schema())


def pack_states(states: pa.Table) -> bytes:
    """Return the states in the form stored in a footer."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, states_schema(), options=options) as stream:
        stream.write_table(states.combine_chunks())
    return b64encode(sink.getvalue())


def unpack_states(data: bytes) -> pa.Table:
    import pyarrow as pa

    options = pa.ipc.IpcReadOptions(use_threads=False)  # waking threads takes longer than these few columns
    with pa.ipc.open_stream(b64decode(data), options=options) as stream:
        return stream.read_all()


def table_of_json(documents: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """Return the states of an older version's footer, which are JSON."""
    return states_table({doc_id: DocumentState(**state) for doc_id, state in documents.items()})


def as_states(states: pa.Table) -> dict[str, DocumentState]:
    """Return the states by doc_id."""
    names, *columns = (states[field.name].to_pylist() for field in states_schema())
    return dict(zip(names, map(DocumentState, *columns), strict=True))


# ---------------------------------------------------------------- tables


FOOTER, STATES = b"pincite", b"pincite.documents"
ROW_GROUP = 8192
"""Rows of a row group: the most that a reader of one piece at a time holds."""
EMPTY = "empty"
"""The last part of the name of a table without documents, which has no file."""
PEEKED = 64 << 20
"""Bytes of peeked columns of remote files that are kept in memory, so that they are not fetched again."""
KEPT_FILES, KEPT_BYTES = 512, 64 << 10
"""Files whose states are kept in memory, and the most bytes of these of each: every stage reads the states of all its
inputs, and opening a small file takes longer than what is in it."""


_DIVIDED = re.compile(r"/([0-9a-f]{8})-([0-9a-f]{8}|g)-")


def range_of(name: str) -> Range | None:
    """Return the range of the documents in a file; return None if its name has no range, or the table is not
    divided."""
    found = _DIVIDED.search(name)
    return (found[1], found[2]) if found else None


def is_empty(name: str) -> bool:
    """Say whether a name stands for a table without documents, which has no file."""
    return name.endswith(f"/{EMPTY}")


@cache
def _no_rows(table: str) -> pa.Table:
    return schema_of(STAGE_OF_TABLE[table].tables[table]).empty_table()


class ParquetTables:
    """All tables under one root: a folder of this machine, or remote files."""

    def __init__(self, root: str | Files) -> None:
        self.files_kept = LocalFiles(root) if isinstance(root, str) else root
        self._peeked: OrderedDict[tuple[str, ...], tuple[str, pa.Table]] = OrderedDict()
        self._states: dict[str, pa.Table] = {}
        self.damaged: dict[str, None] = {}
        """Files found damaged by this process, in the order in which they were found."""

    @property
    def place_text(self) -> str:
        """The place of the tables, as text for people."""
        return self.files_kept.shown

    @property
    def local(self) -> bool:
        """True if the files themselves are on this machine."""
        return isinstance(self.files_kept, LocalFiles)

    def path(self, table: str, key: str, ends: Range, content: str) -> str:
        part = "all" if ends == ALL_IDS else "-".join(ends)
        return f"{table}/{key}/{part}-{content}.parquet"

    def place(self, name: str) -> str:
        """Return the path of a file, or of its local copy, for other readers."""
        with self._naming_file(name):
            return str(self.files_kept.place(name))

    def write(self, table: str, key: str, ends: Range, rows: pa.Table, documents: Documents, note: str = "") -> str:
        """Write the rows of a range of documents, with their states. Return the file's name under the root.

        `note` is kept in the footer (the model of a table of vectors). The file appears whole or not at all. If there
        are no rows and no documents, only the name is made."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not rows.num_rows and not len(documents):
            return f"{table}/{key}/{EMPTY}"
        states = documents if isinstance(documents, pa.Table) else states_table(documents)
        footer = json.dumps({"table": table, "key": key, "first": ends[0], "after": ends[1], "note": note})
        sink, rows = pa.BufferOutputStream(), rows.replace_schema_metadata(None)
        dictionary = [field.name for field in rows.schema if field.type == pa.string()]
        with pq.ParquetWriter(
            sink, rows.schema, compression=_codecs(rows.schema), use_dictionary=dictionary, write_statistics=False
        ) as writer:
            writer.write_table(rows, row_group_size=ROW_GROUP)
            writer.add_key_value_metadata({FOOTER: footer, STATES: pack_states(states)})
        data = sink.getvalue()
        content = hashlib.blake2b(data, digest_size=16).hexdigest()
        name = self.path(table, key, ends, content)
        self.files_kept.put(name, data)
        self.damaged.pop(name, None)
        return name

    def _open(self, name: str) -> Any:
        """Open a file for reading. Its bytes are hashed at the first reading, and again if the file was replaced.

        Raise DamagedFile; IndexStateError (`missing_file`)."""
        import pyarrow.parquet as pq

        with self._naming_file(name):
            return pq.ParquetFile(self.files_kept.open(name))

    def require_intact(self, name: str) -> None:
        """Check the bytes of a file that is not read. Raise DamagedFile; IndexStateError (`missing_file`)."""
        if not is_empty(name):
            with self._naming_file(name):
                self.files_kept.check(name)

    @contextmanager
    def _naming_file(self, name: str) -> Iterator[None]:
        if name in self.damaged:
            raise self._damage(name)
        try:
            yield
        except FileNotFoundError:
            raise IndexStateError(
                f"the state is damaged: {name} is in the manifest but not under {self.place_text}; "
                "run `pincite index` again, or restore the file",
                "missing_file",
            ) from None
        except Harmed:
            raise self._damage(name) from None

    def _damage(self, name: str) -> DamagedFile:
        self.damaged[name] = None
        return DamagedFile(
            f"{name} under {self.place_text} is damaged: its bytes are not those that it was written with. Restore it "
            "from a backup, or delete it; then run `pincite index`, which makes it again"
        )

    def peek(self, name: str, columns: Sequence[str]) -> tuple[str, pa.Table] | None:
        """Return the note of a file and some columns without checking the rest; None if they cannot be read. They may
        be trusted only if `read` accepts the file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        key = (name, *columns)
        if key in self._peeked:
            self._peeked.move_to_end(key)
            return self._peeked[key]
        try:
            with self.files_kept.glance(name) as stream:
                file = pq.ParquetFile(stream)
                found = str(json.loads(file.metadata.metadata[FOOTER])["note"]), file.read(columns=list(columns))
        except (Harmed, pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError):
            return None
        if not self.local:
            self._peeked[key] = found
            while len(self._peeked) > 1 and sum(table.nbytes for _, table in self._peeked.values()) > PEEKED:
                self._peeked.popitem(last=False)
        return found

    def read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        if is_empty(name):
            rows = _no_rows(name.partition("/")[0])
            return rows.select(list(columns)) if columns else rows
        return self._open(name).read(columns=list(columns) if columns else None)

    def pieces(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of `read` in pieces."""
        if is_empty(name):
            yield self.read(name, columns)
            return
        file = self._open(name)
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=list(columns) if columns else None)

    def documents(self, name: str) -> dict[str, DocumentState]:
        """Return the state of every document of a file."""
        return as_states(self.states(name))

    def states(self, name: str) -> pa.Table:
        """Return the states as a table: doc_id and the fields of DocumentState, in order of doc_id."""
        if is_empty(name):
            return states_schema().empty_table()
        if (known := self._states.get(name)) is not None:
            self.require_intact(name)
            return known
        footer = self._open(name).metadata.metadata
        packed = footer.get(STATES)
        found = unpack_states(packed) if packed else table_of_json(json.loads(footer[FOOTER])["documents"])
        if found.nbytes <= KEPT_BYTES:
            if len(self._states) >= KEPT_FILES:
                self._states.clear()
            self._states[name] = found
        return found

    def note(self, name: str) -> str:
        """Return the note of a file, or "" if there are no documents."""
        return "" if is_empty(name) else str(json.loads(self._open(name).metadata.metadata[FOOTER])["note"])

    def exists(self, name: str) -> bool:
        """Say whether the file exists and is not known to be damaged. This is always true for a table without
        documents, and for rows in Postgres, whose name is empty."""
        return not name or is_empty(name) or (name not in self.damaged and self.files_kept.exists(name))

    def survey(self) -> None:
        """Prepare for calls of `exists` for most files by listing them all at once."""
        self.files_kept.survey()

    def rows(self, name: str) -> int:
        """Return how many rows a file has."""
        return 0 if is_empty(name) else int(self._open(name).metadata.num_rows)

    def intact(self, name: str) -> bool:
        """Say whether a file exists and its bytes match its name; all of them are read. A table without documents is
        always intact."""
        return is_empty(name) or self.files_kept.intact(name)

    def mark_damaged(self, names: Collection[str]) -> None:
        """Read these files to find the damaged ones."""
        for name in names:
            if self.exists(name) and not self.intact(name):
                self.damaged[name] = None

    def files(self, table: str = "") -> list[str]:
        """Return the names of all files of a table ("" for all tables) that pincite wrote, the newest first."""
        return [name for name, _ in self.files_kept.list_own(table) if name.endswith(".parquet")]

    def sizes(self) -> dict[str, int]:
        """Return the bytes of all files under the root by name, unfinished ones too."""
        return dict(self.files_kept.list_files(""))

    def delete(self, names: Collection[str]) -> None:
        self.files_kept.delete(names)


def _codecs(schema: pa.Schema) -> str | dict[str, str]:
    """Return zstd for all columns except vectors: it makes those less than a twelfth smaller, and twice as slow to
    read."""
    import pyarrow as pa

    vectors = [field.name for field in schema if pa.types.is_list(field.type) and field.type.value_type == pa.float32()]
    if not vectors:
        return "zstd"
    return {**dict.fromkeys(schema.names, "zstd"), **{f"{name}.list.element": "none" for name in vectors}}
