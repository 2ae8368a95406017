"""The `pincite` command, which connects the layers. Heavy imports happen inside the commands."""

from __future__ import annotations

import gc
import sys

from pincite.environment import ForeignPackageError, require_own

try:
    require_own()
except ForeignPackageError as foreign:
    sys.exit(f"pincite: {foreign}")

from resources.child_process import module_path, protect_children

# A command imports for most of its time, and imports leave little garbage. Python looks for it after every 700 new
# objects, which takes a twentieth of the time of a short command.
gc.set_threshold(50_000)

# Before anything else is imported: the current folder may be one of documents, one of them named `click.py`.
sys.path[:] = module_path()
protect_children()

import click

from pincite import __version__
from pincite.command_groups import Commands, usage_message
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
from pincite.console import emit, say
from resources.memory import arrow_without_pandas

arrow_without_pandas()

SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "begin": (demo, index, doctor),
    "ask": (ask, query, show, serve, mcp, tokens),
    "run": (status, sources, plan, generations, verify, parse, export_texts, import_vectors, ui, db),
    "improve": (evaluate, golden, explain, links),
}
"""Every command, in the groups and order of the help."""
WELCOME = """\
pincite answers questions from your documents, with the page and place of every claim.

  pincite demo                   try it on example documents, in about a minute
  pincite index FOLDER           index a folder of yours; later only what changed
  pincite ask "your question"    an answer with its sources
  pincite serve                  a page to ask on

`pincite --help` lists all commands, `pincite doctor` checks this machine."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pincite")
def cli() -> None:
    """Index folders of real documents; find passages pinned to document, page and box.

    `pincite COMMAND --help` explains a command. docs/guide/install.md says how your shell completes commands and
    options."""


cli.welcome = WELCOME
cli.sections = {heading: [str(command.name) for command in commands] for heading, commands in SECTIONS.items()}
for command in (command for commands in SECTIONS.values() for command in commands):
    cli.add_command(command)


def main() -> None:
    # A closed pipe (`pincite query ... | head`) is no error of ours.
    try:
        cli(prog_name="pincite", standalone_mode=False)
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
    message = usage_message(error)
    if "--json" in sys.argv:
        emit({"error": {"code": "usage", "message": message}})
    say(f"pincite: {message}")
    sys.exit(2)


if __name__ == "__main__":
    main()
