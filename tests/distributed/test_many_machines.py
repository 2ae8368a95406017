"""One index made by many machines is the index that one machine makes, whatever becomes of the machines meanwhile."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from starlette.responses import Response

from tests.distributed.running import (
    BUCKET,
    WORKERS,
    Distributed,
    OneMachine,
    assert_converged,
    clean_index,
    documents,
    end_sessions,
    ended,
    older_version,
    sessions,
    until,
)
from tests.faults.running import EDITED, GONE, LIBRARY, Reader
from tests.support.s3_server import error_body

pytestmark = pytest.mark.integration


def test_a_first_index_by_two_workers_is_that_of_one_machine(made: Distributed, tmp_path: Path) -> None:
    made.put(documents(200))
    result = made.index()
    assert result["published"] is True and result["documents"]["added"] == 200
    assert result["documents"]["failed"] == []
    asked, by = made.asked(), {name: made.asked_by(name) for name in WORKERS}
    clean = clean_index(made, tmp_path)
    assert asked == clean.asked, "a text was embedded twice, or by nobody"
    assert all(by.values()) and by["one"] + by["two"] == asked, "one worker has done all of it"
    assert_converged(made, clean)


def test_an_edit_is_indexed_and_nothing_else_is_embedded(made: Distributed, tmp_path: Path) -> None:
    made.put(LIBRARY)
    alone = OneMachine(made, tmp_path)
    alone.index()
    made.index()
    made.forget()
    made.put(EDITED)
    made.delete(GONE)
    result = made.index()
    counts = {name: result["documents"][name] for name in ("added", "changed", "removed")}
    assert counts == {"added": 1, "changed": 2, "removed": 1}
    asked = made.asked()
    clean = alone.index()
    assert asked == clean.asked, "more is embedded than one machine embeds, or less"
    assert_converged(made, clean)


@pytest.mark.parametrize(
    ("point", "number"),
    [
        ("embedded", 1),
        ("file written", 1),
        ("before a commit", 1),
        ("copying chunks", 3),
        ("before rows commit", 1),
        ("links loaded", 1),
        ("index built", 1),
        ("published", 1),
    ],
)
def test_a_worker_killed_in_a_stage_costs_what_it_had_not_committed(
    point: str, number: int, made: Distributed, tmp_path: Path
) -> None:
    made.put(LIBRARY)
    with made.held(point, number) as held:
        running = made.begin()
        victim = held.reached()
        victim.kill()
        kept, before = made.vectors_kept(), len(made.endpoint.requests)
    assert ended(running)["published"] is True
    del made.endpoint.requests[:before], made.endpoint.keys[:before]
    assert not kept & set(made.asked()), "a vector that a file holds was bought again"
    clean = clean_index(made, tmp_path)
    assert_converged(made, clean)


@pytest.mark.parametrize("point", ["before a commit", "before rows commit", "index built"])
def test_a_worker_that_was_stopped_past_the_loss_of_its_lock_writes_nothing(
    point: str, made: Distributed, tmp_path: Path
) -> None:
    made.put(LIBRARY)
    with made.held(point) as held:
        running = made.begin()
        stale = held.reached()
        stale.send(signal.SIGSTOP)
        own = sessions(made, "application_name LIKE 'pincite%%' AND state <> 'active'")
        end_sessions(made, own)
        assert ended(running)["published"] is True
        rows = made.content()
        stale.send(signal.SIGCONT)
        held.go_on()
        seen = stale.log.stat().st_size
        until(lambda: b"execute_job" in stale.log.read_bytes()[seen:], "the end of the stale run")
    assert made.content() == rows
    assert_converged(made, clean_index(made, tmp_path))


def test_two_at_once_make_one_index(made: Distributed, tmp_path: Path) -> None:
    made.put(LIBRARY)
    first, second = made.begin(), made.begin()
    until(lambda: first.process.poll() is not None and second.process.poll() is not None, "the end of both")
    codes = sorted([first.process.returncode, second.process.returncode])
    assert codes in ([0, 0], [0, 1]), first.tail() + second.tail()
    for service in (first, second):
        if service.process.returncode:
            assert ended(service, 1)["error"]["code"] in ("busy", "lock_lost")
    asked = made.asked()
    clean = clean_index(made, tmp_path)
    assert asked == clean.asked
    assert_converged(made, clean)


def test_a_store_that_refuses_for_a_while_loses_nothing(made: Distributed, tmp_path: Path) -> None:
    made.put(LIBRARY)
    refused = 0

    def refuse() -> Response:
        nonlocal refused
        refused += 1
        if refused >= 20:
            made.front.faults.clear()
        return Response(error_body("SlowDown"), 503, media_type="application/xml")

    with made.held("embedded") as held:
        running = made.begin()
        held.reached()
        made.front.faults[f"/{BUCKET}/"] = refuse
    until(lambda: running.process.poll() is not None, "the end of the run")
    assert refused >= 20
    if running.process.returncode:  # the store was away for longer than a step waits: the next run ends it
        made.index()
    assert_converged(made, clean_index(made, tmp_path))


def test_a_model_is_swapped_while_readers_ask(made: Distributed, tmp_path: Path) -> None:
    made.put(LIBRARY)
    made.index()
    with Reader(made.project) as reader:
        made.configure(embedder={**made.settings["embedder"], "model": "other"})
        assert made.index()["published"] is True
        last = reader.ask()
    reader.assert_saw_whole_documents(last)
    assert_converged(made, clean_index(made, tmp_path))


def test_redis_killed_and_started_again_delays_and_loses_nothing(made: Distributed, tmp_path: Path) -> None:
    made.put(LIBRARY)
    with made.held("embedded") as held:
        running = made.begin()
        held.reached()
        redis = made.cluster.service("redis")
        redis.kill()
        redis.start_again()
    assert ended(running)["published"] is True
    asked = made.asked()
    clean = clean_index(made, tmp_path)
    assert asked == clean.asked
    assert_converged(made, clean)


def test_a_worker_of_an_older_version_is_refused_and_changes_nothing(made: Distributed, tmp_path: Path) -> None:
    made.put(LIBRARY)
    alone = OneMachine(made, tmp_path / "clean")
    alone.index()
    made.index()
    rows = made.content()
    for name in WORKERS:
        made.cluster.service(name).end()
    old = older_version(made, tmp_path)
    made.put(EDITED)
    refused = ended(made.begin(), 1, 2)
    assert refused["error"]["code"] in ("other_settings", "newer_index"), refused
    assert made.content() == rows
    old.end()
    for name in WORKERS:
        made.cluster.service(name).start_again()
    assert made.index()["published"] is True
    assert_converged(made, alone.index())


def test_the_job_of_vectors_goes_to_the_queue_of_gpus(made: Distributed) -> None:
    made.put(LIBRARY)
    made.index()
    worker = made.cluster.start_worker("gpu", queue="gpu", PINCITE_TEST_KEY="gpu")
    before = {name: made.cluster.service(name).log.stat().st_size for name in WORKERS}
    launched = made.launch("embed")
    until(lambda: made.status(launched) in ("SUCCESS", "FAILURE"), "the end of the run")
    assert made.status(launched) == "SUCCESS"
    assert b"execute_job" in worker.log.read_bytes().partition(b" ready.")[2]
    assert not any(b"received" in made.cluster.service(name).log.read_bytes()[at:] for name, at in before.items())
    worker.end()
