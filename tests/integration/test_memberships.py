"""Documents restricted to principals of their source: who is behind them is read with every question, and nothing is
indexed for it. What is unknown, broken or too old is nobody."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from pincite.guard import TokenFile, access_of
from pincite.index import open_index
from pincite.serve.application import application
from pincite.serve.service import Service
from pipelines.errors import IndexStateError
from resources.postgres.catalog import MembershipTable
from resources.postgres.database import Database
from resources.settings_file import locate
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration]

SECRET = "The zeppelin contract was signed for 4711 pounds."
URL = "http://127.0.0.1:8750"
MEMBERS = "_memberships.csv"
HEAD = "principal,group\n"


def source(name: str = "docs", **more: Any) -> dict[str, Any]:
    return {"name": name, "path": name, "memberships": True, **more}


@pytest.fixture(scope="module")
def made(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two sources of a wiki's kind with the same principals, and two generations, the older kept for a rollback."""
    with quick_runs(), new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("access") / "project",
            {},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            sources=[source(), source("annexe")],
        )
        for name in ("docs", "annexe"):
            docs = project.folder / name
            project.write("open.txt", "The harbour office is open on weekdays.", docs)
            restricted(project, "board.txt", "principals: [u-17, 'CN=Board,OU=x']\n", docs)
            project.write(MEMBERS, f'{HEAD}u-17,ann\n"CN=Board,OU=x",{name}-board\n', docs)
        restricted(project, "both.txt", "groups: [staff]\nprincipals: u-17\n")
        restricted(project, "staff.txt", "groups: [staff]\n")
        project.index()
        project.configure(chunking={"overlap_tokens": 0})
        project.index()
        yield project


