"""Elements to structural chunks."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from pipelines.indexing.structural_chunks import structural_chunks as make
from resources.stage_runner import per_document
from resources.workspace import Workspace


@bucketed("structure", deps=["parsed_elements"], kinds={"parquet", "python"})
def structural_chunks(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """The smallest units never split: paragraphs, list items, table rows, headings, clauses."""
    clause_tokens = workspace.settings.chunking.clause_tokens
    compute = per_document(
        lambda work, doc_id: make(
            work.one("parsed_documents", doc_id), work.all("parsed_elements", doc_id), clause_tokens
        )
    )
    attach(context, workspace.run("structural_chunks", buckets_of(context), compute))
