"""A comparison of a generation's rows in Postgres with the rows that Parquet implies, row by row.

A finding is (code, message): `missing_*` is in Parquet only, `extra_*` in Postgres only, `changed_*` in both but
different, `duplicate_*` more than once in Postgres. The documents of one part of a bucket are in memory at a time, with
their rows from Postgres.

The id of a row that its document's part does not have is kept until all parts are read, since another part may have the
row. Only sums of the postings are compared: for each term and groups the sum of hashes (Clarke and others, Incremental
multiset hash functions, ASIACRYPT 2003). The sums are the same in any order; two different sets have equal sums once in
2**64 times.
"""

from __future__ import annotations

import secrets
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from resources.checks.findings import Finding
from resources.postgres import index_rows
from resources.postgres.index_rows import IndexedDocument
from resources.postgres.postings import Groups, Stored, are_bounded, by_groups, postings_of, unpack_row
from resources.postgres.statements import query

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from psycopg import Connection

    from resources.postgres.postings import StoredNumbers as Numbers
    from resources.postgres.postings import StoredWeights as Weights


# ---------------------------------------------------------------- sums of postings


_BITS = 64


class PostingSums:
    def __init__(self) -> None:
        self._sums: defaultdict[Groups, dict[str, int]] = defaultdict(dict)
        self._salt = secrets.randbits(_BITS)

    def add(self, documents: Iterable[IndexedDocument], numbers: Mapping[str, int], average_terms: float) -> None:
        """Add the postings of these documents' chunks; `numbers` has the chunks' numbers by chunk id."""
        import numpy as np

        for groups, own in by_groups(documents).items():
            made, sums = postings_of(own, numbers, average_terms), self._sums[groups]
            starts = np.array(made.bounds[:-1], np.int64)
            added = np.add.reduceat(self._hashes(made.numbers, made.weights), starts).tolist() if len(starts) else []
            for term, value in zip(made.terms, added, strict=True):
                sums[term] = (sums.get(term, 0) + value) % (1 << _BITS)

    def findings(self, rows: Iterable[Stored], bucket: int, apart: Collection[int]) -> Iterator[Finding]:
        """Yield the problems of the bucket's rows; `apart` has the numbers of chunks that are not compared."""
        import numpy as np

        others = np.array(sorted(apart), np.int64)
        for term, groups, chunks, weights, blocks in rows:
            if self._sum_of(chunks, weights, others) != self._sums[tuple(groups)].pop(term, 0):
                yield "postings", f"term {term!r} of bucket {bucket:02d}"
            elif not are_bounded(chunks, weights, blocks):
                yield "postings", f"term {term!r} of bucket {bucket:02d}, whose blocks are of others"
        for left in self._sums.values():
            yield from (("postings", f"term {term!r} of bucket {bucket:02d}, which has none") for term in left)

    def _sum_of(self, chunks: bytes, weights: bytes, apart: NDArray[np.int64]) -> int | None:
        """Return the sum of a row's hashes, or None if the bytes are not postings."""
        import numpy as np

        try:
            numbers, own = unpack_row(chunks, weights)
        except ValueError:
            return None
        hashes = self._hashes(numbers, own)
        if len(apart):
            hashes = hashes[~np.isin(numbers, apart)]
        return int(hashes.sum(dtype=np.uint64))

    def _hashes(self, numbers: Numbers, weights: Weights) -> NDArray[np.uint64]:
        """Return a hash of each posting, by the finaliser of SplitMix64 (Steele and others, Fast splittable
        pseudorandom number generators, OOPSLA 2014)."""
        import numpy as np

        mixed = numbers.astype(np.uint64) << np.uint64(32) | weights.astype(np.float32).view(np.uint32)
        mixed ^= np.uint64(self._salt)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        return mixed


# ---------------------------------------------------------------- buckets


_BATCH = 20_000

Row = tuple[Any, ...]
Rows = dict[str, Row]
"""Rows by id. The numbers of chunks are left out, since Parquet does not have them."""
_Link = tuple[str, str, float]


