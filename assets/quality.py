"""The measures of an index: asset checks that stop a run, and the scores of the golden questions."""

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

# ---------------------------------------------------------------- checks before the next stage


_SHOWN = 20
"""Problems of a check that the UI lists."""


def _check(name: str, asset: str) -> dg.AssetChecksDefinition:
    """Return a blocking check: if it fails, Dagster does not make the assets that depend on this one."""

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
    """Check that every source could be listed. A failure is only a warning, since the other sources are indexed all the
    same."""
    failing = unlisted(state)
    told = table([{"source": name, "why": why} for name, why in failing.items()])
    return dg.AssetCheckResult(
        passed=not failing, severity=dg.AssetCheckSeverity.WARN, metadata={"sources_not_listed": told}
    )


CHECKS = [*(_check(name, asset) for name, (asset, _) in CHECKED.items()), sources_listed]


# ---------------------------------------------------------------- scores of the live generation


_LAST = 30
"""Runs that the chart and the tables go back."""


@asset("postgres", "python", group="quality", after=["search_index"], whole=True)
def retrieval_quality(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Ask the golden questions of the settings with the shipped strategy, and score the answers. The UI plots every
    number over materialisations. If there are no golden questions, nothing is scored, and the metadata says how to give
    some."""
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
    scores = state.catalog.scores()[-_LAST:]
    return {
        "over time": score_chart(scores),
        "past scores": table(score_rows(scores)),
        "last runs": table(last_scores(state.catalog, _LAST)),
    }
