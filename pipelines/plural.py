"""The formatting of numbers with their nouns: 1 document, 2 documents."""

from __future__ import annotations


def plural(count: int, noun: str, several: str = "") -> str:
    """Return a number with its noun. `several` is the plural if it is not the noun with an added s."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"
