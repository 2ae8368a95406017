"""The `pincite` command on a folder of small documents: what it says, what it does, what it leaves alone.

Most tests work on a copy of one indexed project, whose embedder is an endpoint on loopback that
records every text it is asked for; so "embeds nothing" is what the endpoint saw.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pincite.run import dagster_job
from resources.dagster_instance.run_history import noted_runs
from resources.workers.sandbox import holds, layers_text
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.projects import DOCUMENTS, Project, make_project, new_database, project_copy, run_command
from tests.support.tiny_model import make_model
from tests.support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

HIT = {
    "rank", "score", "scores", "chunk_id", "doc_id", "source", "uri", "title", "page_start", "page_end",
    "header_chain", "block_types", "text", "overlap", "context", "boxes",
}  # fmt: skip
METRICS = {
    "accuracy_doc", "accuracy_page", "recall@1", "recall@3", "recall@5", "recall@10", "recall@20", "gold_recall@1",
    "gold_recall@3", "gold_recall@5", "gold_recall@10", "gold_recall@20", "precision@3", "table_precision@3",
    "header_only@1", "mrr", "ndcg@10",
    "span_recall", "span_precision", "span_iou", "span_precision_omega",
}  # fmt: skip
MINUTES = "The council adopted the budget of the observatory. Members approved the telescope repairs.\n"


@dataclass
class Indexed:
    """A project after its first index run, what the run said, and what was embedded."""

    project: Project
    result: dict[str, Any]
    texts: list[str]


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Indexed]:
    folder = tmp_path_factory.mktemp("indexed") / "project"
    with new_database(server_url, migrated) as url:
        project = make_project(
            folder,
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            query={"metadata_keys": ["department"]},
        )
        project.write("board/minutes.txt", MINUTES)
        project.write("board/minutes.txt.meta.yaml", "groups: [board]\n")
        project.write("handbook.md.meta.yaml", "metadata: {department: staffing}\n")
        project.write("empty.txt", b"")
        project.write("torn.pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog")
        project.write("badcar.md", "# A note\n\nThis note has a side-car that cannot be read.\n")
        project.write("badcar.md.meta.yaml", "groups: [unclosed\n")
        project.write("photo.gif", b"GIF89a")
        project.write("dated.md", "---\neffective_date: someday\n---\n\nThe lift carries eight persons.\n")
        result = project.index(code=3)
        yield Indexed(project, result, endpoint.texts)


@pytest.fixture
def project(indexed: Indexed, server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed.project, server_url, tmp_path / "project") as copy:
        endpoint.forget()
        yield copy


def computed(project: Project) -> dict[str, int]:
    """Documents that each asset computed in the last run, as Dagster recorded it in the state."""
    import dagster as dg

    counts: dict[str, int] = {}
    with dg.DagsterInstance.from_config(str(project.state / "dagster")) as instance:
        run = instance.get_runs(limit=1)[0]
        for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
            event = entry.asset_materialization
            assert event is not None
            if found := event.metadata.get("run: documents computed") or event.metadata.get("documents computed"):
                count = found.value
                assert isinstance(count, int)
                counts[event.asset_key.to_user_string()] = count
    return counts


def noted(project: Project) -> dict[str, int]:
    """Documents that each asset computed in the last run, which was one without Dagster."""
    counts = {}
    for made in noted_runs(project.state / "dagster")[-1].made:
        (values, *_) = made.metadata.values()
        if (count := values.get("run: documents computed", values.get("documents computed"))) is not None:
            counts[made.key] = int(count)
    return counts


Physical = dict[str, list[tuple[Any, ...]]]


def physical_rows(project: Project, generation: int = 1) -> Physical:
    """By uri: row hash, place and writing transaction of a document's rows; any rewriting changes it."""
    schema = f"g{generation:04d}"
    found: Physical = {}
    for table in ("chunks", "sentences"):
        rows = project.rows(
            f"SELECT d.uri, d.row_hash, d.ctid::text, d.xmin::text, t.ctid::text, t.xmin::text "
            f"FROM {schema}.documents d JOIN {schema}.{table} t USING (doc_id) ORDER BY t.ctid"
        )
        for uri, *place in rows:
            found.setdefault(uri, []).append((table, *place))
    return found