@pytest.fixture
def project(made: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(made, server_url, tmp_path / "copy") as copied:
        copied.rows("UPDATE pincite.sources SET root = %s WHERE name = 'annexe'", str(copied.folder / "annexe"))
        yield copied


def restricted(project: Project, uri: str, said: str, docs: Path | None = None) -> None:
    project.write(uri, f"{SECRET} It is kept in {(docs or project.docs).name}, in {uri}.", docs)
    project.write(f"{uri}.meta.yaml", said, docs)


def members(project: Project, *lines: str, docs: Path | None = None) -> None:
    project.write(MEMBERS, "".join([HEAD, *(f"{line}\n" for line in lines)]), docs)


def found(project: Project, *groups: str) -> set[str]:
    """What a question finds, in the live generation; and the older one shows the same documents."""
    with open_index(project.config) as index:
        live, old = (
            {
                f"{hit['source']}/{hit['uri']}"
                for hit in index.query("zeppelin contract", groups=groups, generation=at)["hits"]
            }
            for at in (2, 1)
        )
    assert live == old
    return {name for name in live if not name.endswith("open.txt")}


def as_query_role(project: Project, groups: list[str], hours: str = "48") -> set[str]:
    """What the query role reads of its own, whatever it says that it is."""
    with psycopg.connect(project.settings["database"]) as connection:
        connection.execute("SET LOCAL ROLE pincite_query")
        connection.execute(
            "SELECT set_config('pincite.groups', %s::text[]::text, true), "
            "set_config('pincite.memberships_hours', %s, true)",
            [groups, hours],
        )
        rows = connection.execute("SELECT source || '/' || uri FROM g0002.documents WHERE uri <> 'open.txt'").fetchall()
    return {name for (name,) in rows}


def aged(project: Project, hours: float, name: str = "docs") -> None:
    project.rows(
        "UPDATE pincite.sources SET memberships_at = now() - make_interval(secs => %s * 3600) WHERE name = %s",
        hours,
        name,
    )


# ---------------------------------------------------------------- who is found to be behind a principal


def test_a_principal_opens_to_its_members_and_of_its_own_source_alone(made: Project) -> None:
    project = made
    assert found(project) == set()
    assert found(project, "ann") == {"docs/board.txt", "docs/both.txt", "annexe/board.txt"}
    assert found(project, "staff") == {"docs/both.txt", "docs/staff.txt"}
    assert found(project, "docs-board") == {"docs/board.txt"}
    assert found(project, "annexe-board", "others") == {"annexe/board.txt"}
    assert found(project, "u-17") == found(project, "CN=Board") == found(project, "Ann") == set()


def test_who_joins_and_leaves_is_known_at_once_and_nothing_is_indexed(project: Project) -> None:
    """A plan lets nobody in or out. Groups find their documents without any member of a principal."""
    read_at = project.rows("SELECT name, memberships_at FROM pincite.sources")
    before = project.rows(
        "SELECT xmin::text, doc_id FROM g0002.documents UNION SELECT xmin::text, doc_id FROM g0001.documents"
    )
    members(project, "u-17,ben")
    assert project.run("plan").json["documents"]["changed"] == 0
    assert project.rows("SELECT name, memberships_at FROM pincite.sources") == read_at
    assert "docs/board.txt" in found(project, "ann")
    ran = project.run("sources", "sync-access")
    assert ran.json["sources"] == [
        {"source": "annexe", "memberships": 2, "added": 0, "removed": 0, "problem": None},
        {"source": "docs", "memberships": 1, "added": 1, "removed": 2, "problem": None},
    ]
    assert found(project, "ben") == {"docs/board.txt", "docs/both.txt"}
    assert found(project, "ann") == {"annexe/board.txt"}
    assert before == project.rows(
        "SELECT xmin::text, doc_id FROM g0002.documents UNION SELECT xmin::text, doc_id FROM g0001.documents"
    )
    assert project.rows("SELECT count(*) FROM pincite.failures") == [(0,)]
    members(project)
    assert project.run("sources", "sync-access", "docs").code == 0
    assert found(project, "staff") == {"docs/both.txt", "docs/staff.txt"}
    assert found(project, "ann", "ben") == {"annexe/board.txt"}


def test_a_run_with_nothing_to_index_reads_them_too_and_writes_no_row_of_them(project: Project) -> None:
    aged(project, 47)
    rows = project.rows('SELECT xmin::text, * FROM pincite.memberships ORDER BY "group", source')
    assert project.index()["documents"]["unchanged"] == 6
    assert project.rows('SELECT xmin::text, * FROM pincite.memberships ORDER BY "group", source') == rows
    assert project.rows("SELECT bool_and(now() - memberships_at < '1 hour') FROM pincite.sources") == [(True,)]
    members(project, "u-17,ben")
    project.index()
    assert found(project, "ben") == {"docs/board.txt", "docs/both.txt"}


def test_outdated_memberships_match_nobody_nor_do_those_of_a_clock_that_was_set_back(project: Project) -> None:
    aged(project, 47.9)
    assert "docs/board.txt" in found(project, "ann")
    aged(project, 48.1)
    assert found(project, "ann", "docs-board") == {"annexe/board.txt"}
    (old,) = (item for item in project.run("sources", "list").json["sources"] if item["name"] == "docs")
    assert old["memberships"]["current"] is False and old["memberships"]["count"] == 2
    project.configure(access={"memberships_max_age_hours": 100})
    assert "docs/board.txt" in found(project, "ann")
    project.configure(access={"memberships_max_age_hours": 0.5})
    aged(project, 1, "annexe")
    assert found(project, "ann") == set()
    aged(project, -24)
    assert found(project, "docs-board") == set()
    assert project.run("sources", "sync-access", "docs").code == 0
    assert found(project, "docs-board") == {"docs/board.txt"}


# ---------------------------------------------------------------- what cannot be read


def test_a_broken_file_leaves_what_was_read_before_until_it_is_too_old(project: Project) -> None:
    project.write(MEMBERS, f"{HEAD}u-17,an")
    ran = project.run("sources", "sync-access", "docs")
    assert ran.code == 3 and ran.json["sources"][0]["problem"].startswith(MEMBERS)
    assert found(project, "ann") == {"docs/board.txt", "docs/both.txt", "annexe/board.txt"}
    aged(project, 49)
    assert found(project, "ann") == {"annexe/board.txt"}


def test_a_run_names_a_file_that_is_broken_or_gone_and_takes_a_good_one_again(project: Project) -> None:
    """Nobody is behind a principal of a file that is gone, nor of a source that is not told to read any."""
    project.write(MEMBERS, b"\xff\xfe")
    aged(project, 49)
    (failed,) = project.index(code=3)["documents"]["failed"]
    assert (failed["uri"], failed["code"]) == (MEMBERS, "memberships")
    assert found(project, "docs-board") == set()
    assert project.run("verify").json["ok"]
    members(project, "u-17,ann")
    assert project.index()["documents"]["failed"] == []
    assert found(project, "ann") == {"docs/board.txt", "docs/both.txt", "annexe/board.txt"}
    (project.docs / MEMBERS).unlink()
    (failed,) = project.index(code=3)["documents"]["failed"]
    assert failed["code"] == "memberships" and "nobody" in failed["message"]
    assert found(project, "ann", "docs-board") == {"annexe/board.txt"}
    members(project, "u-17,ann")
    project.configure(sources=[{"name": "docs", "path": "docs"}, source("annexe")])
    project.index()
    assert found(project, "ann", "docs-board") == {"annexe/board.txt"}
    assert project.rows("SELECT memberships_at FROM pincite.sources WHERE name = 'docs'") == [(None,)]


# ---------------------------------------------------------------- what a stranger tries


FORGED = ("docs,u-17", "docs%2Cu-17", "@docs/u-17", "u-17", ",u-17", "docs,", "annexe,u-17", '{"docs,u-17"}')


def test_nobody_asks_as_a_principal(project: Project) -> None:
    assert as_query_role(project, []) == set()
    for name in FORGED:
        assert as_query_role(project, [name]) == set(), name
        ran = project.run("query", "zeppelin contract", "--group", name)
        assert ran.code == (2 if "," in name else 0), name
        assert "board.txt" not in ran.out, name
    for command in (["show", "x" * 8], ["tokens", "add", "eve"]):
        assert project.run(*command, "--group", FORGED[0]).code in (1, 2)
    forged = {f"forged-{number}.txt": name for number, name in enumerate(FORGED)}
    for uri, name in forged.items():
        restricted(project, uri, json.dumps({"groups": [name]}))
    failed = project.run("index").json["documents"]["failed"]
    assert {item["uri"] for item in failed} == {uri for uri, name in forged.items() if "," in name}
    assert not {name for name in found(project, "ann") if "forged" in name}


def test_the_query_role_reads_no_memberships_and_holds_them_no_longer(made: Project) -> None:
    project = made
    assert as_query_role(project, ["ann"]) == {"docs/board.txt", "docs/both.txt", "annexe/board.txt"}
    assert as_query_role(project, ["ann"], "") == as_query_role(project, ["ann"], "0") == set()
    for statement in (
        "SELECT * FROM pincite.memberships",
        "INSERT INTO pincite.memberships VALUES ('docs', 'u-17', 'eve')",
        "UPDATE pincite.sources SET memberships_at = now()",
    ):
        with psycopg.connect(project.settings["database"]) as connection:
            connection.execute("SET LOCAL ROLE pincite_query")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_functions_an_asker_adds_to_the_search_path_are_not_called(made: Project) -> None:
    with psycopg.connect(made.settings["database"]) as connection:
        connection.execute("CREATE FUNCTION public.strpos(text, text) RETURNS int LANGUAGE sql AS 'SELECT 0'")
        connection.execute("SET LOCAL ROLE pincite_query")
        connection.execute("SET LOCAL search_path = public, pg_catalog")
        assert connection.execute("SELECT strpos('ab', 'b')").fetchone() == (0,)
        connection.execute("SELECT set_config('pincite.groups', '{eve,\"docs,u-17\"}', true)")
        assert connection.execute("SELECT pincite.asker_groups()").fetchone() == (["eve"],)
        connection.rollback()


def test_two_principals_whose_names_run_together_are_two(project: Project) -> None:
    name = "docs,u-17"
    docs = project.folder / "odd"
    restricted(project, "board.txt", "principals: [u-17]\n", docs)
    project.write(MEMBERS, f"{HEAD}u-17,odd-board\n", docs)
    project.configure(sources=[source(), source("annexe"), {"name": name, "path": "odd", "memberships": True}])
    project.index()
    assert found_now(project, "odd-board") == {f"{name}/board.txt"}
    assert f"{name}/board.txt" not in found_now(project, "ann", "docs-board")


def found_now(project: Project, *groups: str) -> set[str]:
    with open_index(project.config) as index:
        hits = index.query("zeppelin contract", groups=groups)["hits"]
    return {f"{hit['source']}/{hit['uri']}" for hit in hits if hit["uri"] != "open.txt"}


def test_a_document_that_is_restricted_anew_closes_in_every_generation(project: Project) -> None:
    restricted(project, "open.txt", "principals: [nobody-knows]\n")
    project.index()
    for generation in (1, 2):
        with open_index(project.config) as index:
            hits = index.query("harbour office", groups=["ann", "staff"], generation=generation)["hits"]
        assert "docs/open.txt" not in {f"{hit['source']}/{hit['uri']}" for hit in hits}
    restricted(project, "board.txt", "principals:\n")
    assert project.index(code=3)["documents"]["failed"][0]["code"] == "side_car"
    assert "docs/board.txt" not in found(project, "ann", "docs-board")


def test_a_source_that_is_removed_takes_its_memberships_along(project: Project) -> None:
    """It is closed under another name until its memberships are read."""
    assert project.run("sources", "remove", "annexe").code == 0
    assert project.rows("SELECT DISTINCT source FROM pincite.memberships") == [("docs",)]
    assert found(project, "annexe-board") == set() or found(project, "annexe-board") == {"annexe/board.txt"}
    project.configure(sources=[source()])
    project.index("--allow-deletions")
    assert found(project, "annexe-board") == set()
    (project.folder / "annexe" / MEMBERS).unlink()
    project.configure(sources=[source(), source("moved", path="annexe")])
    project.index(code=3)
    assert found_now(project, "ann", "annexe-board") == {"docs/board.txt", "docs/both.txt"}


def test_an_older_reading_does_not_bring_back_who_has_left(project: Project) -> None:
    with closing(Database(project.settings["database"], project.state)) as database:
        table = MembershipTable(database)
        early, late = table.clock(), table.clock()
        assert table.replace("docs", {("u-17", "ben")}, late) == (1, 2)
        assert table.replace("docs", {("u-17", "eve")}, early) is None
        assert table.replace("nowhere", {("u-17", "eve")}, table.clock()) is None
    assert found(project, "eve") == set()
    assert found(project, "ben") == {"docs/board.txt", "docs/both.txt"}


def test_a_run_that_is_refused_takes_members_away_all_the_same_and_a_lost_folder_does_not(project: Project) -> None:
    members(project, "u-17,ben")
    for file in (project.folder / "annexe").iterdir():
        file.unlink()
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "deletion_guard")
    assert found(project, "ann") == {"annexe/board.txt"}
    assert found(project, "annexe-board") == {"annexe/board.txt"}


