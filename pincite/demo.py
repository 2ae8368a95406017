"""The library of example documents that comes with pincite: how it is copied into a user's folder, and queried."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pincite.console import Block, block
from pincite.text.passages import excerpt, pin
from pipelines.errors import UsageError
from resources.child_process import shipped
from resources.processes import for_the_user
from resources.settings_file import DEFAULT_FILE

if TYPE_CHECKING:
    from pincite.index import Index

QUESTIONS = (
    "What is the recovery time objective of the records service?",
    "What is the hotel limit in London now?",
    "How long are payroll records kept?",
    "Яка температура має бути у сховищі?",
)
_SHOWN = 300
"""Characters of a passage that are shown."""
_ANOTHER_STATE = "state:"
"""Start of the line in the settings by which a checkout keeps its state elsewhere."""


def write_library(folder: Path) -> bool:
    """Write documents, golden questions and settings into a folder; return False if they are there already.

    Raises UsageError if the folder holds anything else."""
    example = Path(shipped("example"))
    settings = _settings(example)
    there = folder / DEFAULT_FILE
    try:
        if there.is_file() and there.read_text(encoding="utf-8") == settings:
            return False
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is there and not empty; name another folder: pincite demo FOLDER")
        with for_the_user():
            for file in sorted(path for path in example.glob("library*/**/*") if path.is_file()):
                _copied(file, folder / file.relative_to(example))
            _copied(example / "library.questions.jsonl", folder / "library.questions.jsonl")
            there.write_text(settings, encoding="utf-8")  # last: its presence says that the library is whole
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror}; name another folder") from None
    return True


def _settings(example: Path) -> str:
    lines = (example / DEFAULT_FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_ANOTHER_STATE))


def _copied(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def asked(index: Index) -> list[dict[str, Any]]:
    """Return the JSON of `query` for each of the questions, with its best hit."""
    return [index.query(question, k=1) for question in QUESTIONS]


def asked_shown(results: list[dict[str, Any]]) -> Block:
    return block(line for result in results for line in _lines(result))


def _lines(result: dict[str, Any]) -> Iterator[str]:
    yield f"? {result['query']}"
    for hit in result["hits"]:
        chain = " › ".join(hit["header_chain"])
        yield f"  {pin(hit)}" + (f"  ({chain})" if chain else "")
        yield Block(textwrap.indent(excerpt(hit["text"], result["query"], _SHOWN), "  | "))
    yield ""
