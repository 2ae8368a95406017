"""The labels of values: header rows of tables, and the pairs for `--filter kv.LABEL=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Sequence

# ---------------------------------------------------------------- header rows


MOST_HEADER_ROWS = 8
"""Most rows of a header; further ones are data."""
_NUMBER = re.compile(r"[-−+(]?[$€£₴]?\s*\d[\d\s.,:/%-]*\)?")
_FIGURE = re.compile(r"[-−–—+($€£₴¥\s]*\d[\d\s.,]*(?:[)%][)%\s]*)?|[$€£₴¥\s]*[-−–—][-−–—\s%]*")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def has_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Say whether the first row could name the columns: all cells are filled and distinct, and none is a number."""
    filled = [value.strip() for value in first]
    if not filled or not all(filled) or len(set(filled)) < len(filled) or not others:
        return False
    return not any(_NUMBER.fullmatch(value) for value in filled)


def reads_as_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Say whether the first row of a table made by hand names the columns. Such a table may have no header, so the row
    counts only if some column below it has numbers."""
    if not has_header(first, others):
        return False
    columns = [[row[at].strip() for row in others if at < len(row) and row[at].strip()] for at in range(len(first))]
    return any(column and all(map(_NUMBER.fullmatch, column)) for column in columns)


def is_figure(value: str) -> bool:
    """Say whether a value is a number or a dash for "no value". A year does not count, since it is often the name of a
    column."""
    return bool(_FIGURE.fullmatch(value)) and not _YEAR.fullmatch(value)


def header_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows at the top name the columns of a table made by hand.

    Several rows, or one with empty cells, count if they have no numbers but numbers are below them, and one of them has
    an empty corner or years among several names. Rows below them that have only a label belong to the data.
    """
    filled = [[value.strip() for value in row] for row in rows]
    count = next((at for at, row in enumerate(filled) if any(map(is_figure, row[1:]))), 0)
    lead, below = filled[:count], [value for row in filled[count:] for value in row[1:] if value]
    while lead and not any(lead[-1][1:]):
        lead.pop()
    if 0 < len(lead) <= MOST_HEADER_ROWS and 2 * sum(map(is_figure, below)) > len(below) and any(map(_names, lead)):
        return len(lead)
    return int(bool(rows) and reads_as_header(rows[0], rows[1:]))


def _names(row: Sequence[str]) -> bool:
    values = [value for value in row[1:] if value]
    return bool(values) and (not row[0] or (len(values) > 1 and any(map(_YEAR.search, values))))


# ---------------------------------------------------------------- pairs


LONGEST = 200
"""Most characters of a label or value; anything longer is text."""
CHECK_MARKS = "☐☑☒✓✔✗✘"
"""Signs that mean yes or no before a text, also as its bullet."""


def key_value(label: str, value: str) -> dict[str, str]:
    """Return the metadata of one pair, or an empty mapping if a part is missing or too long."""
    label, value = " ".join(label.strip(CHECK_MARKS + " \t\n").split()).rstrip(" :"), " ".join(value.split())
    short = 0 < len(label) <= LONGEST and 0 < len(value) <= LONGEST
    return {f"kv.{label}": value} if short else {}
