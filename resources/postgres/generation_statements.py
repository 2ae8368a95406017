"""Statements of sql/queries/generation.sql over the tables of one generation, and COPY into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from resources.postgres.copy_rows import packed_rows
from resources.postgres.statements import query, statements

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

    from resources.postgres.catalog import GenerationRow
    from resources.postgres.database import Database
    from resources.postgres.index_rows import Columns

STAGED_TABLES = ("staged_postings", "staged_links")
"""Tables of the session, whose rows are merged into the generation's."""


class GenerationStatements:
    def __init__(self, database: Database, generation: GenerationRow) -> None:
        self.database = database
        self.generation = generation
        self.schema = generation.schema

    def _query(self, name: str) -> Composed:
        has_schema = "{schema}" in statements("generation")[name]
        return query("generation", name, schema=self.schema) if has_schema else query("generation", name)

    def _run(
        self, connection: Connection[Any], name: str, *, binary: bool = False, **values: Any
    ) -> list[tuple[Any, ...]]:
        cursor = connection.execute(self._query(name), values, binary=binary)
        return cursor.fetchall() if cursor.description else []

    def _rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            return self._run(connection, name, **values)

    def _copy(self, connection: Connection[Any], table: str, columns: Columns, rows: Iterable[Sequence[Any]]) -> None:
        """Into a table of the generation, or one that is staged already. Postgres takes no COPY from a user whom
        row-level security holds, an owner that is no superuser for one: its rows go through a table of the session."""
        staged = table in STAGED_TABLES
        held = not staged and self._run(connection, "row_security_holds")[0][0]
        names = {"schema": self.schema, "table": table}
        if held:
            connection.execute(query("generation", "stage_rows", **names))
        schema = "pg_temp" if held or staged else self.schema
        statement = query("generation", "copy_rows", schema=schema, table=table, columns=tuple(columns))
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for data in packed_rows(columns.values(), rows):
                copy.write(data)
        if held:
            connection.execute(query("generation", "move_staged_rows", **names))
            connection.execute(query("generation", "drop_staged_rows", table=table))