def test_every_command_goes_by_the_same_resolution(project: Project) -> None:
    (hit,) = (
        it for it in project.hits("zeppelin contract kept in docs", "--group", "docs-board") if it["uri"] == "board.txt"
    )
    asked = {"show": [hit["chunk_id"]], "explain": [hit["chunk_id"]]}
    for command, arguments in asked.items():
        assert project.run(command, *arguments, "--group", "docs-board").code == 0
        assert project.run(command, *arguments, "--group", "annexe-board").json["error"]["code"] == "unknown_chunk"
    told = project.run("explain", hit["chunk_id"], "--group", "docs-board").json["document"]
    assert (told["groups"], told["principals"]) == ([], ["u-17", "CN=Board,OU=x"])
    with open_index(project.config) as index:
        (listed,) = (it for it in index.documents.list_documents(["docs-board"]) if it.uri == "board.txt")
        with pytest.raises(IndexStateError, match="does not exist, or you may not see it"):
            index.documents.one(listed.doc_id, ["annexe-board"])
        assert index.sentences_in_place([hit["chunk_id"]], ["docs-board"])
        assert not index.sentences_in_place([hit["chunk_id"]], ["others"])
        assert {it["name"]: it["documents"] for it in index.asked_status(["docs-board"])["sources"]} == {
            "annexe": 1,
            "docs": 2,
        }
        for groups, seen in ((["docs-board"], True), (["others"], False)):
            lines = index.suggest(20, groups)["questions"]
            assert any("4711" in json.dumps(line) for line in lines) == seen
            answer = json.dumps(index.ask("For how many pounds was the zeppelin contract signed?", groups=groups))
            assert ("4711" in answer) == seen
    aged(project, 49)
    assert project.run("show", hit["chunk_id"], "--group", "docs-board").json["error"]["code"] == "unknown_chunk"


