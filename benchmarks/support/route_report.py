"""The tables of benchmarks/routes.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.support.parsing_report import table
from benchmarks.support.route_figures import DEFAULT, NO_LINKS, RIVAL, Answered, by_set, difference, mean

SCORES = {"recall@1": "R@1", "recall@3": "R@3", "recall@5": "R@5", "mrr": "MRR", "precision@3": "P@3",
          "read 200": "read 200", "read 500": "read 500", "read 1000": "read 1000"}  # fmt: skip
SPANS = {"span_recall": "span recall@5", "span_precision": "precision", "span_iou": "IoU"}
GAINS = {
    "R@5": ("recall@5", RIVAL, DEFAULT),
    "R@5 over dense": ("recall@5", RIVAL, "dense"),
    "R@1": ("recall@1", RIVAL, DEFAULT),
    "read 200": ("read 200", RIVAL, DEFAULT),
    "read 500": ("read 500", RIVAL, DEFAULT),
    "R@5 by links": ("recall@5", RIVAL, NO_LINKS),
}
"""(metric, route, route that it is set against) by heading."""


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def groups(answers: Sequence[Answered]) -> Iterator[tuple[str, list[Answered]]]:
    """(set, questions), and all that count; sets that do not are in brackets."""
    for name, own in by_set(answers).items():
        yield name if own[0].counts else f"({name})", own
    if counting := [answer for answer in answers if answer.counts]:
        yield "all", counting


def overview(answers: Sequence[Answered]) -> list[str]:
    """Chunks against sentences, in percent, as docs/measured/sentences.md holds it."""
    rows = []
    for name, own in groups(answers):
        pairs = []
        for metric in ("recall@1", "recall@5", "mrr", "precision@3", "read 200", "read 500"):
            pairs.append(" / ".join(percent(mean(own, route, metric)) for route in (DEFAULT, RIVAL)))
        read = " / ".join(f"{mean(own, route, 'tokens'):.0f}" for route in (DEFAULT, RIVAL))
        gain = difference(own, "recall@5")
        rows.append([name, str(len(own)), *pairs[:2], gain.shown if gain else "", *pairs[2:], read])
    return table(("set", "n", "R@1", "R@5", "R@5, won", "MRR", "P@3", "read 200", "read 500", "tokens"), rows)


def route_tables(answers: Sequence[Answered]) -> Iterator[list[str]]:
    """Scores by route, paired differences in points with their 95 % intervals, and spans."""
    scores, gains, spans = [], [], []
    for name, own in groups(answers):
        found = [difference(own, *compared) for compared in GAINS.values()]
        gains.append([name, str(len(own)), *(gain.shown if gain else "" for gain in found)])
        for route in (DEFAULT, "dense", RIVAL):
            scores.append([name, str(len(own)), route, *(percent(mean(own, route, metric)) for metric in SCORES)])
        for route in (DEFAULT, RIVAL):
            if mean(own, route, "span_recall") is not None:
                read = f"{mean(own, route, 'tokens'):.0f}"
                spans.append([name, route, *(percent(mean(own, route, metric)) for metric in SPANS), read])
    yield table(("set", "n", "route", *SCORES.values()), scores)
    yield table(("set", "n", *GAINS), gains)
    yield table(("set", "route", *SPANS.values(), "tokens of five hits"), spans)
