"""Golden questions put to a search, and the scores of the run.

Means are over the questions with gold; a metric that no question can give is null. Intervals are
bootstrap percentiles over questions, from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pipelines.evaluation.golden import MappedQuestion
from pipelines.evaluation.judging import ANSWER_METRICS, LEAST_RANKED, METRICS, Corpus, Outcome, judge, judge_answer
from pipelines.query.results import Hit
from pipelines.query.retrieve import Question
from pipelines.settings.query import MEASURED_HITS

__all__ = ["METRICS", "Corpus", "Outcome", "ask_all", "run_json"]

SEED = 20_260_101
RESAMPLES = 1_000

Search = Callable[[Question, int], Sequence[Hit]]
"""A search: (question, k) to ranked hits."""

Answering = Callable[[str, Mapping[str, str]], Mapping[str, Any]]
"""An answerer: (question, options by letter) to the JSON of `ask`."""

Clock = Callable[[], float]
OptionsUse = Literal["none", "lexical", "all"]


def asked(mapped: MappedQuestion, options: OptionsUse) -> Question:
    """Return the question as each route gets it."""
    text = mapped.question.question
    longer = " ".join([text, *mapped.question.options.values()])
    if options == "all":
        return Question(longer)
    return Question(text, lexical=longer if options == "lexical" else None)


def bootstrap_interval(values: Sequence[float], resamples: int = RESAMPLES, seed: int = SEED) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean, by resampling questions."""
    sample = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(sample), size=(resamples, len(sample)))
    low, high = np.percentile(sample[picks].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def summary(outcomes: Sequence[Outcome]) -> tuple[dict[str, float | None], dict[str, list[float] | None]]:
    """Return mean and interval of every metric; answer metrics only if answers were asked for."""
    means: dict[str, float | None] = {}
    intervals: dict[str, list[float] | None] = {}
    answered = any(ANSWER_METRICS[0] in outcome.scores for outcome in outcomes)
    for name in (*METRICS, *(ANSWER_METRICS if answered else ())):
        values = [value for outcome in outcomes if (value := outcome.scores[name]) is not None]
        means[name] = float(np.mean(values)) if values else None
        intervals[name] = list(bootstrap_interval(values)) if values else None
    return means, intervals


def ask_all(
    questions: Sequence[MappedQuestion],
    search: Search,
    corpus: Corpus,
    clock: Clock,
    *,
    k: int = MEASURED_HITS,
    options: OptionsUse = "none",
    answering: Answering | None = None,
) -> list[Outcome]:
    """Ask every question, rank at least 20 hits whatever k, and judge them; with `answering` judge an answer too, whose
    time does not count."""
    outcomes = []
    for mapped in questions:
        begun = clock()
        hits = search(asked(mapped, options), max(k, LEAST_RANKED))
        outcome = judge(mapped, hits, corpus, k, clock() - begun)
        if answering is not None:
            answer = answering(mapped.question.question, mapped.question.options)
            more = judge_answer(mapped, answer, hits, corpus, outcome.scores)
            outcome = replace(outcome, scores={**outcome.scores, **more})
        outcomes.append(outcome)
    return outcomes


def run_json(
    outcomes: Sequence[Outcome],
    unmapped: Sequence[Mapping[str, Any]],
    *,
    name: str,
    strategy: str,
    rerank: Sequence[str],
) -> dict[str, Any]:
    """Return one element of `runs` in the JSON of `eval`. `n` counts the questions that have gold."""
    means, intervals = summary(outcomes)
    kinds = [outcome.diagnosis for outcome in outcomes if outcome.diagnosis]
    return {
        "name": name,
        "strategy": strategy,
        "rerank": list(rerank),
        "n": len(kinds),
        "metrics": means,
        "ci95": intervals,
        "unmapped": len(unmapped),
        "unmapped_gold": [dict(item) for item in unmapped],
        "diagnosis": {kind: kinds.count(kind) for kind in ("found", "ranking", "retrieval", "parsing")},
        "seconds_per_query": sum(outcome.seconds for outcome in outcomes) / len(outcomes) if outcomes else None,
    }
