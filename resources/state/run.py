"""The result of one run over a state: its stages, its purchases, its failed checks and its publishing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pipelines.plural import plural

if TYPE_CHECKING:
    from resources.engine import StageReport
    from resources.llm.model import BoughtModel, Spent


# ---------------------------------------------------------------- publication


Problems = list[tuple[str, str]]
"""Problems that a check found, each as (code, message)."""

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Missing:
    """Documents that a new generation should contain but that failed in it, each as "uri (stage: code)". `served` is
    the number of documents that it should contain; `most` is true if too many are missing for publishing."""

    names: Sequence[str] = ()
    served: int = 0
    most: bool = False

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def note(self, generation: int) -> str:
        told = ", ".join(self.names[:_NAMED])
        if len(self.names) > _NAMED:
            told += f" and {len(self.names) - _NAMED} more, all in `pincite status --json`"
        lacks = f"{len(self.names)} of {plural(self.served, 'document')} that should be found in it failed: {told}"
        remedy = "raise the exceeded limit or correct them, and run `pincite index --retry-failed`"
        if not self.most:
            return f"generation {generation} is published, and {lacks}. To have them again, {remedy}"
        return (
            f"generation {generation} is built but not published: {lacks}. {remedy[0].upper()}{remedy[1:]}; to publish "
            f"it all the same: `pincite generations publish {generation}`"
        )


@dataclass
class PublishResult:
    """The result of publishing a generation. `short` describes vector indexes whose searches find too few rows,
    `unfitting` those that did not fit into memory while they were built.

    A generation is not published if the audit found problems, if its scores on test questions are worse (`refused`), if
    most of the served documents are `missing`, or if a rollback is `held`.
    """

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
    short: Sequence[str] = ()
    unfitting: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """Return messages for people: why the generation is not published, or what is missing in it."""
        notes = [f"audit: {code}: {message}" for code, message in self.problems]
        notes += self.unfitting
        if self.short:
            notes.append(
                f"searches of generation {self.generation} find what there is, but compare more of it than they should "
                f"have to, since walks of its vector indexes fall short: {'; '.join(self.short)}. Equal texts do so"
            )
        if self.held:
            notes.append(
                f"generation {self.generation} is built but not published, since a rollback holds until somebody "
                f"publishes: `pincite generations publish {self.generation}`"
            )
        if self.refused:
            notes.append(
                f"generation {self.generation} is built but not published: it answers the golden questions worse "
                f"({'; '.join(map(comparison_text, self.comparison))}). To publish it all the same: "
                f"`pincite generations publish {self.generation} --force`"
            )
        if self.missing.most or (self.missing.names and self.published):
            notes.append(self.missing.note(self.generation))
        return notes


def comparison_text(row: Mapping[str, Any]) -> str:
    return f"{row['metric']} {row['live']:.3f} live, {row['new']:.3f} new"


# ---------------------------------------------------------------- run


StageProgress = Callable[[str, int, int], None]
"""A callback for progress, called with (stage, done, total), or with (work, 0, 0) when work of unknown length
begins."""


def silent(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


def unkept() -> None:
    """Do nothing; the default for a run whose record is stored nowhere else."""


@dataclass
class Run:
    """One run over a state. `id` is recorded with everything that the run makes, and is empty outside a run. With
    `retry_failed`, the run tries all failed documents again."""

    id: str = ""
    progress: StageProgress = silent
    retry_failed: bool = False
    models: list[BoughtModel] = field(default_factory=list)
    """Language models that this process used."""
    reports: dict[str, StageReport] = field(default_factory=dict)
    """Reports of the stages, by stage."""
    rebuilt: set[int] = field(default_factory=set)
    """Buckets that later stages must examine in addition to their own: one of their damaged files was made again, or a
    new generation replaced one with outdated statistics."""
    problems: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Problems that each check found, by check."""
    built: PublishResult | None = None
    """The result of publishing."""
    waiting: str = ""
    """The reason why the run stopped early without a fault."""
    keep: Callable[[], None] = unkept
    """A function to call when the run has new data to record."""
    damaged: list[str] = field(default_factory=list)
    """Files that other processes of this run found damaged."""
    spent: list[Spent] = field(default_factory=list)
    """Usage of language models by other processes of this run."""
    completed: set[str] = field(default_factory=set)
    """Assets that a later asset of this run made, because the run had omitted them."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tags for the generation in the run's record in Dagster."""
    buckets: frozenset[int] | None = None
    """The buckets that this run works on while other runs work on others; None if it is the only run. A run of some
    buckets only reads the data of the whole corpus."""

    @property
    def alone(self) -> bool:
        """True if this run works on all buckets, so that no other run is in progress."""
        return self.buckets is None

    def for_other_state(self) -> Run:
        """Return a copy of this run for another generation."""
        return Run(self.id, self.progress, self.retry_failed, self.models, buckets=self.buckets)

    def report(self, report: StageReport) -> StageReport:
        """Record the report of a stage."""
        self.reports[report.stage] = report
        self.keep()
        return report

    def keep_problems(self, name: str, problems: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Record the problems that a check found."""
        self.problems[name] = problems
        self.keep()
        return problems

    def keep_verdict(self, built: PublishResult | None) -> None:
        """Record the result of publishing, or an earlier result if there is nothing to do."""
        self.built = built
        self.keep()

    def waits(self, why: str) -> None:
        """Record why the run stops early without a fault."""
        self.waiting = why

    def report_start(self, what: str) -> None:
        """Report the start of work of unknown length."""
        self.progress(what, 0, 0)

    def progress_of(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(stage, done, total)
