"""A file of vectors, read through its reader process (resources/exchange/reader.py). Any failure of that process
becomes an error that names the file."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from pipelines.errors import VectorFileError
from pipelines.escaped_text import one_line
from resources.child_process import child_command, child_environment
from resources.exchange.reader import BATCH_BYTES, MEMORY_MB, MOST_TEXT
from resources.workers.frames import MOST_JSON, Message, Received, decode

if TYPE_CHECKING:
    import pyarrow as pa

SECONDS = 120.0
"""Most seconds for the reader to start, and for each batch of rows."""
_PIECE = 1 << 20
_MOST = MOST_JSON + 4 * (BATCH_BYTES + MOST_TEXT)
REMEDY = {
    "vectors_absent": "see the path, and that it may be read",
    "vectors_unreadable": "write it again as Parquet",
    "vectors_limit": "write it again in more files",
    "vectors_contract": "export the texts again, and keep the columns contract and embedder",
    "vectors_embedder": "make the vectors with that model, or set the embedder that they were made with",
    "vectors_columns": "write the columns that docs/reference/vectors.md names",
    "vectors_dimension": "make the vectors with the embedder's model, whole",
    "vectors_values": "correct the program that made it; float16 overflows above 65,504",
    "vectors_key": "hand the column key on as it was exported",
    "vectors_twice": "write each key once",
    "vectors_text": "embed the texts as they were exported, or leave the column text out",
    "vectors_unlike": "use the exported prompt, the model's own pooling, and its whole window",
}
"""Remedies for a refused file, by the code of the reason."""


def refusal(name: str, code: str, said: str, row: int | None = None) -> VectorFileError:
    """Return an error on one line that names the file, the row and the remedy; `row` counts from 1."""
    where = f"{name}, row {row:,}" if row else name
    error = VectorFileError(one_line(f"{where}: {said}; {REMEDY[code]}"), code)
    error.row = row
    return error


class VectorFile:
    """One open file of vectors that should have `dimension` dimensions; `name` is for people. Leaving the context ends
    its reader.

    All methods raise VectorFileError."""

    def __init__(self, name: str, stream: BinaryIO, dimension: int) -> None:
        self.name, self._dimension = name, dimension
        self._stream = stream
        self._process: subprocess.Popen[bytes] | None = None
        self._received = Received(_MOST)
        self._waiting: list[Message] = []
        self.head: dict[str, Any] = {}

    def __enter__(self) -> VectorFile:
        try:
            self._process = subprocess.Popen(
                child_command("resources.exchange.reader", str(self._stream.fileno()), str(self._dimension)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[self._stream.fileno()],
                env=child_environment(),
            )
            self.head = self._next("head").value
            self._require_head()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()
        self._process.wait()

    def unfit(self, code: str, said: str, row: int | None = None) -> VectorFileError:
        return refusal(self.name, code, said, row)

    @property
    def rows(self) -> int:
        return int(self.head["rows"])

    @property
    def columns(self) -> list[str]:
        return list(self.head["columns"])

    # ------------------------------------------------------------ requests to the reader

    def names(self) -> Iterator[tuple[int, list[str]]]:
        """Yield batches of keys, each with the number of its first row."""
        import pyarrow as pa

        for first, _, table in self._ask("keys", pa.schema([("key", pa.string())])):
            yield first, table["key"].to_pylist()

    def vectors(self) -> Iterator[tuple[int, dict[str, Any], pa.Table]]:
        """Yield batches of rows: the number of the first row, the values of the columns `contract` and `embedder`, and
        a table of keys, texts if the file has them, and vectors as lists of fixed size."""
        import pyarrow as pa

        plain = [(name, pa.string()) for name in ("key", "text") if name in self.columns]
        yield from self._ask("rows", pa.schema([*plain, ("vector", pa.list_(pa.float32(), self._dimension))]))

    def _ask(self, what: str, schema: pa.Schema) -> Iterator[tuple[int, dict[str, Any], pa.Table]]:
        assert self._process and self._process.stdin
        with suppress(BrokenPipeError):  # the reader's output says why it died
            self._process.stdin.write(f"{what}\n".encode())
            self._process.stdin.flush()
        first = 1
        while (message := self._next("rows", "end")).value["kind"] == "rows":
            try:
                table = decode(message.blobs["rows"], schema, cleaned=False)
            except (ValueError, LookupError) as error:
                raise self.unfit("vectors_unreadable", f"its reader gave no rows ({error})", first) from None
            yield first, {name: said for name, said in message.value.items() if isinstance(said, list)}, table
            first += table.num_rows
        if first - 1 != self.rows:
            raise self.unfit("vectors_unreadable", f"it has {first - 1:,} rows now, and had {self.rows:,}")

    def _require_head(self) -> None:
        rows, columns, footer = (self.head.get(name) for name in ("rows", "columns", "footer"))
        named = isinstance(columns, list) and all(isinstance(column, str) for column in columns)
        if type(rows) is not int or not named or not isinstance(footer, str):
            raise self.unfit("vectors_unreadable", "its reader did not say what it has")

    def _next(self, *kinds: str) -> Message:
        """Return the next message, which must be of one of these kinds."""
        deadline = time.monotonic() + SECONDS
        assert self._process and self._process.stdout
        output = self._process.stdout.fileno()
        while not self._waiting:
            heard = select.poll()
            heard.register(output, select.POLLIN)
            if not heard.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise self.unfit("vectors_limit", f"it took more than {SECONDS:.0f} s to read the next rows")
            data = os.read(output, _PIECE)
            if not data:
                raise self._death_error()
            try:
                self._waiting.extend(self._received.add(data))
            except (ValueError, OverflowError):
                raise self.unfit("vectors_unreadable", "its reader said what is no message") from None
        message = self._waiting.pop(0)
        kind, code = message.value.get("kind"), message.value.get("code")
        if kind == "unfit" and code in REMEDY:
            row = message.value.get("row")
            raise self.unfit(code, str(message.value.get("said"))[:500], row if type(row) is int else None)
        if kind not in kinds:
            raise self.unfit("vectors_unreadable", "its reader said something else than it was asked")
        return message

    def _death_error(self) -> VectorFileError:
        assert self._process
        status = self._process.wait()
        if status in (-signal.SIGKILL, -signal.SIGABRT):
            return self.unfit("vectors_limit", f"it unfolds into more than {MEMORY_MB:,} MB")
        return self.unfit("vectors_unreadable", f"it ends the process that reads it (status {status})")
