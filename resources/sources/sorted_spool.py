"""Temporary tables on disk for data on all documents that does not fit in memory. Each disappears with the process that
opened it."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from pipelines.errors import SourceError
from resources.postgres.statements import statements

AT_ONCE = 1000
"""Rows written in one statement, which bounds the memory for them."""


class SortedSpool:
    """The tables of sql/queries/scratch.sql, which has all their statements.

    SQLite stores them in an unnamed file in the folder of temporary files, with two megabytes in memory. All methods
    raise SourceError `disk` if that folder is full.
    """

    def __init__(self, *tables: str) -> None:
        with _room():
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._database.close)
        for name in ("without_a_journal", "on_disk", "begin", *tables):
            self.run(name)

    def run(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        with _room():
            return self._database.execute(_sql(name), values).fetchall()

    def each(self, name: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement one at a time. Do not write before the last row is read."""
        with _room():
            yield from self._database.execute(_sql(name), values)

    def write(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        for window in windows(rows):
            with _room():  # only this: reading the rows may fail for other reasons
                self._database.executemany(_sql(name), window)


class TextSet:
    """A set of texts on disk."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._scratch = SortedSpool("texts")
        self.update(texts)

    def update(self, texts: Iterable[str]) -> None:
        self._scratch.write("add_text", ((text,) for text in texts))

    def __contains__(self, text: object) -> bool:
        return bool(self._scratch.run("text", text))

    def __iter__(self) -> Iterator[str]:
        """Return the texts in order of their code points."""
        return (text for (text,) in self._scratch.each("sorted_texts"))

    def __len__(self) -> int:
        return int(self._scratch.run("count_texts")[0][0])


def windows(rows: Iterable[Any], size: int = AT_ONCE) -> Iterator[list[Any]]:
    """Return the rows in lists of at most `size`."""
    left = iter(rows)
    return iter(lambda: list(islice(left, size)), [])


def _sql(name: str) -> str:
    return statements("scratch")[name]


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise SourceError(
            f"the list of documents cannot be stored in the folder of temporary files: {error}; free space there, or "
            "set TMPDIR to a folder with free space",
            "disk",
        ) from None
