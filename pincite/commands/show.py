"""`pincite show`: a passage or a sentence by its id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pincite.commands.options import Place, generation_option, group_option, placed


@click.command()
@click.argument("named", metavar="ID")
@click.option("--image", metavar="PAGE.png", type=click.Path(path_type=Path), help="Draw its page with it marked.")
@group_option
@generation_option("Look in")
@placed
def show(place: Place, named: str, **options: Any) -> int:
    """Show a passage by its chunk id, or a sentence in its paragraph; the first characters of an id are enough.

    `pincite query` prints the ids. What goes on to another page is drawn on PAGE.png, PAGE-2.png and so on."""
    from pincite.index import open_index
    from pincite.text.passages import passage_shown

    with open_index(place.project()) as opened:
        result = opened.show(named, **options)
    place.give(result, passage_shown)
    return 0
