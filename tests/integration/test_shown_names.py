"""Names, titles, texts and groups that would steer a terminal, through every command."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.direct_runs import direct_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, Ran, kept_workers, make_project, new_database, run_command

pytestmark = [pytest.mark.integration]

STEERING = "\x7f\x9b2J\x85\u2028\u2029\u202egnp.exe\u2066\u200b\U000e0041"
FORGED = "failed: forged.pdf"
FORGING = f"\r\v\f\n{FORGED}"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


@pytest.fixture(scope="module")
def project(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with kept_workers(), new_database(server_url) as url:
        made = make_project(
            tmp_path_factory.mktemp("shown") / "project",
            {},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        made.write(f"a{STEERING}.txt", f"Title{STEERING}\n\nThe harbour{STEERING} is open on weekdays.\n")
        made.write(f"b{STEERING}.md", f"---\ngroup: x{STEERING}\n---\nThe harbour.")
        made.write(f"c{STEERING}.txt", "The harbour.")
        made.write(f"c{STEERING}.txt.meta.yaml", f'"k{ascii(STEERING)[1:-1]}": 1\n')
        made.write(f"d{STEERING}.bin", b"\x00")
        made.write(f"e{FORGING}.txt", "The harbour.")
        made.write(f"f{FORGING}.txt.meta.yaml", "groups: [board]\n")
        made.write("g.html", f"<title>Harbour{FORGING}</title><h1>Harbour{FORGING}</h1><p>The quay is closed.</p>")
        made.write("g.html.meta.yaml", f"title: {json.dumps('Quay' + FORGING)}\n")
        made.write("h.txt", "The harbour.")
        made.write("h.txt.meta.yaml", f"{json.dumps('k' + FORGING)}: 1\n")
        ran = plain(made, "index")
        assert ran.code == 3 and FORGED in ran.out + ran.err and not steers(ran)
        with direct_runs():
            yield made


def steers(ran: Ran) -> list[str]:
    """What would steer a terminal, and lines that only seem to be ours."""
    lines = [line for text in (ran.out, ran.err) for line in text.split("\n")]
    return [ascii(line) for line in lines if RAW.search(line) or line.strip().startswith(FORGED)]


def plain(project: Project, command: str, *arguments: str) -> Ran:
    return run_command(*command.split(" "), *arguments, "--config", project.config)


@pytest.mark.defends("3b")
@pytest.mark.parametrize(
    "command",
    [
        *("index", "index --retry-failed", "plan", "status", "verify", "sources list", "generations list"),
        *("query harbour --explain", "query quay", "ask quay", "query harbour --group a\x9bb", "links"),
        *(f"sources remove x{STEERING}", f"show abcdef\x9b{STEERING}", f"parse x{STEERING}"),
    ],
    ids=ascii,
)
def test_nothing_that_steers_is_printed(project: Project, command: str) -> None:
    for ran in (plain(project, command), plain(project, command, "--json")):
        assert not steers(ran)


def test_a_passage_and_its_parse_are_shown_with_their_names(project: Project) -> None:
    (hit, *_) = project.hits("open on weekdays", "--strategy", "lexical")
    assert hit["uri"] == f"a{STEERING}.txt"
    (other, *_) = project.hits("quay closed", "--strategy", "lexical")
    assert other["uri"] == "g.html"
    for found in (hit, other):
        for command in (f"show {found['chunk_id']}", f"explain {found['chunk_id']}"):
            ran = plain(project, command)
            assert ran.code == 0 and not steers(ran)
    for more in ([], ["--markdown"], ["--json"]):
        ran = run_command("parse", project.docs / hit["uri"], *more)
        assert ran.code == 0 and not steers(ran)
    assert json.loads(run_command("parse", project.docs / hit["uri"], "--json").out)


@pytest.mark.parametrize("group", ["", " ", "board,staff", "bo\u200bard"])
def test_an_invalid_group_name_is_refused(project: Project, group: str) -> None:
    ran = project.run("query", "harbour", "--group", group)
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")


def open_to_others(state: Path) -> list[Path]:
    return [path for path in (state, *state.rglob("*")) if path.lstat().st_mode & 0o077 and not path.is_symlink()]


@pytest.mark.defends("3c")
def test_a_state_is_its_owners_alone(project: Project) -> None:
    assert len(list(project.state.rglob("*.parquet"))) > 10 and (project.state / "dagster").is_dir()
    assert open_to_others(project.state) == []


def test_a_state_that_was_open_is_shut_when_it_is_opened(project: Project, tmp_path: Path) -> None:
    before = os.umask(0o022)
    os.umask(before)
    loose = [project.state, *list(project.state.rglob("*.parquet"))[:2]]
    outside = tmp_path / "outside.txt"
    outside.write_text("not of the state")
    outside.chmod(0o644)
    (project.state / "link").symlink_to(outside)
    for path in loose:
        path.chmod(0o755)
    assert project.run("status").code == 0
    assert open_to_others(project.state) == [] and stat.S_IMODE(outside.stat().st_mode) == 0o644
    (project.state / "link").unlink()
    now = os.umask(before)
    assert now == before, "what is made outside of a state is made as the user wants it"
