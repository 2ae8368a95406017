"""The assets of the index in Postgres: a generation's term statistics, rows and publishing; the upkeep of other
generations; the checks that stop a run; and the scores of the golden questions."""

from typing import Any

import dagster as dg

from assets.declare import NIGHTLY, asset, buckets_of
from assets.metadata import attach, log_whole, score_chart, score_rows, table, told_by_check
from resources.checks.stages import CHECKS as CHECKED
from resources.checks.stages import DESCRIPTIONS
from resources.checks.stages import check as find
from resources.generations.direct_run import NOT_PUBLISHED, changes, index_version, problems_told, unlisted_check
from resources.generations.publish import publish, score_live
from resources.generations.upkeep import update_other_generations
from resources.stages.make import freeze_terms, write_index
from resources.stages.part_rows import INPUTS
from resources.state.state import State


@asset(
    "postgres",
    group="index",
    reads=["raw_documents", "chunk_terms"],
    after=["sentence_embeddings"],
    whole=True,
    completes=True,
)
def term_statistics(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Count the chunks in which each term occurs, by the groups that may find them, and compute the mean length of all
    chunks. BM25 weighs terms by these numbers, which are frozen in the generation. The asset comes after the
    embeddings, like sentence_links, so that a backfill waits for all buckets only once."""
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
    """Build the HNSW indexes after the load, audit the generation, compare the golden questions' scores of the live and
    the new one, and make the new one live. A generation is not published if its audit finds a problem, if it answers
    the golden questions worse, or if it lacks most of the served documents."""
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
    refused. Until then the live one receives deletions, changes of groups and edits, with its own settings and
    embedder. Generations kept for a rollback receive deletions and changes of groups. This work depends only on the
    listing, and no other asset waits for it. If there is only one generation, nothing is done."""
    context.add_output_metadata(changes(update_other_generations(state)))


# ---------------------------------------------------------------- checks before the next stage


def _check(name: str, asset: str) -> dg.AssetChecksDefinition:
    """Return a blocking check: if it fails, Dagster does not make the assets that depend on this one."""

    @dg.asset_check(name=name, asset=asset, description=DESCRIPTIONS[name], blocking=True)
    def check(state: dg.ResourceParam[State]) -> dg.AssetCheckResult:
        problems = find(state, name)
        return dg.AssetCheckResult(passed=not problems, metadata=told_by_check(problems_told(state, problems)))

    return check


@dg.asset_check(
    asset="raw_documents",
    description="Every source that the run was to list could be listed. Of one that could not be nothing was changed.",
)
def sources_listed(state: dg.ResourceParam[State]) -> dg.AssetCheckResult:
    """Check that every source could be listed. A failure is only a warning, since the other sources are still
    indexed."""
    passed, told = unlisted_check(state)
    return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, metadata=told_by_check(told))


CHECKS = [*(_check(name, asset) for name, (asset, _) in CHECKED.items()), sources_listed]


# ---------------------------------------------------------------- scores of the live generation


_LAST = 30
"""Most runs in the chart and the tables."""


@asset("postgres", "python", group="quality", after=["search_index"], whole=True)
def retrieval_quality(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Ask the golden questions named in the settings, with the shipped strategy, and score the answers. The UI plots
    every number over materialisations. If there are no golden questions, the metadata says how to add some."""
    run = score_live(state)
    unasked = {"questions": 0, "remedy": "name a file of golden questions in publish.golden"}
    context.add_output_metadata(unasked if run is None else {**_scores(run), **_earlier_runs(state)})


def _scores(run: dict[str, Any]) -> dict[str, Any]:
    from resources.evaluation.golden import headline

    scores = {name: value for name, value in run["metrics"].items() if value is not None}
    return {
        "headline": headline(run),
        **{name: run[name] for name in ("n", "strategy", "at") if name in run},
        **{name: float(value) for name, value in scores.items()},
        "scores": table([{"metric": name, "value": round(value, 4)} for name, value in scores.items()]),
    }


def _earlier_runs(state: State) -> dict[str, Any]:
    from resources.evaluation.golden import last_scores

    scores = state.catalog.scores()[-_LAST:]
    return {
        "over time": score_chart(scores),
        "past scores": table(score_rows(scores)),
        "last runs": table(last_scores(state.catalog, _LAST)),
    }
