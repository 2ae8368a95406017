"""The reading of one generation for one question, which returns its connection to the pool while it waits for a model.

A slow model must not occupy a connection, since a server has few. Later reads use the same generation in a new
transaction: a document that was replaced in the meantime is left out, or read in its new version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.query.tools import ModelFunctions

if TYPE_CHECKING:
    from psycopg import Connection

    from pipelines.ports import CrossEncoder, LanguageModel, NoReply, Prompt, Reply, ReplyCheck, Vectors
    from resources.postgres.search_index import PostgresSearchIndex

T = TypeVar("T")
Opened = AbstractContextManager["tuple[Connection[Any], PostgresSearchIndex]"]
LEAST_SECONDS = 0.05
"""Seconds for a statement when the time is up; 0 would mean no limit."""
_until: ContextVar[float | None] = ContextVar("until", default=None)
"""Time (of the monotonic clock) after which nobody waits for this thread's work."""


def answered_within(seconds: float | None, work: Callable[[], T]) -> T:
    """Do `work` and return its result. Its statements get no more time than the rest of `seconds`."""
    token = _until.set(None if seconds is None else time.monotonic() + seconds)
    try:
        return work()
    finally:
        _until.reset(token)


def seconds_left(most: float | None) -> float | None:
    """Return the seconds that a statement may take, at most `most`; None means no limit."""
    until = _until.get()
    if until is None:
        return most
    left = max(until - time.monotonic(), LEAST_SECONDS)
    return left if most is None else min(most, left)


class IndexReading:
    """A context manager for one question. Reading `index` uses the open transaction, or opens one."""

    def __init__(self, opening: Callable[[int | None], Opened], generation: int | None) -> None:
        self._opening, self._generation = opening, generation
        self._stack = ExitStack()
        self.index: PostgresSearchIndex

    def __enter__(self) -> IndexReading:
        _, self.index = self._stack.enter_context(self._opening(self._generation))
        self._generation = self.index.generation.number
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)

    def rest(self) -> None:
        """End the transaction and return the connection to the pool until the next read."""
        self._stack.close()
        self.index.rest(self._resume)

    def _resume(self) -> PostgresSearchIndex:
        self._stack = ExitStack()
        _, index = self._stack.enter_context(self._opening(self._generation))
        return index

    def resting(self, tools: ModelFunctions, far_embedder: bool) -> ModelFunctions:
        """Return the same tools, which return the connection to the pool before slow work: language models,
        cross-encoders, and an embedder behind an endpoint."""

        def embedding(embed: Callable[[Sequence[str]], Vectors]) -> Callable[[Sequence[str]], Vectors]:
            def embed_texts(texts: Sequence[str]) -> Vectors:
                self.rest()
                return embed(texts)

            return embed_texts if far_embedder else embed

        return replace(
            tools,
            embed_queries=embedding(tools.embed_queries),
            embed_passages=embedding(tools.embed_passages),
            model=lambda role: _RestingModel(tools.model(role), self.rest),
            cross_encoder=lambda: _RestingCrossEncoder(tools.cross_encoder(), self.rest),
        )


class _RestingModel:
    def __init__(self, model: LanguageModel, rest: Callable[[], None]) -> None:
        self._model, self._rest = model, rest

    @property
    def name(self) -> str:
        return self._model.name

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply | NoReply, None, None]:
        self._rest()
        return self._model.replies(prompts, unusable)


class _RestingCrossEncoder:
    def __init__(self, encoder: CrossEncoder, rest: Callable[[], None]) -> None:
        self._encoder, self._rest = encoder, rest

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        self._rest()
        return self._encoder.scores(question, passages)
