"""Runs of some buckets each, beside each other, as the settings part a backfill (`buckets_per_run`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from assets.definitions import build_defs
from pipelines.errors import IndexStateError, UsageError
from pipelines.ranges import MOST_IN_FILE, buckets_over
from pipelines.settings.base import Settings
from resources.dagster_instance.home import GONE_FOR, PROCESS, close_dead_runs, dagster_home, dead_runs, present
from resources.postgres.database import Database
from resources.settings_file import locate
from resources.state.launched import buckets_alone
from resources.state.run import Run
from resources.state.state import State
from tests.dagster.test_definitions import BUCKETED
from tests.dagster.test_materialise import BEFORE_INDEX, BEFORE_STATISTICS, QUIET, span
from tests.faults.held_run import called_at_once
from tests.support.direct_runs import direct_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, content, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.dagster]

HALVES = (("00", "01"), ("02", "03"))


@contextmanager
def found(project: Project) -> Iterator[None]:
    """Runs find the project as launched ones do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PINCITE_CONFIG", str(project.config))
        yield


def launch(names: Sequence[str], keys: Sequence[str] | None = None) -> dg.ExecuteInProcessResult:
    """One run, as a backfill launches it."""
    job = build_defs().resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(
            asset_selection=[dg.AssetKey(name) for name in names],
            instance=instance,
            run_config=QUIET,
            tags=span(keys[0], keys[-1]) if keys else None,
            raise_on_error=False,
        )


def launched_half(config: str, most: int, names: Sequence[str], keys: Sequence[str]) -> str:
    """Make one run in a process of its own; return its failures."""
    os.environ["PINCITE_CONFIG"] = config
    with files_of(most):
        return failure(launch(names, keys))


