"""A generation's rows in Postgres beside what Parquet says they should be, row by row.

Every finding is (code, message): `missing_*` is in Parquet only, `extra_*` in Postgres only, `changed_*` in both but
not the same, `duplicate_*` more than once in Postgres.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from resources.checks.findings import Finding
from resources.postgres import index_rows
from resources.postgres.index_rows import IndexedDocument
from resources.postgres.postings import bounded, by_groups, postings_of, unpacked
from resources.postgres.statements import query

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection

_BATCH = 20_000

Row = tuple[Any, ...]
Rows = dict[str, Row]
"""Rows by id. Numbers of chunks, which Parquet does not have, are left out."""
_Link = tuple[str, str, float]


@dataclass(frozen=True)
class _Table:
    """A table of rows with an id: its name and singular, its columns, which of them is the id, and how a document's
    rows are made."""

    name: str
    noun: str
    columns: index_rows.Columns
    key: str
    made: Callable[[IndexedDocument, int], Iterable[Row]]

    def place(self, column: str) -> int:
        """Where a column stands in a row."""
        return list(self.columns).index(column)

    @cached_property
    def id(self) -> int:
        return self.place(self.key)

    @cached_property
    def document(self) -> int:
        return self.place("doc_id")


_NO_NUMBERS: Mapping[str, int] = defaultdict(int)
_DOCUMENTS = _Table(
    "documents", "document", index_rows.DOCUMENTS, "doc_id",
    lambda document, bucket: [index_rows.document_row(document, bucket)],
)  # fmt: skip
_CHUNKS = _Table(
    "chunks", "chunk", index_rows.CHUNKS, "chunk_id",
    lambda document, bucket: index_rows.chunk_rows(document, _NO_NUMBERS),
)  # fmt: skip
_SENTENCES = _Table(
    "sentences", "sentence", index_rows.SENTENCES, "sentence_id",
    lambda document, bucket: index_rows.sentence_rows(document),
)  # fmt: skip
_NUMBER = _CHUNKS.place("number")


def bucket_findings(
    connection: Connection[Any],
    schema: str,
    bucket: int,
    documents: Sequence[IndexedDocument],
    average_terms: float,
    held: Collection[str] = (),
) -> Iterator[Finding]:
    """One bucket's documents, chunks, sentences and postings. Postings are compared where no chunk is missing or
    extra, since their numbers are those of the chunks in Postgres. Documents that are `held` in a version which Parquet
    does not have any more are not compared, nor their postings."""
    places = {document.raw.doc_id: f"{document.raw.source}/{document.raw.uri}" for document in documents}
    stored = _stored(connection, schema, bucket, _DOCUMENTS)
    source, uri = _DOCUMENTS.place("source"), _DOCUMENTS.place("uri")
    places = {doc_id: f"{row[source]}/{row[uri]}" for doc_id, row in stored.rows.items()} | places
    yield from _compared(_DOCUMENTS, documents, bucket, stored, places, held)
    chunks = _stored(connection, schema, bucket, _CHUNKS)
    yield from _compared(_CHUNKS, documents, bucket, chunks, places, held)
    yield from _compared(_SENTENCES, documents, bucket, _stored(connection, schema, bucket, _SENTENCES), places, held)
    apart = {chunk_id for chunk_id, row in chunks.rows.items() if row[_CHUNKS.document] in held}
    made = {chunk.chunk_id for document in documents for chunk in document.chunks}
    if chunks.numbers.keys() - apart == made:
        wanted = {
            (term, groups): (posted, weights)
            for groups, own in by_groups(documents).items()
            for term, _, _, posted, weights, _ in postings_of(own, chunks.numbers, average_terms).rows(bucket)
        }
        yield from _postings(connection, schema, bucket, wanted, {chunks.numbers[chunk_id] for chunk_id in apart})


# ---------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class _Stored:
    rows: Rows
    numbers: Mapping[str, int]
    twice: list[Finding]


def _stored(connection: Connection[Any], schema: str, bucket: int, table: _Table) -> _Stored:
    rows: Rows = {}
    numbers: dict[str, int] = {}
    twice: list[Finding] = []
    with connection.cursor(binary=True) as cursor:
        cursor.execute(query("verify", table.name, schema=schema, columns=tuple(table.columns)), {"bucket": bucket})
        for row in cursor:
            name = row[table.id]
            if name in rows:
                twice.append((f"duplicate_{table.noun}", str(name)))
            if table is _CHUNKS:
                numbers[name] = row[_NUMBER]
            rows[name] = _comparable(row, table)
    return _Stored(rows, numbers, twice)


def _comparable(row: Row, table: _Table) -> Row:
    """Values as plain ones that are equal where Postgres holds the same."""
    kinds = _kinds()
    plain = [kinds[type(value)](value) if type(value) in kinds else value for value in row]
    if table is _CHUNKS:
        plain[_NUMBER] = None
    return tuple(plain)


@cache
def _kinds() -> Mapping[type, Callable[[Any], Any]]:
    import numpy as np
    from psycopg.types.json import Jsonb
    from psycopg.types.range import Range

    return {Jsonb: attrgetter("obj"), float: _single, np.ndarray: _sent, list: _spans, Range: _span}


def _single(value: float) -> float:
    return array("f", [value])[0]


def _sent(vector: Any) -> bytes:
    """A vector as Postgres sends it."""
    return len(vector).to_bytes(2) + bytes(2) + bytes(vector.astype(">f4"))


def _span(value: Any) -> tuple[int, int] | None:
    """A range as a pair, an empty one as None."""
    return None if value.isempty or value.lower == value.upper else (value.lower, value.upper)


def _spans(values: list[Any]) -> list[Any]:
    """Ranges one by one; other lists as they are."""
    return [_span(value) for value in values] if values and hasattr(values[0], "isempty") else values


def _compared(
    table: _Table,
    documents: Iterable[IndexedDocument],
    bucket: int,
    stored: _Stored,
    places: Mapping[str, str],
    held: Collection[str],
) -> Iterator[Finding]:
    yield from stored.twice
    left = dict(stored.rows)
    for document in documents:
        for made in table.made(document, bucket):
            wanted = _comparable(made, table)
            found = left.pop(wanted[table.id], None)
            if found is None:
                yield f"missing_{table.noun}", _named(table, wanted, places)
            elif found != wanted:
                differ = [name for name, a, b in zip(table.columns, found, wanted, strict=True) if a != b]
                yield f"changed_{table.noun}", f"{_named(table, wanted, places)} in {', '.join(differ)}"
    for row in left.values():
        if row[table.document] not in held:
            yield f"extra_{table.noun}", _named(table, row, places)


def _named(table: _Table, row: Row, places: Mapping[str, str]) -> str:
    doc_id = row[table.document]
    place = places.get(doc_id, "an unknown document")
    return f"{doc_id} ({place})" if table is _DOCUMENTS else f"{row[table.id]} of {doc_id} ({place})"


# ---------------------------------------------------------------- postings and links


_Posted = tuple[bytes, bytes]
"""Numbers and weights as they are packed."""


def _postings(
    connection: Connection[Any],
    schema: str,
    bucket: int,
    wanted: Mapping[tuple[str, tuple[str, ...]], _Posted],
    apart: Collection[int],
) -> Iterator[Finding]:
    """`apart` are numbers of chunks that are not compared."""
    left = dict(wanted)
    with connection.cursor(binary=True) as cursor:
        cursor.execute(query("generation", "postings_in", schema=schema), {"bucket": bucket})
        for term, groups, chunks, weights, blocks in cursor:
            made = left.pop((term, tuple(groups)), (b"", b""))
            if (chunks, weights) != made and not _same((chunks, weights), made, apart):
                yield "postings", f"term {term!r} of bucket {bucket:02d}"
            elif not bounded(chunks, weights, blocks):
                yield "postings", f"term {term!r} of bucket {bucket:02d}, whose blocks are of others"
    for term, _ in left:
        yield "postings", f"term {term!r} of bucket {bucket:02d}, which has none"


def _same(stored: _Posted, made: _Posted, apart: Collection[int]) -> bool:
    """Whether they are the same pairs in whatever order, but for chunks that are not compared."""
    try:
        numbers, weights = unpacked(*stored)
    except ValueError:
        return False
    pairs = sorted(zip(numbers.tolist(), weights.tolist(), strict=True))
    wanted = sorted(zip(*(values.tolist() for values in unpacked(*made)), strict=True))
    return [pair for pair in pairs if pair[0] not in apart] == wanted


def link_findings(connection: Connection[Any], schema: str, links: pa.Table) -> Iterator[Finding]:
    """RELATED_TO in Postgres beside its Parquet table; both are read in one order, a part at a time."""
    ordered = links.sort_by([("source_id", "ascending"), ("target_id", "ascending")])
    wanted = (
        (row["source_id"], row["target_id"], _single(row["similarity"]))
        for batch in ordered.to_batches(_BATCH)
        for row in batch.to_pylist()
    )
    with connection.cursor("links", binary=True) as cursor:
        cursor.itersize = _BATCH
        cursor.execute(query("verify", "links", schema=schema))
        yield from _links_compared(wanted, iter(cursor))


def _links_compared(wanted: Iterator[_Link], stored: Iterator[_Link]) -> Iterator[Finding]:
    made, found = next(wanted, None), next(stored, None)
    while made or found:
        if found is None or (made and made[:2] < found[:2]):
            assert made
            yield "missing_link", f"{made[0]} -> {made[1]}"
            made = next(wanted, None)
        elif made is None or found[:2] < made[:2]:
            yield "extra_link", f"{found[0]} -> {found[1]}"
            found = next(stored, None)
        else:
            if made[2] != found[2]:
                yield "changed_link", f"{made[0]} -> {made[1]}: similarity {found[2]:.4f}, not {made[2]:.4f}"
            made, found = next(wanted, None), next(stored, None)
