"""The errors of pincite in Dagster's record of a run, with their codes, so that another process can distinguish
them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from pipelines.errors import PinciteError

if TYPE_CHECKING:
    from dagster import DagsterInstance


_WORD = re.compile(r"\w{1,100}")


class ErrorInfo(Protocol):
    """An error in Dagster's record: `message` has the name of its class, its text, and its notes."""

    @property
    def message(self) -> str: ...
    @property
    def cause(self) -> ErrorInfo | None: ...
    @property
    def context(self) -> ErrorInfo | None: ...


@contextmanager
def add_codes() -> Iterator[None]:
    """Add the code of an error raised in this context to its notes, which Dagster shows with the error."""
    try:
        yield
    except PinciteError as error:
        note = f"code: {error.code}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def error_of(instance: DagsterInstance, run_id: str) -> PinciteError:
    """Return the error of a failed run: pincite's own error, or else Dagster's message with the code `run_failed`."""
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
    return PinciteError(f"run {run_id} failed: {' '.join(said.split())}; see its log in Dagster's UI", "run_failed")


def own_error(info: ErrorInfo) -> PinciteError | None:
    """Return pincite's own error within one of Dagster's, with its exit code, or None."""
    seen: ErrorInfo | None = info
    while seen:
        if told := _parse_error(seen.message):
            name, message, code = told
            error = PinciteError(message, code)
            error.exit_code = _exit_code(name, PinciteError) or 1
            return error
        seen = seen.cause or seen.context
    return None


def _parse_error(message: str) -> tuple[str, str, str] | None:
    """Return the class name, the text, and the code in the note after it; return None if it is not an error of
    pincite."""
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
    """Return the exit code of an error class by its name, among the subclasses of `family`."""
    if family.__name__ == name:
        return family.exit_code
    found = (_exit_code(name, child) for child in family.__subclasses__())
    return next((code for code in found if code is not None), None)
