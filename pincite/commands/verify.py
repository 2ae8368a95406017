"""`pincite verify`: whether all is there that should be."""

from __future__ import annotations

import click

from pincite.commands.options import Place, placed
from pincite.progress import Progress
from resources.processes import one_heap


@click.command()
@placed
def verify(place: Place) -> int:
    """Whether everything that should be there is, row by row; exit code 0 only then."""
    one_heap()
    from pincite.index import open_index
    from pincite.text.state import verified_shown

    with Progress() as progress, open_index(place.project(), progress) as opened:
        result = opened.verify()
    place.give(result, verified_shown)
    return 0 if result["ok"] else 1