# ---------------------------------------------------------------- the first run


def test_index_says_what_it_did(indexed: Indexed) -> None:
    result = indexed.result
    assert {"generation", "published", "documents", "chunks", "embedded", "llm", "seconds"} <= result.keys()
    assert (result["generation"], result["published"]) == (1, True)
    documents = {
        key: value for key, value in result["documents"].items() if key not in ("failed", "skipped", "warnings")
    }
    assert documents == {"listed": 11, "added": 8, "changed": 0, "unchanged": 0, "removed": 0}
    assert result["chunks"].keys() == {"total", "written", "deleted"}
    assert result["chunks"]["total"] == result["chunks"]["written"] > 0
    assert not any(result["llm"][name] for name in ("calls", "cached", "pending", "cost"))
    stages = {"raw_documents", "parsed_elements", "chunks", "sentences", "chunk_embeddings", "indexed_documents"}
    assert stages <= result["seconds"].keys()


def test_every_distinct_text_is_embedded_once(indexed: Indexed) -> None:
    texts = [text for text in indexed.texts if text != "dimension"]
    assert len(texts) == sum(indexed.result["embedded"].values())
    assert indexed.result["embedded"].keys() == {"chunks", "sentences"}


@pytest.mark.case(17)
def test_failing_documents_are_named_and_the_others_are_indexed(indexed: Indexed) -> None:
    failed = {item["uri"]: item for item in indexed.result["documents"]["failed"]}
    assert failed.keys() == {"empty.txt", "torn.pdf", "badcar.md"}
    assert all(item.keys() == {"source", "uri", "stage", "code", "message"} for item in failed.values())
    assert failed["torn.pdf"]["stage"] == "parsed_elements"
    assert (failed["badcar.md"]["stage"], failed["badcar.md"]["code"]) == ("raw_documents", "side_car")
    assert "badcar.md.meta.yaml" in failed["badcar.md"]["message"]
    assert [item["uri"] for item in indexed.result["documents"]["skipped"]] == ["photo.gif"]


def test_a_hit_has_every_promised_field(indexed: Indexed) -> None:
    ran = indexed.project.run("query", "who holds the vault key", "-k", "3")
    of_search = ("strategy", "rerank", "searched", "added", "notes")
    assert ran.json.keys() == {*("query", "generation", "hits", "documents", "seconds"), *of_search}
    first = ran.json["hits"][0]
    assert first.keys() >= HIT
    assert (first["rank"], first["source"], first["uri"]) == (1, "docs", "archive/keys.md")
    assert first["header_chain"] == ["Keys"]
    assert "registrar" in first["text"]
    assert (first["page_start"], first["boxes"]) == (None, [])


@pytest.mark.parametrize(
    ("question", "uri"),
    [
        ("annual leave in March", "handbook.md"),
        ("boiler pressure", "boilers.txt"),
        ("parking permits from the porter", "visitors.html"),
        ("Harbour Catering contract", "suppliers.csv"),
        ("how long are personnel files kept", "archive/retention.txt"),
    ],
)
def test_every_format_is_found(indexed: Indexed, question: str, uri: str) -> None:
    assert indexed.project.hits(question)[0]["uri"] == uri


def test_a_restricted_document_is_found_by_its_group_only(indexed: Indexed) -> None:
    def found(*groups: str) -> bool:
        hits = indexed.project.hits("telescope repairs", *(word for group in groups for word in ("--group", group)))
        return any(hit["uri"] == "board/minutes.txt" for hit in hits)

    assert not found()
    assert not found("staff")
    assert found("staff", "board")


