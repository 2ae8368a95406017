"""Where a text stands in what a run leaves behind: files as they are, and what is packed in them."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
from psycopg import sql

from resources.postgres.server_process import ADMINISTRATOR

SYSTEM = ("pg_catalog", "information_schema", "pg_toast")


def in_files(folder: Path, texts: Sequence[str]) -> list[str]:
    """Files that hold one of the texts, with that text: their bytes, the values of Parquet, and those of SQLite
    unpacked."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for text in texts:
            if any(text.encode() in part for part in _parts(path)):
                found.append(f"{path.relative_to(folder)}: {text}")
    return found


def _parts(path: Path) -> Iterator[bytes]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:  # the server goes on working
        return
    yield data
    if data.startswith(b"PAR1"):
        yield str(pq.read_table(path).to_pydict()).encode()
    if data.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            yield from _packed(connection)


def _packed(connection: sqlite3.Connection) -> Iterator[bytes]:
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                if isinstance(value, bytes):
                    try:
                        yield zlib.decompress(value)
                    except zlib.error:
                        continue


def in_database(url: str, texts: Sequence[str]) -> list[str]:
    """Tables that hold one of the texts, with that text: every row of every table, and the catalogue's."""
    found = []
    with psycopg.connect(url, user=ADMINISTRATOR) as connection:
        named = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname <> ALL (%s) ORDER BY 1, 2"
        tables = connection.execute(named, [list(SYSTEM)]).fetchall()
        for schema, table in [*tables, ("pg_catalog", "pg_db_role_setting"), ("pg_catalog", "pg_authid")]:
            statement = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(schema, table))
            with connection.cursor().copy(statement) as copy:
                rows = b"".join(map(bytes, copy))
            found += [f"{schema}.{table}: {text}" for text in texts if text.encode() in rows]
    return found
