"""Packed chunks to chunks, with overlap where it helps."""

import dagster as dg

from assets.metadata import attach, table
from assets.partitions import bucketed, buckets_of
from resources.status import overlap_rows
from resources.workspace import Workspace


@bucketed("chunks", deps=["packed_chunks", "parsed_elements"], kinds={"parquet", "python"})
def chunks(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """What is embedded and retrieved: the end of the chunk before goes in front where neighbours are
    alike enough. The floor of likeness is calibrated from the corpus, by language, and frozen in the
    generation."""
    generation = workspace.ensure_generation()
    report = workspace.make("chunks", buckets_of(context))
    overlapped = workspace.column("chunks", "has_overlap")
    share = sum(overlapped) / len(overlapped) if overlapped else 0.0
    floors = table(overlap_rows(generation.statistics))
    attach(context, report, generation=generation.generation, overlapped=round(share, 4), calibration=floors)
