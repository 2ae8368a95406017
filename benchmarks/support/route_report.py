"""The tables of benchmarks/routes.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.support.parsing_report import table
from benchmarks.support.route_figures import DEFAULT, NO_LINKS, RIVAL, Answered, Decision, by_set, difference, mean
from pipelines.query.classes import CLASSES, question_class

LABELS = Path(__file__).with_name("question_classes.json")
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


def groups(answers: Sequence[Answered]) -> Iterator[tuple[str, str, list[Answered]]]:
    """(class, set, questions), and of each class all that decide; sets that do not are in brackets."""
    for kind in CLASSES:
        own = [answer for answer in answers if answer.kind == kind]
        for name, some in by_set(own).items():
            yield kind, name if some[0].decides else f"({name})", some
        if deciding := [answer for answer in own if answer.decides]:
            yield kind, "all", deciding


def overview(answers: Sequence[Answered]) -> list[str]:
    """Chunks against sentences, in percent, as docs/measured/sentences.md holds it."""
    rows = []
    for kind, name, own in groups(answers):
        pairs = []
        for metric in ("recall@1", "recall@5", "mrr", "precision@3", "read 200", "read 500"):
            pairs.append(" / ".join(percent(mean(own, route, metric)) for route in (DEFAULT, RIVAL)))
        read = " / ".join(f"{mean(own, route, 'tokens'):.0f}" for route in (DEFAULT, RIVAL))
        gain = difference(own)
        rows.append([kind, name, str(len(own)), *pairs[:2], gain.shown if gain else "", *pairs[2:], read])
    return table(("class", "set", "n", "R@1", "R@5", "R@5, won", "MRR", "P@3", "read 200", "read 500", "tokens"), rows)


def route_tables(answers: Sequence[Answered]) -> Iterator[list[str]]:
    """Scores by route, paired differences in points with their 95 % intervals, and spans."""
    scores, gains, spans = [], [], []
    for kind, name, own in groups(answers):
        found = [difference(own, *compared) for compared in GAINS.values()]
        gains.append([kind, name, str(len(own)), *(gain.shown if gain else "" for gain in found)])
        for route in (DEFAULT, "dense", RIVAL):
            scores.append([kind, name, str(len(own)), route, *(percent(mean(own, route, metric)) for metric in SCORES)])
        for route in (DEFAULT, RIVAL):
            if mean(own, route, "span_recall") is not None:
                read = f"{mean(own, route, 'tokens'):.0f}"
                spans.append([kind, name, route, *(percent(mean(own, route, metric)) for metric in SPANS), read])
    yield table(("class", "set", "n", "route", *SCORES.values()), scores)
    yield table(("class", "set", "n", *GAINS), gains)
    yield table(("class", "set", "route", *SPANS.values(), "tokens of five hits"), spans)


def accuracy(answers: Sequence[Answered]) -> list[str]:
    """How often the rules give the class that a reader gave to the question."""
    texts = {answer.id: answer.text for answer in answers}
    rows = []
    for name, labels in json.loads(LABELS.read_text(encoding="utf-8")).items():
        known = [question_class(texts[key]) == label for key, label in labels.items() if key in texts]
        rows.append([name, str(len(known)), percent(sum(known) / len(known)) if known else ""])
    return table(("labelled by a reader", "questions", "same class by the rules"), rows)


def decision_table(made: Mapping[str, Decision]) -> list[str]:
    rows = []
    for kind, one in made.items():
        shown = [str(one.difference.n), one.difference.shown] if one.difference else ["0", ""]
        rows.append([kind, *shown, one.strategy, one.why])
    return table(("class", "n", f"R@5, {RIVAL} over {DEFAULT}", "goes to", "since it"), rows)
