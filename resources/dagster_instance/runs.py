"""Dagster's record of one run, as pincite reads it: the buckets in its tags, and errors with their codes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from pipelines.errors import PinciteError, UsageError
from pipelines.stages import STAGES, WHOLE_CORPUS

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun

    from pipelines.settings.base import Settings


# ---------------------------------------------------------------- run buckets
#
# The buckets of a launched run, and whether other runs may work on other buckets meanwhile.


_FIRST, _LAST, _ONE = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end", "dagster/partition"
_NUMBER = re.compile(r"[0-9]{1,4}")
BY_BUCKET = frozenset({*STAGES, "indexed_documents"} - WHOLE_CORPUS)
"""Assets whose buckets can be made by several runs at once."""


def is_for(run: DagsterRun, asset: str) -> bool:
    """Say whether a run makes this asset and no other."""
    return {key.to_user_string() for key in run.asset_selection or ()} == {asset}


def buckets_alone(run: DagsterRun, settings: Settings) -> frozenset[int] | None:
    """Return the buckets that a run works on beside other runs; None if it must be the only run. It must if the
    settings do not divide buckets among runs (`buckets_per_run`), and if it makes an asset of the whole corpus.

    Raise UsageError if its tags name buckets that the index does not have."""
    if settings.buckets_per_run is None or not run.asset_selection:
        return None
    if {key.to_user_string() for key in run.asset_selection} - BY_BUCKET:
        return None
    buckets = buckets_in(run.tags)
    if buckets is None:
        return None
    if not 0 <= buckets.start < buckets.stop <= settings.buckets:
        raise _no_buckets(settings.buckets)
    return frozenset(buckets) if len(buckets) < settings.buckets else None


def buckets_in(tags: Mapping[str, str]) -> range | None:
    """Return the buckets that the tags of a run name; None if they name none.

    The range is empty if the tags are not numbers of buckets: anyone who launches a run can write its tags."""
    if not tags.keys() & {_FIRST, _LAST, _ONE}:
        return None
    first = tags.get(_FIRST, tags.get(_ONE, ""))
    last = tags.get(_LAST, first)
    if not all(_NUMBER.fullmatch(key) for key in (first, last)):
        return range(0)
    return range(int(first), int(last) + 1)


def _no_buckets(count: int) -> UsageError:
    return UsageError(
        f"the partitions that the tags of this run name are no buckets of this index, which are 00 to {count - 1:02d}; "
        "launch it again for partitions that Dagster's UI shows"
    )


# ---------------------------------------------------------------- run errors
#
# Errors of this project in Dagster's record of a run: they carry their codes, so that another process can tell them
# apart.


_WORD = re.compile(r"\w{1,100}")


class ErrorInfo(Protocol):
    """An error in Dagster's record: `message` holds the name of its class, its text, and its notes."""

    @property
    def message(self) -> str: ...
    @property
    def cause(self) -> ErrorInfo | None: ...
    @property
    def context(self) -> ErrorInfo | None: ...


@contextmanager
def coded() -> Iterator[None]:
    """Add the code of an error that is raised within to its notes, which Dagster shows with the error."""
    try:
        yield
    except PinciteError as error:
        note = f"code: {error.code}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def error_of(instance: DagsterInstance, run_id: str) -> PinciteError:
    """Return why a run failed: the project's own error, else Dagster's message with the code `run_failed`."""
    import dagster as dg

    said = "nobody said why; its process may have been killed"
    wanted = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
    for entry in instance.all_logs(run_id, of_type=wanted):
        if entry.dagster_event is None:
            continue
        info = getattr(entry.dagster_event.event_specific_data, "error", None)
        if info and (own := own_error(info)):
            return own
        said = _root(info).message if info else entry.dagster_event.message or said
    return PinciteError(f"run {run_id} failed: {' '.join(said.split())}", "run_failed")


def own_error(info: ErrorInfo) -> PinciteError | None:
    """Return the project's own error that one of Dagster's holds, with its exit code."""
    seen: ErrorInfo | None = info
    while seen:
        if told := _told(seen.message):
            name, message, code = told
            error = PinciteError(message, code)
            error.exit_code = _exit_code(name, PinciteError) or 1
            return error
        seen = seen.cause or seen.context
    return None


def _told(message: str) -> tuple[str, str, str] | None:
    """Return the name of the class, the text, and the code in the note after it; None if it is not an error of this
    project."""
    where, colon, rest = message.partition(": ")
    said, note, code = rest.rstrip().rpartition("\ncode: ")
    name = where.rpartition(".")[2]
    ours = colon and note and _WORD.fullmatch(name) and _WORD.fullmatch(code)
    return (name, said, code) if ours else None


def _root(info: ErrorInfo) -> ErrorInfo:
    while info.cause:
        info = info.cause
    return info


def _exit_code(name: str, family: type[PinciteError]) -> int | None:
    """Find the exit code of a class of the family by the name of the class."""
    if family.__name__ == name:
        return family.exit_code
    found = (_exit_code(name, child) for child in family.__subclasses__())
    return next((code for code in found if code is not None), None)
