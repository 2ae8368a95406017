"""The Arrow form of records: schemas derived from their annotations, conversion both ways, and runs in a column."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.errors import IndexStateError

if TYPE_CHECKING:
    import pyarrow as pa

# ---------------------------------------------------------------- conversion


R = TypeVar("R")
_SCALARS = {str: "string", int: "int64", float: "float64", bool: "bool", bytes: "binary"}
"""Arrow's names of the types of plain values."""


def _arrow_type(annotation: Any) -> pa.DataType:
    import pyarrow as pa

    if annotation in _SCALARS:
        return pa.type_for_alias(_SCALARS[annotation])
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return _arrow_type(next(item for item in arguments if item is not type(None)))
    if origin is tuple:
        return pa.list_(_arrow_type(arguments[0]))
    if origin is dict:
        return pa.map_(pa.string(), pa.string())
    if dataclasses.is_dataclass(annotation):
        return pa.struct(list(schema_of(typing.cast(type, annotation))))
    raise TypeError(f"no Arrow type for {annotation!r}")


@cache
def schema_of(record: type) -> pa.Schema:
    """Return the Arrow schema of a record type; vectors are float32."""
    import pyarrow as pa

    hints = typing.get_type_hints(record)
    fields = []
    for name in (field.name for field in dataclasses.fields(record)):
        kind = pa.list_(pa.float32()) if name == "vector" else _arrow_type(hints[name])
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


Convert = Callable[[Any], Any]


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(item for item in typing.get_args(annotation) if item is not type(None))
    return annotation


@cache
def _writer(annotation: Any) -> Convert | None:
    """Return a function that makes Arrow's value of a field's value, or None if both are the same."""
    annotation = _without_none(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict:
        return lambda value: None if value is None else sorted(value.items())
    if origin is tuple:
        inner = _writer(arguments[0])
        return inner and (lambda values: None if values is None else [inner(value) for value in values])
    if dataclasses.is_dataclass(annotation):
        fields = [(name, _writer(hint)) for name, hint in _hints(typing.cast(type, annotation))]

        def write(value: Any) -> Any:
            if value is None:
                return None
            return {name: deep(getattr(value, name)) if deep else getattr(value, name) for name, deep in fields}

        return write
    return None


@cache
def _reader(annotation: Any) -> Convert | None:
    """Return a function that makes a field's value of Arrow's value, or None if both are the same."""
    annotation = _without_none(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict:
        return lambda value: None if value is None else dict(value)
    if origin is tuple:
        inner = _reader(arguments[0])
        if inner is None:
            return lambda values: None if values is None else tuple(values)
        return lambda values: None if values is None else tuple(map(inner, values))
    if dataclasses.is_dataclass(annotation):
        record = typing.cast(type, annotation)
        fields = [(name, _reader(hint)) for name, hint in _hints(record)]

        def read(row: Any) -> Any:
            if row is None:
                return None
            if len(row) < len(fields):  # a row of an older file: fields that it lacks take their defaults
                return record(**{name: deep(row[name]) if deep else row[name] for name, deep in fields if name in row})
            return record(*[deep(row[name]) if deep else row[name] for name, deep in fields])

        return read
    return None


@cache
def _hints(record: type) -> tuple[tuple[str, Any], ...]:
    hints = typing.get_type_hints(record)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(record))


def to_table(record: type, records: Iterable[Any]) -> pa.Table:
    """Return records of one type as a checked Arrow table."""
    import pyarrow as pa

    rows, schema, columns = list(records), schema_of(record), []
    for field, (name, hint) in zip(schema, _hints(record), strict=True):
        values, deep = map(attrgetter(name), rows), _writer(hint)
        columns.append(pa.array(list(map(deep, values) if deep else values), field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def from_table(record: type[R], table: pa.Table) -> list[R]:
    """Return the records of Arrow rows, in table order.

    Raise IndexStateError (`older_file`) for a file that lacks a field without a default."""
    fields = dataclasses.fields(typing.cast(Any, record))
    columns = [field.name for field in fields if field.name in table.column_names]
    lacking = [field.name for field in fields if field.name not in columns and field.default is dataclasses.MISSING]
    if lacking:
        raise IndexStateError(
            f"rows of {record.__name__} were written by an older version, without {', '.join(lacking)}; run "
            "`pincite index`, which makes them again",
            "older_file",
        )
    found = [list(map(deep, values)) if deep else values
             for name, hint in _hints(typing.cast(type, record)) if name in columns
             for deep, values in [(_reader(hint), table[name].to_pylist())]]  # fmt: skip
    if len(columns) == len(fields):
        return list(map(record, *found))
    return [record(**dict(zip(columns, row, strict=True))) for row in zip(*found, strict=True)]


# ---------------------------------------------------------------- columns


def runs(column: pa.ChunkedArray) -> list[tuple[Any, int, int]]:
    """Return each run of equal values as (value, index of its start, length)."""
    import pyarrow.compute as pc

    if not len(column):
        return []
    encoded = pc.run_end_encode(column.combine_chunks())
    ends = encoded.run_ends.to_pylist()
    starts = [0, *ends[:-1]]
    return [
        (value, start, end - start) for value, start, end in zip(encoded.values.to_pylist(), starts, ends, strict=True)
    ]
