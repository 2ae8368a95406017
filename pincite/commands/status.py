"""`pincite status`: what a state holds."""

from __future__ import annotations

import click

from pincite.commands.options import Place, placed


@click.command()
@placed
def status(place: Place) -> int:
    """Generations, sources, counts, failures and costs."""
    from pincite.index import open_index
    from pincite.text.state import status_shown

    with open_index(place.project()) as opened:
        result = opened.status()
    place.give(result, status_shown)
    return 0
