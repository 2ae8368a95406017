"""Tables as Parquet: one immutable, content-named file for a bucket under a key.

A file carries, in its footer, the state of every document in it, those without rows included, so
that it says by itself what it was made from. It does not count until the manifest names it. A file is
read only where its bytes are those that it is named after; one that is damaged is as good as gone.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pipelines.errors import DamagedFile, IndexStateError
from pipelines.increments import DocumentState
from resources.parquet.document_states import as_states, packed, states_table, table_of_json, unpacked

if TYPE_CHECKING:
    import pyarrow as pa

    Documents: TypeAlias = Mapping[str, DocumentState] | pa.Table

FOOTER, STATES = b"pincite", b"pincite.documents"
ROW_GROUP = 8192
"""Rows that are read at a time by who reads a file piece by piece."""
_LARGE = 1 << 24
"""Bytes of a file that is hashed piece by piece, and then read from where it lies."""


class ParquetTables:
    """All tables under one root: a folder, or any URI that pyarrow's file systems know."""

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        if "://" in root:
            self._files, self._root = fs.FileSystem.from_uri(root)
        else:
            self._files, self._root = fs.LocalFileSystem(), os.path.abspath(root)
        self.damaged: dict[str, None] = {}
        """Files found damaged by this process, in the order in which they were found."""
        self._sound: dict[str, tuple[int, ...]] = {}

    def path(self, table: str, key: str, bucket: int, content: str) -> str:
        part = "all" if bucket < 0 else f"{bucket:02d}"
        return f"{table}/{key}/{part}-{content}.parquet"

    def place(self, name: str) -> str:
        """Where a file is, for those who read it by themselves: a path of a local file."""
        return f"{self._root}/{name}"

    def write(self, table: str, key: str, bucket: int, rows: pa.Table, documents: Documents, note: str = "") -> str:
        """Writes rows with their documents' states; returns the file's name under the root.

        `note` is kept in the footer (the model of a table of vectors). The file appears whole or not at all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        states = documents if isinstance(documents, pa.Table) else states_table(documents)
        footer = json.dumps({"table": table, "key": key, "bucket": bucket, "note": note})
        sink, rows = pa.BufferOutputStream(), rows.replace_schema_metadata(None)
        dictionary = [field.name for field in rows.schema if field.type == pa.string()]
        with pq.ParquetWriter(
            sink, rows.schema, compression="zstd", use_dictionary=dictionary, write_statistics=False
        ) as writer:
            writer.write_table(rows, row_group_size=ROW_GROUP)
            writer.add_key_value_metadata({FOOTER: footer, STATES: packed(states)})
        data = sink.getvalue()
        content = hashlib.blake2b(data, digest_size=16).hexdigest()
        name = self.path(table, key, bucket, content)
        self._put(name, data)
        self.damaged.pop(name, None)
        return name

    def _put(self, name: str, data: Any) -> None:
        from pyarrow import fs

        target = f"{self._root}/{name}"
        if self._files.get_file_info(target).type == fs.FileType.File and self.intact(name):
            return
        try:
            self._create(target, data)
        except OSError as error:
            reason = error.strerror or error
            remedy = "make room on that disk, or make it writable, and run again; what is committed is kept"
            raise IndexStateError(f"cannot write {target}: {reason}; {remedy}", "disk") from error

    def _create(self, target: str, data: Any) -> None:
        from pyarrow import fs

        self._files.create_dir(os.path.dirname(target), recursive=True)
        if not isinstance(self._files, fs.LocalFileSystem):
            with self._files.open_output_stream(target) as stream:
                stream.write(data)
            return
        partial = f"{target}.{os.getpid()}.partial"
        try:
            with open(partial, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, target)
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise

    def _open(self, name: str) -> Any:
        """A file for reading. Its bytes are hashed when it is first read, and again where it is another by then.

        Raises DamagedFile; IndexStateError (`missing_file`)."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if name in self.damaged:
            raise self._harmed(name)
        try:
            with self._files.open_input_file(f"{self._root}/{name}") as stream:
                identity = self._identity(name)
                if self._sound.get(name) == identity:
                    return pq.ParquetFile(self._files.open_input_file(f"{self._root}/{name}"))
                held, data = hashlib.blake2b(digest_size=16), None
                if stream.size() <= _LARGE:
                    data = stream.read_buffer()
                    held.update(data)
                while piece := stream.read(1 << 20):
                    held.update(piece)
        except FileNotFoundError:
            raise IndexStateError(
                f"the state is damaged: {name} is in the manifest but not under {self._root}; "
                "run `pincite index` again, or restore the file",
                "missing_file",
            ) from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise self._harmed(name) from None
        if not _named_after(name, held):
            raise self._harmed(name)
        self._sound[name] = identity
        return self._open(name) if data is None else pq.ParquetFile(pa.BufferReader(data))

    def _identity(self, name: str) -> tuple[int, ...]:
        """What changes where other bytes are written under a name."""
        from pyarrow import fs

        if isinstance(self._files, fs.LocalFileSystem):
            found = os.stat(f"{self._root}/{name}")
            return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
        info = self._files.get_file_info(f"{self._root}/{name}")
        return info.mtime_ns or 0, info.size or 0

    def _harmed(self, name: str) -> DamagedFile:
        self.damaged[name] = None
        return DamagedFile(
            f"{name} under {self._root} is damaged: its bytes are not those that it was written with. Restore it from "
            "a backup, or delete it; then run `pincite index`, which makes it again"
        )

    def peek(self, name: str, columns: Sequence[str]) -> tuple[str, pa.Table] | None:
        """The note of a file and columns of it, without a look at the rest; None where they cannot be read. What
        they say holds only where `read` takes the file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with self._files.open_input_file(f"{self._root}/{name}") as stream:
                file = pq.ParquetFile(stream)
                return str(json.loads(file.metadata.metadata[FOOTER])["note"]), file.read(columns=list(columns))
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError):
            return None

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
        from pyarrow import fs

        if name in self.damaged:
            return False
        return not name or bool(self._files.get_file_info(f"{self._root}/{name}").type == fs.FileType.File)

    def rows(self, name: str) -> int:
        """How many rows a file has."""
        return int(self._open(name).metadata.num_rows)

    def intact(self, name: str) -> bool:
        """Whether a file is there and its bytes are those that it is named after; all of them are read."""
        held = hashlib.blake2b(digest_size=16)
        try:
            with self._files.open_input_file(f"{self._root}/{name}") as stream:
                while data := stream.read(1 << 20):
                    held.update(data)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return _named_after(name, held)

    def sought(self, names: Collection[str]) -> None:
        """Reads these files, so that it is known of each whether it is damaged."""
        for name in names:
            if self.exists(name) and not self.intact(name):
                self.damaged[name] = None

    def files(self, table: str = "") -> list[str]:
        """Names of all files of a table, the newest first; of all tables where none is named."""
        return [name for name, _ in self._listed(table) if name.endswith(".parquet")]

    def sizes(self) -> dict[str, int]:
        """All files under the root by name, unfinished ones too, with their bytes."""
        return dict(self._listed(""))

    def _listed(self, table: str) -> list[tuple[str, int]]:
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._root}/{table}".rstrip("/"), allow_not_found=True, recursive=True)
        infos = [info for info in self._files.get_file_info(selector) if info.type == fs.FileType.File]
        infos.sort(key=lambda info: (-(info.mtime_ns or 0), info.path))
        return [(info.path[len(self._root) + 1 :], info.size) for info in infos]

    def delete(self, names: Collection[str]) -> None:
        """Deletes files, and the folders that are empty then."""
        for name in names:
            self._files.delete_file(f"{self._root}/{name}")
        for folder in sorted({os.path.dirname(name) for name in names}):
            if not self._listed(folder):
                self._files.delete_dir(f"{self._root}/{folder}")


def _named_after(name: str, held: Any) -> bool:
    return name.endswith(f"-{held.hexdigest()}.parquet")
