"""The `pincite` command. Wires the layers; heavy imports happen inside the commands."""

from __future__ import annotations

import io
import sys

from resources.child_process import module_path, protect_children

# Before anything else is imported: the current folder may be one of documents, one of them named `click.py`.
sys.path[:] = module_path()
protect_children()

from pathlib import Path
from typing import Any

import click

from pincite import __version__
from pincite.asking import ask, query
from pincite.console import Progress, emit, say, tell
from pincite.evaluating import evaluate
from pincite.links_command import links
from pincite.operating import db, explain, generations, sources, ui, verify
from pincite.placed import Place, placed
from pincite.plan_command import plan


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pincite")
def cli() -> None:
    """Index folders of real documents; get passages pinned to document, page and box.

    \b
    pincite index --source docs/handbook     index a folder (again: only what changed)
    pincite plan                             what that would do, and what its model calls would cost
    pincite query "how long are logs kept?"  ranked passages with page and box
    pincite ask "how long are logs kept?"    an answer with its places, or none
    pincite show ID --image page.png         a passage or sentence, marked on its page
    pincite parse FILE --image DIR           what the parser finds, to look at
    pincite eval questions.jsonl             score retrieval on golden questions
    pincite generations list                 the live index, and those beside it
    pincite verify                           whether all that should be there is
    pincite ui                               lineage and past runs in the browser
    """


@cli.command()
@click.option("--source", "sources", multiple=True, metavar="[NAME=]PATH", help="Folder to index; may be repeated.")
@click.option("--allow-deletions", is_flag=True, help="Take it as meant when most documents of a source are gone.")
@click.option("--retry-failed", is_flag=True, help="Try documents again that failed before and have not changed.")
@placed
def index(place: Place, sources: tuple[str, ...], allow_deletions: bool, retry_failed: bool) -> int:
    """Index new and changed documents of every known source, or of those named."""
    from pincite.index_run import run_index
    from pincite.report import index_summary

    progress = Progress()
    try:
        result = run_index(place.located(), sources, allow_deletions, retry_failed, progress)
    finally:
        progress.close()
    emit(result) if place.as_json else tell(index_summary(result))
    if not (result["published"] or result["held"] or result["llm"]["pending"]):
        return 1
    return 3 if result["documents"]["failed"] else 0


@cli.command()
@click.argument("named", metavar="ID")
@click.option("--image", metavar="PAGE.png", type=click.Path(path_type=Path), help="Draw its page with it marked.")
@click.option("--group", "groups", multiple=True, metavar="G", help="A group of the asker; may be repeated.")
@click.option("--generation", type=int, metavar="G", help="Look in another generation than the live one.")
@placed
def show(place: Place, named: str, **options: Any) -> int:
    """Show a passage by its chunk id, or a sentence in its paragraph; the first characters of an id are enough.

    `pincite query` prints the ids. What goes on to another page is drawn on PAGE.png, PAGE-2.png and so on."""
    from pincite.index import open_index
    from pincite.report import passage_shown

    with open_index(place.located()) as opened:
        result = opened.show(named, **options)
    emit(result) if place.as_json else tell(passage_shown(result))
    return 0


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--markdown", is_flag=True, help="The document as Markdown.")
@click.option(
    "--image", metavar="DIR", type=click.Path(path_type=Path), help="A picture of every page, kinds in colours."
)
@click.option("--pages", metavar="3-7,12", help="Only these pages.")
@placed
def parse(place: Place, file: Path, **options: Any) -> int:
    """Show what the parser finds in FILE; needs no index and makes none.

    With --json, the document and its elements as a structural map, which pincite reads as
    NAME.elements.json."""
    from pincite.parse_command import parse_command

    found = parse_command(file, place.as_json, parsing=place.located().settings.parsing, **options)
    emit(found) if place.as_json else tell(found)
    return 0


@cli.command()
@placed
def status(place: Place) -> int:
    """Generations, sources, counts, failures and costs."""
    from pincite.index import open_index
    from pincite.report import status_shown

    with open_index(place.located()) as opened:
        result = opened.status()
    emit(result) if place.as_json else tell(status_shown(result))
    return 0


for command in (query, ask, evaluate, plan, sources, generations, links, verify, explain, db, ui):
    cli.add_command(command)


def main() -> None:
    # A closed pipe (`pincite query ... | head`) is no error of ours.
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        _usage(error)
    except click.exceptions.Abort:
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _usage(error: click.ClickException) -> None:
    if "--json" in sys.argv:
        emit({"error": {"code": "usage", "message": error.format_message()}})
    shown = io.StringIO()
    error.show(file=shown)
    say(shown.getvalue().rstrip())
    sys.exit(2)


if __name__ == "__main__":
    main()
