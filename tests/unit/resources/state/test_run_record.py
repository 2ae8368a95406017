"""Runs of several processes, told to another one as JSON, are one run there."""

from __future__ import annotations

import json
from typing import Any

from resources.engine import StageReport
from resources.llm.model import Spent
from resources.sources.files import Skipped
from resources.sources.listed_documents import AllListed
from resources.sources.registry import Listed
from resources.state.launched import record_of, with_records
from resources.state.run import Missing, PublishResult, Run


class _State:
    """What is recorded of a state."""

    def __init__(self, run: Run, damaged: tuple[str, ...] = (), listed: Listed | None = None) -> None:
        self.run = run
        self.parts = type("Parts", (), {"tables": type("Tables", (), {"damaged": dict.fromkeys(damaged)})})
        self.listing = type("Listing", (), {"now": staticmethod(lambda: listed)})


def recorded(*reports: StageReport, **more: Any) -> dict[str, Any]:
    """The record of a run as another process reads it."""
    shown = {name: more.pop(name) for name in ("damaged", "listed") if name in more}
    run = Run("r", reports={report.stage: report for report in reports}, **more)
    found: dict[str, Any] = json.loads(json.dumps(record_of(_State(run, **shown))))  # type: ignore[arg-type]
    return found


def report(stage: str, computed: int, seconds: float, **notes: Any) -> StageReport:
    return StageReport(stage, computed, computed + 1, computed + 2, computed + 3, computed + 4, seconds, notes=notes)


def test_counts_and_seconds_of_a_stage_are_sums_over_runs() -> None:
    first = recorded(report("chunks", 2, 0.5), report("chunk_embeddings", 2, 1.5, **{"texts embedded": 7, "cost": 0.5}))
    second = recorded(report("chunk_embeddings", 10, 2.0, **{"texts embedded": 4, "cost": 0.25, "model": "m"}))
    run, listed = with_records(Run("mine"), [first, second])
    assert (run.id, listed) == ("mine", None)
    assert run.reports["chunks"] == report("chunks", 2, 0.5)
    assert run.reports["chunk_embeddings"] == StageReport(
        "chunk_embeddings", 12, 14, 16, 18, 20, 3.5, notes={"texts embedded": 11, "cost": 0.75, "model": "m"}
    )


def test_facts_known_to_only_one_run_are_kept() -> None:
    skipped = [Skipped("docs", "a\udcff.xyz", "unsupported", "no reader")]
    listed = Listed(("docs",), AllListed(), skipped, [], failing={"mail": "it does not answer"})
    built = PublishResult(3, False, [("found", "low")], {"chunks": 5}, 1.5, held=True, missing=Missing(["a"], 2, True))
    built.short, built.unfitting = ["a walk"], ["an index"]
    first = recorded(report("raw_documents", 1, 0.1), listed=listed, damaged=("a.parquet",))
    second = recorded(built=built, problems={"text_coverage": [("found", "low")]})
    run, read = with_records(Run(), [first, second, recorded()])
    assert read == listed
    assert run.built == built
    assert run.problems == {"text_coverage": [("found", "low")]}
    assert run.damaged == ["a.parquet"]
    assert run.built and run.built.notes == built.notes


def test_spending_is_the_sum_over_runs() -> None:
    first, second = recorded(spent=[Spent(1, 2, 3, 4, 0.5, 6)]), recorded(spent=[Spent(1, 1, 1, 1, 0.25, 0)])
    run, _ = with_records(Run(), [first, second])
    assert [sum(getattr(part, name) for part in run.spent) for name in ("calls", "cached", "cost", "pending")] == [
        2, 3, 0.75, 6,
    ]  # fmt: skip


def test_a_run_that_was_killed_before_it_told_anything_counts_nothing() -> None:
    run, listed = with_records(Run(), [{}])
    assert (run.reports, run.built, run.spent, listed) == ({}, None, [], None)
