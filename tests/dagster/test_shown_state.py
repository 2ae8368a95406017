"""Answers of Dagster's webserver about an index: after a swap of its model, half a swap, and failures that stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.testclient import TestClient

from assets.definitions import build_defs
from pipelines.errors import IndexStateError
from resources.generations.direct_run import FAILED, PRESENT
from tests.dagster.test_automation import QUIET
from tests.support.projects import Project
from tests.support.waiting import until

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
LAUNCH = """mutation($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) { __typename
  ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
RUN = """query($id: ID!) { runOrError(runId: $id) { ... on Run { status tags { key value } } } }"""


LAUNCHING = """
telemetry: {enabled: false}
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
"""
"""Runs are launched at once, without the queue of a daemon."""
RECORDING = """
telemetry: {enabled: false}
event_log_storage: {module: dagster._core.storage.event_log, class: InMemoryEventLogStorage}
"""
"""Runs are made in this process alone, so their records need no files, whose writes are most of the time of a run."""
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

    def reload(self) -> None:
        """Load the code location again, as the button does."""
        self._context.reload_code_location("pincite")

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

    def launch(self, *names: str) -> dict[str, str]:
        """Launch one run of assets without partitions, as "Materialize" does; return its tags when it has ended."""
        selection = [{"path": [name]} for name in names]
        (repository,) = self.instance_repositories()
        selector = {**repository, "pipelineName": "__ASSET_JOB", "assetSelection": selection}
        given = {"selector": selector, "runConfigData": json.dumps(QUIET), "mode": "default"}
        launched = self.ask(LAUNCH, params=given)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id = launched["run"]["runId"]

        def ended() -> dict[str, Any] | None:
            run = self.ask(RUN, id=run_id)["runOrError"]
            return run if run["status"] in ("SUCCESS", "FAILURE", "CANCELED") else None

        run = until(ended, "the run ends")
        assert run is not None
        assert run["status"] == "SUCCESS", [
            entry.dagster_event.message
            for entry in self.instance.all_logs(run_id)
            if entry.dagster_event and entry.dagster_event.is_failure
        ]
        return {tag["key"]: tag["value"] for tag in run["tags"]}

    def instance_repositories(self) -> list[dict[str, str]]:
        found = self.ask("{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }")
        nodes = found["repositoriesOrError"]["nodes"]
        return [{"repositoryName": node["name"], "repositoryLocationName": node["location"]["name"]} for node in nodes]


def values(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Metadata by label: numbers, texts, and the records of tables."""
    found: dict[str, Any] = {}
    for entry in entries:
        if "table" in entry:
            found[entry["label"]] = [json.loads(record) for record in entry["table"]["records"]]
        else:
            found[entry["label"]] = entry.get("intValue", entry.get("text"))
    return found


@pytest.fixture(autouse=True)
def two_buckets(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that the environment names: each bucket is a partition, with records of its own."""
    project.configure(buckets=BUCKETS)
    monkeypatch.setenv("PINCITE_CONFIG", str(project.config))


@contextmanager
def opened(home: Path, settings: str) -> Iterator[Webserver]:
    """A webserver over an instance with these settings."""
    home.mkdir()
    (home / "dagster.yaml").write_text(settings)
    target = ModuleTarget("pincite.definitions", attribute=None, working_directory=None, location_name="pincite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        with dg.DagsterInstance.from_config(str(home)) as instance, WorkspaceProcessContext(instance, target) as found:
            yield Webserver(found, instance)


@pytest.fixture
def webserver(tmp_path: Path) -> Iterator[Webserver]:
    """A webserver that shows the runs of this process."""
    with opened(tmp_path / "home", RECORDING) as found:
        yield found


@pytest.fixture
def launching(tmp_path: Path) -> Iterator[Webserver]:
    """A webserver that launches runs, as processes of their own."""
    with opened(tmp_path / "home", LAUNCHING) as found:
        yield found


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance that nobody looks at."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def run(instance: dg.DagsterInstance, tags: dict[str, str] = SPAN, *names: str) -> None:
    """The job `index` in this process, of these assets alone if any are named."""
    job = build_defs().resolve_job_def("index")
    selection = [dg.AssetKey(name) for name in names] or None
    assert job.execute_in_process(QUIET, instance=instance, tags=tags, asset_selection=selection).success


def test_a_swap_is_seen_and_done_from_the_page(project: Project, launching: Webserver) -> None:
    run(launching.instance)
    assert launching.stale() == set()
    assert launching.partition("chunk_embeddings", "01") == ("FRESH", set())
    served = project.hits("boiler inspection")

    project.configure(embedder={**project.settings["embedder"], "model": "another"})
    launching.reload()
    assert launching.stale() >= {"search_index"}
    stale, why = launching.partition("chunk_embeddings", "01")
    assert stale == "STALE" and "has a new code version" in why
    assert launching.partition("parsed_elements", "01") == ("FRESH", set()), "the embedder shapes no elements"

    # Half of it: one bucket by a backfill. Readers are served what they were.
    run(launching.instance, {**ONE, "dagster/backfill": "half"}, "chunk_embeddings")
    assert launching.partition("chunk_embeddings", "00")[0] == "FRESH"
    assert launching.partition("chunk_embeddings", "01")[0] == "STALE"
    passed, told = launching.check("chunk_embeddings", PRESENT)
    assert not passed
    assert 0 <= told["documents by the present settings"] < told["documents that readers are served"]
    assert told["generation that readers are served"] == 1
    latest = launching.latest("chunk_embeddings")
    assert latest["00"]["dagster/row_count"] == latest["01"]["dagster/row_count"], "that of what is served"
    assert project.hits("boiler inspection") == served

    # The rest: materialising what the lineage shows as unsynced does the swap, each stage once, and nothing is left.
    tags = launching.launch(*launching.stale())
    computed = sum(values["documents computed"] for values in launching.latest("sentence_embeddings").values())
    assert computed == len(project.rows("SELECT 1 FROM g0002.documents")), "no later pass hides what was done"
    assert (tags["pincite/generation"], tags["pincite/embedder"]) == ("2", "another")
    assert launching.stale() == {"retrieval_quality"}, "the golden questions were asked of the generation before"
    for name in ("chunk_embeddings", "sentence_embeddings", "indexed_documents"):
        assert {launching.partition(name, bucket)[0] for bucket in ("00", "01")} == {"FRESH"}, name
    passed, told = launching.check("search_index", PRESENT)
    assert passed and told["documents by the present settings"] == told["documents that readers are served"]
    assert project.run("status").json["generations"][-1]["live"]
    assert {hit["uri"] for hit in project.hits("boiler inspection")} == {hit["uri"] for hit in served}


def test_a_part_of_a_swap_says_how_far_it_is(project: Project, instance: dg.DagsterInstance) -> None:
    run(instance)
    project.configure(embedder={**project.settings["embedder"], "model": "another"})
    run(instance, {**ONE, "dagster/backfill": "half"}, "corpus_statistics", "chunk_embeddings", "sentence_embeddings")
    with pytest.raises(IndexStateError, match=r"0 documents in the index by .* readers are served generation 1"):
        run(instance, {"dagster/backfill": "half"}, "sentence_links")


def test_a_failing_document_is_shown_until_it_is_mended(project: Project, webserver: Webserver) -> None:
    project.write("torn.pdf", "%PDF-1.7 torn")
    for _ in range(2):
        run(webserver.instance)
        for metadata in webserver.latest("parsed_elements").values():
            assert metadata["failures"] == 1
            (row,) = metadata["failed documents"]
            assert (row["document"], row["source"]) == ("torn.pdf", "docs")
        passed, told = webserver.check("parsed_elements", FAILED)
        assert not passed and told["failures"] == 1 and told["failed documents"] == [row]
        assert webserver.check("chunks", FAILED) == (True, {"failures": 0, "failed documents": "none"})
    computed = [values["documents computed"] for values in webserver.latest("parsed_elements").values()]
    assert computed == [0, 0], "each partition has its own run's numbers"

    project.write("torn.pdf.txt", "It is mended.")
    (project.docs / "torn.pdf").unlink()
    run(webserver.instance)
    assert {values["failures"] for values in webserver.latest("parsed_elements").values()} == {0}
    assert webserver.check("parsed_elements", FAILED)[0]


def test_the_index_alone_makes_all_that_it_lacks_with_its_checks(project: Project, webserver: Webserver) -> None:
    project.write("torn.pdf", "%PDF-1.7 torn")
    run(webserver.instance)
    project.configure(embedder={**project.settings["embedder"], "model": "another"}, chunking={"target_tokens": 60})
    webserver.reload()
    assert {"corpus_statistics", "term_statistics", "search_index"} <= webserver.stale()
    job = build_defs().resolve_implicit_global_asset_job_def()
    alone = [dg.AssetKey("search_index")]
    assert job.execute_in_process(QUIET, instance=webserver.instance, asset_selection=alone).success
    assert webserver.stale() <= {"retrieval_quality"}
    assert not webserver.check("parsed_elements", FAILED)[0], "the document fails in this run too"
    assert webserver.check("chunks", PRESENT)[0] and webserver.check("search_index", PRESENT)[0]


def test_a_check_is_evaluated_without_its_asset(project: Project, instance: dg.DagsterInstance) -> None:
    run(instance)
    project.configure(embedder={**project.settings["embedder"], "model": "another"})
    run(instance, {"dagster/backfill": "all", **SPAN}, "corpus_statistics", "chunk_embeddings")
    checked = dg.AssetSelection.checks(*(dg.AssetCheckKey(dg.AssetKey(name), PRESENT) for name in EMBEDDED))
    definitions = build_defs()
    result = dg.materialize(
        [each for each in definitions.assets or [] if isinstance(each, dg.AssetsDefinition)],
        selection=checked,
        instance=instance,
        resources=dict(definitions.resources or {}),
        run_config=QUIET,
    )
    passed = {item.asset_key.to_user_string(): item.passed for item in result.get_asset_check_evaluations()}
    assert passed == {"chunk_embeddings": True, "sentence_embeddings": False}
    assert not result.get_asset_materialization_events()