def test_an_index_of_principals_alone_is_sound(project: Project) -> None:
    for name in ("docs", "annexe"):
        (project.folder / name / "open.txt").unlink()
    restricted(project, "both.txt", "principals: u-17\n")
    restricted(project, "staff.txt", "principals: u-18\n")
    project.index("--allow-deletions")
    assert project.run("verify").json["problems"] == []
    assert found(project) == set()
    assert "docs/both.txt" in found(project, "ann")


# ---------------------------------------------------------------- by other ways


def test_a_server_goes_by_the_groups_of_the_token(project: Project) -> None:
    project.configure(serve={"auth": "tokens"})
    tokens = TokenFile(project.state)
    made = {who: tokens.add(who, groups, False) for who, groups in (("ann", ("ann",)), ("eve", ("u-17",)))}
    where = locate(str(project.config))
    with closing(Service(where)) as service:
        client = TestClient(application(service, access_of(where), URL), base_url=URL)

        def seen(who: str) -> set[str]:
            headers = {"Authorization": f"Bearer {made[who]}"}
            hits = client.get("/api/search", headers=headers, params={"q": "zeppelin contract"}).json()["hits"]
            listed = client.get("/api/documents", headers=headers).json()
            assert ("board.txt" in json.dumps(listed)) == any(hit["uri"] == "board.txt" for hit in hits)
            return {f"{hit['source']}/{hit['uri']}" for hit in hits if hit["uri"] != "open.txt"}

        assert seen("ann") == {"docs/board.txt", "docs/both.txt", "annexe/board.txt"}
        assert seen("eve") == set()
        members(project, "u-17,eve-and-others")
        project.run("sources", "sync-access", "docs")
        assert seen("ann") == {"annexe/board.txt"}


