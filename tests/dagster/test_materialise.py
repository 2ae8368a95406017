"""The index made through plain Dagster: whole, in ranges of buckets, bucket by bucket; and its checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from tests.support.projects import Project, content, make_project, new_database

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


def check(project: Project) -> dict[str, dg.AssetCheckEvaluation]:
    """The asset checks by themselves."""
    with opened(project) as state:
        result = dg.materialize(
            [*assets(), *CHECKS],
            selection=dg.AssetSelection.all_asset_checks(),
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
    """The whole index by the job `index`, with settings and state as the environment names them."""
    folder, embedder = tmp_path_factory.mktemp("whole"), {"endpoint": endpoint.url, "model": "fake"}
    with new_database(server_url) as url:
        project = make_project(folder / "project", database=url, buckets=len(KEYS), embedder=embedder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PINCITE_CONFIG", str(project.config))
            patch.setenv("PINCITE_STATE", str(folder / "elsewhere"))
            job = build_defs().resolve_job_def("index")
            instance = dg.DagsterInstance.ephemeral()
            result = job.execute_in_process(instance=instance, run_config=QUIET, tags=span(KEYS[0], KEYS[-1]))
        assert not project.state.exists()
        project.configure(state=str(folder / "elsewhere"))
        yield project, result


Run = tuple[Project, dg.ExecuteInProcessResult]


def metadata(result: dg.ExecuteInProcessResult, name: str) -> list[tuple[str | None, dict[str, Any]]]:
    """(partition, metadata) of every materialisation of an asset, by partition."""
    made = [event for event in result.get_asset_materialization_events() if event.asset_key == dg.AssetKey(name)]
    return [
        (event.partition, {key: value.value for key, value in event.materialization.metadata.items()})
        for event in sorted(made, key=lambda event: event.partition or "")
    ]


def test_the_job_makes_every_asset_in_every_bucket(run: Run) -> None:
    _, result = run
    assert result.success
    for name in BUCKETED:
        assert [partition for partition, _ in metadata(result, name)] == list(KEYS), name
    for name in WHOLE:
        assert [partition for partition, _ in metadata(result, name)] == [None], name


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
def test_backfills_in_parts_make_the_same_rows(
    run: Run, project: Project, server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    whole, _ = run
    wanted = content(whole)
    assert all(wanted[table] for table in ("documents", "chunks", "sentences", "terms", "postings"))
    with new_database(server_url) as url:
        settings = {"database": url, "buckets": len(KEYS), "embedder": project.settings["embedder"]}
        halves = make_project(tmp_path / "halves", **settings)
        for names in (BEFORE_STATISTICS, BEFORE_INDEX, ("indexed_documents",)):
            for keys in (KEYS[:2], KEYS[2:]):
                assert materialise(halves, names, keys).success
        assert materialise(halves, list(WHOLE)).success
        assert content(halves) == wanted

    for names in (BEFORE_STATISTICS, BEFORE_INDEX, ("indexed_documents",)):
        for key in reversed(KEYS):
            assert materialise(project, names, (key,)).success
    assert materialise(project, list(WHOLE)).success
    assert content(project) == wanted


def test_a_bucket_by_itself_touches_no_other(run: Run) -> None:
    whole, _ = run
    result = materialise(whole, list(BUCKETED), KEYS[1:2])
    assert [partition for partition, _ in metadata(result, "chunks")] == ["01"]
    assert metadata(result, "chunk_embeddings")[0][1]["documents computed"] == 0


def test_half_a_generation_is_not_published(project: Project) -> None:
    for names in (BEFORE_STATISTICS, BEFORE_INDEX):
        assert materialise(project, names).success
    assert materialise(project, ["indexed_documents"], KEYS[:2]).success
    result = materialise(project, ["sentence_links", "search_index"])
    ((_, index),) = metadata(result, "search_index")
    assert index["published"] is False
    (problem,) = index["problems"].records
    assert problem.data["code"] == "missing_bucket"
    assert "02, 03" in problem.data["message"]
    assert project.rows("SELECT * FROM pincite.live") == []
    assert check(project)["parquet_and_postgres_agree"].passed, "what was written is right"

    assert materialise(project, ["indexed_documents"], KEYS[2:]).success
    ((_, index),) = metadata(materialise(project, ["sentence_links", "search_index"]), "search_index")
    assert index["published"] is True


def test_an_embedder_is_swapped_by_backfills_of_embeddings_and_index(
    project: Project, endpoint: EmbeddingServer
) -> None:
    """Nothing before the vectors is materialised, and readers have the old generation to the end."""
    for names in (BEFORE_STATISTICS, [*BEFORE_INDEX, "indexed_documents"], ["sentence_links", "search_index"]):
        assert materialise(project, names).success
    endpoint.forget()
    project.configure(embedder={"endpoint": endpoint.url, "model": "another"})
    for keys in (KEYS[:2], KEYS[2:]):
        for stages in (("chunk_embeddings", "sentence_embeddings"), ("indexed_documents",)):
            assert materialise(project, stages, keys).success
            assert project.rows("SELECT generation FROM pincite.live") == [(1,)]
    assert endpoint.texts
    ((_, index),) = metadata(materialise(project, ["sentence_links", "search_index"]), "search_index")
    assert (index["published"], index["audited"]) == (True, True)
    assert project.rows("SELECT generation FROM pincite.live") == [(2,)]
    assert not [evaluation for evaluation in check(project).values() if not evaluation.passed]


def test_publishing_by_itself_looks_at_what_other_runs_made(project: Project) -> None:
    for names in (BEFORE_STATISTICS, [*BEFORE_INDEX, "indexed_documents"], ["sentence_links"]):
        assert materialise(project, names).success
    project.rows("DELETE FROM g0001.documents WHERE uri = 'boilers.txt'")
    ((_, index),) = metadata(materialise(project, ["search_index"]), "search_index")
    assert index["published"] is False
    assert "differs between Parquet and Postgres" in str(index["problems"])
    assert project.rows("SELECT * FROM pincite.live") == []


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


def test_checks_see_what_was_done_behind_their_back(run: Run) -> None:
    whole, _ = run
    assert all(evaluation.passed for evaluation in check(whole).values())

    whole.rows("INSERT INTO g0001.sentence_links VALUES ('nowhere', 'nobody', 0.99)")
    made = check(whole)
    assert not made["audited"].passed
    assert "nowhere" in shown(made["audited"])

    whole.rows("DELETE FROM g0001.sentences WHERE ordinal = 0")
    made = check(whole)
    assert not made["parquet_and_postgres_agree"].passed
    assert "changed by somebody else" in shown(made["parquet_and_postgres_agree"])
    assert codes_of(made["parquet_and_postgres_agree"]) == {"disagree"}
    assert "what mends them" in shown(made["parquet_and_postgres_agree"])

    whole.rows("DELETE FROM g0001.documents WHERE uri = 'boilers.txt'")
    made = check(whole)
    assert not made["parquet_and_postgres_agree"].passed
    assert "differs between Parquet and Postgres" in shown(made["parquet_and_postgres_agree"])
    assert made["no_empty_documents"].passed


def test_a_source_that_cannot_be_listed_is_a_warning_that_names_it(project: Project) -> None:
    project.write("rota.txt", "Rosters are drawn up by the staff.", project.folder / "annexe")
    sources = [{"name": name, "path": name} for name in ("docs", "annexe")]
    project.configure(sources=sources)
    project.index()
    assert check(project)["sources_listed"].passed
    (project.folder / "annexe").rename(project.folder / "away")
    evaluation = check(project)["sources_listed"]
    assert (evaluation.passed, evaluation.severity, evaluation.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
    told = str(evaluation.metadata["sources_not_listed"].value)
    assert "annexe" in told and "docs" not in told.replace(str(project.folder), "")
    project.write("new.txt", "Something to index.")
    assert project.index(code=3)["published"], "it does not hold up the others"
