"""Many small documents through one `pincite index`, by an embedder that costs next to nothing: what the pipeline costs.

    python benchmarks/many_documents.py [--documents 10000 100000] [--against COMMIT] [--folder FOLDER] [--watched]

Makes Markdown documents of two chunks and about six sentences each, indexes them from nothing, again with nothing
changed, and again with one document changed, once timed and once watched. Vectors come from an endpoint in a process of
its own that makes them of hashes. Prints the seconds of each run and of its stages, and of processors, and the peak of
the proportional memory of all processes of the run with one change; with --against those of another commit on the same
documents, in turn, and the ratios. The state made from nothing is kept in --folder, and made but once; the endpoint, by
whose address its vectors are known, is at the same port the next time. With --watched
the first run is watched, and not to be taken for timed.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
    """Bytes of a run's own processes, of its main one, and of them with the database server, which is under it where
    it started that."""
    servers = [int(file.read_text().split()[0]) for file in place.glob("state/*/postmaster.pid")]
    own = tree_memory(pid, but=servers)
    return {"run": own, "main": tree_memory(pid, under=False), "with database": own + sum(map(tree_memory, servers))}


def told(name: str, found: Mapping[str, Any]) -> None:
    chunks, embedded = found["chunks"], found["embedded"]
    print(f"{name:26} {found['clock']:8.2f} s, {found['processors']:8.2f} s of processors; {chunks['total']} chunks, "
          f"{chunks['written']} written, {embedded['sentences']} sentences embedded")  # fmt: skip
    print("    " + ", ".join(f"{stage} {value:.2f}" for stage, value in found["seconds"].items() if value >= 0.05))
    if found["peaks"]:
        print("    peak MB: " + ", ".join(f"{name} {value:.0f}" for name, value in found["peaks"].items()), flush=True)


@dataclass(frozen=True, slots=True)
class Version:
    """A checkout that is measured, and the folder of its states."""

    name: str
    python: Path
    place: Path


CHANGED = "\nThe gate is shut at night, and the porter has the key to it.\n"
_NOT_STAGES = ("total", "raw_documents")


def measured(version: Version, docs: Path, url: str, watched: bool) -> dict[str, float]:
    """What is compared: seconds by the clock and of processors of each run, of its stages after the listing, and MB at
    the peak."""
    place = version.place / docs.name
    config = place / "pincite.yaml"
    made, found = (place / "state").exists(), {}
    place.mkdir(parents=True, exist_ok=True)
    sources = [{"name": "many", "path": str(docs)}]
    config.write_text(
        json.dumps({"state": "state", "sources": sources, "embedder": {"endpoint": url, "model": "ready"}})
    )
    if made:
        run(version.python, config)  # the document that was changed last is as it was
    else:
        found["from nothing"] = run(version.python, config, watched)
        told(f"{version.name}, from nothing", found["from nothing"])
    found["nothing changed"] = run(version.python, config)
    told(f"{version.name}, nothing changed", found["nothing changed"])
    changed = docs / "000" / "000007.md"
    text = changed.read_text()
    try:
        for number, name in enumerate(("one changed", "one changed, watched"), start=1):
            changed.write_text(text + CHANGED * number)
            found[name] = run(version.python, config, watched=number > 1)
            told(f"{version.name}, {name}", found[name])
    finally:
        changed.write_text(text)
    subprocess.run(
        [str(version.python), "-m", "pincite.cli", "db", "stop", "--config", str(config)],
        cwd=place,
        check=False,
        stdout=subprocess.DEVNULL,
        env=clean_environment(),
    )
    stages = found["one changed"]["seconds"]
    watched_ones = {name: result["peaks"] for name, result in found.items() if result["peaks"]}
    return {
        **{f"{name}, clock": result["clock"] for name, result in found.items()},
        **{f"{name}, processors": result["processors"] for name, result in found.items()},
        "one changed, stages": sum(value for stage, value in stages.items() if stage not in _NOT_STAGES),
        **{f"{name}, MB {who}": peak for name, most in watched_ones.items() for who, peak in most.items()},
    }


def compared(what: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> None:
    for name, value in ours.items():
        if theirs.get(name):
            print(f"{what:40} {name:36} {value:9.2f} / {theirs[name]:9.2f} = {value / theirs[name]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000])
    parser.add_argument("--against", help="a commit")
    parser.add_argument("--folder", type=Path, help="kept afterwards; a temporary one by default")
    parser.add_argument("--watched", action="store_true")
    given = parser.parse_args()
    place = given.folder or Path(tempfile.mkdtemp(prefix="pincite-many-"))
    found: dict[tuple[str, int], dict[str, float]] = {}
    try:
        versions = [Version("here", python_of(ROOT, place / "own"), place / "here")]
        if given.against:
            other = place / "other" / given.against
            python = python_of(other if other.exists() else checkout_of(given.against, other), place / "its")
            versions.insert(0, Version(given.against, python, place / given.against))
        port = place / "port"
        with endpoint_process(int(port.read_text()) if port.exists() else 0) as url:
            port.write_text(str(urlsplit(url).port))
            for count in given.documents:
                docs = place / f"docs-{count}"
                if not docs.exists():
                    make_documents(docs, count)
                for version in versions:
                    print(f"{count} documents, {version.name}", flush=True)
                    found[version.name, count] = measured(version, docs, url, given.watched)
        for count in given.documents:
            if given.against:
                what = f"{count} documents, here / {given.against}"
                compared(what, found["here", count], found[given.against, count])
        for count in given.documents[1:]:
            first = given.documents[0]
            compared(f"here, {count} / {first} documents", found["here", count], found["here", first])
    finally:
        if given.folder is None:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
