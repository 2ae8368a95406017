"""What the figures of two routes say of each set.

A question is asked of both routes, so that differences are paired: the interval of a mean difference is a
bootstrap over questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipelines.evaluation.judging import bootstrap_interval

DEFAULT, RIVAL, NO_LINKS = "hybrid", "sentence", "sentence, no links"


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and what each route scored with it: {route: {metric: value}}; None where its gold gives none.
    Those that do not `count` are told apart from all."""

    dataset: str
    id: str
    scores: Mapping[str, Mapping[str, float | None]]
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Difference:
    """Of `route` over `base`: the mean over n questions and its 95 % interval, as fractions."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def shown(self) -> str:
        return f"{100 * self.mean:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"


def values(answers: Sequence[Answered], route: str, metric: str) -> list[float]:
    return [value for answer in answers if (value := answer.scores[route][metric]) is not None]


def mean(answers: Sequence[Answered], route: str, metric: str) -> float | None:
    found = values(answers, route, metric)
    return fmean(found) if found else None


def difference(answers: Sequence[Answered], metric: str, route: str = RIVAL, base: str = DEFAULT) -> Difference | None:
    """None where no question gives the metric."""
    pairs = [(answer.scores[route][metric], answer.scores[base][metric]) for answer in answers]
    found = [mine - other for mine, other in pairs if mine is not None and other is not None]
    return Difference(fmean(found), *bootstrap_interval(found), len(found)) if found else None


def by_set(answers: Sequence[Answered]) -> dict[str, list[Answered]]:
    found: dict[str, list[Answered]] = {}
    for answer in answers:
        found.setdefault(answer.dataset, []).append(answer)
    return found
