"""A mistake about groups closes and never opens: asked as nobody, in the live generation and in one kept for a
rollback, after the run that meets it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database

pytestmark = [pytest.mark.integration]

SECRET = "The zeppelin contract was signed for 4711 pounds."
BOARD = "groups: [board]\n"


def headed(head: str) -> str:
    return f"{head}\n{SECRET}\n"


def mapped(groups: list[str] | None) -> str:
    own = {} if groups is None else {"document": {"groups": groups}}
    return json.dumps({"version": 1, **own, "elements": [{"kind": "paragraph", "text": SECRET}]})


# tests/unit/resources/sources/test_mistaken_groups.py has every way to mistake them; here are a few of each kind.
SIDE_CARS: Mapping[str, str] = {
    "blank": "groups:\n",
    "broken": "groups: [board\n",
    "principals within": "metadata: {principals: u-1}\n",
}
HEADS: Mapping[str, str] = {
    "blank": "---\ngroups:\n---",
    "broken": "---\ntitle: a: b\n---",
    "principals": "---\nprincipals: [u-1]\n---",
}
BESIDE: Mapping[str, tuple[str, str]] = {
    "backup": (".meta.yaml~", BOARD),
    "broken": (".ini", "[what\ngroups=board"),
}
"""Files beside a document, by how their names continue its name, and what they say."""
MAPS: Mapping[str, str] = {
    "blank": mapped([]),
    "broken": '{"version": 1,',
    "misspelt": mapped(None).replace('"elements"', '"document": {"group": "board"}, "elements"'),
    "principals": mapped(None).replace('"elements"', '"document": {"principals": ["u-1"]}, "elements"'),
}
RESTRICTED = {
    **{f"side/{name}.txt": "side_car" for name in SIDE_CARS},
    **{f"head/{name}.md": "front_matter" for name in HEADS},
    **{f"map/{name}.txt": "element_map" for name in MAPS},
    **{f"beside/{name}.txt": "side_car" for name in BESIDE},
}

ORPHANS = (
    *("renamed.txt.meta.yaml", "new name.txt", "moved.txt.meta.yaml", "side/elsewhere.txt"),
    *("parted.txt.meta.yaml", "parted.txt.elements.json", "away/parent.meta.yaml", "away/parent.txt"),
)


@pytest.fixture(scope="module")
def project(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two generations of documents that only the board may find, the older one kept for a rollback."""
    with quick_runs(), new_database(server_url) as url:
        made = make_project(
            tmp_path_factory.mktemp("closed") / "project",
            {},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        made.write("open.txt", "The harbour office is open on weekdays.")
        for name in SIDE_CARS:
            side_car(made, f"side/{name}.txt", BOARD)
        for name in BESIDE:
            side_car(made, f"beside/{name}.txt", BOARD)
        for name in HEADS:
            made.write(f"head/{name}.md", headed(f"---\n{BOARD}---"))
        for name in MAPS:
            made.write(f"map/{name}.txt", "The first page.")
            made.write(f"map/{name}.txt.elements.json", mapped(["board"]))
        for name in ("renamed.txt", "moved.txt", "parted.txt", "linked.txt", "away/parent.txt"):
            side_car(made, name, BOARD)
        made.write("parted.txt.elements.json", mapped(None))
        made.write("large.txt", SECRET)
        made.write("bad.txt", SECRET)
        made.index()
        made.configure(chunking={"overlap_tokens": 0})
        made.index()
        yield made


def side_car(project: Project, name: str, text: str) -> None:
    project.write(name, SECRET)
    project.write(f"{name}.meta.yaml", text)


def found(project: Project, *groups: str) -> set[str]:
    """Names of the documents that the query role reads for an asker, in any generation."""
    uris = set[str]()
    with psycopg.connect(project.settings["database"]) as connection:
        generations = connection.execute("SELECT generation FROM pincite.generations").fetchall()
        assert len(generations) == 2
        connection.execute("SET LOCAL ROLE pincite_query")
        connection.execute("SELECT set_config('pincite.groups', %s::text[]::text, true)", [list(groups)])
        for (number,) in generations:
            schema = sql.Identifier(f"g{number:04d}")
            for table in ("chunks", "sentences"):
                statement = "SELECT DISTINCT uri FROM {0}.{1} JOIN {0}.documents USING (doc_id)"
                rows = connection.execute(sql.SQL(statement).format(schema, sql.Identifier(table))).fetchall()
                uris.update(uri for (uri,) in rows)
    return uris


def failed(result: Mapping[str, Any]) -> dict[str, str]:
    return {item["uri"]: item["code"] for item in result["documents"]["failed"]}


def test_restricted_documents_are_found_by_their_group_alone(project: Project) -> None:
    assert found(project) == {"open.txt", "large.txt", "bad.txt"}
    assert found(project, "board") >= {*RESTRICTED, "renamed.txt", "moved.txt", "parted.txt", "linked.txt"}


@pytest.mark.defends("4d")
@pytest.mark.defends("4a")
def test_every_mistake_withholds_its_document_from_everyone_in_every_generation(project: Project) -> None:
    for name, text in SIDE_CARS.items():
        project.write(f"side/{name}.txt.meta.yaml", text)
    for name, head in HEADS.items():
        project.write(f"head/{name}.md", headed(head))
    for name, text in MAPS.items():
        project.write(f"map/{name}.txt.elements.json", text)
    for name, (ending, text) in BESIDE.items():
        (project.docs / f"beside/{name}.txt.meta.yaml").unlink()
        project.write(f"beside/{name}.txt{ending}", text)
    (project.docs / "linked.txt.meta.yaml").unlink()
    (project.docs / "linked.txt.meta.yaml").symlink_to(project.folder / "pincite.yaml")
    (project.docs / "renamed.txt").rename(project.docs / "new name.txt")
    (project.docs / "moved.txt").rename(project.docs / "side" / "elsewhere.txt")
    (project.docs / "parted.txt").rename(project.folder / "parted.txt")
    (project.docs / "away/parent.txt.meta.yaml").rename(project.docs / "away/parent.meta.yaml")
    codes = failed(project.index(code=3))
    beside = [f"beside/{name}.txt{ending}" for name, (ending, _) in BESIDE.items()]
    assert codes == {**RESTRICTED, "linked.txt": "side_car", **dict.fromkeys((*ORPHANS, *beside), "orphan")}
    assert found(project) == found(project, "board") == {"open.txt", "large.txt", "bad.txt"}


@pytest.mark.defends("4c")
@pytest.mark.defends("4a")
def test_a_run_with_nothing_changed_names_them_again_and_still_withholds_them(project: Project) -> None:
    before = failed(project.index(code=3))
    assert before["new name.txt"] == "orphan" and before["renamed.txt.meta.yaml"] == "orphan"
    assert {item["code"] for item in project.run("status").json["failures"]} >= {"orphan", "side_car", "front_matter"}
    (project.docs / "new name.txt").write_text(f"{SECRET} It was edited.")
    (project.docs / "side" / "elsewhere.txt").rename(project.docs / "third.txt")
    codes = failed(project.index(code=3))
    assert codes["new name.txt"] == codes["third.txt"] == "orphan"
    assert found(project) == {"open.txt", "large.txt", "bad.txt"}


@pytest.mark.defends("4a")
def test_corrected_documents_are_served_to_their_groups(project: Project) -> None:
    for name in SIDE_CARS:
        project.write(f"side/{name}.txt.meta.yaml", BOARD)
    for name in HEADS:
        project.write(f"head/{name}.md", headed(f"\ufeff\n<!-- kept -->\n---\n{BOARD}---"))
    for name in MAPS:
        project.write(f"map/{name}.txt.elements.json", mapped(["board"]))
    for name in ("renamed", "moved", "parted"):
        (project.docs / f"{name}.txt.meta.yaml").unlink()
    for name in ("new name.txt", "third.txt", "linked.txt", "parted.txt.elements.json", "away/parent.txt"):
        (project.docs / f"{name}.meta.yaml").unlink(missing_ok=True)
        project.write(f"{name}.meta.yaml", BOARD)
    (project.docs / "away/parent.meta.yaml").unlink()
    for name, (ending, _) in BESIDE.items():
        (project.docs / f"beside/{name}.txt{ending}").unlink()
        project.write(f"beside/{name}.txt.meta.yaml", BOARD)
    project.index()
    assert found(project) == {"open.txt", "large.txt", "bad.txt"}
    everything = {str(path.relative_to(project.docs)) for path in project.docs.rglob("*.*") if path.is_file()}
    documents = {name for name in everything if not name.endswith((".meta.yaml", ".txt.elements.json"))}
    assert found(project, "board") == documents | {"parted.txt.elements.json"}


@pytest.mark.defends("4b")
def test_a_source_is_restricted_whatever_its_documents_fail_at(project: Project) -> None:
    """Also where nothing can be listed, or nothing is left to list."""
    project.configure(parsing={"workers": 1, "max_megabytes": 1})
    (project.docs / "large.txt").write_bytes(b"x" * (2 << 20))
    (project.docs / "bad.txt").write_bytes(b"\x00\x01\x02" * 100)
    restricted = {"name": "docs", "path": str(project.docs), "groups": ["staff"]}
    project.configure(sources=[restricted])
    codes = failed(project.index(code=3))
    assert codes.keys() == {"large.txt", "bad.txt"}
    assert found(project) == set()
    assert found(project, "staff") >= {"large.txt", "bad.txt", "open.txt"}


@pytest.mark.defends("4b")
def test_a_source_is_restricted_even_where_it_cannot_be_listed(project: Project) -> None:
    project.configure(sources=[{"name": "docs", "path": str(project.docs), "groups": ["chiefs"]}])
    project.docs.rename(project.folder / "unmounted")
    ran = project.run("index")
    Path(project.folder / "unmounted").rename(project.docs)
    assert (ran.code, ran.json["error"]["code"]) == (1, "source")
    assert found(project, "staff") == set()
    assert "open.txt" in found(project, "chiefs")


@pytest.mark.defends("4b")
def test_a_side_car_restricts_whatever_the_run_is_refused_for(project: Project) -> None:
    assert "open.txt" in found(project, "chiefs")
    project.write("open.txt.meta.yaml", BOARD)
    ran = project.run("index", "--source", f"more={project.folder / 'gone'}")
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")
    assert "open.txt" not in found(project, "chiefs") and "open.txt" in found(project, "board")
    (project.docs / "open.txt.meta.yaml").unlink()


def test_a_source_is_not_opened_by_a_line_that_is_left_out(project: Project) -> None:
    project.configure(sources=[{"name": "docs", "path": str(project.docs)}])
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (2, "settings")
    assert "`groups: []`" in ran.json["error"]["message"]
    assert found(project) == set()
    project.configure(sources=[{"name": "docs", "path": str(project.docs), "groups": []}])
    project.index(code=3)
    assert found(project) == {"open.txt", "large.txt", "bad.txt"}


# ---------------------------------------------------------------- two roads to one file


def sources(project: Project, **more: Any) -> None:
    """The public folder, and other sources by name: their path, and groups where there are any."""
    given = [{"name": name, "path": path, **said} for name, (path, said) in more.items()]
    project.configure(sources=[{"name": "docs", "path": str(project.docs), "groups": []}, *given])


def overlapping(result: Mapping[str, Any]) -> set[str]:
    return {f"{item['source']}/{item['uri']}" for item in result["documents"]["failed"] if item["code"] == "overlap"}


def refused(project: Project, *arguments: str | Path) -> str:
    ran = project.run("index", *arguments)
    assert (ran.code, ran.json["error"]["code"]) == (1, "overlap"), ran.out + ran.err
    return str(ran.json["error"]["message"])


@pytest.mark.defends("4b")
def test_a_restricted_source_within_another_is_found_by_its_groups_alone(project: Project) -> None:
    for number in range(12):
        project.write(f"pay/{number}.txt", f"{SECRET} Page {number}.")
    project.write("shut.txt", "shut")
    (project.docs / "link.txt").symlink_to("pay/0.txt")
    sources(project)
    project.index(code=3)
    assert {"pay/0.txt", "link.txt"} <= found(project), "it was public, and is restricted from now on"
    (project.docs / "pay").rename(project.folder / "unmounted")
    sources(project, pay=("docs/../docs/pay/", {"groups": ["hr"]}))
    ran = project.index("--source", f"docs={project.docs}", code=3)
    assert "docs/link.txt" in overlapping(ran)
    assert not {name for name in found(project) if name.startswith("pay/")}, "whether it can be listed now or not"
    (project.folder / "unmounted").rename(project.docs / "pay")
    planned = project.run("plan").json
    told = {f"{item['source']}/{item['uri']}" for item in planned["documents"]["skipped"] if item["code"] == "overlap"}
    assert told == {"docs/link.txt", "docs/pay"} and "source 'docs' leaves out pay" in str(planned["notes"])
    ran = project.index(code=3)
    assert "0.txt" not in found(project) and "link.txt" not in found(project)
    assert {"0.txt", "11.txt"} <= found(project, "hr")
    assert not overlapping(project.index(code=3)), "it is named once"
    assert not any(item["code"] == "overlap" for item in project.run("verify").json["problems"])


@pytest.mark.defends("4b")
def test_a_source_is_not_opened_by_forgetting_the_one_within_it(project: Project) -> None:
    for declared in ({"pay": ("docs/pay", {"groups": ["hr"]})}, {}):
        sources(project, **declared)
        ran = project.run("sources remove", "pay")
        assert (ran.code, ran.json["error"]["code"]) == (1, "overlap") and "pay/**" in ran.json["error"]["message"]
    project.index(code=3)
    assert "0.txt" not in found(project) and "0.txt" in found(project, "hr")


@pytest.mark.defends("4b")
def test_two_sources_with_one_root_are_refused_and_the_freer_is_withheld(project: Project) -> None:
    (project.folder / "again").symlink_to(project.docs)
    sources(project, staff=("again", {"groups": ["staff"]}))
    assert "open.txt" in found(project)
    assert "'staff'" in (message := refused(project)) and "'docs'" in message and "sources remove" in message
    assert found(project) == set()
    assert {item["code"] for item in project.run("verify").json["problems"]} >= {"overlap"}
    sources(project)
    refused(project, "--source", f"more={project.docs}")
    project.index(code=3)
    assert "open.txt" in found(project)
    sources(project, pay=("docs/pay", {"groups": ["hr"]}), inner=("docs/pay/deep", {}))
    (project.docs / "pay" / "deep").mkdir()
    assert "`groups: []`" in refused(project)
