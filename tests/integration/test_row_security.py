"""The query role under forced row-level security: what it may read, and that every query is read as it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pincite.index import open_index
from pipelines.ports import Filters
from resources.postgres_setup import SUPERUSER
from tests.fakes import EmbeddingServer, Project, kept_workers, make_project, new_database

pytestmark = pytest.mark.integration

TABLES = ("documents", "chunks", "sentences", "sentence_links", "postings", "terms")
SHARED = "The quarterly figures of the harbour were presented to the council."
SECRET = "The zeppelin contract was signed for 4711 pounds in the harbour office."


@pytest.fixture(scope="module")
def project(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with kept_workers(), new_database(server_url) as url:
        made = make_project(
            tmp_path_factory.mktemp("rows") / "project",
            {},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            sentences={"related_floor": 0.05},
        )
        made.write("open.txt", f"{SHARED}\n\nThe harbour office is open.\n")
        made.write("board.txt", f"{SECRET} {SHARED}\n")
        made.write("board.txt.meta.yaml", "groups: [board]\n")
        made.write("staff.txt", "Rosters of the harbour are drawn up by the staff.\n")
        made.write("staff.txt.meta.yaml", "groups: [staff, board]\n")
        made.index()
        yield made


@contextmanager
def as_asker(project: Project, *groups: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction as the query role, in the live generation, for these groups."""
    with psycopg.connect(project.settings["database"]) as connection:
        (schema,) = (
            connection.execute("SELECT 'g' || lpad(generation::text, 4, '0') FROM pincite.live").fetchone() or ()
        )
        connection.execute(sql.SQL("SET LOCAL search_path = {}, public").format(sql.Identifier(schema)))
        connection.execute("SET LOCAL ROLE pincite_query")
        connection.execute("SELECT set_config('pincite.groups', %s::text[]::text, true)", [list(groups)])
        yield connection
        connection.rollback()


def column(connection: psycopg.Connection[Any], statement: str) -> list[Any]:
    return [row[0] for row in connection.execute(statement.encode())]


@pytest.mark.parametrize(
    ("groups", "uris"),
    [
        ((), ["open.txt"]),
        (("staff",), ["open.txt", "staff.txt"]),
        (("board",), ["board.txt", "open.txt", "staff.txt"]),
        (("Board", "hr"), ["open.txt"]),
    ],
)
def test_rows_of_every_table_are_those_of_the_askers_documents(
    project: Project, groups: tuple[str, ...], uris: list[str]
) -> None:
    with as_asker(project, *groups) as connection:
        assert sorted(column(connection, "SELECT uri FROM documents")) == uris
        for table in ("chunks", "sentences"):
            found = column(connection, f"SELECT DISTINCT uri FROM {table} JOIN documents USING (doc_id) ORDER BY uri")
            assert found == uris
            assert not column(connection, f"SELECT doc_id FROM {table} EXCEPT SELECT doc_id FROM documents")
        numbers = set(column(connection, "SELECT unnest(chunks) FROM postings"))
        assert numbers == set(column(connection, "SELECT number FROM chunks"))
        ends = "SELECT source_id FROM sentence_links UNION SELECT target_id FROM sentence_links"
        assert column(connection, f"SELECT count(*) FROM ({ends} EXCEPT SELECT sentence_id FROM sentences) AS x") == [0]


def test_links_lead_nowhere_that_the_asker_may_not_go(project: Project) -> None:
    counts = {}
    for groups in ((), ("board",)):
        with as_asker(project, *groups) as connection:
            counts[groups] = column(connection, "SELECT count(*) FROM sentence_links")[0]
    assert counts[()] < counts["board",]


def test_words_of_hidden_documents_and_how_often_they_stand_there_are_not_told(project: Project) -> None:
    known = {}
    for groups in ((), ("staff",), ("board",)):
        with as_asker(project, *groups) as connection:
            asked = (
                "SELECT term, sum(documents)::int FROM terms WHERE term LIKE ANY ('{zeppelin%,harbour%}') GROUP BY 1"
            )
            known[groups] = dict(connection.execute(asked).fetchall())
    words = {word[:5] for word in known["board",]}
    assert words == {"zeppe", "harbo"}
    assert [list(known[groups].values()) for groups in ((), ("staff",))] == [[1], [2]]
    assert sorted(known["board",].values()) == [1, 3]


