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
# Which buckets a launched run is for, and whether others may be worked on meanwhile.


_FIRST, _LAST, _ONE = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end", "dagster/partition"
_NUMBER = re.compile(r"[0-9]{1,4}")
BY_BUCKET = frozenset({*STAGES, "indexed_documents"} - WHOLE_CORPUS)
"""Assets of which each bucket can be made while other runs make others."""


def is_for(run: DagsterRun, asset: str) -> bool:
    """Whether a run makes nothing but this."""
    return {key.to_user_string() for key in run.asset_selection or ()} == {asset}


def buckets_alone(run: DagsterRun, settings: Settings) -> frozenset[int] | None:
    """The buckets that a run works on beside runs of others; None where it must be the only one: unless the settings
    part buckets among runs (`buckets_per_run`), and where it makes what belongs to the whole corpus.

    Raises UsageError where its tags name other buckets than there are."""
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
    """Return the buckets that the tags of a run name; None where they name none.

    The range is empty for tags that are no numbers of buckets: whoever launches a run writes its tags."""
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
# Errors of this project as Dagster keeps them of a run: with their codes, so that another process can tell them.


_WORD = re.compile(r"\w{1,100}")


class ErrorInfo(Protocol):
    """An error as Dagster keeps it: `message` is the name of its class, what it says, and its notes."""

    @property
    def message(self) -> str: ...
    @property
    def cause(self) -> ErrorInfo | None: ...
    @property
    def context(self) -> ErrorInfo | None: ...


@contextmanager
def coded() -> Iterator[None]:
    """What goes wrong within says its code too, where Dagster shows an error."""
    try:
        yield
    except PinciteError as error:
        note = f"code: {error.code}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def error_of(instance: DagsterInstance, run_id: str) -> PinciteError:
    """Why a run failed: the project's own error, else what Dagster says, with code `run_failed`."""
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
    """The project's own error in one of Dagster's, with the exit code that it had."""
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
    """Name of the class, what it says, and the code in the note after it; None where it is no error of ours."""
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
    """That of a class of the family, by its name."""
    if family.__name__ == name:
        return family.exit_code
    found = (_exit_code(name, child) for child in family.__subclasses__())
    return next((code for code in found if code is not None), None)
