"""Keys and passwords that are really used, with endpoints that repeat them in every error: they are nowhere after."""

from __future__ import annotations

import json
import logging
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.definitions import build_defs
from tests.faults.traces import in_database, in_files
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.llm_server import Answer, Call, LlmServer, hang, junk, llm_server, says, status, wrong_key
from tests.support.projects import Project, kept_workers, make_project, running_server
from tests.support.time_over import time_over
from tests.support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.case(28)]

KEY, EMBEDDING_KEY = "sk-canary-7d1f40c95e2b8a63", "sk-canary-e05b9d72416fc8a3"
PASSWORD = "canary.b27ce9d4f0815a36"
SECRETS = (KEY, EMBEDDING_KEY, PASSWORD)
QUESTION = "Who holds the vault key?"
DOCUMENTS = {
    "keys.md": "# Keys\n\nThe vault key is held by the registrar. A spare key lies in an envelope of the bursar.\n",
    "lifts.md": "# Lifts\n\nThe lift takes eight persons. The alarm of the lift rings in the lodge.\n",
    "broken.pdf": "%PDF-1.7 this is no PDF",
}

SERVED = {
    "keys.md": "Keys\nThe vault key is held by the registrar. A spare key lies in an envelope of the bursar.",
    "lifts.md": "Lifts\nThe lift takes eight persons. The alarm of the lift rings in the lodge.",
    "stamps.md": "Stamps\nThe office keeps stamps for forty letters.",
}


@pytest.fixture
def model() -> Iterator[LlmServer]:
    with llm_server() as server:
        yield server


