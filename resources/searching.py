"""Questions put to one generation: its own embedder, one transaction a question."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.ports import Filters, Passage
from pipelines.query.results import Hit, query_json
from pipelines.query.retrieve import Question, Retrieved, retrieve
from resources.catalog import schema_name
from resources.query_tools import ToolBox
from resources.search_index import PostgresSearchIndex, filter_parameters, search_index
from resources.sql_files import query as statement

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.workspace import Workspace

LEAST_PREFIX = 6
SHOWN_ALTERNATIVES = 5


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A passage, and the content of its file as indexed; `stale` where the file has since failed."""

    generation: int
    passage: Passage
    content_hash: str
    stale: bool


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
    return Filters(equal, dates["from"], dates["to"], tuple(groups))


def rerankers_from(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Names by commas, or a sequence; None leaves the settings' choice."""
    if names is None:
        return None
    listed = names.split(",") if isinstance(names, str) else list(names)
    return tuple(name.strip() for name in listed if name.strip())


def require_question(text: str, k: int) -> None:
    """Raises UsageError for what cannot be meant, before a database or model is asked for."""
    if not text.strip():
        raise UsageError("the question is empty")
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")


class Searcher:
    """Answers questions from the live generation, or a named one. The embedder is always the
    generation's own, and stays loaded."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.tools = ToolBox(workspace)

    @contextmanager
    def reading(self, generation: int | None = None) -> Iterator[tuple[Connection[Any], PostgresSearchIndex]]:
        """A generation in one transaction. Raises IndexStateError, DatabaseError."""
        keys = self._workspace.settings.query.metadata_keys
        with self._workspace.database.connect() as connection, search_index(connection, generation, keys) as index:
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
        return retrieve(
            question,
            index,
            self.tools.of(index.generation.embedder),
            self._workspace.settings.query,
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

    def chunk(self, chunk: str, groups: Sequence[str] = (), generation: int | None = None) -> FoundChunk:
        """A chunk by its id, or by the beginning of it that no other has. One that the asker's groups
        hide is as unknown as one that does not exist.

        Raises UsageError, IndexStateError `unknown_chunk` or `ambiguous_chunk`, DatabaseError."""
        if len(chunk) < LEAST_PREFIX or not chunk.isalnum() or not chunk.isascii():
            raise UsageError(
                f"{chunk!r} is no chunk id; give it whole, or at least its first {LEAST_PREFIX} characters"
            )
        filters = Filters(groups=tuple(groups))
        with self.reading(generation) as (connection, index):
            number = index.generation.number
            asked = {**filter_parameters(filters), "prefix": chunk, "most": SHOWN_ALTERNATIVES + 1}
            named = statement("search", "chunks_starting", schema=schema_name(number))
            rows = connection.execute(named, asked).fetchall()
            if not rows:
                raise IndexStateError(
                    f"generation {number} has no chunk {chunk} that you may see; `pincite query --json` gives ids, "
                    "which change with the text and its headings, and --group names your groups",
                    "unknown_chunk",
                )
            if len(rows) > 1 and rows[0][0] != chunk:
                found = ", ".join(row[0] for row in rows[:SHOWN_ALTERNATIVES])
                more = " and more" if len(rows) > SHOWN_ALTERNATIVES else ""
                raise IndexStateError(f"several chunks begin with {chunk}: {found}{more}", "ambiguous_chunk")
            chunk_id, content_hash, stale = rows[0]
            return FoundChunk(number, index.passages([chunk_id], filters)[chunk_id], content_hash, stale)

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
        settings = self._workspace.settings.query
        return {
            **query_json(text, number, found.hits, time.perf_counter() - started),
            "strategy": strategy or settings.strategy,
            "rerank": [name for name in (settings.rerank if names is None else names) if name != "none"],
            "searched": dict(found.searched),
            "notes": list(found.notes),
        }
