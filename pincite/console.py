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
from pipelines.visible import one_line, visible, visible_json

# ---------------------------------------------------------------- lines
#
# What several texts are made of.


MOST_LINES = 10
BY_MODEL = "Written by a language model"
SHORT_ID = 10
"""Characters of an id that `pincite show` will hardly find twice."""


def wrapped(text: str, indent: str = "   ") -> list[str]:
    return [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, 96, initial_indent=indent, subsequent_indent=indent) or [""]
    ]


def first_of(word: str, items: list[dict[str, Any]]) -> list[str]:
    """The first of what is said of documents, and how many more there are."""
    lines = [f"{word}: {item['source']}/{item['uri']}: {item['message']}" for item in items[:MOST_LINES]]
    return [*lines, f"{word}: {len(items) - MOST_LINES} more, all in --json"] if len(items) > MOST_LINES else lines


# ---------------------------------------------------------------- console
#
# How the command speaks: tables, errors, JSON. What would steer a terminal is written as its number.


class Block(str):
    """Text that may have several lines, each of which is what it seems to be: names in it have been written as one
    line."""

    __slots__ = ()


def block(lines: Iterable[str]) -> Block:
    """Lines to be printed, or blocks of them, below one another."""
    return Block("\n".join(map(_shown, lines)))


def _shown(text: str) -> str:
    return visible(text) if isinstance(text, Block) else one_line(text)


def say(text: str) -> None:
    """On standard error: one line, or a block."""
    click.echo(_shown(text), err=True)


def tell(text: str) -> None:
    """On standard output: one line, or a block. All that is printed goes through here, `say` or `emit`: names and
    texts of documents, and messages of others, may hold what steers a terminal, or what looks like a line of ours."""
    click.echo(_shown(text))


def as_json(value: Any, indent: int | None = None) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False, indent=indent, default=str))


def emit(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(as_json(value, indent=2))


def rows(table: Sequence[Sequence[Any]], header: Sequence[str]) -> Block:
    """A plain table with aligned columns."""
    texts = [[one_line(str(cell)) for cell in line] for line in [header, *table]]
    widths = [max(len(line[column]) for line in texts) for column in range(len(header))]
    return block(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in texts
    )


def guarded(in_json: bool, work: Callable[[], int | None]) -> None:
    """Runs a command and exits with its code; an error is one clear line, or one JSON document."""
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
        say(Block(textwrap.indent(traceback.format_exc().rstrip(), "  ")))
        say(f"pincite: an error that was not foreseen ({type(error).__name__}); what was committed is kept")
        code = 1
    sys.exit(code)
