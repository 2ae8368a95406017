"""The pointer to the live generation, and what must hold before it moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from resources.checks.audit import standing_problems, tuned_audit
from resources.checks.hnsw_recall import to_be_judged
from resources.checks.stages import before_publishing
from resources.generations.missing_documents import missing
from resources.generations.scores import comparison, golden_output, score_both
from resources.postgres.generation_tables import GenerationTables
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import mended
from resources.state.built import Built, Missing
from resources.state.committed_listing import listing_output

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

AUDITED_SHARE = 0.2
"""Changes in place of more than this share of the documents are audited as a new generation is."""


def publish(state: State) -> Built:
    """Loads the links, builds what vector indexes are missing, audits, compares, and flips the pointer."""
    return mended(state, lambda: _publish(state), before="search_index")


def _publish(state: State) -> Built:
    started = time.perf_counter()
    build, catalog = IndexBuild(state), state.parts.catalog
    number, live = build.generation.generation, catalog.live()
    serving = live is not None and live.generation == number
    build.load_links()
    state.run.at("building vector indexes")
    made = build.build_vector_indexes(live=serving)
    counts = build.index.counts()
    changed = _share_changed(state, counts["documents"]) > AUDITED_SHARE
    audited = not serving or changed or bool(made.built) or to_be_judged(build.generation, counts)
    state.run.at("auditing")
    problems = build.missing_buckets() or (
        [*before_publishing(state), *tuned_audit(build, made, serving)] if audited else standing_problems(build.index)
    )
    built = Built(number, serving and not problems, problems, counts, audited=audited)
    built.unfitting = made.unfitting
    built.short = build.generation.statistics.get("short", [])
    if not problems:
        catalog.mark_built(number, listing_output(state.runner))
    if not problems and not serving:
        built.missing = missing(state, live, build.index)
        if live is not None:
            built.held = catalog.held()
            built.scored = {} if built.held or built.missing.most else score_both(state, live, build.generation)
            built.comparison = comparison(state, built.scored, live.generation, number)
            built.refused = any(row["worse"] for row in built.comparison)
        if not (built.held or built.refused or built.missing.most):
            catalog.publish(number)
            built.published = True
    catalog.set_verdict(number, None if built.published else verdict(state, built))
    built.seconds = time.perf_counter() - started
    state.run.published(built)
    return built


def _share_changed(state: State, documents: int) -> float:
    """Share of the documents that this run changed or removed; all where another run wrote them."""
    report = state.run.reports.get("indexed_documents")
    return (report.computed + report.gone) / max(1, documents) if report else 1.0


def verdict(state: State, built: Built) -> dict[str, Any]:
    """Why a generation was not published, and what that depended on."""
    live = state.parts.catalog.live()
    return {
        "live": live.generation if live else None,
        "golden": golden_output(state),
        "held": built.held,
        "refused": built.refused,
        "missing": built.missing.record(),
        "problems": [list(problem) for problem in built.problems],
        "comparison": built.comparison,
    }


def judged(state: State, generation: GenerationRow) -> Built | None:
    """The verdict on an unpublished generation while nothing that it depended on has changed."""
    found, live = generation.verdict, state.parts.catalog.live()
    if found is None or found["problems"] or live is None or found["live"] != live.generation:
        return None
    if found["golden"] != golden_output(state) or found["held"] != state.parts.catalog.held():
        return None
    return recorded(generation, GenerationTables(state.parts.database, generation).counts())


def recorded(generation: GenerationRow, counts: dict[str, int]) -> Built:
    """The verdict as it was kept with a generation."""
    found = generation.verdict or {}
    problems = [(code, message) for code, message in found.get("problems", ())]
    return Built(
        generation.generation, False, problems, counts, held=found.get("held", False),
        refused=found.get("refused", False), missing=Missing(**found.get("missing", {})),
        comparison=found.get("comparison", []), short=generation.statistics.get("short", []),
    )  # fmt: skip
