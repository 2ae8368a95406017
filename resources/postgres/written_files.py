"""The files of tables that pincite wrote into an object store, kept in Postgres, where who writes in the store has no
say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.postgres.statements import query

if TYPE_CHECKING:
    from resources.postgres.database import Database


@dataclass(frozen=True, slots=True)
class Written:
    """A file's size in bytes, and the hashes of its blocks one after another; empty where they are not known."""

    size: int
    blocks: bytes = b""


class WrittenFiles:
    """The files by name. Every method is one transaction; several threads may ask."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    def known(self) -> bool:
        """Return whether any file is known."""
        with self._database().connect() as connection:
            row = connection.execute(query("written_files", "known")).fetchone()
        return bool(row and row[0])

    def note(self, files: Mapping[str, Written]) -> None:
        """Keep files that are written now, or that were there before the database knew of any."""
        rows = [{"name": name, "size": file.size, "blocks": file.blocks} for name, file in files.items()]
        with self._database().connect() as connection, connection.cursor() as cursor:
            cursor.executemany(query("written_files", "note"), rows)

    def file(self, name: str) -> Written | None:
        """Return what is known of one file."""
        with self._database().connect() as connection:
            row = connection.execute(query("written_files", "file"), {"name": name}).fetchone()
        return Written(*row) if row else None

    def below(self, folder: str) -> dict[str, Written]:
        """Return the files whose names begin so."""
        with self._database().connect() as connection:
            rows = connection.execute(query("written_files", "below"), {"folder": folder}).fetchall()
        return {name: Written(size, blocks) for name, size, blocks in rows}

    def forget(self, names: Collection[str]) -> None:
        """Forget files that are deleted."""
        with self._database().connect() as connection:
            connection.execute(query("written_files", "forget"), {"names": list(names)})