def test_hits_can_be_filtered_by_metadata(indexed: Indexed) -> None:
    hits = indexed.project.hits("the", "--filter", "department=staffing")
    assert {hit["uri"] for hit in hits} == {"handbook.md"}


def test_status_and_sources(indexed: Indexed) -> None:
    status = indexed.project.run("status").json
    assert {"generations", "sources", "counts", "failures", "costs"} <= status.keys()
    assert status["sandbox"] == holds()
    assert layers_text(holds()) in run_command("status", "--config", indexed.project.config).out
    (generation,) = status["generations"]
    assert (generation["live"], generation["documents"], status["live"]) == (True, 8, 1)
    assert {failure["uri"] for failure in status["failures"]} == {"empty.txt", "torn.pdf", "badcar.md"}
    bought = {cost["stage"]: cost["items"] for cost in status["costs"]}
    assert bought == {f"{name[:-1]}_embeddings": count for name, count in indexed.result["embedded"].items()}
    (source,) = indexed.project.run("sources list").json["sources"]
    assert (source["name"], source["root"]) == ("docs", str(indexed.project.docs))


def test_index_and_status_report_what_a_parser_left_out(indexed: Indexed) -> None:
    """Once by the run that read the document, and by `status` for as long as it is so."""
    told = {
        "source": "docs",
        "uri": "dated.md",
        "message": "effective date 'someday' was not understood; write it as YYYY-MM-DD",
    }
    warned = (indexed.result["documents"]["warnings"], indexed.project.run("status").json["warnings"])
    assert [[each for each in found if each["uri"] == "dated.md"] for found in warned] == [[told], [told]]
    shown = run_command("status", "--config", indexed.project.config).out
    assert "warning: docs/dated.md: effective date 'someday'" in shown


def test_people_read_tables_and_lines(indexed: Indexed) -> None:
    place = ("--config", indexed.project.config)
    assert "archive/keys.md" in run_command("query", "vault key", *place).out.splitlines()[0]
    assert "strategy hybrid, rerank none" in run_command("query", "vault key", "--explain", *place).out
    said = run_command("status", *place).out
    assert str(indexed.project.docs) in said
    index = run_command("index", *place)
    assert index.code == 3
    assert "failed: docs/torn.pdf: parsed_elements: " in index.out


# ---------------------------------------------------------------- eval


