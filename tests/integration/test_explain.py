"""`pincite explain`: the chain from a document to the vector of one of its chunks, on a real index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pincite.text.passages import explanation_shown
from pipelines.errors import IndexStateError
from resources.engine.tables import ParquetTables
from resources.reports.explain import explain
from resources.search.passages import Searcher
from resources.settings_file import locate
from resources.state.state import State
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import DOCUMENTS, Project, make_project, new_database, project_copy

pytestmark = pytest.mark.integration

WAY = [
    "raw_documents", "parsed_elements", "figure_descriptions", "structural_chunks", "packed_chunks", "chunks",
    "sentences", "document_summaries", "chunk_contexts", "chunk_embeddings",
]  # fmt: skip
MADE = WAY[1:]
FIRST = {"first with these settings", "new document"}
MINUTES = "The council adopted the budget of the observatory. Members approved the telescope repairs.\n"


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("explained") / "project"
    with quick_runs(), new_database(server_url) as url:
        project = make_project(
            folder,
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            sentences={"related_floor": 0.3},
        )
        project.write("board/minutes.txt", MINUTES)
        project.write("board/minutes.txt.meta.yaml", "groups: [board]\neffective_date: 2026-03-01\n")
        project.index()
        yield project


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "project") as copy:
        yield copy


def explained(project: Project, text: str, *groups: str, generation: int | None = None) -> dict[str, Any]:
    """The explanation of the best passage for some words."""
    asked = [argument for group in groups for argument in ("--group", group)]
    chunk = project.hits(text, "--strategy", "lexical", *asked)[0]["chunk_id"]
    return explained_chunk(project, chunk, *groups, generation=generation)


def explained_chunk(project: Project, chunk: str, *groups: str, generation: int | None = None) -> dict[str, Any]:
    state = State(locate(str(project.config)))
    try:
        found = Searcher(state).chunk(chunk, groups, generation)
        result = explain(state, found, groups)
        assert explanation_shown(result)
        return result
    finally:
        state.close()


@pytest.fixture(scope="module")
def boilers(indexed: Project) -> dict[str, Any]:
    """Return what is told of the passage about boilers."""
    return explained(indexed, "boiler wing October")


def stages_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {stage["stage"]: stage for stage in result["stages"]}


def codes(result: dict[str, Any]) -> set[str]:
    return {item["code"] for item in result["problems"]}


def test_after_a_first_run_every_stage_names_that_run_and_all_agree(indexed: Project, boilers: dict[str, Any]) -> None:
    result = boilers
    stages = stages_of(result)
    assert list(stages) == [*WAY, "indexed_documents"] and result["problems"] == []
    assert {stages[name]["reason"] for name in MADE} <= FIRST
    ((run,),) = indexed.rows("SELECT DISTINCT run_id FROM pincite.manifest")
    assert {stage["run"] for stage in stages.values()} == {run} and all(stages[name]["at"] for name in MADE)
    for name in WAY:
        for table in stages[name]["tables"]:
            assert (Path(result["parquet"]) / table["file"]).is_file() and table["output"]
        used = [item["used"] for item in stages[name]["inputs"]]
        assert used == [item["now"][:16] for item in stages[name]["inputs"]]
        assert used == [] or stages[name]["fingerprint"] == ".".join(used)


def test_the_document_and_what_stands_at_each_stage(indexed: Project, boilers: dict[str, Any]) -> None:
    result = boilers
    document, stages = result["document"], stages_of(result)
    path = indexed.docs / "boilers.txt"
    assert (document["path"], document["file"], document["size"]) == (str(path), "current", path.stat().st_size)
    assert (document["groups"], document["stale"], document["failures"]) == ([], False, [])
    assert document["content_hash"] == stages["raw_documents"]["fingerprint"]
    assert [item["kind"] for item in stages["parsed_elements"]["elements"]][-1] == "paragraph"
    assert "Leaks are reported" in stages["parsed_elements"]["elements"][-1]["words"]
    assert stages["structural_chunks"]["units"] == sum(stages["structural_chunks"]["block_types"].values()) >= 2
    assert stages["packed_chunks"]["settings"]["chunking.target_tokens"] == 320
    assert stages["chunks"]["language"] == "en" and stages["chunks"]["chunk_before"] is None
    assert stages["chunks"]["settings"]["overlap_floors"]["*"] == stages["chunks"]["floor"]
    assert stages["sentences"]["sentences"] >= 3


def test_the_vector_is_of_the_text_that_was_sent(
    indexed: Project, boilers: dict[str, Any], endpoint: EmbeddingServer
) -> None:
    result = boilers
    vector = stages_of(result)["chunk_embeddings"]
    assert vector["embedded_text"] in endpoint.texts and "every October" in vector["embedded_text"]
    assert vector["text_hash"] == vector["recorded_text_hash"]
    assert (vector["dimension"], vector["norm"], vector["same_in_postgres"]) == (16, 1.0, True)
    ((stored,),) = indexed.rows(
        "SELECT (embedding::real[])[1:4] FROM g0001.chunks WHERE chunk_id = %s", result["chunk_id"]
    )
    assert vector["first_values"] == pytest.approx(stored, abs=1e-6)
    assert vector["embedder"]["name"] == "fake" and vector["embedder"]["identity"] == vector["settings"]["embedder"]


def test_costs_are_those_of_status(indexed: Project, boilers: dict[str, Any]) -> None:
    result = boilers
    cost = stages_of(result)["chunk_embeddings"]["cost"]
    (status,) = [item for item in indexed.run("status").json["costs"] if item["stage"] == "chunk_embeddings"]
    assert {name: cost[name] for name in ("items", "tokens", "seconds")} == {
        name: status[name] for name in ("items", "tokens", "seconds")
    }
    own = indexed.rows("SELECT chunk_id, tokens FROM g0001.chunks")
    assert cost["standing"] == cost["items"] == len(own)
    share = dict(own)[result["chunk_id"]] / sum(tokens for _, tokens in own)
    assert cost["share"] == pytest.approx(share, abs=1e-6)
    assert cost["share_tokens"] == round(share * cost["tokens"])
    assert stages_of(result)["chunks"]["cost"] is None


def test_an_edit_changes_the_reasons_of_its_own_document_only(project: Project) -> None:
    before = stages_of(explained(project, "boiler wing October"))
    other = stages_of(explained(project, "vault key registrar"))
    project.write("boilers.txt", DOCUMENTS["boilers.txt"].replace("two bar", "three bar"))
    assert explained(project, "boiler wing October")["document"]["file"] == "changed"
    project.index()
    result = explained(project, "boiler wing October")
    after = stages_of(result)
    assert (result["document"]["file"], result["problems"]) == ("current", [])
    assert after["parsed_elements"]["reason"] == "changed: raw_documents"
    assert after["structural_chunks"]["reason"] == "changed: parsed_documents, parsed_elements"
    assert after["packed_chunks"]["reason"] == "changed: structural_chunks, parsed_elements"
    assert after["chunk_embeddings"]["reason"].startswith("changed: chunks")
    assert {after[name]["run"] for name in MADE}.isdisjoint({before[name]["run"] for name in MADE})
    assert after["chunk_embeddings"]["cost"]["items"] == 1 == after["chunk_embeddings"]["cost"]["share"]
    assert {name: stage["key"] for name, stage in after.items()} == {n: stage["key"] for n, stage in before.items()}
    still = stages_of(explained(project, "vault key registrar"))
    for name in MADE:
        kept = ("run", "at", "reason", "fingerprint", "inputs")
        assert {key: still[name][key] for key in kept} == {key: other[name][key] for key in kept}
    cost = still["chunk_embeddings"]["cost"]
    assert cost["standing"] == cost["items"] - 1 == other["chunk_embeddings"]["cost"]["standing"] - 1


def test_a_swap_of_the_embedder_makes_only_the_vectors_anew(project: Project, endpoint: EmbeddingServer) -> None:
    before = stages_of(explained(project, "boiler wing October"))
    project.configure(embedder={"endpoint": endpoint.url, "model": "another"})
    project.index()
    result = explained(project, "boiler wing October")
    after = stages_of(result)
    assert result["generation"]["generation"] == 2 and result["generation"]["live"] and result["problems"] == []
    changed = {name for name in MADE if after[name]["run"] != before[name]["run"]}
    assert changed == {name for name in WAY if after[name]["key"] != before[name]["key"]} == {"chunk_embeddings"}
    assert after["chunk_embeddings"]["reason"] == "first with these settings"
    assert after["chunk_embeddings"]["embedder"]["name"] == "another"
    assert after["chunk_embeddings"]["embedded_text"] == before["chunk_embeddings"]["embedded_text"]
    old = explained_chunk(project, result["chunk_id"], generation=1)
    assert (old["generation"]["live"], stages_of(old), old["problems"]) == (False, before, [])


def test_a_restricted_chunk_is_explained_to_its_groups_only(indexed: Project) -> None:
    result = explained(indexed, "telescope repairs", "board")
    assert (result["document"]["groups"], result["document"]["effective_date"]) == (["board"], "2026-03-01")
    for groups in ((), ("staff",)):
        with pytest.raises(IndexStateError) as caught:
            explained_chunk(indexed, result["chunk_id"], *groups)
        assert caught.value.code == "unknown_chunk"


def test_links_to_what_an_asker_may_not_see_are_not_named(project: Project) -> None:
    ((chunk, sentence),) = project.rows("SELECT chunk_id, sentence_id FROM g0001.sentences WHERE text LIKE 'Leaks %%'")
    ((hidden,),) = project.rows("SELECT sentence_id FROM g0001.sentences WHERE text LIKE 'Members %%'")
    project.rows("DELETE FROM g0001.sentence_links")
    project.rows("INSERT INTO g0001.sentence_links VALUES (%s, %s, 0.95)", sentence, hidden)
    assert stages_of(explained_chunk(project, chunk))["sentences"]["links"] == []
    (link,) = stages_of(explained_chunk(project, chunk, "board"))["sentences"]["links"]
    assert (link["source_id"], link["target_id"], link["similarity"]) == (sentence, hidden, pytest.approx(0.95))


@pytest.mark.case(15, served=True)
def test_a_stale_document_names_its_failure_and_keeps_its_last_good_chain(project: Project) -> None:
    before = stages_of(explained(project, "boiler wing October"))
    project.write("boilers.txt", b"")
    project.index(code=3)
    result = explained(project, "boiler wing October")
    after = stages_of(result)
    assert result["document"]["stale"] and result["problems"] == []
    assert [item["stage"] for item in result["document"]["failures"]] == ["parsed_elements"]
    assert after["parsed_elements"]["failed_fingerprint"] == after["raw_documents"]["tables"][0]["output"][:16]
    for name in MADE:
        assert (after[name]["run"], after[name]["reason"]) == (before[name]["run"], before[name]["reason"])
    (project.docs / "boilers.txt").unlink()
    assert explained(project, "boiler wing October")["document"]["file"] == "missing"


@pytest.mark.case(10)
def test_rows_that_somebody_changed_are_named(project: Project) -> None:
    chunk = explained(project, "boiler wing October")["chunk_id"]
    project.rows(
        "UPDATE g0001.chunks SET text = text || '.', embedding = (SELECT embedding FROM g0001.chunks AS o "
        "WHERE o.chunk_id <> %s LIMIT 1) WHERE chunk_id = %s", chunk, chunk,
    )  # fmt: skip
    assert codes(explained_chunk(project, chunk)) == {"text", "vector"}
    project.rows("UPDATE g0001.documents SET row_hash = 'other' WHERE uri = 'boilers.txt'")
    assert codes(explained_chunk(project, chunk)) == {"text", "vector", "rows"}


def committed(project: Project, table: str, result: dict[str, Any]) -> tuple[str, str, tuple[str, str]]:
    """Key, file and range of the commit that has the explained document."""
    ((key, file, *ends),) = project.rows(
        "SELECT key, file, first, after FROM pincite.manifest WHERE table_name = %s AND first <= %s AND after > %s",
        table, result["document"]["doc_id"], result["document"]["doc_id"],
    )  # fmt: skip
    return key, file, tuple(ends)


def rewrite(project: Project, table: str, doc_id: str, **changed: str) -> None:
    """Puts another state of a document into a table's footer, as damage or an older version would."""
    tables = ParquetTables(str(project.state / "parquet"))
    for key, file, *ends in project.rows(
        "SELECT key, file, first, after FROM pincite.manifest WHERE table_name = %s", table
    ):
        states = tables.documents(file)
        if doc_id in states:
            states[doc_id] = replace(states[doc_id], **changed)
            made = tables.write(table, key, tuple(ends), tables.read(file), states, tables.note(file))
            project.rows("UPDATE pincite.manifest SET file = %s WHERE file = %s", made, file)


