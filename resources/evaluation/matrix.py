"""A matrix of settings run as one evaluation: each distinct index made once, then asked with all that is asked of it.

A finished run is kept at once, by a key of all that shaped it, so that an interrupted matrix goes on where it was; a
run that fails is named, and the others go on.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pipelines.errors import PinciteError, UsageError
from pipelines.evaluation.evaluate import OptionsUse
from pipelines.evaluation.golden import golden_questions
from pipelines.evaluation.matrix import Asking, Matrix, Run, asking_of, matrix_from, settings_of
from pipelines.fingerprint import combined, fingerprint, text_hash
from pipelines.settings.base import Settings
from pipelines.stages import generation_key
from resources import yaml_text
from resources.child_process import ROOT, shipped
from resources.evaluation.golden import Examination, examination, examine, read_questions
from resources.evaluation.matrix_results import KeptRuns, RunResult, tables_shown, write_results
from resources.evaluation.matrix_state import EMBEDDED, MadeIndex, experiment_state, made_index, under
from resources.prompts import read_prompts
from resources.settings_file import anchored
from resources.state.generation import installed, spec_of

if TYPE_CHECKING:
    from resources.state.run import StageProgress
    from resources.state.state import State

FOLDER = "experiments"
_TAKEN = ("runs", "state")
"""Folders beside those of the results."""
_LOG = logging.getLogger(__name__)
_ANSWERING = (
    "pipelines/llm/prompts.py",
    "pipelines/llm/reply_text.py",
    "pipelines/terms.py",
    "pipelines/query/**/*.py",
    "pipelines/evaluation/**/*.py",
    "resources/evaluation/golden.py",
    "resources/models/embedders/*.py",
    "resources/models/rerankers/*.py",
    "resources/postgres/search_*.py",
    "resources/postgres/search_index.py",
    "resources/search/*.py",
)
_ASKING = "queries/*.sql"
"""Code that decides what a question is answered with, and what that scores."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A run with its settings, checked; `index` tells those of one index from others."""

    run: Run
    settings: Settings
    asking: Asking
    index: str


@dataclass
class _Clock:
    """Seconds that indexes took that were made, and runs that were asked."""

    indexes: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)

    def left(self, indexes: int, runs: int) -> str:
        """What is still to come, as far as what was can tell."""
        if not self.runs:
            return ""
        total = sum(count * fmean(took) for took, count in ((self.indexes, indexes), (self.runs, runs)) if took)
        return f", about {total:.0f} s left"


@dataclass
class _Shown:
    """Progress under a label: which run of how many."""

    progress: StageProgress
    label: str = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.progress(f"{self.label}: {stage}" if self.label else stage, done, total)


def read_matrix(file: Path) -> tuple[Matrix, str]:
    """The matrix of a YAML file, and the database that it names for its experiments.

    Raises UsageError naming the file, what is wrong and the nearest valid name."""
    import yaml

    try:
        values = yaml_text.load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {' '.join(str(error).split())}", "matrix") from None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"the matrix {file} cannot be read: {why}", "matrix") from None
    database = values.pop("database", EMBEDDED) if isinstance(values, dict) else EMBEDDED
    return matrix_from(values, str(file), file.stem), str(database)


def run_matrix(user: State, questions: Path, file: Path, folder: Path, asking: Asking) -> dict[str, Any]:
    """All runs of a matrix file: {"runs", "failed": [{"name", "code", "message"}], "resumed" (runs that were finished
    before), "tables" (Markdown), "files"}.

    Their indexes stand in `folder`; the user's state is only read. Raises UsageError for a matrix, settings or
    questions that cannot be meant, before anything is made."""
    matrix, database = read_matrix(file)
    if file.stem in _TAKEN:
        raise UsageError(f"{file}: results are kept under the name of the file, and {file.stem} is taken; rename it")
    golden_questions(read_questions(questions), str(questions))
    plans = [_planned(run, user, asking, str(file)) for run in matrix.runs.values()]
    shown = _Shown(user.run.progress)
    with experiment_state(user, folder / "state", database, str(uuid.uuid4()), shown) as state:
        experiments = _Experiments(state, questions, KeptRuns(folder / "runs"), plans, shown)
        experiments.run()
    results, failed = experiments.results, experiments.failed
    files = write_results(folder / file.stem, matrix, results, failed)
    return {
        "runs": [results[name].run for name in matrix.runs if name in results],
        "failed": list(failed.values()),
        "resumed": experiments.resumed,
        "tables": tables_shown(matrix, results, failed),
        "files": [str(each) for each in files],
    }


def asking_from(
    k: int = 5,
    strategy: str | None = None,
    rerank: str | Sequence[str] | None = None,
    groups: Sequence[str] = (),
    with_options: OptionsUse | None = None,
    answers: bool = False,
) -> Asking:
    """How all runs are asked that a matrix does not say it of. Raises UsageError for what only a matrix can say."""
    if strategy or rerank:
        raise UsageError("a matrix says itself how candidates are found and reranked: set query.strategy and "
                         "query.rerank in it")  # fmt: skip
    return Asking(k, with_options or "none", tuple(groups), answers)


