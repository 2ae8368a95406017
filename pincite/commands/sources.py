"""`pincite sources`: the folders and addresses that an index run reads, and the access to their documents."""

from __future__ import annotations

from typing import Any

import click

from pincite.command_groups import Commands
from pincite.commands.options import GlobalOptions, global_options
from pincite.console import emit, rows, tell
from pipelines.plural import plural


@click.group(cls=Commands)
def sources() -> None:
    """Manage the folders and addresses that are indexed."""


@sources.command("list")
@global_options
def sources_list(place: GlobalOptions) -> int:
    """List every known source, its documents and failures."""
    from pincite.index import open_index

    with open_index(place.project()) as opened:
        known = opened.sources()
    if place.as_json:
        emit({"sources": known})
    else:
        names = ("name", "root", "documents", "failures", "listed")
        heads = ["source", "folder or address", "documents", "failures", "last listed whole"]
        table = [[item[name] if item[name] is not None else "never" for name in names] for item in known]
        if any(item["memberships"] for item in known):
            heads.append("memberships")
            table = [[*row, _memberships(item["memberships"])] for row, item in zip(table, known, strict=True)]
        tell(rows(table, tuple(heads)))
    return 0


def _memberships(told: dict[str, Any] | None) -> str:
    if told is None:
        return "none"
    return f"{told['count']:,}, read {told['hours']:.1f} h ago{'' if told['current'] else ': too old, nobody is one'}"


@sources.command("sync-access")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@global_options
def sources_sync_access(place: GlobalOptions, names: tuple[str, ...]) -> int:
    """Read the members of the sources' principals again.

    Nothing is indexed. The exit code is 3 if a source could not be read.
    """
    from pincite.index import open_index

    with open_index(place.project()) as opened:
        found = opened.sync_access(names)
    if place.as_json:
        emit({"sources": found})
    else:
        for item in found:
            tell(f"source {item['source']!r}: {_sync_text(item)}")
        if not found:
            tell("no source tells who is behind its principals: see docs/guide/sources.md")
    return 3 if any(item["problem"] for item in found) else 0


def _sync_text(item: dict[str, Any]) -> str:
    if item["memberships"] is None:
        return item["problem"] or "it tells no memberships"
    told = f"{plural(item['memberships'], 'membership')}, {item['added']:,} new, {item['removed']:,} gone"
    return f"{told}; {item['problem']}" if item["problem"] else told


@sources.command("check")
@click.argument("source", metavar="NAME | NAME=ADDRESS")
@global_options
def sources_check(place: GlobalOptions, source: str) -> int:
    """Connect to a source and list its first documents.

    Nothing is indexed.
    """
    from pincite.index import Index

    with Index(place.project()) as opened:
        found = opened.check_source(source)
    if place.as_json:
        emit(found)
        return 0
    tell(rows([(item["uri"], _bytes(item["size"])) for item in found["entries"]], ("entry", "bytes")))
    entries = plural(len(found["entries"]), "entry", "entries")
    told = "and more" if found["more"] else "and no more"
    tell(f"source {found['source']!r} can be listed: {entries} {told} that its filters take")
    return 0


def _bytes(size: int | None) -> str:
    return "?" if size is None else f"{size:,}"


@sources.command("remove")
@click.argument("name")
@global_options
def sources_remove(place: GlobalOptions, name: str) -> int:
    """Forget a source.

    The next `pincite index` removes its documents from the index."""
    from pincite.index import open_index

    with open_index(place.project()) as opened:
        count = opened.remove_source(name)
    if place.as_json:
        emit({"removed": name, "documents": count})
    else:
        leaving = plural(count, "document leaves", "documents leave")
        tell(f"source {name!r} is forgotten; {leaving} the index with the next `pincite index`")
    return 0
