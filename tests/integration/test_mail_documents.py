"""Mails and attachments as documents of an index: found, restricted, changed and deleted, and never more than read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.settings_file import locate
from resources.state.source_watch import change_since, watch
from tests.support import hostile_mails
from tests.support.embedding_server import EmbeddingServer
from tests.support.imap_server import DROP, ImapServer, imap_server
from tests.support.letters import letter, with_files
from tests.support.projects import Project, make_project, new_database
from tests.support.site import running_site

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

FERRY = "The ferry crosses the river twice an hour in summer."
CHOIR = "The choir sings in May."
KEYS = "The porter has the key."
PORT = "The port is closed at night."
QUAY = "The quay is lit by eight lamps."
PIER = "The pier was built in spring."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImapServer]:
    with imap_server() as made:
        monkeypatch.setenv("IMAP_PASSWORD", made.password)
        made.put(letter("The ferry", FERRY).as_bytes())
        made.put(with_files("Plans", choir_txt=CHOIR.encode(), photos_zip=b"PK\3\4").as_bytes())
        yield made


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, server: ImapServer, tmp_path: Path) -> Iterator[Project]:
    with new_database(server_url) as url:
        endpoint.forget()
        yield make_project(
            tmp_path / "project",
            {"lock.md": "# The lock\n\nThe lock opens at six.\n"},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            sources=[{"name": "docs", "path": "docs"}, {"name": "mail", "path": server.address()}],
        )


def served(project: Project, text: str, *arguments: str) -> set[str]:
    return {hit["uri"] for hit in project.hits(text, *arguments) if text in hit["text"]}


def plain(uri: str) -> str:
    """Of what is in the INBOX, without the hash of its mail."""
    return re.sub(r" [0-9a-f]{8}(~\d+)?", "", uri.removeprefix("INBOX/"))


def test_an_attachment_is_found_by_its_own_name(project: Project, server: ImapServer) -> None:
    said = project.index()["documents"]
    assert said["added"] == 4 and said["skipped"] == []
    (uri,) = served(project, CHOIR)
    assert uri.startswith("INBOX/2026-03-02 Plans ") and uri.endswith("/choir.txt")
    assert served(project, FERRY).pop().startswith("INBOX/2026-03-02 The ferry ")
    server.asked.clear()
    assert project.index()["documents"]["unchanged"] == 4
    assert not any("FETCH" in command for command in server.asked)


def test_mails_come_and_go_with_what_is_attached(project: Project, server: ImapServer) -> None:
    project.index()
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


def test_attachments_are_restricted_like_their_mail(project: Project, server: ImapServer) -> None:
    project.configure(sources=[{"name": "mail", "path": server.address(), "groups": ["crew"]}])
    project.index()
    for text in (FERRY, CHOIR):
        assert not served(project, text) and served(project, text, "--group", "crew")


def test_no_attachment_says_who_may_find_another(project: Project, server: ImapServer) -> None:
    """A side-car and a map are files that a source's owner puts there, not a sender."""
    server.put(
        with_files(
            "Keys",
            keys_txt=KEYS.encode(),
            keys_txt_meta_yaml=b"groups: [crew]\ntitle: Another",
            keys_txt_elements_json=json.dumps({"elements": []}).encode(),
            keys_json=b'{"groups": ["crew"]}',
            gone_txt_meta_yaml=b"groups: [crew]",
            head_md=f"---\ngroups: [crew]\n---\n{PORT}".encode(),
            odd_md=f"---\ngroup: crew\n---\n{QUAY}".encode(),
            bare_txt=f"groups: crew\n\n{PIER}".encode(),
        ).as_bytes()
    )
    assert project.index()["documents"]["failed"] == []
    assert [len(served(project, text)) for text in (KEYS, PORT, QUAY, PIER)] == [1, 1, 1, 1]


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


def test_the_html_of_a_mail_fetches_nothing(project: Project, server: ImapServer) -> None:
    with running_site() as site:
        made = letter("Pictures", "none")
        made.add_alternative(
            f'<html><head><link rel="stylesheet" href="{site.url}/a.css"><script src="{site.url}/b.js"></script></head>'
            f'<body background="{site.url}/c.png"><p>{KEYS}</p><img src="{site.url}/d.png"><iframe src="{site.url}/e">'
            f'</iframe><object data="{site.url}/f"></object></body></html>',
            subtype="html",
        )
        server.put(made.as_bytes())
        project.index()
        assert len(served(project, KEYS)) == 1 and site.asked == []


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
