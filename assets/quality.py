"""Scores of the golden questions on the live generation."""

from typing import Any

import dagster as dg

from assets.declare import asset
from assets.metadata import score_chart, score_rows, table
from resources.evaluation.golden import headline, last_scores
from resources.generations.publish import score_live
from resources.state.state import State

_LAST = 30
"""Runs that the picture and the tables go back."""


@asset("postgres", "python", group="quality", after=["search_index"], whole=True)
def retrieval_quality(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """The settings' golden questions asked with the shipped strategy. Every number is one that the UI plots
    over materialisations. Without golden questions there is nothing to score, and the metadata says how to
    give some."""
    run = score_live(state)
    unasked = {"questions": 0, "remedy": "name a file of golden questions in publish.golden"}
    context.add_output_metadata(unasked if run is None else {**_scores(run), **_past(state)})


def _scores(run: dict[str, Any]) -> dict[str, Any]:
    scores = {name: value for name, value in run["metrics"].items() if value is not None}
    return {
        "headline": headline(run),
        **{name: run[name] for name in ("n", "strategy", "at") if name in run},
        **{name: float(value) for name, value in scores.items()},
        "scores": table([{"metric": name, "value": round(value, 4)} for name, value in scores.items()]),
    }


def _past(state: State) -> dict[str, Any]:
    scores = state.parts.catalog.scores()[-_LAST:]
    return {
        "over time": score_chart(scores),
        "past scores": table(score_rows(scores)),
        "last runs": table(last_scores(state.parts.catalog, _LAST)),
    }
