"""`pincite explain`: what made a passage."""

from __future__ import annotations

from typing import Any

import click

from pincite.commands.options import Place, generation_option, group_option, placed


@click.command()
@click.argument("chunk")
@group_option
@generation_option("Look in")
@placed
def explain(place: Place, chunk: str, **options: Any) -> int:
    """What made a passage: every stage from its document to its vector, when, why, and at what cost."""
    from pincite.index import open_index
    from pincite.text.explained import explanation_shown

    with open_index(place.project()) as opened:
        result = opened.explain(chunk, **options)
    place.give(result, explanation_shown)
    return 0
