"""Overlap floors of a whole index: calibrated once, frozen, shared by generations, shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.fingerprint import document_id
from pipelines.ranges import bucket_of
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, run_command

pytestmark = pytest.mark.integration

SUBJECTS = {
    "boiler": "The boiler is inspected in spring. Its valve holds the pressure of the steam. An engineer signs.",
    "leave": "Annual leave is granted by the head of a department. A request is answered within a week.",
    "permits": "A parking permit is given by the porter. It is valid for a day and shown behind the glass.",
    "vault": "The key of the vault is held by the registrar. A spare one lies sealed with the bursar.",
}
UKRAINIAN = "Щорічну відпустку надає керівник відділу. Заяву розглядають протягом тижня, а відповідь дають письмово."


def text_of(first: str, number: int, paragraphs: int = 8) -> str:
    """Paragraphs of two subjects, two of the one and then two of the other."""
    names = list(SUBJECTS)
    subjects = (SUBJECTS[first], SUBJECTS[names[names.index(first) - 1]])
    return "\n\n".join(
        f"{subjects[at // 2 % 2]} This is rule {number * 100 + at} of its kind." for at in range(paragraphs)
    )


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    documents = {f"{subject}-{n}.txt": text_of(subject, n) for n in range(3) for subject in SUBJECTS}
    documents["відпустка.txt"] = "\n\n".join(f"{UKRAINIAN} Це правило {number}." for number in range(3))
    with quick_runs(), new_database(server_url) as url:
        yield make_project(
            tmp_path / "project",
            documents,
            database=url,
            chunking={"target_tokens": 24, "max_tokens": 48, "overlap_tokens": 12},
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )


def floors(project: Project, generation: int) -> list[dict[str, Any]]:
    (row,) = [item for item in project.run("status").json["generations"] if item["generation"] == generation]
    rows: list[dict[str, Any]] = row["overlap"]
    return rows


def chunks(project: Project, generation: int) -> set[tuple[Any, ...]]:
    schema = f"g{generation:04d}"
    return set(project.rows(f"SELECT doc_id, chunk_id, overlap, text FROM {schema}.chunks"))


def test_floors_are_calibrated_by_language_and_shown(project: Project) -> None:
    project.index()
    rows = {row["language"]: row for row in floors(project, 1)}
    assert {name: row["calibrated"] for name, row in rows.items()} == {"en": "own", "uk": "pooled", "*": "pooled"}
    assert rows["uk"]["floor"] == rows["*"]["floor"]
    assert rows["en"]["pairs"] > 50 > rows["uk"]["pairs"] > 0
    assert 0 < rows["en"]["share"] < 1 and rows["en"]["random_pairs"] > 1000
    shown = run_command("status", "--config", project.config).out
    (line,) = [line.split() for line in shown.splitlines() if line.split()[:2] == ["1", "en"]]
    assert line[2:5] == [f"{rows['en']['floor']:.3f}", "own", str(rows["en"]["pairs"])]
    assert {bool(overlap) for _, _, overlap, _ in chunks(project, 1)} == {True, False}


@pytest.mark.faults
def test_added_documents_move_no_floor_and_no_chunk_of_the_others(project: Project) -> None:
    project.configure(publish={"drift": 100})
    project.index()
    before, frozen = chunks(project, 1), floors(project, 1)
    for number, subject in itertools.product(range(10), SUBJECTS):
        project.write(f"same-{subject}-{number}.txt", "\n\n".join([SUBJECTS[subject]] * 8))
    assert project.index()["generation"] == 1
    assert floors(project, 1) == frozen
    assert before < chunks(project, 1)
    # A generation made of all these documents at once would have had another floor.
    project.configure(chunking={**project.settings["chunking"], "clause_tokens": 24})
    assert project.index()["generation"] == 2
    assert floors(project, 2)[0]["floor"] != frozen[0]["floor"]


@pytest.mark.faults
def test_a_corpus_that_doubles_in_one_bucket_is_made_anew_in_all(project: Project) -> None:
    """What the run was to look at is decided before it is known how many chunks the new documents have."""
    project.index()
    buckets = int(project.settings["buckets"])
    first = {
        name for name in map("same-{}.txt".format, range(400)) if bucket_of(document_id("docs", name), buckets) == 0
    }
    for number, name in enumerate(sorted(first)):
        project.write(name, "\n\n".join([list(SUBJECTS.values())[number % len(SUBJECTS)]] * 8))
    old = {uri for (uri,) in project.rows("SELECT uri FROM g0001.documents")}
    result = project.index()
    assert (result["generation"], result["published"], result["documents"]["added"]) == (2, True, len(first))
    assert {uri for (uri,) in project.rows("SELECT uri FROM g0002.documents")} == old | first
    assert project.run("verify").code == 0
    assert project.index()["generation"] == 2


@pytest.mark.faults
def test_another_embedder_changes_no_floor_and_no_chunk(project: Project, endpoint: EmbeddingServer) -> None:
    project.index()
    project.write("added.txt", text_of("leave", 9, 40))
    project.index()
    project.configure(embedder={"endpoint": endpoint.url, "model": "another"})
    assert project.index()["generation"] == 2
    assert floors(project, 2) == floors(project, 1)
    assert chunks(project, 2) == chunks(project, 1)


@pytest.mark.faults
def test_a_floor_that_is_set_holds_for_all_and_is_measured(project: Project) -> None:
    project.configure(chunking={**project.settings["chunking"], "overlap_floor": 0.999})
    project.index()
    (row,) = floors(project, 1)
    assert (row["language"], row["floor"], row["calibrated"]) == ("*", 0.999, "set")
    assert row["pairs"] > 50 and row["share"] < 0.5
