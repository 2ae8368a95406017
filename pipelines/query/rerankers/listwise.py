"""A language model orders the candidates (Sun et al., Is ChatGPT good at search?, 2023).

More than WINDOW of them are ordered in windows that slide from the last candidate to the first, by
STEP, so that a good passage can rise all the way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.llm.prompts import as_data
from pipelines.llm.reply_text import clipped
from pipelines.ports import NoReply, Prompt, Reply
from pipelines.query.rerankers.context import RerankContext, full_text, reordered
from pipelines.query.results import Scored
from pipelines.query.tools import ask, numbers_of, prompted

WINDOW, STEP = 20, 10
LONGEST_PASSAGE = 1_500
"""Characters of a passage that are read: the window must fit a model's context."""
TOKENS_A_NUMBER = 8

_BRACKETED = re.compile(r"\[\s*(\d+)\s*\]")
_RUN = re.compile(r"\[?(?<!\d)\d++\]?(?:[\s>,;]++\[?\d++\]?)++")
_LIST_MARK = re.compile(r"^[^\S\n]*+(?:\d++[.)]|[-*])\s++(?=\[?\d)", re.MULTILINE)


def _valid(numbers: str, count: int) -> list[int]:
    """Places from 0, each once, that the numbers in a text name."""
    return list(dict.fromkeys(number - 1 for number in numbers_of(numbers) if 0 < number <= count))


def permutation(reply: str, count: int) -> list[int] | None:
    """All places from 0 to count - 1 as the reply orders them; None where it names none.

    The run of numbers that names most (`[2] > [1] > [3]`, `2, 1, 3`, one a line, numbered or not) is
    the order; without a run, the numbers in brackets as they come. A number named twice counts
    once, places not named follow in the order they had."""
    text = _LIST_MARK.sub("", reply)
    runs = [_valid(run, count) for run in _RUN.findall(text)]
    named = max(runs, key=len, default=[])
    if len(named) < 2:
        named = _valid(" ".join(_BRACKETED.findall(text)) or text, count)
    return [*named, *(place for place in range(count) if place not in named)] if named else None


def _shown(candidates: Sequence[Scored]) -> str:
    texts = (clipped(full_text(item.passage), LONGEST_PASSAGE) for item in candidates)
    return "\n\n".join(f"[{n}]\n<passage>\n{as_data(text)}\n</passage>" for n, text in enumerate(texts, 1))


def _ordered(window: Sequence[Scored], context: RerankContext) -> list[Scored] | None:
    """The candidates of a window as the model orders them; None, and a note, where it does not."""
    count = len(window)
    system, user = prompted(context.tools, "listwise", context.question, passages=_shown(window), count=count)

    def malformed(reply: Reply) -> str | None:
        return None if permutation(reply.text, count) else "it names no passage"

    model = context.tools.model("rerank")
    (reply,) = ask(model, [Prompt(system, user, most_tokens=count * TOKENS_A_NUMBER + 64)], malformed)
    order = None if isinstance(reply, NoReply) else permutation(reply.text, count)
    if order is None:
        why = reply.message if isinstance(reply, NoReply) else "it names no passage"
        context.notes.append(f"listwise: {model.name} gave no order ({why}); the incoming one stays")
        return None
    return [window[place] for place in order]


def listwise(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Candidates in the model's order; the score falls evenly with the place, from 1 for the first.
    Where the model gives no order, the incoming one stays."""
    order, count = list(candidates), len(candidates)
    start, answered = max(0, count - WINDOW), count == 1
    while count > 1:
        if found := _ordered(order[start : start + WINDOW], context):
            order[start : start + WINDOW], answered = found, True
        if start == 0:
            break
        start = max(0, start - STEP)
    if not answered:
        return list(candidates)
    return reordered("listwise", order, [1 - place / count for place in range(count)])
