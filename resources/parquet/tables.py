"""Tables as Parquet: one immutable file a shard, named by its content, with document states in its footer.

The footer has the state of every document in the file, also of those without rows: columns, compressed, in base64,
since a footer is text and JSON took longer to read than the rows. Older files have JSON; both are read.

A file does not count until the manifest names it. It is read only if its bytes match its name; a damaged file is
treated as missing.
"""

from __future__ import annotations

import hashlib
import json
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
from pipelines.schemas import schema_of
from resources.parquet.files import Files, Harmed, LocalFiles

if TYPE_CHECKING:
    import pyarrow as pa

    Documents: TypeAlias = Mapping[str, DocumentState] | pa.Table


# ---------------------------------------------------------------- document states
#
# The states of a file's documents as its footer carries them: columns, compressed, in base64.
#
# A footer may be text only, and one in JSON took longer to read than the rows. Files of older versions have their
# states as JSON; both are read.


DOC_ID = "doc_id"


@cache
def states_schema() -> pa.Schema:
    """doc_id, then the fields of DocumentState."""
    import pyarrow as pa

    return pa.schema([pa.field(DOC_ID, pa.string()), *schema_of(DocumentState)])


def states_table(documents: Mapping[str, DocumentState]) -> pa.Table:
    """In order of their ids."""
    import pyarrow as pa

    names = sorted(documents)
    states = [documents[name] for name in names]
    columns = [list(map(attrgetter(field.name), states)) for field in fields(DocumentState)]
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in (names, *columns)], schema=states_schema())


