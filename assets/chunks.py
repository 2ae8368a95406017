"""What is embedded and retrieved: units packed together, then with overlap where it helps."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach, histogram, table
from assets.retries import patient
from resources.reports.status import overlap_rows
from resources.stages.make import make
from resources.state.state import State


@asset("parquet", "python")
@patient
def packed_chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Own text of the chunks, as the splitter of `chunking.strategy` puts it together. The default packs
    neighbours of one section up to the token budget, never across a heading."""
    report = make(state, "packed_chunks", buckets_of(context))
    attach(context, report, tokens=histogram(state.table("packed_chunks").column("tokens"), 32))


@asset("parquet", "python")
@patient
def chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """What is embedded and retrieved: the end of the chunk before goes in front where neighbours are
    alike enough. The floor of likeness is calibrated from the corpus, by language, and frozen in the
    generation."""
    generation = state.ensure_generation()
    report = make(state, "chunks", buckets_of(context))
    overlapped, floors = _share(state.table("chunks").column("has_overlap")), table(overlap_rows(generation.statistics))
    attach(context, report, generation=generation.generation, overlapped=overlapped, calibration=floors)


def _share(flags: list[bool]) -> float:
    return round(sum(flags) / len(flags), 4) if flags else 0.0
