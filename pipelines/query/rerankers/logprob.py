"""A language model says, of each passage alone, whether it answers the question.

logprob = sigmoid(log P(yes) - log P(no)), from the probabilities of the reply's first token. One
token writes a word in several ways (`Yes`, ` yes`, `Так`), or only begins it (`Та`): all of them count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipelines.llm.prompts import as_data
from pipelines.llm.reply_text import clipped
from pipelines.ports import Prompt, Reply
from pipelines.query.rerankers.context import RerankContext, full_text, reordered
from pipelines.query.results import Scored
from pipelines.query.tools import ask, prompted

YES, NO = ("yes", "так"), ("no", "ні")
TOP_LOGPROBS = 20
LONGEST_PASSAGE = 6_000
"""Characters of a passage that are read."""
UNKNOWN = 0.5
_LEAST_REST = 1e-9
"""What is left beside the alternatives told: theirs are rounded, and may add up to 1 or more."""
_AROUND = " \t\n\"'«»“”*_.,:;!▁Ġ"
"""Not part of a word: marks around it, and those with which tokenizers write a space before it."""


def _says(token: str, words: Sequence[str]) -> bool:
    piece = token.strip(_AROUND).casefold()
    return bool(piece) and any(word.startswith(piece) for word in words)


def _total(logprobs: Sequence[float]) -> float:
    """The logarithm of the sum of probabilities."""
    most = max(logprobs)
    return most + math.log(sum(math.exp(value - most) for value in logprobs))


def answer_score(logprobs: Sequence[tuple[str, float]]) -> float | None:
    """sigmoid(log P(yes) - log P(no)); None where neither is among the alternatives.

    One that is missing is at most as probable as the least of those told, and as all that is not told
    together; it is taken for the lower of the two."""
    rest = 1.0 - sum(math.exp(min(value, 0.0)) for _, value in logprobs)
    least = min(math.log(max(rest, _LEAST_REST)), *(value for _, value in logprobs))
    yes = [value for token, value in logprobs if _says(token, YES)]
    no = [value for token, value in logprobs if _says(token, NO)]
    if not yes and not no:
        return None
    difference = _total(yes or [least]) - _total(no or [least])
    return 1.0 / (1.0 + math.exp(-difference)) if difference > -700 else 0.0


def _any(reply: Reply) -> str | None:
    """Only the probabilities are read; an endpoint that tells none is an error of the call."""
    return None


def logprob(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Candidates by the model's answer. One that it answers neither yes nor no is in the middle, and
    noted. Raises ModelError `no_logprobs` where the endpoint tells no probabilities."""
    model = context.tools.model("rerank")
    prompts = []
    for item in candidates:
        passage = as_data(clipped(full_text(item.passage), LONGEST_PASSAGE))
        system, user = prompted(context.tools, "logprob", context.question, passage=passage)
        prompts.append(Prompt(system, user, most_tokens=1, top_logprobs=TOP_LOGPROBS))
    replies = ask(model, prompts, _any)
    scores = [
        answer_score(reply.logprobs) if isinstance(reply, Reply) and reply.logprobs else None for reply in replies
    ]
    if unknown := scores.count(None):
        context.notes.append(f"logprob: {model.name} said neither yes nor no of {unknown} of {len(scores)} passages")
    return reordered("logprob", candidates, [UNKNOWN if score is None else score for score in scores])
