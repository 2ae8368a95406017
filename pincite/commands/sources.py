"""`pincite sources`: the folders and addresses that a run indexes again."""

from __future__ import annotations

import click

from pincite.commands.options import Place, placed
from pincite.console import emit, rows, tell


@click.group()
def sources() -> None:
    """The folders and addresses that `pincite index` re-indexes."""


@sources.command("list")
@placed
def sources_list(place: Place) -> int:
    """Every known source with its folder or address, its documents and failures."""
    from pincite.index import open_index

    with open_index(place.project()) as opened:
        known = opened.sources()
    if place.as_json:
        emit({"sources": known})
    else:
        names = ("name", "root", "documents", "failures", "listed")
        table = [[item[name] if item[name] is not None else "never" for name in names] for item in known]
        tell(rows(table, ("source", "folder or address", "documents", "failures", "last listed whole")))
    return 0


@sources.command("check")
@click.argument("source", metavar="NAME | NAME=ADDRESS")
@placed
def sources_check(place: Place, source: str) -> int:
    """Reach a source and list its first documents, without indexing any."""
    from pincite.index import Index

    with Index(place.project()) as opened:
        found = opened.check_source(source)
    if place.as_json:
        emit(found)
        return 0
    tell(rows([(item["uri"], _bytes(item["size"])) for item in found["entries"]], ("entry", "bytes")))
    told = "and more" if found["more"] else "and no more"
    tell(f"source {found['source']!r} can be listed: {len(found['entries'])} entries {told} that its filters take")
    return 0


def _bytes(size: int | None) -> str:
    return "?" if size is None else f"{size:,}"


@sources.command("remove")
@click.argument("name")
@placed
def sources_remove(place: Place, name: str) -> int:
    """Forget a source; the next `pincite index` removes its documents from the index."""
    from pincite.index import open_index

    with open_index(place.project()) as opened:
        count = opened.remove_source(name)
    if place.as_json:
        emit({"removed": name, "documents": count})
    else:
        tell(f"source {name!r} is forgotten; its {count} documents leave the index with the next `pincite index`")
    return 0
