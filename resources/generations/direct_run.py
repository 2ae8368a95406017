"""A run without Dagster, which takes longer to load than a small run takes: the assets in order, each with its checks,
and the record of the run as Dagster keeps it.

It does what the job `index` does, by the same functions. Data versions, counts and tags are those that a run of the job
writes as it goes. The record waits in the state folder until Dagster is next opened
(resources/dagster_instance/run_history.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import combine
from pipelines.ranges import bucket_of
from pipelines.stages import STAGES, UNPARTITIONED
from resources.checks.findings import remedy_of
from resources.checks.stages import CHECKS, require_sound, unlisted_sources
from resources.dagster_instance.run_history import Evaluation, MadeAsset, RunRecord
from resources.generations.publish import publish, score_live
from resources.generations.upkeep import bring_up_to_date, restrict, restricted_whatever, update_other_generations
from resources.stages.make import list_documents
from resources.state.generation import swap_of

if TYPE_CHECKING:
    from pipelines.records import Failure
    from resources.engine import StageReport
    from resources.postgres.catalog import IndexCommit
    from resources.state.run import Problems
    from resources.state.state import State


# ---------------------------------------------------------------- the assets


ORDER = (
    "raw_documents",
    "kept_generations",
    "parsed_elements",
    "figure_descriptions",
    "structural_chunks",
    "packed_chunks",
    "corpus_statistics",
    "chunks",
    "sentences",
    "abbreviations",
    "document_summaries",
    "chunk_contexts",
    "chunk_embeddings",
    "sentence_embeddings",
    "sentence_links",
    "term_statistics",
    "indexed_documents",
    "search_index",
    "retrieval_quality",
)
"""All assets, each after those that it depends on."""


def make_assets(state: State, buckets: Sequence[int], allow_deletions: bool) -> dict[str, Any] | None:
    """Bring all assets up to date, those with buckets in these buckets. Return the scores of the golden questions, None
    if there are no questions. Raise the error of an asset, or IndexStateError (`check_failed`) if a blocking check
    finds a problem."""
    for asset in ORDER[:-1]:
        if asset == "raw_documents":
            with restricted_whatever(state):
                list_documents(state, buckets, list(state.listing.now().sources), allow_deletions)
            restrict(state)
        elif asset == "kept_generations":
            update_other_generations(state)
        elif asset == "search_index":
            publish(state)
        else:
            bring_up_to_date(state, asset, buckets)
        require_sound(state, asset)
    return score_live(state)


# ---------------------------------------------------------------- versions and tags


CODE_VERSION = "1"
"""The code version of an asset that no setting shapes."""
NOT_PUBLISHED = "not published"
"""The code version of `search_index` while readers are served from a generation of other settings: it stays stale."""
GENERATION, EMBEDDER, SETTINGS = "pincite/generation", "pincite/embedder", "pincite/settings_hash"
"""Tags of a run: the generation that it works on, that generation's embedder, and a hash of all that shapes one."""


def data_versions(state: State, stage: str) -> dict[int, str]:
    """Return a hash of a stage's data for each bucket, computed from its commits.

    The hash includes the key of each commit: vectors are identified by their text and model, and data made under
    another key is another table."""
    if stage not in STAGES:
        return {bucket: combine([row.key, row.output])[:16] for bucket, row in rows_in_postgres(state, stage).items()}
    versions = state.engine.versions(stage)
    return {bucket: combine(version)[:16] for bucket, version in versions.items()}


def index_version(state: State) -> str:
    """Return a hash of the rows that readers are served: the live generation and the commits of its rows."""
    live = state.catalog.live()
    if live is None:
        return combine([])[:16]
    rows = state.catalog.index_commits("indexed_documents", live.schema)
    return combine([live.schema, *(rows[first].output for first in sorted(rows))])[:16]


def rows_in_postgres(state: State, stage: str) -> dict[int, IndexCommit]:
    """Return the commits of a stage's rows in Postgres by bucket."""
    rows, buckets = state.catalog.index_commits(stage, state.ensure_generation().schema), state.settings.buckets
    return {bucket_of(first, buckets): row for first, row in rows.items()}


