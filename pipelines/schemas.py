"""Arrow schemas of the records, derived from their annotations, and the way there and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa

from pipelines.errors import IndexStateError

R = TypeVar("R")
_SCALARS = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), bytes: pa.binary()}


def _arrow_type(annotation: Any) -> pa.DataType:
    if annotation in _SCALARS:
        return _SCALARS[annotation]
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
    """The Arrow schema of a record type; vectors are float32."""
    hints = typing.get_type_hints(record)
    fields = []
    for name in (field.name for field in dataclasses.fields(record)):
        kind = pa.list_(pa.float32()) if name == "vector" else _arrow_type(hints[name])
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


@cache
def _nested(record: type) -> tuple[tuple[str, bool], ...]:
    """Field names, and whether a field holds records or maps that must be converted."""
    schema = schema_of(record)
    return tuple((field.name, "struct" in str(field.type) or "map" in str(field.type)) for field in schema)


def _to_row(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: _to_row(getattr(value, name)) if deep else getattr(value, name) for name, deep in _nested(type(value))
        }
    if isinstance(value, tuple):
        return [_to_row(item) for item in value]
    if isinstance(value, dict):
        return sorted(value.items())
    return value


def to_table(record: type, records: Iterable[Any]) -> pa.Table:
    """Records of one type as a checked Arrow table."""
    return pa.Table.from_pylist([_to_row(item) for item in records], schema=schema_of(record))


def _from_value(annotation: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if value is None:
        return None
    if origin in (types.UnionType, typing.Union):
        return _from_value(next(item for item in arguments if item is not type(None)), value)
    if origin is tuple:
        if arguments[0] in _SCALARS:
            return tuple(value)
        return tuple(_from_value(arguments[0], item) for item in value)
    if origin is dict:
        return dict(value)
    if dataclasses.is_dataclass(annotation):
        return _from_row(typing.cast(type, annotation), value)
    return value


@cache
def _hints(record: type) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(record)
    return tuple(
        (field.name, hints[field.name], hints[field.name] not in _SCALARS) for field in dataclasses.fields(record)
    )


def _from_row(record: type, row: dict[str, Any]) -> Any:
    """What an older file does not have takes its default."""
    try:
        return record(*[_from_value(hint, row[name]) if deep else row[name] for name, hint, deep in _hints(record)])
    except KeyError:
        kept = {name: _from_value(hint, row[name]) if deep else row[name] for name, hint, deep in _hints(record)
                if name in row}  # fmt: skip
        return record(**kept)


def from_table(record: type[R], table: pa.Table) -> list[R]:
    """Arrow rows back into records, in table order.

    Raises IndexStateError (`older_file`) for a file that lacks what there is no default for."""
    fields = dataclasses.fields(typing.cast(Any, record))
    columns = [field.name for field in fields if field.name in table.column_names]
    lacking = [field.name for field in fields if field.name not in columns and field.default is dataclasses.MISSING]
    if lacking:
        raise IndexStateError(
            f"rows of {record.__name__} were written by an older version, without {', '.join(lacking)}; run "
            "`pincite index`, which makes them anew",
            "older_file",
        )
    return [_from_row(record, row) for row in table.select(columns).to_pylist()]
