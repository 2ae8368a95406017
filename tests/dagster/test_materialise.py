"""The index made through plain Dagster: whole, in ranges of buckets, bucket by bucket; and its checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.definitions import build_defs
from assets.index import CHECKS
from assets.metadata import table
from pipelines.errors import IndexStateError
from resources.checks.stages import CHECKS as CHECKED
from resources.generations.direct_run import FAILED, PRESENT
from resources.settings_file import locate
from resources.state.state import State
from tests.dagster.test_definitions import BUCKETED, WHOLE
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, content, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.dagster]

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
BEFORE_STATISTICS = ("raw_documents", "parsed_elements", "figure_descriptions", "structural_chunks", "packed_chunks")
BEFORE_INDEX = tuple(name for name in BUCKETED if name not in (*BEFORE_STATISTICS, "indexed_documents"))
KEYS = ("00", "01", "02", "03")
BACKFILL = {"dagster/backfill": "parts"}


def span(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


@contextmanager
def opened(project: Project) -> Iterator[State]:
    state = State(locate(str(project.config)))
    try:
        yield state
    finally:
        state.close()


def assets() -> list[dg.AssetsDefinition]:
    made = list(build_defs(buckets=4).assets or [])
    found = [each for each in made if isinstance(each, dg.AssetsDefinition)]
    assert found == made != []
    return found


def materialise(project: Project, names: Sequence[str], keys: Sequence[str] = KEYS) -> dg.ExecuteInProcessResult:
    """One run of some assets over a range of buckets, as a backfill makes it."""
    with opened(project) as state:
        return dg.materialize(
            assets(),
            selection=list(names),
            instance=dg.DagsterInstance.ephemeral(),
            resources={"state": state},
            run_config=QUIET,
            tags=BACKFILL | (span(keys[0], keys[-1]) if set(names) <= BUCKETED.keys() else {}),
        )


def check(project: Project, *names: str) -> dict[str, dg.AssetCheckEvaluation]:
    """The asset checks by themselves: those of these names alone if any are given."""
    keys = [spec.key for each in CHECKS for spec in each.check_specs if spec.name in names]
    with opened(project) as state:
        result = dg.materialize(
            [*assets(), *CHECKS],
            selection=dg.AssetSelection.checks(*keys) if names else dg.AssetSelection.all_asset_checks(),
            instance=dg.DagsterInstance.ephemeral(),
            resources={"state": state},
            run_config=QUIET,
            raise_on_error=False,
        )
    return {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}


@pytest.fixture(scope="module")
def run(
    server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, dg.ExecuteInProcessResult]]:
    """The whole index by the job `index` as the nightly schedule asks for it. The environment names settings and
    state."""
    folder, embedder = tmp_path_factory.mktemp("whole"), {"endpoint": endpoint.url, "model": "fake"}
    with new_database(server_url) as url:
        project = make_project(folder / "project", database=url, buckets=len(KEYS), embedder=embedder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PINCITE_CONFIG", str(project.config))
            patch.setenv("PINCITE_STATE", str(project.folder / "elsewhere"))
            definitions, night = build_defs(), datetime(2026, 1, 2, 2, tzinfo=UTC)
            tick = dg.build_schedule_context(scheduled_execution_time=night)
            (request,) = definitions.resolve_schedule_def("nightly").evaluate_tick(tick).run_requests or []
            job = definitions.resolve_job_def("index")
            instance = dg.DagsterInstance.ephemeral()
            result = job.execute_in_process(instance=instance, run_config=QUIET, tags=dict(request.tags))
        assert not project.state.exists()
        project.configure(state="elsewhere")
        yield project, result


@pytest.fixture
def copied(run: tuple[Project, dg.ExecuteInProcessResult], server_url: str, tmp_path: Path) -> Iterator[Project]:
    """The whole index, its own to change."""
    with project_copy(run[0], server_url, tmp_path / "copy") as copy:
        yield copy


Run = tuple[Project, dg.ExecuteInProcessResult]


def metadata(result: dg.ExecuteInProcessResult, name: str) -> list[tuple[str | None, dict[str, Any]]]:
    """(partition, metadata) of every materialisation of an asset, by partition."""
    made = [event for event in result.get_asset_materialization_events() if event.asset_key == dg.AssetKey(name)]
    return [
        (event.partition, {key: value.value for key, value in event.materialization.metadata.items()})
        for event in sorted(made, key=lambda event: event.partition or "")
    ]


def test_the_job_makes_every_asset_in_every_bucket(run: Run) -> None:
    project, result = run
    assert result.success
    for name in BUCKETED:
        assert [partition for partition, _ in metadata(result, name)] == list(KEYS), name
    for name in WHOLE:
        assert [partition for partition, _ in metadata(result, name)] == [None], name
    assert project.hits("annual leave")[0]["uri"] == "handbook.md"


def test_a_partition_carries_its_own_counts(run: Run) -> None:
    _, result = run
    for name in ("parsed_elements", "chunks", "sentences", "chunk_embeddings"):
        found = metadata(result, name)
        rows = [values["dagster/partition_row_count"] for _, values in found]
        assert sum(rows) == found[0][1]["dagster/row_count"] > 0, name
        assert sum(values["documents computed"] for _, values in found) == found[0][1]["run: documents computed"], name
        assert len(set(rows)) > 1, name


def test_materializations_carry_useful_metadata(run: Run) -> None:
    project, result = run
    (_, packed), *_ = metadata(result, "packed_chunks")
    assert "█" in packed["tokens"]
    ((_, frozen),) = metadata(result, "corpus_statistics")
    (status,) = project.run("status").json["generations"]
    assert frozen["calibration"] == table(status["overlap"])
    columns = [column.name for column in frozen["calibration"].schema.columns]
    assert columns[:5] == ["language", "floor", "calibrated", "pairs", "share"]
    (_, divided), *_ = metadata(result, "sentences")
    counts = project.run("status").json["sentences"]
    assert {name: divided[name] for name in counts} == counts and divided["kept"] == divided["dagster/row_count"] > 0
    (_, embedded), *_ = metadata(result, "chunk_embeddings")
    assert (embedded["embedder"], embedded["dimension"]) == ("fake", 16)
    assert embedded["run: texts embedded"] == embedded["dagster/row_count"]
    ((_, index),) = metadata(result, "search_index")
    assert (index["generation"], index["published"], index["documents rows"]) == (1, True, 6)
    ((_, quality),) = metadata(result, "retrieval_quality")
    assert "publish.golden" in quality["remedy"]


def test_the_checks_of_the_job_pass(run: Run) -> None:
    _, result = run
    passed = {evaluation.check_name: evaluation.passed for evaluation in result.get_asset_check_evaluations()}
    assert passed == dict.fromkeys([*CHECKED, "sources_listed", FAILED, PRESENT], True)


# ---------------------------------------------------------------- parts of the whole


@pytest.mark.faults
def test_backfills_in_parts_make_the_same_rows(run: Run, project: Project) -> None:
    whole, _ = run
    wanted = content(whole)
    assert all(wanted[table] for table in ("documents", "chunks", "sentences", "terms", "postings"))
    for names in (BEFORE_STATISTICS, BEFORE_INDEX, ("indexed_documents",)):
        for keys in (KEYS[3:], KEYS[1:3], KEYS[:1]):
            assert materialise(project, names, keys).success
    assert materialise(project, list(WHOLE)).success
    assert content(project) == wanted


def test_a_bucket_by_itself_touches_no_other(run: Run) -> None:
    whole, _ = run
    result = materialise(whole, list(BUCKETED), KEYS[1:2])
    assert [partition for partition, _ in metadata(result, "chunks")] == ["01"]
    assert metadata(result, "chunk_embeddings")[0][1]["documents computed"] == 0


def test_an_embedder_is_swapped_by_backfills_of_embeddings_and_index(
    copied: Project, endpoint: EmbeddingServer
) -> None:
    """Nothing before the vectors is materialised. Readers have the old generation until the new one is whole."""
    embedded, first, rest = ("chunk_embeddings", "sentence_embeddings"), KEYS[:2], KEYS[2:]

    def published(*names: str) -> tuple[bool, list[Mapping[str, Any]]]:
        ((_, index),) = metadata(materialise(copied, names), "search_index")
        found = [] if index["problems"] == "none" else [problem.data for problem in index["problems"].records]
        return index["published"], found

    endpoint.forget()
    copied.configure(embedder={"endpoint": endpoint.url, "model": "another"})
    assert materialise(copied, [*embedded, "indexed_documents"], first).success
    assert materialise(copied, embedded, rest).success
    told, (problem,) = published("sentence_links", "search_index")
    assert (told, problem["code"]) == (False, "missing_bucket") and "02, 03" in problem["message"]
    assert copied.rows("SELECT generation FROM pincite.live") == [(1,)]
    agree = "parquet_and_postgres_agree"
    assert check(copied, agree)[agree].passed, "what was written is right"

    assert materialise(copied, ["indexed_documents"], rest).success
    assert endpoint.texts
    copied.rows("UPDATE g0002.documents SET row_hash = reverse(row_hash) WHERE uri = 'boilers.txt'")
    told, found = published("search_index")
    assert not told and "differs between Parquet and Postgres" in str(found)
    assert copied.rows("SELECT generation FROM pincite.live") == [(1,)]

    copied.rows("UPDATE g0002.documents SET row_hash = reverse(row_hash) WHERE uri = 'boilers.txt'")
    assert published("search_index") == (True, [])
    assert copied.rows("SELECT generation FROM pincite.live") == [(2,)]
    assert not [evaluation for evaluation in check(copied).values() if not evaluation.passed]


def test_an_input_never_materialized_is_named_with_its_remedy(project: Project) -> None:
    with pytest.raises(
        IndexStateError, match=r"raw_documents has not been made.* for bucket 02; materialise raw_documents first"
    ):
        materialise(project, ["parsed_elements"], ("02",))
    materialise(project, BEFORE_STATISTICS, ("02",))
    with pytest.raises(IndexStateError, match=r"packed_chunks has not been made for bucket 00.*for all buckets first"):
        materialise(project, ["chunks"], ("02",))


# ---------------------------------------------------------------- checks that fail


def shown(evaluation: dg.AssetCheckEvaluation) -> str:
    return str(evaluation.metadata["examples"].value)


def codes_of(evaluation: dg.AssetCheckEvaluation) -> set[str]:
    examples: Any = evaluation.metadata["examples"].value
    return {record.data["code"] for record in examples.records}


def test_checks_see_what_was_done_behind_their_back(copied: Project) -> None:
    copied.rows("INSERT INTO g0001.sentence_links VALUES ('nowhere', 'nobody', 0.99)")
    copied.rows("DELETE FROM g0001.sentences WHERE ordinal = 0")
    made = check(copied)
    assert not made["audited"].passed
    assert "nowhere" in shown(made["audited"])
    assert not made["parquet_and_postgres_agree"].passed
    assert "changed by somebody else" in shown(made["parquet_and_postgres_agree"])
    assert codes_of(made["parquet_and_postgres_agree"]) == {"disagree"}
    assert "what mends them" in shown(made["parquet_and_postgres_agree"])

    copied.rows("DELETE FROM g0001.documents WHERE uri = 'boilers.txt'")
    made = check(copied)
    assert not made["parquet_and_postgres_agree"].passed
    assert "differs between Parquet and Postgres" in shown(made["parquet_and_postgres_agree"])
    assert made["no_empty_documents"].passed


def test_a_source_that_cannot_be_listed_is_a_warning_that_names_it(copied: Project) -> None:
    copied.write("rota.txt", "Rosters are drawn up by the staff.", copied.folder / "annexe")
    sources = [{"name": name, "path": name} for name in ("docs", "annexe")]
    copied.configure(sources=sources)
    copied.index()
    (copied.folder / "annexe").rename(copied.folder / "away")
    evaluation = check(copied, "sources_listed")["sources_listed"]
    assert (evaluation.passed, evaluation.severity, evaluation.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
    told = str(evaluation.metadata["sources_not_listed"].value)
    assert "annexe" in told and "docs" not in told.replace(str(copied.folder), "")
    copied.write("new.txt", "Something to index.")
    assert copied.index(code=3)["published"], "it does not hold up the others"
