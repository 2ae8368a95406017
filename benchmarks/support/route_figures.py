"""What the figures of two routes say of each class of question, and the rules by which one is the default.

A question is asked of both routes, so that differences are paired: the interval of a mean difference is a
bootstrap over questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipelines.evaluation.evaluate import bootstrap_interval
from pipelines.query.classes import CLASSES

DEFAULT, RIVAL, NO_LINKS = "hybrid", "sentence", "sentence, no links"
DECIDING = "recall@5"
MARGINS: Mapping[str, float] = {"table": 0.05, "fact": 0.03, "broad": 0.03, "multi-hop": 0.03}
"""By how much the rival must win over all questions of a class."""
LEAST = 20
"""Questions of a class that a set must have for it to forbid what the others allow."""

RULES = (
    f"A class goes to the route `{RIVAL}` by default only where its {DECIDING} over all questions of that class is "
    f"higher than that of `{DEFAULT}` by {100 * MARGINS['fact']:.0f} points ({100 * MARGINS['table']:.0f} for tables), "
    f"and lower on no set with at least {LEAST} questions of it."
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and what each route scored with it: {route: {metric: value}}; None where its gold gives none.
    Those that do not `decide` are reported only."""

    dataset: str
    id: str
    text: str
    kind: str
    scores: Mapping[str, Mapping[str, float | None]]
    decides: bool = True


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


@dataclass(frozen=True, slots=True)
class Decision:
    strategy: str
    why: str
    difference: Difference | None


def values(answers: Sequence[Answered], route: str, metric: str) -> list[float]:
    return [value for answer in answers if (value := answer.scores[route][metric]) is not None]


def mean(answers: Sequence[Answered], route: str, metric: str) -> float | None:
    found = values(answers, route, metric)
    return fmean(found) if found else None


def difference(
    answers: Sequence[Answered], metric: str = DECIDING, route: str = RIVAL, base: str = DEFAULT
) -> Difference | None:
    """None where no question gives the metric."""
    pairs = [(answer.scores[route][metric], answer.scores[base][metric]) for answer in answers]
    found = [mine - other for mine, other in pairs if mine is not None and other is not None]
    return Difference(fmean(found), *bootstrap_interval(found), len(found)) if found else None


def by_set(answers: Sequence[Answered]) -> dict[str, list[Answered]]:
    found: dict[str, list[Answered]] = {}
    for answer in answers:
        found.setdefault(answer.dataset, []).append(answer)
    return found


def decision(answers: Sequence[Answered], margin: float) -> Decision:
    """Of the questions of one class."""
    deciding = [answer for answer in answers if answer.decides]
    overall = difference(deciding)
    if overall is None:
        return Decision(DEFAULT, "no question of it", None)
    if round(overall.mean, 9) < margin:
        return Decision(DEFAULT, f"wins by less than {100 * margin:.0f} points", overall)
    for name, own in by_set(deciding).items():
        there = difference(own)
        if there and there.n >= LEAST and there.mean < 0:
            return Decision(DEFAULT, f"loses on {name}", overall)
    return Decision(RIVAL, f"wins by {100 * margin:.0f} points", overall)


def decisions(answers: Sequence[Answered]) -> dict[str, Decision]:
    """By class, in the order of CLASSES."""
    return {kind: decision([each for each in answers if each.kind == kind], MARGINS[kind]) for kind in CLASSES}
