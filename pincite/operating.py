"""Commands of those who keep an index: its sources, its generations, its health, its server."""

from __future__ import annotations

from typing import Any

import click

from pincite.console import Progress, emit, rows, tell
from pincite.placed import Place, placed


@click.group()
def sources() -> None:
    """The folders that `pincite index` re-indexes."""


@sources.command("list")
@placed
def sources_list(place: Place) -> int:
    """Every known source with its folder."""
    from pincite.index import open_index

    with open_index(place.located()) as opened:
        known = opened.sources()
    if place.as_json:
        emit({"sources": known})
    else:
        tell(
            rows([(item["name"], item["root"], item["documents"]) for item in known], ("source", "folder", "documents"))
        )
    return 0


@sources.command("remove")
@click.argument("name")
@placed
def sources_remove(place: Place, name: str) -> int:
    """Forget a source; the next `pincite index` removes its documents from the index."""
    from pincite.index import open_index

    with open_index(place.located()) as opened:
        count = opened.remove_source(name)
    if place.as_json:
        emit({"removed": name, "documents": count})
    else:
        tell(f"source {name!r} is forgotten; its {count} documents leave the index with the next `pincite index`")
    return 0


@click.group()
def generations() -> None:
    """The indexes that stand side by side, and which of them serves."""


@generations.command("list")
@placed
def generations_list(place: Place) -> int:
    """Every generation: its embedder, rows, size, scores, and why it is not live."""
    from pincite.index import open_index
    from pincite.report import generations_shown

    with open_index(place.located()) as opened:
        found = opened.generations()
    emit({"generations": found}) if place.as_json else tell(generations_shown(found))
    return 0


@generations.command("publish")
@click.argument("generation", type=int)
@click.option("--force", is_flag=True, help="Although the golden questions speak against it.")
@placed
def generations_publish(place: Place, generation: int, force: bool) -> int:
    """Make a generation the live one, after its audit; ends the hold of a rollback."""
    from pincite.index import open_index

    progress = Progress()
    with open_index(place.located(), progress) as opened:
        result = opened.publish(generation, force)
    progress.close()
    _say(place, result, f"generation {result['live']} is live; before it {result['previous'] or 'none'} was")
    return 0


@generations.command("rollback")
@placed
def generations_rollback(place: Place) -> int:
    """Make the generation live again that was before; it stays until somebody publishes."""
    from pincite.index import open_index

    with open_index(place.located()) as opened:
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
@placed
def generations_prune(place: Place, keep: int, dry_run: bool) -> int:
    """Drop old generations, and files that no generation needs."""
    from pincite.index import open_index

    with open_index(place.located()) as opened:
        result = opened.prune(keep, dry_run)
    kept, dropped = (", ".join(map(str, result[name])) or "none" for name in ("kept", "dropped"))
    verb = "to drop" if dry_run else "dropped"
    text = f"generations kept: {kept}; {verb}: {dropped}; files: {result['files']}, {result['bytes'] / 1e6:.1f} MB"
    _say(place, result, text)
    return 0


def _say(place: Place, result: dict[str, Any], text: str) -> None:
    emit(result) if place.as_json else tell(text)


@click.command()
@placed
def verify(place: Place) -> int:
    """Whether everything that should be there is, row by row; exit code 0 only then."""
    from pincite.index import open_index
    from pincite.report import verified_shown

    progress = Progress()
    with open_index(place.located(), progress) as opened:
        result = opened.verify()
    progress.close()
    _say(place, result, verified_shown(result))
    return 0 if result["ok"] else 1


@click.command()
@click.argument("chunk")
@click.option("--group", "groups", multiple=True, metavar="G", help="A group of the asker; may be repeated.")
@click.option("--generation", type=int, metavar="G", help="Look in another generation than the live one.")
@placed
def explain(place: Place, chunk: str, **options: Any) -> int:
    """What made a passage: every stage from its document to its vector, when, why, and at what cost."""
    from pincite.explained import explanation_shown
    from pincite.index import open_index

    with open_index(place.located()) as opened:
        result = opened.explain(chunk, **options)
    _say(place, result, explanation_shown(result))
    return 0


@click.command()
@click.argument("action", type=click.Choice(["start", "stop", "status", "url", "programs"]))
@click.option("--force", is_flag=True, help="Stop the server even while others use it.")
@placed
def db(place: Place, action: str, force: bool) -> int:
    """Start, stop or look at the state's Postgres server; print its address, or the folder of psql, pg_dump and
    pg_restore of its version."""
    from pincite.database_command import database_command

    result = database_command(place.located(), action, force)
    emit(result) if place.as_json else tell(result["shown"])
    return 0


@click.command()
@click.option("--port", default=3000, show_default=True, type=int)
@click.option("--host", default="127.0.0.1", show_default=True, help="Plain HTTP: keep it on loopback.")
@click.option("--allowed-host", "names", multiple=True, metavar="NAME", help="A name that a proxy serves the UI under.")
@click.option("--read-only", is_flag=True, help="Show everything, launch and change nothing.")
@placed
def ui(place: Place, port: int, host: str, names: tuple[str, ...], read_only: bool) -> int:
    """Dagster's webserver and daemon on this state: lineage, runs, metadata, backfills.

    The address that it prints has a token, without which nobody is let in: a new one at every start, or the value
    of PINCITE_UI_TOKEN."""
    from pincite.ui import run_ui

    return run_ui(place.located(), host, port, read_only, names)
