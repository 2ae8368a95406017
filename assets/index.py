"""The generation in Postgres: its rows, its publishing, and the generations beside it."""

from datetime import timedelta

import dagster as dg

from assets.declare import asset, buckets_of, patient
from assets.metadata import attach, changes, table
from resources.generations.publish import publish
from resources.generations.upkeep import keep_up
from resources.stages.make import freeze_terms, write_index
from resources.stages.shard_rows import INPUTS
from resources.state.state import State

NIGHTLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=48), warn_window=timedelta(hours=26))
"""Late after a missed night, failed after two."""


@asset("postgres", group="index", reads=["raw_documents", "chunk_terms"], after=["sentence_embeddings"], whole=True)
@patient
def term_statistics(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """In how many chunks each term stands, by who may find them, and the mean length of a chunk, counted over all
    chunks and frozen in the generation: what BM25 weighs terms by. After the embeddings, as sentence_links, so that a
    backfill waits for all buckets but once."""
    generation = freeze_terms(state)
    names = ("chunks", "terms", "average_terms")
    frozen = {name.replace("_", " "): generation.statistics[name] for name in names}
    context.set_data_version(context.asset_key, dg.DataVersion(generation.schema))
    context.add_output_metadata({"generation": generation.generation, **frozen})


@asset("postgres", group="index", reads=INPUTS, after=["term_statistics"])
def indexed_documents(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """A bucket's rows in the generation's Postgres tables. Documents whose rows changed are replaced, each in one
    transaction; the others are not touched."""
    generation = state.ensure_generation()
    report = write_index(state, buckets_of(context))
    stored = {"dagster/table_name": f"{generation.schema}.chunks", "dagster/storage_kind": "postgres"}
    attach(context, report, generation=generation.generation, **stored)


@asset("postgres", group="index", after=["indexed_documents", "sentence_links"], whole=True, freshness=NIGHTLY)
def search_index(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """HNSW indexes built after the load, the audit, the golden questions on the live and the new
    generation, and the pointer to the live one. A generation whose audit finds a problem, or that answers
    the golden questions worse, or lacks most of what is served, is not published."""
    built = publish(state)
    context.add_output_metadata(
        {
            "generation": built.generation,
            "published": built.published,
            "audited": built.audited,
            "problems": table([{"code": code, "message": message} for code, message in built.problems]),
            "golden questions": table(built.comparison),
            **({"notes" if built.published else "why not published": "; ".join(built.notes)} if built.notes else {}),
            **{f"{name} rows": count for name, count in built.counts.items()},
            "seconds": round(built.seconds, 3),
        }
    )


@asset("postgres", group="index", after=["raw_documents"], whole=True)
def kept_generations(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """The generations beside the one that is made. After a change of settings readers are served from the live
    generation until `search_index` publishes the new one, which may be hours later, or never where it is refused. So
    the live one goes on receiving deletions, changes of groups and edits, by its own settings and embedder, and
    generations kept for a rollback receive deletions and changes of groups. All of it follows from the listing, and
    nothing waits for it. Nothing is done where there is but one generation."""
    context.add_output_metadata(changes(keep_up(state)))
