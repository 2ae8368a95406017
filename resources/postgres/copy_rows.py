"""Rows as Postgres's binary COPY takes them: a table of encoders, one for each type of column.

Packed here and not by psycopg, which adapts every element of an array by itself and so takes longer
than all else in a load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from psycopg.types.json import Jsonb
    from psycopg.types.range import Range

_HEAD, _TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_BLOCK = 120_000
"""Bytes; psycopg sends at most 128 KB at once."""
_NULL = b"\xff\xff\xff\xff"
_SIZE = Struct(">i").pack
_SHAPE, _COUNTED = Struct(">iiI").pack, Struct(">ii").pack
_BOUNDS = partial(Struct(">iBiiii").pack, 17, 2, 4)
"""A range of int4 with its lower bound and without its upper one: upper and lower follow a length each."""
_OIDS = {"text": 25, "int4range": 3904}
_FIRST_DAY = date(2000, 1, 1).toordinal()


def _sized(data: bytes) -> bytes:
    return _SIZE(len(data)) + data


def _text(value: str) -> bytes:
    data = value.encode()
    return _SIZE(len(data)) + data


def _array(kind: str, elements: bytes, count: int) -> bytes:
    """One dimension, counted from 1, or none where it is empty; each element follows its length, none is null."""
    shape = _SHAPE(1, 0, _OIDS[kind]) + _COUNTED(count, 1) if count else _SHAPE(0, 0, _OIDS[kind])
    return _sized(shape + elements)


def _texts(values: Sequence[str]) -> bytes:
    return _same_texts(tuple(values))


@lru_cache(maxsize=512)
def _same_texts(values: tuple[str, ...]) -> bytes:
    """Headings, kinds of blocks and groups, which many rows have alike."""
    return _array("text", b"".join(map(_text, values)), len(values))


def _json(value: Jsonb) -> bytes:
    return _NO_PAIRS if value.obj == {} else _sized(b"\x01" + json.dumps(value.obj).encode())


_NO_PAIRS = _sized(b"\x01{}")
"""What most rows have as jsonb."""


def _range(value: Range[int]) -> bytes:
    return _BOUNDS(value.lower, 4, value.upper)


def _ranges(values: Sequence[Range[int]]) -> bytes:
    return _array("int4range", b"".join(map(_range, values)), len(values))


def _vector(value: NDArray[Any]) -> bytes:
    return _sized(_SIZE(len(value) << 16) + value.astype(">f4").tobytes())


ENCODERS: Mapping[str, Callable[[Any], bytes]] = {
    "bool": partial(Struct(">i?").pack, 1),
    "int2": partial(Struct(">ih").pack, 2),
    "int4": partial(Struct(">ii").pack, 4),
    "float4": partial(Struct(">if").pack, 4),
    "text": _text,
    "date": lambda value: _sized(_SIZE(value.toordinal() - _FIRST_DAY)),
    "text[]": _texts,
    "int4range": _range,
    "int4range[]": _ranges,
    "jsonb": _json,
    "vector": _vector,
    "bytea": _sized,
}
"""A value of each type as COPY takes it, its length before it."""


def packed_rows(types: Collection[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Blocks of one binary COPY of rows whose columns have these types of `ENCODERS`; None is null."""
    encoders, head = [ENCODERS[name] for name in types], Struct(">h").pack(len(types))
    block = bytearray(_HEAD)
    for row in rows:
        fields = zip(encoders, row, strict=True)
        block += b"".join([head, *[_NULL if value is None else encode(value) for encode, value in fields]])
        if len(block) > _BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block) + _TAIL
