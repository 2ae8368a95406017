"""What a run did, as JSON that another process can read; and several such as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from resources.llm.model import Spent
from resources.sources.book import Listed
from resources.sources.files import Skipped
from resources.sources.listed_documents import AllListed
from resources.state.built import Built, Missing
from resources.state.run import Run
from resources.state.stage_work import StageReport

if TYPE_CHECKING:
    from resources.state.state import State

_COUNTED = ("computed", "kept", "gone", "written", "total", "seconds")
_LISTS = "raw_documents"


def record_of(state: State) -> dict[str, Any]:
    """All that `with_records` needs of the run of a state. Failures are in the catalog."""
    run = state.run
    return {
        "reports": {
            name: {**{key: getattr(report, key) for key in _COUNTED}, "notes": dict(report.notes)}
            for name, report in run.reports.items()
        },
        "spent": asdict(total_spent([*run.spent, *(model.spent for model in run.models)])),
        "problems": {name: [list(problem) for problem in found] for name, found in run.problems.items()},
        "built": None if run.built is None else {**asdict(run.built), "scored": {}},
        "damaged": list(state.parts.tables.damaged),
        "listed": _listed(state.listing.now()) if _LISTS in run.reports else None,
    }


def _listed(listed: Listed) -> dict[str, Any]:
    return {
        "sources": list(listed.sources),
        "skipped": [asdict(item) for item in listed.skipped],
        "failing": dict(listed.failing),
    }


def with_records(run: Run, records: Iterable[Mapping[str, Any]]) -> tuple[Run, Listed | None]:
    """A run that did what these did, the earliest first, and their listing without its documents; None where none of
    them listed sources. Counts and seconds are sums over all."""
    made, listed = replace(run, reports={}, problems={}, spent=[], damaged=[], built=None), None
    for record in records:
        for name, values in record.get("reports", {}).items():
            report = StageReport(name, **{key: values[key] for key in _COUNTED}, notes=values["notes"])
            made.reports[name] = _sum(made.reports[name], report) if name in made.reports else report
        for name, problems in record.get("problems", {}).items():
            found = made.problems.setdefault(name, [])
            found += [problem for code, message in problems if (problem := (code, message)) not in found]
        if values := record.get("spent"):
            made.spent.append(Spent(**values))
        if values := record.get("built"):
            problems = [(code, message) for code, message in values["problems"]]
            made.built = Built(**{**values, "problems": problems, "missing": Missing(**values["missing"])})
        made.damaged += [name for name in record.get("damaged", ()) if name not in made.damaged]
        if values := record.get("listed"):
            skipped = [Skipped(**item) for item in values["skipped"]]
            listed = Listed(tuple(values["sources"]), AllListed(), skipped, [], failing=values["failing"])
    return made, listed


def total_spent(parts: Iterable[Spent]) -> Spent:
    total = Spent()
    for part in parts:
        for item in fields(Spent):
            setattr(total, item.name, getattr(total, item.name) + getattr(part, item.name))
    return total


def _sum(first: StageReport, second: StageReport) -> StageReport:
    """Numbers that both note are added; of other notes the second's stand."""
    added = {
        name: value + second.notes[name]
        for name, value in first.notes.items()
        if _is_number(value) and _is_number(second.notes.get(name))
    }
    counts = {key: getattr(first, key) + getattr(second, key) for key in _COUNTED}
    return replace(first, **counts, notes={**first.notes, **second.notes, **added})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
