"""A finding of `pincite doctor`, and its creation from a check that may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pipelines.errors import PinciteError

Severity = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. `name` is the checked thing; `remedy` says what to do, and is empty if the check passed."""

    name: str
    severity: Severity
    found: str
    remedy: str = ""


def ok(name: str, found: str) -> Finding:
    return Finding(name, "ok", found)


def doubtful(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, "warning", found, remedy)


def broken_finding(name: str, found: str, remedy: str) -> Finding:
    return Finding(name, "failure", found, remedy)


def failed_finding(name: str, error: PinciteError) -> Finding:
    """Return the failure for an error, whose message ends with the remedy."""
    found, _, remedy = str(error).rpartition("; ")
    return broken_finding(name, found or remedy, remedy if found else "see docs/reference/codes.md, code " + error.code)


def looked_at(name: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a check. A check that raises an error counts as a failure, and does not stop the others."""
    try:
        yield from check()
    except PinciteError as error:
        yield failed_finding(name, error)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        told = error.strerror or type(error).__name__
        yield broken_finding(
            name, f"could not be looked at: {named}{told}", "see that it is there, and its owner and permissions"
        )
    except Exception as error:
        # The error may come from a foreign library, and its text may hold an address with its password.
        yield broken_finding(
            name, f"could not be looked at: {type(error).__name__}", "report it, with what is installed"
        )
