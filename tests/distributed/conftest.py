"""Redis, an S3 server, Postgres by TCP with TLS, Dagster's daemon and two workers with folders of their own, as
examples/celery has them, with short intervals and an endpoint of embeddings that counts what it is asked for."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from examples.celery.local import Cluster, can_mount, cluster
from tests.distributed.running import BUCKETS, BUCKETS_PER_RUN, WORKERS, Distributed
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.front import Front, front_before

QUICK = {
    "run_queue": {"dequeue_interval_seconds": 1},
    # A run whose task a killed worker had taken along is failed after that time, and so is one that waits for the only
    # worker left: longer than the run before it takes on a busy machine.
    "run_monitoring": {"poll_interval_seconds": 2, "start_timeout_seconds": 300},
    "run_launcher": {"config": {"config_source": {"broker_connection_timeout": 2}}},
}
_NEEDED = ("dagster_celery", "dagster_postgres", "redis")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    why = "no redis-server here: make test-distributed installs it" if shutil.which("redis-server") is None else ""
    why = why or (f"not installed: {', '.join(missing)}; make test-distributed installs the extra" if missing else "")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and why:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def endpoint() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(folder) as made:
        yield made


@pytest.fixture(scope="session")
def front(services: Cluster) -> Iterator[Front]:
    """Before the store: it answers as a test says."""
    with front_before(Front("", services.store_url)) as made:
        yield made


@pytest.fixture(scope="session")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("control")


@pytest.fixture(scope="session")
def workers(services: Cluster, front: Front, control: Path) -> Iterator[Cluster]:
    """With the daemon and both workers; neither sees the folders of another host."""
    services.instance = QUICK
    services.settings = {"buckets": BUCKETS, "buckets_per_run": BUCKETS_PER_RUN, "sources": []}
    names = ("control", *WORKERS)
    folders = {name: services.host(name).folder for name in names}
    for host in services.hosts.values():
        host.environment.update(
            PINCITE_TEST_CONTROL=str(control),
            PINCITE_TEST_WORKER=host.name,
            PINCITE_TEST_KEY=host.name,
            AWS_ENDPOINT_URL=front.url,
        )
        services.write(host)
    services.workspace = _workspace(services.folder)
    services.start_daemon("tests.distributed.quick_daemon")
    mounts = can_mount()
    for name in WORKERS:
        hidden = [folder for other, folder in folders.items() if other != name] if mounts else []
        services.start_worker(name, "tests.distributed.held_app", hidden=hidden)
    environment = services.host("control").environment
    known = {name: value for name, value in environment.items() if name.startswith(("AWS_", "PGPASS", "PINCITE_TEST"))}
    with mock.patch.dict(os.environ, known):  # for commands that run in this process
        yield services


def _workspace(folder: Path) -> Path:
    file = folder / "workspace.yaml"
    module = {"module_name": "tests.distributed.quick_definitions", "location_name": "pincite"}
    import yaml

    file.write_text(yaml.safe_dump({"load_from": [{"python_module": module}]}))
    return file


@pytest.fixture
def made(workers: Cluster, endpoint: EmbeddingServer, front: Front, control: Path) -> Iterator[Distributed]:
    """An index of its own, empty; what a test has ended runs again after it."""
    endpoint.forget()
    endpoint.keys.clear()
    yield Distributed(workers, endpoint, front, control)
    front.faults.clear()
    for name in ("redis", "store", "daemon", *WORKERS):
        service = workers.service(name)
        if service.process.poll() is not None:
            service.start_again()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failure is told with the ends of all logs."""
    report: Any = yield
    services = item.funcargs.get("services") or item.funcargs.get("workers")
    if report.failed and isinstance(services, Cluster):
        logs = sorted((services.folder / "logs").glob("*.log"))
        for log in logs:
            report.sections.append((str(log), "\n".join(log.read_text(errors="replace").splitlines()[-40:])))
    return report
