"""`pincite plan`: what the next run would do and buy."""

from __future__ import annotations

import click

from pincite.commands.options import Place, of_sources, placed
from pincite.progress import Progress
from resources.processes import one_heap


@click.command()
@of_sources
@placed
def plan(place: Place, sources: tuple[str, ...]) -> int:
    """Say what `pincite index` would add, change and remove, and what its language model would cost.

    Writes nothing and asks no model. Documents are parsed only where prompts depend on them. Prompt tokens are
    estimated upwards; completion tokens are the most that a reply may have. A reply that cannot be used is asked
    for again, llm.attempts times at most."""
    one_heap()
    from pincite.index import Index
    from pincite.text.plan import plan_shown

    with Progress() as progress, Index(place.project(), progress) as index:
        result = index.plan(sources)
    place.give(result, plan_shown)
    return 0
