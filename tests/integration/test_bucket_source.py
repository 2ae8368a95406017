"""Documents of a bucket: indexed, changed, restricted and deleted as those of a folder, whatever its server does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resources.settings_file import locate
from resources.state.source_watch import change_since, watch
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project
from tests.support.s3_server import ENVIRONMENT, Front, S3Server, error_body, front_of, s3_server

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

FERRY = "The ferry crosses the river twice an hour in summer."
CHOIR = "The choir sings in May."


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with s3_server() as server:
        server.put("notes/ferry.md", f"# The ferry\n\n{FERRY}\n")
        server.put("notes/deep/choir.txt", f"The choir\n\n{CHOIR}\n")
        yield server


@pytest.fixture
def front(bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    monkeypatch.setattr("resources.connectors.bucket.PATIENCE", 0.0)
    with front_of(bucket) as made:
        yield made


@pytest.fixture
def project(migrated_url: str, endpoint: EmbeddingServer, front: Front, tmp_path: Path) -> Project:
    endpoint.forget()
    return make_project(
        tmp_path / "project",
        {"lock.md": "# The lock\n\nThe lock opens at six.\n"},
        database=migrated_url,
        embedder={"endpoint": endpoint.url, "model": "fake"},
        sources=[{"name": "docs", "path": "docs"}, {"name": "bucket", "path": front.address("notes")}],
    )


def served(project: Project, text: str) -> set[str]:
    return {hit["uri"] for hit in project.hits(text) if text in hit["text"]}


def test_a_bucket_is_a_source_like_a_folder(project: Project, bucket: S3Server) -> None:
    assert project.index()["documents"]["added"] == 3
    assert served(project, FERRY) == {"ferry.md"} and served(project, CHOIR) == {"deep/choir.txt"}
    assert project.index()["documents"]["unchanged"] == 3
    bucket.put("notes/ferry.md", f"# The ferry\n\nIt is gone.\n{CHOIR}\n")
    bucket.delete("notes/deep/choir.txt")
    bucket.put("notes/key.md", "# Keys\n\nThe porter has the key.\n")
    said = project.index()["documents"]
    assert (said["added"], said["changed"], said["removed"], said["failed"]) == (1, 1, 1, [])
    assert served(project, CHOIR) == {"ferry.md"} and served(project, "The porter has the key.") == {"key.md"}


@pytest.mark.faults
def test_a_bucket_that_cannot_be_listed_fails_alone(project: Project, bucket: S3Server, front: Front) -> None:
    with ThreadPoolExecutor(8) as threads:  # more than a page
        list(threads.map(lambda number: bucket.put(f"notes/pictures/{number}.gif", ""), range(1100)))
    project.index()
    before = served(project, CHOIR)
    bucket.delete("notes/deep/choir.txt")
    project.write("boat.md", "# The boat\n\nThe boat is blue.\n")
    front.faults["continuation-token"] = (500, error_body("InternalError"))
    said = project.index(code=3)
    assert "InternalError" in said["failing_sources"]["bucket"] and said["documents"]["removed"] == 0
    assert served(project, CHOIR) == before and served(project, "The boat is blue.") == {"boat.md"}
    said = project.index(code=3)
    assert said["failing_sources"].keys() == {"bucket"}, "a run with nothing to do says so again"
    front.faults.clear()
    assert project.index()["documents"]["removed"] == 1


@pytest.mark.faults
def test_where_no_source_can_be_listed_the_run_fails(project: Project, front: Front) -> None:
    project.index()
    project.configure(sources=[{"name": "bucket", "path": front.address("notes")}])
    front.faults["list-type"] = (403, error_body("AccessDenied"))
    ran = project.run("index", "--source", f"bucket={front.address('notes')}")
    assert (ran.code, ran.json["error"]["code"]) == (1, "credentials") and "AWS_ACCESS_KEY_ID" in ran.err
    assert served(project, CHOIR)


@pytest.mark.faults
def test_credentials_that_expire_amid_a_fetch_keep_what_was_fetched(project: Project, front: Front) -> None:
    front.faults["/notes/ferry.md"] = (400, error_body("ExpiredToken"))
    said = project.index(code=3)
    assert "ExpiredToken" in said["failing_sources"]["bucket"] and said["documents"]["added"] == 1
    front.faults.clear()
    assert project.index()["documents"]["added"] == 2


@pytest.mark.faults
def test_an_object_that_cannot_be_read_fails_alone(project: Project, bucket: S3Server, front: Front) -> None:
    project.index()
    bucket.put("notes/ferry.md", "# The ferry\n\nIt sank.\n")
    front.faults["/notes/ferry.md"] = (403, error_body("InvalidObjectState"))
    (failed,) = project.index(code=3)["documents"]["failed"]
    assert (failed["uri"], failed["code"]) == ("ferry.md", "unreadable") and "InvalidObjectState" in failed["message"]
    assert served(project, FERRY) == {"ferry.md"}, "its last version is served"


def test_a_side_car_of_a_bucket_restricts_and_one_that_cannot_be_fetched_closes(
    project: Project, bucket: S3Server, front: Front
) -> None:
    bucket.put("notes/ferry.md.meta.yaml", "groups: [crew]")
    project.index()
    assert not served(project, FERRY)
    assert project.hits(FERRY, "--group", "crew")[0]["uri"] == "ferry.md"
    bucket.put("notes/deep/choir.txt.meta.yaml", "groups: [choir]")
    front.faults["choir.txt.meta.yaml"] = (500, error_body("InternalError"))
    (failed,) = project.index(code=3)["documents"]["failed"]
    assert (failed["uri"], failed["code"]) == ("deep/choir.txt", "side_car") and not served(project, CHOIR)


@pytest.mark.faults
def test_a_bucket_that_is_emptied_is_not_believed(project: Project, bucket: S3Server) -> None:
    project.index()
    bucket.delete(*bucket.keys())
    ran = project.run("index")
    assert ran.json["error"]["code"] == "deletion_guard" and "s3://papers/notes" in ran.err
    assert served(project, FERRY)
    assert project.index("--allow-deletions")["documents"]["removed"] == 2
    assert not list((project.folder / "state" / "raw").rglob("*/*"))


@pytest.mark.faults
def test_a_plan_says_what_a_run_would_do_and_removes_nothing(
    project: Project, fresh_url: str, bucket: S3Server
) -> None:
    project.configure(database=fresh_url)  # nothing was ever indexed here
    assert project.run("plan").json["documents"]["added"] == 3
    assert not (project.folder / "state").exists()
    project.index()
    bucket.put("notes/ferry.md", f"# The ferry\n\n{CHOIR}\n")
    bucket.delete("notes/deep/choir.txt")
    planned = project.run("plan").json["documents"]
    assert (planned["changed"], planned["removed"]) == (1, 1)
    assert (project.folder / "state" / "sources" / "bucket" / "files" / "deep" / "choir.txt").exists()
    assert project.index()["documents"]["changed"] == 1


def test_a_bucket_is_watched_and_what_fails_is_no_change(project: Project, bucket: S3Server, front: Front) -> None:
    place = locate(str(project.config))
    first = watch(place)
    assert change_since(watch(place), (change_since(first, None) or pytest.fail("no change")).cursor) is None
    bucket.put("notes/key.md", "# Keys\n")
    changed = change_since(watch(place), (change_since(first, None) or pytest.fail("no change")).cursor)
    assert changed and changed.sources == ("bucket",)
    front.faults["list-type"] = (503, error_body("SlowDown"))
    seen = watch(place)
    assert "SlowDown" in seen.problems["bucket"] and change_since(seen, changed.cursor) is None


@pytest.mark.faults
def test_a_source_is_checked_listed_and_forgotten(project: Project, front: Front) -> None:
    checked = project.run("sources check", "bucket").json
    assert [item["uri"] for item in checked["entries"]] == ["deep/choir.txt", "ferry.md"] and not checked["more"]
    assert not (project.folder / "state").exists()
    assert project.run("sources check", f"other={front.address()}").code == 0
    project.index()
    rows = {item["name"]: item for item in project.run("sources list").json["sources"]}
    assert rows["bucket"]["documents"] == 2 and rows["bucket"]["listed"] and rows["bucket"]["failures"] == 0
    project.configure(sources=[{"name": "docs", "path": "docs"}])
    assert project.run("sources remove", "bucket").code == 0
    assert project.index()["documents"]["removed"] == 2
    assert not (project.folder / "state" / "sources" / "bucket").exists()


def test_an_address_with_a_password_or_without_a_name_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", {})
    ran = project.run("index", "--source", "rows=postgresql://ann:s3cret@db/papers")
    assert ran.code == 2 and "password" in ran.err and "s3cret" not in ran.err + ran.out
    assert project.run("index", "--source", "s3://papers/x").code == 2
    ran = project.run("index", "--source", "x=s4://papers/x")
    assert ran.code == 2 and "known: az" in ran.err