def test_a_result_of_other_inputs_than_those_that_stand_is_named(project: Project) -> None:
    result = explained(project, "boiler wing October")
    rewrite(project, "structural_chunks", result["document"]["doc_id"], fingerprint=f"{16 * '0'}.{16 * '1'}.{16 * '2'}")
    problems = explained_chunk(project, result["chunk_id"])["problems"]
    assert [problem["code"] for problem in problems] == ["outdated"] * 3
    assert ["parsed_documents" in problem["message"] for problem in problems] == [True, False, False]
    rewrite(project, "structural_chunks", result["document"]["doc_id"], fingerprint="older", run="", at="", reason="")
    older = explained_chunk(project, result["chunk_id"])
    stage = stages_of(older)["structural_chunks"]
    assert (stage["run"], stage["at"], stage["reason"], older["problems"]) == (None, None, None, [])
    assert explanation_shown(older).count("not recorded") == explanation_shown(result).count("not recorded") + 4


def test_a_vector_of_another_text_is_named(project: Project) -> None:
    import pyarrow as pa

    result = explained(project, "boiler wing October")
    tables = ParquetTables(str(project.state / "parquet"))
    key, file, ends = committed(project, "chunk_embeddings", result)
    rows = tables.read(file)
    column = rows.column_names.index("text_hash")
    rows = rows.set_column(column, "text_hash", pa.array(["0" * 32] * len(rows), pa.string()))
    made = tables.write("chunk_embeddings", key, ends, rows, tables.documents(file), tables.note(file))
    project.rows("UPDATE pincite.manifest SET file = %s WHERE file = %s", made, file)
    again = explained_chunk(project, result["chunk_id"])
    assert codes(again) == {"text_hash"}
    assert stages_of(again)["chunk_embeddings"]["recorded_text_hash"] == "0" * 32


def test_rows_missing_from_parquet_are_named(project: Project) -> None:
    result = explained(project, "boiler wing October")
    tables = ParquetTables(str(project.state / "parquet"))
    for table, code in (("chunk_embeddings", "no_vector"), ("chunks", "no_chunk")):
        key, file, ends = committed(project, table, result)
        made = tables.write(table, key, ends, tables.read(file)[:0], tables.documents(file), tables.note(file))
        project.rows("UPDATE pincite.manifest SET file = %s WHERE file = %s", made, file)
        told = {item["code"]: item["message"] for item in explained_chunk(project, result["chunk_id"])["problems"]}
        assert table in told[code]


def test_a_document_of_a_forgotten_source_is_explained_until_it_leaves(project: Project) -> None:
    chunk = explained(project, "boiler wing October")["chunk_id"]
    project.configure(sources=[])
    assert project.run("sources remove docs").code == 0
    result = explained_chunk(project, chunk)
    assert (result["document"]["file"], result["document"]["path"]) == ("missing", None)
    assert "not_made" in codes(result) and "rows" in codes(result)
