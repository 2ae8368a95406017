"""The pointer to the live generation: what must hold before it moves, and the ways to move it by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, ModelError, SettingsError
from pipelines.fingerprint import text_hash
from resources.audit import Problems, audit, standing_problems
from resources.checks import before_publishing
from resources.document_listing import listing_output
from resources.index_tables import IndexTables
from resources.mending import mended
from resources.missing_documents import Missing, missing

if TYPE_CHECKING:
    from resources.catalog import GenerationRow
    from resources.workspace import Workspace

AUDITED_SHARE = 0.2
"""Changes in place of more than this share of the documents are audited as a new generation is."""
COMPARED = ("recall@5", "accuracy_page")
"""Scores of the golden questions that must not fall."""


@dataclass
class Built:
    """What publishing did. Problems of the audit, `refused` by the golden questions, or `missing` most of what is
    served keep a generation from being published; so does a rollback that `held`."""

    generation: int
    published: bool
    problems: Problems
    counts: dict[str, int]
    seconds: float = 0.0
    audited: bool = False
    held: bool = False
    refused: bool = False
    missing: Missing = field(default_factory=Missing)
    comparison: list[dict[str, Any]] = field(default_factory=list)
    scored: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """Why it is not published, or what it lacks, for people."""
        notes = [f"audit: {code}: {message}" for code, message in self.problems]
        if self.held:
            notes.append(
                f"generation {self.generation} is built but not published, since a rollback holds until somebody "
                f"publishes: `pincite generations publish {self.generation}`"
            )
        if self.refused:
            notes.append(
                f"generation {self.generation} is built but not published: it answers the golden questions worse "
                f"({'; '.join(map(_compared, self.comparison))}). To publish it all the same: "
                f"`pincite generations publish {self.generation} --force`"
            )
        if self.missing.most or (self.missing.names and self.published):
            notes.append(self.missing.note(self.generation))
        return notes


def _compared(row: Mapping[str, Any]) -> str:
    return f"{row['metric']} {row['live']:.3f} live, {row['new']:.3f} new"


def publish(workspace: Workspace) -> Built:
    """Loads the links, builds what vector indexes are missing, audits, compares, and flips the pointer."""
    return mended(workspace, lambda: _publish(workspace), before="search_index")


def _publish(workspace: Workspace) -> Built:
    started = time.perf_counter()
    build, catalog = workspace.index_build, workspace.catalog
    number, live = build.generation.generation, catalog.live()
    serving = live is not None and live.generation == number
    build.load_links()
    build.index.build_vector_indexes(live=serving)
    counts = build.index.counts()
    audited = not serving or _share_changed(workspace, counts["documents"]) > AUDITED_SHARE
    problems = build.missing_buckets() or (
        [*before_publishing(workspace), *build.audit()] if audited else standing_problems(build.index)
    )
    built = Built(number, serving and not problems, problems, counts, audited=audited)
    if not problems:
        catalog.mark_built(number, listing_output(workspace.runner))
    if not problems and not serving:
        built.missing = missing(workspace, live, build.index)
        if live is not None:
            built.held = catalog.held()
            built.scored = {} if built.held or built.missing.most else score_both(workspace, live, build.generation)
            built.comparison = comparison(workspace, built.scored, live.generation, number)
            built.refused = any(row["worse"] for row in built.comparison)
        if not (built.held or built.refused or built.missing.most):
            catalog.publish(number)
            built.published = True
    catalog.set_verdict(number, None if built.published else verdict(workspace, built))
    built.seconds = time.perf_counter() - started
    workspace.built = built
    return built


def _share_changed(workspace: Workspace, documents: int) -> float:
    """Share of the documents that this run changed or removed; all where another run wrote them."""
    report = workspace.reports.get("indexed_documents")
    return (report.computed + report.gone) / max(1, documents) if report else 1.0


def score(workspace: Workspace, generation: GenerationRow) -> dict[str, Any] | None:
    """The golden questions of the settings put to a generation, and the scores kept; None where there are
    no questions."""
    from resources.evaluation import evaluate

    if not workspace.settings.publish.golden:
        return None
    run = evaluate(workspace, workspace.located.resolve(workspace.settings.publish.golden), generation=generation)
    workspace.catalog.add_scores(generation.generation, run["name"], run["metrics"])
    return run


def score_live(workspace: Workspace) -> dict[str, Any] | None:
    """The scores of the live generation; those that publishing has taken in this run are not taken again."""
    live = workspace.catalog.live()
    if live is None:
        return None
    scored = workspace.built.scored if workspace.built else {}
    return scored.get(live.generation) or score(workspace, live)


def score_both(workspace: Workspace, live: GenerationRow, new: GenerationRow) -> dict[int, dict[str, Any]]:
    """Runs of the golden questions by generation; empty where there are no questions.

    Where the embedder of the live one is not to be had, or this version does not know its settings any more, the
    scores it had last stand in; raises ModelError, SettingsError where it had none."""
    try:
        runs = {live.generation: score(workspace, live)}
    except (ModelError, SettingsError):
        kept = [item for item in workspace.catalog.scores() if item["generation"] == live.generation]
        if not kept:
            raise
        runs = {live.generation: kept[-1]}
    runs[new.generation] = score(workspace, new)
    return {number: run for number, run in runs.items() if run is not None}


def comparison(
    workspace: Workspace, scored: Mapping[int, Mapping[str, Any]], live: int, new: int
) -> list[dict[str, Any]]:
    """Rows of metric, live, new, worse."""
    rows = []
    for metric in COMPARED if scored else ():
        before, now = scored[live]["metrics"][metric], scored[new]["metrics"][metric]
        if before is not None and now is not None:
            worse = now < before - workspace.settings.publish.max_drop - 1e-9
            rows.append({"metric": metric, "live": before, "new": now, "worse": worse})
    return rows


def golden_output(workspace: Workspace) -> str:
    """Hash of what the comparison depends on beside the two indexes."""
    settings = workspace.settings.publish
    if not settings.golden:
        return ""
    file = workspace.located.resolve(settings.golden)
    return text_hash(f"{file.read_text(encoding='utf-8')} {settings.max_drop} {workspace.settings.query}")


def verdict(workspace: Workspace, built: Built) -> dict[str, Any]:
    """Why a generation was not published, and what that depended on."""
    live = workspace.catalog.live()
    return {
        "live": live.generation if live else None,
        "golden": golden_output(workspace),
        "held": built.held,
        "refused": built.refused,
        "missing": built.missing.record(),
        "problems": [list(problem) for problem in built.problems],
        "comparison": built.comparison,
    }


def judged(workspace: Workspace, generation: GenerationRow) -> Built | None:
    """The verdict on an unpublished generation while nothing that it depended on has changed."""
    found, live = generation.verdict, workspace.catalog.live()
    if found is None or found["problems"] or live is None or found["live"] != live.generation:
        return None
    if found["golden"] != golden_output(workspace) or found["held"] != workspace.catalog.held():
        return None
    return recorded(generation, IndexTables(workspace.database, generation).counts())


def recorded(generation: GenerationRow, counts: dict[str, int]) -> Built:
    """The verdict as it was kept with a generation."""
    found = generation.verdict or {}
    problems = [(code, message) for code, message in found.get("problems", ())]
    return Built(
        generation.generation, False, problems, counts, held=found.get("held", False),
        refused=found.get("refused", False), missing=Missing(**found.get("missing", {})),
        comparison=found.get("comparison", []),
    )  # fmt: skip


# ---------------------------------------------------------------- by hand


def publish_by_hand(workspace: Workspace, number: int, force: bool = False) -> dict[str, Any]:
    """Makes a generation the live one and ends the hold of a rollback.

    It is audited first; `force` publishes it although the golden questions speak against it. Raises
    IndexStateError where there is none, it was never filled, or its audit finds problems."""
    with workspace.database.exclusive("index"):
        generation = _existing(workspace, number)
        live = workspace.catalog.live()
        if generation.built_at is None:
            raise IndexStateError(
                f"generation {number} was never completed; run `pincite index` with its settings first", "not_built"
            )
        index = IndexTables(workspace.database, generation)
        index.delete_dangling_links()
        problems = audit(index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} is not published: {found}", "audit")
        if not force and live is not None and live.generation != number:
            scored = score_both(workspace, live, generation)
            rows = comparison(workspace, scored, live.generation, number)
            if any(row["worse"] for row in rows):
                told = "; ".join(map(_compared, rows))
                raise IndexStateError(
                    f"generation {number} answers the golden questions worse than the live one ({told}); publish it "
                    "all the same with --force",
                    "worse",
                )
        workspace.catalog.publish(number)
        workspace.catalog.set_verdict(number, None)
    return {"live": number, "previous": live.generation if live else None}


def rollback(workspace: Workspace) -> dict[str, Any]:
    """Makes the generation that was live before the live one again, until somebody publishes.

    Raises IndexStateError where there is none, or where its audit finds problems."""
    with workspace.database.exclusive("index"):
        live, number = workspace.catalog.live(), workspace.catalog.previous()
        if live is None or number is None:
            told = "there is no generation to roll back to; see `pincite generations list`"
            raise IndexStateError(told, "no_previous")
        index = IndexTables(workspace.database, _existing(workspace, number))
        index.delete_dangling_links()
        problems = audit(index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} cannot serve again: {found}", "audit")
        workspace.catalog.publish(number, held=True)
    return {"live": number, "previous": live.generation}


def _existing(workspace: Workspace, number: int) -> GenerationRow:
    found = workspace.catalog.generation(number)
    if found is None:
        raise IndexStateError(f"there is no generation {number}; see `pincite generations list`", "no_generation")
    return found
