"""Scores of the golden questions on the live generation."""

import dagster as dg

from assets.metadata import score_chart, table
from assets.partitions import whole
from resources.publishing import score_live
from resources.score_history import headline, last_scores
from resources.workspace import Workspace

_LAST = 30
"""Runs that the picture and the table go back."""


@whole("quality", deps=["search_index"], kinds={"postgres", "python"})
def retrieval_quality(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """The settings' golden questions asked with the shipped strategy. Every number is one that the UI plots
    over materialisations. Without golden questions there is nothing to score, and the metadata says how to
    give some."""
    run = score_live(workspace)
    if run is None:
        context.add_output_metadata({"questions": 0, "remedy": "name a file of golden questions in publish.golden"})
        return
    scores = {name: value for name, value in run["metrics"].items() if value is not None}
    context.add_output_metadata(
        {
            "headline": headline(run),
            **{name: run[name] for name in ("n", "strategy", "at") if name in run},
            **{name: float(value) for name, value in scores.items()},
            "over time": score_chart(workspace.catalog.scores()[-_LAST:]),
            "last runs": table(last_scores(workspace.catalog, _LAST)),
            "scores": table([{"metric": name, "value": round(value, 4)} for name, value in scores.items()]),
        }
    )
