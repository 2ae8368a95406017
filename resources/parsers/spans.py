"""The positions of a table that are covered by cells of rows above.

A file may claim any span for any cell, so the number of covered positions is limited in proportion to the number of
cells.
"""

from __future__ import annotations

_LEAST, _FOR_EACH = 10_000, 20
"""Most positions that the cells of any table may cover: a base, and more for each cell. Real spans cover fewer."""


class Spans:
    """The covered columns of a table, each with the first row that is free again."""

    def __init__(self, cells: int) -> None:
        """Begin a table with this number of cells."""
        self._left = _LEAST + _FOR_EACH * cells
        self._free_from: dict[int, int] = {}

    def covers(self, row: int, column: int) -> bool:
        return self._free_from.get(column, 0) > row

    def add(self, row: int, column: int, tall: int, wide: int) -> None:
        """Add a cell that extends below its row. A cell that would exceed the limit covers nothing."""
        if tall < 2 or tall * wide > self._left:
            return
        self._left -= tall * wide
        for at in range(column, column + wide):
            self._free_from[at] = max(self._free_from.get(at, 0), row + tall)