def _planned(run: Run, user: State, asking: Asking, origin: str) -> Planned:
    settings = anchored(settings_of(run, user.project.settings, origin), user.project.folder)
    return Planned(run, settings, asking_of(run, asking, origin), generation_key(settings, installed(settings)))


class _Experiments:
    """The loop over indexes and, within each, over the runs that ask it."""

    def __init__(self, state: State, questions: Path, kept: KeptRuns, plans: Sequence[Planned], shown: _Shown) -> None:
        self._state, self._questions, self._kept, self._shown = state, questions, kept, shown
        self._asked = fingerprint(text_hash(questions.read_text(encoding="utf-8")), _code())
        self._clock, self._count = _Clock(), len(plans)
        self._groups: dict[str, list[Planned]] = {}
        for plan in plans:
            self._groups.setdefault(plan.index, []).append(plan)
        self.results: dict[str, RunResult] = {}
        self.failed: dict[str, dict[str, str]] = {}
        self.resumed = 0

    def run(self) -> None:
        indexes = len(self._groups)
        for made, group in enumerate(self._groups.values()):
            self._tell(group[0], indexes - made)
            place = under(self._state, group[0].settings)
            try:
                with self._naming(group):
                    self._ask(group, place, indexes - made - 1)
            finally:
                place.close()

    def _ask(self, group: Sequence[Planned], place: State, indexes_left: int) -> None:
        """Makes an index and asks it whatever is not answered yet, under all its settings of `query`."""
        made = made_index(place)
        if made.seconds is not None:
            self._clock.indexes.append(made.seconds)
        keys = {plan.run.name: self._key(plan, made) for plan in group}
        known = {name: result for name, key in keys.items() if (result := self._kept.get(key))}
        self.resumed += len(known)
        self.results |= {plan.run.name: _named(known[plan.run.name], plan) for plan in group if plan.run.name in known}
        due = [plan for plan in group if plan.run.name not in known]
        if due:
            exam = examination(place, self._questions, made.generation)
            place.embedder(spec_of(made.generation)).load()
        for plan in due:
            self._tell(plan, indexes_left)
            with self._naming([plan]):
                started = time.perf_counter()
                result = self._examined(plan, exam, made)
                self._kept.put(keys[plan.run.name], result)
                self.results[plan.run.name] = _named(result, plan)
                self._clock.runs.append(time.perf_counter() - started)

    def _examined(self, plan: Planned, exam: Examination, made: MadeIndex) -> RunResult:
        place = under(self._state, plan.settings)
        try:
            evaluated = examine(place, exam, plan.run.name, exact=True, **asdict(plan.asking))
        finally:
            place.close()
        index = {"generation": made.generation.generation, "chunks": made.chunks, "failed": made.failed}
        questions = [
            {**asdict(outcome), "hits": hits} for outcome, hits in zip(evaluated.outcomes, evaluated.hits, strict=True)
        ]
        return RunResult({**evaluated.run, "asking": asdict(plan.asking), "index": index}, questions)

    def _key(self, plan: Planned, made: MadeIndex) -> str:
        """Of all that shapes the scores of a run."""
        own = plan.settings.enrichment.prompts
        asked = plan.settings.model_dump(mode="json", include={"query", "llm"})
        prompts = read_prompts(Path(own) if own else None)
        return fingerprint(made.content, asked, prompts, asdict(plan.asking), self._asked)

    # ------------------------------------------------------------ what people see

    def _tell(self, plan: Planned, indexes: int) -> None:
        done = len(self.results) + len(self.failed)
        left = self._clock.left(indexes, self._count - done)
        self._shown.label = f"run {done + 1} of {self._count} ({plan.run.name}){left}"

    @contextmanager
    def _naming(self, plans: Sequence[Planned]) -> Iterator[None]:
        """An error is kept by the names of the runs that it took their results from."""
        try:
            yield
        except Exception as error:
            known = isinstance(error, PinciteError)
            if not known:
                _LOG.exception("runs of the matrix failed")
            code = error.code if isinstance(error, PinciteError) else "internal"
            message = str(error) if known else f"{type(error).__name__}: {error}"
            for plan in plans:
                if plan.run.name not in self.results:
                    name = plan.run.name
                    self.failed.setdefault(name, {"name": name, "code": code, "message": message})


def _named(result: RunResult, plan: Planned) -> RunResult:
    """A result under the names that the matrix has for it now."""
    names = {"name": plan.run.name, "choice": dict(plan.run.choice), "settings": dict(plan.run.overrides)}
    return RunResult({**result.run, **names}, result.questions)


@cache
def _code() -> str:
    """Hash of the code that answers and scores, so that no result of other code is taken for one of this."""
    found = sorted({file for pattern in _ANSWERING for file in Path(ROOT).glob(pattern)})
    files = [file for file in found if not file.name.startswith("matrix")]
    files += sorted(Path(shipped("sql")).glob(_ASKING))
    return combined(text_hash(file.read_text(encoding="utf-8")) for file in files)
