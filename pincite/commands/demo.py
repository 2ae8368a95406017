"""`pincite demo`: the example library, indexed and asked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from pincite.console import block, emit, guarded, say, tell
from pincite.progress import Progress
from resources.processes import unshared

_WRITTEN = (
    "ten example documents and settings are written; they are indexed by the models that come with pincite, which "
    "takes about a minute"
)


@click.command()
@click.argument("folder", default="pincite-demo", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def demo(folder: Path, as_json: bool) -> None:
    """Write the library of example documents into FOLDER (pincite-demo), index it and ask it a few questions.

    Again, it indexes and asks what is there. Nothing leaves this machine."""
    with unshared():
        guarded(as_json, lambda: _demo(folder, as_json))


def _demo(folder: Path, as_json: bool) -> int:
    from pincite.demo import asked, asked_shown, write_library
    from pincite.index import Index
    from pincite.text.reports import index_summary, seconds_shown
    from resources.settings_file import DEFAULT_FILE, locate

    began = time.perf_counter()
    written = write_library(folder)
    say(f"{folder}: {_WRITTEN if written else 'the example documents are there from before'}")
    config = folder / DEFAULT_FILE
    # Not the state that PINCITE_STATE may name: that is of the user's own documents.
    project = locate(str(config), str(folder / ".pincite"))
    with Progress() as progress, Index(project, progress) as index:
        made = index.update()
        progress.close()
        if not as_json:
            tell(block([index_summary(made), seconds_shown(made["seconds"]), ""]))
        answers = asked(index)
    seconds = round(time.perf_counter() - began, 1)
    command = f"pincite serve --config {config}" + _state(project.state)
    address = f"http://{project.settings.serve.host}:{project.settings.serve.port}"
    if as_json:
        emit({"folder": str(folder), "written": written, "index": made, "answers": answers, "seconds": seconds,
              "serve": command, "page": address})  # fmt: skip
    else:
        tell(asked_shown(answers))
        tell(block([f"ready in {seconds} s. Ask on a page, with every passage marked in its document:", f"  {command}",
                    f"then open {address}. Your own documents: pincite index --source FOLDER"]))  # fmt: skip
    return 0 if made["published"] else 1


def _state(state: Path) -> str:
    from resources.settings_file import STATE_VARIABLE

    return f" --state {state}" if os.environ.get(STATE_VARIABLE) else ""
