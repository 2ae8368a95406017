"""What the golden questions of the settings score a generation, and whether a new one answers them worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError, SettingsError
from pipelines.fingerprint import text_hash

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

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
