"""The query role under forced row-level security: what it may read, and that every query is read as it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest
from psycopg import sql

from pincite.index import Index, open_index
from pipelines.errors import DatabaseError, IndexStateError
from pipelines.ports import Filters
from pipelines.settings.query import RerankerName, StrategyName
from resources.models.rerankers import TransformerCrossEncoder
from resources.postgres.database import Database
from resources.postgres.server_process import ADMINISTRATOR, OWNER
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import Answer, LlmServer, first_token, llm_server, says
from tests.support.projects import NUMBER, PLACES, Project, make_project, new_database

pytestmark = [pytest.mark.integration, pytest.mark.case(27)]

TABLES = ("documents", "document_names", "abbreviations", "chunks", "sentences", "sentence_links", "postings", "terms")
SHARED = "The quarterly figures of the harbour were presented to the council."
SECRET = "The zeppelin contract was signed for 4711 pounds in the harbour office."
UNASKED = "Its code name is quicksilver."
"""Stands beside the secret and is asked by nobody: whoever is told it has read the board's document."""


@pytest.fixture(scope="module")
def model() -> Iterator[LlmServer]:
    """A model that writes the very text that is looked for, and finds every passage to be the answer."""
    with llm_server() as made:
        made.reply = _read
        yield made


def _read(prompt: str) -> Answer:
    if "[1]" in prompt:
        return says("[2] > [1]")
    text = "Somebody signed the zeppelin contract for 4711 pounds.\nThe zeppelin contract in the harbour office."
    return says(text, logprobs=first_token(Yes=-0.1, No=-2.5))


