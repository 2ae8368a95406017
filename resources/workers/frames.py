"""The messages between a run and its worker processes, which consist of JSON and Arrow and cannot contain code.

A frame is its length, the length of its JSON part, that part, and blobs that the JSON names. A worker's messages are
not trusted: after reading a hostile document it may send anything. `unpack` and `decode` accept only the expected form,
and raise ValueError for everything else.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa

HEADER = struct.Struct("!QI")
"""Layout of a frame's header: bytes of the rest of the frame, and bytes of its JSON part."""
_PIECE = 1 << 20
MOST_JSON = 1 << 20
"""Most bytes of a message's JSON part. It has names, codes and options, never text of a document."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a JSON object in `value`, and bytes by name in `blobs`."""

    value: dict[str, Any]
    blobs: Mapping[str, memoryview]


@dataclass(frozen=True, slots=True)
class Request:
    """A packed request: one frame, and the largest size in bytes of the blobs in its reply."""

    frame: bytes
    most_bytes: int


def pack(value: Mapping[str, Any], blobs: Mapping[str, Any] | None = None) -> bytes:
    """Return one frame with its header. Blobs may be any objects with a buffer."""
    views = {name: memoryview(blob).cast("B") for name, blob in (blobs or {}).items()}
    sizes = {name: len(view) for name, view in views.items()}
    head = json.dumps({**value, "blobs": sizes}, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"".join((HEADER.pack(len(head) + sum(sizes.values()), len(head)), head, *views.values()))


def unpack(body: memoryview, json_length: int) -> Message:
    """Read a frame without its header. Raise ValueError if it is malformed."""
    if json_length > min(MOST_JSON, len(body)):
        raise ValueError("a message that is longer than its frame")
    try:
        value = json.loads(bytes(body[:json_length]))
    except (ValueError, RecursionError):
        raise ValueError("a message that is no JSON") from None
    sizes = value.pop("blobs", None) if isinstance(value, dict) else None
    if not isinstance(sizes, dict) or not all(type(size) is int and size >= 0 for size in sizes.values()):
        raise ValueError("a message without its sizes")
    if json_length + sum(sizes.values()) != len(body):
        raise ValueError("a message that is not as long as it says")
    blobs, at = {}, json_length
    for name, size in sizes.items():
        blobs[name] = body[at : at + size]
        at += size
    return Message(value, blobs)


def read_message(stream: BinaryIO) -> Message | None:
    """Read the next message of a blocking stream; return None at the end of input."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, json_length = HEADER.unpack(header)
    body = stream.read(length)
    return unpack(memoryview(body), json_length) if len(body) == length else None


class Received:
    """The received bytes of a stream of frames, each of at most `most` bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held = bytearray()

    def add(self, data: bytes) -> Iterator[Message]:
        """Add bytes and yield the messages that they complete. Raise OverflowError for a frame of more than `most`
        bytes, and ValueError for a malformed one."""
        self._held += data
        while len(self._held) >= HEADER.size:
            length, json_length = HEADER.unpack_from(self._held)
            if length > self.most:
                raise OverflowError(f"{length:,} bytes")
            end = HEADER.size + length
            if len(self._held) < end:
                return
            whole, self._held = self._held, self._held[end:]
            yield unpack(memoryview(whole)[HEADER.size : end], json_length)


# ---------------------------------------------------------------- tables


def encode(table: pa.Table) -> pa.Buffer:
    """Return a table, or a slice of one, as an Arrow IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def decode(blob: memoryview, schema: pa.Schema | None = None, cleaned: bool = True) -> pa.Table:
    """Read a received table.

    Its buffers are views of the blob. Raise ValueError if the bytes are not a table, have another schema, or contain
    values that Parquet or Postgres does not accept: text that is not UTF-8 or, for `cleaned` tables, contains NUL.
    """
    import pyarrow as pa

    try:
        _require_plain(blob)
        with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
            if schema is not None and not reader.schema.remove_metadata().equals(schema):
                raise ValueError("a table of another schema")
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, MemoryError, OSError, struct.error) as error:
        raise ValueError(f"bytes that are no table ({error})") from None
    if schema is not None and cleaned and any(map(_has_nul, table.columns)):
        raise ValueError("a table with NUL in its text")
    return table


def _require_plain(blob: memoryview) -> None:
    """Raise ValueError for a table that expands when it is read: compressed bodies, dictionaries."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(blob))
    try:
        for at, message in enumerate(reader):
            if message.type != ("record batch" if at else "schema"):
                raise ValueError(f"a table with a {message.type}")
            if at and _is_compressed(memoryview(message.metadata)):
                raise ValueError("a table that is compressed")
    except EOFError:
        raise ValueError("bytes that are no table") from None


def _is_compressed(metadata: memoryview) -> bool:
    """Say whether the header of a record batch has the field `compression`. It is the header's fourth field, and the
    header is the third field of a message (Arrow's Message.fbs, in the layout of FlatBuffers)."""
    (message,) = struct.unpack_from("<I", metadata, 0)
    header = _field(metadata, message, 2)
    (offset,) = struct.unpack_from("<I", metadata, header)
    return bool(_field(metadata, header + offset, 3))


def _field(metadata: memoryview, table: int, number: int) -> int:
    """Return the offset of a table's field, or 0 if the table does not have it."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    slot = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", metadata, table - back + slot) if slot < size else (0,)
    return table + offset if offset else 0


def _has_nul(column: pa.ChunkedArray) -> bool:
    return any(_array_has_nul(chunk) for chunk in column.chunks)


def _array_has_nul(array: pa.Array) -> bool:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_string(kind):
        data = array.buffers()[2]
        return data is not None and any(
            bytes(memoryview(data)[at : at + _PIECE]).find(0) >= 0 for at in range(0, data.size, _PIECE)
        )
    if pa.types.is_map(kind):
        return _array_has_nul(array.keys) or _array_has_nul(array.items)
    if pa.types.is_list(kind):
        return _array_has_nul(array.values)
    if pa.types.is_struct(kind):
        return any(_array_has_nul(array.field(at)) for at in range(kind.num_fields))
    return False
