"""One generation as the query side reads it: `pipelines.ports.SearchIndex` over Postgres.

Everything is read in one repeatable-read, read-only transaction, so a query sees one state of one
generation even while documents are replaced.

A filter never costs hits. Where few chunks match, each of them is compared; else the search looks at
the best of all, which for vectors is an iterative walk of the index, and where they do not give k
that match, the same is asked of more. docs/reference/searching.md says how this scales.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, IndexStateError
from pipelines.ports import Candidate, DocumentTerms, Filters
from resources.postgres.catalog import schema_name
from resources.postgres.database import damage, damaged, damaged_postings
from resources.postgres.ranking import PLAIN, Ranking
from resources.postgres.row_security import require_row_security
from resources.postgres.search_base import (
    EF_SEARCH_WIDTH,
    LEAST_EF_SEARCH,
    MOST_EF_SEARCH,
    WALK_WIDTH,
    Generation,
    GenerationSearch,
    filter_parameters,
    storable,
)
from resources.postgres.sentence_index import SentenceSearch
from resources.postgres.statements import query
from resources.postgres.term_postings import PostingRow, Slice, TermPostings

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "COMPARED",
    "LEAST_EF_SEARCH",
    "MOST_EF_SEARCH",
    "Generation",
    "PostgresSearchIndex",
    "ef_search",
    "filter_parameters",
    "resolve",
    "search_index",
]

EXACT_CHUNKS = 5_000
"""Up to so many matching chunks are compared one by one."""
LEAST_IDF = 1e-6
"""Of a term that stands in more chunks than there were: those that have it are still found."""
DEEPER = 8
"""So many times more of the best are looked at where those before did not give k that match."""
SHORT = 1024
"""Rows of at most so many postings come at once; what is needed of longer ones is fetched when it is."""


COMPARED = 0
"""The width of walks of a generation that is not walked: each row that matches is compared."""


def ef_search(statistics: Mapping[str, Any]) -> int:
    """Width of the walk through the vector index that a generation's audit found to be needed, or COMPARED."""
    return int(statistics.get("ef_search", LEAST_EF_SEARCH))


