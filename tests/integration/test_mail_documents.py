"""Mails and attachments as documents of an index: found, restricted, changed and deleted, and never more than read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from resources.settings_file import locate
from resources.state.source_watch import change_since, watch
from tests.support import hostile_mails
from tests.support.embedding_server import EmbeddingServer
from tests.support.imap_server import DROP, ImapServer, imap_server
from tests.support.letters import letter, with_files
from tests.support.projects import Project, make_project, new_database
from tests.support.site import Site, running_site

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

FERRY = "The ferry crosses the river twice an hour in summer."
CHOIR = "The choir sings in May."
KEYS = "The porter has the key."
PORT = "The port is closed at night."
QUAY = "The quay is lit by eight lamps."
PIER = "The pier was built in spring."
BELL = "The bell rings at noon."
MAST = "The mast is painted white."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImapServer]:
    with imap_server() as made:
        monkeypatch.setenv("IMAP_PASSWORD", made.password)
        put_mails(made)
        yield made


def put_mails(server: ImapServer) -> None:
    server.put(letter("The ferry", FERRY).as_bytes())
    server.put(with_files("Plans", choir_txt=CHOIR.encode(), photos_zip=b"PK\3\4").as_bytes())


@pytest.fixture
def project(
    server_url: str, migrated: str, endpoint: EmbeddingServer, server: ImapServer, tmp_path: Path
) -> Iterator[Project]:
    """A project of a document and two mails, which is not indexed yet."""
    with new_database(server_url, migrated) as url:
        yield project_of_mails(tmp_path / "project", url, endpoint, server)


def project_of_mails(folder: Path, database: str, endpoint: EmbeddingServer, server: ImapServer) -> Project:
    return make_project(
        folder,
        {"lock.md": "# The lock\n\nThe lock opens at six.\n"},
        database=database,
        embedder={"endpoint": endpoint.url, "model": "fake"},
        sources=[{"name": "docs", "path": "docs"}, {"name": "mail", "path": server.address()}],
    )


@dataclass
class Indexed:
    """A project after its first index run, what the run said of its documents, and the servers of its mails and of the
    pictures they name."""

    project: Project
    said: dict[str, Any]
    server: ImapServer
    site: Site


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Indexed]:
    """A document and a mailbox for all, and a folder of it for one group."""
    with (
        imap_server() as server,
        running_site() as site,
        new_database(server_url, migrated) as url,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("IMAP_PASSWORD", server.password)
        put_mails(server)
        server.put(of_strangers().as_bytes())
        server.put(with_pictures(site).as_bytes())
        server.put(with_files("Crew", bell_txt=BELL.encode()).as_bytes(), "Crew")
        made = project_of_mails(tmp_path_factory.mktemp("indexed") / "project", url, endpoint, server)
        crew = {"name": "crew", "path": server.address("Crew"), "groups": ["crew"]}
        made.configure(sources=[*made.settings["sources"], crew])
        yield Indexed(made, made.index()["documents"], server, site)


def of_strangers() -> EmailMessage:
    """Return a mail whose attachments say who may find them."""
    return with_files(
        "Keys",
        keys_txt=KEYS.encode(),
        keys_txt_meta_yaml=b"groups: [crew]\ntitle: Another",
        keys_txt_elements_json=json.dumps({"elements": []}).encode(),
        keys_json=b'{"groups": ["crew"]}',
        gone_txt_meta_yaml=b"groups: [crew]",
        head_md=f"---\ngroups: [crew]\n---\n{PORT}".encode(),
        odd_md=f"---\ngroup: crew\n---\n{QUAY}".encode(),
        bare_txt=f"groups: crew\n\n{PIER}".encode(),
    )


def with_pictures(site: Site) -> EmailMessage:
    """Return a mail whose HTML names files of a site in every way that a browser would fetch."""
    made = letter("Pictures", "none")
    made.add_alternative(
        f'<html><head><link rel="stylesheet" href="{site.url}/a.css"><script src="{site.url}/b.js"></script></head>'
        f'<body background="{site.url}/c.png"><p>{MAST}</p><img src="{site.url}/d.png"><iframe src="{site.url}/e">'
        f'</iframe><object data="{site.url}/f"></object></body></html>',
        subtype="html",
    )
    return made


def served(project: Project, text: str, *arguments: str) -> set[str]:
    return {hit["uri"] for hit in project.hits(text, *arguments) if text in hit["text"]}


def plain(uri: str) -> str:
    """Of what is in the INBOX, without the hash of its mail."""
    return re.sub(r" [0-9a-f]{8}(~\d+)?", "", uri.removeprefix("INBOX/"))


def test_an_attachment_is_found_by_its_own_name(indexed: Indexed) -> None:
    documents = indexed.said["added"]
    assert (indexed.said["skipped"], indexed.said["failed"]) == ([], [])
    (uri,) = served(indexed.project, CHOIR)
    assert uri.startswith("INBOX/2026-03-02 Plans ") and uri.endswith("/choir.txt")
    assert served(indexed.project, FERRY).pop().startswith("INBOX/2026-03-02 The ferry ")
    indexed.server.asked.clear()
    assert indexed.project.index()["documents"]["unchanged"] == documents
    assert not any("FETCH" in command for command in indexed.server.asked)


def test_mails_come_and_go_with_what_is_attached(project: Project, server: ImapServer) -> None:
    assert project.index()["documents"]["added"] == 4
    del server.folders["INBOX"].mails[2]
    server.put(with_files("Keys", keys_md=KEYS.encode()).as_bytes())
    planned = project.run("plan").json["documents"]
    assert (planned["added"], planned["removed"]) == (2, 2)
    said = project.index()["documents"]
    assert (said["added"], said["removed"], said["failed"]) == (2, 2, [])
    assert not served(project, CHOIR) and len(served(project, KEYS)) == 1
    server.number_anew(first=100)
    said = project.index()["documents"]
    assert (said["unchanged"], said["added"], said["removed"], said["changed"]) == (4, 0, 0, 0)


@pytest.mark.faults
def test_a_server_that_fails_deletes_nothing(project: Project, server: ImapServer) -> None:
    project.index()
    del server.folders["INBOX"].mails[2]
    project.write("boat.md", "# The boat\n\nThe boat is blue.\n")
    server.faults["SEARCH DELETED"] = DROP
    said = project.index(code=3)
    assert "cannot list imap://ann@127.0.0.1" in said["failing_sources"]["mail"] and said["documents"]["removed"] == 0
    assert served(project, CHOIR) and served(project, "The boat is blue.") == {"boat.md"}
    server.faults.clear()
    assert project.index()["documents"]["removed"] == 2


@pytest.mark.faults
def test_a_mailbox_that_is_emptied_is_not_believed(project: Project, server: ImapServer) -> None:
    project.index()
    server.folders["INBOX"].mails.clear()
    assert project.run("index").json["error"]["code"] == "deletion_guard"
    assert served(project, CHOIR)


def test_attachments_are_restricted_like_their_mail(indexed: Indexed) -> None:
    assert not served(indexed.project, BELL) and served(indexed.project, BELL, "--group", "crew")


def test_no_attachment_says_who_may_find_another(indexed: Indexed) -> None:
    """A side-car and a map are files that a source's owner puts there, not a sender."""
    assert [len(served(indexed.project, text)) for text in (KEYS, PORT, QUAY, PIER)] == [1, 1, 1, 1]


