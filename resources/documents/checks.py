"""Checks of the tables that a worker sends, before they are used.

A worker that a hostile document controls may send any table of the right schema, with any content for its own document.
These checks refuse content that would end the run instead of failing the document, or would affect another document:
values that no later stage or column accepts, ids of other documents, and rows that do not match their input rows. Every
fault is a ValueError.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import fingerprint
from pipelines.schemas import runs

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**31 - 1
"""Largest absolute value of an integer: Postgres stores them as int4."""

Tables = Mapping[str, "pa.Table"]
_NO_RUN = (None, 0, 0)


def sound(
    kind: str, records: Mapping[str, type], made: Tables, given: Tables, doc_ids: Sequence[str]
) -> list[dict[str, pa.Table]]:
    """Check the tables of a task against the tables of its input. Return them divided by document. Raise ValueError."""
    for name, record in records.items():
        for field, hint, optional in _fields(record):
            _require_values(name, made[name][field], hint, optional)
        _require_order(name, made[name])
    found = _divide(made, doc_ids)
    if kind in _RULES:
        _RULES[kind](made, given, doc_ids)
    return found


def _divide(tables: Tables, doc_ids: Sequence[str]) -> list[dict[str, pa.Table]]:
    """Divide tables by document. Raise ValueError if rows belong to other documents, or are not grouped in the order of
    the documents."""
    found: list[dict[str, pa.Table]] = [{} for _ in doc_ids]
    for name, table in tables.items():
        known = "doc_id" in table.column_names
        waiting = iter(runs(table["doc_id"]) if known else [(doc_ids[0], 0, table.num_rows)])
        doc_id, start, length = next(waiting, _NO_RUN)
        for own, wanted in zip(found, doc_ids, strict=True):
            own[name] = table.slice(start, length if doc_id == wanted else 0)
            if doc_id == wanted:
                doc_id, start, length = next(waiting, _NO_RUN)
        if length:
            raise ValueError("rows of another document")
    return found


def _require_order(name: str, table: pa.Table) -> None:
    """Raise ValueError if the numbers of a document's rows do not increase."""
    import numpy as np

    if "index" not in table.column_names or table.num_rows < 2:
        return
    grows = np.diff(table["index"].to_numpy()) > 0
    if "doc_id" in table.column_names:
        grows[[start - 1 for _, start, _ in runs(table["doc_id"])[1:]]] = True
    if not grows.all():
        raise ValueError(f"rows of {name} out of order")


# ---------------------------------------------------------------- values


@cache
def _fields(record: type) -> tuple[tuple[str, Any, bool], ...]:
    """Return name, type without None, and whether it may be None, of every field."""
    hints = typing.get_type_hints(record)
    return tuple((item.name, *_without_none(hints[item.name])) for item in dataclasses.fields(record))


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kept = [item for item in typing.get_args(hint) if item is not type(None)]
        return kept[0], len(kept) < len(typing.get_args(hint))
    return hint, False


def _require_values(name: str, column: Any, hint: Any, optional: bool) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.null_count and not optional:
        raise ValueError(f"rows of {name} without a value")
    column = column.drop_null() if column.null_count else column
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is int and len(column):
        ends = pc.min_max(column).as_py()
        if ends["min"] < -LARGEST or ends["max"] > LARGEST:
            raise ValueError(f"a number in {name} that is too large")
    elif hint is float and len(column) and not pc.all(pc.is_finite(column)).as_py():
        raise ValueError(f"a number in {name} that is none")
    elif origin is tuple:
        _require_values(name, column.flatten(), *_without_none(arguments[0]))
    elif origin is dict:
        _require_values(name, column.keys, str, False)
        _require_values(name, column.items, str, False)
    elif dataclasses.is_dataclass(hint):
        for at, (_, inner, may_lack) in enumerate(_fields(typing.cast(type, hint))):
            _require_values(name, column.field(at), inner, may_lack)
        _require_spans(name, column, typing.cast(type, hint))


def _require_spans(name: str, column: Any, record: type) -> None:
    import pyarrow.compute as pc

    if {"start", "end"} <= {field for field, _, _ in _fields(record)} and len(column):
        start, end = column.field("start"), column.field("end")
        if pc.min(start).as_py() < 0 or not pc.all(pc.less_equal(start, end)).as_py():
            raise ValueError(f"a span in {name} that is none")


# ---------------------------------------------------------------- rows


def _column(table: pa.Table, name: str) -> list[Any]:
    values: list[Any] = table[name].to_pylist()
    return values


