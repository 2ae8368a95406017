"""What the tests of many machines share: an index of its own a test, over services and workers that all have."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import psycopg
import pytest

from examples.celery.local import BUCKET, DAGSTER, ROOT, Cluster, Service
from examples.celery.local import HERE as EXAMPLE
from pipelines.fingerprint import text_hash
from resources.settings_file import locate
from resources.state.parts import Parts
from tests.faults.running import NO_TEXTS, VECTORS, Rows
from tests.support.embedding_server import EmbeddingServer
from tests.support.front import Front
from tests.support.projects import Project, content, make_project
from tests.support.waiting import until

WORKERS = ("one", "two")
BUCKETS, BUCKETS_PER_RUN = 4, 2
_numbers = itertools.count(1)


def documents(count: int) -> dict[str, str]:
    """Small documents that differ, with headings and several sentences."""
    return {
        f"rules/rule-{number:03d}.md": (
            f"# Rule {number}\n\nRoom {number} is heated to {15 + number % 9} degrees. Its key hangs on hook "
            f"{number * 7 % 200}.\n\n## Visits\n\nVisitors of room {number} are led by the porter of wing "
            f"{number % 5}. They leave by the gate of wing {number % 3}.\n"
        )
        for number in range(count)
    }


@dataclass
class Distributed:
    """One index: its database, its part of the store, its documents in a bucket. Settings of all hosts name it."""

    cluster: Cluster
    endpoint: EmbeddingServer
    front: Front
    control: Path
    number: int = field(default_factory=lambda: next(_numbers))

    def __post_init__(self) -> None:
        self.cluster.make_database(self.database, "pincite")
        self.configure()

    @property
    def database(self) -> str:
        return f"index{self.number}"

    @property
    def source(self) -> dict[str, str]:
        return {"name": "docs", "path": f"s3://{BUCKET}/docs{self.number}/"}

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "database": self.cluster.address(self.database, "pincite", secret=False),
            "tables": f"s3://{BUCKET}/tables{self.number}",
            "state": "state",
            "buckets": BUCKETS,
            "buckets_per_run": BUCKETS_PER_RUN,
            "sources": [self.source],
            "parsing": {"workers": 1},
            "sentences": {"related_floor": 0.3},
            "embedder": {"endpoint": self.endpoint.url, "model": "fake", "api_key_env": "PINCITE_TEST_KEY"},
        }

    def configure(self, **more: Any) -> None:
        self.cluster.settings = {**self.settings, **more}
        for host in self.cluster.hosts.values():
            self.cluster.write(host)

    @property
    def project(self) -> Project:
        """As the host sees it that has Dagster's daemon; its commands run in this process."""
        return Project(self.cluster.host("control").folder, dict(self.cluster.settings))

    # ---------------------------------------------------------------- documents

    def put(self, documents: Mapping[str, str]) -> None:
        for uri, text in documents.items():
            self.cluster.store().put_object(Bucket=BUCKET, Key=f"docs{self.number}/{uri}", Body=text.encode())

    def delete(self, *uris: str) -> None:
        for uri in uris:
            self.cluster.store().delete_object(Bucket=BUCKET, Key=f"docs{self.number}/{uri}")

    # ---------------------------------------------------------------- runs

    def begin(self, *arguments: str) -> Service:
        """`pincite index --distributed`, started."""
        host = self.cluster.host("control")
        command = [*_pincite(), "index", "--distributed", "--json", *arguments]
        number = next(_numbers)
        output = self.cluster.folder / f"index-{number}.json"
        return self.cluster.start(f"index-{number}", command, host.environment, folder=host.folder, output=output)

    def index(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        return ended(self.begin(*arguments), code)

    def launch(self, job: str) -> str:
        """The id of a run of a job over all buckets, launched as the UI launches one."""
        tags = {"dagster/asset_partition_range_start": "00", "dagster/asset_partition_range_end": f"{BUCKETS - 1:02d}"}
        command = ["dagster", "job", "launch", "-w", str(self.cluster.workspace), "-j", job, "--tags", json.dumps(tags)]
        host = self.cluster.host("control")
        run_id = str(uuid.uuid4())
        subprocess.run(
            [sys.executable, "-P", "-m", *command, "--run-id", run_id],
            env=host.environment, cwd=host.folder, check=True, capture_output=True,
        )  # fmt: skip
        return run_id

    def status(self, run_id: str) -> str:
        """Dagster's, as its storage has it."""
        with psycopg.connect(self.cluster.address(DAGSTER, "postgres")) as connection:
            row = connection.execute("SELECT status FROM runs WHERE run_id = %s", (run_id,)).fetchone()
        return str(row[0]) if row else ""

    @contextmanager
    def held(self, point: str, number: int = 1) -> Iterator[Held]:
        """While it lasts, the first worker that passes this point for this time stands there."""
        for name in ("point", "taken", "go"):
            (self.control / name).unlink(missing_ok=True)
        asked = {"point": point, "number": number, "id": f"{next(_numbers)}"}
        with (self.control / "go").open("w") as go:
            fcntl.flock(go, fcntl.LOCK_EX)
            (self.control / "point").write_text(json.dumps(asked))
            try:
                yield Held(self, go)
            finally:
                (self.control / "point").unlink()

    # ---------------------------------------------------------------- what stands

    def content(self) -> dict[str, list[tuple[Any, ...]]]:
        return content(self.project)

    def vectors_kept(self) -> set[str]:
        """Hashes of the texts whose vectors are in the store, committed or not."""
        parts = Parts(locate(str(self.project.config)))
        try:
            return {
                value
                for table in VECTORS
                for file in parts.tables.files(table)
                for value in parts.tables.read(file, ["text_hash"])["text_hash"].to_pylist()
            }
        finally:
            parts.close()

    def forget(self) -> None:
        """What was asked for so far."""
        self.endpoint.forget()
        self.endpoint.keys.clear()

    def asked(self) -> Counter[str]:
        return Counter(text_hash(text) for text in self.endpoint.texts if text not in NO_TEXTS)

    def asked_by(self, worker: str) -> Counter[str]:
        pairs = zip(self.endpoint.requests, self.endpoint.keys, strict=True)
        texts = [text for texts, key in pairs if key == f"Bearer {worker}" for text in texts]
        return Counter(text_hash(text) for text in texts if text not in NO_TEXTS)


@dataclass
class Held:
    """A worker that stands at a point."""

    made: Distributed
    go: TextIO
    """Locked; whoever stands at the point waits for it."""

    def reached(self) -> Service:
        """The worker, once one stands there."""
        taken = self.made.control / "taken"
        until(lambda: taken.exists() and taken.stat().st_size, "a worker at the point")
        worker, _ = json.loads(taken.read_text())
        return self.made.cluster.service(worker)

    def go_on(self) -> None:
        self.go.close()


def ended(service: Service, *codes: int) -> dict[str, Any]:
    """What a command printed, once it has ended with one of these codes, with 0 where none are named."""
    until(lambda: service.process.poll() is not None, service.name)
    said = service.output.read_text()
    assert service.process.returncode in (codes or (0,)), said + service.tail()
    found: dict[str, Any] = json.loads(said)
    return found


def _pincite() -> list[str]:

    return [sys.executable, "-P", "-m", "pincite.cli"]


@dataclass(frozen=True)
class Clean:
    """What one machine makes of the same bucket, and the texts that it embeds."""

    rows: Rows
    asked: Counter[str]


class OneMachine:
    """A project that indexes the same bucket by itself, with a state folder and a database of its own. What an index
    freezes of its corpus is of its first documents: a change that comes later must come to both later."""

    def __init__(self, made: Distributed, folder: Path) -> None:
        name = f"clean{next(_numbers)}"
        made.cluster.make_database(name, "pincite")
        settings = {**made.cluster.settings, "database": made.cluster.address(name, "pincite", secret=False)}
        for key in ("tables", "buckets_per_run", "state"):
            settings.pop(key)
        self._made, self._project = made, make_project(folder, {}, **settings)

    def index(self) -> Clean:
        """What it makes of the documents as they are now, and the texts that it embeds. Nothing else is remembered of
        the endpoint afterwards."""
        self._made.forget()
        assert self._project.index()["published"] is True
        clean = Clean(content(self._project), self._made.asked())
        self._made.forget()
        return clean


def clean_index(made: Distributed, folder: Path) -> Clean:
    return OneMachine(made, folder).index()


def assert_converged(made: Distributed, clean: Clean) -> None:
    """The oracle: what is served is what one machine serves, row by row; verify finds nothing; another run embeds
    nothing and changes no row."""
    assert made.content() == clean.rows
    ran = made.project.run("verify")
    assert (ran.code, ran.json["problems"]) == (0, [])
    made.forget()
    again = made.index()
    assert again["published"] is True and again["chunks"]["written"] == 0
    assert made.endpoint.texts == [] or set(made.endpoint.texts) <= set(NO_TEXTS)
    assert made.content() == clean.rows


def sessions(made: Distributed, where: str) -> list[int]:
    """Processes of the server that serve this index's database, but the asking one."""
    with psycopg.connect(made.cluster.address(made.database, "postgres")) as connection:
        statement = f"""SELECT pid FROM pg_stat_activity WHERE datname = current_database()
            AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND {where}"""
        return [pid for (pid,) in connection.execute(statement)]  # type: ignore[arg-type]


def end_sessions(made: Distributed, pids: list[int]) -> None:
    with psycopg.connect(made.cluster.address(made.database, "postgres"), autocommit=True) as connection:
        for pid in pids:
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    until(lambda: not set(pids) & set(sessions(made, "true")), "the end of sessions")


def older_version(made: Distributed, folder: Path) -> Service:
    """A worker of the version before the newest migration."""
    newest = max(path.name for path in (ROOT / "sql" / "migrations").glob("*.sql"))
    git = ["git", "-C", str(ROOT)]
    log = "log --first-parent -m --no-renames --diff-filter=A --format=%H --"  # it may have come by a merge
    added = subprocess.run(
        [*git, *log.split(), f"sql/migrations/{newest}"],
        capture_output=True,
        text=True,
    ).stdout.split()
    if not added:
        pytest.skip("no history of an older version here")
    checkout = folder / "older"
    checkout.mkdir()
    archive = subprocess.run([*git, "archive", f"{added[-1]}^"], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(checkout)], input=archive, check=True)
    # Where runs say that their code is.
    (checkout / "tests" / "distributed").mkdir(exist_ok=True)
    (checkout / "tests" / "distributed" / "__init__.py").touch()
    (checkout / "tests" / "distributed" / "quick_definitions.py").write_text("from assets.definitions import defs\n")
    host = made.cluster.host("old")
    made.cluster.write(host)
    path = os.pathsep.join([str(EXAMPLE), str(checkout)])  # Dagster takes the first away where it loads definitions
    return made.cluster.start_worker("old", PYTHONPATH=path, PINCITE_TEST_KEY="old")
