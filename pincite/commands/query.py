"""`pincite query`: passages for a question."""

from __future__ import annotations

from typing import Any

import click

from pincite.commands.options import Place, placed, searching


@click.command()
@click.argument("text")
@searching
@click.option("--explain", is_flag=True, help="Show what every stage made of each hit.")
@placed
def query(place: Place, text: str, explain: bool, **options: Any) -> int:
    """Find passages; each with document, page, box and the headings above it."""
    from pincite.serve.client import answered
    from pincite.text.passages import hits_shown

    project = place.project()
    result = answered(project, "query", text, options)
    if result is None:
        from pincite.index import open_index

        with open_index(project) as opened:
            result = opened.query(text, **options)
    place.give(result, lambda found: hits_shown(found, explain))
    return 0
