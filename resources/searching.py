"""Questions put to one generation: its own embedder, one transaction a question."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.ports import Filters, Vectors
from pipelines.query.results import Hit, query_json
from pipelines.query.retrieve import Question, retrieve
from pipelines.settings import EmbedderSettings
from resources.embedders.specs import EmbedderSpec, resolve
from resources.search_index import search_index

if TYPE_CHECKING:
    from resources.workspace import Workspace


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
        self._check(spec)
        return self._workspace.embedder(spec).queries(texts)

    def _check(self, spec: EmbedderSpec) -> None:
        """The weights installed now must be those that the generation was made with."""
        named = {"preset": spec.name} if spec.kind == "preset" else {"model": spec.name, "endpoint": spec.endpoint}
        recorded = EmbedderSettings(
            **named,
            revision=spec.revision,
            passage_prefix=spec.passage_prefix,
            query_prefix=spec.query_prefix,
            max_tokens=spec.max_tokens,
        )
        installed = resolve(recorded, spec.name)
        if installed.identity != spec.identity:
            raise IndexStateError(
                f"the generation was made with other weights of {spec.name!r} than those installed now; run "
                "`pincite index` to make a generation with the present ones",
                "wrong_embedder",
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
