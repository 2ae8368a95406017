"""The assets of the index in Postgres: a generation's term statistics, rows and publishing, and upkeep of the
others."""

from typing import Any

import dagster as dg

from assets.declare import NIGHTLY, asset, buckets_of
from assets.metadata import attach, changes, index_version, log_whole, table
from resources.generations.publish import publish
from resources.generations.upkeep import update_other_generations
from resources.stages.make import freeze_terms, write_index
from resources.stages.part_rows import INPUTS
from resources.state.state import State

NOT_PUBLISHED = "not published"
"""The code version of `search_index` while readers are served from a generation of other settings: it stays stale."""


@asset(
    "postgres",
    group="index",
    reads=["raw_documents", "chunk_terms"],
    after=["sentence_embeddings"],
    whole=True,
    completes=True,
)
def term_statistics(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Count in how many chunks each term occurs, by who may find them, and the mean length of a chunk, over all chunks.
    BM25 weighs terms by these numbers, which are frozen in the generation. The asset comes after the embeddings, like
    sentence_links, so that a backfill waits for all buckets only once."""
    generation = freeze_terms(state)
    names = ("chunks", "terms", "average_terms")
    frozen = {name.replace("_", " "): generation.statistics[name] for name in names}
    log_whole(context, generation.schema, {"generation": generation.generation, **frozen})


@asset("postgres", group="index", reads=INPUTS, after=["term_statistics"])
def indexed_documents(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Write a bucket's rows to the generation's Postgres tables. Documents whose rows changed are replaced, each in one
    transaction. The others are not touched."""
    generation = state.ensure_generation()
    report = write_index(state, buckets_of(context))
    stored: dict[str, Any] = {"dagster/table_name": f"{generation.schema}.chunks", "dagster/storage_kind": "postgres"}
    attach(context, report, generation=generation.generation, **stored)


@asset(
    "postgres",
    group="index",
    after=["indexed_documents", "sentence_links"],
    whole=True,
    completes=True,
    freshness=NIGHTLY,
)
def search_index(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Build the HNSW indexes after the load, audit the generation, ask the golden questions of the live and the new
    one, and set the pointer to the live one. A generation is not published if its audit finds a problem, if it answers
    the golden questions worse, or if it lacks most of the documents that are served."""
    built = publish(state)
    log_whole(
        context,
        index_version(state),
        {
            "generation": built.generation,
            "published": built.published,
            "audited": built.audited,
            "problems": table([{"code": code, "message": message} for code, message in built.problems]),
            "golden questions": table(built.comparison),
            **({"notes" if built.published else "why not published": "; ".join(built.notes)} if built.notes else {}),
            **{f"{name} rows": count for name, count in built.counts.items()},
            "seconds": round(built.seconds, 3),
        },
        code="" if built.published else NOT_PUBLISHED,
    )


@asset("postgres", group="index", after=["raw_documents"], whole=True)
def kept_generations(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Keep the other generations up to date while a new one is built. After a change of settings readers are served
    from the live generation until `search_index` publishes the new one, which may be hours later, or never if it is
    refused. So the live one goes on receiving deletions, changes of groups and edits, with its own settings and
    embedder. Generations kept for a rollback receive deletions and changes of groups. All of it follows from the
    listing, and nothing waits for it. If there is only one generation, nothing is done."""
    context.add_output_metadata(changes(update_other_generations(state)))