class PostgresSearchIndex(SentenceSearch):
    """Chunks and sentences of one generation within the transaction that is open on its connection."""

    _ranked: tuple[Any, tuple[list[str], Ranking]] | None = None

    @cached_property
    def _size(self) -> int:
        return int(self.generation.statistics.get("chunks", 0))

    def few_chunks(self, k: int, filters: Filters) -> bool:
        """Whether so few chunks match that `dense` compares them all."""
        return self._size <= max(EXACT_CHUNKS, k) if self._all_match(filters) else self._few_match(filters, k)

    def _few_match(self, filters: Filters, k: int) -> bool:
        return self._at_most(max(EXACT_CHUNKS, k), "count_matching", filters)

    # ------------------------------------------------------------ dense

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """The k chunks of highest cosine, ties by chunk id; fewer only where fewer match.

        Raises ModelError for a vector of another dimension, or one that has no direction."""
        if self._exact or self.few_chunks(k, filters):
            return self.compared(vector, k, filters)
        self.tune(least_ef_search=EF_SEARCH_WIDTH * k)
        found = self.walked(vector, k, filters)
        return found if len(found) == k else self.compared(vector, k, filters)

    def compared(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """`dense` by comparing every chunk that matches."""
        parameters = self._parameters(filters, vector=self._checked(vector), k=k)
        return _candidates(self._rows(self._named("nearest_exactly"), parameters))

    def walked(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """`dense` by a walk through the vector index alone, which may end before it has found k."""
        wide = k if self._all_match(filters) else WALK_WIDTH * k
        parameters = self._parameters(filters, vector=self._checked(vector), k=k, wide=wide)
        return _candidates(self._rows(self._named("nearest"), parameters))

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        return self._measured("similarities", chunk_ids, vector, filters)

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        return self._measured("sentence_similarities", chunk_ids, vector, filters)

    def _measured(
        self, name: str, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        self.ask_for(filters.groups)
        return dict(self._rows(self._named(name), {"chunk_ids": storable(chunk_ids), "vector": self._checked(vector)}))

    # ------------------------------------------------------------ lexical

    def lexical(self, terms: Sequence[str], k: int, filters: Filters) -> list[Candidate]:
        """The k chunks of highest BM25 score, ties by chunk id; a term asked twice counts twice.

        Only chunks with at least one of the terms; Robertson and Zaragoza, The probabilistic
        relevance framework, 2009, with the idf that is never negative."""
        asked = Counter(storable(terms))
        if not asked:
            return []
        everything = self._all_match(filters)
        named, depth = ("chunks_numbered", k) if everything else ("matching_numbered", WALK_WIDTH * k)
        with self._sound_postings():
            _, ranking = self._ranking(asked, filters)
            while True:
                best = ranking.best(depth)
                found = dict(self._rows(self._named(named), self._parameters(filters, numbers=list(best))))
                if len(found) >= k or len(best) < depth:
                    return _named_best(best, found, k)
                if not everything and self._few_match(filters, k):
                    matching = dict(self._rows(self._named("matching_numbers"), self._parameters(filters)))
                    return _named_best(ranking.of(matching), matching, k)
                depth *= DEEPER

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Sequence[str], filters: Filters) -> dict[str, float]:
        with self._sound_postings():
            _, ranking = self._ranking(Counter(storable(terms)), filters)
            numbers = dict(self._rows(self._named("numbers_of"), {"chunk_ids": storable(chunk_ids)}))
            return {numbers[number]: score for number, score in ranking.of(numbers).items()}

    def document_terms(self, chunk_ids: Sequence[str], terms: Sequence[str], filters: Filters) -> list[DocumentTerms]:
        with self._sound_postings():
            posted, ranking = self._ranking(Counter(storable(terms)), filters)
            rows = self._rows(self._named("documents_of_chunks"), {"chunk_ids": storable(chunk_ids)})
            sums = dict(zip(posted, ranking.within([row[3:] for row in rows]), strict=True))
        return [
            DocumentTerms(doc_id, uri, tuple(found), last - first + 1,
                          {term: own[at] for term, own in sums.items() if own[at]})
            for at, (doc_id, uri, found, first, last) in enumerate(rows)
        ]  # fmt: skip

    def _ranking(self, asked: Mapping[str, int], filters: Filters) -> tuple[list[str], Ranking]:
        """Every chunk that has one of the terms, by its BM25 score: idf = ln(1 + (N - df + 0.5) / (df + 0.5)); and the
        terms that stand anywhere. What was asked last is kept."""
        self.ask_for(filters.groups)
        if self._ranked is None or self._ranked[0] != (asked, self._groups):
            self._ranked = (asked, self._groups), self._ranking_of(asked)
        return self._ranked[1]

    def _ranking_of(self, asked: Mapping[str, int]) -> tuple[list[str], Ranking]:
        known, chunks = self.frequencies(list(asked))
        keys: dict[tuple[int, tuple[str, ...]], int] = {}
        rows: dict[str, list[PostingRow]] = {}
        for term, bucket, groups, *posted in self._rows(
            self._named("posting_rows"), {"terms": list(asked), "short": SHORT, "together": PLAIN}, binary=True
        ):
            key = keys.setdefault((bucket, tuple(groups)), len(keys))
            rows.setdefault(term, []).append(PostingRow(key, *posted))
        of_terms = {term: TermPostings(own, self._posting_slices) for term, own in sorted(rows.items())}
        ranking = Ranking((asked[term] * _idf(term, known, own.posted, chunks), own) for term, own in of_terms.items())
        return list(of_terms), ranking

    def _posting_slices(self, asked: Sequence[Slice]) -> list[tuple[bytes, bytes]]:
        rows, starts, sizes = zip(*asked, strict=True)
        values = {"rows": list(rows), "starts": list(starts), "sizes": list(sizes)}
        found = self._rows(self._named("posting_slices"), values, binary=True)
        if len(found) != len(asked):
            raise ValueError(f"{len(asked) - len(found)} rows that were there are not any more")
        return [(numbers, weights) for _, numbers, weights in sorted(found, key=itemgetter(0))]

    @contextmanager
    def _sound_postings(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise damaged_postings(self._schema, str(error)) from None

    def rest(self, resume: Callable[[], GenerationSearch]) -> None:
        super().rest(resume)
        self._ranked = None  # rows of postings are found again in their own transaction alone

    def newest_date(self) -> str | None:
        return self._rows(self._named("newest_date"), {})[0][0]  # type: ignore[no-any-return]


def _idf(term: str, known: Mapping[str, int], posted: int, chunks: int) -> float:
    """By the frozen statistics. A term that no chunk had then is not the rarest for that: it stands in as many as have
    it now, which have come to those that there were."""
    found, total = (known[term], chunks) if known.get(term) else (posted, chunks + posted)
    return max(LEAST_IDF, math.log1p((total - found + 0.5) / (found + 0.5)))


def _named_best(scores: Mapping[int, float], chunk_ids: Mapping[int, str], k: int) -> list[Candidate]:
    """The k best of the chunks that have an id here, both by number."""
    found = sorted((-scores[number], chunk_id) for number, chunk_id in chunk_ids.items() if number in scores)
    return [Candidate(chunk_id, -score) for score, chunk_id in found[:k]]


def _candidates(rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    return [Candidate(row[0], float(row[1])) for row in rows]


def resolve(connection: Connection[Any], generation: int | None = None) -> Generation:
    """The named generation, or the live one. Raises IndexStateError where there is none."""
    import psycopg

    statement = query("catalog", "generation_of")
    try:
        row = connection.execute(statement, {"generation": generation}).fetchone()
    except psycopg.errors.UndefinedTable:
        raise IndexStateError("this database holds no index yet; run `pincite index`", "no_index") from None
    if row is None:
        if generation is None:
            raise IndexStateError("nothing is published yet; run `pincite index`", "no_index")
        raise IndexStateError(f"there is no generation {generation}; see `pincite generations list`", "no_generation")
    return Generation(*row)


@contextmanager
def search_index(
    connection: Connection[Any],
    generation: int | None = None,
    metadata_keys: Sequence[str] = (),
    exact: bool = False,
    seconds: float | None = None,
    hours: float = 0.0,
) -> Iterator[PostgresSearchIndex]:
    """The live (or named) generation, resolved once and read in one transaction, which is rolled
    back at the end. The connection must not be inside a transaction of its own. A statement may take `seconds`; without
    a number, as long as the server lets it. Memberships hold for `hours`: by default nobody is behind a principal."""
    import psycopg

    asking = False
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(query("session", "begin"))
            connection.execute(query("session", "ask_in_time"))
            if seconds is not None:
                connection.execute(query("session", "answer_within"), {"milliseconds": round(seconds * 1000)})
            found = resolve(connection, generation)
            statement = query("search_chunks", "has_restricted", schema=schema_name(found.number))
            restricted = connection.execute(statement).fetchone() != (False,)
            connection.execute(query("session", "become_asker"))
            asking = True
            require_row_security(connection, found.number)
            width = ef_search(found.statistics)
            index = PostgresSearchIndex(connection, found, metadata_keys, restricted, exact or width == COMPARED, hours)
            index.tune(width or LEAST_EF_SEARCH)
            yield index
    except psycopg.Error as error:
        # The asker's role may read all tables of an index: what it may not read is none of them.
        if damaged(error) or (asking and error.sqlstate == "42501"):
            raise damage(error, "") from error
        if isinstance(error, psycopg.errors.QueryCanceled) and seconds is not None:
            raise DatabaseError(
                f"the search took longer than {seconds:.3g} s, so it was ended; ask with fewer words or a filter, or "
                "raise serve.seconds",
                "timeout",
            ) from None
        raise DatabaseError(f"the search in the index failed: {error}") from error
