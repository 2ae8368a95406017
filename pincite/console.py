"""The output of a command: lines, tables, errors and JSON, with terminal control characters escaped."""

from __future__ import annotations

import json
import logging
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from pipelines.errors import PinciteError
from pipelines.escaped_text import escape_controls, escape_json_controls, one_line

# ---------------------------------------------------------------- lines


MOST_LINES = 10
BY_MODEL = "Written by a language model"
SHORT_ID = 10
"""Characters of an id that are shown; `pincite show` will hardly find two ids that begin with them."""


def wrapped(text: str, indent: str = "   ") -> list[str]:
    return [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, 96, initial_indent=indent, subsequent_indent=indent) or [""]
    ]


def first_of(word: str, items: list[dict[str, Any]]) -> list[str]:
    """Return a line for each of the first documents, and one that counts the others."""
    lines = [f"{word}: {item['source']}/{item['uri']}: {item['message']}" for item in items[:MOST_LINES]]
    return [*lines, f"{word}: {len(items) - MOST_LINES} more, all in --json"] if len(items) > MOST_LINES else lines


# ---------------------------------------------------------------- output


class PrintableLines(str):
    """Text of one or more lines that is safe to print line by line: names in it were already reduced to one line."""

    __slots__ = ()


def block(lines: Iterable[str]) -> PrintableLines:
    """Return lines to be printed, or blocks of them, joined below one another."""
    return PrintableLines("\n".join(map(_shown, lines)))


def _shown(text: str) -> str:
    return escape_controls(text) if isinstance(text, PrintableLines) else one_line(text)


def say(text: str) -> None:
    """Print one line, or a block, on standard error."""
    click.echo(_shown(text), err=True)


def tell(text: str) -> None:
    """Print one line, or a block, on standard output.

    All output goes through here, `say` or `emit`: names and texts of documents, and messages of other programs, may
    hold characters that control a terminal, or text that looks like a line of ours."""
    click.echo(_shown(text))


def as_json(value: Any, indent: int | None = None) -> str:
    return escape_json_controls(json.dumps(value, ensure_ascii=False, indent=indent, default=str))


def emit(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(as_json(value, indent=2))


def rows(table: Sequence[Sequence[Any]], header: Sequence[str]) -> PrintableLines:
    """Return a plain table with aligned columns."""
    texts = [[one_line(str(cell)) for cell in line] for line in [header, *table]]
    widths = [max(len(line[column]) for line in texts) for column in range(len(header))]
    return block(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in texts
    )


def guarded(in_json: bool, work: Callable[[], int | None]) -> None:
    """Run a command and exit with its code; report an error as one clear line, or as one JSON document."""
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").setLevel(logging.ERROR)
    try:
        code = work() or 0
    except BrokenPipeError:
        raise
    except PinciteError as error:
        if in_json:
            emit({"error": {"code": error.code, "message": str(error)}})
        say(f"pincite: {error}")
        code = error.exit_code
    except KeyboardInterrupt:
        if in_json:
            emit({"error": {"code": "interrupted", "message": "interrupted"}})
        say("pincite: interrupted")
        code = 1
    except Exception as error:
        if in_json:
            emit({"error": {"code": "internal", "message": f"{type(error).__name__}: {error}"}})
        say(PrintableLines(textwrap.indent(traceback.format_exc().rstrip(), "  ")))
        say(f"pincite: an error that was not foreseen ({type(error).__name__}); what was committed is kept")
        code = 1
    sys.exit(code)