def generation_tags(state: State) -> dict[str, str]:
    """Return the tags of a run that name its generation; none before it is known."""
    generation = state.generation
    if generation is None:
        return {}
    return {
        GENERATION: str(generation.generation),
        EMBEDDER: generation.embedder["name"],
        SETTINGS: state.code_versions["search_index"],
    }


# ---------------------------------------------------------------- counts


_BY_BUCKET = {
    "computed": "documents computed",
    "kept": "documents kept",
    "gone": "documents gone",
    "documents": "documents",
    "written": "rows written",
    "rows": "dagster/partition_row_count",
}
"""Names in the UI of the counts that a report has by part."""


def counts_of(report: StageReport) -> dict[str, Any]:
    """Return the counts of a whole step."""
    return {
        "documents computed": report.computed,
        "documents kept": report.kept,
        "documents gone": report.gone,
        "rows written": report.written,
        "seconds": round(report.seconds, 3),
        **report.notes,
    }


def counts_of_bucket(report: StageReport, bucket: int) -> dict[str, int]:
    return {_BY_BUCKET[name]: count for name, count in report.buckets.get(bucket, {}).items()}


def counts_of_step(report: StageReport) -> dict[str, Any]:
    """Return the same counts under the names that they have beside the counts of one bucket."""
    return {f"run: {name}": value for name, value in counts_of(report).items()}


def changes(report: StageReport) -> dict[str, Any]:
    """Return the changes to generations that are kept up to date."""
    return {
        "documents changed": report.computed,
        "documents removed": report.gone,
        "rows written": report.written,
        "seconds": round(report.seconds, 3),
        **report.notes,
    }


# ---------------------------------------------------------------- checks that every asset carries


FAILED, PRESENT, LISTED = "documents_failed", "made_by_present_settings", "sources_listed"
_SHAPED = frozenset({*STAGES, "indexed_documents", "search_index"} - {"raw_documents"})
_SHOWN_FAILURES, _SHOWN_PROBLEMS = 50, 20


def carried_checks(asset: str) -> list[str]:
    """Return the names of the checks that an asset carries: a stage of documents has FAILED, an asset that depends on
    settings has PRESENT. They warn, and block nothing."""
    failing = asset in STAGES and STAGES[asset].parted
    return [*([FAILED] if failing else []), *([PRESENT] if asset in _SHAPED else [])]


def carried_check(state: State, asset: str, check: str) -> tuple[bool, dict[str, Any]]:
    """Return whether such a check passes, and what it tells."""
    if check == FAILED:
        failed = failures_of(state, asset)
        return not failed, {"failures": len(failed), "failed documents": failure_rows(failed, state.settings.buckets)}
    swap = swap_of(state.catalog, state.settings, state.engine, state.generation, asset)
    return swap.complete, {
        "documents by the present settings": swap.present,
        "generation of the present settings": swap.generation or "none yet",
        "documents that readers are served": swap.served,
        "generation that readers are served": swap.live or "none yet",
    }


def problems_told(state: State, problems: Problems) -> dict[str, Any]:
    """Return what a blocking check tells of its problems."""
    schema = state.ensure_generation().schema if problems else ""
    examples = [
        {"code": code, "message": message, "remedy": remedy_of(code, schema)}
        for code, message in problems[:_SHOWN_PROBLEMS]
    ]
    return {"problems": len(problems), "examples": examples}


def unlisted_check(state: State) -> tuple[bool, dict[str, Any]]:
    """Return whether every source could be listed, and which could not."""
    failing = unlisted_sources(state)
    return not failing, {"sources_not_listed": [{"source": name, "why": why} for name, why in failing.items()]}


def failures_of(state: State, stage: str) -> list[Failure]:
    """Return the current failures of a stage, by source and uri."""
    return [item for item in state.engine.failures() if item.stage == stage]


def failure_rows(failed: Sequence[Failure], buckets: int) -> list[dict[str, str]]:
    """Return the first of these failures, with the bucket of each document."""
    return [
        {
            "source": item.source,
            "document": item.uri,
            "bucket": f"{bucket_of(item.doc_id, buckets):02d}",
            "code": item.code,
            "message": item.message,
        }
        for item in failed[:_SHOWN_FAILURES]
    ]


