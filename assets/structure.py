"""Documents to elements, figures with words, and the smallest units never split."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach, table
from resources.generations.upkeep import restrict, restricted_whatever
from resources.reports.status import document_warnings
from resources.stages.make import make
from resources.state.state import State

_SHOWN = 50


@asset("parquet", "python", group="structure")
def parsed_elements(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Blocks in reading order (headings, paragraphs, lists, tables, ...), parsed in worker processes
    under time and memory limits. A document that fails is named; the others go on."""
    with restricted_whatever(state):
        report = make(state, "parsed_elements", buckets_of(context))
    restrict(state)
    said = [warning for warnings in document_warnings(state).values() for warning in warnings]
    attach(context, report, warnings=table(said[:_SHOWN]))


@asset("parquet", "python", group="structure", pool="llm")
def figure_descriptions(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """What a model that sees says of each distinct picture; empty where the role `figure` is not given."""
    attach(context, make(state, "figure_descriptions", buckets_of(context)))


@asset("parquet", "python", group="structure")
def structural_chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """The smallest units never split: paragraphs, list items, table rows, headings, clauses."""
    attach(context, make(state, "structural_chunks", buckets_of(context)))