@pytest.fixture(scope="module")
def project(
    server_url: str, endpoint: EmbeddingServer, model: LlmServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    with quick_runs(), new_database(server_url) as url:
        made = make_project(
            tmp_path_factory.mktemp("rows") / "project",
            {},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            sentences={"related_floor": 0.05},
            llm={"base_url": model.url, "model": "reader"},
        )
        made.write("open.txt", f"{SHARED}\n\nThe harbour office is open.\n")
        made.write("board.txt", f"{SECRET} {SHARED} {UNASKED}\n")
        made.write("board.txt.meta.yaml", "groups: [board]\n")
        made.write("staff.txt", "Rosters of the harbour are drawn up by the staff.\n")
        made.write("staff.txt.meta.yaml", "groups: [staff, board]\n")
        made.index()
        yield made


@pytest.fixture(scope="module")
def index(project: Project) -> Iterator[Index]:
    """One for all askers, so that nothing that is kept of an answer reaches who asks next."""
    with open_index(project.config) as opened:
        yield opened


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
        numbers = set(column(connection, f"SELECT {NUMBER} FROM postings, {PLACES}"))
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
    catalog = [name for (name,) in project.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'pincite'")]
    assert {"sources", "manifest", "generations", "llm_replies", "failures"} <= set(catalog)
    refused = [
        *(f"SELECT * FROM pincite.{name}" for name in catalog),
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
    assert row == ("pincite_query", OWNER, ["board"])


@contextmanager
def set_in_database(project: Project, setting: str, value: str) -> Iterator[None]:
    """For every session that begins within the block."""
    with psycopg.connect(project.settings["database"], autocommit=True) as connection:
        of = {"name": sql.Identifier(connection.info.dbname), "setting": sql.Identifier(setting), "value": value}
        connection.execute(sql.SQL("ALTER DATABASE {name} SET {setting} = {value}").format(**of))
        try:
            yield
        finally:
            connection.execute(sql.SQL("ALTER DATABASE {name} RESET {setting}").format(**of))


def test_a_model_may_be_waited_for_in_a_transaction_of_limited_length(project: Project) -> None:
    """By our own limit, whatever the server's is."""
    with set_in_database(project, "idle_in_transaction_session_timeout", "100ms"):
        with open_index(project.config) as index, index._searcher.reading() as (reader, _):
            assert reader.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("1h",)
        assert project.rows("SHOW idle_in_transaction_session_timeout") == [("100ms",)]


def test_a_limit_on_statements_is_for_those_who_ask(project: Project) -> None:
    """What builds an index takes as long as it takes, also on a connection that was used before."""
    with set_in_database(project, "statement_timeout", "30s"):
        with open_index(project.config) as index, index._searcher.reading() as (reader, _):
            assert reader.execute("SHOW statement_timeout").fetchone() == ("30s",)
        with Database(project.settings["database"], project.state) as database:
            for _ in range(2):
                with database.connect() as builder:
                    assert builder.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_groups_that_change_take_postings_and_words_along(project: Project) -> None:
    """As it happens in a generation that is kept, without a new parse."""
    from resources.postgres.catalog import Catalog
    from resources.postgres.generation_tables import GenerationTables

    with Database(project.settings["database"], project.state) as database:
        generation = Catalog(database).live()
        assert generation is not None
        tables = GenerationTables(database, generation)
        held = tables.document_groups()
        (doc_id,) = (name for name, (_, groups) in held.items() if set(groups) == {"staff", "board"})
        try:
            tables.replace(held[doc_id][0], [], regrouped={doc_id: ("board",)})
            with as_asker(project, "staff") as connection:
                assert column(connection, "SELECT uri FROM documents") == ["open.txt"]
                numbers = set(column(connection, f"SELECT {NUMBER} FROM postings, {PLACES}"))
                assert numbers == set(column(connection, "SELECT number FROM chunks"))
                assert not column(connection, "SELECT term FROM terms WHERE term LIKE 'roster%'")
            with as_asker(project, "board") as connection:
                assert column(connection, "SELECT octet_length(chunks) FROM postings WHERE term LIKE 'roster%'") == [4]
        finally:
            tables.replace(held[doc_id][0], [], regrouped={doc_id: held[doc_id][1]})


STRATEGIES, RERANKERS = get_args(StrategyName), get_args(RerankerName)
ROUTES = [(strategy, "none") for strategy in STRATEGIES]
ROUTES += [(strategy, rerank) for rerank in RERANKERS[1:] for strategy in ("hybrid", "sentence")]
HIDDEN_FROM = ((), ("staff",), ("Board",))


@pytest.fixture
def shown_to_models(model: LlmServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What rerankers and answers show a model: the passages of the cross-encoder, beside the prompts."""
    shown: list[str] = []

    def scores(_: TransformerCrossEncoder, question: str, passages: list[str]) -> list[float]:
        shown.extend(passages)
        return [1.0 / len(passage) for passage in passages]

    monkeypatch.setattr(TransformerCrossEncoder, "scores", scores)
    model.forget()
    return shown


@pytest.mark.case(27, served=True)
@pytest.mark.parametrize(("strategy", "rerank"), ROUTES)
def test_no_route_gives_another_group_its_exact_text(
    index: Index, model: LlmServer, shown_to_models: list[str], strategy: str, rerank: str
) -> None:
    for groups in HIDDEN_FROM:
        found = index.query(SECRET, k=20, strategy=strategy, rerank=rerank, groups=groups)
        assert found["hits"]
        assert "quicksilver" not in f"{found}{shown_to_models}{model.prompts}", groups
    found = index.query(SECRET, k=20, strategy=strategy, rerank=rerank, groups=["board"])
    served = {hit["uri"]: hit["text"] for hit in found["hits"]}
    assert served.keys() == {"open.txt", "board.txt", "staff.txt"}
    assert served["board.txt"] == f"{SECRET} {SHARED} {UNASKED}"


def test_no_answer_is_made_of_it(index: Index, model: LlmServer, shown_to_models: list[str]) -> None:
    for groups in HIDDEN_FROM:
        answer = index.ask(SECRET, k=20, groups=groups)
        assert answer["hits"]
        assert "quicksilver" not in f"{answer}{model.prompts}", groups
    assert "quicksilver" in str(index.ask(SECRET, k=20, groups=["board"]))
    assert "quicksilver" in str(model.prompts)


def test_neither_ids_nor_links_nor_questions_lead_to_it(project: Project, index: Index) -> None:
    hidden = project.rows(
        "SELECT chunk_id FROM g0001.chunks JOIN g0001.documents USING (doc_id) WHERE uri = 'board.txt'"
    )
    hidden += project.rows("SELECT sentence_id FROM g0001.sentences WHERE text LIKE '%%quicksilver%%'")
    for (named,) in hidden:
        assert "quicksilver" in str(index.show(named, groups=["board"]))
        assert "board.txt" in str(index.explain(named, groups=["board"]))
        for groups in HIDDEN_FROM:
            for look in (index.show, index.explain):
                with pytest.raises(IndexStateError) as raised:
                    look(named, groups=groups)
                assert raised.value.code == "unknown_chunk"
    assert "zeppelin" in str(index.suggest(20, ["board"]))
    for groups in HIDDEN_FROM:
        assert "zeppelin" not in str(index.suggest(20, groups))
    for groups, told in ((("board",), True), *((groups, False) for groups in HIDDEN_FROM)):
        assert ("zeppelin" in str(index.links(groups=groups, strongest=50))) is told


def test_golden_questions_find_only_what_their_asker_may(project: Project, index: Index) -> None:
    golden = project.folder / "golden.jsonl"
    golden.write_text(json.dumps({"id": "1", "question": SECRET, "gold": [{"uri": "board.txt", "quote": SECRET}]}))
    for groups, share in ((("board",), 1.0), *((groups, 0.0) for groups in HIDDEN_FROM)):
        (run,) = index.evaluate(golden, groups=groups, answers=True)["runs"]
        assert run["metrics"]["recall@20"] == share
        assert "quicksilver" not in str(run)


def test_nothing_is_read_but_as_that_role(project: Project, index: Index, shown_to_models: list[str]) -> None:
    """What that role may not read, no command reads by other means."""
    (chunk,) = (row[0] for row in project.rows("SELECT chunk_id FROM g0001.chunks WHERE text LIKE '%%quicksilver%%'"))
    reads: list[Callable[[], Any]] = [
        *(partial(index.query, SECRET, strategy=strategy) for strategy in STRATEGIES),
        partial(index.ask, SECRET),
        partial(index.show, chunk, groups=["board"]),
        index.links,
    ]
    explain: Callable[[], Any] = partial(index.explain, chunk, groups=["board"])
    for tables, refused in (("ALL TABLES IN SCHEMA g0001", [*reads, explain]), ("g0001.sentence_links", [explain])):
        project.rows(f"REVOKE SELECT ON {tables} FROM pincite_query")
        try:
            for read in refused:
                with pytest.raises((DatabaseError, IndexStateError), match="permission denied"):
                    read()
        finally:
            project.rows("GRANT SELECT ON ALL TABLES IN SCHEMA g0001 TO pincite_query")


@pytest.mark.faults
@pytest.mark.case(27)
def test_an_ordinary_user_keeps_an_index_of_its_own(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> None:
    """As on a server of somebody else's: who owns the tables is held to the policies as well."""
    with new_database(server_url) as url:
        with psycopg.connect(url, user=ADMINISTRATOR, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS keeper")
            connection.execute("CREATE ROLE keeper")
            connection.execute("GRANT keeper TO pincite WITH SET TRUE")
            with suppress(psycopg.errors.DuplicateObject):
                connection.execute("CREATE ROLE pincite_query NOLOGIN")
            connection.execute("GRANT pincite_query TO keeper")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(
                sql.SQL("ALTER DATABASE {} OWNER TO keeper").format(sql.Identifier(connection.info.dbname))
            )
        project = make_project(
            tmp_path / "kept", database=f"{url}&options=-crole%3Dkeeper",
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )  # fmt: skip
        for text in ("The lamp is lit at dusk.", "The lamp is lit at dawn, and put out at noon."):
            project.write("lamp.txt", text)
            assert project.index()["published"] is True
            (hit,) = [hit for hit in project.run("query", "the lamp").json["hits"] if hit["uri"] == "lamp.txt"]
            assert hit["text"] == text
        assert project.run("verify").code == 0


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
        assert (ran.code, ran.json["error"]["code"]) == (1, "no_query_role"), ran.out
        assert "CREATE ROLE pincite_query NOLOGIN" in ran.json["error"]["message"]
    finally:
        project.settings["database"] = url
        project.configure()
        with psycopg.connect(url, autocommit=True, user=ADMINISTRATOR) as connection:
            connection.execute("DROP OWNED BY visitor")
            connection.execute("DROP ROLE visitor")
