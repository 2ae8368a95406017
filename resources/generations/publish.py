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
from pipelines.fingerprint import first_id, text_hash
from resources.checks.audit import rows_audit, standing_problems, tuned_audit
from resources.checks.hnsw_recall import to_be_judged, tuned
from resources.checks.stages import before_publishing
from resources.postgres.generation_tables import GenerationTables
from resources.sources.book import many_gone
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import mended
from resources.state.listing import listing_output
from resources.state.run import Built, Missing, Problems, compared
from resources.state.stage_runner import withheld

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


# ---------------------------------------------------------------- missing documents
#
# What readers would lose if a new generation were published: documents that fail in it.


def missing(state: State, live: GenerationRow | None, new: GenerationTables) -> Missing:
    """Of the documents that are listed and that the live generation serves, those that the new one lacks; all, where
    none is live and it holds none. One that is withheld is meant to be lacking."""
    failures = {item.doc_id: item for item in state.runner.failures()}
    hidden = {doc_id for doc_id, item in failures.items() if withheld(item)}
    if live is None and new.counts()["documents"]:
        return Missing()
    served = GenerationTables(state.parts.database, live) if live else None
    before, lacking, shards = Counter[str](), list[tuple[str, str, str]](), state.settings.shard_count
    listing = state.listing.committed()
    for shard in listing.files:
        listed = listing.read(shard, ("doc_id", "source", "uri"))
        own = first_id(shard, shards), first_id(shard + 1, shards)
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
# What the golden questions of the settings score a generation, and whether a new one answers them worse.


COMPARED = ("recall@5", "accuracy_page")
"""Scores of the golden questions that must not fall."""


def score(state: State, generation: GenerationRow) -> dict[str, Any] | None:
    """The golden questions of the settings put to a generation, and the scores kept; None where there are
    no questions."""
    from resources.evaluation.golden import evaluate

    if not state.settings.publish.golden:
        return None
    run = evaluate(state, state.project.resolve(state.settings.publish.golden), generation=generation)
    state.parts.catalog.add_scores(generation.generation, run["name"], run["metrics"])
    return run


def score_live(state: State) -> dict[str, Any] | None:
    """The scores of the live generation; those that publishing has taken in this run are not taken again."""
    live = state.parts.catalog.live()
    if live is None:
        return None
    scored = state.run.built.scored if state.run.built else {}
    return scored.get(live.generation) or score(state, live)


def score_both(state: State, live: GenerationRow, new: GenerationRow) -> dict[int, dict[str, Any]]:
    """Runs of the golden questions by generation; empty where there are no questions.

    Where the embedder of the live one is not to be had, or this version does not know its settings any more, the
    scores it had last stand in; raises ModelError, SettingsError where it had none."""
    try:
        runs = {live.generation: score(state, live)}
    except (ModelError, SettingsError):
        kept = [item for item in state.parts.catalog.scores() if item["generation"] == live.generation]
        if not kept:
            raise
        runs = {live.generation: kept[-1]}
    runs[new.generation] = score(state, new)
    return {number: run for number, run in runs.items() if run is not None}


def comparison(state: State, scored: Mapping[int, Mapping[str, Any]], live: int, new: int) -> list[dict[str, Any]]:
    """Rows of metric, live, new, worse."""
    rows = []
    for metric in COMPARED if scored else ():
        before, now = scored[live]["metrics"][metric], scored[new]["metrics"][metric]
        if before is not None and now is not None:
            worse = now < before - state.settings.publish.max_drop - 1e-9
            rows.append({"metric": metric, "live": before, "new": now, "worse": worse})
    return rows


def golden_output(state: State) -> str:
    """Hash of what the comparison depends on beside the two indexes."""
    settings = state.settings.publish
    if not settings.golden:
        return ""
    file = state.project.resolve(settings.golden)
    return text_hash(f"{file.read_text(encoding='utf-8')} {settings.max_drop} {state.settings.query}")


# ---------------------------------------------------------------- publish
#
# The pointer to the live generation, and what must hold before it moves.


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


# ---------------------------------------------------------------- by hand
#
# The ways to move the pointer to the live generation by hand.


_REMEDY = "`pincite index` with the settings that it was made with makes it anew"


def publish_by_hand(state: State, number: int, force: bool = False) -> dict[str, Any]:
    """Makes a generation the live one and ends the hold of a rollback.

    It is audited first; `force` publishes it although the golden questions speak against it. Raises
    IndexStateError where there is none, it was never filled, or its audit finds problems."""
    with state.parts.database.exclusive("index"):
        generation = _existing(state, number)
        live = state.parts.catalog.live()
        if generation.built_at is None:
            raise IndexStateError(
                f"generation {number} was never completed; run `pincite index` with its settings first", "not_built"
            )
        index = GenerationTables(state.parts.database, generation, state.settings.vector_index)
        index.delete_dangling_links()
        problems = _audited(state, index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} is not published: {found}; {_REMEDY}", "audit")
        if not force and live is not None and live.generation != number:
            scored = score_both(state, live, generation)
            rows = comparison(state, scored, live.generation, number)
            if any(row["worse"] for row in rows):
                told = "; ".join(map(compared, rows))
                raise IndexStateError(
                    f"generation {number} answers the golden questions worse than the live one ({told}); publish it "
                    "all the same with --force",
                    "worse",
                )
        state.parts.catalog.publish(number)
        state.parts.catalog.set_verdict(number, None)
    return {"live": number, "previous": live.generation if live else None}


def rollback(state: State) -> dict[str, Any]:
    """Makes the generation that was live before the live one again, until somebody publishes.

    Raises IndexStateError where there is none, or where its audit finds problems."""
    with state.parts.database.exclusive("index"):
        live, number = state.parts.catalog.live(), state.parts.catalog.previous()
        if live is None or number is None:
            told = "there is no generation to roll back to; see `pincite generations list`"
            raise IndexStateError(told, "no_previous")
        index = GenerationTables(state.parts.database, _existing(state, number), state.settings.vector_index)
        index.delete_dangling_links()
        problems = _audited(state, index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} cannot serve again: {found}; {_REMEDY}", "audit")
        state.parts.catalog.publish(number, held=True)
    return {"live": number, "previous": live.generation}


def _audited(state: State, index: GenerationTables) -> Problems:
    if problems := rows_audit(index):
        return problems
    if statistics := tuned(index):
        state.parts.catalog.add_statistics(index.generation.generation, statistics)
    return []


def _existing(state: State, number: int) -> GenerationRow:
    found = state.parts.catalog.generation(number)
    if found is None:
        raise IndexStateError(f"there is no generation {number}; see `pincite generations list`", "no_generation")
    return found
