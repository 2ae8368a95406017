"""The search in one generation: `pipelines.ports.SearchIndex` over Postgres.

Everything is read in one repeatable-read, read-only transaction, so a query sees one state of one generation even while
documents are replaced. It is read as the query role: row-level security hides documents that the asker's groups may not
find, also at every edge between sentences.

A filter is part of the SQL, with values only as parameters, and never reduces the number of hits. If few chunks match,
each is compared; otherwise the best of all chunks are searched, for vectors by an iterative index scan, and more are
requested until k match. docs/reference/searching.md says how this scales.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import cache, cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, IndexStateError, ModelError, UsageError
from pipelines.ports import (
    Candidate,
    Comparison,
    DocumentTerms,
    Filters,
    FoundAbbreviation,
    FoundSentence,
    Paragraph,
    ParagraphKey,
    Passage,
    ReachedSentence,
    Terms,
)
from pipelines.records import Box
from pipelines.settings.query import FILTERS, LABEL
from resources.postgres.catalog import is_half, schema_name
from resources.postgres.database import damage, damaged_postings, is_schema_damage
from resources.postgres.postings import PLAIN, PostingRow, Ranking, Slice, TermPostings, saturate
from resources.postgres.row_security import require_row_security
from resources.postgres.statements import fill, query, statements, vector_parameter

if TYPE_CHECKING:
    from pgvector import Vector
    from psycopg import Connection
    from psycopg.sql import Composed


# ---------------------------------------------------------------- search base
#
# Groups are not a filter: row-level security enforces them, since all is read as the query role.


EF_SEARCH_WIDTH = 2
LEAST_EF_SEARCH, MOST_EF_SEARCH = 200, 1_000
WALK_WIDTH = 4
"""Factor by which an index search with a filter reads more than k rows and keeps the best k, since the index finds some
rows late."""

_COLUMNS = {
    "source": "sources",
    "uri": "uris",
    "title": "titles",
    "version": "versions",
    "language": "languages",
    "block_type": "block_types",
    "section": "sections",
}
MOST_LOOKED_AT = 20_000
"""Most documents whose values are read for a comparison, so that a question stays fast."""
_SHOWN = 10
MOST_VALUES = 30
"""Most values of a filter's key that are compared with a misspelt one."""
MOST_ABBREVIATIONS = 500
"""Most abbreviations that are read for a question."""
MOST_BEARERS = 10_000
"""Most documents that are counted, and most documents with a name, so that a question stays fast."""
_COLUMN_OF: Mapping[str, tuple[str, ...]] = {"spans": ("starts", "ends"), "reached": ()}
_PASSAGE_COLUMNS = [name for field in fields(Passage) for name in _COLUMN_OF.get(field.name, (field.name,))]


# ---------------------------------------------------------------- filters


_HALF_PAIR = re.compile("[\ud800-\udfff]")


def storable(values: Iterable[str]) -> list[str]:
    """Return the values that the index can hold; a value with NUL or a lone surrogate matches nothing."""
    return [value for value in values if "\x00" not in value and (value.isascii() or not _HALF_PAIR.search(value))]


def _day(value: str | None, name: str) -> str | None:
    if value is None:
        return None
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise UsageError(f"{name} must be a date such as 2026-01-31, not {value!r}") from None


