"""`pincite generations`: the indexes that are kept side by side, one of which is live."""

from __future__ import annotations

from typing import Any

import click

from pincite.command_groups import Commands
from pincite.commands.options import GlobalOptions, global_options
from pincite.console import emit, tell


@click.group(cls=Commands)
def generations() -> None:
    """Manage indexes kept side by side; choose the live one."""


@generations.command("list")
@global_options
def generations_list(place: GlobalOptions) -> int:
    """List every generation with its size and scores.

    Below the table are the reasons why generations are not live."""
    from pincite.index import open_index
    from pincite.text.reports import generations_shown

    with open_index(place.project()) as opened:
        found = opened.generations()
    emit({"generations": found}) if place.as_json else tell(generations_shown(found))
    return 0


@generations.command("publish")
@click.argument("generation", type=int)
@click.option("--force", is_flag=True, help="Although the golden questions speak against it.")
@global_options
def generations_publish(place: GlobalOptions, generation: int, force: bool) -> int:
    """Make a generation the live one, after its audit.

    This ends the hold of a rollback.
    """
    from pincite.index import open_index

    with place.progress("checking the generation") as progress, open_index(place.project(), progress) as opened:
        result = opened.publish(generation, force)
    _say(place, result, f"generation {result['live']} is live; before it {result['previous'] or 'none'} was")
    return 0


@generations.command("rollback")
@global_options
def generations_rollback(place: GlobalOptions) -> int:
    """Make the previous generation live again.

    It stays live until somebody publishes."""
    from pincite.index import open_index

    with open_index(place.project()) as opened:
        result = opened.rollback()
    live, previous = result["live"], result["previous"]
    text = (
        f"generation {live} is live again instead of {previous}, and stays so until somebody publishes "
        f"(`pincite generations publish {previous}`); edits made since come in with the next `pincite index`"
    )
    _say(place, result, text)
    return 0


@generations.command("prune")
@click.option("--keep", default=2, show_default=True, type=int, help="Generations to keep, the live one among them.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@global_options
def generations_prune(place: GlobalOptions, keep: int, dry_run: bool) -> int:
    """Drop old generations, and files that no generation needs."""
    from pincite.index import open_index

    with open_index(place.project()) as opened:
        result = opened.prune(keep, dry_run)
    kept, dropped = (", ".join(map(str, result[name])) or "none" for name in ("kept", "dropped"))
    verb = "to drop" if dry_run else "dropped"
    text = f"generations kept: {kept}; {verb}: {dropped}; files: {result['files']}, {result['bytes'] / 1e6:.1f} MB"
    _say(place, result, text)
    return 0


def _say(place: GlobalOptions, result: dict[str, Any], text: str) -> None:
    emit(result) if place.as_json else tell(text)
