"""What the tests of faults share: a small project and its variants, the oracle, a reader that never stops."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pincite.index import Index, open_index
from pipelines.fingerprint import text_hash
from resources.engine.tables import ParquetTables
from resources.settings_file import locate
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import DOCUMENTS, TABLES, Project, make_project, project_copy, rows_of
from tests.support.waiting import until

LIBRARY = {
    **DOCUMENTS,
    "cards.md": "# Cards\n\nLost cards are blocked by the Card Renewal Office (CRO).\n\n"
    "## New cards\n\nA new card costs ten pounds.\n",
    "lifts.md": "# Lifts\n\nThe lift takes eight persons.\n\n## Alarm\n\nThe alarm rings in the lodge.\n",
}
"""Documents in every one of four buckets."""
EDITED = {
    "lifts.md": "# Lifts\n\nThe lift takes six persons.\n\n"
    "## Alarm\n\nThe alarm rings at the Central Fire Station (CFS).\n",
    "archive/keys.md": "# Keys\n\nThe vault has no key any more. It is opened by a code that two persons share.\n",
    "stamps.txt": "Stamps\n\nThe office keeps stamps for forty letters.\n",
}
GONE = "visitors.html"
QUESTION = "Which room holds the reader of these tests?"
QUESTIONS = {"dense": QUESTION, "lexical": "the a are supplier leave"}
"""By route, what finds every document: each passage has one of these words, and a vector."""
NO_TEXTS = ("dimension", QUESTION)
"""What the endpoint is asked for beside the texts of an index."""
VECTORS = ("chunk_embeddings", "sentence_embeddings")

Rows = dict[str, list[tuple[Any, ...]]]
Vectors = frozenset[tuple[str, str, str]]
Change = Callable[[Project], None]


def unchanged(project: Project) -> None:
    """Nothing is done to it."""


def edit(project: Project) -> None:
    """Two documents edited, one new, one gone."""
    for uri, text in EDITED.items():
        project.write(uri, text)
    (project.docs / GONE).unlink()


def swap(project: Project) -> None:
    """The same edit, and another embedder in the settings."""
    edit(project)
    project.configure(embedder={**project.settings["embedder"], "model": "other"})


def regroup(project: Project) -> None:
    """The same edit, and other buckets."""
    edit(project)
    project.configure(buckets=3)


# ---------------------------------------------------------------- what stands


def schemas(connection: psycopg.Connection[Any]) -> list[str]:
    numbers = connection.execute("SELECT generation FROM pincite.generations ORDER BY 1")
    return [f"g{number:04d}" for (number,) in numbers]


def contents(project: Project) -> dict[str, Rows]:
    """All rows of all generations, and under `live` the number of the one that is served."""
    live = "SELECT generation FROM pincite.live"
    with psycopg.connect(project.settings["database"]) as connection:
        found = {schema: rows_of(connection, schema) for schema in schemas(connection)}
        return {**found, "live": {"generation": connection.execute(live).fetchall()}}


def row_versions(project: Project) -> Rows:
    """Where every row lies and which transaction wrote it: the same only if none was written since."""
    rows = "SELECT ctid::text, xmin::text FROM {} ORDER BY ctid"
    with psycopg.connect(project.settings["database"]) as connection:
        tables = [f"{schema}.{table}" for schema in schemas(connection) for table in TABLES]
        tables += ["pincite.manifest", "pincite.generations", "pincite.live", "pincite.failures"]
        return {table: connection.execute(rows.format(table)).fetchall() for table in tables}  # type: ignore[arg-type]


def vectors_on_disk(project: Project) -> Vectors:
    """(table, embedder, hash of the text) of every vector that a file holds, committed or not."""
    tables = ParquetTables(str(project.state / "parquet"))
    return frozenset(
        (table, tables.note(file), value)
        for table in VECTORS
        for file in tables.files(table)
        for value in tables.read(file, ["text_hash"])["text_hash"].to_pylist()
    )


def asked(server: EmbeddingServer) -> Counter[str]:
    """Hashes of the texts that were asked for."""
    return Counter(text_hash(text) for text in server.texts if text not in NO_TEXTS)


@dataclass(frozen=True)
class Clean:
    """What a run that nothing disturbs leaves, and the texts that it has embedded."""

    contents: dict[str, Rows]
    asked: Counter[str]


def assert_converges(
    project: Project, server: EmbeddingServer, clean: Clean, before: Vectors = frozenset()
) -> Counter[str]:
    """The oracle: the next run ends where a clean one ends and asks for exactly what no file holds; the one
    after it asks for nothing and writes nothing. `before` are the vectors that stood before all. Returns
    the hashes of the texts asked for."""
    kept = Counter(value for _, _, value in vectors_on_disk(project) - before)
    server.forget()
    result = project.index()
    fresh = asked(server)
    assert fresh == clean.asked - kept
    assert result["published"] is True
    assert result["documents"]["failed"] == []
    assert contents(project) == clean.contents
    assert_verified(project)
    stood = row_versions(project)
    server.forget()
    again = project.index()
    assert again["chunks"]["written"] == 0
    assert asked(server) == Counter()
    assert row_versions(project) == stood
    return fresh


def assert_verified(project: Project) -> None:
    ran = project.run("verify")
    assert (ran.code, ran.json["problems"]) == (0, [])


# ---------------------------------------------------------------- projects


def library_project(folder: Path, server: EmbeddingServer, **settings: Any) -> Project:
    """The documents, with settings under which some of their sentences are alike."""
    embedder = {"endpoint": server.url, "model": "fake"}
    return make_project(
        folder, LIBRARY, embedder=embedder, sentences={"related_floor": 0.3}, **{"buckets": 4, **settings}
    )


@contextmanager
def changed(base: Project, server_url: str, folder: Path, change: Change) -> Iterator[Project]:
    with project_copy(base, server_url, folder) as project:
        change(project)
        yield project


# ---------------------------------------------------------------- a reader

Answer = dict[tuple[str, str], frozenset[tuple[str, str]]]
"""(route, uri) to (chunk id, all that is told of it) of the document's passages."""
NOT_OF_THE_DOCUMENT = {"rank", "score", "scores", "ranks", "name"}
"""Fields of a hit that the question decides, or other documents: a name says the file where a title is shared."""


