"""Documents to elements, figures with words, and the smallest units never split."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach, table
from resources.kept_generations import restrict
from resources.status import document_warnings
from resources.workspace import Workspace

_SHOWN = 50


@asset("parquet", "python")
def parsed_elements(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Blocks in reading order (headings, paragraphs, lists, tables, ...), parsed in worker processes
    under time and memory limits. A document that fails is named; the others go on."""
    report = workspace.make("parsed_elements", buckets_of(context))
    restrict(workspace)
    said = [warning for warnings in document_warnings(workspace).values() for warning in warnings]
    attach(context, report, warnings=table(said[:_SHOWN]))


@asset("parquet", "python", pool="llm")
def figure_descriptions(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """What a model that sees says of each distinct picture; empty where the role `figure` is not given."""
    attach(context, workspace.make("figure_descriptions", buckets_of(context)))


@asset("parquet", "python")
def structural_chunks(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """The smallest units never split: paragraphs, list items, table rows, headings, clauses."""
    attach(context, workspace.make("structural_chunks", buckets_of(context)))
