"""What is embedded and retrieved: units packed together, then with overlap where it helps."""

import dagster as dg

from assets.declare import asset, buckets_of, patient
from assets.metadata import attach, histogram, table
from resources.reports.status import overlap_rows
from resources.stages.make import make
from resources.state.state import State


@asset("parquet", "python", group="chunks")
@patient
def packed_chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Own text of the chunks, as the splitter of `chunking.strategy` puts it together. The default packs
    neighbours of one section up to the token budget, never across a heading."""
    report = make(state, "packed_chunks", buckets_of(context))
    attach(context, report, tokens=histogram(state.table("packed_chunks").column("tokens"), 32))


@asset("postgres", "python", group="chunks", reads=["parsed_documents", "packed_chunks"], whole=True)
@patient
def corpus_statistics(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """What belongs to the whole corpus, frozen in the generation before its chunks are made: the embedder where it is
    chosen by the documents' languages, and by language the likeness from which neighbours overlap. Made anew, in a new
    generation, when the corpus has grown or shrunk past `publish.drift`."""
    generation = state.ensure_generation()
    frozen = generation.statistics
    context.set_data_version(context.asset_key, dg.DataVersion(generation.schema))
    context.add_output_metadata(
        {
            "generation": generation.generation,
            "embedder": generation.embedder["name"],
            "packed chunks": frozen["packed_chunks"],
            "documents by language": table(
                [{"language": name, "documents": n} for name, n in frozen["languages"].items()]
            ),
            "calibration": table(overlap_rows(frozen)),
        }
    )


@asset("parquet", "python", group="chunks", after=["corpus_statistics"])
@patient
def chunks(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """What is embedded and retrieved: the end of the chunk before goes in front where neighbours are
    alike enough."""
    generation = state.ensure_generation()
    report = make(state, "chunks", buckets_of(context))
    overlapped = _share(state.table("chunks").column("has_overlap"))
    attach(context, report, generation=generation.generation, overlapped=overlapped)


def _share(flags: list[bool]) -> float:
    return round(sum(flags) / len(flags), 4) if flags else 0.0
