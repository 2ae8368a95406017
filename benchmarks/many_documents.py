"""Many small documents through one `pincite index`, by an embedder that costs next to nothing: what the pipeline costs.

    python benchmarks/many_documents.py [--documents 10000] [--against COMMIT] [--folder FOLDER] [--watched]

Makes Markdown documents of two chunks and about six sentences each, indexes them from nothing, again with nothing
changed, and again with one document changed. Vectors come from an endpoint in a process of its own that makes them of
hashes. Prints the seconds of each run and of its stages, and of processors; with --against those of another commit on
the same documents, in turn. With --watched the first run is watched and not timed: the peak of the proportional memory
of all its processes, those of the database apart and together.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.against import checkout_of, clean_environment, processor_seconds, python_of  # noqa: E402  (path above)
from benchmarks.support.memory import peaks, tree_memory  # noqa: E402
from benchmarks.support.ready_vectors import endpoint_process  # noqa: E402

WORDS = 20_000
"""Of the vocabulary; how often each is used falls as in a text of people: the n-th one 1/n as often as the first."""


def vocabulary() -> list[str]:
    chosen, syllables = random.Random(1), [f"{a}{b}" for a in "bdfgklmnprstvz" for b in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(chosen.choices(syllables, k=chosen.randint(2, 4)))] = None
    return list(words)


def make_documents(folder: Path, documents: int) -> None:
    """Two sections each of three sentences, of some 100 words, so that each section is a chunk of its own."""
    words = vocabulary()
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for number in range(documents):
        chosen = random.Random(number)
        place = folder / f"{number // 1000:03d}" / f"{number:06d}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(document(chosen, number, words, weights))


def document(chosen: random.Random, number: int, words: list[str], weights: list[float]) -> str:
    lines = [f"# Record {number}"]
    for section in ("Purpose", "Duties"):
        sentences = []
        for _ in range(3):
            drawn = chosen.choices(words, weights, k=chosen.randint(28, 40))
            sentences.append(" ".join(drawn).capitalize() + ".")
        lines += ["", f"## {section} of {chosen.choice(words)}", "", " ".join(sentences)]
    return "\n".join(lines) + "\n"


def run(python: Path, config: Path, watched: bool = False) -> dict[str, Any]:
    """The result of `pincite index`, with `clock` and `processors` in seconds, and where watched peaks in MB."""
    command = [str(python), "-m", "pincite.cli", "index", "--config", str(config), "--json"]
    started, before = time.perf_counter(), processor_seconds()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=config.parent, env=clean_environment()
    )
    with peaks((lambda: memory(process.pid, config.parent)) if watched else None, 1.0) as most:
        out, errors = process.communicate()
        seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}:\n{out[-2000:]}{errors[-4000:]}")
    found: dict[str, Any] = json.loads(out)
    used = processor_seconds() - before
    return {**found, "clock": seconds, "processors": used, "peaks": {n: v / 1e6 for n, v in most.items()}}


def memory(pid: int, place: Path) -> dict[str, int]:
    """Bytes of a run's own processes, of its main one, and of them with the database server, which it does not own."""
    own = tree_memory(pid)
    servers = [int(file.read_text().split()[0]) for file in place.glob("state/*/postmaster.pid")]
    return {"run": own, "main": tree_memory(pid, under=False), "with database": own + sum(map(tree_memory, servers))}


def told(name: str, found: Mapping[str, Any]) -> None:
    chunks, embedded = found["chunks"], found["embedded"]
    print(f"{name:26} {found['clock']:8.2f} s, {found['processors']:8.2f} s of processors; {chunks['total']} chunks, "
          f"{chunks['written']} written, {embedded['sentences']} sentences embedded")  # fmt: skip
    print("    " + ", ".join(f"{stage} {value:.2f}" for stage, value in found["seconds"].items() if value >= 0.05))
    if found["peaks"]:
        print("    peak MB: " + ", ".join(f"{name} {value:.0f}" for name, value in found["peaks"].items()), flush=True)


def measured(name: str, python: Path, docs: Path, place: Path, url: str, watched: bool) -> float:
    """Seconds of the first run."""
    config = place / "pincite.yaml"
    sources = [{"name": "many", "path": str(docs)}]
    config.write_text(
        json.dumps({"state": "state", "sources": sources, "embedder": {"endpoint": url, "model": "ready"}})
    )
    first = run(python, config, watched)
    told(f"{name}, from nothing", first)
    told(f"{name}, nothing changed", run(python, config))
    changed = docs / "000" / "000007.md"
    text = changed.read_text()
    changed.write_text(text + "\nThe gate is shut at night, and the porter has the key to it.\n")
    told(f"{name}, one changed", run(python, config, watched))
    changed.write_text(text)
    subprocess.run([str(python), "-m", "pincite.cli", "db", "stop", "--config", str(config)], cwd=place, check=False,
                   stdout=subprocess.DEVNULL, env=clean_environment())  # fmt: skip
    shutil.rmtree(place / "state")
    return float(first["clock"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--against", help="a commit")
    parser.add_argument("--folder", type=Path, help="kept afterwards; a temporary one by default")
    parser.add_argument("--watched", action="store_true")
    given = parser.parse_args()
    place = given.folder or Path(tempfile.mkdtemp(prefix="pincite-many-"))
    docs = place / "docs"
    try:
        if not docs.exists():
            make_documents(docs, given.documents)
        versions = {"here": python_of(ROOT, place / "own")}
        if given.against:
            versions = {
                given.against: python_of(checkout_of(given.against, place / "other"), place / "its"),
                **versions,
            }
        with endpoint_process() as url:
            clocks = {
                name: measured(name, python, docs, place, url, given.watched) for name, python in versions.items()
            }
        if given.against and not given.watched:
            print(f"from nothing: {clocks['here'] / clocks[given.against]:.3f} x {given.against}")
    finally:
        if given.folder is None:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
