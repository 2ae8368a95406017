"""Pandoc, by which unstructured reads some formats."""

from __future__ import annotations

import importlib.util
import os
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from resources.child_process import program_path
from resources.programs import Ended, run


@cache
def pandoc_path() -> str | None:
    """Of the one that comes with the package pypandoc_binary, else of an installed one."""
    found = importlib.util.find_spec("pypandoc")
    beside = Path(found.origin).parent / "files" / "pandoc" if found and found.origin else None
    return str(beside) if beside and os.access(beside, os.X_OK) else program_path("pandoc")


def converted(source_file: str, to: str, format: str, outputfile: str | None = None, **ignored: Any) -> str:
    """Return a file in another format, or write it to `outputfile`: pypandoc's function of this name and these
    arguments, which would start a process itself.

    Raises FileNotFoundError where there is no pandoc, ValueError for what it says of a file."""
    program = pandoc_path()
    if program is None:
        raise FileNotFoundError("pandoc")
    values = {"format": format, "to": to, "source": os.path.abspath(source_file)}
    done = run("pandoc", program, values)
    if done.status != 0 and "--sandbox" in done.errors:
        done = run("pandoc", program, {**values, "sandbox": False})
    if done.status != 0:
        raise ValueError(_reason(done))
    if outputfile is None:
        return done.output.decode("utf-8", "replace")
    Path(outputfile).write_bytes(done.output)
    return ""


def give_pandoc() -> None:
    """Put our function in the place of pypandoc's, where that is installed."""
    with suppress(ImportError):
        import pypandoc

        pypandoc.convert_file = converted


def _reason(done: Ended) -> str:
    if done.status == -signal.SIGXCPU:
        return "pandoc takes too long to read it"
    return f'Pandoc died with exitcode "{done.status}" during conversion: {done.errors}'
