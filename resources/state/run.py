"""The result of one run over a state: its stages, its purchases, its failed checks and what it published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resources.llm.model import BoughtModel, Spent
    from resources.state.stage_work import StageReport


# ---------------------------------------------------------------- built
#
# What publishing did with a generation, and what readers would lose by it.


Problems = list[tuple[str, str]]
"""As (code, message)."""

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Missing:
    """Documents of `served` that a new generation does not hold, each as "uri (stage: code)"; `most` where they are
    too many to publish it."""

    names: Sequence[str] = ()
    served: int = 0
    most: bool = False

    def record(self) -> dict[str, Any]:
        return asdict(self)

    def note(self, generation: int) -> str:
        told = ", ".join(self.names[:_NAMED])
        if len(self.names) > _NAMED:
            told += f" and {len(self.names) - _NAMED} more, all in `pincite status --json`"
        lacks = f"{len(self.names)} of {self.served} documents that should be found in it failed: {told}"
        remedy = "raise the limit that they met or mend them, and run `pincite index --retry-failed`"
        if not self.most:
            return f"generation {generation} is published, and {lacks}. To have them again, {remedy}"
        return (
            f"generation {generation} is built but not published: {lacks}. {remedy[0].upper()}{remedy[1:]}; to publish "
            f"it all the same: `pincite generations publish {generation}`"
        )


@dataclass
class Built:
    """What publishing did; `short` is what walks of the vector indexes do not find, `unfitting` those that were larger
    than the memory that they were built in.

    Problems of the audit, `refused` by the golden questions, or `missing` most of what is served keep a generation
    from being published; so does a rollback that `held`."""

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
        """Why it is not published, or what it lacks, for people."""
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
                f"({'; '.join(map(compared, self.comparison))}). To publish it all the same: "
                f"`pincite generations publish {self.generation} --force`"
            )
        if self.missing.most or (self.missing.names and self.published):
            notes.append(self.missing.note(self.generation))
        return notes


def compared(row: Mapping[str, Any]) -> str:
    return f"{row['metric']} {row['live']:.3f} live, {row['new']:.3f} new"


# ---------------------------------------------------------------- run
#
# One run over a state: what each stage did, what was bought, what was published, and which checks failed.


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
