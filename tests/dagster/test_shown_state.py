"""Answers of Dagster's webserver about an index: after a swap of its model, half a swap, and failures that stay."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.testclient import TestClient

from assets.definitions import build_defs
from pipelines.errors import IndexStateError
from resources.dagster_instance.home import dagster_home
from resources.generations.direct_run import FAILED, PRESENT
from tests.dagster.test_automation import QUIET
from tests.dagster.test_materialise import metadata
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import DOCUMENTS, Project, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.dagster]

STALE = """{ assetNodes { assetKey { path } staleStatus isPartitioned
  latestMaterializationByPartition(partitions: ["00"]) { runId } } }"""
PARTITIONS = """query($key: AssetKeyInput!, $partition: String) { assetNodeOrError(assetKey: $key) {
  ... on AssetNode { staleStatus(partition: $partition) staleCauses(partition: $partition) { reason category } } } }"""
CHECKS = """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { assetChecksOrError {
  ... on AssetChecks { checks { name executionForLatestMaterialization { status evaluation { success severity
  metadataEntries { label ... on IntMetadataEntry { intValue } ... on TextMetadataEntry { text }
  ... on TableMetadataEntry { table { records } } } } } } } } } } }"""
LATEST = """query($key: AssetKeyInput!) { assetOrError(assetKey: $key) { ... on Asset {
  assetMaterializations(limit: 4) { partition metadataEntries { label ... on IntMetadataEntry { intValue }
  ... on TextMetadataEntry { text } ... on TableMetadataEntry { table { records } } } } } } }"""

BUCKETS = 2
SPAN = {"dagster/asset_partition_range_start": "00", "dagster/asset_partition_range_end": "01"}
ONE = {"dagster/asset_partition_range_start": "00", "dagster/asset_partition_range_end": "00"}


EMBEDDED = ("chunk_embeddings", "sentence_embeddings")


class Webserver:
    """Dagster's webserver over a project, and the instance that it shows."""

    def __init__(self, context: WorkspaceProcessContext, instance: dg.DagsterInstance) -> None:
        self._context, self.instance = context, instance
        self._client = TestClient(create_app_from_workspace_process_context(context))

    def ask(self, query: str, **variables: Any) -> Any:
        answer = self._client.post("/graphql", json={"query": query, "variables": variables}).json()
        assert "errors" not in answer, answer
        return answer["data"]

    def look_again(self) -> None:
        """Load the assets again, after a change of the settings."""
        self._context.refresh_workspace()

    def stale(self) -> set[str]:
        """Names of the assets that the lineage shows as unsynced."""
        nodes = self.ask(STALE)["assetNodes"]
        return {node["assetKey"]["path"][-1] for node in nodes if node["staleStatus"] == "STALE"}

    def partition(self, name: str, partition: str | None) -> tuple[str, set[str]]:
        """Return the status of an asset's partition, and why."""
        found = self.ask(PARTITIONS, key={"path": [name]}, partition=partition)["assetNodeOrError"]
        return found["staleStatus"], {cause["reason"] for cause in found["staleCauses"]}

    def check(self, name: str, check: str) -> tuple[bool, dict[str, Any]]:
        """Return whether the check of an asset passes, and its metadata."""
        found = self.ask(CHECKS, key={"path": [name]})["assetNodeOrError"]["assetChecksOrError"]["checks"]
        (own,) = [each for each in found if each["name"] == check]
        evaluation = own["executionForLatestMaterialization"]["evaluation"]
        assert evaluation["severity"] == "WARN"
        return evaluation["success"], values(evaluation["metadataEntries"])

    def latest(self, name: str) -> dict[str | None, dict[str, Any]]:
        """Return the metadata of an asset's last materialisations, by partition."""
        found = self.ask(LATEST, key={"path": [name]})["assetOrError"]["assetMaterializations"]
        return {each["partition"]: values(each["metadataEntries"]) for each in reversed(found)}


def plain(metadata: Mapping[str, dg.MetadataValue]) -> dict[str, Any]:
    """Metadata by label, as it was given."""
    return {label: value.value for label, value in metadata.items()}


