"""A project on disk, and what its commands print."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from pipelines.settings.base import ParsingSettings
    from resources.documents.pool import DocumentPool

_numbers = itertools.count(1)

# ---------------------------------------------------------------- a project on disk

DOCUMENTS = {
    "handbook.md": """\
# Staff handbook

## Leave

Staff receive twenty-eight days of annual leave. Unused leave expires at the end of March.

## Expenses

Claims above fifty pounds need a receipt. The treasurer approves travel claims within ten days.
""",
    "boilers.txt": """\
Boiler inspection

The boiler in the east wing is inspected every October. Pressure must stay below two bar.

Leaks are reported to the plumber on duty, who keeps the repair ledger.
""",
    "visitors.html": """\
<html><head><title>Visitors</title></head><body><h1>Visitors</h1>
<p>Visitors sign the register at the front desk and wear a yellow badge.</p>
<h2>Parking</h2><p>Parking permits are issued by the porter for one day.</p></body></html>
""",
    "suppliers.csv": "supplier,city,contract\nNorthern Paper,Leeds,2026\nHarbour Catering,Hull,2027\n",
    "archive/retention.txt": """\
Retention of records

Personnel files are kept for seven years. Minutes of the council are kept for ever.
""",
    "archive/keys.md": """\
# Keys

