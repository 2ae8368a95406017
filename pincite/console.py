"""The output of a command: lines, tables, errors and JSON, with terminal control characters escaped."""

from __future__ import annotations

import json
import logging
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

import click

from pipelines.errors import PinciteError
from pipelines.escaped_text import escape_controls, escape_json_controls, one_line

# ---------------------------------------------------------------- lines


MOST_LINES = 10
BY_MODEL = "Written by a language model"
SHORT_ID = 10
"""Characters of an id that are shown; two ids with the same first characters are very unlikely."""


def wrap(text: str, indent: str = "   ") -> list[str]:
    return [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, 96, initial_indent=indent, subsequent_indent=indent) or [""]
    ]


def first_of(word: str, items: list[dict[str, Any]]) -> list[str]:
    """Return a line for each of the first documents, and one with the number of the others."""
    lines = [f"{word}: {item['source']}/{item['uri']}: {item['message']}" for item in items[:MOST_LINES]]
    return [*lines, f"{word}: {len(items) - MOST_LINES} more, all in --json"] if len(items) > MOST_LINES else lines


# ---------------------------------------------------------------- output


CLEAR = "\r\x1b[K"
"""Control characters that clear the current line of a terminal, which may show progress."""


class PrintableLines(str):
    """Text of one or more lines that is safe to print: names in it are already reduced to one line."""

    heads: tuple[int, ...] = ()
    """Numbers of the lines that are table headers, from 0."""


def block(lines: Iterable[str]) -> PrintableLines:
    """Return lines, or blocks of them, joined as one block."""
    shown: list[str] = []
    heads: list[int] = []
    for text in lines:
        heads += [len(shown) + head for head in getattr(text, "heads", ())]
        shown += _printable(text).split("\n")
    joined = PrintableLines("\n".join(shown))
    joined.heads = tuple(heads)
    return joined


def _printable(text: str) -> str:
    return escape_controls(text) if isinstance(text, PrintableLines) else one_line(text)


def say(text: str) -> None:
    """Print one line, or a block, on standard error."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(CLEAR)
    _print(text, sys.stderr)


def tell(text: str) -> None:
    """Print one line, or a block, on standard output.

    All output goes through this function, `say` or `emit`: names and texts of documents, and messages of other
    programs, may contain terminal control characters, or text that imitates pincite's output.
    """
    _print(text, sys.stdout)


def _print(text: str, stream: TextIO) -> None:
    shown, heads = _printable(text), getattr(text, "heads", ())
    if colourful(stream):
        lines = enumerate(shown.split("\n"))
        shown = "\n".join(click.style(line, bold=True) if at in heads else _paint(line) for at, line in lines)
    click.echo(shown, file=stream, color=True)


def colourful(stream: TextIO) -> bool:
    """Say whether output may have colours: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_COLOURS = {
    **dict.fromkeys(("pincite", "failed", "refused", "failure"), "red"),
    **dict.fromkeys(("warning", "skipped"), "yellow"),
    **dict.fromkeys(("note", "ok"), "cyan"),
}
"""Colours by the first word of a line. Only that word is coloured."""


def _paint(line: str) -> str:
    word = line[: next((at for at, letter in enumerate(line) if not letter.isalpha()), len(line))]
    colour = _COLOURS.get(word) if line[len(word) : len(word) + 1] in (":", " ") else None
    return click.style(word, fg=colour) + line[len(word) :] if colour else line


def as_json(value: Any, indent: int | None = None) -> str:
    return escape_json_controls(json.dumps(value, ensure_ascii=False, indent=indent, default=str))


def emit(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(as_json(value, indent=2))


def rows(table: Sequence[Sequence[Any]], header: Sequence[str]) -> PrintableLines:
    """Return a plain table with aligned columns."""
    texts = [[one_line(str(cell)) for cell in line] for line in [header, *table]]
    widths = [max(len(line[column]) for line in texts) for column in range(len(header))]
    table_lines = block(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in texts
    )
    table_lines.heads = (0,)
    return table_lines


def run_guarded(in_json: bool, work: Callable[[], int | None], verbose: bool = False) -> None:
    """Run a command and exit with its code. An error is reported as one line, or as one JSON document; if `verbose`,
    with the place in the code where it was raised."""
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").setLevel(logging.ERROR)
    try:
        code = work() or 0
    except BrokenPipeError:
        raise
    except PinciteError as error:
        if in_json:
            emit({"error": {"code": error.code, "message": str(error)}})
        if verbose:
            _say_traceback()
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
        _say_traceback()
        say(f"pincite: something went wrong ({type(error).__name__}, see above); what was committed is kept")
        code = 1
    sys.exit(code)


def _say_traceback() -> None:
    say(PrintableLines(textwrap.indent(traceback.format_exc().rstrip(), "  ")))
