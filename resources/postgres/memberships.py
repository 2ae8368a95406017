"""Who is behind the principals of sources, in Postgres: `pincite.asker_groups()` reads it with every question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from resources.postgres.statements import query

if TYPE_CHECKING:
    from resources.postgres.database import Database


@dataclass(frozen=True, slots=True)
class Told:
    """How many pairs of principal and group a source told, and when they were read, by the clock of the database."""

    count: int
    at: datetime
    hours: float
    """Since then."""


class MembershipTable:
    """Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def clock(self) -> datetime:
        """The time now, which is taken before memberships are read."""
        with self._database.connect() as connection:
            row = connection.execute(query("memberships", "clock")).fetchone()
        assert row is not None
        at: datetime = row[0]
        return at

    def replace(self, source: str, pairs: Collection[tuple[str, str]], at: datetime) -> tuple[int, int] | None:
        """Makes these pairs, as they were read at a time of `clock`, all that a remembered source has: how many came,
        and how many went. None, with nothing written, where others were read later."""
        named = {"source": source}
        with self._database.connect() as connection, connection.cursor() as cursor:
            if not cursor.execute(query("memberships", "take"), {**named, "at": at}).rowcount:
                return None
            cursor.execute(query("memberships", "stage"))
            with cursor.copy(query("memberships", "copy")) as copy:
                for pair in pairs:
                    copy.write_row(pair)
            gone = cursor.execute(query("memberships", "drop_gone"), named).rowcount
            return cursor.execute(query("memberships", "add"), named).rowcount, gone

    def forget(self, sources: Sequence[str]) -> None:
        """All of sources that tell none."""
        with self._database.connect() as connection:
            connection.execute(query("memberships", "forget"), {"sources": list(sources)})

    def told(self) -> dict[str, Told]:
        """By source, of those that were read."""
        with self._database.connect() as connection:
            return {name: Told(*row) for name, *row in connection.execute(query("memberships", "told")).fetchall()}