The vault key is held by the registrar. A spare key lies in the sealed envelope of the bursar.
""",
}


@dataclass
class Ran:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


def run_command(*arguments: str | Path) -> Ran:
    """The `pincite` command in this process: arguments, output and exit code as a shell has them."""
    from pincite.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = ["pincite", *map(str, arguments)]
    patched = mock.patch.object(sys, "argv", argv), mock.patch.dict(os.environ)
    with patched[0], patched[1], redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Ran(code, out.getvalue(), err.getvalue())


@dataclass
class Project:
    """A folder with documents, settings and a state, as a user has it."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def docs(self) -> Path:
        return self.folder / "docs"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def config(self) -> Path:
        return self.folder / "pincite.yaml"

    def configure(self, **settings: Any) -> None:
        """Settings replaced by key; JSON is YAML."""
        self.settings.update(settings)
        self.config.write_text(json.dumps(self.settings), encoding="utf-8")

    def write(self, uri: str, text: str | bytes, docs: Path | None = None) -> Path:
        path = (docs or self.docs) / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def run(self, command: str, *arguments: str | Path) -> Ran:
        """A command of this project, with --json."""
        return run_command(*command.split(), *arguments, "--config", self.config, "--json")

    def index(self, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
        ran = self.run("index", *arguments)
        assert ran.code == code, ran.out + ran.err
        return ran.json

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the project's database answers."""
        with psycopg.connect(self.settings["database"]) as connection:
            cursor = connection.execute(statement, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def hits(self, text: str, *arguments: str) -> list[dict[str, Any]]:
        ran = self.run("query", text, *arguments)
        assert ran.code == 0, ran.out + ran.err
        hits: list[dict[str, Any]] = ran.json["hits"]
        return hits


def make_project(folder: Path, documents: Mapping[str, str] | None = None, **settings: Any) -> Project:
    """Documents under docs/, and settings: few buckets, one parser process, that source."""
    folder.mkdir(parents=True, exist_ok=True)
    project = Project(folder)
    for uri, text in (DOCUMENTS if documents is None else documents).items():
        project.write(uri, text)
    base = {"state": "state", "buckets": 2, "parsing": {"workers": 1}, "sources": [{"name": "docs", "path": "docs"}]}
    project.configure(**{**base, **settings})
    return project


@contextmanager
def running_server(state: Path) -> Iterator[str]:
    """The address of an embedded server of its own, without care for power cuts."""
    from resources.postgres.server import PostgresServer

    server = PostgresServer(state)
    url = server.acquire()
    with psycopg.connect(server.administrator_url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET full_page_writes = off")
        connection.execute("SELECT pg_reload_conf()")
    try:
        yield url
    finally:
        server.release()


MEMORY = Path("/dev/shm")
ROOM = 8 << 30
"""Free bytes of `MEMORY` from which on databases are kept there; a server takes a hundredth of that."""


@contextmanager
def shared_server() -> Iterator[str]:
    """The address of a server for many tests, in memory where there is room: each database is hundreds of files."""
    place = None
    with suppress(OSError):
        for left in MEMORY.glob("pincite-tests-*"):
            if not Path("/proc", left.name.split("-")[2]).exists():
                shutil.rmtree(left, ignore_errors=True)  # by tests that were killed
        free = os.statvfs(MEMORY)
        place = MEMORY if free.f_bavail * free.f_frsize > ROOM else None
    with (
        tempfile.TemporaryDirectory(prefix=f"pincite-tests-{os.getpid()}-", dir=place) as folder,
        running_server(Path(folder)) as url,
    ):
        yield url


@contextmanager
def new_database(server_url: str, template: str = "template1") -> Iterator[str]:
    """The address of a database made from another one, dropped at the end. Files are copied as they are, which costs
    the server less than to log every page of so small a database."""
    name = f"project_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        connection.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
        yield server_url.replace("/postgres?", f"/{name}?")
    drop_database(server_url, name)


def drop_database(server_url: str, name: str) -> None:
    """By the superuser, since a session of the superuser, or vacuum, may still be in it."""
    from resources.postgres.server_process import ADMINISTRATOR

    with psycopg.connect(server_url, autocommit=True, user=ADMINISTRATOR) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def project_copy(project: Project, server_url: str, folder: Path, **settings: Any) -> Iterator[Project]:
    """A project as another one is now, with a copy of its database; both are its own to change."""
    original = psycopg.conninfo.conninfo_to_dict(project.settings["database"])["dbname"]
    with new_database(server_url, str(original)) as url:
        shutil.copytree(project.folder, folder)
        made = Project(folder, dict(project.settings))
        made.configure(database=url, **settings)
        made.rows("UPDATE pincite.sources SET root = %s WHERE name = 'docs'", str(made.docs))
        yield made


_ends: dict[tuple[object, ...], tuple[DocumentPool, Callable[[], None]]] = {}
"""Pools of worker processes and what ends each, by what decides how their processes are started."""


@contextmanager
def kept_workers() -> Iterator[None]:
    """Let runs of this test process share worker processes, which else each run starts in seconds of imports.

    They are kept for the modules that follow; `end_kept_workers` ends them."""
    from resources.documents.pool import DocumentPool

    def shared(settings: ParsingSettings, folder: Path | None = None) -> DocumentPool:
        places = os.environ.get("PATH"), os.environ.get("TESSDATA_PREFIX")
        key = (settings.memory_mb, settings.ocr, *places)
        if key not in _ends:
            pool = DocumentPool(settings)
            _ends[key] = pool, pool.close
            pool.close = lambda: None  # type: ignore[method-assign]
        pool, _ = _ends[key]
        pool.settings = settings
        return pool

    with mock.patch("resources.documents.pool.DocumentPool", shared):
        yield


def end_kept_workers() -> None:
    """End the worker processes that runs of this test process have shared."""
    while _ends:
        _, (_, end) = _ends.popitem()
        end()


TABLES = ("documents", "document_names", "abbreviations", "chunks", "sentences", "sentence_links", "terms", "postings")
"""Of a generation."""
NUMBER = "('x' || encode(substring(chunks FROM 4 * place + 1 FOR 4), 'hex'))::bit(32)::integer"
WEIGHT = "encode(substring(weights FROM 4 * place + 1 FOR 4), 'hex')"
PLACES = "generate_series(0, octet_length(chunks) / 4 - 1) AS place"
"""What stands at each place of a row of postings, which are packed: the number of a chunk, and its weight as digits."""
_BY_CHUNK = f"""(SELECT array_agg(c.chunk_id || ' ' || {WEIGHT} ORDER BY c.chunk_id)
    FROM {PLACES} LEFT JOIN {{schema}}.chunks c ON c.number = {NUMBER})"""
_BOUNDED = """(SELECT octet_length(blocks) % 16 = 0 AND sum(size) * 4 = octet_length(chunks) AND bool_and(
        first = substr(chunks, 4 * before + 1, 4) AND last = substr(chunks, 4 * (before + size) - 3, 4)
        AND greatest >= (
            SELECT max(encode(substr(weights, 4 * place + 1, 4), 'hex') COLLATE "C")
            FROM generate_series(before, before + size - 1) AS place))
    FROM (SELECT *, (sum(size) OVER (ORDER BY number) - size)::integer AS before FROM (
        SELECT number, ('x' || encode(substr(blocks, 16 * number + 1, 4), 'hex'))::bit(32)::integer AS size,
            substr(blocks, 16 * number + 5, 4) AS first, substr(blocks, 16 * number + 9, 4) AS last,
            encode(substr(blocks, 16 * number + 13, 4), 'hex') COLLATE "C" AS greatest
        FROM generate_series(0, octet_length(blocks) / 16 - 1) AS number) AS each) AS block)"""
"""Whether each block of a row of postings has its numbers, and no greater weight than it says."""
_IN_PLACE = {("chunks", "number"): None, ("postings", "chunks"): _BY_CHUNK, ("postings", "weights"): None,
             ("postings", "blocks"): _BOUNDED}  # fmt: skip
"""What depends on the order in which rows were written, and what is compared instead."""


def columns(connection: psycopg.Connection[Any], schema: str) -> dict[str, list[tuple[str, str]]]:
    """Table to its columns and their types, as the database has them."""
    statement = """SELECT column_name, udt_name FROM information_schema.columns
        WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""
    return {table: connection.execute(statement, (schema, table)).fetchall() for table in TABLES}


def rows_of(connection: psycopg.Connection[Any], schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a generation with all their columns, so that one that is added is compared too: texts, boxes,
    pages, headings, overlap, context, neighbours, links, groups, metadata, vectors."""
    found = {}
    for table, there in columns(connection, schema).items():
        parts = [_IN_PLACE.get((table, name), f'"{name}"') for name, _ in there]
        listed = ", ".join(part.format(schema=schema) for part in parts if part)
        rows = connection.execute(f"SELECT {listed} FROM {schema}.{table}").fetchall()  # type: ignore[arg-type]
        found[table] = sorted(rows, key=repr)
    return found


def content(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """All that the live generation serves, without what depends on the order in which it was written."""
    ((live,),) = project.rows("SELECT generation FROM pincite.live")
    with psycopg.connect(project.settings["database"]) as connection:
        return rows_of(connection, f"g{live:04d}")