class Reader:
    """Asks for all passages, over and over, from a thread; every answer is kept."""

    def __init__(self, project: Project) -> None:
        self._located = locate(str(project.config))
        self._done = threading.Event()
        self._error: BaseException | None = None
        self.asked: list[Answer] = []
        self.polled: list[Answer] = []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        try:
            with open_index(self._located) as opened:
                self.polled.append(answer(opened))
                while not self._done.wait(0.2):
                    self.polled.append(answer(opened))
                self.polled.append(answer(opened))
        except BaseException as error:
            self._error = error

    def ask(self) -> Answer:
        with open_index(self._located) as opened:
            self.asked.append(answer(opened))
        return self.asked[-1]

    def __enter__(self) -> Reader:
        self.first = self.ask()
        by_route = [{uri for asked, uri in self.first if asked == route} for route in QUESTIONS]
        assert by_route[0] == by_route[1], "a document that one of the questions does not find"
        self._thread.start()
        until(lambda: self.polled or self._error)
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._error:
            raise self._error

    def assert_saw_only(self, wanted: Answer) -> None:
        """Every answer is this one."""
        self.assert_saw_whole_documents(wanted)
        assert self.first == wanted

    def assert_saw_whole_documents(self, last: Answer) -> None:
        """Each answer has each document as it was in the first one or as it is in the last."""
        assert len(self.polled) > 1, "nobody has asked meanwhile"
        for seen in (*self.asked, *self.polled):
            for key in seen.keys() | self.first.keys() | last.keys():
                assert seen.get(key) in (self.first.get(key), last.get(key)), key


def answer(opened: Index, k: int = 100) -> Answer:
    """With text, pages, boxes, headings, overlap, context and metadata of each passage."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for route, question in QUESTIONS.items():
        for hit in opened.query(question, k=k, strategy=route)["hits"]:
            told = {key: value for key, value in hit.items() if key not in NOT_OF_THE_DOCUMENT}
            passage = (hit["chunk_id"], json.dumps(told, sort_keys=True, default=str))
            found.setdefault((route, hit["uri"]), set()).add(passage)
    return {key: frozenset(passages) for key, passages in found.items()}


# ---------------------------------------------------------------- the server


def backends(project: Project, where: str) -> list[int]:
    """Processes of the server that serve this project's database, but the asking one."""
    statement = f"""SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND {where}"""
    return [pid for (pid,) in project.rows(statement)]


def terminate(project: Project, where: str) -> None:
    """Ends the one such process that there is, as an administrator does."""
    until(lambda: len(backends(project, where)) == 1)
    (pid,) = backends(project, where)
    project.rows("SELECT pg_terminate_backend(%s)", pid)
    until(lambda: pid not in backends(project, where))
