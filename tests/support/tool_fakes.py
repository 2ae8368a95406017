"""Tools for tests of strategies and rerankers: a language model with answers laid out beforehand."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np

from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck, Vectors
from pipelines.query.rerankers import RerankContext
from pipelines.query.tools import ModelFunctions
from pipelines.settings.query import QuerySettings
from tests.support.places import ROOT

PROMPTS = ROOT / "prompts"

Answer = str | Reply | NoReply
Answers = Callable[[Prompt], Answer]


class FakeModel:
    """Answers in the order given, or by a function of the prompt; remembers what it was asked. As the
    real one, it gives NoReply for a reply that the asker cannot use."""

    name = "fake-model"

    def __init__(self, *answers: Answer, by: Answers | None = None) -> None:
        self.left, self.by = list(answers), by
        self.asked: list[Prompt] = []

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply | NoReply, None, None]:
        for prompt in prompts:
            self.asked.append(prompt)
            answer = self.by(prompt) if self.by else self.left.pop(0)
            reply = Reply(answer) if isinstance(answer, str) else answer
            why = unusable(reply) if isinstance(reply, Reply) else None
            yield NoReply("unusable", why) if why else reply


def shipped_prompt(name: str, language: str) -> PromptTemplate:
    texts = {path.suffixes[0][1:]: path.read_text(encoding="utf-8") for path in PROMPTS.glob(f"{name}.*.md")}
    return in_language(templates_of(name, texts), language)


def lengths(texts: Sequence[str]) -> Vectors:
    """A vector a text, by which a test knows it again."""
    return np.array([[float(len(text)), 1.0] for text in texts], dtype=np.float32)


def _never(*values: Any) -> Any:
    raise AssertionError(f"not to be asked: {values}")


def tools(model: FakeModel | None = None, /, **parts: Any) -> ModelFunctions:
    """Tools of which only those named, the prompts, and the model may be used."""
    given = {} if model is None else {"model": lambda role: model}
    named = ("embed_queries", "embed_passages", "model", "cross_encoder")
    return ModelFunctions(prompts=shipped_prompt, **{**dict.fromkeys(named, _never), **given, **parts})


def context(
    model: FakeModel | None = None, newest: str | None = None, question: str = "What is it?", **values: Any
) -> RerankContext:
    """A context; `cross_encoder` is a tool, other values are settings."""
    parts = {name: values.pop(name) for name in ("cross_encoder",) if name in values}
    return RerankContext(question, QuerySettings(**values), tools(model, **parts), lambda: newest)
