"""Generations side by side: swaps of the embedder, what keeps one from being published, and the ways by hand.

The embedders are endpoints on loopback. One whose vectors have a single dimension tells texts apart by a
sign at most, and so answers worse than one of sixteen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.projects import Project, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

TOPICS = {
    "vault": "The vault key is held by the registrar of the archive.",
    "telescope": "The telescope of the observatory is cleaned every spring.",
    "canteen": "The canteen serves soup with bread at noon.",
    "garden": "The garden behind the library grows roses and lavender.",
    "ferry": "The ferry crosses the river twice an hour in summer.",
    "parking": "Parking permits are renewed at the front desk in January.",
    "orchestra": "The orchestra rehearses in the great hall on Tuesdays.",
    "laboratory": "The laboratory keeps acids in a locked steel cabinet.",
    "museum": "The museum lends bicycles to visitors for a small deposit.",
    "printer": "The printer on the second floor needs paper of another size.",
    "heating": "The heating is switched off on the first day of May.",
    "choir": "The choir sings carols beneath the old oak in December.",
}
SAME, WORSE = "same", "worse"


@pytest.fixture(scope="module")
def poor() -> Iterator[EmbeddingServer]:
    with embedding_server(dimension=1) as server:
        yield server


@pytest.fixture(scope="module")
def made(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("made") / "project"
    with new_database(server_url, migrated) as url:
        project = make_project(
            folder,
            {f"{name}.md": f"# About the {name}\n\n{text}\n" for name, text in TOPICS.items()},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "first"},
            publish={"golden": "golden.jsonl"},
            query={"strategy": "dense"},
        )
        questions = [
            {"id": name, "question": f"Is it so? {text}", "gold": [{"uri": f"{name}.md", "quote": text}]}
            for name, text in TOPICS.items()
        ]
        (folder / "golden.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
        assert project.index()["published"] is True
        yield project


@pytest.fixture
def project(made: Project, server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    with project_copy(made, server_url, tmp_path / "project") as copy:
        endpoint.forget()
        yield copy


def swap(project: Project, server: EmbeddingServer, model: str, code: int = 0) -> dict[str, Any]:
    project.configure(embedder={"endpoint": server.url, "model": model})
    return project.index(code=code)


def listed(project: Project) -> dict[int, dict[str, Any]]:
    found = project.run("generations list").json["generations"]
    return {item["generation"]: item for item in found}


def live(project: Project) -> int:
    return next(number for number, item in listed(project).items() if item["live"])


def found(project: Project, text: str, *arguments: str) -> list[str]:
    return [hit["uri"] for hit in project.hits(text, "-k", "12", *arguments)]


# ---------------------------------------------------------------- the gate


def test_an_embedder_as_good_is_published_from_what_is_there(project: Project, endpoint: EmbeddingServer) -> None:
    result = swap(project, endpoint, SAME)
    assert (result["generation"], result["published"], result["notes"]) == (2, True, [])
    assert result["documents"]["unchanged"] == len(TOPICS)
    both = listed(project)
    assert [both[number]["live"] for number in (1, 2)] == [False, True]
    assert both[1]["scores"] == both[2]["scores"] == {"recall@5": 1.0}
    assert project.hits(TOPICS["ferry"])[0]["uri"] == "ferry.md"


@pytest.mark.faults
def test_an_embedder_that_answers_worse_is_not_published_until_one_insists(
    project: Project, poor: EmbeddingServer
) -> None:
    result = swap(project, poor, WORSE, code=1)
    assert (result["generation"], result["published"]) == (2, False)
    (note,) = result["notes"]
    assert "recall@5 1.000 live" in note and "generations publish 2 --force" in note
    assert live(project) == 1
    assert project.hits(TOPICS["ferry"])[0]["uri"] == "ferry.md"

    # Nothing has changed: the verdict stands, and nothing is embedded or asked again.
    poor.forget()
    scores = project.rows("SELECT count(*) FROM pincite.scores")
    again = project.index(code=1)
    assert (again["notes"], again["chunks"]["written"], poor.texts) == ([note], 0, [])
    assert project.rows("SELECT count(*) FROM pincite.scores") == scores
    assert listed(project)[2]["notes"] == [note]

    refused = project.run("generations publish 2")
    assert (refused.code, refused.json["error"]["code"]) == (1, "worse")
    assert "--force" in refused.json["error"]["message"]
    assert project.run("generations publish 2", "--force").json == {"live": 2, "previous": 1}
    assert project.index()["published"] is True


@pytest.mark.faults
def test_how_much_worse_is_a_setting(project: Project, poor: EmbeddingServer) -> None:
    project.configure(publish={"golden": "golden.jsonl", "max_drop": 1.0})
    assert swap(project, poor, WORSE)["published"] is True
    assert listed(project)[2]["scores"]["recall@5"] < 1.0


@pytest.mark.faults
def test_a_problem_of_the_audit_keeps_a_generation_from_being_published(
    project: Project, endpoint: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("resources.checks.audit.RELATED_BUDGET", -1)
        ran = project.run("index")
        assert ran.code == 0, "nothing changed, nothing to audit"
        project.configure(embedder={"endpoint": endpoint.url, "model": SAME})
        ran = project.run("index")
    assert ran.code == 1
    assert (ran.json["error"]["code"], live(project)) == ("check_failed", 1)
    assert "too many for" in ran.json["error"]["message"]
    assert project.index()["published"] is True
    assert live(project) == 2


@pytest.mark.faults
def test_a_generation_whose_vector_indexes_fall_short_is_published_and_compares_every_row(
    project: Project, endpoint: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
    monkeypatch.setattr("resources.postgres.search_index.EXACT_SENTENCES", 0)
    monkeypatch.setattr("resources.checks.hnsw_recall.recall", lambda *given: 0.5)
    project.configure(embedder={"endpoint": endpoint.url, "model": SAME})
    ran = project.index()
    (note,) = ran["notes"]
    assert ran["published"] and "compare more of it than they should" in note and "chunks finds 0.500 of" in note
    assert listed(project)[2]["notes"] == [note]
    assert project.run("verify").json["ok"]
    monkeypatch.setattr("resources.postgres.search_index.PostgresSearchIndex.walk_index", None)
    assert found(project, TOPICS["garden"])[0] == "garden.md"


@pytest.mark.faults
def test_in_place_changes_of_more_than_a_fifth_are_audited(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.checks.audit.RELATED_BUDGET", -1)
    project.write("choir.md", "# About the choir\n\nThe choir sings hymns in the chapel.\n")
    assert project.index()["published"] is True
    for name in ("garden", "ferry", "parking"):
        project.write(f"{name}.md", f"# About the {name}\n\nNothing is known of the {name} any more.\n")
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "check_failed")


@pytest.mark.faults
def test_another_precision_of_vectors_is_built_in_place_once(project: Project) -> None:
    def half() -> set[bool]:
        return {"halfvec" in row[0] for row in project.rows("SELECT indexdef FROM pg_indexes WHERE indexdef ~ 'hnsw'")}

    assert half() == {True}
    for precision, wanted in (("full", False), ("auto", False), ("half", True)):
        project.configure(vector_index={"precision": precision})
        assert project.index()["published"] and half() == {wanted}
        assert project.index()["chunks"]["written"] == 0 and live(project) == 1
        assert project.run("verify").json["ok"]


# ---------------------------------------------------------------- the live one meanwhile


def change(project: Project) -> None:
    project.write("choir.md", "# About the choir\n\nA zeppelin hangs above the choir.\n")
    (project.docs / "garden.md").unlink()
    project.write("vault.md.meta.yaml", "groups: [archive]\n")


def check_changed(project: Project, generation: int) -> None:
    chosen = ("--generation", str(generation))
    texts = {hit["uri"]: hit["text"] for hit in project.hits("zeppelin", "-k", "12", *chosen)}
    assert "zeppelin" in texts["choir.md"]
    assert "garden.md" not in found(project, TOPICS["garden"], *chosen)
    assert "vault.md" not in found(project, TOPICS["vault"], *chosen)
    assert "vault.md" in found(project, TOPICS["vault"], *chosen, "--group", "archive")


@pytest.mark.faults
def test_the_live_generation_receives_all_that_happens_while_another_waits(
    project: Project, endpoint: EmbeddingServer, poor: EmbeddingServer
) -> None:
    swap(project, poor, WORSE, code=1)
    change(project)
    endpoint.forget()
    poor.forget()
    result = project.index(code=1)
    assert (result["documents"]["changed"], result["documents"]["removed"]) == (1, 1)
    for server in (endpoint, poor):
        embedded = {text for text in server.texts if not text.startswith("Is it so?")}
        assert embedded and all("zeppelin" in text for text in embedded)
    check_changed(project, 1)
    check_changed(project, 2)
    assert live(project) == 1
    written = project.index(code=1)["chunks"]
    assert (written["written"], written["deleted"]) == (0, 0)


@pytest.mark.faults
def test_the_live_generation_without_its_embedder_receives_deletions_and_groups(
    project: Project, poor: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.models.embedders.endpoint._RETRIES", 0)
    with embedding_server() as gone:
        swap(project, gone, "gone")
    assert live(project) == 2
    note = swap(project, poor, WORSE, code=1)["notes"][0]
    assert "recall@5 1.000 live" in note, "the scores that were kept stand in for those it cannot give"
    change(project)
    result = project.index(code=1)
    assert any("generation 2 receives deletions and groups only" in note for note in result["notes"])
    documents = dict(project.rows("SELECT uri, groups FROM g0002.documents"))
    assert "garden.md" not in documents and documents["vault.md"] == ["archive"]
    assert project.rows("SELECT count(*) FROM g0002.chunks WHERE text LIKE '%%zeppelin%%'") == [(0,)]
    check_changed(project, 3)


@pytest.mark.faults
def test_a_generation_kept_for_a_rollback_shows_nothing_that_was_taken_away(
    project: Project, endpoint: EmbeddingServer
) -> None:
    swap(project, endpoint, SAME)
    change(project)
    project.index()
    documents = dict(project.rows("SELECT uri, groups FROM g0001.documents"))
    assert "garden.md" not in documents and documents["vault.md"] == ["archive"]
    check_changed(project, 2)
    project.run("generations rollback")
    endpoint.forget()
    project.index()
    check_changed(project, 1)


# ---------------------------------------------------------------- by hand


def linked(project: Project, first: str, second: str) -> None:
    """A link between sentences of two documents of the first generation."""
    project.rows(
        "INSERT INTO g0001.sentence_links SELECT a.sentence_id, b.sentence_id, 0.9 FROM g0001.sentences AS a, "
        "g0001.sentences AS b WHERE a.ordinal = 0 AND b.ordinal = 0 AND a.doc_id = (SELECT doc_id FROM "
        "g0001.documents WHERE uri = %s) AND b.doc_id = (SELECT doc_id FROM g0001.documents WHERE uri = %s) "
        "ON CONFLICT DO NOTHING",
        f"{first}.md",
        f"{second}.md",
    )


@pytest.mark.faults
@pytest.mark.defends("7b")
def test_a_rollback_after_documents_with_links_were_withdrawn(project: Project, endpoint: EmbeddingServer) -> None:
    """One deleted, one renamed, one for others now: links to what is gone go with it, the others stay."""
    swap(project, endpoint, SAME)
    for first, second in (("garden", "ferry"), ("ferry", "museum"), ("ferry", "vault"), ("choir", "printer")):
        linked(project, first, second)
    (project.docs / "garden.md").unlink()
    (project.docs / "museum.md").rename(project.docs / "halls.md")
    project.write("vault.md.meta.yaml", "groups: [archive]\n")
    project.index()
    dangling = (
        "SELECT count(*) FROM g0001.sentence_links WHERE NOT EXISTS (SELECT FROM g0001.sentences WHERE sentence_id = "
        "source_id) OR NOT EXISTS (SELECT FROM g0001.sentences WHERE sentence_id = target_id)"
    )
    assert project.rows(dangling) == [(0,)]
    assert project.rows("SELECT count(*) FROM g0001.sentence_links") == [(2,)]
    project.rows("INSERT INTO g0001.sentence_links VALUES ('gone', 'gone too', 1)")  # as left by a version before
    ran = project.run("generations rollback")
    assert ran.json == {"live": 1, "previous": 2}, ran.out
    assert not {"garden.md", "museum.md", "vault.md"} & set(found(project, TOPICS["garden"]))


@pytest.mark.faults
def test_a_rollback_stays_until_somebody_publishes(project: Project, endpoint: EmbeddingServer) -> None:
    assert project.run("generations rollback").json["error"]["code"] == "no_previous"
    swap(project, endpoint, SAME)
    assert project.run("generations rollback").json == {"live": 1, "previous": 2}
    for text in ("The ferry is out of service.", "The ferry runs again."):
        project.write("ferry.md", f"# About the ferry\n\n{text}\n")
        result = project.index()
        assert (result["generation"], result["published"], live(project)) == (2, False, 1)
        assert "a rollback holds" in result["notes"][0]
        assert text in project.hits(text)[0]["text"]
    assert project.index()["chunks"]["written"] == 0
    assert listed(project)[1]["held"] is True
    assert project.run("generations publish 2").json == {"live": 2, "previous": 1}
    assert project.index()["published"] is True


@pytest.mark.faults
@pytest.mark.case(6)
def test_failures_in_the_live_generation_are_reported_while_another_is_held_back(
    project: Project, endpoint: EmbeddingServer, poor: EmbeddingServer
) -> None:
    """The endpoint of the live one refuses a text which that of the other takes."""
    swap(project, poor, WORSE, code=1)
    project.write("ferry.md", f"# About the ferry\n\n{TOPICS['ferry']} In winter it is Forbidden.\n")
    no_answer = endpoint.status(400)
    with endpoint.answering(lambda texts: no_answer(texts) if "Forbidden" in str(texts) else endpoint.good(texts)):
        for _ in range(2):
            result = project.index(code=1)
            assert (result["generation"], live(project)) == (2, 1)
            failed = result["documents"]["failed"]
            assert {(item["uri"], item["code"]) for item in failed} == {("ferry.md", "refused_text")}
            assert [item["stage"] for item in failed] == ["chunk_embeddings", "sentence_embeddings"]
    assert project.run("verify").code == 0


@pytest.mark.faults
def test_a_live_generation_of_settings_that_are_not_known_any_more_goes_on_being_served(
    project: Project, poor: EmbeddingServer
) -> None:
    """As after an upgrade that took a setting away, while the new generation is kept back."""
    swap(project, poor, WORSE, code=1)
    forgotten = "UPDATE pincite.generations SET settings = jsonb_set(settings, '{chunking,vanished}', '1')"
    project.rows(f"{forgotten} WHERE generation = 1")
    for _ in range(2):
        assert project.run("status").json["live"] == 1
        assert project.run("plan").code == 0
        result = project.index(code=1)
        assert (result["generation"], live(project)) == (2, 1)
        assert any("receives deletions and groups only" in note for note in result["notes"])
    assert project.hits(TOPICS["ferry"], "--strategy", "lexical")[0]["uri"] == "ferry.md"
    found = {item["code"] for item in project.run("verify").json["problems"]}
    assert found == {"settings"}


@pytest.mark.parametrize(("number", "code"), [("99", "no_generation")])
def test_a_missing_generation_cannot_be_published(project: Project, number: str, code: str) -> None:
    ran = project.run("generations publish", number)
    assert (ran.code, ran.json["error"]["code"]) == (1, code)


def test_an_incomplete_generation_cannot_be_published(project: Project) -> None:
    project.rows("UPDATE pincite.generations SET built_at = NULL WHERE generation = 1")
    ran = project.run("generations publish 1")
    assert (ran.code, ran.json["error"]["code"]) == (1, "not_built")
    assert "generation 1 was never completed; run `pincite index`" in ran.json["error"]["message"]


@pytest.mark.faults
def test_pruning_gives_back_tables_and_files_and_nothing_that_is_needed(
    project: Project, endpoint: EmbeddingServer
) -> None:
    swap(project, endpoint, SAME)
    swap(project, endpoint, "third")
    stray = project.state / "parquet" / "chunks" / "of-no-commit" / "00-0.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"left behind")
    planned = project.run("generations prune", "--keep", "2", "--dry-run").json
    assert (planned["dropped"], planned["kept"]) == ([1], [2, 3]) and stray.exists()
    assert project.run("generations prune", "--keep", "2").json == planned
    assert planned["files"] > 1 and not stray.parent.exists()
    assert sorted(listed(project)) == [2, 3]
    assert project.rows("SELECT to_regclass('g0001.chunks')") == [(None,)]
    endpoint.forget()
    assert project.index()["chunks"]["written"] == 0
    assert project.run("generations rollback").json == {"live": 2, "previous": 3}
    assert project.run("generations prune", "--keep", "1").json["kept"] == [2]
    assert project.hits(TOPICS["ferry"])[0]["uri"] == "ferry.md"
    assert endpoint.texts == [TOPICS["ferry"]]
    assert project.run("generations prune", "--keep", "0").code == 2


# ---------------------------------------------------------------- statistics


@pytest.mark.faults
def test_statistics_are_frozen_anew_when_the_corpus_is_another(project: Project, endpoint: EmbeddingServer) -> None:
    for number in range(100):
        project.write(f"more/{number}.md", f"# Entry {number}\n\nParcel {number} weighs {number} grams.\n")
    result = project.index()
    assert (result["generation"], result["published"]) == (2, True)
    assert set(endpoint.texts).isdisjoint(TOPICS.values()), "what was embedded is not embedded again"
    ((first, second),) = project.rows(
        "SELECT a.statistics ->> 'chunks', b.statistics ->> 'chunks' FROM pincite.generations a, pincite.generations b "
        "WHERE a.generation = 1 AND b.generation = 2"
    )
    assert (int(first), int(second)) == (len(TOPICS), len(TOPICS) + 100)
    project.write("more/one.md", "# Another\n\nOne more entry.\n")
    assert project.index()["generation"] == 2