@dataclass(frozen=True)
class _Table:
    """A table of rows with an id: its name and singular, its columns, the id's column, and functions that return a
    document's ids and rows."""

    name: str
    noun: str
    columns: index_rows.Columns
    key: str
    ids: Callable[[IndexedDocument], Iterable[str]]
    made: Callable[[IndexedDocument, int], Iterable[Row]]

    def place(self, column: str) -> int:
        """Return the index of a column in a row."""
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
    lambda document: [document.raw.doc_id],
    lambda document, bucket: [index_rows.document_row(document, bucket)],
)  # fmt: skip
_CHUNKS = _Table(
    "chunks", "chunk", index_rows.CHUNKS, "chunk_id",
    lambda document: (chunk.chunk_id for chunk in document.chunks),
    lambda document, bucket: index_rows.chunk_rows(document, _NO_NUMBERS),
)  # fmt: skip
_SENTENCES = _Table(
    "sentences", "sentence", index_rows.SENTENCES, "sentence_id",
    lambda document: (sentence.sentence_id for sentence in document.sentences),
    lambda document, bucket: index_rows.sentence_rows(document),
)  # fmt: skip
_NAMES = _Table(
    "document_names", "name", index_rows.DOCUMENT_NAMES, "name_id",
    lambda document: (name_id for name_id, *_ in index_rows.name_rows(document)),
    lambda document, bucket: index_rows.name_rows(document),
)  # fmt: skip
_ABBREVIATIONS = _Table(
    "abbreviations", "abbreviation", index_rows.ABBREVIATIONS, "abbreviation_id",
    lambda document: (row[0] for row in index_rows.abbreviation_rows(document)),
    lambda document, bucket: index_rows.abbreviation_rows(document),
)  # fmt: skip
_TABLES = (_DOCUMENTS, _CHUNKS, _NAMES, _ABBREVIATIONS, _SENTENCES)
_NUMBER = _CHUNKS.place("number")


def bucket_findings(
    connection: Connection[Any],
    schema: str,
    bucket: int,
    parts: Iterable[Sequence[IndexedDocument]],
    average_terms: float,
    held: Collection[str] = (),
) -> Iterator[Finding]:
    """Yield the differences between Postgres and the parts of one bucket, in documents, chunks, sentences and postings.

    Postings are compared only if no chunk is missing or extra, since they refer to the numbers of chunks in Postgres.
    Documents that are `held` in a version that Parquet no longer has are not compared.
    """
    tables = [_TableDiff(connection, schema, bucket, table, held) for table in _TABLES]
    chunks, postings, named = tables[1], PostingSums(), set[str]()
    for documents in parts:
        places = {document.raw.doc_id: f"{document.raw.source}/{document.raw.uri}" for document in documents}
        own = places.keys() - named
        for table in tables:
            yield from table.part(documents, own, places)
        if chunks.whole:
            postings.add(documents, chunks.numbers, average_terms)
        named |= own
        del documents  # frees memory before the next are read
    unnamed = _unnamed_documents(connection, schema, bucket, named)
    for table in tables:
        yield from table.rest(unnamed)
    if chunks.whole:
        apart = [number for (number,) in chunks.rows("chunk_id", chunks.apart, ["number"])]
        with connection.cursor("postings", binary=True) as cursor:
            cursor.execute(query("generation", "postings_in", schema=schema), {"bucket": bucket})
            yield from postings.findings(cursor, bucket, apart)


def _unnamed_documents(connection: Connection[Any], schema: str, bucket: int, named: Collection[str]) -> dict[str, str]:
    """Return the bucket's documents in Postgres that are in no part, with their places."""
    with connection.cursor("documents", binary=True) as cursor:
        cursor.execute(query("verify", "documents_in", schema=schema), {"bucket": bucket})
        return {doc_id: f"{source}/{uri}" for doc_id, source, uri in cursor if doc_id not in named}


# ---------------------------------------------------------------- rows of one table


class _Stray(NamedTuple):
    """A row that is not in its document's part."""

    id: str
    doc_id: str
    place: str


