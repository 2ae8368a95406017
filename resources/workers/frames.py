"""Messages between a run and the processes that work on documents: JSON and Arrow, nothing that could be code.

A frame is its length, the length of its JSON part, that part, and blobs that the JSON names. What a worker
sends is not trusted: whoever reads a hostile document may say anything. `unpacked` and `decoded` take only
what has the form that was asked for, and raise ValueError for everything else.
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
"""Bytes of the whole frame behind the header, and of its JSON part."""
_PIECE = 1 << 20
MOST_JSON = 1 << 20
"""Bytes of the JSON part of a message: names, codes and options, never text of a document."""


@dataclass(frozen=True, slots=True)
class Message:
    """`value` is a JSON object; `blobs` are bytes by name."""

    value: dict[str, Any]
    blobs: Mapping[str, memoryview]


def packed(value: Mapping[str, Any], blobs: Mapping[str, Any] | None = None) -> bytes:
    """One frame, header included; blobs are anything that has a buffer."""
    views = {name: memoryview(blob).cast("B") for name, blob in (blobs or {}).items()}
    sizes = {name: len(view) for name, view in views.items()}
    head = json.dumps({**value, "blobs": sizes}, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"".join((HEADER.pack(len(head) + sum(sizes.values()), len(head)), head, *views.values()))


def unpacked(body: memoryview, json_length: int) -> Message:
    """A frame without its header. Raises ValueError where it is none."""
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
    """The next message of a stream that waits; None at the end of input."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, json_length = HEADER.unpack(header)
    body = stream.read(length)
    return unpacked(memoryview(body), json_length) if len(body) == length else None


class Received:
    """What has come of a stream of frames, none of them over `most` bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held = bytearray()

    def add(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with this. Raises ValueError: no frame, or a longer one."""
        self._held += data
        while len(self._held) >= HEADER.size:
            length, json_length = HEADER.unpack_from(self._held)
            if length > self.most:
                raise OverflowError(f"{length:,} bytes")
            end = HEADER.size + length
            if len(self._held) < end:
                return
            whole, self._held = self._held, self._held[end:]
            yield unpacked(memoryview(whole)[HEADER.size : end], json_length)


# ---------------------------------------------------------------- tables


def encoded(table: pa.Table) -> pa.Buffer:
    """A table, or a slice of one, as an Arrow IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def decoded(blob: memoryview, schema: pa.Schema | None = None, cleaned: bool = True) -> pa.Table:
    """A table as it was sent; its buffers are those of the blob.

    Raises ValueError where the bytes are no table, not one of this schema, or hold what no Parquet or Postgres takes
    (text that is no UTF-8 or, once it is `cleaned`, has NUL)."""
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
    """Raises ValueError for what is larger than its bytes when it is read: bodies that are compressed, dictionaries."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(blob))
    try:
        for at, message in enumerate(reader):
            if message.type != ("record batch" if at else "schema"):
                raise ValueError(f"a table with a {message.type}")
            if at and _compressed(memoryview(message.metadata)):
                raise ValueError("a table that is compressed")
    except EOFError:
        raise ValueError("bytes that are no table") from None


def _compressed(metadata: memoryview) -> bool:
    """Whether the header of a record batch has the field `compression`, its fourth (Arrow's Message.fbs: the header is
    the third field of a message), in the layout of FlatBuffers."""
    (message,) = struct.unpack_from("<I", metadata, 0)
    header = _field(metadata, message, 2)
    (offset,) = struct.unpack_from("<I", metadata, header)
    return bool(_field(metadata, header + offset, 3))


def _field(metadata: memoryview, table: int, number: int) -> int:
    """Where a field of a table stands; 0 where it has none."""
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
