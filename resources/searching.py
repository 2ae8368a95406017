"""Questions put to one generation: its own embedder, one transaction a question."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.groups import group_names
from pipelines.ports import Filters, Passage
from pipelines.query.results import Hit, query_json
from pipelines.query.retrieve import Question, Retrieved, require_question, retrieve
from pipelines.records import Box
from resources.catalog import schema_name
from resources.query_tools import ToolBox
from resources.search_index import PostgresSearchIndex, search_index
from resources.sql_files import query as statement

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.state import State

LEAST_PREFIX = 6
SHOWN_ALTERNATIVES = 5


@dataclass(frozen=True, slots=True)
class NamedSentence:
    """A sentence by its id. `start` is its offset in the text of the passage."""

    sentence_id: str
    text: str
    source: str
    page: int | None
    confidence: float
    start: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A passage, and the content of its file as indexed; `stale` where the file has since failed. Where a
    `sentence` was asked for, the passage is its paragraph."""

    generation: int
    passage: Passage
    content_hash: str
    stale: bool
    sentence: NamedSentence | None = None


def filters_from(filters: Sequence[str], groups: Sequence[str]) -> Filters:
    """`KEY=VALUE` arguments as filters; several values of one key are alternatives.

    `from=DATE` and `to=DATE` bound the effective date. Raises UsageError for a wrong form."""
    equal: dict[str, tuple[str, ...]] = {}
    dates: dict[str, str | None] = {"from": None, "to": None}
    for argument in filters:
        key, sign, value = argument.partition("=")
        if not sign or not key:
            raise UsageError(f"--filter {argument!r}: write KEY=VALUE")
        if key in dates:
            dates[key] = value
        else:
            equal[key] = (*equal.get(key, ()), value)
    return Filters(equal, dates["from"], dates["to"], asked_groups(groups))


def asked_groups(groups: Sequence[str]) -> tuple[str, ...]:
    """Groups of an asker. Raises UsageError for what is no name of a group, such as several in one."""
    try:
        return group_names(list(groups)) if groups else ()
    except ValueError as error:
        raise UsageError(f"--group: {error}; give the option once for each group") from None


def rerankers_from(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Names by commas, or a sequence; None leaves the settings' choice."""
    if names is None:
        return None
    listed = names.split(",") if isinstance(names, str) else list(names)
    return tuple(name.strip() for name in listed if name.strip())


def _only(rows: Sequence[tuple[Any, ...]], named: str, generation: int) -> tuple[Any, ...]:
    """The row whose id was meant. Raises IndexStateError where there is none, or several."""
    if not rows:
        raise IndexStateError(
            f"generation {generation} has no chunk and no sentence {named} that you may see; `pincite query --json` "
            "gives ids, which change with the text and its headings, and --group names your groups",
            "unknown_chunk",
        )
    whole = [row for row in rows if row[0] == named]
    if len(rows) > 1 and not whole:
        found = ", ".join(row[0] for row in rows[:SHOWN_ALTERNATIVES])
        more = " and more" if len(rows) > SHOWN_ALTERNATIVES else ""
        raise IndexStateError(f"several ids begin with {named}: {found}{more}", "ambiguous_chunk")
    return (whole or rows)[0]


class Searcher:
    """Answers questions from the live generation, or a named one. The embedder is always the
    generation's own, and stays loaded; with `exact` no vector index is walked."""

    def __init__(self, state: State, exact: bool = False) -> None:
        self._state, self._exact, self._known = state, exact, False
        self.tools = ToolBox(state)

    @contextmanager
    def reading(self, generation: int | None = None) -> Iterator[tuple[Connection[Any], PostgresSearchIndex]]:
        """A generation in one transaction, of an index as this version knows it. Raises IndexStateError,
        DatabaseError."""
        keys, database = self._state.settings.query.metadata_keys, self._state.parts.database
        if not self._known and database.holds_catalog():
            database.migrate()
        self._known = True
        with (
            database.connect() as connection,
            search_index(connection, generation, keys, self._exact) as index,
        ):
            yield connection, index

    def retrieved(
        self,
        question: Question | str,
        k: int,
        index: PostgresSearchIndex,
        strategy: str | None = None,
        rerank: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> Retrieved:
        """Hits, and what fell back on the way. Raises UsageError, DatabaseError, ModelError."""
        index.ask_for(filters.groups if filters else ())
        return retrieve(
            question,
            index,
            self.tools.of(index.generation.embedder),
            self._state.settings.query,
            k=k,
            strategy=strategy,
            rerank=rerank,
            filters=filters,
        )

    def hits(
        self,
        question: Question | str,
        k: int,
        strategy: str | None = None,
        rerank: Sequence[str] | None = None,
        filters: Filters | None = None,
        generation: int | None = None,
    ) -> tuple[int, list[Hit]]:
        """(generation, hits). Raises UsageError, IndexStateError, DatabaseError, ModelError."""
        with self.reading(generation) as (_, index):
            found = self.retrieved(question, k, index, strategy, rerank, filters)
            return index.generation.number, found.hits

    def chunk(self, named: str, groups: Sequence[str] = (), generation: int | None = None) -> FoundChunk:
        """A chunk or a sentence by its id, or by the beginning of it that no other has. One that the asker's
        groups hide is as unknown as one that does not exist.

        Raises UsageError, IndexStateError `unknown_chunk` or `ambiguous_chunk`, DatabaseError."""
        if len(named) < LEAST_PREFIX or not named.isalnum() or not named.isascii():
            raise UsageError(
                f"{named!r} is no id of a chunk or sentence; give it whole, or at least its first {LEAST_PREFIX} "
                "characters"
            )
        groups = asked_groups(groups)
        filters = Filters(groups=groups)
        with self.reading(generation) as (connection, index):
            number = index.generation.number
            index.ask_for(groups)
            asked = {"prefix": named, "most": SHOWN_ALTERNATIVES + 1}
            chunks, sentences = (
                connection.execute(statement("search", name, schema=schema_name(number)), asked).fetchall()
                for name in ("chunks_starting", "sentences_starting")
            )
            row = _only([*chunks, *sentences], named, number)
            if row in chunks:
                chunk_id, content_hash, stale = row
                return FoundChunk(number, index.passages([chunk_id], filters)[chunk_id], content_hash, stale)
            sentence_id, chunk_id, paragraph_id, *said, content_hash, stale = row
            key = (chunk_id, paragraph_id)
            found = index.paragraphs([key], filters)[key]
            sentence = NamedSentence(sentence_id, *said, found.boxes[sentence_id])
            return FoundChunk(number, found.passage, content_hash, stale, sentence)

    def query(
        self,
        text: str,
        k: int = 10,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        groups: Sequence[str] = (),
        generation: int | None = None,
    ) -> dict[str, Any]:
        """The JSON of `query`."""
        require_question(text, k)
        chosen, names = filters_from(filters, groups), rerankers_from(rerank)
        started = time.perf_counter()
        with self.reading(generation) as (_, index):
            found = self.retrieved(text, k, index, strategy, names, chosen)
            number = index.generation.number
        settings = self._state.settings.query
        return {
            **query_json(text, number, found.hits, time.perf_counter() - started),
            "strategy": found.strategy,
            "class": found.kind,
            "rerank": [name for name in (settings.rerank if names is None else names) if name != "none"],
            "searched": dict(found.searched),
            "notes": list(found.notes),
        }