class _TableDiff:
    """The comparison of one table of one bucket: part by part, then the remaining rows."""

    def __init__(
        self, connection: Connection[Any], schema: str, bucket: int, table: _Table, held: Collection[str]
    ) -> None:
        self._connection, self._schema, self._bucket = connection, schema, bucket
        self._table, self._held = table, held
        self._strays: list[_Stray] = []
        self._taken: set[str] = set()
        self.whole = True
        """True while Postgres has exactly the rows of Parquet, and no row of a held document."""
        self.numbers: dict[str, int] = {}
        """The numbers of the last part's chunks, by id."""
        self.apart: list[str] = []
        """The ids of rows of held documents."""

    def rows(self, key: str, ids: Collection[str], columns: Iterable[str]) -> Iterator[Row]:
        """Yield these columns of the bucket's rows whose column `key` is one of `ids`."""
        if not ids:
            return
        statement = query("verify", self._table.name, schema=self._schema, columns=tuple(columns), column=key)
        with self._connection.cursor("rows", binary=True) as cursor:
            cursor.execute(statement, {"bucket": self._bucket, "ids": list(ids)})
            yield from cursor

    def part(
        self, documents: Sequence[IndexedDocument], own: Collection[str], places: Mapping[str, str]
    ) -> Iterator[Finding]:
        """Yield the problems of the rows of a part's documents; `own` are the documents that are in no earlier part."""
        table, stored = self._table, Rows()
        made = {name for document in documents if document.raw.doc_id in own for name in table.ids(document)}
        self.numbers = {}
        yield from self._take(stored, made, "doc_id", own, places)
        absent = made - stored.keys()
        yield from self._take(stored, made, table.key, absent, places)  # rows under another document
        self._taken |= absent & stored.keys()
        for wanted in (_comparable(row, table) for each in documents for row in table.made(each, self._bucket)):
            name, doc_id = wanted[table.id], wanted[table.document]
            found = stored.pop(name, None)
            self.whole &= found is not None and found[table.document] not in self._held
            if found is None:
                yield f"missing_{table.noun}", _row_name(table, name, doc_id, places[doc_id])
            elif found != wanted:
                differ = [column for column, a, b in zip(table.columns, found, wanted, strict=True) if a != b]
                yield (
                    f"changed_{table.noun}",
                    f"{_row_name(table, name, doc_id, places[doc_id])} in {', '.join(differ)}",
                )

    def _take(
        self, stored: Rows, made: Collection[str], key: str, ids: Collection[str], places: Mapping[str, str]
    ) -> Iterator[Finding]:
        """Copy the rows whose ids are in `made` to `stored`, and others to the strays; yield duplicates."""
        table = self._table
        for row in self.rows(key, ids, table.columns):
            name, doc_id = row[table.id], row[table.document]
            if name not in made:
                self._strays.append(_Stray(name, doc_id, places[doc_id]))
                continue
            if name in stored:
                yield f"duplicate_{table.noun}", name
            if table is _CHUNKS:
                self.numbers[name] = row[_NUMBER]
            stored[name] = _comparable(row, table)

    def rest(self, unnamed: Mapping[str, str]) -> Iterator[Finding]:
        """Yield the problems of the remaining rows after all parts are read. `unnamed` has the places of documents that
        are in no part."""
        table = self._table
        others = self.rows("doc_id", unnamed, [table.key, "doc_id"])
        self._strays += (_Stray(name, doc_id, unnamed[doc_id]) for name, doc_id in others)
        strays = [stray for stray in self._strays if stray.id not in self._taken]
        counts = Counter(stray.id for stray in strays)
        there = Counter(name for (name,) in self.rows(table.key, counts, [table.key]))
        last: dict[str, _Stray] = {}
        for stray in strays:
            # If there are more rows of the id than strays, the part that makes it has its own.
            if stray.id in last or there[stray.id] > counts[stray.id]:
                yield f"duplicate_{table.noun}", stray.id
            last[stray.id] = stray
        for stray in last.values():
            if there[stray.id] > counts[stray.id]:
                continue
            if stray.doc_id in self._held:
                self.apart.append(stray.id)
            else:
                self.whole = False
                yield f"extra_{table.noun}", _row_name(table, *stray)


def _comparable(row: Row, table: _Table) -> Row:
    """Return a row's values in a plain form that is equal for Postgres and Parquet."""
    kinds = _kinds()
    plain = [kinds[type(value)](value) if type(value) in kinds else value for value in row]
    if table is _CHUNKS:
        plain[_NUMBER] = None
    return tuple(plain)


@cache
def _kinds() -> Mapping[type, Callable[[Any], Any]]:
    import numpy as np
    from pgvector import Vector
    from psycopg.types.json import Jsonb
    from psycopg.types.range import Range

    vectors = {Vector: Vector.to_binary, np.ndarray: lambda vector: Vector(vector).to_binary()}
    return {Jsonb: attrgetter("obj"), float: _single, list: _spans, Range: _span, **vectors}


def _single(value: float) -> float:
    return array("f", [value])[0]


def _span(value: Any) -> tuple[int, int] | None:
    """Return a range as a pair, or None if it is empty."""
    return None if value.isempty or value.lower == value.upper else (value.lower, value.upper)


def _spans(values: list[Any]) -> list[Any]:
    """Return the ranges of a list as pairs, and another list unchanged."""
    return [_span(value) for value in values] if values and hasattr(values[0], "isempty") else values


def _row_name(table: _Table, name: str, doc_id: str, place: str) -> str:
    return f"{doc_id} ({place})" if table is _DOCUMENTS else f"{name} of {doc_id} ({place})"


# ---------------------------------------------------------------- links


def link_findings(connection: Connection[Any], schema: str, pieces: Iterable[pa.Table]) -> Iterator[Finding]:
    """Yield the differences of RELATED_TO in Postgres from its Parquet table, whose pieces are in order of sources.
    Both are read in the same order, in parts."""
    made = (
        row
        for piece in pieces
        for row in zip(*(piece[name].to_pylist() for name in index_rows.SENTENCE_LINKS), strict=True)
    )
    wanted = (
        (source, target, _single(similarity))
        for _, own in groupby(made, itemgetter(0))
        for source, target, similarity in sorted(own)
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
