"""`pincite index`: brings the index up to date."""

from __future__ import annotations

import click

from pincite.commands.options import Place, of_sources, placed
from pincite.progress import Progress
from resources.processes import one_heap


@click.command()
@of_sources
@click.option("--allow-deletions", is_flag=True, help="Take it as meant when most documents of a source are gone.")
@click.option("--retry-failed", is_flag=True, help="Try documents again that failed before and have not changed.")
@click.option(
    "--distributed", is_flag=True, help="On the machines that Dagster's daemon launches runs on; follows them."
)
@placed
def index(place: Place, sources: tuple[str, ...], allow_deletions: bool, retry_failed: bool, distributed: bool) -> int:
    """Index new and changed documents of every known source, or of those named."""
    one_heap()
    from pincite.index import Index
    from pincite.text.indexed import index_summary

    with Progress() as progress, Index(place.project(), progress) as opened:
        options = {"allow_deletions": allow_deletions, "retry_failed": retry_failed}
        result = (
            opened.update_distributed(sources, tell=progress.line, **options)
            if distributed
            else opened.update(sources, **options)
        )
    place.give(result, index_summary)
    if not (result["published"] or result["held"] or result["llm"]["pending"]):
        return 1
    return 3 if result["documents"]["failed"] or result["failing_sources"] else 0
