"""The generations beside the one that is made."""

import dagster as dg

from assets.partitions import whole
from resources.kept_generations import keep_up
from resources.workspace import Workspace


@whole("index", deps=["raw_documents"], kinds={"postgres"})
def kept_generations(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """While another generation is made, the live one goes on receiving deletions, changes of groups and
    edits, by its own settings and embedder; generations kept for a rollback receive deletions and
    changes of groups. Nothing is done where there is but one."""
    report = keep_up(workspace)
    context.add_output_metadata(
        {
            "documents changed": report.computed,
            "documents removed": report.gone,
            "rows written": report.written,
            "seconds": round(report.seconds, 3),
            **report.notes,
        }
    )