def filter_parameters(filters: Filters, metadata_keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return the parameters of the `filter` fragment. Raise UsageError for a key that is not allowed, naming the
    allowed ones, or for an invalid date."""
    from psycopg.types.json import Jsonb

    parameters: dict[str, Any] = dict.fromkeys(_COLUMNS.values())
    document_keys: dict[str, list[str]] = {}
    chunk_keys: dict[str, list[str]] = {}
    for key, values in filters.equal.items():
        accepted = storable(values)
        if key in _COLUMNS:
            parameters[_COLUMNS[key]] = accepted
        elif key in metadata_keys:
            document_keys[key] = accepted
        elif key.startswith(LABEL) and storable([key]) and len(key) > len(LABEL):
            chunk_keys[key.removeprefix(LABEL)] = accepted
        else:
            raise _not_allowed(key, metadata_keys)
    if unknown := [bound.key for bound in filters.compared if bound.key not in metadata_keys]:
        raise _not_allowed(unknown[0], metadata_keys)
    return {
        **parameters,
        "document_keys": Jsonb(document_keys) if document_keys else None,
        "chunk_keys": Jsonb(chunk_keys) if chunk_keys else None,
        "doc_ids": None if filters.documents is None else storable(filters.documents),
        "dated_from": _day(filters.dated_from, "the first date"),
        "dated_to": _day(filters.dated_to, "the last date"),
        "date_key": "date",
        **{
            name: value
            for at, bound in enumerate(filters.compared)
            for name, value in _bound_parameters(bound, at).items()
        },
    }


def _bound_parameters(bound: Comparison, number: int | str = "") -> dict[str, str | None]:
    """Return the parameters of the fragment `within` for the bound of this number."""
    first, last = bound.days or (None, None)
    values = {"key": bound.key, "numbers": bound.numbers, "first": first, "last": last}
    return {f"bound{number}_{name}": value for name, value in values.items()}


def nearest(value: str, known: Sequence[str]) -> str:
    """Return a question that suggests the known value nearest to another, or a list of the known values."""
    lower = {each.lower(): each for each in known}
    if near := difflib.get_close_matches(value[:100].lower(), lower, n=1):
        return f"did you mean {lower[near[0]]!r}?"
    if not known:
        return "no document that you may find has one"
    return f"the documents that you may find have {', '.join(map(repr, known[:_SHOWN]))}"


def _not_allowed(key: str, metadata_keys: Sequence[str]) -> UsageError:
    allowed = ", ".join([*FILTERS, f"{LABEL}KEY", *metadata_keys])
    near = difflib.get_close_matches(key[:100], [*FILTERS, *metadata_keys], n=1)
    meant = f"did you mean {near[0]!r}? Allowed" if near else "allowed"
    return UsageError(f"filter {key!r} is not known; {meant}: {allowed} (more by setting query.metadata_keys)")


# ---------------------------------------------------------------- statements

VALUES = ("is_number", "is_day", "as_day")
"""Fragments about one metadata value, used within the fragment `within`."""
FRAGMENTS = (
    *("sentence_columns", "sentence_matching", "matching", "filter", "bounds", "document_filter", "has_day", "own_day"),
    *VALUES,
)
"""Fragments of statements by name; each may contain later ones."""
DISTANCES = ("distance", "sentence_distance")
"""Fragments that differ for half-precision vectors."""


@cache
def _statement(name: str, half: int | None, bounds: int = 0, **values: str) -> Composed:
    """Return a statement of search_chunks.sql or search_sentences.sql with its fragments filled in, for a filter with
    this number of `bounds`. `half` is the dimension of half-precision vectors."""
    known = {**statements("search_chunks"), **statements("search_sentences")}
    within = known["within"]
    for fragment in VALUES:
        within = within.replace(f"{{{fragment}}}", known[fragment])
    numbered = [within.replace("%(bound_", f"%(bound{number}_") for number in range(bounds)]
    known["bounds"] = " AND ".join(numbered) or "true"
    known["has_day"], known["own_day"] = (known[each].replace("%(bound_", "%(date_") for each in ("is_day", "as_day"))
    text = known[name]
    for fragment in FRAGMENTS:
        text = text.replace(f"{{{fragment}}}", known[fragment])
    measured = text
    for distance in DISTANCES:
        measured = measured.replace(f"{{{distance}}}", known[distance + ("_half" if half else "")])
    dimension = {"dimension": half} if half and measured != text else {}
    return fill(measured, {**values, **dimension}, f"search.{name}")


@dataclass(frozen=True, slots=True)
class Generation:
    """The facts about a generation that a query needs."""

    number: int
    dimension: int
    embedder: Mapping[str, Any]
    statistics: Mapping[str, Any]

    @property
    def half(self) -> bool:
        """Say whether the generation's vector indexes use half precision, which query vectors must match."""
        return is_half(self.dimension, self.statistics)


def _passage(row: tuple[Any, ...]) -> Passage:
    """Return the passage in a row of the statement `passages`; its columns are in the order of the record's fields."""
    values = dict(zip(_PASSAGE_COLUMNS, row, strict=True))
    spans = tuple(zip(values.pop("starts"), values.pop("ends"), strict=True))
    for name in ("header_chain", "block_types"):
        values[name] = tuple(values[name])
    values["boxes"] = tuple(Box(**box) for box in values["boxes"])
    return Passage(**values, spans=spans)


# ---------------------------------------------------------------- sentence index


EXACT_SENTENCES = 5_000
"""Number of matching sentences up to which each is compared."""
BLOCK_TYPES = {
    "table_row": ("table-row",),
    "list_item": ("list-item",),
    "figure_caption": ("caption",),
    "figure_description": ("figure-description",),
    "equation": ("formula",),
    "paragraph": ("paragraph", "clause"),
    "code": ("code",),
}
"""Block types of a chunk from which a sentence may come, by the sentence's source."""


def _found_sentences(rows: Sequence[tuple[Any, ...]]) -> list[FoundSentence]:
    return [FoundSentence(*row) for row in rows]


def _paragraph(chunk: Passage, key: ParagraphKey, members: Sequence[Any]) -> Paragraph:
    """Return the part of a chunk that its sentences describe, or the whole chunk if they name no paragraph."""
    boxes = {sentence_id: tuple(Box(**box) for box in found) for sentence_id, _, _, found, *_ in members}
    if not key[1]:
        return Paragraph(chunk, boxes)
    _, _, _, _, start, length, first, last, lead = members[0]
    of_types = {name for _, source, *_ in members for name in BLOCK_TYPES.get(source, ())}
    pages = [page for _, _, page, *_ in members if page is not None]
    pages += [box.page for found in boxes.values() for box in found]
    passage = replace(
        chunk,
        text=chunk.text[start : start + length],
        overlap=lead,
        block_types=tuple(name for name in chunk.block_types if name in of_types) or chunk.block_types,
        page_start=min(pages, default=None),
        page_end=max(pages, default=None),
        boxes=tuple(dict.fromkeys(box for found in boxes.values() for box in found)),
        spans=((first, last),) if first is not None else (),
    )
    return Paragraph(passage, boxes)


# ---------------------------------------------------------------- search index


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
"""Number of matching chunks up to which each is compared."""
LEAST_IDF = 1e-6
"""Least idf, so that a term in more chunks than the frozen statistics count still finds them."""
DEEPER = 8
"""Factor by which a lexical search is extended if its best chunks did not include k matches."""
SURROUNDING = 3
"""Chunks in a surrounding: a chunk with the ones before and after it. A surrounding of three average chunks has average
length."""
SHORT = 1024
"""Postings of a row up to which it is read at once; parts of longer rows are fetched when needed."""


COMPARED = 0
"""Search width of a generation that is searched exactly: each matching row is compared."""


def ef_search(statistics: Mapping[str, Any]) -> int:
    """Return the search width of the vector index that a generation's audit determined, or COMPARED."""
    return int(statistics.get("ef_search", LEAST_EF_SEARCH))


class PostgresSearchIndex:
    """The chunks and sentences of one generation, read in the open transaction of `connection` as the query role.

    `restricted` says whether any document is restricted. With `exact` no vector index is used. Memberships are valid
    for `hours`.
    """

    def __init__(
        self,
        connection: Connection[Any],
        generation: Generation,
        metadata_keys: Sequence[str] = (),
        restricted: bool = True,
        exact: bool = False,
        hours: float = 0.0,
    ) -> None:
        self._connection: Connection[Any] | None = connection
        self._resume: Callable[[], PostgresSearchIndex] | None = None
        self.generation = generation
        self._metadata_keys = tuple(metadata_keys)
        self._restricted = restricted
        self._exact, self._hours = exact, hours
        self._groups: tuple[str, ...] | None = None
        self._schema = schema_name(generation.number)
        self._ef_search = 0
        self._counted: dict[tuple[str, int, str], int] = {}
        self._checked_last: tuple[Sequence[float], Vector] | None = None
        self._ranked: tuple[Any, tuple[list[str], Ranking]] | None = None

    def tune(self, least_ef_search: int) -> None:
        """Apply settings for the rest of the transaction: the planner's, and the least search width."""
        width = min(least_ef_search, MOST_EF_SEARCH)
        if width > self._ef_search:
            self._rows(query("session", "tune"), {"ef_search": width})
            self._ef_search = width

    def _rows(
        self, statement: Composed, parameters: Mapping[str, Any], *, binary: bool = False
    ) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters, binary=binary).fetchall()

    @property
    def connection(self) -> Connection[Any]:
        """The connection with the open transaction; after `rest`, a new one."""
        if self._connection is None:
            assert self._resume is not None
            fresh = self._resume()
            self._connection, self._ef_search = fresh.connection, fresh._ef_search
        return self._connection

    def rest(self, resume: Callable[[], PostgresSearchIndex]) -> None:
        """Record that the transaction has ended. Later reads use a new one from `resume`, of the same generation."""
        self._connection, self._groups, self._resume = None, None, resume
        self._checked_last = None  # another connection may not know pgvector's types yet
        self._ranked = None  # the places of posting rows are valid in their own transaction only

    def _named_statement(self, name: str, filters: Filters | None = None) -> Composed:
        half = self.generation.dimension if self.generation.half else None
        return _statement(name, half, len(filters.compared) if filters else 0, schema=self._schema)

    def ask_for(self, groups: Sequence[str]) -> None:
        """Set the groups for which the rest of the transaction reads. The database itself looks up the principals of
        these groups at each comparison, so nobody can ask as a principal."""
        if tuple(groups) != self._groups:
            self._rows(query("session", "ask_for"), {"groups": storable(groups), "hours": self._hours})
            self._groups = tuple(groups)

    def _parameters(self, filters: Filters, **more: Any) -> dict[str, Any]:
        self.ask_for(filters.groups)
        return {**filter_parameters(filters, self._metadata_keys), **more}

    def _all_match(self, filters: Filters) -> bool:
        narrowed = filters.equal or filters.dated_from or filters.dated_to or filters.compared
        return not narrowed and filters.documents is None and not self._restricted

    def without_value(self, filters: Filters) -> dict[str, tuple[int, int]]:
        """Return, for `date` and each compared metadata key, the number of documents without a value, and the number of
        all documents: those that the asker may see and that pass the other conditions on documents, at most
        MOST_LOOKED_AT."""
        found: dict[str, tuple[int, int]] = {}
        asked = self._parameters(filters, most=MOST_LOOKED_AT)
        if filters.dated_from or filters.dated_to:
            (found["date"],) = self._rows(self._named_statement("undated", filters), asked)
        for bound in {(each.key, each.numbers is None, each.days is None): each for each in filters.compared}.values():
            (counted,) = self._rows(
                self._named_statement("without_value", filters), {**asked, **_bound_parameters(bound)}
            )
            found[bound.key] = max(found.get(bound.key, (0, 0)), counted)
        return found

    def unmet(self, filters: Filters) -> Iterator[str]:
        """Yield a note for each filter value that no document has, with the nearest existing value. Only documents that
        the asker may see count, so a hidden value is reported as if it did not exist. Keys with many values get no
        note, nor do indexes with more than MOST_LOOKED_AT documents or chunks."""
        everything = Filters(groups=filters.groups)
        for key in filters.equal.keys() & {"source", "language", "block_type", *self._metadata_keys}:
            statement = "block_types" if key == "block_type" else "values_of"
            asked = self._parameters(everything, named=key, most=MOST_LOOKED_AT, most_values=MOST_VALUES + 1)
            ((count, known),) = self._rows(self._named_statement(statement, everything), asked)
            if count < MOST_LOOKED_AT and len(known) <= MOST_VALUES:
                for value in sorted(set(filters.equal[key]).difference(known)):
                    yield f"no {key} {value[:100]!r}; {nearest(value, known)}"

    def _at_most(self, most: int, counting: str, filters: Filters, **more: Any) -> bool:
        """Say whether at most `most` rows match; the statement `counting` stops at one more."""
        if (asked := (counting, most, repr((filters, more)))) not in self._counted:
            parameters = self._parameters(filters, most=most + 1, **more)
            self._counted[asked] = self._rows(self._named_statement(counting, filters), parameters)[0][0]
        return self._counted[asked] <= most

    def _checked_vector(self, vector: Sequence[float]) -> Vector:
        """Check a vector and return it as a parameter; the last result is kept."""
        if self._checked_last is not None and self._checked_last[0] is vector:
            return self._checked_last[1]
        if len(vector) != self.generation.dimension:
            raise ModelError(
                f"the question's vector has {len(vector)} dimensions, generation {self.generation.number} "
                f"has {self.generation.dimension}; query with the embedder it was made with",
                "wrong_dimension",
            )
        if not all(map(math.isfinite, vector)) or not any(vector):
            raise ModelError(
                f"the embedder of generation {self.generation.number} gave a vector of the question that is zero or "
                "not finite; check the model, or ask in other words",
                "bad_vector",
            )
        self._checked_last = vector, vector_parameter(self.connection, vector)
        return self._checked_last[1]

    # ------------------------------------------------------------ passages

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        """Return passages by id. An id alone opens nothing: the groups must allow it."""
        self.ask_for(filters.groups)
        rows = self._rows(self._named_statement("passages"), {"chunk_ids": storable(chunk_ids)})
        return {row[0]: _passage(row) for row in rows}

    # ------------------------------------------------------------ sentences

    def sentences(self, vector: Sequence[float], k: int, filters: Filters, least: float) -> list[FoundSentence]:
        """Return the nearest sentences, as SearchIndex defines. Raises the errors of `dense`."""
        if self._exact or self.few_sentences(k, filters, least):
            return self.compared_sentences(vector, k, filters, least)
        self.tune(least_ef_search=EF_SEARCH_WIDTH * k)
        found = self.walked_sentences(vector, k, filters, least)
        return found if len(found) == k else self.compared_sentences(vector, k, filters, least)

    def compared_sentences(
        self, vector: Sequence[float], k: int, filters: Filters, least: float = 0.0
    ) -> list[FoundSentence]:
        """Return the result of `sentences` by comparing every matching sentence."""
        parameters = self._parameters(filters, vector=self._checked_vector(vector), k=k, least_confidence=least)
        return _found_sentences(self._rows(self._named_statement("nearest_sentences_exactly", filters), parameters))

    def walked_sentences(
        self, vector: Sequence[float], k: int, filters: Filters, least: float = 0.0
    ) -> list[FoundSentence]:
        """Return the result of `sentences` from the vector index only, which may find fewer than k."""
        # Few sentences, if any, are of little confidence, so `least` alone needs no wider walk.
        wide = k if self._all_match(filters) else WALK_WIDTH * k
        parameters = self._parameters(
            filters, vector=self._checked_vector(vector), k=k, wide=wide, least_confidence=least
        )
        return _found_sentences(self._rows(self._named_statement("nearest_sentences", filters), parameters))

    def few_sentences(self, k: int, filters: Filters, least: float = 0.0) -> bool:
        """Say whether few enough sentences match for `sentences` to compare them all."""
        most = max(EXACT_SENTENCES, k)
        if self._all_match(filters) and self.generation.statistics.get("chunks", 0) > most:
            return False
        return self._at_most(most, "count_sentences", filters, least_confidence=least)

    def sentences_of(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters, least: float
    ) -> list[FoundSentence]:
        parameters = self._parameters(
            filters, vector=self._checked_vector(vector), chunk_ids=storable(chunk_ids), least_confidence=least
        )
        return _found_sentences(self._rows(self._named_statement("sentences_of_chunks", filters), parameters))

    def expand(
        self, sentence_ids: Sequence[str], steps: int, vector: Sequence[float], filters: Filters, least: float
    ) -> list[ReachedSentence]:
        parameters = self._parameters(
            filters,
            vector=self._checked_vector(vector),
            anchors=storable(sentence_ids),
            steps=steps,
            least_confidence=least,
        )
        rows = self._rows(self._named_statement("expanded_sentences", filters), parameters)
        return [ReachedSentence(FoundSentence(*row[:-4]), *row[-4:]) for row in rows]

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        statement = query("search_chunks", "documents_of", schema=self._schema)
        known = dict(self._rows(statement, {"terms": storable(terms)}))
        return known, int(self.generation.statistics.get("chunks", 0))

    # ------------------------------------------------------------ paragraphs

    def paragraphs(self, keys: Sequence[ParagraphKey], filters: Filters) -> dict[ParagraphKey, Paragraph]:
        chunks = self.passages(list(dict.fromkeys(chunk_id for chunk_id, _ in keys)), filters)
        parameters = {
            "chunk_ids": storable(chunk_id for chunk_id, _ in keys),
            "paragraph_ids": storable(paragraph_id for _, paragraph_id in keys),
        }
        members: dict[ParagraphKey, list[Any]] = {}
        for chunk_id, paragraph_id, *member in self._rows(self._named_statement("sentences_of_paragraphs"), parameters):
            members.setdefault((chunk_id, paragraph_id), []).append(member)
        return {key: _paragraph(chunks[key[0]], key, own) for key, own in members.items() if key[0] in chunks}

    @cached_property
    def _size(self) -> int:
        return int(self.generation.statistics.get("chunks", 0))

    def few_chunks(self, k: int, filters: Filters) -> bool:
        """Say whether few enough chunks match for `dense` to compare them all."""
        return self._size <= max(EXACT_CHUNKS, k) if self._all_match(filters) else self._few_match(filters, k)

    def _few_match(self, filters: Filters, k: int) -> bool:
        return self._at_most(max(EXACT_CHUNKS, k), "count_matching", filters)

    # ------------------------------------------------------------ dense

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """Return the k chunks of highest cosine, ties by chunk id. Return fewer only if fewer match.

        Raises ModelError for a vector of another dimension, or one without a direction.
        """
        if self._exact or self.few_chunks(k, filters):
            return self.compare_all(vector, k, filters)
        self.tune(least_ef_search=EF_SEARCH_WIDTH * k)
        found = self.walk_index(vector, k, filters)
        return found if len(found) == k else self.compare_all(vector, k, filters)

    def compare_all(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """Return the result of `dense` by comparing every matching chunk."""
        parameters = self._parameters(filters, vector=self._checked_vector(vector), k=k)
        return _candidates(self._rows(self._named_statement("nearest_exactly", filters), parameters))

    def walk_index(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """Return the result of `dense` from the vector index only, which may find fewer than k."""
        wide = k if self._all_match(filters) else WALK_WIDTH * k
        parameters = self._parameters(filters, vector=self._checked_vector(vector), k=k, wide=wide)
        return _candidates(self._rows(self._named_statement("nearest", filters), parameters))

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        return self._measure("similarities", chunk_ids, vector, filters)

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        return self._measure("sentence_similarities", chunk_ids, vector, filters)

    def _measure(
        self, name: str, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        self.ask_for(filters.groups)
        return dict(
            self._rows(
                self._named_statement(name), {"chunk_ids": storable(chunk_ids), "vector": self._checked_vector(vector)}
            )
        )

    # ------------------------------------------------------------ lexical

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        """Return the k chunks of highest BM25 score, ties by chunk id; each term is multiplied by its weight.

        Only chunks with at least one of the terms are found. The formula is that in Robertson and Zaragoza, The
        probabilistic relevance framework, 2009, with the variant of idf that is never negative.
        """
        asked = _term_weights(terms)
        if not asked:
            return []
        everything = self._all_match(filters)
        named, depth = ("chunks_numbered", k) if everything else ("matching_numbered", WALK_WIDTH * k)
        with self._sound_postings():
            _, ranking = self._ranking(asked, filters)
            while True:
                best = ranking.best(depth)
                found = dict(
                    self._rows(self._named_statement(named, filters), self._parameters(filters, numbers=list(best)))
                )
                if len(found) >= k or len(best) < depth:
                    return _named_best(best, found, k)
                if not everything and self._few_match(filters, k):
                    matching = dict(
                        self._rows(self._named_statement("matching_numbers", filters), self._parameters(filters))
                    )
                    return _named_best(ranking.scores_of(matching), matching, k)
                depth *= DEEPER

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        with self._sound_postings():
            _, ranking = self._ranking(_term_weights(terms), filters)
            numbers = dict(self._rows(self._named_statement("numbers_of"), {"chunk_ids": storable(chunk_ids)}))
            return {numbers[number]: score for number, score in ranking.scores_of(numbers).items()}

    def surrounding_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        import numpy as np

        with self._sound_postings():
            _, ranking = self._ranking(_term_weights(terms), filters)
            rows = self._rows(self._named_statement("surroundings"), {"chunk_ids": storable(chunk_ids)})
            average = float(self.generation.statistics.get("average_terms", 1.0))
            chunks = [(number, size) for _, *own in rows for number, size in zip(*own, strict=True)]
            starts = np.cumsum([0, *(len(numbers) for _, numbers, _ in rows)])[:-1]
            lengths = np.array([sum(sizes) for _, _, sizes in rows], np.float64)
            total = np.zeros(len(rows))
            for factor, counts in ranking.count_terms(chunks, average) if rows else ():
                total += factor * saturate(np.add.reduceat(counts, starts), lengths, SURROUNDING * average)
        return {row[0]: score for row, score in zip(rows, total.tolist(), strict=True)}

    def document_terms(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> list[DocumentTerms]:
        with self._sound_postings():
            posted, ranking = self._ranking(_term_weights(terms), filters)
            rows = self._rows(self._named_statement("documents_of_chunks"), {"chunk_ids": storable(chunk_ids)})
            sums = dict(zip(posted, ranking.sums_within([row[3:] for row in rows]), strict=True))
        return [
            DocumentTerms(doc_id, uri, tuple(found), last - first + 1,
                          {term: own[at] for term, own in sums.items() if own[at]})
            for at, (doc_id, uri, found, first, last) in enumerate(rows)
        ]  # fmt: skip

    # ------------------------------------------------------------ names

    @property
    def keeps_names(self) -> bool:
        return "document_names" in self.generation.statistics

    def bearers(self, names: Collection[str], filters: Filters) -> tuple[dict[str, int], int]:
        self.ask_for(filters.groups)
        asked = {"terms": storable(names), "most": MOST_BEARERS}
        borne = dict(self._rows(self._named_statement("bearers"), asked))
        return borne, self._rows(self._named_statement("count_documents"), asked)[0][0] if borne else 0

    def named_documents(self, names: Mapping[str, float], k: int, filters: Filters) -> dict[str, float]:
        asked = {"terms": list(names), "weights": list(names.values()), "k": k}
        return dict(self._rows(self._named_statement("named_documents", filters), self._parameters(filters, **asked)))

    def abbreviations(self, keys: Collection[str], filters: Filters) -> list[FoundAbbreviation]:
        self.ask_for(filters.groups)
        found = self._rows(self._named_statement("abbreviations"), {"keys": storable(keys), "most": MOST_ABBREVIATIONS})
        return [FoundAbbreviation(*row) for row in found]

    def documents_of(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, str]:
        self.ask_for(filters.groups)
        return dict(self._rows(self._named_statement("documents_by_chunk"), {"chunk_ids": storable(chunk_ids)}))

    def _ranking(self, asked: Mapping[str, float], filters: Filters) -> tuple[list[str], Ranking]:
        """Return the terms that occur, and a ranking of chunks by BM25 score. The last result is kept.

        idf = ln(1 + (N - df + 0.5) / (df + 0.5))."""
        self.ask_for(filters.groups)
        if self._ranked is None or self._ranked[0] != (asked, self._groups):
            self._ranked = (asked, self._groups), self._ranking_of(asked)
        return self._ranked[1]

    def _ranking_of(self, asked: Mapping[str, float]) -> tuple[list[str], Ranking]:
        known, chunks = self.frequencies(list(asked))
        keys: dict[tuple[int, tuple[str, ...]], int] = {}
        rows: dict[str, list[PostingRow]] = {}
        for term, bucket, groups, *posted in self._rows(
            self._named_statement("posting_rows"),
            {"terms": list(asked), "short": SHORT, "together": PLAIN},
            binary=True,
        ):
            key = keys.setdefault((bucket, tuple(groups)), len(keys))
            rows.setdefault(term, []).append(PostingRow(key, *posted))
        of_terms = {term: TermPostings(own, self._posting_slices) for term, own in sorted(rows.items())}
        ranking = Ranking((asked[term] * _idf(term, known, own.posted, chunks), own) for term, own in of_terms.items())
        return list(of_terms), ranking

    def _posting_slices(self, asked: Sequence[Slice]) -> list[tuple[bytes, bytes]]:
        rows, starts, sizes = zip(*asked, strict=True)
        values = {"rows": list(rows), "starts": list(starts), "sizes": list(sizes)}
        found = self._rows(self._named_statement("posting_slices"), values, binary=True)
        if len(found) != len(asked):
            raise ValueError(f"{len(asked) - len(found)} rows that were there are not any more")
        return [(numbers, weights) for _, numbers, weights in sorted(found, key=itemgetter(0))]

    @contextmanager
    def _sound_postings(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise damaged_postings(self._schema, str(error)) from None

    def newest_date(self) -> str | None:
        return self._rows(self._named_statement("newest_date"), {})[0][0]  # type: ignore[no-any-return]


def _term_weights(terms: Terms) -> Mapping[str, float]:
    return {term: terms[term] for term in storable(terms)} if isinstance(terms, Mapping) else Counter(storable(terms))


def _idf(term: str, known: Mapping[str, int], posted: int, chunks: int) -> float:
    """Return the idf from the frozen statistics. A term that is missing there is not treated as the rarest: the chunks
    that have it now are counted and added."""
    found, total = (known[term], chunks) if known.get(term) else (posted, chunks + posted)
    return max(LEAST_IDF, math.log1p((total - found + 0.5) / (found + 0.5)))


def _named_best(scores: Mapping[int, float], chunk_ids: Mapping[int, str], k: int) -> list[Candidate]:
    """Return the k best of the chunks that have an id here, as numbers and ids."""
    found = sorted((-scores[number], chunk_id) for number, chunk_id in chunk_ids.items() if number in scores)
    return [Candidate(chunk_id, -score) for score, chunk_id in found[:k]]


def _candidates(rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    return [Candidate(row[0], float(row[1])) for row in rows]


def resolve(connection: Connection[Any], generation: int | None = None) -> Generation:
    """Return the named generation, or the live one. Raise IndexStateError if it does not exist."""
    import psycopg

    statement = query("catalog", "generation_of")
    try:
        row = connection.execute(statement, {"generation": generation}).fetchone()
    except psycopg.errors.UndefinedTable:
        raise IndexStateError("the database holds no index yet; run `pincite index`", "no_index") from None
    if row is None:
        if generation is None:
            raise IndexStateError("no generation is published yet; run `pincite index`", "no_index")
        raise IndexStateError(
            f"generation {generation} does not exist; see `pincite generations list`", "no_generation"
        )
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
    """Yield the live (or named) generation, resolved once and read in one transaction, which is rolled back at the end.
    The connection must not be inside a transaction. A statement may take `seconds`; without a number, the server's
    limit applies. Memberships are valid for `hours`; by default no principal has members."""
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
        # The asker's role may read all tables of an index, so a table that it may not read is not one of them.
        if is_schema_damage(error) or (asking and error.sqlstate == "42501"):
            raise damage(error, "") from error
        if isinstance(error, psycopg.errors.QueryCanceled) and seconds is not None:
            raise DatabaseError(
                f"the search took longer than {seconds:.3g} s, so it was ended; ask with fewer words or a filter, or "
                "raise serve.seconds",
                "timeout",
            ) from None
        raise DatabaseError(f"the search in the index failed: {error}") from error
