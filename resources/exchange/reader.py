"""A process that reads one Parquet file of vectors and passes on its rows as plain Arrow, in small batches.

The file is untrusted: it may be damaged, have false metadata, or be small and expand beyond any memory. So it is read
under the limits of the processes that read documents (resources/workers/sandbox.py), from an open descriptor, in
bounded memory. resources/exchange/vector_file.py receives the rows.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from pipelines.indexing.embeddings import FOOTER
from resources.child_process import end_with_parent
from resources.workers.frames import encode, pack
from resources.workers.sandbox import confine, limit_memory

MEMORY_MB = 1024
MOST_ROWS = 10_000_000
"""Most rows of a file: the import needs twenty bytes for each wanted row."""
MOST_COLUMNS = 1024
MOST_DIMENSIONS = 16_384
MOST_FOOTER = 1 << 16
"""Most bytes of the metadata that describe the model."""
BATCH_BYTES = 1 << 23
"""Most bytes of vectors in one message."""
BATCH_KEYS = 1 << 16
MOST_TEXT = 1 << 26
"""Most bytes of texts in one message."""
_BUFFER = 1 << 20
_THRIFT_BYTES, _THRIFT_ITEMS = 1 << 24, 1 << 20
PLAIN = {"key": "text", "text": "text", "embedder": "text", "contract": "a whole number"}


class Unfit(Exception):
    """The error for an unusable file: `code` is the reason, `row` counts from 1."""

    def __init__(self, code: str, said: str, row: int | None = None) -> None:
        super().__init__(said)
        self.code, self.row = code, row


class VectorRows:
    """One open file, whose rows are read in order."""

    def __init__(self, stream: BinaryIO, dimension: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.dimension = dimension
        try:
            # Pages are read one after another, and no column of a row group is read as a whole.
            self._file = pq.ParquetFile(
                pa.PythonFile(stream, mode="r"),
                buffer_size=_BUFFER,
                pre_buffer=False,
                thrift_string_size_limit=_THRIFT_BYTES,
                thrift_container_size_limit=_THRIFT_ITEMS,
            )
            self._schema = self._file.schema_arrow
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Unfit("vectors_unreadable", f"it is no Parquet file that can be read ({_line(error)})") from None
        self._require_bounds()
        self._require_columns()

    @property
    def head(self) -> dict[str, Any]:
        footer = (self._schema.metadata or {}).get(FOOTER.encode(), b"")
        if len(footer) > MOST_FOOTER:
            raise Unfit(
                "vectors_limit", f"its metadata {FOOTER} have {len(footer):,} bytes, and {MOST_FOOTER:,} at most"
            )
        names = [name for name in PLAIN if name in self._schema.names]
        return {"rows": self._file.metadata.num_rows, "columns": names, "footer": footer.decode("utf-8", "replace")}

    def _require_bounds(self) -> None:
        found = self._file.metadata
        if found.num_rows > MOST_ROWS:
            raise Unfit("vectors_limit", f"it has {found.num_rows:,} rows, and a file {MOST_ROWS:,} at most")
        if found.num_columns > MOST_COLUMNS:
            raise Unfit("vectors_limit", f"it has {found.num_columns:,} columns, and a file {MOST_COLUMNS:,} at most")
        for number in range(found.num_row_groups):
            group = found.row_group(number)
            for column in map(group.column, range(found.num_columns)):
                if column.path_in_schema.partition(".")[0] == "vector":
                    dimensions = column.num_values / max(1, group.num_rows)
                    if dimensions > MOST_DIMENSIONS:
                        raise Unfit(
                            "vectors_limit",
                            f"its vectors have {dimensions:,.0f} dimensions, and {MOST_DIMENSIONS:,} at most",
                        )

    def _require_columns(self) -> None:
        import pyarrow as pa

        types, names = pa.types, self._schema.names
        for name in ("key", "vector"):
            if names.count(name) != 1:
                raise Unfit("vectors_columns", f"it has {names.count(name)} columns named {name!r}, and needs one")
        for name, kind in PLAIN.items():
            if name in names:
                found = self._schema.field(names.index(name)).type
                fits = types.is_integer(found) if name == "contract" else _is_text(found)
                if not fits or names.count(name) > 1:
                    raise Unfit("vectors_columns", f"its column {name!r} is of type {str(found)[:200]}, not {kind}")
        found = self._schema.field("vector").type
        lists = types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found)
        if not lists or not types.is_floating(found.value_type):
            raise Unfit("vectors_columns", f"its column 'vector' is of type {str(found)[:200]}, not a list of floats")

    # ------------------------------------------------------------ rows

    def keys(self) -> Iterator[tuple[dict[str, Any], Any]]:
        for first, batch in self._batches(["key"], BATCH_KEYS):
            yield {"first": first}, _table({"key": _texts(batch, "key", first)})

    def rows(self) -> Iterator[tuple[dict[str, Any], Any]]:
        names = [name for name in PLAIN if name in self._schema.names]
        for first, batch in self._batches([*names, "vector"], max(1, BATCH_BYTES // (4 * self.dimension))):
            columns: dict[str, Any] = {name: _texts(batch, name, first) for name in names if name in ("key", "text")}
            columns["vector"] = self._vectors(batch.column("vector"), first)
            said = {name: _only(batch, name) for name in names if name in ("embedder", "contract")}
            yield {"first": first, **said}, _table(columns)

    def _batches(self, names: list[str], rows: int) -> Iterator[tuple[int, Any]]:
        import pyarrow as pa

        first = 1
        try:
            for batch in self._file.iter_batches(batch_size=rows, columns=names, use_threads=False):
                yield first, batch
                first += batch.num_rows
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Unfit("vectors_unreadable", f"it cannot be read further ({_line(error)})", first) from None
        if first - 1 != self._file.metadata.num_rows:
            raise Unfit("vectors_unreadable", f"it says that it has {self._file.metadata.num_rows:,} rows", first)

    def _vectors(self, column: Any, first: int) -> Any:
        """Return vectors as lists of fixed size, of float32. Raise Unfit."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if column.null_count:
            raise Unfit("vectors_values", "a row has no vector", first + _place(pc.is_null(column)))
        lengths = pc.list_value_length(column)
        other = pc.not_equal(lengths, self.dimension)
        if pc.any(other).as_py():
            at = _place(other)
            said = f"a vector has {lengths[at].as_py():,} dimensions, and the embedder's have {self.dimension:,}"
            raise Unfit("vectors_dimension", said, first + at)
        values = column.flatten()
        if values.null_count:
            raise Unfit(
                "vectors_values", "a vector lacks a number", first + _place(pc.is_null(values)) // self.dimension
            )
        with np.errstate(over="ignore"):
            numbers = values.to_numpy(zero_copy_only=False).astype(np.float32)
        return pa.FixedSizeListArray.from_arrays(pa.array(numbers), self.dimension)


