"""What Dagster does by itself: schedule, sensor, retries, data versions, and the instance's settings."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from assets.declare import NIGHTLY, PATIENCE, patient
from assets.definitions import build_defs
from assets.metadata import histogram, record_direct_runs, score_chart, score_rows, table
from pipelines.errors import DatabaseError, ModelError, PinciteError, SettingsError
from pipelines.settings.base import DagsterSettings
from resources.dagster_instance import home as homes
from resources.dagster_instance.home import PROCESS, close_dead_runs, dagster_home, present
from resources.postgres.database import Database
from tests.dagster.test_definitions import BUCKETED, WHOLE, nodes
from tests.support.daemon import make_home
from tests.support.direct_runs import runs_without_dagster
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.projects import DOCUMENTS, Project, content, make_project, new_database, project_copy
from tests.support.waiting import HANG_SECONDS, until

pytestmark = [pytest.mark.integration, pytest.mark.dagster]

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
SPAN = {"dagster/asset_partition_range_start": "00", "dagster/asset_partition_range_end": "03"}


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project as the environment names it, nothing made of it yet."""
    monkeypatch.setenv("PINCITE_CONFIG", str(project.config))
    return project


@pytest.fixture(scope="module")
def made(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project indexed once, to be copied."""
    with new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("made") / "project",
            {uri: DOCUMENTS[uri] for uri in ("boilers.txt", "handbook.md", "archive/retention.txt")},
            database=url,
            buckets=4,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        with runs_without_dagster():
            project.index()
        yield project


@pytest.fixture
def indexed(made: Project, server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """An indexed project, its own to change, as the environment names it."""
    with project_copy(made, server_url, tmp_path / "copy") as copy:
        monkeypatch.setenv("PINCITE_CONFIG", str(copy.config))
        yield copy


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory, which notes a run many times as fast as files."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture(scope="module")
def database(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database that tells which runs are alive."""
    with new_database(server_url) as url, Database(url, tmp_path_factory.mktemp("state")) as opened:
        opened.migrate()
        yield opened


@pytest.fixture
def own_database(project: Project) -> Iterator[Database]:
    with Database(project.settings["database"], project.state) as opened:
        opened.migrate()
        yield opened


def execute(
    instance: dg.DagsterInstance, names: list[str], tags: Mapping[str, str], config: Mapping[str, Any] = QUIET
) -> dg.ExecuteInProcessResult:
    assets: list[Any] = list(build_defs().assets or [])
    return dg.materialize(
        assets,
        selection=names,
        instance=instance,
        resources=dict(build_defs().resources or {}),
        run_config={**QUIET, **config},
        tags=tags,
        raise_on_error=False,
    )


def bucket_of(project: Project, uri: str) -> str:
    ((bucket,),) = project.rows(
        "SELECT ('x' || left(doc_id, 8))::bit(32)::bigint * 4 >> 32 FROM g0001.documents WHERE uri = %s", uri
    )
    return f"{bucket:02d}"


# ---------------------------------------------------------------- schedule


def test_the_schedule_is_one_run_over_all_buckets_and_off_at_first() -> None:
    schedule = build_defs(buckets=5).resolve_schedule_def("nightly")
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED
    assert (schedule.job_name, schedule.execution_timezone) == ("index", "UTC")
    at = datetime(2026, 1, 2, 2, tzinfo=UTC)
    (request,) = schedule.evaluate_tick(dg.build_schedule_context(scheduled_execution_time=at)).run_requests or []
    assert request.tags["dagster/asset_partition_range_start"] == "00"
    assert request.tags["dagster/asset_partition_range_end"] == "04"


# ---------------------------------------------------------------- sensor


@cache
def sensor() -> dg.SensorDefinition:
    """The sensor as it is loaded once; it looks for the settings whenever it is asked."""
    return build_defs(buckets=4).resolve_sensor_def("changed_sources")


def tick(cursor: str | None) -> dg.SensorExecutionData:
    with dg.build_sensor_context(cursor=cursor) as context:
        return sensor().evaluate_tick(context)


def requested(data: dg.SensorExecutionData) -> list[str]:
    (request,) = data.run_requests or []
    assert {**request.tags, **SPAN} == request.tags
    sources: list[str] = request.run_config["ops"]["raw_documents"]["config"]["sources"]
    return sources


def test_the_sensor_launches_once_for_each_state_of_the_sources(here: Project) -> None:
    assert sensor().default_status == dg.DefaultSensorStatus.STOPPED
    first = tick(None)
    assert requested(first) == ["docs"]
    still = tick(first.cursor)
    assert (still.run_requests or [], still.cursor) == ([], first.cursor)
    assert "nothing changed: 6 files in docs" in str(still.skip_message)

    cursor, keys, text = first.cursor, [(first.run_requests or [])[0].run_key], (here.docs / "boilers.txt").read_text()
    for step in (
        lambda: here.write("new.txt", "A new document of one sentence."),
        lambda: here.write("boilers.txt", "The boiler is cold."),
        lambda: here.write("boilers.txt.meta.yaml", "title: Boilers"),
        lambda: (here.docs / "archive/keys.md").unlink(),
        lambda: (here.docs / "visitors.html").rename(here.docs / "guests.html"),
        lambda: os.utime(here.write("boilers.txt", text), ns=(10**18, 10**18)),
        lambda: here.write("boilers.txt", "The boiler is cold again."),
        lambda: os.utime(here.write("boilers.txt", text), ns=(10**18, 10**18)),
    ):
        step()
        seen = tick(cursor)
        assert requested(seen) == ["docs"]
        keys.append((seen.run_requests or [])[0].run_key)
        cursor = seen.cursor
        assert not tick(cursor).run_requests
    assert len(set(keys)) == len(keys), "a state that comes back is launched again"


def test_a_killed_tick_asks_for_the_same_run_again(here: Project) -> None:
    first, again = tick(None), tick(None)
    assert [item.run_key for item in first.run_requests or []] == [item.run_key for item in again.run_requests or []]


def test_only_the_source_that_changed_is_listed(here: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    here.write("memo.txt", "A memo about the lift.", other)
    sources = [{"name": "docs", "path": "docs"}, {"name": "other", "path": str(other), "exclude": ["*.log"]}]
    here.configure(sources=sources)
    first = tick(None)
    assert requested(first) == ["docs", "other"]
    here.write("run.log", "left out by the settings", other)
    assert not tick(first.cursor).run_requests
    here.write("memo.txt", "A longer memo about the lift.", other)
    second = tick(first.cursor)
    assert requested(second) == ["other"]

    here.configure(sources=sources[:1])
    assert requested(tick(second.cursor)) == [], "a source that is gone concerns the whole listing"


def test_a_source_that_cannot_be_listed_is_said_and_launches_nothing(here: Project) -> None:
    first = tick(None)
    kept = here.docs.rename(here.folder / "elsewhere")
    lost = tick(first.cursor)
    assert not lost.run_requests
    assert f"cannot list {here.docs}" in str(lost.skip_message)
    kept.rename(here.docs)
    assert not tick(lost.cursor).run_requests, "nothing changed meanwhile"


# ---------------------------------------------------------------- data versions


def versions(instance: dg.DagsterInstance) -> dict[tuple[str, str], str]:
    """(asset, bucket) to the data version of its latest materialisation; each is logged once a run."""
    found: dict[tuple[str, str], str] = {}
    for name in BUCKETED:
        for record in instance.fetch_materializations(dg.AssetKey(name), limit=1000).records:
            event = record.asset_materialization
            assert event is not None and event.partition is not None and event.tags
            found.setdefault((name, event.partition), event.tags["dagster/data_version"])
    return found


def test_a_changed_document_changes_the_versions_of_its_bucket_alone(indexed: Project) -> None:
    """The sensor asks for the run that indexes the change."""
    watched = tick(None)
    instance = dg.DagsterInstance.ephemeral()
    record_direct_runs(instance, indexed.state)
    before = versions(instance)
    assert len(before) == 4 * len(BUCKETED)

    indexed.write("boilers.txt", "Boiler inspection\n\nThe boiler is now inspected every March by the engineer.\n")
    (request,) = tick(watched.cursor).run_requests or []
    job = build_defs().resolve_job_def("index")
    result = job.execute_in_process({**QUIET, **request.run_config}, instance=instance, tags=dict(request.tags))
    assert len(result.get_asset_materialization_events()) == 4 * len(BUCKETED) + len(WHOLE), "one a partition"
    after, bucket = versions(instance), bucket_of(indexed, "boilers.txt")
    assert {partition for (_, partition), version in after.items() if before[_, partition] != version} == {bucket}
    changed = {name for (name, partition), version in after.items() if before[name, partition] != version}
    assert changed >= set(BUCKETED) - {"figure_descriptions", "abbreviations", "document_summaries", "chunk_contexts"}
    assert indexed.hits("inspected every March")[0]["uri"] == "boilers.txt"

    (raw,) = instance.fetch_materializations(dg.AssetKey("raw_documents"), limit=1).records
    event = instance.get_latest_materialization_event(dg.AssetKey("parsed_elements"))
    assert event is not None and event.asset_materialization is not None and event.asset_materialization.tags
    made_from = event.asset_materialization.tags
    assert made_from["dagster/input_event_pointer/raw_documents"] == str(raw.storage_id)
    version = nodes()["parsed_elements"].code_versions_by_key[dg.AssetKey("parsed_elements")]
    assert made_from["dagster/code_version"] == version


# ---------------------------------------------------------------- failures


@pytest.mark.faults
def test_a_bucket_that_failed_is_repaired_by_itself(
    indexed: Project, made: Project, endpoint: EmbeddingServer, server_url: str, tmp_path: Path
) -> None:
    text = "Retention of records\n\nPersonnel files are burnt after nine years, in the yard.\n"
    with project_copy(made, server_url, tmp_path / "clean") as clean:
        clean.write("archive/retention.txt", text)
        clean.index()
        wanted = content(clean)
    indexed.write("archive/retention.txt", text)
    bucket = bucket_of(indexed, "archive/retention.txt")
    instance = dg.DagsterInstance.ephemeral()

    endpoint.next(endpoint.status(401))
    with pytest.raises(ModelError, match="answered 401"):
        build_defs().resolve_job_def("index").execute_in_process(QUIET, instance=instance, tags=SPAN)
    assert content(indexed) != wanted

    endpoint.forget()
    one = {"dagster/asset_partition_range_start": bucket, "dagster/asset_partition_range_end": bucket}
    again = execute(instance, list(BUCKETED), one)
    assert again.success
    assert {event.partition for event in again.get_asset_materialization_events()} == {bucket}
    assert endpoint.texts
    assert all("Personnel" in text or "Retention" in text for text in endpoint.texts), "nothing else is embedded"
    assert execute(instance, list(WHOLE), {}).success
    assert content(indexed) == wanted


@pytest.mark.parametrize(
    ("error", "tags", "attempts"),
    [
        (ModelError, {}, 1),
        (ModelError, {"dagster/schedule_name": "nightly"}, 1 + PATIENCE.max_retries),
        (ModelError, {"dagster/sensor_name": "changed_sources"}, 1 + PATIENCE.max_retries),
        (DatabaseError, {"dagster/backfill": "b"}, 1 + PATIENCE.max_retries),
        (SettingsError, {"dagster/backfill": "b"}, 1),
    ],
)
def test_a_service_that_is_away_is_asked_again_in_runs_that_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, error: type[PinciteError], tags: dict[str, str], attempts: int
) -> None:
    monkeypatch.setattr("assets.declare.PATIENCE", PATIENCE._replace(delay=0))
    asked = []

    def lamps(context) -> None:
        asked.append(context.retry_number)
        raise error("answered 401")

    result = dg.materialize([dg.asset(patient(lamps))], run_config=QUIET, tags=tags, raise_on_error=False)
    assert not result.success
    assert asked == list(range(attempts))


def test_vectors_are_asked_for_again_in_a_run_that_nobody_watches(
    indexed: Project, endpoint: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assets.declare.PATIENCE", PATIENCE._replace(delay=0))
    indexed.configure(embedder={**indexed.settings["embedder"], "model": "another"})
    endpoint.next(endpoint.status(401))
    tags = {**SPAN, "dagster/sensor_name": "changed_sources"}
    result = execute(dg.DagsterInstance.ephemeral(), ["chunk_embeddings"], tags)
    assert result.success
    assert len([event for event in result.all_events if event.is_step_up_for_retry]) == 1


# ---------------------------------------------------------------- runs beside each other


def test_a_run_that_waits_for_another_says_for_which(here: Project, own_database: Database, tmp_path: Path) -> None:
    home = str(make_home(tmp_path / "home"))
    with dg.DagsterInstance.from_config(home) as own, dg.DagsterInstance.from_config(home) as watching:

        def said() -> list[str]:
            return [entry.user_message for run in watching.get_runs() for entry in watching.all_logs(run.run_id)]

        with ThreadPoolExecutor(1) as pool:
            with own_database.exclusive("index", run_id="the-other-run"):
                run = pool.submit(execute, own, ["raw_documents"], SPAN)
                waits = until(lambda: [line for line in said() if "waiting for it to end" in line] or run.done())
            assert run.result().success
    assert isinstance(waits, list), "it has not waited"
    (line,) = waits
    wanted = rf"another index run is in progress \(pincite index, process {os.getpid()}; backend \d+; "
    wanted += r"run the-other-run\); .* 6 hours"
    assert re.fullmatch(wanted, line)


# ---------------------------------------------------------------- the instance


def test_the_instance_is_made_with_limits_and_retries(tmp_path: Path) -> None:
    with dg.DagsterInstance.from_config(str(dagster_home(tmp_path))) as instance:
        limits = instance.get_concurrency_config()
        assert limits.run_queue_config is not None
        assert limits.run_queue_config.max_concurrent_runs == 2
        pools = limits.pool_config
        assert pools.pool_granularity is not None
        assert (pools.pool_granularity.value, pools.default_pool_limit) == ("run", 2)
        assert instance.run_retries_enabled
        assert (instance.run_retries_max_retries, instance.run_retries_retry_on_asset_or_op_failure) == (2, False)
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_runtime_seconds == 3 * 24 * 3600


def test_settings_that_nobody_edited_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = dagster_home(tmp_path) / "dagster.yaml"
    now = file.read_text()
    file.write_text("telemetry:\n  enabled: false\n")
    dagster_home(tmp_path)
    assert file.read_text() == "telemetry:\n  enabled: false\n", "an edited one stays"
    monkeypatch.setattr(homes, "_EARLIER", frozenset({homes._digest(file.read_bytes())}))
    dagster_home(tmp_path)
    assert file.read_text() == now


def status_of(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


@pytest.mark.defends("7i")
def test_runs_of_a_killed_command_are_closed(instance: dg.DagsterInstance, database: Database) -> None:
    job = build_defs(buckets=4).resolve_job_def("index")
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=job.run_tags)
    assert close_dead_runs(instance, database, own=run.run_id) == []
    assert close_dead_runs(instance, database) == [run.run_id]
    assert status_of(instance, run.run_id) == dg.DagsterRunStatus.FAILURE
    assert close_dead_runs(instance, database) == []


def test_runs_of_others_in_the_same_instance_are_left(instance: dg.DagsterInstance, database: Database) -> None:
    @dg.op
    def work() -> None: ...

    def work_alone() -> None:
        work()

    nightly_report = dg.job(name="nightly_report")(work_alone)

    run = instance.create_run_for_job(nightly_report, status=dg.DagsterRunStatus.STARTED)
    own = instance.create_run_for_job(
        build_defs(buckets=4).resolve_job_def("index"),
        status=dg.DagsterRunStatus.STARTED,
        tags=homes.process_tag(database),
    )
    index = dg.job(name="index")(work_alone)
    by_steps = build_defs(buckets=4).resolve_job_def("__ASSET_JOB")
    chunks = {dg.AssetKey("chunks")}
    others = [
        instance.create_run_for_job(index, status=dg.DagsterRunStatus.STARTED),
        instance.create_run_for_job(
            by_steps,
            status=dg.DagsterRunStatus.STARTED,
            asset_selection=frozenset(chunks),
            tags={homes.STEPS: "true"},
        ),
        instance.create_run_for_job(
            by_steps,
            status=dg.DagsterRunStatus.STARTED,
            asset_selection=frozenset({*chunks, dg.AssetKey("search_index")}),
        ),
    ]
    docs = DagsterSettings(key_prefix=("docs",))
    assert close_dead_runs(instance, database, silent=timedelta(), names=docs) == []
    assert {status_of(instance, each.run_id) for each in (run, own, *others)} == {dg.DagsterRunStatus.STARTED}
    assert close_dead_runs(instance, database, silent=timedelta()) == [others[-1].run_id]


@pytest.mark.defends("7i")
def test_a_run_that_is_present_is_closed_by_nobody_until_its_session_and_process_are_gone(
    instance: dg.DagsterInstance, database: Database
) -> None:
    job = build_defs(buckets=4).resolve_job_def("index")
    run_id = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED).run_id
    with present(instance, run_id, database):
        assert close_dead_runs(instance, database) == []
        run = instance.get_run_by_id(run_id)
        assert run is not None
        identity, host, pid, began = json.loads(run.tags[PROCESS])
        elsewhere = json.dumps([identity, "another-machine", pid, began])
        instance.add_run_tags(run_id, {PROCESS: elsewhere})
        assert close_dead_runs(instance, database) == [], "its session tells, from another machine too"
    instance.add_run_tags(run_id, {PROCESS: json.dumps([identity, host, pid, began])})
    assert close_dead_runs(instance, database) == [], "its process tells, where the server was restarted"
    other = json.dumps(["another database", host, pid, "0"])
    instance.add_run_tags(run_id, {PROCESS: other})
    assert close_dead_runs(instance, database) == [], "it is a run of another index"
    instance.add_run_tags(run_id, {PROCESS: json.dumps([identity, host, pid, "0"])})
    assert close_dead_runs(instance, database) == [run_id], "another process has its number"


@pytest.mark.defends("7i")
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
def test_a_launched_run_that_never_was_present_is_closed_when_it_is_silent(
    instance: dg.DagsterInstance, database: Database, status: dg.DagsterRunStatus
) -> None:
    place = RegisteredCodeLocationOrigin("assets")
    launcher = RemoteJobOrigin(RemoteRepositoryOrigin(place, "__repository__"), "index")
    job = build_defs(buckets=4).resolve_job_def("index")
    run_id = instance.create_run_for_job(job, status=status, remote_job_origin=launcher, tags=job.run_tags).run_id
    assert close_dead_runs(instance, database) == [], "its process may just have been started"
    assert close_dead_runs(instance, database, silent=timedelta()) == [run_id]
    assert status_of(instance, run_id) == dg.DagsterRunStatus.FAILURE


@pytest.mark.faults
def test_a_launched_run_that_is_killed_is_closed_by_the_next(
    here: Project, endpoint: EmbeddingServer, own_database: Database
) -> None:
    home = dagster_home(here.state)
    at_once = "{module: dagster._core.run_coordinator, class: DefaultRunCoordinator}"  # the daemon would take it up
    (home / "dagster.yaml").write_text(
        f"telemetry: {{enabled: false}}\nrun_coordinator: {at_once}\n"
        "code_servers: {wait_for_local_processes_on_shutdown: true}\n"
    )
    environment = {**os.environ, "DAGSTER_HOME": str(home), "PINCITE_CONFIG": str(here.config)}
    with dg.DagsterInstance.from_config(str(home)):
        """Its tables are made before two processes want to make them."""
    endpoint.hold(lambda texts: True)
    launch = [sys.executable, "-m", "dagster", "job", "launch", "-m", "assets.definitions", "-j", "index"]
    launch += ["--tags", json.dumps(SPAN)]
    launched = subprocess.Popen(launch, cwd=ROOT, env=environment, start_new_session=True)
    try:
        assert endpoint.arrived.wait(HANG_SECONDS)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            (run,) = instance.get_runs()
            assert (run.status, run.remote_job_origin is None) == (dg.DagsterRunStatus.STARTED, False)
            assert close_dead_runs(instance, own_database) == []
            _, _, pid, _ = json.loads(run.tags[PROCESS])
            os.killpg(launched.pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            launched.wait()
            endpoint.released.set()
            locks = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"
            until(lambda: not here.rows(locks), "Postgres ends the session of the killed run")
            assert here.index()["published"] is True
            assert status_of(instance, run.run_id) == dg.DagsterRunStatus.FAILURE
    finally:
        endpoint.released.set()
        with suppress(ProcessLookupError):
            os.killpg(launched.pid, signal.SIGKILL)


# ---------------------------------------------------------------- pictures and policies


def test_pictures_carry_their_own_data() -> None:
    shown = histogram([3, 40, 41, 100], 32).value
    assert shown is not None
    assert shown.startswith("![histogram](data:image/svg+xml;base64,")
    assert "    32–63     ██████████████████████████████ 2" in shown
    names, points = drawn(shown)
    assert {"histogram", "chunks", "0", "2"} <= set(names)
    assert len(points) == 2 * 4, "both ends of each bar between the least and the greatest, empty ones too"
    assert len({y for _, y in points}) == 3
    assert "█" not in str(histogram([], 32).value) and drawn(histogram([], 32).value)[1] == []


def drawn(image: str | None) -> tuple[list[str], list[tuple[float, float]]]:
    """The texts of a picture and its points."""
    assert image is not None
    data = image.partition("base64,")[2].partition(")")[0]
    root = ElementTree.fromstring(base64.b64decode(data))
    texts = [each.text or "" for each in root.iter() if each.tag.endswith("text")]
    points = [
        (float(each.attrib["cx"]), float(each.attrib["cy"])) for each in root.iter() if each.tag.endswith("circle")
    ]
    return texts, points


def test_scores_are_drawn_and_listed() -> None:
    rows = [
        {"generation": 1, "at": "2026-01-02T00:00:00Z", "name": "hybrid", "metrics": {"recall@5": 0.5}},
        {"generation": 2, "at": "2026-01-03T00:00:00Z", "name": "hybrid", "metrics": {"recall@5": 0.75}},
    ]
    names, points = drawn(score_chart(rows).value)
    assert {"g0001", "g0002", "recall@5", "accuracy_page", "mrr", "ndcg@10"} <= set(names)
    (first, half), (second, more) = points
    assert first < second and half > more
    assert cells(table(score_rows(rows)))[1] == {
        "generation": "g0002", "at": "2026-01-03 00:00", "questions asked by": "hybrid",
        "recall@5": 0.75, "accuracy_page": None, "mrr": None, "ndcg@10": None,
    }  # fmt: skip
    assert table(score_rows([])).value == "none"


def test_the_index_is_late_after_a_missed_night() -> None:
    policies = {name: asset.specs_by_key[asset.key].freshness_policy for name, asset in nodes().items()}
    assert {name: policy for name, policy in policies.items() if policy} == {
        "raw_documents": NIGHTLY, "search_index": NIGHTLY,
    }  # fmt: skip


def test_pools_are_of_the_steps_that_call_a_model() -> None:
    pools = {name: asset.op.pool for name, asset in nodes().items() if asset.op.pool}
    assert pools == {
        "figure_descriptions": "llm",
        "document_summaries": "llm",
        "chunk_contexts": "llm",
        "chunk_embeddings": "embedding",
        "sentence_embeddings": "embedding",
    }


def cells(shown: Any) -> list[Mapping[str, Any]]:
    """The rows of a table of the UI."""
    return [record.data for record in shown.value.records]


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        (0.75, 0.75), (7, 7), (True, True), (None, None), (float("nan"), "nan"), ("recall@5", "recall@5"),
        ("docs/a.pdf", "docs/a.pdf"), ("a|b", "a|b"), ("*a*", "*a*"), (("a", "b"), "('a', 'b')"), ("a\nb", "a b"),
        ("[x](javascript:a)", "x"), ("![x](https://evil.example/p)", "x"), ("<img src=x>", ""),
        ("a\u202eb", "ab"), ("a\u200db", "a\\u200db"),
    ],
)  # fmt: skip
def test_a_cell_of_the_ui_shows_words_and_no_link(said: object, cell: object) -> None:
    assert cells(table([{"file": said}])) == [{"file": cell}]


def test_memberships_are_read_by_a_job_of_their_own_while_a_run_goes_on(indexed: Project) -> None:
    indexed.configure(sources=[{"name": "docs", "path": "docs", "memberships": True}])
    indexed.write("_memberships.csv", "principal,group\nu-17,ann\n")
    defs = build_defs()
    assert defs.resolve_schedule_def("hourly_access").job_name == "sync_access"
    job = defs.resolve_job_def("sync_access")
    database = Database(indexed.settings["database"], indexed.state)
    with database.exclusive("index"):
        assert job.execute_in_process(run_config=QUIET).success
    assert indexed.rows('SELECT source, principal, "group" FROM pincite.memberships') == [("docs", "u-17", "ann")]
    indexed.write("_memberships.csv", "principal,group\nu-17")
    failed = job.execute_in_process(run_config=QUIET, raise_on_error=False)
    (failure,) = (event for event in failed.all_events if event.is_step_failure)
    assert not failed.success and "cut off" in str(failure.event_specific_data)
    assert indexed.rows('SELECT "group" FROM pincite.memberships') == [("ann",)]
