"""One run over a state: what each stage did, what was bought, what was published, and which checks failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resources.llm.model import BoughtModel, Spent
    from resources.state.built import Built
    from resources.state.stage_work import StageReport

StageProgress = Callable[[str, int, int], None]
"""Called with (stage, done, all); with (what, 0, 0) where something begins."""


def silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def unkept() -> None:
    """Where nobody keeps what a run did but the run."""


@dataclass
class Run:
    """`id` is recorded with what the run makes; empty for what is no run. `retry_failed` tries everything again that
    failed."""

    id: str = ""
    progress: StageProgress = silent
    retry_failed: bool = False
    models: list[BoughtModel] = field(default_factory=list)
    """The language models that were asked."""
    reports: dict[str, StageReport] = field(default_factory=dict)
    """What each stage did."""
    remade: set[int] = field(default_factory=set)
    """Shards that the stages which follow look at besides their own: of these a damaged file was made again, or a new
    generation took the place of one whose statistics no longer describe the corpus."""
    problems: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """What each check found."""
    built: Built | None = None
    """What publishing did."""
    waiting: str = ""
    """Why it ended before its end, without a fault."""
    keep: Callable[[], None] = unkept
    """Called when there is more to be told of what it did."""
    damaged: list[str] = field(default_factory=list)
    """Files that other processes of it found damaged."""
    spent: list[Spent] = field(default_factory=list)
    """What language models were asked by other processes of it."""
    buckets: frozenset[int] | None = None
    """Those that it alone works on, where others work on others meanwhile; None where it is the only one. What belongs
    to the whole corpus it then only reads."""

    @property
    def alone(self) -> bool:
        """Whether no other run is in progress."""
        return self.buckets is None

    def beside(self) -> Run:
        """The part of this run that works on another generation."""
        return Run(self.id, self.progress, self.retry_failed, self.models, buckets=self.buckets)

    def report(self, report: StageReport) -> StageReport:
        """Keeps what a stage did."""
        self.reports[report.stage] = report
        self.keep()
        return report

    def checked(self, name: str, problems: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Keeps what a check found."""
        self.problems[name] = problems
        self.keep()
        return problems

    def published(self, built: Built | None) -> None:
        """Keeps what publishing did, or has done before where nothing is to do."""
        self.built = built
        self.keep()

    def waits(self, why: str) -> None:
        """Keeps why the run goes no further, without a fault."""
        self.waiting = why

    def at(self, what: str) -> None:
        """Tells what is begun of which nobody can say how long it takes."""
        self.progress(what, 0, 0)

    def progress_of(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(stage, done, total)
