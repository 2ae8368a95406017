"""The commands that update the index: `pincite index`, `plan`, `export-texts` and `import-vectors`.

`plan` reports the work and cost of an update. The last two let another program embed the texts of an update.
"""

from __future__ import annotations

import click

from pincite.commands.options import GlobalOptions, global_options, of_folders, of_sources
from pincite.console import say
from pincite.progress import INDEXING
from resources.memory import one_heap

# ---------------------------------------------------------------- index


@click.command()
@of_folders
@click.option("--allow-deletions", is_flag=True, help="Take it as meant when most documents of a source are gone.")
@click.option("--retry-failed", is_flag=True, help="Try documents again that failed before and have not changed.")
@click.option(
    "--distributed", is_flag=True, help="On the machines that Dagster's daemon launches runs on; follows them."
)
@global_options
def index(
    place: GlobalOptions, sources: tuple[str, ...], allow_deletions: bool, retry_failed: bool, distributed: bool
) -> int:
    """Index new and changed documents of these folders.

    A folder is remembered as a source by its name. If you name no folder, every known source is indexed."""
    one_heap()
    options = {"allow_deletions": allow_deletions, "retry_failed": retry_failed}
    with place.progress("starting", INDEXING) as progress:
        from pincite.text.reports import index_summary, seconds_shown

        project = place.project()
        if distributed:
            from pincite.distributed import update_distributed

            result = update_distributed(sources, project, progress=progress, tell=progress.line, **options)
        else:
            from pincite.run import update_index

            result = update_index(sources, project, progress=progress, **options)
    place.give(result, index_summary)
    if place.verbose:
        say(seconds_shown(result["seconds"]))
    if not (result["published"] or result["held"] or result["llm"]["pending"]):
        return 1
    return 3 if result["documents"]["failed"] or result["failing_sources"] else 0


# ---------------------------------------------------------------- plan


@click.command()
@of_folders
@global_options
def plan(place: GlobalOptions, sources: tuple[str, ...]) -> int:
    """Estimate the work and the cost of `pincite index`.

    The report counts documents to add, change and remove, and calls of the language model.

    Nothing is written, and no model is called. Documents are parsed only if prompts depend on them. Prompt tokens are
    an upper estimate; completion tokens are the limit of a reply. An unusable reply is asked for again, at most
    llm.attempts times.
    """
    one_heap()
    with place.progress("starting", INDEXING) as progress:
        from pincite.index import Index
        from pincite.text.reports import plan_shown

        with Index(place.project(), progress) as index:
            result = index.plan(sources)
    place.give(result, plan_shown)
    return 0


# ---------------------------------------------------------------- export-texts and import-vectors


@click.command("export-texts")
@click.argument("folder", metavar="FOLDER_OR_URI")
@of_sources
@click.option("--allow-deletions", is_flag=True, help="Take it as meant when most documents of a source are gone.")
@global_options
def export_texts(place: GlobalOptions, folder: str, sources: tuple[str, ...], allow_deletions: bool) -> int:
    """Write the texts to embed as Parquet, for another program.

    Documents are first read and chunked like in `pincite index`. Nothing is embedded, and the live index does not
    change.
    """
    one_heap()
    with place.progress("starting", INDEXING) as progress:
        from pincite import run
        from pincite.text.reports import export_text

        project = place.project()
        result = run.export_texts(folder, sources, project, allow_deletions=allow_deletions, progress=progress)
    place.give(result, export_text)
    return 3 if result["documents"]["failed"] or result["failing_sources"] else 0


@click.command("import-vectors")
@click.argument("places", metavar="FILE_OR_FOLDER_OR_URI...", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Only say what would be taken.")
@click.option("--unchecked", is_flag=True, help="Embed no sample to compare with, for an endpoint that costs.")
@global_options
def import_vectors(place: GlobalOptions, places: tuple[str, ...], check: bool, unchecked: bool) -> int:
    """Import the vectors of exported texts.

    The next `pincite index` does not embed those texts again. A file with any error is refused as a whole, and named;
    the other files are imported.
    """
    with place.progress("starting") as progress:
        from pincite.index import open_index
        from pincite.text.reports import import_text

        with open_index(place.project(), progress) as opened:
            result = opened.import_vectors(places, check=check, unchecked=unchecked)
    place.give(result, import_text)
    if not result["refused"]:
        return 0
    return 1 if len(result["refused"]) == result["files"] else 3