def test_the_html_of_a_mail_fetches_nothing(indexed: Indexed) -> None:
    assert len(served(indexed.project, MAST)) == 1 and indexed.site.asked == []


def test_a_source_is_checked_watched_and_named_on_the_command_line(project: Project, server: ImapServer) -> None:
    checked = project.run("sources check", "mail").json
    assert len(checked["entries"]) == 3 and not checked["more"]
    assert project.run("sources check", f"other={server.address()}?below=true").code == 0
    assert not (project.folder / "state").exists()
    project.configure(sources=[{"name": "docs", "path": "docs"}])
    assert project.index("--source", f"letters={server.address()}?since=2026-01-01")["documents"]["added"] == 4
    place = locate(str(project.config))
    first = change_since(watch(place), None)
    assert first and change_since(watch(place), first.cursor) is None
    server.put(letter("New").as_bytes())
    changed = change_since(watch(place), first.cursor)
    assert changed and changed.sources == ("letters",)
    ran = project.run("index", "--source", "x=imaps://ann:s3cret@mail.example.org/")
    assert ran.code == 2 and "s3cret" not in ran.err + ran.out
    ran = project.run("index", "--source", f"x={server.address()}?password=s3cret")
    assert ran.code == 1 and "overlap" in ran.err + ran.out and "s3cret" not in ran.err + ran.out
    ran = project.run("index", "--source", "x=docs", "--source", f"x={server.address()}?password=s3cret")
    assert ran.code != 0 and "two sources" in ran.err and "s3cret" not in ran.err + ran.out
    ran = project.run("index", "--source", f"x={server.address()}/Other?password=s3cret")
    assert ran.code == 2 and "s3cret" not in ran.err + ran.out and "password_env" in ran.err


@pytest.mark.faults
def test_the_password_is_nowhere_in_what_is_kept_or_said(
    project: Project, server: ImapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.repeats, server.password = True, "another"
    ran = project.run("index")
    assert ran.code == 3 and "s3cret" not in ran.out + ran.err and "czNjcmV0" not in ran.out + ran.err
    server.password = "s3cret word"
    ran = project.run("index")
    assert "s3cret" not in ran.out + ran.err
    kept = [file for file in (project.folder / "state").rglob("*") if file.is_file()]
    assert kept and not [file for file in kept if b"s3cret" in file.read_bytes()]
    for (table,) in project.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'pincite'"):
        assert "s3cret" not in str(project.rows(f"SELECT * FROM pincite.{table}"))


@pytest.mark.faults
def test_hostile_mails_cost_no_others(project: Project, server: ImapServer) -> None:
    for raw in hostile_mails.mails().values():
        server.put(raw)
    said = project.index(code=3)["documents"]
    assert said["added"] == 46 and served(project, CHOIR) and served(project, FERRY)
    assert {(plain(item["uri"]), item["code"]) for item in said["failed"]} == {
        ("archive/plan.txt", "corrupt"),
        ("base64/plan.pdf", "corrupt"),
        ("no subject.eml", "empty"),
    }
    warned = {plain(item["uri"]): item["message"] for item in said["warnings"]}
    no_mails = {uri for uri, message in warned.items() if "it has no headers of one" in message}
    assert no_mails == {"names/a.eml", "names/a.eml~2.eml", "names/A~2.EML", "no subject.eml"}, (
        "read by the second reader"
    )
    skipped = [(plain(item["uri"]).count("/deep.eml"), item["message"]) for item in said["skipped"]]
    deep = next(told for deep, told in skipped if deep)
    assert deep.endswith("since 5 mails are around the mail: save them as files")
    assert warned["many.eml"].endswith("plan.txt and 9,980 more")
