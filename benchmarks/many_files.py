"""Real and made files in a row through one `pincite index`: that it ends, and that each is served or named.

    python benchmarks/many_files.py [--files 1000] [--seed 0] [--timeout 7200] [--seconds 120] [--folder FOLDER]

Takes what ../shared/data has of files that are read, a fifth of --files at most, and makes the rest (ordinary.py:
forms, contracts, contents lists, listings, logs, tables of digits, lines of 400,000 characters in 14 scripts, chains of
mails, in every format). Vectors come from an endpoint that costs nothing, so that what is measured is all else. Prints
documents, failures by stage and code with their names, seconds by stage, peak memory of all processes together, and
the seconds of a second run with nothing changed. Exits with 1 where a run did not end in time, where a document is
neither served nor named, or is named without stage, code and reason, or where the second run did anything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.memory import tree_memory  # noqa: E402  (the path above finds it)
from benchmarks.support.quick_endpoint import quick_endpoint  # noqa: E402
from resources.parsers.registry import media_type_of  # noqa: E402
from resources.postgres.generation_tables import GenerationTables  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402
from tests.support.ordinary_files import write  # noqa: E402

SHARED = ROOT.parent / "shared" / "data"
REAL = ("policies", "unlp-medicine", "reports", "parser-fixtures")


def hashed(texts: Sequence[str]) -> Iterator[list[float]]:
    """Vectors that are hashes of the texts."""
    for text in texts:
        yield (np.frombuffer(blake2b(text.encode(), digest_size=32).digest(), np.int8).astype(float) + 0.5).tolist()


def gather(folder: Path, files: int, seed: int) -> tuple[int, int]:
    """How many real files and how many made ones stand under a folder."""
    found = [path for name in REAL for path in sorted((SHARED / name).rglob("*")) if path.is_file()]
    real = [path for path in found if media_type_of(path)]
    # Of fewer than all, those that stand apart from one another: not the first folder alone.
    most = min(len(real), files // 5)
    for path in real[:: max(1, len(real) // most)][:most] if most else []:
        place = folder / "real" / path.relative_to(SHARED)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    for number in range(files - most):
        write(folder / "made", seed * 10_000 + number)
    return most, files - most


def run(config: Path, log: Path, timeout: float) -> tuple[dict[str, Any], float, float]:
    """Result, seconds, and peak MB of all its processes. Raises SystemExit where it does not end, or ends badly."""
    started, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "pincite.cli", "index", "--config", str(config), "--json"]
    with log.open("wb") as said, tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=said, cwd=ROOT, start_new_session=True)
        while process.poll() is None:
            peak = max(peak, tree_memory(process.pid))
            if time.perf_counter() - started > timeout:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise SystemExit(f"NO END within {timeout:.0f} s; it said at last:\n{log.read_text()[-2000:]}")
            time.sleep(1)
        out.seek(0)
        told = out.read().decode()
    if process.returncode not in (0, 3):
        raise SystemExit(f"exited with {process.returncode}: {told[-2000:]}\n{log.read_text()[-4000:]}")
    return json.loads(told), time.perf_counter() - started, peak / 1e6


def served(config: Path) -> set[str]:
    """Addresses of the documents that the live generation serves."""
    state = State(locate(str(config)))
    try:
        live = state.parts.catalog.live()
        served = GenerationTables(state.parts.database, live).content_hashes() if live else {}
        return {uri for _, uri in state.listing.places(served).values()}
    finally:
        state.close()


def told(result: Mapping[str, Any]) -> None:
    documents = result["documents"]
    failed = documents["failed"]
    print(f"documents          {documents['listed']} listed, {documents['added']} added, {len(failed)} failed, "
          f"{len(documents['skipped'])} skipped; {result['chunks']['total']} chunks, "
          f"{result['embedded']['chunks'] + result['embedded']['sentences']} texts embedded")  # fmt: skip
    for (stage, code), count in sorted(Counter((item["stage"], item["code"]) for item in failed).items()):
        print(f"  {stage}: {code}: {count}")
        for item in failed:
            if (item["stage"], item["code"]) == (stage, code):
                print(f"    {item['uri']}: {item['message'][:160]}")
    print("seconds by stage   " + ", ".join(f"{name} {value:.1f}" for name, value in result["seconds"].items()))


def problems(folder: Path, first: Mapping[str, Any], second: Mapping[str, Any], found: set[str]) -> list[str]:
    """What is wrong, in words."""
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    failed = {item["uri"]: item for item in first["documents"]["failed"]}
    named = failed.keys() | {item["uri"] for item in first["documents"]["skipped"]}
    wrong = [f"neither served nor named: {uri}" for uri in sorted(there - found - named)]
    wrong += [f"named without stage, code or reason: {uri}" for uri, item in failed.items()
              if not (item["stage"] and item["code"] and item["message"])]  # fmt: skip
    again = (second["chunks"]["written"], second["embedded"]["chunks"] + second["embedded"]["sentences"])
    wrong += [f"a second run wrote {again[0]} chunks and embedded {again[1]} texts"] if any(again) else []
    return wrong + ([] if first["published"] else ["the generation was not published"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds for the first run")
    parser.add_argument("--seconds", type=float, default=120.0, help="parsing.timeout_seconds: a document's, by stage")
    parser.add_argument("--folder", type=Path, help="kept afterwards; a temporary one by default")
    asked = parser.parse_args()
    place = asked.folder or Path(tempfile.mkdtemp(prefix="pincite-many-"))
    docs, config = place / "docs", place / "pincite.yaml"
    try:
        real, made = gather(docs, asked.files, asked.seed)
        size = sum(path.stat().st_size for path in docs.rglob("*") if path.is_file())
        print(f"files              {real} real, {made} made with seed {asked.seed}; {size / 1e6:.0f} MB", flush=True)
        with quick_endpoint(hashed) as url:
            embedder = {"endpoint": url, "model": "hashed"}
            sources = [{"name": "many", "path": "docs"}]
            limits = {"timeout_seconds": asked.seconds}
            settings = {"state": "state", "sources": sources, "embedder": embedder, "parsing": limits}
            config.write_text(json.dumps(settings))
            first, seconds, peak = run(config, place / "first.log", asked.timeout)
            told(first)
            print(
                f"first run          {seconds:.1f} s, it ended; peak memory of all processes {peak:.0f} MB", flush=True
            )
            second, seconds, _ = run(config, place / "second.log", asked.timeout)
        print(f"nothing changed    {second['seconds']['total']:.2f} s, {seconds:.1f} s with the start of its process")
        found = served(config)
        wrong = problems(docs, first, second, found)
        print(f"served             {len(found)} documents")
        print("\n".join(wrong) or "every document is served or named, and the second run did nothing")
    finally:
        if asked.folder is None:
            shutil.rmtree(place, ignore_errors=True)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