def values(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Metadata by label: numbers, texts, and the records of tables."""
    found: dict[str, Any] = {}
    for entry in entries:
        if "table" in entry:
            found[entry["label"]] = [json.loads(record) for record in entry["table"]["records"]]
        else:
            found[entry["label"]] = entry.get("intValue", entry.get("text"))
    return found


@pytest.fixture(scope="module")
def made(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """An index of a document in each bucket and of one that cannot be read, to be copied."""
    documents = {"boilers.txt": DOCUMENTS["boilers.txt"], "parking.html": DOCUMENTS["visitors.html"]}
    with new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("made") / "project",
            {**documents, "torn.pdf": "%PDF-1.7 torn"},
            database=url,
            buckets=BUCKETS,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        project.index(code=3)
        yield project


@pytest.fixture
def project(made: Project, server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """An indexed project, its own to change, as the environment names it. Each bucket is a partition."""
    with project_copy(made, server_url, tmp_path / "copy") as copy:
        monkeypatch.setenv("PINCITE_CONFIG", str(copy.config))
        yield copy


@pytest.fixture
def webserver(project: Project) -> Iterator[Webserver]:
    """A webserver over the instance that has recorded the runs of a project. It has loaded the assets into this
    process."""
    loaded = LoadableTargetOrigin(executable_path=sys.executable, module_name="assets.definitions")
    target = InProcessWorkspaceLoadTarget(InProcessCodeLocationOrigin(loaded))
    home = str(dagster_home(project.state))
    with dg.DagsterInstance.from_config(home) as instance, WorkspaceProcessContext(instance, target) as found:
        yield Webserver(found, instance)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance that nobody looks at."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def run(instance: dg.DagsterInstance, tags: dict[str, str] = SPAN, *names: str) -> dg.ExecuteInProcessResult:
    """The job `index` in this process, of these assets alone if any are named."""
    job = build_defs().resolve_job_def("index")
    selection = [dg.AssetKey(name) for name in names] or None
    result = job.execute_in_process(QUIET, instance=instance, tags=tags, asset_selection=selection)
    assert result.success
    return result


def materialise(instance: dg.DagsterInstance, *names: str) -> dg.ExecuteInProcessResult:
    """One run of assets without partitions, as "Materialize" makes it."""
    job = build_defs().resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(name) for name in names]
    result = job.execute_in_process(QUIET, instance=instance, asset_selection=selection)
    assert result.success
    return result


def test_a_swap_is_seen_and_done_from_the_page(project: Project, webserver: Webserver) -> None:
    assert webserver.stale() == set()
    assert webserver.partition("chunk_embeddings", "01") == ("FRESH", set())
    served = project.hits("boiler inspection")

    project.configure(embedder={**project.settings["embedder"], "model": "another"})
    webserver.look_again()
    assert webserver.stale() >= {"search_index"}
    stale, why = webserver.partition("chunk_embeddings", "01")
    assert stale == "STALE" and "has a new code version" in why
    assert webserver.partition("parsed_elements", "01") == ("FRESH", set()), "the embedder shapes no elements"

    # Half of it: one bucket by a backfill. Readers are served what they were.
    run(webserver.instance, {**ONE, "dagster/backfill": "half"}, "chunk_embeddings")
    assert webserver.partition("chunk_embeddings", "00")[0] == "FRESH"
    assert webserver.partition("chunk_embeddings", "01")[0] == "STALE"
    passed, told = webserver.check("chunk_embeddings", PRESENT)
    assert not passed
    assert 0 <= told["documents by the present settings"] < told["documents that readers are served"]
    assert told["generation that readers are served"] == 1
    latest = webserver.latest("chunk_embeddings")
    assert latest["00"]["dagster/row_count"] == latest["01"]["dagster/row_count"], "that of what is served"
    assert project.hits("boiler inspection") == served
    with pytest.raises(IndexStateError, match=r"0 documents in the index by .* readers are served generation 1"):
        run(webserver.instance, {"dagster/backfill": "half"}, "sentence_links")

    # The rest: materialising what the lineage shows as unsynced does the swap, each stage once, and nothing is left.
    tags = materialise(webserver.instance, *webserver.stale()).dagster_run.tags
    computed = sum(values["documents computed"] for values in webserver.latest("sentence_embeddings").values())
    assert computed == len(project.rows("SELECT 1 FROM g0002.documents")), "no later pass hides what was done"
    assert (tags["pincite/generation"], tags["pincite/embedder"]) == ("2", "another")
    assert webserver.stale() == {"retrieval_quality"}, "the golden questions were asked of the generation before"
    for name in ("chunk_embeddings", "sentence_embeddings", "indexed_documents"):
        assert {webserver.partition(name, bucket)[0] for bucket in ("00", "01")} == {"FRESH"}, name
    passed, told = webserver.check("search_index", PRESENT)
    assert passed and told["documents by the present settings"] == told["documents that readers are served"]
    assert project.run("status").json["generations"][-1]["live"]
    assert {hit["uri"] for hit in project.hits("boiler inspection")} == {hit["uri"] for hit in served}


def test_a_failing_document_is_shown_until_it_is_mended(project: Project, instance: dg.DagsterInstance) -> None:
    def made() -> tuple[list[dict[str, Any]], dict[str, dg.AssetCheckEvaluation]]:
        result = run(instance, SPAN, "raw_documents", "parsed_elements")
        checks = {
            item.asset_key.to_user_string(): item
            for item in result.get_asset_check_evaluations()
            if item.check_name == FAILED
        }
        return [told for _, told in metadata(result, "parsed_elements")], checks

    partitions, checks = made()
    assert [told["documents computed"] for told in partitions] == [0, 0], "it is known from the run before"
    for told in (*partitions, plain(checks["parsed_elements"].metadata)):
        assert told["failures"] == 1
        (row,) = told["failed documents"].records
        assert (row.data["document"], row.data["source"]) == ("torn.pdf", "docs")
    assert not checks["parsed_elements"].passed
    assert checks["raw_documents"].passed
    assert plain(checks["raw_documents"].metadata) == {"failures": 0, "failed documents": "none"}

    project.write("torn.pdf.txt", "It is mended.")
    (project.docs / "torn.pdf").unlink()
    partitions, checks = made()
    assert [told["failures"] for told in partitions] == [0, 0]
    assert sum(told["documents computed"] for told in partitions) == 1, "each partition has its own numbers"
    assert checks["parsed_elements"].passed


def test_the_index_alone_makes_all_that_it_lacks_with_its_checks(project: Project, webserver: Webserver) -> None:
    project.configure(embedder={**project.settings["embedder"], "model": "another"}, chunking={"target_tokens": 60})
    webserver.look_again()
    assert {"corpus_statistics", "term_statistics", "search_index"} <= webserver.stale()
    materialise(webserver.instance, "search_index")
    assert webserver.stale() <= {"retrieval_quality"}
    passed, told = webserver.check("parsed_elements", FAILED)
    assert not passed and [row["document"] for row in told["failed documents"]] == ["torn.pdf"]
    assert webserver.check("chunks", PRESENT)[0] and webserver.check("search_index", PRESENT)[0]


def test_a_check_is_evaluated_without_its_asset(project: Project, instance: dg.DagsterInstance) -> None:
    selected = dg.AssetSelection.checks(*(dg.AssetCheckKey(dg.AssetKey(name), PRESENT) for name in EMBEDDED))
    definitions = build_defs()

    def passed() -> dict[str, bool]:
        result = dg.materialize(
            [each for each in definitions.assets or [] if isinstance(each, dg.AssetsDefinition)],
            selection=selected,
            instance=instance,
            resources=dict(definitions.resources or {}),
            run_config=QUIET,
        )
        assert not result.get_asset_materialization_events()
        return {item.asset_key.to_user_string(): item.passed for item in result.get_asset_check_evaluations()}

    assert passed() == dict.fromkeys(EMBEDDED, True)
    project.configure(embedder={**project.settings["embedder"], "model": "another"})
    assert passed() == dict.fromkeys(EMBEDDED, False)
