"""The pointer to the live generation: the conditions for moving it, in a run or by hand, and the move itself.

A new generation must pass its audit, hold the documents that readers have now, and answer the test questions as well
as the live one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, ModelError, SettingsError
from pipelines.fingerprint import text_hash
from resources.checks.audit import rows_audit, standing_problems, tuned_audit
from resources.checks.hnsw_recall import to_be_judged, tuned_statistics
from resources.checks.stages import before_publishing
from resources.engine import withheld
from resources.postgres.generation_tables import GenerationTables
from resources.sources.registry import many_gone
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import with_repair
from resources.state.listing import listing_output
from resources.state.run import Missing, Problems, PublishResult, comparison_text

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


# ---------------------------------------------------------------- missing documents
#
# Documents that readers would lose if a new generation were published.


def missing(state: State, live: GenerationRow | None, new: GenerationTables) -> Missing:
    """Return which listed documents the live generation serves and the new one lacks; if no generation is live and the
    new one is empty, return all listed documents. Withheld documents do not count, since they must be missing."""
    failures = {item.doc_id: item for item in state.engine.failures()}
    hidden = {doc_id for doc_id, item in failures.items() if withheld(item)}
    if live is None and new.counts()["documents"]:
        return Missing()
    served = GenerationTables(state.database, live) if live else None
    before, lacking = Counter[str](), list[tuple[str, str, str]]()
    for part in state.engine.parts(["raw_documents"]):
        listed, own = part.read("raw_documents", ("doc_id", "source", "uri")), (part.first, part.after)
        there, known = new.content_hashes(*own).keys(), served.content_hashes(*own).keys() if served else None
        for doc_id, source, uri in zip(*(column.to_pylist() for column in listed.columns), strict=True):
            if doc_id not in hidden and (known is None or doc_id in known):
                before[source] += 1
                lacking += [] if doc_id in there else [(source, uri, doc_id)]
    gone = Counter(source for source, _, _ in lacking)
    most = any(count == before[source] or many_gone(count, before[source]) for source, count in gone.items())
    names = []
    for _, uri, doc_id in sorted(lacking):
        failure = failures.get(doc_id)
        names.append(f"{uri} ({failure.stage}: {failure.code})" if failure else uri)
    return Missing(names, before.total(), most)


# ---------------------------------------------------------------- scores
#
# The scores of a generation on the golden questions of the settings, and whether a new one scores worse.


COMPARED = ("recall@5", "accuracy_page")
"""Scores of the golden questions that must not fall."""


VECTORS = "question-vectors.npz"
"""Name of the file in the state folder with the vectors of the golden questions."""


def score(state: State, generation: GenerationRow) -> dict[str, Any] | None:
    """Ask a generation the golden questions of the settings, and keep the scores; return None if there are no
    questions."""
    if not state.settings.publish.golden:
        return None
    from resources.evaluation.golden import QuestionVectors, evaluate

    file, vectors = state.project.resolve(state.settings.publish.golden), QuestionVectors(state.project.state / VECTORS)
    run = evaluate(state, file, generation=generation, vectors=vectors)
    vectors.save()
    state.catalog.add_scores(generation.generation, run["name"], run["metrics"])
    return run


def score_live(state: State) -> dict[str, Any] | None:
    """Return the scores of the live generation. Scores that publishing computed in this run are reused."""
    live = state.catalog.live()
    if live is None:
        return None
    scored = state.run.built.scored if state.run.built else {}
    return scored.get(live.generation) or score(state, live)


def score_both(state: State, live: GenerationRow, new: GenerationRow) -> dict[int, dict[str, Any]]:
    """Return the runs of the golden questions by generation; return {} if there are no questions.

    If the live generation's embedder is not available, or this version no longer knows its settings, its last scores
    are used; raise ModelError or SettingsError if it has no scores.
    """
    try:
        runs = {live.generation: score(state, live)}
    except (ModelError, SettingsError):
        kept = [item for item in state.catalog.scores() if item["generation"] == live.generation]
        if not kept:
            raise
        runs = {live.generation: kept[-1]}
    runs[new.generation] = score(state, new)
    return {number: run for number, run in runs.items() if run is not None}


def comparison(state: State, scored: Mapping[int, Mapping[str, Any]], live: int, new: int) -> list[dict[str, Any]]:
    """Return rows of metric, live score, new score, and whether it is worse."""
    rows = []
    for metric in COMPARED if scored else ():
        before, now = scored[live]["metrics"][metric], scored[new]["metrics"][metric]
        if before is not None and now is not None:
            worse = now < before - state.settings.publish.max_drop - 1e-9
            rows.append({"metric": metric, "live": before, "new": now, "worse": worse})
    return rows


def golden_output(state: State) -> str:
    """Return a hash of the inputs of the comparison, apart from the two indexes."""
    settings = state.settings.publish
    if not settings.golden:
        return ""
    file = state.project.resolve(settings.golden)
    return text_hash(f"{file.read_text(encoding='utf-8')} {settings.max_drop} {state.settings.query}")


# ---------------------------------------------------------------- publish


AUDITED_SHARE = 0.2
"""Share of changed documents, from 0 to 1, above which a generation is audited like a new one."""


def publish(state: State) -> PublishResult:
    """Load the links, build missing vector indexes, audit, compare, and move the pointer."""
    return with_repair(state, lambda: _publish(state), before="search_index")


def _publish(state: State) -> PublishResult:
    started = time.perf_counter()
    build, catalog = IndexBuild(state), state.catalog
    number, live = build.generation.generation, catalog.live()
    serving = live is not None and live.generation == number
    build.load_links()
    state.run.report_start("building vector indexes")
    made = build.build_vector_indexes(live=serving)
    counts = build.index.counts()
    changed = _share_changed(state, counts["documents"]) > AUDITED_SHARE
    audited = not serving or changed or bool(made.built) or to_be_judged(build.generation, counts)
    state.run.report_start("auditing")
    problems = build.missing_buckets() or (
        [*before_publishing(state), *tuned_audit(build, made, serving)] if audited else standing_problems(build.index)
    )
    built = PublishResult(number, serving and not problems, problems, counts, audited=audited)
    built.unfitting = made.unfitting
    built.short = build.generation.statistics.get("short", [])
    if not problems:
        catalog.mark_built(number, listing_output(state.engine))
    if not problems and not serving:
        built.missing = missing(state, live, build.index)
        if live is not None:
            built.held = catalog.is_held()
            built.scored = {} if built.held or built.missing.most else score_both(state, live, build.generation)
            built.comparison = comparison(state, built.scored, live.generation, number)
            built.refused = any(row["worse"] for row in built.comparison)
        if not (built.held or built.refused or built.missing.most):
            catalog.publish(number)
            built.published = True
    catalog.set_verdict(number, None if built.published else verdict(state, built))
    built.seconds = time.perf_counter() - started
    state.run.keep_verdict(built)
    return built


def _share_changed(state: State, documents: int) -> float:
    """Return the share of the documents that this run changed or removed; return 1 if another run wrote them."""
    report = state.run.reports.get("indexed_documents")
    return (report.computed + report.gone) / max(1, documents) if report else 1.0


def verdict(state: State, built: PublishResult) -> dict[str, Any]:
    """Record why a generation was not published, and the inputs of this decision."""
    live = state.catalog.live()
    return {
        "live": live.generation if live else None,
        "golden": golden_output(state),
        "held": built.held,
        "refused": built.refused,
        "missing": built.missing.record(),
        "problems": [list(problem) for problem in built.problems],
        "comparison": built.comparison,
    }


def stored_verdict(state: State, generation: GenerationRow) -> PublishResult | None:
    """Return the verdict on an unpublished generation, or None if one of its inputs has changed."""
    found, live = generation.verdict, state.catalog.live()
    if found is None or found["problems"] or live is None or found["live"] != live.generation:
        return None
    if found["golden"] != golden_output(state) or found["held"] != state.catalog.is_held():
        return None
    return recorded_verdict(generation, GenerationTables(state.database, generation).counts())


def recorded_verdict(generation: GenerationRow, counts: dict[str, int]) -> PublishResult:
    """Return the verdict that is stored with a generation."""
    found = generation.verdict or {}
    problems = [(code, message) for code, message in found.get("problems", ())]
    return PublishResult(
        generation.generation, False, problems, counts, held=found.get("held", False),
        refused=found.get("refused", False), missing=Missing(**found.get("missing", {})),
        comparison=found.get("comparison", []), short=generation.statistics.get("short", []),
    )  # fmt: skip


# ---------------------------------------------------------------- by hand


_REMEDY = "`pincite index` with the settings that it was made with makes it again"


def publish_by_hand(state: State, number: int, force: bool = False) -> dict[str, Any]:
    """Make a generation the live one, and end the hold of a rollback.

    It is audited first; `force` publishes it although it scores worse on the golden questions. Raise IndexStateError if
    it does not exist, was never filled, or its audit finds problems."""
    with state.database.exclusive("index"):
        generation = _existing(state, number)
        live = state.catalog.live()
        if generation.built_at is None:
            raise IndexStateError(
                f"generation {number} was never completed; run `pincite index` with its settings first", "not_built"
            )
        index = GenerationTables(state.database, generation, state.settings.vector_index)
        index.delete_dangling_links()
        problems = _audit(state, index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} is not published: {found}; {_REMEDY}", "audit")
        if not force and live is not None and live.generation != number:
            scored = score_both(state, live, generation)
            rows = comparison(state, scored, live.generation, number)
            if any(row["worse"] for row in rows):
                told = "; ".join(map(comparison_text, rows))
                raise IndexStateError(
                    f"generation {number} answers the golden questions worse than the live one ({told}); publish it "
                    "anyway with --force",
                    "worse",
                )
        state.catalog.publish(number)
        state.catalog.set_verdict(number, None)
    return {"live": number, "previous": live.generation if live else None}


def rollback(state: State) -> dict[str, Any]:
    """Make the previous live generation live again, and hold it until someone publishes.

    Raise IndexStateError if there is no previous one, or its audit finds problems.
    """
    with state.database.exclusive("index"):
        live, number = state.catalog.live(), state.catalog.previous()
        if live is None or number is None:
            told = "no generation is there to roll back to; see `pincite generations list`"
            raise IndexStateError(told, "no_previous")
        index = GenerationTables(state.database, _existing(state, number), state.settings.vector_index)
        index.delete_dangling_links()
        problems = _audit(state, index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} cannot serve again: {found}; {_REMEDY}", "audit")
        state.catalog.publish(number, held=True)
    return {"live": number, "previous": live.generation}


def _audit(state: State, index: GenerationTables) -> Problems:
    if problems := rows_audit(index):
        return problems
    if statistics := tuned_statistics(index):
        state.catalog.add_statistics(index.generation.generation, statistics)
    return []


def _existing(state: State, number: int) -> GenerationRow:
    found = state.catalog.generation(number)
    if found is None:
        raise IndexStateError(f"generation {number} does not exist; see `pincite generations list`", "no_generation")
    return found
