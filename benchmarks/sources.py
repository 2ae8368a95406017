"""Documents in a bucket: listed and found unchanged, and indexed the first time, beside bare boto3 and beside a folder.

    python benchmarks/sources.py [--documents 10000] [--runs 3]
    python benchmarks/sources.py --large 1000000

Makes the documents of benchmarks/increments.py, puts them into a bucket of moto's S3 server, which is a process of its
own on the same cores, and embeds at a loopback endpoint that answers at once. In turn, each the best of its runs:
listing the bucket by boto3 alone; bringing it, with nothing changed, and the listing with all hashes that follows; the
command from the bucket and from the folder, with nothing changed and from nothing. Beside the first index stands what
boto3 alone takes to get the same objects with as many threads. Of what is measured within a process, the seconds of the
processor that this process takes stand beside those of the clock: the server has its own.

With --large, a bucket of so many objects instead, which a server of a process of its own makes by arithmetic and which
no reader takes: listed into the state, found unchanged, and the listing that follows, each with the most memory that
the process had until then. Of several numbers, one after the other in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.increments import make_documents, timed, vectors  # noqa: E402  (the path above finds it)
from benchmarks.support.quick_endpoint import quick_endpoint  # noqa: E402
from pipelines.settings.sources import SourceSettings  # noqa: E402
from resources.connectors.source import connect  # noqa: E402
from resources.sources.folder import list_source  # noqa: E402
from resources.sources.landing import Landing  # noqa: E402
from tests.support.large_bucket import large_bucket  # noqa: E402

BUCKET = "papers"
KEYS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def s3_process() -> Iterator[tuple[str, Any]]:
    """The address of a server of its own process, and a client of it."""
    import boto3

    code = (
        "import logging, time; logging.getLogger('werkzeug').setLevel(50)\n"
        "from moto.server import ThreadedMotoServer as Server\n"
        "server = Server('127.0.0.1', 0, verbose=False); server.start()\n"
        "print(server.get_host_and_port()[1], flush=True); time.sleep(1e6)"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket=BUCKET)
        yield url, client
    finally:
        server.kill()
        server.wait()


def put(client: Any, folder: Path) -> list[str]:
    """Puts every file of a folder; the keys."""
    files = sorted(file for file in folder.rglob("*.md"))
    keys = [file.relative_to(folder).as_posix() for file in files]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: client.put_object(Bucket=BUCKET, Key=key, Body=(folder / key).read_bytes()), keys))
    return keys


class Seconds(NamedTuple):
    """Of the clock, and of the processor."""

    clock: float
    own: float

    def __str__(self) -> str:
        return f"{self.clock:7.2f} s, {self.own:6.2f} s of the processor"


def best(work: Callable[[], Any], runs: int) -> Seconds:
    found = []
    for _ in range(runs):
        started = time.perf_counter(), time.process_time()
        work()
        found.append(Seconds(time.perf_counter() - started[0], time.process_time() - started[1]))
    return Seconds(*map(min, zip(*found, strict=True)))


def listed_bare(client: Any) -> int:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return sum(len(page.get("Contents", ())) for page in pages)


def got_bare(client: Any, keys: list[str]) -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read(), keys))


def listing(place: Path, url: str, runs: int, client: Any) -> None:
    """Prints what it takes to find a bucket unchanged."""
    source = SourceSettings(name="bucket", path=f"s3://{BUCKET}/", options={"endpoint": url})
    landing = Landing(place, source)

    def bring() -> None:
        with landing.alone(), closing(connect(source, landing.folder)) as connected:
            landing.bring(connected, None)

    def read() -> None:
        with landing.open_result() as brought:
            list_source(source, landing.root, None, brought=brought)

    first = best(bring, 1)
    bare, again, records = best(lambda: listed_bare(client), runs), best(bring, runs), best(read, runs)
    print(f"fetched the first time           {first}")
    print(f"listed by boto3 alone            {bare}")
    print(f"listed and found unchanged       {again}   {again.clock / bare.clock:.2f} x boto3 alone (under 5 s)")
    print(f"records of it, hashes included   {records}")


def large(place: Path, objects: int) -> None:
    """Prints what it takes to list so many."""
    with large_bucket(objects, ".bin") as url:
        source = SourceSettings(name="large", path="s3://large/", options={"endpoint": url})
        landing = Landing(place, source)

        def bring() -> None:
            with landing.alone(), closing(connect(source, landing.folder)) as connected:
                landing.bring(connected, None)

        def read() -> None:
            with landing.open_result() as brought:
                assert len(list_source(source, landing.root, None, brought=brought).skipped) == objects

        with closing(connect(source, place)) as connected:
            next(iter(connected.entries()))
        print(f"{objects} objects; a page of them       peak {peak():5.0f} MB", flush=True)
        for told, work in (("listed", bring), ("found unchanged", bring), ("the listing that follows", read)):
            took = best(work, 1)
            print(f"{told:26} {took}   peak {peak():5.0f} MB", flush=True)


def peak() -> float:
    """MB that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def project(folder: Path, source: dict[str, Any], endpoint: str) -> list[str]:
    """The command that indexes a source into a state of its own."""
    folder.mkdir()
    config = folder / "pincite.yaml"
    settings = {"state": "state", "sources": [source], "embedder": {"endpoint": endpoint, "model": "quick"}}
    config.write_text(json.dumps(settings), encoding="utf-8")
    return [sys.executable, "-m", "pincite.cli", "index", "--json", "--config", str(config)]


def commands(place: Path, docs: Path, url: str, runs: int) -> None:
    """Prints the command from the bucket beside the command from the folder."""
    with quick_endpoint(vectors, 0) as endpoint:
        in_bucket = {"name": "docs", "path": f"s3://{BUCKET}/", "options": {"endpoint": url}}
        of = {
            "bucket": project(place / "bucket", in_bucket, endpoint),
            "folder": project(place / "folder", {"name": "docs", "path": str(docs)}, endpoint),
        }
        first = {name: timed(command)[0] for name, command in of.items()}
        again = {name: min(timed(command)[0] for _ in range(runs)) for name, command in of.items()}
    for told, found in (("from nothing", first), ("nothing changed", again)):
        ratio = found["bucket"] / found["folder"]
        print(
            f"pincite index, {told:16}  bucket {found['bucket']:.2f} s, folder {found['folder']:.2f} s: {ratio:.2f} x"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3, help="Runs of each kind; the best counts.")
    parser.add_argument("--large", type=int, nargs="+", help="Objects of a bucket that is listed alone.")
    options = parser.parse_args()
    os.environ.update(KEYS)
    if options.large:
        with tempfile.TemporaryDirectory(prefix="pincite-bench-") as name:
            for objects in options.large:
                large(Path(name, str(objects)), objects)
        return
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as name, s3_process() as (url, client):
        place = Path(name)
        make_documents(place / "docs", options.documents)
        keys = put(client, place / "docs")
        print(f"{len(keys)} objects")
        listing(place / "landing", url, options.runs, client)
        print(f"got by boto3 alone, 16 threads   {best(lambda: got_bare(client, keys), 1)}")
        commands(place, place / "docs", url, options.runs)


if __name__ == "__main__":
    main()
