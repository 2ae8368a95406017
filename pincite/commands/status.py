"""The commands that inspect: `pincite status` (contents), `verify` (integrity) and `doctor` (this machine)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from pincite.commands.options import GlobalOptions, global_options
from pincite.console import PrintableLines, block
from pipelines.plural import plural
from resources.memory import one_heap


def examined_shown(result: dict[str, Any]) -> PrintableLines:
    width = max(len(check["name"]) for check in result["checks"])
    return block([*(line for check in result["checks"] for line in _lines(check, width)), _sum(result)])


def _lines(check: dict[str, str], width: int) -> Iterator[str]:
    yield f"{check['severity']:7}  {check['name']:{width}}  {check['found']}"
    if check["remedy"]:
        yield f"{'':7}  {'':{width}}  -> {check['remedy']}"


def _sum(result: dict[str, Any]) -> str:
    counts = Counter(check["severity"] for check in result["checks"])
    told = [plural(count, kind) for kind in ("failure", "warning") if (count := counts[kind])]
    if result["ok"]:
        return f"pincite can work here{': ' * bool(told)}{''.join(told)}"
    return f"{' and '.join(told)}: pincite cannot work here until the failures are corrected"


# ---------------------------------------------------------------- doctor


@click.command()
@click.option("--ask-models", is_flag=True, help="Also send each endpoint's model one word, which may cost.")
@global_options
def doctor(place: GlobalOptions, ask_models: bool) -> int:
    """Check that pincite can work on this machine.

    It checks Python, packages, memory, disk, database, endpoints, OCR, models, clock and permissions. It needs no index
    and no settings. It sends no text of documents, and costs nothing without --ask-models.
    """
    from resources.reports.doctor.examine import examine

    with place.progress("checking this machine"):
        result = examine(place.project, ask_models)
    place.give(result, examined_shown)
    return 0 if result["ok"] else 1


# ---------------------------------------------------------------- verify


@click.command()
@global_options
def verify(place: GlobalOptions) -> int:
    """Check row by row that the index is complete.

    The exit code is 0 only for a complete index.
    """
    one_heap()
    from pincite.index import open_index
    from pincite.text.reports import verified_shown

    with place.progress("checking rows") as progress, open_index(place.project(), progress) as opened:
        result = opened.verify()
    place.give(result, verified_shown)
    return 0 if result["ok"] else 1


# ---------------------------------------------------------------- status


@click.command()
@global_options
def status(place: GlobalOptions) -> int:
    """Show generations, sources, counts, failures and costs."""
    from pincite.index import open_index
    from pincite.text.reports import status_shown

    with place.progress("reading the state"), open_index(place.project()) as opened:
        result = opened.status()
    place.give(result, status_shown)
    return 0
