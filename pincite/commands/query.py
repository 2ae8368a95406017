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
    from pincite.index import open_index
    from pincite.text.passages import hits_shown

    with open_index(place.project()) as opened:
        result = opened.query(text, **options)
    place.give(result, lambda found: hits_shown(found, explain))
    return 0