def test_rows_of_a_database_and_their_memberships(project: Project, server_url: str) -> None:
    with new_database(server_url) as url, psycopg.connect(url, autocommit=True) as there:
        there.execute("CREATE TABLE pages (id text, text text, readers text[])")
        there.execute("CREATE TABLE teams (team text, login text)")
        there.execute("INSERT INTO pages VALUES ('plan', %s, ARRAY['t-1'])", [f"{SECRET} It is kept in rows."])
        there.execute("INSERT INTO teams VALUES ('t-1', 'ann'), ('t-2', 'ben')")
        options = {
            "query": "SELECT id, text, readers AS principals FROM pages",
            "memberships": 'SELECT team AS principal, login AS "group" FROM teams',
        }
        project.configure(sources=[source(), source("annexe"), {"name": "rows", "path": url, "options": options}])
        project.index()
        assert "rows/plan.txt" in found_now(project, "ann") and "rows/plan.txt" not in found_now(project, "ben")
        there.execute("UPDATE teams SET login = 'ben' WHERE team = 't-1'")
        assert project.run("sources", "sync-access", "rows").json["sources"][0]["added"] == 1
        assert "rows/plan.txt" in found_now(project, "ben") and "rows/plan.txt" not in found_now(project, "ann")
        there.execute("ALTER TABLE teams RENAME TO gone")
        ran = project.run("index")
        (failed,) = ran.json["documents"]["failed"]
        assert (ran.code, failed["source"], failed["code"]) == (3, "rows", "memberships")
        assert "rows/plan.txt" in found_now(project, "ben")


def test_a_repository_brings_its_file_along(project: Project) -> None:
    work = project.folder / "wiki"
    restricted(project, "plan.txt", "principals: [t-1]\n", work)
    project.write(MEMBERS, f"{HEAD}t-1,ann\n", work)

    def commit() -> None:
        for arguments in (["add", "-A"], ["-c", "user.name=w", "-c", "user.email=w@example.org", "commit", "-qm", "x"]):
            subprocess.run(["git", "-C", work, *arguments], check=True)

    subprocess.run(["git", "init", "-q", "-b", "main", work], check=True)
    commit()
    wiki = {"name": "wiki", "path": f"git+file://{work}", "memberships": True}
    project.configure(sources=[source(), source("annexe"), wiki])
    project.index()
    assert "wiki/plan.txt" in found_now(project, "ann")
    project.write(MEMBERS, f"{HEAD}t-1,ben\n", work)
    commit()
    assert project.run("sources", "sync-access", "wiki").json["sources"][0]["memberships"] == 1
    assert "wiki/plan.txt" in found_now(project, "ben") and "wiki/plan.txt" not in found_now(project, "ann")
    (work / MEMBERS).unlink()
    commit()
    assert project.run("index").code == 3
    assert "wiki/plan.txt" not in found_now(project, "ben", "ann")
