"""Mails that lie in a folder as files: their attachments are documents, found, restricted, changed and deleted with the
mail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DocumentError
from resources.sources.mail_parts import Attachment, parts_of_mail
from tests.support.embedding_server import EmbeddingServer
from tests.support.letters import with_files
from tests.support.projects import Project, make_project, new_database

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

FERRY = "The ferry crosses the river twice an hour in summer."
CHOIR = "The choir sings in May."
KEYS = "The porter has the key."
OPEN = "The gate is open to all."
BUDGET = "The budget of the council was adopted."
AUDIT = "The audit of the accounts begins in June."
PIER = "The pier was built in spring."
QUAY = "The quay is lit by eight lamps."


@pytest.fixture
def project(server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    """A project with one mail, which is not indexed yet."""
    with new_database(server_url, migrated) as url:
        yield project_of_mails(tmp_path / "project", url, endpoint)


@dataclass
class Indexed:
    """A project after its first index run, and what the run said of its documents."""

    project: Project
    said: dict[str, Any]


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Indexed]:
    """Four sources, indexed together: without settings, with a side-car, with groups, and with an exclusion."""
    with new_database(server_url, migrated) as url:
        made = project_of_mails(tmp_path_factory.mktemp("indexed") / "project", url, endpoint)
        put(made, "archive.eml/choir.md", f"# Choir\n\n{FERRY}\n".encode())
        put(made, "many.eml", with_files("Many", **{f"plan{number}_txt": b"plan" for number in range(301)}).as_bytes())
        closed = with_files("Closed", budget_txt=BUDGET.encode())
        closed.add_attachment(with_files("Inner: audit", audit_md=AUDIT.encode()))
        put(made, "../board/closed.eml", closed.as_bytes())
        put(made, "../board/closed.eml.meta.yaml", b"groups: [board]\nmetadata: {case: '17'}\n")
        gate = f"---\ngroups: [crew]\n---\n\n{OPEN}\n".encode()
        put(made, "../staff/open.eml", with_files("Open", gate_md=gate).as_bytes())
        put(made, "../part/some.eml", with_files("Some", pier_txt=PIER.encode(), quay_md=QUAY.encode()).as_bytes())
        own: dict[str, dict[str, Any]] = {
            "docs": {}, "board": {}, "staff": {"groups": ["staff"]}, "part": {"exclude": ["**/*.txt"]},
        }  # fmt: skip
        made.configure(
            sources=[{"name": name, "path": name, **more} for name, more in own.items()],
            query={"metadata_keys": ["case"]},
        )
        yield Indexed(made, made.index()["documents"])


def project_of_mails(folder: Path, database: str, endpoint: EmbeddingServer) -> Project:
    """Return a project of one mail with two files and another mail attached to it."""
    made = make_project(folder, {}, database=database, embedder={"endpoint": endpoint.url, "model": "fake"})
    outer = with_files("Plans", choir_txt=CHOIR.encode(), photos_zip=b"PK\3\4")
    outer.add_attachment(with_files("Inner: keys", keys_md=f"---\ngroups: [crew]\n---\n\n{KEYS}\n".encode()))
    put(made, "plans.eml", outer.as_bytes())
    return made


def put(project: Project, name: str, content: bytes) -> Path:
    file = project.folder / "docs" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def served(project: Project, text: str, *arguments: str) -> set[str]:
    return {hit["uri"] for hit in project.hits(text, *arguments) if text in hit["text"]}


def test_attachments_of_a_mail_and_of_one_within_it_are_found(indexed: Indexed) -> None:
    assert (indexed.said["added"], indexed.said["failed"]) == (14, [])
    warned = {each["uri"]: each["message"] for each in indexed.said["warnings"]}
    assert warned.keys() == {"plans.eml", "many.eml"}
    assert warned["plans.eml"] == "attachments were not read: photos.zip"
    assert served(indexed.project, CHOIR) == {"plans.eml/choir.txt"}
    assert served(indexed.project, KEYS) == {"plans.eml/Inner: keys.eml/keys.md"}
    assert indexed.project.index()["documents"]["unchanged"] == 14
    assert indexed.project.run("verify").json["ok"]


def test_attachments_go_and_change_with_their_mail(project: Project) -> None:
    project.index()
    mail = put(project, "plans.eml", with_files("Plans", choir_txt=FERRY.encode()).as_bytes())
    said = project.index("--allow-deletions")["documents"]
    assert (said["changed"], said["removed"]) == (2, 2)
    assert served(project, FERRY) == {"plans.eml/choir.txt"} and not served(project, CHOIR)
    mail.unlink()
    put(project, "other.md", b"# Other\n\nOther text.\n")
    assert project.index("--allow-deletions")["documents"]["removed"] == 2
    assert not served(project, FERRY)


def test_whoever_may_find_a_mail_may_find_its_attachments_and_nobody_else(indexed: Indexed) -> None:
    project = indexed.project
    for text in (BUDGET, AUDIT):
        assert not served(project, text) and not served(project, text, "--group", "crew")
        assert served(project, text, "--group", "board")
    assert served(project, BUDGET, "--group", "board", "--filter", "case=17")


def test_an_attachment_says_nothing_of_who_may_find_it(indexed: Indexed) -> None:
    """A stranger may have written it: what it says would otherwise open or close it."""
    assert served(indexed.project, OPEN, "--group", "staff") == {"open.eml/gate.md"}
    assert not served(indexed.project, OPEN, "--group", "crew")


@pytest.mark.faults
def test_a_side_car_that_cannot_be_read_withholds_the_attachments_too(project: Project) -> None:
    project.index()
    put(project, "plans.eml.meta.yaml", b"groups: [board\n")
    failed = project.index(code=3)["documents"]["failed"]
    assert {each["code"] for each in failed} == {"side_car"} and len(failed) == 4
    assert not served(project, CHOIR) and not served(project, KEYS, "--group", "crew")


@pytest.mark.faults
def test_a_mail_that_cannot_be_read_keeps_what_was_attached(project: Project) -> None:
    mail = project.folder / "docs" / "plans.eml"
    project.index()
    mail.write_bytes(mail.read_bytes() + b"\n" * (2 << 20))
    project.configure(parsing={"workers": 1, "max_megabytes": 1})
    said = project.index(code=3)["documents"]
    assert {each["code"] for each in said["failed"]} == {"limit_exceeded"} and said["removed"] == 0
    assert served(project, CHOIR) == {"plans.eml/choir.txt"}


@pytest.mark.faults
def test_a_mail_that_breaks_halfway_lists_none_of_its_attachments_twice(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.index()

    def broken(stream: Any, uri: str) -> Iterator[Attachment]:
        yield next(iter(parts_of_mail(stream, uri)))
        raise DocumentError(f"{uri}: its attachments cannot be read", "corrupt")

    monkeypatch.setattr("resources.sources.folder.parts_of_mail", broken)
    for _ in range(2):
        said = project.index(code=3)["documents"]
        assert sorted(each["uri"] for each in said["failed"]) == [
            "plans.eml/Inner: keys.eml", "plans.eml/Inner: keys.eml/keys.md", "plans.eml/choir.txt",
        ]  # fmt: skip
        assert served(project, CHOIR) == {"plans.eml/choir.txt"}
    assert project.run("verify").json["ok"]


def test_exclusions_of_a_source_apply_inside_mails_too(indexed: Indexed) -> None:
    assert not served(indexed.project, PIER) and served(indexed.project, QUAY) == {"some.eml/quay.md"}


def test_a_folder_named_like_a_mail_is_a_folder(indexed: Indexed) -> None:
    assert served(indexed.project, FERRY) == {"archive.eml/choir.md"}


def test_a_mail_of_too_many_parts_is_indexed_and_its_attachments_are_told(indexed: Indexed) -> None:
    skipped = indexed.said["skipped"]
    assert [(each["uri"], each["code"]) for each in skipped] == [("many.eml", "attachments")]
    assert "more than 300 parts: save them as files" in skipped[0]["message"]
    assert indexed.project.rows("SELECT count(*) FROM g0001.documents WHERE uri = 'many.eml'") == [(1,)]
