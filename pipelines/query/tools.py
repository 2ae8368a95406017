"""The external services that a query may use, and its calls to a language model.

Every tool is a function that is called only by a strategy or reranker that needs it: a plain query loads no
cross-encoder and needs no endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pipelines.errors import ModelError
from pipelines.llm.prompts import PromptTemplate, as_data
from pipelines.ports import CrossEncoder, LanguageModel, NoReply, Prompt, Reply, ReplyCheck, Vectors

_NUMBER = re.compile(r"\d++")
_CYRILLIC = re.compile(r"[\u0400-\u052f]")
_LATIN = re.compile(r"[a-z]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelFunctions:
    """The functions that reach models. `embed_queries` and `embed_passages` return one unit vector for each text.
    `model` returns the language model of a role and raises SettingsError if none is set. `prompts` returns a prompt by
    name and language. `cross_encoder` returns the cross-encoder of the settings, loaded once."""

    embed_queries: Callable[[Sequence[str]], Vectors]
    embed_passages: Callable[[Sequence[str]], Vectors]
    model: Callable[[str], LanguageModel]
    prompts: Callable[[str, str], PromptTemplate]
    cross_encoder: Callable[[], CrossEncoder]


def language_of(question: str) -> str:
    """Return the language of the prompts to use: `uk` if at least a third of the letters are Cyrillic (names are often
    Latin), else `en`."""
    cyrillic, latin = len(_CYRILLIC.findall(question)), len(_LATIN.findall(question))
    return "uk" if cyrillic and 2 * cyrillic >= latin else "en"


def prompt(tools: ModelFunctions, name: str, question: str, **values: object) -> tuple[str, str]:
    """Return (system, user) of a prompt in the question's language; values from documents must be escaped already."""
    return tools.prompts(name, language_of(question)).render(question=as_data(question), **values)


def ask(model: LanguageModel, prompts: Sequence[Prompt], unusable: ReplyCheck) -> list[Reply | NoReply]:
    """Return a reply to each prompt, in order; NoReply only if the model answered and no answer could be used.

    Raise ModelError with the code of the first NoReply of another kind: an endpoint that does not answer, or refuses,
    would fail for the next prompt too.
    """
    replies = []
    for reply in model.replies(prompts, unusable):
        if isinstance(reply, NoReply) and reply.code != "unusable":
            raise ModelError(f"the language model {model.name!r} gave no answer: {reply.message}", reply.code)
        replies.append(reply)
    return replies


def uncut(reply: Reply) -> Reply:
    """Return the reply as if it were complete. This is for text that is only used for searching, which may stop in the
    middle."""
    return replace(reply, finish="stop") if reply.finish == "length" else reply


def numbers_of(reply: str) -> list[int]:
    """Return the whole numbers in a reply, which are positions in the prompt's list. Numbers are cut to ten digits,
    since longer ones cannot be positions."""
    return [int(number[:10]) for number in _NUMBER.findall(reply)]