# ---------------------------------------------------------------- a run without Dagster


def run_record(
    state: State, began: float, ended: float, buckets: Sequence[int], scored: Mapping[str, Any] | None
) -> RunRecord:
    """Return the record of a run without Dagster that brought all assets up to date in these buckets."""
    names = state.settings.dagster
    made = [
        MadeAsset(
            names.key(asset),
            _code_version(state, asset),
            _versions(state, asset, buckets),
            _metadata(state, asset, buckets, scored),
        )
        for asset in ORDER
        if asset != "retrieval_quality" or scored
    ]
    return RunRecord(
        state.run.id,
        names.name("index"),
        "SUCCESS",
        began,
        ended,
        tags=generation_tags(state),
        made=made,
        checks=list(_evaluations(state)),
    )


def _evaluations(state: State) -> Iterator[Evaluation]:
    """Yield the results of all checks of a run that went through, so no blocking one found anything."""
    key = state.settings.dagster.key
    for name, (asset, _) in CHECKS.items():
        yield Evaluation(key(asset), name, True, problems_told(state, []), blocking=True)
    yield Evaluation(key("raw_documents"), LISTED, *unlisted_check(state))
    for asset in ORDER:
        for name in carried_checks(asset):
            yield Evaluation(key(asset), name, *carried_check(state, asset, name))


def failed_record(state: State, began: float, ended: float, status: str, why: str) -> RunRecord:
    """Return the record of a run without Dagster that failed or was cancelled, with the blocking checks that found
    something. It says nothing else of the assets: the next run completes them."""
    names = state.settings.dagster
    checks = [
        Evaluation(names.key(CHECKS[check][0]), check, False, problems_told(state, found), blocking=True)
        for check, found in state.run.problems.items()
        if found and check in CHECKS
    ]
    return RunRecord(state.run.id, names.name("index"), status, began, ended, why, checks=checks)


def _code_version(state: State, asset: str) -> str:
    if asset == "search_index" and not (state.run.built and state.run.built.published):
        return NOT_PUBLISHED
    return state.code_versions.get(asset, CODE_VERSION)


def _versions(state: State, asset: str, buckets: Sequence[int]) -> dict[int, str]:
    """Return the data versions of an asset: of these buckets, or of UNPARTITIONED. An empty version is left to
    Dagster."""
    if asset == "search_index":
        return {UNPARTITIONED: index_version(state)}
    if asset in ("corpus_statistics", "term_statistics"):
        return {UNPARTITIONED: state.ensure_generation().schema}
    if asset in ("kept_generations", "retrieval_quality"):
        return {UNPARTITIONED: ""}
    versions = data_versions(state, asset)
    return {bucket: version for bucket, version in versions.items() if bucket in (UNPARTITIONED, *buckets)}


def _metadata(
    state: State, asset: str, buckets: Sequence[int], scored: Mapping[str, Any] | None
) -> dict[int, dict[str, Any]]:
    """Return the counts of an asset by bucket."""
    built, report = state.run.built, state.run.reports.get(asset)
    if asset == "search_index" and built:
        counts = {f"{name} rows": count for name, count in built.counts.items()}
        said = {"generation": built.generation, "published": built.published, "audited": built.audited}
        return {UNPARTITIONED: {**said, **counts, "seconds": round(built.seconds, 3)}}
    if asset == "retrieval_quality" and scored:
        scores = {name: float(value) for name, value in scored["metrics"].items() if value is not None}
        return {UNPARTITIONED: {"n": scored["n"], "strategy": scored["strategy"], **scores}}
    if report is None:
        return {UNPARTITIONED: {"generation": state.ensure_generation().generation}}
    if asset == "kept_generations":
        return {UNPARTITIONED: changes(report)}
    if UNPARTITIONED in report.buckets or asset == "sentence_links":
        return {UNPARTITIONED: counts_of(report)}
    return {bucket: {**counts_of_bucket(report, bucket), **counts_of_step(report)} for bucket in buckets}
