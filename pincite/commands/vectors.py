"""`pincite export-texts` and `pincite import-vectors`: embedding that is done elsewhere."""

from __future__ import annotations

import click

from pincite.commands.options import Place, of_sources, placed
from pincite.progress import Progress
from resources.processes import one_heap


@click.command("export-texts")
@click.argument("folder", metavar="FOLDER_OR_URI")
@of_sources
@click.option("--allow-deletions", is_flag=True, help="Take it as meant when most documents of a source are gone.")
@placed
def export_texts(place: Place, folder: str, sources: tuple[str, ...], allow_deletions: bool) -> int:
    """Write the texts that are to be embedded, as Parquet, for others to embed.

    Documents are read first, as by `pincite index`, up to what is embedded. Nothing is embedded, and nothing else is
    served afterwards than was before."""
    one_heap()
    from pincite.index import Index
    from pincite.text.vectors import exported

    with Progress() as progress, Index(place.project(), progress) as opened:
        result = opened.export_texts(folder, sources, allow_deletions=allow_deletions)
    place.give(result, exported)
    return 3 if result["documents"]["failed"] or result["failing_sources"] else 0


@click.command("import-vectors")
@click.argument("places", metavar="FILE_OR_FOLDER_OR_URI...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Only say what would be taken.")
@click.option("--unchecked", is_flag=True, help="Embed no sample to compare with, for an endpoint that costs.")
@placed
def import_vectors(place: Place, places: tuple[str, ...], check: bool, unchecked: bool) -> int:
    """Take vectors that others made of exported texts; the next `pincite index` embeds none of these.

    A file with anything wrong in it is refused as a whole, and named; the others are taken."""
    from pincite.index import open_index
    from pincite.text.vectors import imported

    with Progress() as progress, open_index(place.project(), progress) as opened:
        result = opened.import_vectors(places, check=check, unchecked=unchecked)
    place.give(result, imported)
    if not result["refused"]:
        return 0
    return 1 if len(result["refused"]) == result["files"] else 3