@contextmanager
def files_of(most: int) -> Iterator[None]:
    """Let files of the state hold this many documents at most, and join none that hold more than half of it."""
    with mock.patch("pipelines.ranges.MOST_IN_FILE", most), mock.patch("pipelines.ranges.FEWEST_IN_FILES", most // 2):
        yield


def both(names: Sequence[str], most: int) -> None:
    """Two runs at once, each in a process of its own."""
    config = os.environ["PINCITE_CONFIG"]
    assert called_at_once(launched_half, *((config, most, names, keys) for keys in HALVES)) == ["", ""]


def failure(result: dg.ExecuteInProcessResult) -> str:
    return "".join(str(event.event_specific_data) for event in result.all_events if event.is_failure)


@pytest.fixture
def parted(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    """Nothing has been made yet; a run has two of four buckets."""
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(tmp_path / "parted", database=url, embedder=embedder, buckets=4, buckets_per_run=2)
        with found(project):
            yield project


def everything(most: int = MOST_IN_FILE) -> None:
    """All assets, in two runs at once where each has some buckets."""
    assert launch(["raw_documents"], ("00", "03")).success
    assert launch(["kept_generations"]).success
    both(BEFORE_STATISTICS[1:], most)
    assert launch(["corpus_statistics"]).success
    both(BEFORE_INDEX, most)
    assert launch(["sentence_links", "term_statistics"]).success
    both(["indexed_documents"], most)
    assert launch(["search_index"]).success
    assert launch(["retrieval_quality"]).success


@pytest.fixture(scope="module")
def of_one_run(
    server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """An index that one run of all buckets has made."""
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        folder = tmp_path_factory.mktemp("alone") / "project"
        alone = make_project(folder, database=url, embedder=embedder, buckets=4, buckets_per_run=2)
        with direct_runs():
            alone.index()
        yield alone


@pytest.fixture
def indexed(of_one_run: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    """A copy of that index, which a test may change."""
    with project_copy(of_one_run, server_url, tmp_path / "copy") as copy, found(copy):
        yield copy


@pytest.mark.faults
def test_ranges_side_by_side_make_the_rows_of_one_run(parted: Project, of_one_run: Project) -> None:
    with files_of(1):
        everything(1)
    assert content(parted) == content(of_one_run)
    assert parted.run("verify").json["ok"] is True


@pytest.mark.faults
def test_ranges_side_by_side_take_over_what_other_buckets_have(
    parted: Project, of_one_run: Project, endpoint: EmbeddingServer
) -> None:
    parted.configure(buckets=5)
    with direct_runs():
        parted.index()
    endpoint.forget()
    parted.configure(buckets=4)
    everything()
    assert [text for text in endpoint.texts if text != "dimension"] == []
    assert content(parted) == content(of_one_run)
    assert parted.rows("SELECT generation FROM pincite.live") == [(2,)]
    made = parted.rows("SELECT first, after FROM pincite.manifest WHERE table_name = 'chunks'")
    assert all(len(buckets_over(ends, 4)) == 1 for ends in made)
    assert parted.run("verify").json["ok"] is True


def test_a_range_may_not_write_other_buckets(indexed: Project) -> None:
    with closing(State(locate(str(indexed.config)), Run("one", buckets=frozenset({0, 1})))) as state:
        rows, key = state.engine.commits("packed_chunks").rows, state.engine.key("packed_chunks")
        with state.parts.database.share("index", [0, 1]):
            state.catalog.commit([rows[1]], "packed_chunks", key, [rows[1].range], bucket=1)
            with pytest.raises(IndexStateError, match="may not write bucket 02") as caught:
                state.catalog.commit([rows[2]], "packed_chunks", key, [rows[2].range], bucket=2)
    assert caught.value.code == "not_held"


def test_a_range_does_nothing_for_the_whole_corpus(parted: Project) -> None:
    whole = ("00", "03")
    assert launch(BEFORE_STATISTICS, whole).success
    assert "materialise corpus_statistics first" in failure(launch(["chunks"], HALVES[0]))
    assert parted.rows("SELECT * FROM pincite.generations") == []
    assert launch(["corpus_statistics"]).success
    assert launch(BEFORE_INDEX, whole).success
    assert "materialise term_statistics first" in failure(launch(["indexed_documents"], HALVES[0]))
    assert parted.rows("SELECT * FROM g0001.documents") == []


@pytest.mark.faults
def test_a_range_mends_what_is_damaged_of_its_own_buckets_alone(indexed: Project) -> None:
    damaged = {
        first: next(indexed.state.glob(f"parquet/chunks/*/{first}-*.parquet")) for first in ("00000000", "80000000")
    }
    for file in damaged.values():
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    launch(BEFORE_INDEX, HALVES[0])
    assert indexed.rows("SELECT first FROM pincite.manifest WHERE table_name = 'chunks' AND run_id <> ''")
    assert damaged["80000000"].read_bytes().endswith(b"?")


@pytest.mark.parametrize(
    ("names", "tags", "per_run", "wanted"),
    [
        (["chunks"], span("00", "01"), 2, {0, 1}),
        (["parsed_elements", "packed_chunks"], {"dagster/partition": "03"}, 2, {3}),
        (["chunks"], span("00", "03"), 2, None),
        (["chunks"], span("00", "01"), None, None),
        (["chunks", "raw_documents"], span("00", "01"), 2, None),
        (["sentence_links"], {}, 2, None),
        ([], span("00", "01"), 2, None),
        (["chunks"], {}, 2, None),
    ],
)
def test_only_a_run_of_some_buckets_lets_others_run(
    names: list[str], tags: dict[str, str], per_run: int | None, wanted: set[int] | None
) -> None:
    selection = frozenset(map(dg.AssetKey, names)) or None
    run = dg.DagsterRun(job_name="any", tags=tags, asset_selection=selection)
    assert buckets_alone(run, Settings(buckets=4, buckets_per_run=per_run)) == wanted
    assert set(names) <= BUCKETED.keys() | {"sentence_links"}


@pytest.mark.parametrize(
    ("first", "last"),
    [("00", "9" * 12), ("00", "99999"), ("-1", "01"), ("../x", "01"), ("٠١", "٠٢"), ("03", "01"), ("", "02"),
     ("04", "04"), ("0" * 5000, "01"), ("1e3", "02")],
)  # fmt: skip
def test_a_run_of_buckets_that_are_none_is_refused_before_it_holds_anything(first: str, last: str) -> None:
    """Whoever launches a run writes its tags; a range of a million million would not fit into memory."""
    run = dg.DagsterRun(job_name="any", tags=span(first, last), asset_selection=frozenset({dg.AssetKey("chunks")}))
    with pytest.raises(UsageError, match="00 to 03"):
        buckets_alone(run, Settings(buckets=4, buckets_per_run=2))


# ---------------------------------------------------------------- runs that died

FORGED = [
    "none",
    "[]",
    '["a"]',
    '{"0": 1}',
    "[" * 100_000,
    '["x", "y", "../../etc", "1"]',
    "[1, 2, 3, 4]",
    '"text"',
    "12",
    "null",
]
"""What somebody may write into the tag by which pincite knows the process of a run."""

LAUNCHER = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("assets"), "__repository__"), "index")
BEGUN = dg.DagsterRunStatus.STARTED


def begun(instance: dg.DagsterInstance, **values: Any) -> str:
    """Store a run of the index that has begun, launched unless told otherwise; return its id."""
    run = dg.DagsterRun("index", status=BEGUN, **{"remote_job_origin": LAUNCHER, **values})
    return instance.add_run(run).run_id


@pytest.fixture
def opened(server_url: str, tmp_path: Path) -> Iterator[tuple[dg.DagsterInstance, Database, str]]:
    """An instance of Dagster, a database, and its address."""
    with (
        new_database(server_url) as url,
        Database(url, tmp_path) as database,
        dg.DagsterInstance.ephemeral() as instance,
    ):
        yield instance, database, url


def test_a_launched_run_whose_session_is_gone_is_failed_by_who_holds_no_lock(
    opened: tuple[dg.DagsterInstance, Database, str], tmp_path: Path
) -> None:
    """Its process is known and alive: the session alone counts, since the process may be on another machine."""
    instance, database, url = opened
    run_id, by_hand = begun(instance), begun(instance, remote_job_origin=None)
    with Database(url, tmp_path) as worker, present(instance, run_id, worker):
        assert dead_runs(instance, database, {}, 0.0) == ([], {})
    missed: dict[str, float] = {}
    while not missed:  # until the server has seen it
        dead, missed = dead_runs(instance, database, {}, 100.0)
        assert dead == []
    assert dead_runs(instance, database, missed, 100.0 + GONE_FOR - 1) == ([], {run_id: 100.0})
    assert dead_runs(instance, database, missed, 100.0 + GONE_FOR) == ([run_id], {})
    ended = {each: instance.get_run_by_id(each) for each in (run_id, by_hand)}
    assert {each: run and run.status for each, run in ended.items()} == {
        run_id: dg.DagsterRunStatus.FAILURE, by_hand: BEGUN,
    }  # fmt: skip


def test_a_launched_run_that_was_killed_before_it_had_a_session_is_failed_after_a_while(
    opened: tuple[dg.DagsterInstance, Database, str],
) -> None:
    instance, database, _ = opened
    run_id = begun(instance, tags=build_defs(buckets=4).resolve_job_def("index").run_tags)
    assert dead_runs(instance, database, {}, 0.0) == ([], {}), "it may be about to have one"
    assert dead_runs(instance, database, {}, 0.0, silent=timedelta(0)) == ([run_id], {})
    forged = [begun(instance, tags={PROCESS: tag}) for tag in FORGED]
    assert dead_runs(instance, database, {}, 0.0) == ([], {}), "a tag that others wrote says nothing"
    assert close_dead_runs(instance, database) == []
    assert dead_runs(instance, database, {}, 0.0, silent=timedelta(0)) == (sorted(forged), {})


def test_the_sensor_looks_only_where_workers_can_be_elsewhere(parted: Project) -> None:
    assert {each.name for each in build_defs().sensors or ()} == {"changed_sources", "dead_runs"}
    assert {each.name for each in build_defs(settings=Settings()).sensors or ()} == {"changed_sources"}
    sensor = build_defs().resolve_sensor_def("dead_runs")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance, cursor='{"gone": 1.0}')
        said = sensor.evaluate_tick(context)
        assert (said.skip_message, said.cursor) == ("no run was killed", "{}")


def _index() -> dg.JobDefinition:
    return build_defs().resolve_job_def("index")


@pytest.mark.faults
def test_a_run_is_tried_again_from_where_it_ended(project: Project, endpoint: EmbeddingServer, tmp_path: Path) -> None:
    """As Dagster tries one whose process was killed."""
    job = dg.reconstructable(_index)
    with found(project), dg.DagsterInstance.from_config(str(dagster_home(tmp_path))) as instance:
        endpoint.next(endpoint.status(401))
        tags = span("00", "03")
        failed = dg.execute_job(job, instance, run_config=QUIET, tags=tags)
        assert not failed.success
        options = dg.ReexecutionOptions.from_failure(failed.run_id, instance)
        again = dg.execute_job(job, instance, run_config=QUIET, tags=tags, reexecution_options=options)
        assert again.success
        told = [event for event in again.all_events if event.is_step_materialization]
        made = {event.asset_key.to_user_string() for event in told if event.asset_key}
    assert "packed_chunks" not in made and "search_index" in made
    assert project.run("verify").code == 0