def test_it_reads_the_generations_tables_and_nothing_else(project: Project) -> None:
    refused = [
        *(
            f"SELECT * FROM pincite.{name}"
            for name in ("sources", "manifest", "generations", "llm_replies", "failures")
        ),
        *(f"DELETE FROM {name}" for name in TABLES),
        "INSERT INTO terms VALUES ('x', '{}', 1)",
        "UPDATE documents SET groups = '{}'",
        "SELECT pincite.protect('g0001')",
        "CREATE TABLE public.mine (x int)",
    ]
    for statement in refused:
        with as_asker(project, "board") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_it_is_neither_owner_nor_superuser_and_security_is_forced(project: Project) -> None:
    role = project.rows(
        "SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = 'pincite_query'"
    )
    assert role == [(False, False, False, False)]
    kept = project.rows(
        "SELECT relname FROM pg_class WHERE relnamespace = 'g0001'::regnamespace AND relkind = 'r' "
        "AND relrowsecurity AND relforcerowsecurity AND relowner <> 'pincite_query'::regrole"
    )
    assert {name for (name,) in kept} == set(TABLES)
    tables = project.rows("SELECT relname FROM pg_class WHERE relnamespace = 'g0001'::regnamespace AND relkind = 'r'")
    assert {name for (name,) in tables} == set(TABLES)


def test_a_query_is_read_as_that_role(project: Project) -> None:
    with open_index(project.config) as index, index._searcher.reading() as (connection, opened):
        opened.passages(["none"], Filters(groups=("board",)))
        row = connection.execute("SELECT current_user, session_user, pincite.asker_groups()").fetchone()
    assert row == ("pincite_query", SUPERUSER, ["board"])


def test_groups_that_change_take_postings_and_words_along(project: Project) -> None:
    """As it happens in a generation that is kept, without a new parse."""
    from resources.catalog import Catalog
    from resources.database import Database
    from resources.index_tables import IndexTables

    with Database(project.settings["database"], project.state) as database:
        generation = Catalog(database).live()
        assert generation is not None
        tables = IndexTables(database, generation)
        held = tables.document_groups()
        (doc_id,) = (name for name, (_, groups) in held.items() if set(groups) == {"staff", "board"})
        try:
            tables.replace(held[doc_id][0], [], regrouped={doc_id: ("board",)})
            with as_asker(project, "staff") as connection:
                assert column(connection, "SELECT uri FROM documents") == ["open.txt"]
                numbers = set(column(connection, "SELECT unnest(chunks) FROM postings"))
                assert numbers == set(column(connection, "SELECT number FROM chunks"))
                assert not column(connection, "SELECT term FROM terms WHERE term LIKE 'roster%'")
            with as_asker(project, "board") as connection:
                assert column(connection, "SELECT cardinality(chunks) FROM postings WHERE term LIKE 'roster%'") == [1]
        finally:
            tables.replace(held[doc_id][0], [], regrouped={doc_id: held[doc_id][1]})


ROUTES = ("dense", "lexical", "hybrid", "sentence")
RERANKERS = ("none", "weighted", "evidence")


@pytest.mark.parametrize("strategy", ROUTES)
@pytest.mark.parametrize("rerank", RERANKERS)
def test_no_route_gives_another_group_its_exact_text(project: Project, strategy: str, rerank: str) -> None:
    with open_index(project.config) as index:
        for groups, shown in (((), False), (("staff",), False), (("board",), True)):
            found = index.query(SECRET, k=20, strategy=strategy, rerank=rerank, groups=groups)
            assert any("zeppelin" in str(hit) for hit in found["hits"]) is shown, groups
            assert found["hits"]


def test_a_missing_query_role_is_one_clear_error_and_no_answer(
    server_url: str, endpoint: EmbeddingServer, project: Project
) -> None:
    """A user who may neither make the role nor become it, as on a server of somebody else's."""
    url = project.settings["database"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS visitor")
        connection.execute("CREATE ROLE visitor LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA pincite, g0001 TO visitor")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA pincite, g0001 TO visitor")
    project.settings["database"] = url.replace("pincite@", "visitor@")
    project.configure()
    try:
        ran = project.run("query", "harbour", "--strategy", "lexical")
        assert ran.code == 1 and "pincite_query" in ran.json["error"]["message"], ran.out
    finally:
        project.settings["database"] = url
        project.configure()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY visitor")
            connection.execute("DROP ROLE visitor")
