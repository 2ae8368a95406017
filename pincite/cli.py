"""The `pincite` command. Wires the layers; heavy imports happen inside the commands."""

from __future__ import annotations

import gc
import io
import sys

from pincite.environment import ForeignPackageError, require_own

try:
    require_own()
except ForeignPackageError as foreign:
    sys.exit(f"pincite: {foreign}")

from resources.child_process import module_path, protect_children

# Before anything else is imported: the current folder may be one of documents, one of them named `click.py`.
sys.path[:] = module_path()
protect_children()

import click

from pincite import __version__
from pincite.commands.asking import ask, explain, query, show
from pincite.commands.demo import demo
from pincite.commands.evaluate import evaluate
from pincite.commands.generations import generations
from pincite.commands.golden import golden
from pincite.commands.index import export_texts, import_vectors, index, plan
from pincite.commands.links import links
from pincite.commands.parse import parse
from pincite.commands.serve import mcp, serve, tokens
from pincite.commands.services import db, ui
from pincite.commands.sources import sources
from pincite.commands.status import doctor, status, verify
from pincite.console import PrintableLines, emit, say


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pincite")
def cli() -> None:
    """Index folders of real documents; get passages pinned to document, page and box.

    \b
    pincite demo                             example documents, indexed and asked
    pincite index --source docs/handbook     index a folder (again: only what changed)
    pincite plan                             what that would do, and what its model calls would cost
    pincite query "how long are logs kept?"  ranked passages with page and box
    pincite ask "how long are logs kept?"    an answer with its places, or none
    pincite show ID --image page.png         a passage or sentence, marked on its page
    pincite parse FILE --image DIR           what the parser finds, to look at
    pincite eval questions.jsonl             score retrieval on golden questions
    pincite golden list                      what people said of passages, to review
    pincite generations list                 the live index, and those beside it
    pincite doctor                           whether pincite can work here, and what to do
    pincite export-texts FOLDER              what is to be embedded, for others to embed
    pincite import-vectors FOLDER            the vectors that they made
    pincite verify                           whether all that should be there is
    pincite serve                            a page to ask on, HTTP, chat and MCP
    pincite mcp                              for an agent that starts it: search, fetch, ask
    pincite ui                               lineage and past runs in the browser
    """


COMMANDS = (
    demo,
    index,
    plan,
    query,
    ask,
    show,
    parse,
    evaluate,
    golden,
    links,
    sources,
    generations,
    status,
    doctor,
    verify,
    explain,
    export_texts,
    import_vectors,
    db,
    serve,
    mcp,
    tokens,
    ui,
)
for command in COMMANDS:
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
    finally:
        gc.freeze()  # all that is left goes with the process; collecting it takes two seconds where a model was loaded


def _usage(error: click.ClickException) -> None:
    if "--json" in sys.argv:
        emit({"error": {"code": "usage", "message": error.format_message()}})
    shown = io.StringIO()
    error.show(file=shown)
    say(PrintableLines(shown.getvalue().rstrip()))
    sys.exit(2)


if __name__ == "__main__":
    main()