@pytest.fixture
def endpoint() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture
def project(
    model: LlmServer, endpoint: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """One whose server keeps its files in its state, and is asked with a password."""
    monkeypatch.setenv("CANARY_KEY", KEY)
    monkeypatch.setenv("CANARY_EMBEDDING_KEY", EMBEDDING_KEY)
    folder = tmp_path / "project"
    with running_server(folder / "state") as url, kept_workers(), time_over() as model.hung:
        yield make_project(
            folder,
            DOCUMENTS,
            database=with_password(url),
            embedder={"endpoint": endpoint.url, "model": "fake", "api_key_env": "CANARY_EMBEDDING_KEY"},
            enrichment={"summary": "llm", "context": "llm"},
            llm={
                "base_url": model.url, "model": "writer", "api_key_env": "CANARY_KEY", "concurrency": 1, "retries": 1,
                "attempts": 2, "timeout_seconds": HANG_SECONDS, "longest_wait_seconds": 0.01,
            },
        )  # fmt: skip


def with_password(url: str) -> str:
    assert "//pincite@" in url
    return url.replace("//pincite@", f"//pincite:{PASSWORD}@")


# ---------------------------------------------------------------- replies that repeat the key


def failing(call: Call) -> Answer:
    return status(500, f"upstream refused 'Authorization: Bearer {call.key}'")


def echoed(call: Call) -> Answer:
    """What a gateway for tests sends back."""
    return junk(json.dumps({"headers": dict(call.headers)}).encode())


def telling(call: Call) -> Answer:
    return says(f"A reply to the request with the key {call.key}.")


REFUSED = wrong_key


def refused(call: Call) -> Answer:
    return REFUSED(call.key)


def unwanted(texts: list[str]) -> tuple[int, dict[str, Any]]:
    return 401, {"error": {"message": f"Incorrect API key provided: {EMBEDDING_KEY}"}}


def no_vectors(texts: list[str]) -> tuple[int, dict[str, Any]]:
    return 200, {"data": [{"index": EMBEDDING_KEY, "embedding": [1.0]}]}


def unlucky(texts: list[str]) -> tuple[int, dict[str, Any]]:
    return 500, {"error": {"message": f"no luck with {EMBEDDING_KEY}"}}


# ---------------------------------------------------------------- the search itself


def test_the_search_finds_what_is_planted(tmp_path: Path) -> None:
    texts = ["a", *[KEY[:18]] * 50, KEY, KEY[8:] * 50, "z"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert KEY.encode() not in (tmp_path / "a.parquet").read_bytes()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as runs:
        runs.execute("CREATE TABLE snapshots (body BLOB)")
        runs.execute("INSERT INTO snapshots VALUES (?)", [zlib.compress(f"run by {PASSWORD}".encode())])
        runs.commit()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "run.err").write_text(f"Authorization: Bearer {KEY}\n")
    assert in_files(tmp_path, SECRETS) == [
        f"a.parquet: {KEY}",
        f"logs/run.err: {KEY}",
        f"runs.db: {PASSWORD}",
    ]


# ---------------------------------------------------------------- the commands


@pytest.mark.case(28, served=True)
def test_keys_and_passwords_are_nowhere(
    project: Project,
    model: LlmServer,
    endpoint: EmbeddingServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []

    def run(command: str, *arguments: str | Path, code: int) -> str:
        ran = project.run(command, *arguments)
        said.append(f"{command}: {ran.out}{ran.err}")
        assert ran.code == code, said[-1]
        return ran.out

    # Indexing: each endpoint refuses, fails, hangs, and answers what it should not.
    model.next(refused)
    assert "check the key in the environment variable CANARY_KEY" in run("index", code=1)
    model.next(failing, failing, failing, hang(), echoed, telling)
    endpoint.next(unwanted)
    assert "answered 401" in run("index", "--retry-failed", code=1)
    endpoint.next(no_vectors)
    assert "gave no embeddings" in run("index", code=1)
    endpoint.next(unlucky, unlucky)
    run("index", "--retry-failed", code=3)
    assert project.rows("SELECT text FROM pincite.llm_replies WHERE text LIKE %s", "%with the key ***%")
    for command in ("status", "verify", "plan", "sources list", "generations list"):
        run(command, code=0)

    # Questions.
    golden = project.write("golden.jsonl", json.dumps({"id": "1", "question": QUESTION, "gold": [{"uri": "keys.md"}]}))
    chunk = json.loads(run("query", QUESTION, code=0))["hits"][0]["chunk_id"]
    run("explain", chunk, code=0)
    for strategy, rerank, fault, code in (
        ("hyde", "none", refused, 1),
        ("multi-query", "none", failing, 0),
        ("hyde", "none", telling, 0),
        ("hybrid", "listwise", echoed, 0),
        ("hybrid", "logprob", telling, 1),
    ):
        model.next(fault)
        run("query", QUESTION, "--strategy", strategy, "--rerank", rerank, code=code)
    endpoint.next(no_vectors)
    run("query", QUESTION, "--strategy", "dense", code=1)
    for fault in (refused, echoed, telling):
        model.next(fault)
        run("ask", f"{QUESTION} {fault.__name__}", code=0)
    model.next(refused)
    run("eval", golden, "--answers", code=0)
    endpoint.next(unwanted)
    run("eval", golden, "--strategy", "dense", code=1)

    # Dagster by itself, with run storage, event log and compute logs as it has them by default.
    monkeypatch.setenv("PINCITE_CONFIG", str(project.config))
    monkeypatch.setenv("PINCITE_STATE", str(project.state))
    project.write("stamps.md", "# Stamps\n\nThe office keeps stamps for forty letters.\n")
    model.next(refused)
    home = tmp_path / "dagster"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        assert not materialised(instance, endpoint, unwanted)
        assert materialised(instance, endpoint)

    # After all that, what is served is what the documents say.
    run("verify", code=0)
    hits = json.loads(run("query", QUESTION, "--strategy", "dense", "-k", "50", code=0))["hits"]
    assert {hit["uri"]: hit["text"] for hit in hits} == SERVED

    # What the settings may not say, and databases that refuse.
    reached = project.settings["database"]
    for database in (
        f"postgresql://pincite:{PASSWORD}@127.0.0.1:1/pincite",
        reached.replace("/postgres?", "/nowhere?"),
        f"postgresql://pincite:{PASSWORD}/@:x@127.0.0.1/pincite",
    ):
        project.configure(database=database)
        for command in ("index", "status"):
            run(command, code=1 if "127.0.0.1/" not in database else 2)
    project.configure(database=reached)
    embedder, llm = project.settings["embedder"], project.settings["llm"]
    for wrong in (
        {"embedder": {**embedder, "endpoint": f"http://user:{PASSWORD}@127.0.0.1:1/v1"}},
        {"embedder": {**embedder, "api_key_env": EMBEDDING_KEY}},
        {"llm": {**llm, "base_url": f"http://user:{PASSWORD}@127.0.0.1:1/v1"}},
        {"llm": {**llm, "api_key_env": KEY}},
    ):
        project.configure(**wrong)
        run("index", code=2)
        project.configure(embedder=embedder, llm=llm)

    assert {call.key for call in model.calls} == {KEY}
    assert set(endpoint.keys) == {f"Bearer {EMBEDDING_KEY}"}
    captured = capfd.readouterr()
    texts = [*said, captured.out, captured.err, caplog.text, *map(str, caplog.records)]
    assert [text for text in texts if any(secret in text for secret in SECRETS)] == []
    assert in_files(project.state, SECRETS) == []
    assert in_files(home, SECRETS) == []
    assert in_database(reached, SECRETS) == []
    # And yet each of these would have been seen.
    assert list(project.state.rglob("*.parquet")) and list(home.rglob("*.db")) and list(home.rglob("*.err"))
    with psycopg.connect(reached) as connection:
        connection.execute("CREATE TABLE pincite.planted AS SELECT %s AS text", [f"planted {PASSWORD}"])
    assert in_database(reached, SECRETS) == [f"pincite.planted: {PASSWORD}"]


def materialised(instance: dg.DagsterInstance, endpoint: EmbeddingServer, *faults: Any) -> bool:
    endpoint.next(*faults)
    result = (
        build_defs()
        .resolve_job_def("index")
        .execute_in_process(
            instance=instance,
            raise_on_error=False,
            tags={"dagster/asset_partition_range_start": "00", "dagster/asset_partition_range_end": "01"},
        )
    )
    return result.success