def test_eval_gives_every_metric(indexed: Indexed, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    quote = "The vault key is held by the registrar."
    lines = [
        {"id": "key", "question": "Who holds the vault key?", "gold": [{"uri": "archive/keys.md", "quote": quote}]},
        {"id": "leave", "question": "When does leave expire?", "gold": [{"uri": "handbook.md", "quote": "No such."}]},
    ]
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    ran = indexed.project.run("eval", questions)
    assert ran.code == 0, ran.err
    (run,) = ran.json["runs"]
    assert {"name", "strategy", "rerank", "n", "metrics", "ci95", "unmapped", "seconds_per_query"} <= run.keys()
    assert run["metrics"].keys() == METRICS
    assert (run["name"], run["strategy"], run["n"], run["unmapped"]) == ("questions", "hybrid", 2, 1)
    assert run["metrics"]["recall@1"] == 0.5
    assert run["metrics"]["accuracy_page"] is None


# ---------------------------------------------------------------- what does not change


def test_a_run_with_nothing_new_does_nothing(project: Project, endpoint: EmbeddingServer) -> None:
    before = physical_rows(project)
    result = project.index(code=3)
    assert result["chunks"] == {"total": 9 + 1, "written": 0, "deleted": 0}
    assert result["embedded"] == {"chunks": 0, "sentences": 0}
    assert (result["generation"], result["published"]) == (1, True)
    assert (result["documents"]["unchanged"], len(result["documents"]["failed"])) == (8, 3)
    assert result["documents"]["warnings"] == []
    assert endpoint.texts == []
    assert physical_rows(project) == before


# ---------------------------------------------------------------- the second day


@dataclass
class Day:
    """One run after many changes: an edit, a deletion, a move, an addition, a new restriction and a
    document that has gone bad."""

    project: Project
    before: Physical
    after: Physical
    result: dict[str, Any]
    texts: list[str]
    computed: dict[str, int]


@pytest.fixture(scope="module")
def day(
    indexed: Indexed, server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Day]:
    with project_copy(indexed.project, server_url, tmp_path_factory.mktemp("day") / "project") as project:
        endpoint.forget()
        before = physical_rows(project)
        docs = project.docs
        project.write("boilers.txt", DOCUMENTS["boilers.txt"] + "\nThe chimney is swept in spring.\n")
        (docs / "visitors.html").unlink()
        (docs / "suppliers.csv").rename(docs / "vendors.csv")
        project.write("hoist.txt", "The hoist\n\nThe hoist lifts eight crates and is closed on Sundays.\n")
        project.write("handbook.md.meta.yaml", "groups: [personnel]\nmetadata: {department: people}\n")
        project.write("archive/keys.md", b"")
        with mock.patch("pincite.run.FEW", 10):
            result = project.index(code=3)
        texts = endpoint.texts
        yield Day(project, before, physical_rows(project), result, texts, noted(project))


def test_counts_of_the_second_day(day: Day) -> None:
    documents = {
        key: value for key, value in day.result["documents"].items() if key not in ("failed", "skipped", "warnings")
    }
    # handbook, minutes, retention and dated are unchanged; boilers is edited; hoist and vendors are added.
    assert documents == {"listed": 11, "added": 2, "changed": 1, "unchanged": 4, "removed": 2}
    assert day.result["generation"] == 1
    assert day.result["published"] is True


def test_only_documents_that_changed_are_rewritten(day: Day) -> None:
    kept = {uri for uri in day.before if day.after.get(uri) == day.before[uri]}
    assert kept == {"board/minutes.txt", "archive/retention.txt", "dated.md"}


@pytest.mark.case(12)
def test_only_texts_that_changed_are_embedded(day: Day) -> None:
    assert all("chimney" in text or "hoist" in text for text in day.texts)
    assert len(day.texts) == sum(day.result["embedded"].values())


def test_only_files_that_changed_are_parsed(day: Day) -> None:
    # boilers, hoist, vendors, and keys, which fails; the documents that failed before are not tried again.
    assert day.computed["parsed_elements"] == 4
    assert day.computed["structural_chunks"] == 3


def test_an_edit_is_found(day: Day) -> None:
    assert day.project.hits("when is the chimney swept")[0]["uri"] == "boilers.txt"


def test_an_added_file_is_found(day: Day) -> None:
    assert day.project.hits("how many crates on the hoist")[0]["uri"] == "hoist.txt"


@pytest.mark.case(13, served=True)
@pytest.mark.parametrize("strategy", ["dense", "lexical", "hybrid"])
def test_a_deleted_file_is_gone(day: Day, strategy: str) -> None:
    hits = day.project.hits("parking permits from the porter", "-k", "50", "--strategy", strategy)
    assert "visitors.html" not in {hit["uri"] for hit in hits}
    for table in ("chunks", "sentences"):
        assert day.project.rows(f"SELECT count(*) FROM g0001.{table} WHERE text LIKE '%%porter%%'") == [(0,)]


@pytest.mark.case(12, served=True)
def test_a_moved_file_is_found_at_its_new_place_only(day: Day) -> None:
    hits = day.project.hits("Harbour Catering contract", "-k", "50")
    assert hits[0]["uri"] == "vendors.csv"
    assert "suppliers.csv" not in {hit["uri"] for hit in hits}


def test_a_new_restriction_holds_without_a_new_parse(day: Day) -> None:
    assert "handbook.md" not in {hit["uri"] for hit in day.project.hits("annual leave", "-k", "50")}
    allowed = day.project.hits("annual leave", "--group", "personnel", "--filter", "department=people")
    assert allowed[0]["uri"] == "handbook.md"
    assert not any("leave" in text for text in day.texts)


@pytest.mark.case(15, served=True)
def test_a_document_gone_bad_is_served_in_its_last_good_version(day: Day) -> None:
    failed = {item["uri"] for item in day.result["documents"]["failed"]}
    assert failed == {"empty.txt", "torn.pdf", "badcar.md", "archive/keys.md"}
    hit = day.project.hits("who holds the vault key")[0]
    _, *words = DOCUMENTS["archive/keys.md"].split()  # without the mark of the heading
    assert (hit["uri"], hit["text"].split()) == ("archive/keys.md", words)
    assert day.project.rows("SELECT uri FROM g0001.documents WHERE stale") == [("archive/keys.md",)]


def test_a_plan_after_a_document_was_mended_does_not_call_it_failed(project: Project) -> None:
    """Its failure is that of another file; what still fails is named."""
    before = project.run("plan").json["documents"]["failed"]
    (project.docs / "torn.pdf").write_bytes(b"%PDF-1.4 torn otherwise")
    project.write("badcar.md.meta.yaml", "groups: [personnel]\n")
    planned = project.run("plan").json["documents"]
    assert {item["uri"] for item in before} - {item["uri"] for item in planned["failed"]} == {"torn.pdf", "badcar.md"}
    assert planned["added"] == 2


# ---------------------------------------------------------------- sources


def test_a_source_by_itself_leaves_the_others_alone(
    project: Project, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    extra = tmp_path / "annexe"
    project.write("ferry.txt", "The ferry to the island leaves at noon.\n", docs=extra)
    project.write("boilers.txt", DOCUMENTS["boilers.txt"] + "\nA change that this run is not asked for.\n")
    before = physical_rows(project)
    result = project.index("--source", extra, code=3)
    assert result["documents"]["added"] == 1
    assert result["documents"]["removed"] == 0
    assert all("ferry" in text for text in endpoint.texts)
    after = physical_rows(project)
    assert {uri: rows for uri, rows in after.items() if uri != "ferry.txt"} == before
    names = [source["name"] for source in project.run("sources list").json["sources"]]
    assert names == ["annexe", "docs"]

    assert project.run("sources remove", "annexe").json == {"removed": "annexe", "documents": 1}
    project.write("boilers.txt", DOCUMENTS["boilers.txt"])
    result = project.index(code=3)
    assert result["documents"]["removed"] == 1
    assert "ferry.txt" not in {hit["uri"] for hit in project.hits("ferry to the island")}
    assert physical_rows(project) == before


def test_folders_are_named_as_arguments_and_settings_of_the_current_folder_do_not_count(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names its settings, so those of the folder it starts in are not read."""
    (tmp_path / "pincite.yaml").write_text("no_such_setting: 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("boats", "tides"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# {name}\n\nAll about {name}.\n")
    said = project.index("boats", str(tmp_path / "tides"), code=3)
    assert said["documents"]["added"] == 2
    assert {hit["source"] for hit in project.hits("All about boats and tides")} >= {"boats", "tides"}


def test_a_source_name_keeps_its_folder(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    project.write("note.txt", "A note.\n", docs=other)
    before = physical_rows(project)
    ran = project.run("index", "--source", f"docs={other}")
    assert ran.code == 1
    error = ran.json["error"]
    assert error["code"] == "source_moved"
    assert f"--source NAME={other}" in error["message"]
    assert str(project.docs) in error["message"]
    assert physical_rows(project) == before


@pytest.mark.case(14, served=True)
def test_an_emptied_source_deletes_nothing_until_it_is_meant(project: Project, endpoint: EmbeddingServer) -> None:
    before = physical_rows(project)
    for path in project.docs.rglob("*.*"):
        path.unlink()
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "deletion_guard")
    assert "--allow-deletions" in ran.json["error"]["message"]
    assert physical_rows(project) == before
    assert project.hits("vault key")[0]["uri"] == "archive/keys.md"

    result = project.index("--allow-deletions")
    assert result["documents"]["removed"] == 8
    assert result["chunks"]["total"] == 0
    assert result["published"] is True
    assert project.hits("vault key") == []
    assert project.index()["documents"]["listed"] == 0


# ---------------------------------------------------------------- another embedder

MODULES = """
import sys
from pincite.cli import main
try:
    main()
finally:
    heavy = {"torch", "transformers", "sentence_transformers", "spacy"}
    print("imported:", sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


@pytest.mark.faults
@pytest.mark.case(9, served=True)
def test_another_embedder_makes_another_generation_and_nothing_else(
    project: Project, endpoint: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pincite.run.dagster_job", dagster_job)
    first = dict(project.settings["embedder"])
    before = physical_rows(project)
    project.configure(embedder={"model": str(make_model(tmp_path / "model")), "dtype": "float32"})
    result = project.index(code=3)
    assert (result["generation"], result["published"]) == (2, True)
    assert result["embedded"]["chunks"] == result["chunks"]["total"]
    counts = computed(project)
    again = {name for name, count in counts.items() if count}
    assert again == {"chunk_embeddings", "sentence_embeddings", "sentence_links", "indexed_documents"}
    assert endpoint.texts == []
    assert physical_rows(project, 1) == before
    assert project.hits("who holds the vault key")[0]["uri"] == "archive/keys.md"
    (old,) = [item for item in project.run("status").json["generations"] if item["generation"] == 1]
    assert (old["live"], old["documents"]) == (False, 8)

    # A run with nothing new, seen from outside: no model library is imported.
    command = [sys.executable, "-c", MODULES, "index", "--json", "--config", str(project.config)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert ran.returncode == 3, ran.stderr
    assert json.loads(ran.stdout)["embedded"] == {"chunks": 0, "sentences": 0}
    assert "imported: []" in ran.stderr

    # Back to the first: its generation is still there, and costs no text.
    project.configure(embedder=first)
    result = project.index(code=3)
    assert (result["generation"], result["published"]) == (1, True)
    assert result["chunks"]["written"] == 0
    assert endpoint.texts == []
    assert physical_rows(project, 1) == before


# ---------------------------------------------------------------- what cannot be meant


@pytest.mark.parametrize(
    ("code", "arguments", "told"),
    [
        (2, ["query", ""], "empty"),
        (2, ["query", "key", "-k", "0"], "at least 1"),
        (2, ["query", "key", "--strategy", "psychic"], "hybrid"),
        (2, ["query", "key", "--rerank", "psychic"], "weighted"),
        (2, ["query", "key", "--filter", "department"], "KEY=VALUE"),
        (2, ["query", "key", "--filter", "salary=1"], "metadata_keys"),
        (1, ["query", "key", "--generation", "99"], "99"),
        (2, ["index", "--source", "no/such/folder"], "no such folder"),
        (2, ["eval", "no-such-questions.jsonl"], "no-such-questions.jsonl"),
        (1, ["sources", "remove", "nobody"], "nobody"),
        (2, ["query", "key", "--no-such-option"], "--no-such-option"),
    ],
)
def test_a_wrong_request_is_one_clear_error(indexed: Indexed, code: int, arguments: list[str], told: str) -> None:
    ran = run_command(*arguments, "--config", indexed.project.config, "--json")
    assert ran.code == code, ran.out + ran.err
    assert ran.json.keys() == {"error"}
    assert ran.json["error"].keys() == {"code", "message"}
    assert told in ran.json["error"]["message"]
    assert "Traceback" not in ran.err
