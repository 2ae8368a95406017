"""What must hold of the tables that a worker sends, before anything is made of them.

A worker that a document has taken over may send any table of the right schema. What the rows say of the document is
the document's own business; here is refused what would end the run instead of failing the document, or belong to
another: values that no later stage or column takes, ids that are not this document's, rows that do not match those they
are made from. Everything that does not hold is a ValueError.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**31 - 1
"""Of a number: Postgres keeps them as int4."""

Tables = Mapping[str, "pa.Table"]


def sound(
    kind: str, records: Mapping[str, type], made: Tables, given: Tables, doc_ids: Sequence[str]
) -> list[dict[str, pa.Table]]:
    """The tables that a task of a kind made of documents from those that it was given, as those of each document.
    Raises ValueError."""
    for name, record in records.items():
        for field, hint, optional in _fields(record):
            _require_values(name, made[name][field], hint, optional)
    found = _parted(made, doc_ids)
    for doc_id, own, inputs in zip(doc_ids, found, _parted(given, doc_ids), strict=True):
        _require_rows(kind, own, inputs, doc_id)
    return found


def _parted(tables: Tables, doc_ids: Sequence[str]) -> list[dict[str, pa.Table]]:
    """Tables of several documents as those of each. Raises ValueError where there are rows of others, or those of one
    do not stand together and in the order of the documents."""
    found: list[dict[str, pa.Table]] = [{} for _ in doc_ids]
    for name, table in tables.items():
        runs = _runs(table["doc_id"]) if "doc_id" in table.column_names else [(doc_ids[0], table.num_rows)]
        at, waiting = 0, iter(runs)
        doc_id, length = next(waiting, (None, 0))
        for own, wanted in zip(found, doc_ids, strict=True):
            own[name] = table.slice(at, length if doc_id == wanted else 0)
            if doc_id == wanted:
                at += length
                doc_id, length = next(waiting, (None, 0))
        if at < table.num_rows:
            raise ValueError("rows of another document")
    return found


def _runs(column: pa.ChunkedArray) -> list[tuple[str | None, int]]:
    """Values that stand one after the other, and how often each does."""
    import pyarrow.compute as pc

    if not len(column):
        return []
    encoded = pc.run_end_encode(column.combine_chunks())
    ends = encoded.run_ends.to_pylist()
    lengths = (end - start for start, end in zip([0, *ends], ends, strict=False))
    return list(zip(encoded.values.to_pylist(), lengths, strict=True))


def _require_rows(kind: str, made: Tables, given: Tables, doc_id: str) -> None:
    for name, table in made.items():
        order = table["index"].to_pylist() if "index" in table.column_names else []
        if any(after <= before for before, after in pairwise(order)):
            raise ValueError(f"rows of {name} out of order")
    if kind in _RULES:
        _RULES[kind](made, given, doc_id)


# ---------------------------------------------------------------- values


@cache
def _fields(record: type) -> tuple[tuple[str, Any, bool], ...]:
    """Name, type without None, and whether it may be None, of every field."""
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


def _parsed(made: Tables, given: Tables, doc_id: str) -> None:
    documents = made["parsed_documents"].to_pylist()
    if len(documents) != 1:
        raise ValueError("not one document")
    dated = documents[0]["effective_date"]
    if dated is not None:
        date.fromisoformat(dated)
    length = len(documents[0]["body"])
    _require_within(made["parsed_elements"], length)


def _require_within(table: pa.Table, length: int) -> None:
    spans = zip(_column(table, "start"), _column(table, "end"), strict=True)
    if any(not 0 <= start <= end <= length for start, end in spans):
        raise ValueError("an element outside of its document")


def _packed(made: Tables, given: Tables, doc_id: str) -> None:
    seen: Counter[tuple[tuple[str, ...], str]] = Counter()
    rows = made["packed_chunks"].select(["chunk_id", "header_chain", "text"]).to_pylist()
    for row in rows:
        chain, text = tuple(row["header_chain"]), row["text"]
        if row["chunk_id"] != fingerprint("chunk", doc_id, chain, text, seen[chain, text]):
            raise ValueError("a chunk by another id than its own")
        seen[chain, text] += 1


def _chunks(made: Tables, given: Tables, doc_id: str) -> None:
    ids = _column(given["packed_chunks"], "chunk_id")
    if _column(made["chunks"], "chunk_id") != ids or _column(made["chunk_terms"], "chunk_id") != ids:
        raise ValueError("other chunks than it was given")
    terms = zip(_column(made["chunk_terms"], "terms"), _column(made["chunk_terms"], "counts"), strict=True)
    if any(len(set(names)) != len(counts) or min(counts, default=1) < 1 for names, counts in terms):
        raise ValueError("terms without their counts")


def _sentences(made: Tables, given: Tables, doc_id: str) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    known = set(_column(given["chunks"], "chunk_id"))
    names = ["sentence_id", "section_id", "text", "chunk_id", "previous_id", "next_id"]
    rows = made["sentences"].select(names).to_pylist()
    ids = [None, *(row["sentence_id"] for row in rows), None]
    for at, row in enumerate(rows):
        place = row["section_id"], row["text"]
        if row["sentence_id"] != fingerprint("sentence", doc_id, *place, seen[place]):
            raise ValueError("a sentence by another id than its own")
        if row["chunk_id"] not in known or (row["previous_id"], row["next_id"]) != (ids[at], ids[at + 2]):
            raise ValueError("a sentence out of its place")
        seen[place] += 1


def _summary(made: Tables, given: Tables, doc_id: str) -> None:
    if made["document_summaries"].num_rows != 1:
        raise ValueError("not one summary")


def _contexts(made: Tables, given: Tables, doc_id: str) -> None:
    if _column(made["chunk_contexts"], "chunk_id") != _column(given["chunks"], "chunk_id"):
        raise ValueError("contexts of other chunks")


def _vectors(made: Tables, given: Tables, doc_id: str) -> None:
    lengths = {len(vector) for vector in _column(made["static_vectors"], "vector")}
    if made["static_vectors"].num_rows != given["packed_chunks"].num_rows or len(lengths) > 1:
        raise ValueError("not one vector for each chunk")


def _looked(made: Tables, given: Tables, doc_id: str) -> None:
    _parsed(made, given, doc_id)
    if made["parsed_files"].num_rows != 1:
        raise ValueError("not one file")


_RULES: Mapping[str, Callable[[Tables, Tables, str], None]] = {
    "parsed_elements": _parsed,
    "look": _looked,
    "packed_chunks": _packed,
    "chunks": _chunks,
    "sentences": _sentences,
    "document_summaries": _summary,
    "chunk_contexts": _contexts,
    "static_vectors": _vectors,
}
"""By kind of task: what its rows must be, beside their values."""
