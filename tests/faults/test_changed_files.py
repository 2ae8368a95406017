"""Files that move, go, or change under a run, and sources that cannot be listed: reliability.md 12, 14 and 16."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.held_run import held_run
from tests.faults.running import (
    EDITED,
    LIBRARY,
    Change,
    Clean,
    Reader,
    asked,
    assert_verified,
    changed,
    contents,
    edit,
    row_versions,
    unchanged,
)
from tests.faults.test_full_disk import disk, move_to
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project

pytestmark = pytest.mark.integration


@pytest.fixture
def project(full: tuple[Project, Clean], server_url: str, tmp_path: Path) -> Iterator[Project]:
    with changed(full[0], server_url, tmp_path / "project", unchanged) as copy:
        yield copy


def uris(project: Project) -> set[str]:
    return {uri for (uri,) in project.rows("SELECT uri FROM g0001.documents")}


def texts(project: Project) -> Counter[str]:
    return Counter(text for (text,) in project.rows("SELECT text FROM g0001.chunks"))


# ---------------------------------------------------------------- moved


@pytest.mark.case(12, served=True)
def test_files_that_are_renamed_and_moved_are_not_embedded_again(project: Project, endpoint: EmbeddingServer) -> None:
    """A table, whose title is its file's name, a text, and a page with headings."""
    moves = {"suppliers.csv": "vendors.csv", "boilers.txt": "archive/heating.txt", "visitors.html": "new/guests.html"}
    before = texts(project)
    (project.docs / "new").mkdir()
    for old, new in moves.items():
        (project.docs / old).rename(project.docs / new)
    endpoint.forget()
    result = project.index()
    assert (result["documents"]["added"], result["documents"]["removed"]) == (3, 3)
    assert asked(endpoint) == Counter()
    assert uris(project) == {*LIBRARY, *moves.values()} - moves.keys()
    assert texts(project) == before
    hits = project.hits("Harbour Catering contract in Hull", "-k", "50")
    assert hits[0]["uri"] == "vendors.csv"
    assert not {hit["uri"] for hit in hits} & moves.keys()
    assert_verified(project)


# ---------------------------------------------------------------- gone, or out of sight


def assert_refused(project: Project, code: str, told: str, clean: Clean) -> None:
    """Nothing was changed, and what was served is."""
    stood = row_versions(project)
    with Reader(project) as reader:
        ran = project.run("index")
        assert (ran.code, ran.json["error"]["code"]) == (1, code), ran.out
        assert told in ran.json["error"]["message"]
        reader.ask()
    reader.assert_saw_only(reader.first)
    assert row_versions(project) == stood
    assert contents(project) == clean.contents
    assert_verified(project)


@pytest.mark.case(14, served=True)
def test_a_source_that_is_unmounted_deletes_nothing(
    project: Project, full: tuple[Project, Clean], tmp_path: Path
) -> None:
    with disk(tmp_path / "disk", 1000):
        move_to(tmp_path / "disk", project.docs)
        project.docs.unlink()
        project.docs.mkdir()
        subprocess.run(["mount", "--bind", tmp_path / "disk" / project.docs.name, project.docs], check=True)
        try:
            assert project.index()["documents"]["unchanged"] == len(LIBRARY)
        finally:
            subprocess.run(["umount", "--lazy", project.docs], check=True)
        assert_refused(project, "deletion_guard", "--allow-deletions", full[1])
        subprocess.run(["mount", "--bind", tmp_path / "disk" / project.docs.name, project.docs], check=True)
        try:
            assert project.index()["documents"]["unchanged"] == len(LIBRARY)
        finally:
            subprocess.run(["umount", "--lazy", project.docs], check=True)


@pytest.mark.case(14, served=True)
def test_a_source_whose_folder_is_gone_deletes_nothing(project: Project, full: tuple[Project, Clean]) -> None:
    project.docs.rename(project.folder / "elsewhere")
    assert_refused(project, "source", "cannot list", full[1])


@pytest.mark.case(14, served=True)
def test_a_folder_that_cannot_be_listed_deletes_nothing(
    project: Project, full: tuple[Project, Clean], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any user: the disk gives an error for it."""
    scandir = os.scandir

    def failing(place: Any = ".") -> Any:
        if isinstance(place, int) and os.readlink(f"/proc/self/fd/{place}").endswith("/archive"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return scandir(place)

    (project.docs / "cards.md").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", failing)
        assert_refused(project, "source", "nothing was changed", full[1])


@pytest.mark.case(14, served=True)
def test_more_than_a_fifth_and_more_than_ten_go_only_when_it_is_meant(project: Project) -> None:
    """Of 60 documents 13 are refused and 12 are a fifth."""
    more = [f"notes/{number}.txt" for number in range(60 - len(LIBRARY))]
    for number, uri in enumerate(more):
        project.write(uri, f"Note {number} says that lamp {number} is lit.")
    project.index()
    for uri in more[:13]:
        (project.docs / uri).unlink()
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "deletion_guard")
    assert "13 of 60 documents" in ran.json["error"]["message"]
    assert uris(project) == {*LIBRARY, *more}
    project.write(more[12], "Note 12 says that lamp 12 is lit.")
    assert project.index()["documents"]["removed"] == 12
    assert uris(project) == {*LIBRARY, *more[12:]}
    for uri in more[12:25]:
        (project.docs / uri).unlink()
    assert project.index("--allow-deletions")["documents"]["removed"] == 13
    assert uris(project) == {*LIBRARY, *more[25:]}
    assert_verified(project)


# ---------------------------------------------------------------- changed while it is read


@pytest.mark.case(16, served=True)
def test_a_file_that_changes_after_it_was_listed_is_read_again(
    project: Project, clean_after: Callable[[Change], Clean], tmp_path: Path
) -> None:
    """It is the smallest, so it is read last: it changes when the first one has been read."""
    edit(project)
    project.write("lifts.md", "# Lifts\n\nOut of order.\n")
    with held_run(tmp_path / "run", "index", "--config", project.config, "--json", point="parsed") as run:
        project.write("lifts.md", EDITED["lifts.md"])
        run.go_on()
        assert run.ended() == 3, run.out + run.err
        (failed,) = json.loads(run.out)["documents"]["failed"]
    assert (failed["uri"], failed["stage"], failed["code"]) == ("lifts.md", "parsed_elements", "changed")
    assert project.rows("SELECT uri FROM g0001.documents WHERE stale") == [("lifts.md",)]
    assert any("eight persons" in text for text in texts(project))
    assert_verified(project)
    assert project.index()["documents"]["changed"] == 1
    assert contents(project) == clean_after(edit).contents
    assert_verified(project)