def _same(made: pa.Table, given: pa.Table, *columns: str) -> bool:
    """Say whether two tables have equal rows in these columns and in `doc_id`."""
    return all(_column(made, name) == _column(given, name) for name in ("doc_id", *columns))


def _check_parsed(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    documents, elements = made["parsed_documents"], made["parsed_elements"]
    if _column(documents, "doc_id") != list(doc_ids):
        raise ValueError("not one document")
    for dated in _column(documents, "effective_date"):
        if dated is not None:
            date.fromisoformat(dated)
    _require_within(elements, dict(zip(doc_ids, map(len, _column(documents, "body")), strict=True)))


def _require_within(elements: pa.Table, lengths: Mapping[str, int]) -> None:
    import numpy as np

    own = runs(elements["doc_id"])
    most = np.repeat([lengths[doc_id] for doc_id, _, _ in own], [length for _, _, length in own])
    start, end = elements["start"].to_numpy(), elements["end"].to_numpy()
    if len(start) and not ((start >= 0) & (start <= end) & (end <= most)).all():
        raise ValueError("an element outside of its document")


def _check_packed(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    seen: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    table = made["packed_chunks"]
    columns = (_column(table, name) for name in ("chunk_id", "doc_id", "header_chain", "text"))
    for chunk_id, doc_id, headings, text in zip(*columns, strict=True):
        place = doc_id, tuple(headings), text
        if chunk_id != fingerprint("chunk", *place, seen[place]):
            raise ValueError("a chunk by another id than its own")
        seen[place] += 1


def _chunks(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    if not all(_same(made[name], given["packed_chunks"], "chunk_id") for name in ("chunks", "chunk_terms")):
        raise ValueError("other chunks than it was given")
    terms = zip(_column(made["chunk_terms"], "terms"), _column(made["chunk_terms"], "counts"), strict=True)
    if any(len(set(names)) != len(counts) or min(counts, default=1) < 1 for names, counts in terms):
        raise ValueError("terms without their counts")


def _sentences(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    seen: Counter[tuple[str, str, str]] = Counter()
    known = set(zip(_column(given["chunks"], "doc_id"), _column(given["chunks"], "chunk_id"), strict=True))
    names = ("doc_id", "sentence_id", "section_id", "text", "chunk_id", "previous_id", "next_id")
    last = "", None, None
    for doc_id, name, section, text, chunk_id, previous, following in zip(
        *(_column(made["sentences"], column) for column in names), strict=True
    ):
        place = doc_id, section, text
        if name != fingerprint("sentence", *place, seen[place]):
            raise ValueError("a sentence by another id than its own")
        _require_next(last, (doc_id, previous, name))
        if (doc_id, chunk_id) not in known:
            raise ValueError("a sentence out of its place")
        seen[place] += 1
        last = doc_id, name, following
    _require_next(last, ("", None, None))


def _require_next(last: tuple[str, str | None, str | None], after: tuple[str, str | None, str | None]) -> None:
    """Check two neighbouring sentences. `last` has document, id and next id of one; `after` has document, previous id
    and id of the following one."""
    (document, name, following), (its, previous, own) = last, after
    if (following, previous) != ((own, name) if document == its else (None, None)):
        raise ValueError("a sentence out of its place")


def _summary(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    if _column(made["document_summaries"], "doc_id") != list(doc_ids):
        raise ValueError("not one summary")


def _contexts(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    if not _same(made["chunk_contexts"], given["chunks"], "chunk_id"):
        raise ValueError("contexts of other chunks")


def _vectors(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    lengths = {len(vector) for vector in _column(made["static_vectors"], "vector")}
    if not _same(made["static_vectors"], given["packed_chunks"]) or len(lengths) > 1:
        raise ValueError("not one vector for each chunk")


def _check_looked(made: Tables, given: Tables, doc_ids: Sequence[str]) -> None:
    _check_parsed(made, given, doc_ids)
    if made["parsed_files"].num_rows != 1:
        raise ValueError("not one file")


_RULES: Mapping[str, Callable[[Tables, Tables, Sequence[str]], None]] = {
    "parsed_elements": _check_parsed,
    "look": _check_looked,
    "packed_chunks": _check_packed,
    "chunks": _chunks,
    "sentences": _sentences,
    "document_summaries": _summary,
    "chunk_contexts": _contexts,
    "static_vectors": _vectors,
}
"""Rules for the rows of a task, by kind of task, in addition to the checks of their values."""
