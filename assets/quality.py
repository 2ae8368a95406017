"""What is measured of an index: checks that stop a run, and the scores of golden questions."""

from typing import Any

import dagster as dg

from assets.declare import asset
from assets.metadata import score_chart, score_rows, table
from resources.checks.findings import remedy_of
from resources.checks.stages import CHECKS as CHECKED
from resources.checks.stages import DESCRIPTIONS, unlisted
from resources.checks.stages import check as find
from resources.evaluation.golden import headline, last_scores
from resources.generations.publish import score_live
from resources.state.state import State

# ---------------------------------------------------------------- checks
#
# Asset checks: what must hold before the next stage may build on it.


_SHOWN = 20


def _check(name: str, asset: str) -> dg.AssetChecksDefinition:
    """A blocking check: what comes after the asset is not made where it fails."""

    @dg.asset_check(name=name, asset=asset, description=DESCRIPTIONS[name], blocking=True)
    def check(state: dg.ResourceParam[State]) -> dg.AssetCheckResult:
        problems = find(state, name)
        schema = state.ensure_generation().schema if problems else ""
        shown = [(code, message, remedy_of(code, schema)) for code, message in problems[:_SHOWN]]
        examples = table([dict(zip(("code", "message", "remedy"), each, strict=True)) for each in shown])
        metadata = {"problems": len(problems), "examples": examples}
        return dg.AssetCheckResult(passed=not problems, metadata=metadata)

    return check


@dg.asset_check(
    asset="raw_documents",
    description="Every source that the run was to list could be listed. Of one that could not be nothing was changed.",
)
def sources_listed(state: dg.ResourceParam[State]) -> dg.AssetCheckResult:
    """Warns: the other sources are indexed all the same."""
    failing = unlisted(state)
    told = table([{"source": name, "why": why} for name, why in failing.items()])
    return dg.AssetCheckResult(
        passed=not failing, severity=dg.AssetCheckSeverity.WARN, metadata={"sources_not_listed": told}
    )


CHECKS = [*(_check(name, asset) for name, (asset, _) in CHECKED.items()), sources_listed]


# ---------------------------------------------------------------- quality
#
# Scores of the golden questions on the live generation.


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
