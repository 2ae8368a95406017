"""The places of a table that cells reach down into from rows above, counted at a cost that its cells bound.

A file may claim any span for any cell, so the places that all cells of a table cover together are bounded too.
"""

from __future__ import annotations

_LEAST, _FOR_EACH = 10_000, 20
"""Places that the cells of any table may cover, and those added by each of its cells: real spans cover fewer."""


class Spans:
    """The columns of a table that are covered, each with the first row that is free again."""

    def __init__(self, cells: int) -> None:
        """Begin a table with this number of cells."""
        self._left = _LEAST + _FOR_EACH * cells
        self._free_from: dict[int, int] = {}

    def covers(self, row: int, column: int) -> bool:
        return self._free_from.get(column, 0) > row

    def add(self, row: int, column: int, tall: int, wide: int) -> None:
        """Add a cell that reaches below its row. One that covers too much covers nothing."""
        if tall < 2 or tall * wide > self._left:
            return
        self._left -= tall * wide
        for at in range(column, column + wide):
            self._free_from[at] = max(self._free_from.get(at, 0), row + tall)