def packed(states: pa.Table) -> bytes:
    """What a footer carries of these states."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, states_schema(), options=options) as stream:
        stream.write_table(states.combine_chunks())
    return b64encode(sink.getvalue())


def unpacked(data: bytes) -> pa.Table:
    import pyarrow as pa

    with pa.ipc.open_stream(b64decode(data)) as stream:
        return stream.read_all()


def table_of_json(documents: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """The same of a footer of an older version."""
    return states_table({doc_id: DocumentState(**state) for doc_id, state in documents.items()})


def as_states(states: pa.Table) -> dict[str, DocumentState]:
    """doc_id to state."""
    names, *columns = (states[field.name].to_pylist() for field in states_schema())
    return dict(zip(names, map(DocumentState, *columns), strict=True))


# ---------------------------------------------------------------- tables
#
# Tables as Parquet: one immutable, content-named file for a shard under a key.
#
# A file carries, in its footer, the state of every document in it, those without rows included, so
# that it says by itself what it was made from. It does not count until the manifest names it. A file is
# read only where its bytes are those that it is named after; one that is damaged is as good as gone.


FOOTER, STATES = b"pincite", b"pincite.documents"
ROW_GROUP = 8192
"""Rows that are read at a time by who reads a file piece by piece."""
PEEKED = 64 << 20
"""Bytes of what was peeked at in files that are elsewhere, which is not asked for again."""


class ParquetTables:
    """All tables under one root: a folder of this machine, or files that are elsewhere."""

    def __init__(self, root: str | Files) -> None:
        self.files_kept = LocalFiles(root) if isinstance(root, str) else root
        self._peeked: OrderedDict[tuple[str, ...], tuple[str, pa.Table]] = OrderedDict()
        self.damaged: dict[str, None] = {}
        """Files found damaged by this process, in the order in which they were found."""

    @property
    def shown(self) -> str:
        """Where they are, for people."""
        return self.files_kept.shown

    @property
    def local(self) -> bool:
        """Whether their files lie on this machine as they are."""
        return isinstance(self.files_kept, LocalFiles)

    def path(self, table: str, key: str, shard: int, content: str) -> str:
        part = "all" if shard < 0 else f"{shard:02d}"
        return f"{table}/{key}/{part}-{content}.parquet"

    def place(self, name: str) -> str:
        """The path of a file, for those who read it by themselves; of a copy where it is elsewhere."""
        with self._told(name):
            return str(self.files_kept.place(name))

    def write(self, table: str, key: str, shard: int, rows: pa.Table, documents: Documents, note: str = "") -> str:
        """Writes rows with their documents' states; returns the file's name under the root.

        `note` is kept in the footer (the model of a table of vectors). The file appears whole or not at all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        states = documents if isinstance(documents, pa.Table) else states_table(documents)
        footer = json.dumps({"table": table, "key": key, "bucket": shard, "note": note})
        sink, rows = pa.BufferOutputStream(), rows.replace_schema_metadata(None)
        dictionary = [field.name for field in rows.schema if field.type == pa.string()]
        with pq.ParquetWriter(
            sink, rows.schema, compression=_codecs(rows.schema), use_dictionary=dictionary, write_statistics=False
        ) as writer:
            writer.write_table(rows, row_group_size=ROW_GROUP)
            writer.add_key_value_metadata({FOOTER: footer, STATES: packed(states)})
        data = sink.getvalue()
        content = hashlib.blake2b(data, digest_size=16).hexdigest()
        name = self.path(table, key, shard, content)
        self.files_kept.put(name, data)
        self.damaged.pop(name, None)
        return name

    def _open(self, name: str) -> Any:
        """A file for reading. Its bytes are hashed when it is first read, and again where it is another by then.

        Raises DamagedFile; IndexStateError (`missing_file`)."""
        import pyarrow.parquet as pq

        with self._told(name):
            return pq.ParquetFile(self.files_kept.open(name))

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        if name in self.damaged:
            raise self._harmed(name)
        try:
            yield
        except FileNotFoundError:
            raise IndexStateError(
                f"the state is damaged: {name} is in the manifest but not under {self.shown}; "
                "run `pincite index` again, or restore the file",
                "missing_file",
            ) from None
        except Harmed:
            raise self._harmed(name) from None

    def _harmed(self, name: str) -> DamagedFile:
        self.damaged[name] = None
        return DamagedFile(
            f"{name} under {self.shown} is damaged: its bytes are not those that it was written with. Restore it from "
            "a backup, or delete it; then run `pincite index`, which makes it again"
        )

    def peek(self, name: str, columns: Sequence[str]) -> tuple[str, pa.Table] | None:
        """The note of a file and columns of it, without a look at the rest; None where they cannot be read. What
        they say holds only where `read` takes the file."""
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
        return self._open(name).read(columns=list(columns) if columns else None)

    def pieces(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The same, some rows at a time."""
        file = self._open(name)
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=list(columns) if columns else None)

    def documents(self, name: str) -> dict[str, DocumentState]:
        """The state of every document of a file."""
        return as_states(self.states(name))

    def states(self, name: str) -> pa.Table:
        """The same in columns: doc_id and the fields of DocumentState, in order of ids."""
        footer = self._open(name).metadata.metadata
        if STATES in footer:
            return unpacked(footer[STATES])
        return table_of_json(json.loads(footer[FOOTER])["documents"])

    def note(self, name: str) -> str:
        return str(self._footer(name)["note"])

    def _footer(self, name: str) -> Any:
        return json.loads(self._open(name).metadata.metadata[FOOTER])

    def exists(self, name: str) -> bool:
        """Whether there is such a file, not known to be damaged; always true of no name, which rows in Postgres
        have."""
        return not name or (name not in self.damaged and self.files_kept.exists(name))

    def survey(self) -> None:
        """Told that whether they are there will be asked of most files, so that it is found out at once."""
        self.files_kept.survey()

    def rows(self, name: str) -> int:
        """How many rows a file has."""
        return int(self._open(name).metadata.num_rows)

    def intact(self, name: str) -> bool:
        """Whether a file is there and its bytes are those that it is named after; all of them are read."""
        return self.files_kept.intact(name)

    def sought(self, names: Collection[str]) -> None:
        """Reads these files, so that it is known of each whether it is damaged."""
        for name in names:
            if self.exists(name) and not self.intact(name):
                self.damaged[name] = None

    def files(self, table: str = "") -> list[str]:
        """Names of all files of a table that pincite wrote, the newest first; of all tables where none is named."""
        return [name for name, _ in self.files_kept.written(table) if name.endswith(".parquet")]

    def sizes(self) -> dict[str, int]:
        """All files under the root by name, unfinished ones too, with their bytes."""
        return dict(self.files_kept.listed(""))

    def delete(self, names: Collection[str]) -> None:
        self.files_kept.delete(names)


def _codecs(schema: pa.Schema) -> str | dict[str, str]:
    """zstd, but not of vectors, which it makes hardly a twelfth smaller and takes twice as long to read."""
    import pyarrow as pa

    vectors = [field.name for field in schema if pa.types.is_list(field.type) and field.type.value_type == pa.float32()]
    if not vectors:
        return "zstd"
    return {**dict.fromkeys(schema.names, "zstd"), **{f"{name}.list.element": "none" for name in vectors}}
