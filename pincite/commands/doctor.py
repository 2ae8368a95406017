"""`pincite doctor`: what keeps pincite from working here, and what to do."""

from __future__ import annotations

import click

from pincite.commands.options import Place, placed


@click.command()
@click.option("--ask-models", is_flag=True, help="Also send each endpoint's model one word, which may cost.")
@placed
def doctor(place: Place, ask_models: bool) -> int:
    """Look at Python, packages, memory, disk, database, endpoints, OCR, models, clock and rights.

    Needs no index and no settings. Sends no text of documents, and buys nothing unless asked to."""
    from pincite.text.examined import examined_shown
    from resources.reports.doctor.examine import examine

    result = examine(place.project, ask_models)
    place.give(result, examined_shown)
    return 0 if result["ok"] else 1
