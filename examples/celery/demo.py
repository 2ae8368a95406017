"""Two workers that share nothing but an object store and a Postgres, on this machine and without containers.

    make demo-distributed            # ports 6390 to 6392 of 127.0.0.1
    make demo-distributed PORT=7390

Starts Redis, an S3 server, Postgres with TLS and a password, Dagster's daemon and two workers with state folders of
their own; indexes the project's library by one backfill, edits a document, kills a worker in the middle of a run, asks
a question, and ends all that it has started.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from examples.celery.local import BUCKET, Cluster, ClusterError, Ports, Service, cluster  # noqa: E402

LIBRARY = ROOT / "tests" / "data" / "library"
NEEDED = {"dagster_celery": "dagster-celery", "dagster_postgres": "dagster-postgres", "moto": "moto"}
EDITED, SAID = "notes/archive-move.txt", "The spare key of the harbour gate hangs behind the blue door."
QUESTION = "Where does the spare key of the harbour gate hang?"
WORKERS = ("one", "two")


def main() -> int:
    base = int(sys.argv[1]) if len(sys.argv) > 1 else 6390
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    folder = Path(tempfile.mkdtemp(prefix="pincite-distributed-"))
    try:
        if missing := [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]:
            raise ClusterError(
                f"{', '.join(missing)} not installed: make demo-distributed installs the extra, then again"
            )
        with cluster(folder, Ports.after(base)) as made:
            show(made)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; all that was started is ended", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def show(made: Cluster) -> None:
    step(f"Redis, an S3 server and Postgres (TLS, password) listen on 127.0.0.1, {made.ports.redis} and the next two")
    for path in sorted(LIBRARY.rglob("*")):
        if path.is_file():
            made.store().upload_file(str(path), BUCKET, f"library/{path.relative_to(LIBRARY)}")
    step("the library is in the bucket")
    made.settings = {
        "tables": f"s3://{BUCKET}/tables",
        "buckets": 4,
        "buckets_per_run": 2,
        "sources": [{"name": "library", "path": f"s3://{BUCKET}/library/"}],
        "parsing": {"workers": 1},
        "query": {"rerank": ["weighted"]},
    }
    made.start_daemon()
    for name in WORKERS:
        made.start_worker(name)
    step(f"Dagster's daemon and the workers {' and '.join(WORKERS)} run, each with a state folder of its own")

    step("first index: pincite index --distributed")
    told(index(made))

    key = f"library/{EDITED}"
    text = made.store().get_object(Bucket=BUCKET, Key=key)["Body"].read().decode()
    made.store().put_object(Bucket=BUCKET, Key=key, Body=f"{text}\n{SAID}\n".encode())
    step(f"{EDITED} is edited; pincite index --distributed")
    told(index(made))

    step("another edit, and the worker that begins with it is killed")
    made.store().put_object(Bucket=BUCKET, Key=key, Body=f"{text}\n{SAID} It is wet.\n".encode())
    host = made.host("control")
    output = made.folder / "index.json"
    running = made.start("index", command(), host.environment, folder=host.folder, output=output)
    victim = first_to_work(made)
    victim.kill()
    step(f"worker {victim.name} is dead; another in its place, as systemd starts it")
    made.start_worker(victim.name)
    running.process.wait()
    if running.process.returncode:
        raise ClusterError(f"pincite index --distributed ended with {running.process.returncode}: {running.tail()}")
    told(json.loads(output.read_text()))

    step(f"asked on a host that has indexed nothing: {QUESTION}")
    ran = made.run("query", QUESTION, "-k", "1", "--json", host="desk")
    if ran.returncode:
        raise ClusterError(ran.stderr.strip())
    (hit,) = json.loads(ran.stdout)["hits"]
    print(f"    {hit['uri']}: {hit['text']}")
    ran = made.run("verify", "--json")
    step(f"pincite verify: {ran.stdout.strip()}")
    if ran.returncode:
        raise ClusterError("the index is not what it should be")
    step("all is ended and removed")


def command() -> list[str]:
    return [sys.executable, "-P", "-m", "pincite.cli", "index", "--distributed", "--json"]


def index(made: Cluster) -> dict[str, Any]:
    ran = made.run(*command()[4:])
    if ran.returncode:
        raise ClusterError(
            f"pincite index --distributed ended with {ran.returncode}: {(ran.stderr or ran.stdout).strip()}"
        )
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def first_to_work(made: Cluster) -> Service:
    """The first worker that has got a run from here on, once the run has its session in Postgres."""
    services = [made.service(name) for name in WORKERS]
    seen = {service.name: service.log.stat().st_size for service in services}
    while True:
        for service in services:
            if b"received" in service.log.read_bytes()[seen[service.name] :] and sessions(made):
                return service
        time.sleep(0.05)


def sessions(made: Cluster) -> int:
    import psycopg

    statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pincite run %'"
    with psycopg.connect(made.address("postgres", "postgres")) as connection:
        row = connection.execute(statement).fetchone()
    return int(row[0]) if row else 0


def told(result: dict[str, Any]) -> None:
    documents, chunks = result["documents"], result["chunks"]
    counts = ", ".join(f"{documents[name]} {name}" for name in ("added", "changed", "unchanged", "removed"))
    print(f"    documents: {counts}; chunks written: {chunks['written']}; published: {result['published']}")


BEGAN = time.monotonic()


def step(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.0f} s] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
