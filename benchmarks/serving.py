"""What `pincite serve` takes, beside `Index.query` on the same index and bare PDFium on the same pages, in one run.

    python benchmarks/serving.py [--documents DIR] [--questions FILE] [--state DIR] [--seconds 60] [--askers 50]
    python benchmarks/serving.py --crowd [--state DIR]

The folder is indexed by the command itself, once where --state is given, and served by it on loopback. Then, after a
warm-up: the front page, a page of results and the reader; search over HTTP and by `Index.query` in turn, question by
question; pictures of pages that were not drawn before, beside the same pages rendered by PDFium in this process, and
again from the cache; one asker and many for so long each, with errors, the 95th percentile, and the server's memory;
and a question by command with the server and without. Milliseconds are medians; what comes second in a row is its peer.

With --crowd it is a load test instead. Several addresses of loopback send at once more than a server can do: idle
connections, questions, pictures, and questions to a language model on loopback that takes LLM_SECONDS to answer. One
ordinary user at another address searches meanwhile, one search after another, and before it alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.indexes import indexed  # noqa: E402  (the path above finds it)
from benchmarks.support.machine import provenance  # noqa: E402
from benchmarks.support.memory import tree_memory  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pincite import open_index  # noqa: E402
from resources.documents.page_pictures import opened_pages  # noqa: E402
from tests.support.llm_server import llm_server  # noqa: E402

DATA = ROOT.parent / "shared" / "data" / "policies"
WARM, PAGES, PATIENCE = 20, 40, 60
SAID = re.compile(r"Ask at (http://\S+)")


def milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def fetched(client: httpx.Client, address: str) -> None:
    client.get(address).raise_for_status()


def shown(times: Sequence[float]) -> str:
    """Median and 95th percentile."""
    return f"{statistics.median(times):.1f} (p95 {sorted(times)[max(0, round(len(times) * 0.95) - 1)]:.1f})"


@contextmanager
def served(config: Path) -> Iterator[tuple[int, str]]:
    """The server's process and address."""
    command = [sys.executable, "-m", "pincite.cli", "serve", "--port", "0", "--config", str(config)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not (said := SAID.search(process.stderr.readline())):
            if process.poll() is not None:
                raise SystemExit("pincite serve ended")
        try:
            yield process.pid, said[1]
        finally:
            process.terminate()


def asked_by_many(url: str, questions: Sequence[str], askers: int, seconds: float) -> tuple[list[float], int]:
    """Milliseconds of every answer, and how many were none."""
    times: list[float] = []
    errors, over, lock = [0], time.monotonic() + seconds, threading.Lock()

    def asker(number: int) -> None:
        with httpx.Client(base_url=url, timeout=PATIENCE) as client:
            at = number
            while time.monotonic() < over:
                begun = time.perf_counter()
                try:
                    good = client.get("/api/search", params={"q": questions[at % len(questions)]}).status_code == 200
                except httpx.HTTPError:
                    good = False
                with lock:
                    times.append((time.perf_counter() - begun) * 1000)
                    errors[0] += not good
                at += askers

    with ThreadPoolExecutor(askers) as threads:
        list(threads.map(asker, range(askers)))
    return times, errors[0]


def pages_of(config: Path, url: str, client: httpx.Client) -> list[tuple[str, Path, int]]:
    """Documents with pages: id, file, page, the pages spread over all of them."""
    with open_index(config) as index:
        root = Path(index.sources()[0]["root"])
        listed = index.documents.list_documents(most=1000)
    found = [(it.doc_id, root / it.uri, page) for it in listed for page in range(2, (it.pages or 0) + 1)]
    return found[:: max(1, len(found) // PAGES)][:PAGES]


def page_rows(url: str, client: httpx.Client, config: Path) -> list[list[str]]:
    cold, bare, cached = [], [], []
    for doc_id, file, page in pages_of(config, url, client):
        address = f"/api/pages/{doc_id}/{page}.png"
        cold.append(milliseconds(partial(fetched, client, address)))
        cached.append(milliseconds(partial(fetched, client, address)))
        with opened_pages(file) as pages:
            bare.append(milliseconds(partial(pages.picture, page)))
    return [
        ["picture of a page, not drawn before; PDFium alone", shown(cold), shown(bare)],
        ["the same, drawn before", shown(cached), ""],
    ]


def search_rows(url: str, client: httpx.Client, config: Path, questions: Sequence[str]) -> list[list[str]]:
    over_http, by_python = [], []
    with open_index(config) as index:
        for question in questions[:WARM]:
            client.get("/api/search", params={"q": question}).raise_for_status()
            index.query(question)
        for question in questions:
            over_http.append(milliseconds(partial(client.get, "/api/search", params={"q": question})))
            by_python.append(milliseconds(partial(index.query, question)))
    return [["search over HTTP; `Index.query`", shown(over_http), shown(by_python)]]


def html_rows(url: str, client: httpx.Client, questions: Sequence[str]) -> list[list[str]]:
    html = {"Accept": "text/html"}
    hits = client.get("/api/search", params={"q": questions[0], "k": 50}).json()["hits"]
    addresses = {
        "front page": ["/"] * 20,
        "page of results, with its answer": [str(httpx.URL("/", params={"q": text})) for text in questions[:50]],
        "reader": [f"/passages/{hit['chunk_id']}" for hit in hits for _ in range(2)],
    }
    rows = []
    for name, some in addresses.items():
        client.get(some[0], headers=html).raise_for_status()
        rows.append([name, shown([milliseconds(partial(client.get, at, headers=html)) for at in some]), ""])
    return rows


def command_row(config: Path, questions: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "pincite.cli", "query", questions[0], "--config", str(config)]

    def run() -> None:
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    told = config.parent / "state" / "serve.json"
    by_server = [milliseconds(run) for _ in range(5)]
    away = told.rename(told.with_suffix(".away"))
    alone = [milliseconds(run) for _ in range(5)]
    away.rename(told)
    return ["`pincite query`, answered by the server; without one", shown(by_server), shown(alone)]


# ---------------------------------------------------------------- a crowd

LLM_SECONDS = 5.0
IDLE, QUESTIONS, PICTURES, ANSWERS = 1_000, 400, 80, 40
CROWD = {"idle": "127.0.0.2", "questions": "127.0.0.3", "pictures": "127.0.0.4", "answers": "127.0.0.5"}
USER = "127.0.0.9"
ALONE_SECONDS, LEAST_SECONDS = 15.0, 30.0
OUTCOMES = {"200": "answered", "404": "not there", "503": "come back", "504": "out of time"}
Told = tuple[str, list[float]]


def at_once(url: str, address: str, paths: Sequence[str]) -> list[Told]:
    """Return the outcomes of requests that one address sends at once, each by a connection of its own, with seconds."""

    place = httpx.URL(url)

    async def asked(path: str) -> tuple[str, float]:
        begun = time.perf_counter()
        try:
            reading, writing = await asyncio.open_connection(place.host, place.port, local_addr=(address, 0))
            writing.write(f"GET {path} HTTP/1.1\r\nHost: {place.host}\r\nConnection: close\r\n\r\n".encode())
            status = (await reading.read()).partition(b" ")[2][:3].decode() or "no answer"
            writing.close()
        except OSError as error:
            status = type(error).__name__
        return OUTCOMES.get(status, status), time.perf_counter() - begun

    async def all_of_them() -> list[tuple[str, float]]:
        return await asyncio.gather(*map(asked, paths))

    found: dict[str, list[float]] = {}
    for told, seconds in asyncio.run(all_of_them()):
        found.setdefault(told, []).append(seconds)
    return sorted(found.items())


def idle(url: str, address: str, count: int, seconds: float) -> list[Told]:
    """So many connections that say nothing, and one that sends a header every 3 seconds: when the server ends them."""
    begun, place = time.perf_counter(), httpx.URL(url)
    found: dict[str, list[float]] = {}
    silent: list[socket.socket] = []
    with suppress(OSError):
        for _ in range(count):
            silent.append(socket.create_connection((place.host, place.port), source_address=(address, 0)))
    slowly = socket.create_connection((place.host, place.port), source_address=(address, 0))
    slowly.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    waiting, said = {*silent, slowly}, begun
    while waiting and time.perf_counter() - begun < seconds:
        for each in selected(waiting):
            waiting.discard(each)
            kind = "head cut off" if each is slowly else "closed"
            found.setdefault(kind, []).append(time.perf_counter() - begun)
        if slowly in waiting and time.perf_counter() - said > 3:
            said = time.perf_counter()
            with suppress(OSError):
                slowly.sendall(b"X-More: 1\r\n")
    if waiting:
        found["still open"] = [seconds] * len(waiting)
    for each in (*silent, slowly):
        each.close()
    return sorted(found.items())


def selected(connections: set[socket.socket]) -> list[socket.socket]:
    """Return the connections that the server has closed, after a short while."""
    with selectors.DefaultSelector() as watched:
        for each in connections:
            watched.register(each, selectors.EVENT_READ)
        return [key.fileobj for key, _ in watched.select(0.2)]  # type: ignore[misc]


def searches(url: str, questions: Sequence[str], until: Callable[[float], bool]) -> tuple[list[float], int]:
    """Milliseconds of the searches of one ordinary user, and how many were not answered."""
    times: list[float] = []
    errors, begun = 0, time.monotonic()
    transport = httpx.HTTPTransport(local_address=USER)
    with httpx.Client(base_url=url, timeout=300, transport=transport) as client:
        while not until(time.monotonic() - begun):
            search = str(httpx.URL("/api/search", params={"q": questions[len(times) % len(questions)]}))
            try:
                times.append(milliseconds(partial(fetched, client, search)))
                times.append(milliseconds(partial(fetched, client, "/health")))
            except httpx.HTTPError:
                errors += 1
            time.sleep(0.1)
    return times, errors


def crowd(config: Path, questions: Sequence[str]) -> None:
    mark = f"{time.time():.0f}"

    def slowly(prompt: str) -> str:
        time.sleep(LLM_SECONDS)
        return "It is said in the documents [1]."

    with llm_server() as model:
        model.reply = slowly
        settings = yaml.safe_load(config.read_text(encoding="utf-8"))
        settings["llm"] = {"roles": {"answer": {"base_url": model.url, "model": "slow"}}}
        asking = config.with_name("asking.yaml")
        asking.write_text(yaml.safe_dump(settings), encoding="utf-8")
        with served(asking) as (pid, url), httpx.Client(base_url=url, timeout=PATIENCE) as client:
            pages = [f"/api/pages/{doc_id}/{page}.png" for doc_id, _, page in pages_of(config, url, client)]
            pictures = [pages[at % len(pages)] for at in range(PICTURES // 2)]
            pictures += [re.sub(r"/\d+\.png", "/0.png", address) for address in pictures]
            for question in questions[:WARM]:
                client.get("/api/search", params={"q": question}).raise_for_status()
            alone, _ = searches(url, questions, lambda passed: passed > ALONE_SECONDS)
            several = [questions[at % len(questions)] for at in range(QUESTIONS)]
            searched = [str(httpx.URL("/api/search", params={"q": text})) for text in several]
            asked = [str(httpx.URL("/api/ask", params={"q": f"{text} {mark}"})) for text in questions[:ANSWERS]]
            with ProcessPoolExecutor(len(CROWD)) as processes:
                sent: dict[str, Future[list[Told]]] = {
                    "idle": processes.submit(idle, url, CROWD["idle"], IDLE, 2 * LEAST_SECONDS),
                    "questions": processes.submit(at_once, url, CROWD["questions"], searched),
                    "pictures": processes.submit(at_once, url, CROWD["pictures"], pictures),
                    "answers": processes.submit(at_once, url, CROWD["answers"], asked),
                }

                def over(passed: float) -> bool:
                    return passed > LEAST_SECONDS and all(it.done() for name, it in sent.items() if name != "idle")

                beside, errors = searches(url, questions, over)
                outcomes = {name: future.result() for name, future in sent.items()}
            memory = round(tree_memory(pid) / 1e6)
    print(provenance("python benchmarks/serving.py --crowd"), "\n")
    rows = [
        [f"{name}, from {CROWD[name]}", told, str(len(times)), f"{statistics.median(times):.1f}", f"{max(times):.1f}"]
        for name, outcome in outcomes.items()
        for told, times in outcome
    ]
    print("\n".join(table(["sent", "became", "count", "median s", "slowest s"], rows)), "\n")
    users = [
        [name, str(len(times[::2])), str(wrong), shown(times[::2]), f"{max(times[::2]):.0f}", f"{max(times[1::2]):.0f}"]
        for name, times, wrong in (("alone", alone, 0), ("beside the crowd", beside, errors))
    ]
    head = ["one user", "searches", "errors", "milliseconds", "slowest", "slowest /health"]
    print("\n".join(table(head, users)))
    print("\nMB of the server and all that it started:", memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, default=DATA)
    parser.add_argument("--questions", type=Path, default=DATA / "questions.jsonl")
    parser.add_argument("--state", type=Path, help="folder of an index that is kept, and taken up where it is there")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--askers", type=int, default=50)
    parser.add_argument("--crowd", action="store_true", help="the load test")
    given = parser.parse_args()
    lines = given.questions.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines if line.strip()]
    with tempfile.TemporaryDirectory() as folder:
        place = (given.state or Path(folder)).resolve()
        config, source = place / "pincite.yaml", {"name": "served", "path": str(given.documents.resolve())}
        indexed(config, {"state": "state", "sources": [source]})
        if given.crowd:
            crowd(config, questions)
        else:
            measure(config, questions, given.askers, given.seconds)


def measure(config: Path, questions: Sequence[str], askers: int, seconds: float) -> None:
    rows: list[list[str]] = []
    with served(config) as (pid, url), httpx.Client(base_url=url, timeout=PATIENCE) as client:
        rows += search_rows(url, client, config, questions)
        rows += html_rows(url, client, questions)
        rows += page_rows(url, client, config)
        rows.append(command_row(config, questions))
        print(provenance("python benchmarks/serving.py"), "\n")
        print("\n".join(table(["milliseconds", "served", "peer"], rows)), "\n")
        many: list[list[Any]] = []
        memory = {"before": tree_memory(pid)}
        for count in (1, askers):
            times, errors = asked_by_many(url, questions, count, seconds)
            many.append([count, len(times), errors, f"{len(times) / seconds:.1f}", shown(times)])
        memory["after"] = tree_memory(pid)
        head = ["askers", "questions", "errors", "a second", "milliseconds"]
        print("\n".join(table(head, [list(map(str, row)) for row in many])))
        print("\nMB of the server and all that it started:", {name: round(size / 1e6) for name, size in memory.items()})


if __name__ == "__main__":
    main()
