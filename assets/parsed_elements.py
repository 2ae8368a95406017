"""Raw documents to elements with pages and boxes."""

import dagster as dg

from assets.metadata import attach, table
from assets.partitions import bucketed, buckets_of
from resources.kept_generations import restrict
from resources.status import document_warnings
from resources.workspace import Workspace

MOST_WARNINGS = 50


@bucketed("structure", deps=["raw_documents"], kinds={"parquet", "python"})
def parsed_elements(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Blocks in reading order (headings, paragraphs, lists, tables, ...), parsed in worker processes
    under time and memory limits. A document that fails is named; the others go on."""
    report = workspace.make("parsed_elements", buckets_of(context))
    restrict(workspace)
    said = [warning for warnings in document_warnings(workspace).values() for warning in warnings]
    attach(context, report, warnings=table(said[:MOST_WARNINGS]))
