"""Questions put to one generation: its own embedder, one transaction a question."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.ports import Filters, Passage, Vectors
from pipelines.query.results import Hit, query_json
from pipelines.query.retrieve import Question, retrieve
from resources.catalog import schema_name
from resources.embedders.specs import EmbedderSpec
from resources.generations import require_weights
from resources.search_index import filter_parameters, search_index
from resources.sql_files import query as statement

if TYPE_CHECKING:
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


class Searcher:
    """Answers questions from the live generation, or a named one. The embedder is always the
    generation's own, and stays loaded."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def _embed(self, embedder: Mapping[str, Any], texts: Sequence[str]) -> Vectors:
        spec = EmbedderSpec(**embedder)
        require_weights(spec)
        return self._workspace.embedder(spec).queries(texts)

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
        settings = self._workspace.settings.query
        with (
            self._workspace.database.connect() as connection,
            search_index(connection, generation, settings.metadata_keys) as index,
        ):
            found = retrieve(
                question,
                index,
                lambda texts: self._embed(index.generation.embedder, texts),
                settings,
                k=k,
                strategy=strategy,
                rerank=rerank,
                filters=filters,
            )
            return index.generation.number, found

    def chunk(self, chunk: str, groups: Sequence[str] = (), generation: int | None = None) -> FoundChunk:
        """A chunk by its id, or by the beginning of it that no other has. One that the asker's groups
        hide is as unknown as one that does not exist.

        Raises UsageError, IndexStateError `unknown_chunk` or `ambiguous_chunk`, DatabaseError."""
        if len(chunk) < LEAST_PREFIX or not chunk.isalnum() or not chunk.isascii():
            raise UsageError(
                f"{chunk!r} is no chunk id; give it whole, or at least its first {LEAST_PREFIX} characters"
            )
        filters = Filters(groups=tuple(groups))
        with (
            self._workspace.database.connect() as connection,
            search_index(connection, generation, self._workspace.settings.query.metadata_keys) as index,
        ):
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
        if not text.strip():
            raise UsageError("the question is empty")
        chosen = filters_from(filters, groups)
        started = time.perf_counter()
        number, hits = self.hits(text, k, strategy, rerankers_from(rerank), chosen, generation)
        return query_json(text, number, hits, time.perf_counter() - started)