def _table(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _texts(batch: Any, name: str, first: int) -> Any:
    """Return a column as plain text. Texts may be null, keys may not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if name == "key" and column.null_count:
        raise Unfit("vectors_key", "a row has no key", first + _place(pc.is_null(column)))
    if column.nbytes > MOST_TEXT:
        raise Unfit("vectors_limit", f"the texts of {len(column):,} rows have {column.nbytes:,} bytes", first)
    return column.cast(pa.large_string()).cast(pa.string())


def _only(batch: Any, name: str) -> list[Any]:
    """Return the first value of a column that must be the same in every row; return two values if they differ."""
    import pyarrow.compute as pc

    found = [value.as_py() for value in pc.unique(batch.column(name))[:2]]
    return [str(value)[:100] if value is not None else None for value in found]


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _place(flags: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.index(flags, True).as_py())


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


# ---------------------------------------------------------------- the process


def _serve(out: BinaryIO, reading: VectorRows) -> None:
    """Answer each line of standard input, `keys` or `rows`, with batches and an end."""
    out.write(pack({"kind": "head", **reading.head}))
    out.flush()
    for line in sys.stdin:
        for value, table in reading.keys() if line.strip() == "keys" else reading.rows():
            out.write(pack({"kind": "rows", **value}, {"rows": encode(table)}))
            out.flush()
        out.write(pack({"kind": "end"}))
        out.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    descriptor, dimension = int(sys.argv[1]), int(sys.argv[2])
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    confine([])
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    limit_memory(MEMORY_MB)
    try:
        _serve(out, VectorRows(os.fdopen(descriptor, "rb", buffering=0), dimension))
        return
    except Unfit as error:
        code, said, row = error.code, str(error), error.row
    except (MemoryError, RecursionError):
        code, said, row = "vectors_limit", f"it unfolds into more than {MEMORY_MB:,} MB", None
    out.write(pack({"kind": "unfit", "code": code, "said": said, "row": row}))
    out.flush()


if __name__ == "__main__":
    main()
