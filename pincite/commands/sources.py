"""`pincite sources`: the folders that a run indexes again."""

from __future__ import annotations

import click

from pincite.commands.options import Place, placed
from pincite.console import emit, rows, tell


@click.group()
def sources() -> None:
    """The folders that `pincite index` re-indexes."""


@sources.command("list")
@placed
def sources_list(place: Place) -> int:
    """Every known source with its folder."""
    from pincite.index import open_index

    with open_index(place.project()) as opened:
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

    with open_index(place.project()) as opened:
        count = opened.remove_source(name)
    if place.as_json:
        emit({"removed": name, "documents": count})
    else:
        tell(f"source {name!r} is forgotten; its {count} documents leave the index with the next `pincite index`")
    return 0
