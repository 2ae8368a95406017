"""`pincite demo`: the library of example documents. The command writes the library to a folder, indexes it, and asks a
few questions."""

from __future__ import annotations

import os
import shutil
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pincite.commands.options import GlobalOptions, global_options
from pincite.console import PrintableLines, block, emit, say, tell
from pincite.progress import INDEXING
from pipelines.errors import UsageError
from resources.child_process import shipped_folder
from resources.private_files import for_the_user
from resources.settings_file import DEFAULT_FILE

if TYPE_CHECKING:
    from pincite.index import Index


QUESTIONS = (
    "What is the recovery time objective of the records service?",
    "What is the hotel limit in London now?",
    "How long are payroll records kept?",
    "Яка температура має бути у сховищі?",
)
_SHOWN = 3
"""Most lines printed of a passage, since whole passages would fill the screen."""
_ANOTHER_STATE = "state:"
"""Start of a line in the example's settings that is not copied, since it would move the state to another folder."""


def write_library(folder: Path) -> bool:
    """Write documents, golden questions and settings to a folder. Return False if they exist already.

    Raises UsageError if the folder holds anything else."""
    example = Path(shipped_folder("example"))
    settings = _settings(example)
    there = folder / DEFAULT_FILE
    try:
        if there.is_file() and there.read_text(encoding="utf-8") == settings:
            return False
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} already exists and is not empty; name another folder: pincite demo FOLDER")
        with for_the_user():
            for file in sorted(path for path in example.glob("library*/**/*") if path.is_file()):
                _copy(file, folder / file.relative_to(example))
            _copy(example / "library.questions.jsonl", folder / "library.questions.jsonl")
            there.write_text(settings, encoding="utf-8")  # last: its presence says that the library is whole
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror}; name another folder") from None
    return True


def _settings(example: Path) -> str:
    lines = (example / DEFAULT_FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_ANOTHER_STATE))


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def ask_questions(index: Index) -> list[dict[str, Any]]:
    """Return the JSON of `query` with the best hit, for each of QUESTIONS."""
    return [index.query(question, k=1) for question in QUESTIONS]


def asked_shown(results: list[dict[str, Any]]) -> PrintableLines:
    return block(line for result in results for line in _lines(result))


def _lines(result: dict[str, Any]) -> Iterator[str]:
    from pincite.text.passages import pin, shown_text

    yield f"? {result['query']}"
    for hit in result["hits"]:
        chain = " › ".join(hit["header_chain"])
        yield f"  {pin(hit)}" + (f"  ({chain})" if chain else "")
        yield PrintableLines(textwrap.indent(shown_text(hit, result["query"], _SHOWN), "  | "))
    yield ""


_WRITTEN = (
    "ten example documents and settings are written; they are indexed by the models that come with pincite, which "
    "takes about a minute"
)


@click.command()
@click.argument("folder", default="pincite-demo", type=click.Path(path_type=Path))
@global_options
def demo(place: GlobalOptions, folder: Path) -> int:
    """Write example documents into FOLDER, index and ask them.

    FOLDER is pincite-demo by default. If you run it again, it indexes and asks the documents that are then in the
    folder. Nothing leaves this machine.
    """
    from resources.settings_file import locate

    if place.config or place.state:
        raise UsageError("`pincite demo FOLDER` has settings and a state of its own: leave out --config and --state")
    began = time.perf_counter()
    written = write_library(folder)
    say(f"{folder}: {_WRITTEN if written else 'the example documents are there from before'}")
    config = folder / DEFAULT_FILE
    # PINCITE_STATE may name the state of the user's own documents, so it is not used.
    project = locate(str(config), str(folder / ".pincite"))
    with place.progress("starting", INDEXING) as progress:
        from pincite.index import Index
        from pincite.run import update_index
        from pincite.text.reports import index_summary, seconds_shown

        made = update_index((), project, progress=progress)
    if not place.as_json:
        tell(block([index_summary(made), seconds_shown(made["seconds"]), ""]))
    with place.progress("asking the example questions"), Index(project) as index:
        answers = ask_questions(index)
    seconds = round(time.perf_counter() - began, 1)
    command = f"pincite serve --config {config}" + _state(project.state)
    address = f"http://{project.settings.serve.host}:{project.settings.serve.port}"
    if place.as_json:
        emit({"folder": str(folder), "written": written, "index": made, "answers": answers, "seconds": seconds,
              "serve": command, "page": address})  # fmt: skip
    else:
        tell(asked_shown(answers))
        tell(block([f"ready in {seconds} s. Ask on a page, with every passage marked in its document:", f"  {command}",
                    f"then open {address}. Your own documents: pincite index FOLDER"]))  # fmt: skip
    return 0 if made["published"] else 1


def _state(state: Path) -> str:
    from resources.settings_file import STATE_VARIABLE

    return f" --state {state}" if os.environ.get(STATE_VARIABLE) else ""
