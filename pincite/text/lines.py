"""What several texts are made of."""

from __future__ import annotations

import textwrap
from typing import Any

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
