"""Whether the first row of a table names its columns, where nothing in the file says so."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[-+(]?[$€£₴]?\s*\d[\d\s.,:/%-]*\)?")


def has_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether the first row could name the columns: all filled, distinct, none a number."""
    filled = [value.strip() for value in first]
    if not filled or not all(filled) or len(set(filled)) < len(filled) or not others:
        return False
    return not any(_NUMBER.fullmatch(value) for value in filled)


def reads_as_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """The same of a table made by hand, which need have no header: some column is numbers below it."""
    if not has_header(first, others):
        return False
    columns = [[row[at].strip() for row in others if at < len(row) and row[at].strip()] for at in range(len(first))]
    return any(column and all(map(_NUMBER.fullmatch, column)) for column in columns)
