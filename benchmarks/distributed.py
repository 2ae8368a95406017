"""One index by one process, by one worker, and by two workers, with an embedder behind an endpoint that waits.

    python benchmarks/distributed.py [--documents 400] [--wait 1.0] [--buckets 8] [--no-alone]

Starts Redis, moto's S3 server, Postgres by TCP with TLS, Dagster's daemon and workers of one process each, as
examples/celery has them, all on this machine: what is measured is what many machines cost, not what they bring. The
endpoint sleeps for --wait seconds a request, so that cores are not the limit. Told are, of each: seconds from the
command to its end; of the backfills also how long no run was in progress (the daemon looks at a backfill every thirty
seconds), how long a run takes from its launch to its first step, the share of the workers' time in which they had no
run, and the connections that were held at once, by database and application.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.increments import vectors  # noqa: E402  (the path above finds it)
from benchmarks.support.machine import provenance  # noqa: E402
from benchmarks.support.quick_endpoint import quick_endpoint  # noqa: E402
from examples.celery.local import BUCKET, Cluster, Ports, cluster  # noqa: E402
from tests.distributed.running import documents  # noqa: E402

LOOK = 0.2
"""Seconds between two looks at the server's connections."""


@dataclass
class Connections:
    """The most that were held at once, by what has them."""

    most: Counter[str] = field(default_factory=Counter)
    together: int = 0

    @contextmanager
    def watched(self, made: Cluster) -> Iterator[None]:
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(made, done), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _watch(self, made: Cluster, done: threading.Event) -> None:
        import psycopg

        statement = """SELECT datname, split_part(application_name, ',', 1), count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY 1, 2"""
        with psycopg.connect(made.address("postgres", "postgres"), autocommit=True) as connection:
            while not done.wait(LOOK):
                found: Counter[str] = Counter()
                for database, application, count in connection.execute(statement):
                    name = " ".join(str(application).split()[:2]) or "(no name)"
                    found[f"{database}: {name}"] += count
                self.most |= found
                self.together = max(self.together, found.total())


@dataclass
class Told:
    seconds: float
    runs: list[tuple[float, float, float]] = field(default_factory=list)
    """Of each run: when it was launched, when it began, when it ended."""

    def shown(self, workers: int) -> str:
        if not self.runs:
            return f"{self.seconds:7.1f} s"
        busy = sum(ended - began for _, began, ended in self.runs)
        starts = sorted(began - launched for launched, began, _ in self.runs)
        return (
            f"{self.seconds:7.1f} s; {len(self.runs)} runs, none in progress for {self.idle():.1f} s "
            f"({self.idle() / self.seconds:.0%}); workers without a run {1 - busy / workers / self.seconds:.0%}; a run "
            f"begins {starts[len(starts) // 2]:.1f} s after its launch (median)"
        )

    def idle(self) -> float:
        """Seconds between the first launch and the last end in which no run was in progress."""
        spent, reached = 0.0, min(began for _, began, _ in self.runs)
        for _, began, ended in sorted(self.runs, key=lambda run: run[1]):
            spent += max(0.0, began - reached)
            reached = max(reached, ended)
        return spent


def settings_of(url: str, buckets: int, per_run: int | None) -> dict[str, Any]:
    return {
        "buckets": buckets,
        "buckets_per_run": per_run,
        "sources": [{"name": "docs", "path": f"s3://{BUCKET}/docs/"}],
        "embedder": {"endpoint": url, "model": "waits"},
        "parsing": {"workers": 1},
    }


def one_process(made: Cluster, settings: dict[str, Any]) -> Told:
    """`pincite index` with tables in a folder and a database of the same server."""
    host = made.host("alone")
    made.make_database("alone", "pincite")
    alone = {key: value for key, value in settings.items() if key != "buckets_per_run"}
    host.config.write_text(json.dumps({**alone, "database": made.address("alone", "pincite", secret=False)}))
    began = time.monotonic()
    ran = made.run("index", "--json", host="alone")
    if ran.returncode:
        raise SystemExit(f"pincite index exited with {ran.returncode}: {ran.stderr[-2000:]}")
    return Told(time.monotonic() - began)


def backfill(made: Cluster, connections: Connections) -> Told:
    began = time.monotonic()
    with connections.watched(made):
        ran = made.run("index", "--distributed", "--json")
    if ran.returncode:
        raise SystemExit(f"pincite index --distributed exited with {ran.returncode}: {ran.stderr[-2000:]}")
    return Told(time.monotonic() - began, runs_of(made))


def runs_of(made: Cluster) -> list[tuple[float, float, float]]:
    """From Dagster's records: launched, began, ended."""
    code = (
        "import json, dagster as dg\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    stats = [instance.get_run_stats(run.run_id) for run in instance.get_runs()]\n"
        "print(json.dumps([[each.launch_time, each.start_time, each.end_time] for each in stats]))"
    )
    told = subprocess.check_output([sys.executable, "-P", "-c", code], env=made.host("control").environment, text=True)
    return [tuple(times) for times in json.loads(told.splitlines()[-1]) if all(times)]


def measured(
    folder: Path, url: str, count: int, buckets: int, workers: int, beside: bool = False
) -> tuple[Told, Connections, Told | None]:
    """An index by so many workers, in services of its own; `beside` it that of one process."""
    with cluster(folder, Ports.free()) as made:
        for uri, text in documents(count).items():
            made.store().put_object(Bucket=BUCKET, Key=f"docs/{uri}", Body=text.encode())
        settings = settings_of(url, buckets, buckets // workers if workers > 1 else None)
        alone = one_process(made, settings) if beside else None
        made.settings = {**settings, "tables": f"s3://{BUCKET}/tables"}
        made.start_daemon()
        for number in range(workers):
            made.start_worker(f"worker-{number}")
        connections = Connections()
        return backfill(made, connections), connections, alone


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--wait", type=float, default=1.0, help="Seconds that the endpoint waits before it answers.")
    parser.add_argument("--buckets", type=int, default=8)
    parser.add_argument("--alone", action=argparse.BooleanOptionalAction, default=True, help="One process, too.")
    options = parser.parse_args(arguments)

    def waiting(texts: Sequence[str]) -> Any:
        time.sleep(options.wait)
        return vectors(texts)

    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as place, quick_endpoint(waiting) as url:
        print(provenance("python benchmarks/distributed.py " + " ".join(sys.argv[1:])), flush=True)
        print(f"{options.documents} documents, {os.cpu_count()} cores, {options.wait} s a request", flush=True)
        one, held, alone = measured(Path(place, "one"), url, options.documents, options.buckets, 1, options.alone)
        if alone:
            more = one.seconds - alone.seconds
            print(f"one process   {alone.shown(1)}")
            print(f"  overhead of a worker: {more:.1f} s, {one.seconds / alone.seconds:.2f} of one process", flush=True)
        print(f"one worker    {one.shown(1)}", flush=True)
        two, both, _ = measured(Path(place, "two"), url, options.documents, options.buckets, 2)
        print(
            f"two workers   {two.shown(2)}\n  {one.seconds / two.seconds:.2f} times as fast as one worker", flush=True
        )
    for workers, connections in ((1, held), (2, both)):
        print(f"connections at once with {workers} worker(s): {connections.together}")
        for name, count in sorted(connections.most.items()):
            print(f"  {count:3d}  {name}")


if __name__ == "__main__":
    main()
