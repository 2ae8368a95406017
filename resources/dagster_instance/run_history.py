"""The record of a state's runs: Dagster's storage, kept open, and the runs that were made without Dagster.

Importing dagster takes longer than a small run. So such a run appends its record to a file in the state folder, as a
line of JSON. Whatever opens Dagster for the state next, a run of the job or `pincite ui`, writes the runs into its
storage, with the times that they had, before anything of its own.

Private parts of Dagster are imported here, since it has nothing public that writes a run that is over.
tests/dagster/test_direct_runs.py checks them.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster import AssetCheckEvaluation, AssetMaterialization, DagsterInstance


# ---------------------------------------------------------------- records


@dataclass(frozen=True, slots=True)
class MadeAsset:
    """An asset that a run made, by its key in the UI, with its data version and its counts by bucket."""

    key: str
    code_version: str
    versions: dict[int, str]
    metadata: dict[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a check of an asset. `told` has numbers, texts, and tables as lists of rows."""

    asset: str
    check: str
    passed: bool
    told: dict[str, Any]
    blocking: bool = False


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that is over. `status` is Dagster's, such as SUCCESS; times are in seconds since 1970; `message` says why a
    run failed."""

    run_id: str
    job: str
    status: str
    began: float
    ended: float
    message: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    made: list[MadeAsset] = field(default_factory=list)
    checks: list[Evaluation] = field(default_factory=list)


_FILE = "direct-runs.jsonl"
MOST_BYTES = 2_000_000
"""Bytes of that file from which on the next run is one of the job, which takes the records over."""


def note_run(home: Path, record: RunRecord) -> None:
    """Append the record of a run to the file in Dagster's folder of a state."""
    home.mkdir(mode=0o700, exist_ok=True)
    with _open_locked(home, "a") as file:
        # A run that was killed may have left a part of a line.
        file.write("\n" + json.dumps(asdict(record), default=str) + "\n")


def takes_more_runs(home: Path) -> bool:
    """Say whether the file is small enough for another record."""
    return not (home / _FILE).exists() or (home / _FILE).stat().st_size < MOST_BYTES


def noted_runs(home: Path) -> list[RunRecord]:
    """Return the runs that Dagster has not recorded yet, the earliest first."""
    if not (home / _FILE).exists():
        return []
    with _open_locked(home, "r") as file:
        return list(_read(file))


@contextmanager
def taken_runs(home: Path) -> Iterator[list[RunRecord]]:
    """Yield the same runs, and forget them unless an error is raised meanwhile. Others wait."""
    if not (home / _FILE).exists():
        yield []
        return
    with _open_locked(home, "r+") as file:
        yield list(_read(file))
        file.truncate(0)


@contextmanager
def _open_locked(home: Path, mode: str) -> Iterator[IO[str]]:
    with (home / _FILE).open(mode, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH if mode == "r" else fcntl.LOCK_EX)
        yield file


def _read(file: Iterable[str]) -> Iterator[RunRecord]:
    """Yield the records of whole lines. A run that was killed may have left a part of one."""
    for line in file:
        try:
            values = json.loads(line)
            made = [
                MadeAsset(each["key"], each["code_version"], _by_bucket(each["versions"]), _by_bucket(each["metadata"]))
                for each in values.pop("made")
            ]
            checks = [Evaluation(**each) for each in values.pop("checks", [])]
            yield RunRecord(**values, made=made, checks=checks)
        except (ValueError, TypeError, KeyError, RecursionError):
            continue


def _by_bucket(values: dict[str, Any]) -> dict[int, Any]:
    return {int(bucket): value for bucket, value in values.items()}


# ---------------------------------------------------------------- in Dagster


@contextmanager
def run_history(home: Path) -> Iterator[DagsterInstance]:
    """Open the instance of a folder with a dagster.yaml, and keep its storage open. This uses private parts of Dagster.
    If they have changed, the instance is opened in Dagster's own way, which is slower."""
    from dagster import DagsterInstance

    try:
        from resources.dagster_instance.storage import instance_reference

        made = DagsterInstance.from_ref(instance_reference(home))
    except (ImportError, AttributeError):
        made = DagsterInstance.from_config(str(home))
    with made as instance:
        yield instance


_EVENT_OF_STATUS = {"SUCCESS": "PIPELINE_SUCCESS", "FAILURE": "PIPELINE_FAILURE", "CANCELED": "PIPELINE_CANCELED"}
_NOT_AGAIN = {"dagster/max_retries": "0"}
"""A tag that keeps Dagster's daemon from starting a failed run again: the command that made it told its user."""


def report_run(
    instance: DagsterInstance,
    record: RunRecord,
    made: Iterable[AssetMaterialization],
    checks: Iterable[AssetCheckEvaluation],
) -> None:
    """Write a run that is over into Dagster's storage, with its materialisations, each of which is made after those
    before it are stored, and the results of its checks. Do nothing if the run is already stored. If Dagster's private
    parts have changed, report materialisations and results without the run."""
    import dagster as dg

    if instance.has_run(record.run_id):
        return
    try:
        from dagster._core.events import StepMaterializationData
    except ImportError:
        for materialization in made:
            instance.report_runless_asset_event(materialization)
        for evaluation in checks:
            instance.report_runless_asset_event(evaluation)
        return
    instance.add_run(dg.DagsterRun(record.job, run_id=record.run_id, tags={**record.tags, **_NOT_AGAIN}))

    def report(kind: str, at: float, data: Any = None, message: str = "") -> None:
        event = dg.DagsterEvent(kind, record.job, event_specific_data=data, message=message or None)
        instance.report_dagster_event(event, record.run_id, timestamp=at)

    report("PIPELINE_START", record.began)
    for materialization in made:
        report("ASSET_MATERIALIZATION", record.ended, StepMaterializationData(materialization))
    for evaluation in checks:
        report("ASSET_CHECK_EVALUATION", record.ended, evaluation)
    report(_EVENT_OF_STATUS[record.status], record.ended, message=record.message)
