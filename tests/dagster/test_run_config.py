"""What a launched run may choose: which known sources, and whether deletions are meant. Nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest

from assets.definitions import build_defs
from resources.dagster_resource import StateResource
from resources.settings_file import locate
from resources.state.state import State
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
SPAN = {"dagster/asset_partition_range_start": "00", "dagster/asset_partition_range_end": "03"}

LISTING = [dg.AssetKey("raw_documents")]


@pytest.fixture(scope="module")
def project(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Documents that no run of these tests makes anything of."""
    folder, embedder = tmp_path_factory.mktemp("refused") / "project", {"endpoint": endpoint.url, "model": "fake"}
    with new_database(server_url) as url:
        yield make_project(folder, database=url, buckets=4, embedder=embedder)


@pytest.fixture(scope="module")
def job() -> dg.JobDefinition:
    return build_defs(buckets=4).resolve_job_def("index")


def fields_of(kind: Any, place: str = "") -> Iterator[str]:
    """Every value that a configuration may set, as a path."""
    fields = getattr(kind, "fields", None)
    if not fields:
        yield place
    for name, field in (fields or {}).items():
        yield from fields_of(field.config_type, f"{place}.{name}" if place else name)


@pytest.mark.defends("5a")
def test_nothing_that_a_run_can_be_told_names_a_file_an_endpoint_or_a_database(job: dg.JobDefinition) -> None:
    named = set(fields_of(job.run_config_schema.config_type))
    assert {place for place in named if ".config." in place and place.startswith(("ops.", "resources."))} == {
        "ops.raw_documents.config.sources",
        "ops.raw_documents.config.allow_deletions",
    }
    assert {place.partition(".")[0] for place in named} == {"execution", "loggers", "ops", "resources"}


@pytest.mark.defends("5a")
@pytest.mark.parametrize("name", ["config", "state"])
def test_a_run_with_settings_or_a_state_of_its_own_is_refused_by_name(job: dg.JobDefinition, name: str) -> None:
    launched = {**QUIET, "resources": {"state": {"config": {name: "/tmp/of-their-choice"}}}}
    with pytest.raises(dg.DagsterInvalidConfigError, match=name):
        dg.validate_run_config(job, launched)


def test_settings_and_state_come_from_the_environment_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = StateResource()
    assert set(type(resource).model_fields) == set(dg.ConfigurableResource.model_fields)
    project = make_project(tmp_path / "named later", {})
    monkeypatch.setenv("PINCITE_CONFIG", str(project.config))
    monkeypatch.setenv("PINCITE_STATE", str(tmp_path / "state"))
    with (
        mock.patch("resources.dagster_resource.State") as opened,
        dg.build_init_resource_context() as context,
        resource.yield_for_execution(context),
    ):
        pass
    located = opened.call_args.args[0]
    assert (located.file, located.state) == (project.config, tmp_path / "state")


@pytest.mark.defends("5a")
@pytest.mark.integration
@pytest.mark.dagster
@pytest.mark.parametrize("value", ["/etc", "stolen=/etc", "../..", {"env": "THE_KEY"}])
def test_a_run_lists_known_sources_only_and_repeats_no_variable(
    project: Project, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-a-key-that-nobody-may-read")
    state = State(locate(str(project.config)))
    try:
        result = (
            build_defs({"state": state}, 4)
            .resolve_job_def("index")
            .execute_in_process(
                {**QUIET, "ops": {"raw_documents": {"config": {"sources": [value]}}}},
                instance=dg.DagsterInstance.ephemeral(),
                tags=SPAN,
                asset_selection=LISTING,
                raise_on_error=False,
            )
        )
        (failure,) = [event for event in result.get_step_failure_events() if event.step_key == "raw_documents"]
        assert "a source that this state does not know; known: docs" in str(failure.event_specific_data)
        assert "sk-a-key" not in "".join(map(str, result.all_events))
        assert list(state.listing.raw_documents()) == []
    finally:
        state.close()


@pytest.mark.integration
@pytest.mark.dagster
def test_buckets_of_other_settings_are_refused_with_the_remedy(project: Project) -> None:
    state = State(locate(str(project.config)))
    try:
        result = (
            build_defs({"state": state}, 5)
            .resolve_job_def("index")
            .execute_in_process(
                QUIET,
                instance=dg.DagsterInstance.ephemeral(),
                tags={**SPAN, "dagster/asset_partition_range_end": "04"},
                asset_selection=LISTING,
                raise_on_error=False,
            )
        )
        (failure,) = [event for event in result.get_step_failure_events() if event.step_key == "raw_documents"]
        assert "have 4 buckets, but Dagster loaded 5: reload the code location" in str(failure.event_specific_data)
    finally:
        state.close()
