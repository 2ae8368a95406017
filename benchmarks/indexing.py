"""Indexing against bare embedding of the same texts, in the same run.

    python benchmarks/indexing.py [FOLDER]

Prints, for a folder of documents (the shared policies by default): the seconds of `pincite index` from
nothing, as a ratio to what embedding the same chunk and sentence texts takes in a bare loop with the
same model; as shipped and with `sentences.embedded: fast`, as a ratio to what it takes to load the model and
embed what is embedded of the chunks alone; of a second run with nothing changed; and the peak memory of the
process and of all its processes together.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.machine import provenance  # noqa: E402  (the path above finds it)
from benchmarks.support.memory import peaks, tree_memory  # noqa: E402  (the path above finds it)

POLICIES = ROOT.parent / "shared" / "data" / "policies"

BARE = """
import json, sys, time
started = time.perf_counter()
from pipelines.settings.models import EmbedderSettings
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import resolve
texts, preset = json.load(open(sys.argv[1])), sys.argv[2]
settings = EmbedderSettings()
model = make_embedder(resolve(settings, preset), settings)
model.load()
loaded = time.perf_counter()
model.passages(texts)
print(json.dumps({"load": loaded - started, "embed": time.perf_counter() - loaded, "tokens": model.tokens}))
"""


def run(command: list[str], watched: bool = False) -> tuple[float, float, str]:
    """(seconds, peak MB of all its processes if watched, standard output).

    Reading the memory map of a process holds it up, so a run is either timed or watched."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    with peaks((lambda: {"all": tree_memory(process.pid)}) if watched else None, 0.25) as most:
        out, _ = process.communicate()
        seconds = time.perf_counter() - started
    if process.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    return seconds, most.get("all", 0) / 1e6, out


def embedded_texts(state: Path) -> tuple[list[str], list[str]]:
    """Every distinct text of a chunk that the index was made of, and those with the sentences."""
    from pipelines.indexing.embeddings import embedded_text
    from pipelines.records import Chunk, ChunkContext, DocumentSummary, Sentence
    from pipelines.schemas import from_table
    from resources.engine.tables import ParquetTables

    tables = ParquetTables(str(state / "parquet"))

    def rows(name: str, record: Any) -> list[Any]:
        files = sorted((state / "parquet" / name).rglob("*.parquet"))
        return [
            row for file in files for row in from_table(record, tables.read(str(file.relative_to(state / "parquet"))))
        ]

    summaries = {row.doc_id: row.text for row in rows("document_summaries", DocumentSummary)}
    contexts = {row.chunk_id: row.text for row in rows("chunk_contexts", ChunkContext)}
    texts = {embedded_text(row, summaries[row.doc_id], contexts[row.chunk_id]) for row in rows("chunks", Chunk)}
    return sorted(texts), sorted(texts | {row.text for row in rows("sentences", Sentence)})


def bare_loop(file: Path, preset: str) -> dict[str, float]:
    """Seconds to import and load, and to embed; tokens."""
    command = [sys.executable, "-c", BARE, str(file), preset]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else POLICIES
    if not folder.is_dir():
        raise SystemExit(f"no folder {folder}; name one: python benchmarks/indexing.py FOLDER")
    pincite = [sys.executable, "-m", "pincite.cli"]
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as place:
        index = [*pincite, "index", "--source", str(folder.resolve()), "--json", "--state"]
        state, file = Path(place) / "state", Path(place) / "texts.json"
        cold, _, out = run([*index, str(state)])
        result = json.loads(out)
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        again, _, out = run([*index, str(state)])
        second = json.loads(out)
        chunks, texts = embedded_texts(state)
        file.write_text(json.dumps(texts))
        alone = Path(place) / "chunks.json"
        alone.write_text(json.dumps(chunks))
        fast = Path(place) / "fast.yaml"
        fast.write_text(json.dumps({"sentences": {"embedded": "fast"}}))
        loops, bare, quick = [], [], []
        # Each in turn, and the better of the two: a machine that others use drifts.
        for turn in ("once", "again"):
            loops.append(bare_loop(file, result["embedder"]))
            bare.append(bare_loop(alone, result["embedder"]))
            quick.append(run([*index, str(Path(place) / f"fast-{turn}"), "--config", str(fast)])[0])
            cold = min(cold, run([*index, str(Path(place) / turn)])[0])
        loop = min(loops, key=lambda found: found["embed"])
        peer = min(found["load"] + found["embed"] for found in bare)
        _, together, _ = run([*index, str(Path(place) / "watched")], watched=True)
    documents = result["documents"]
    print(provenance("python benchmarks/indexing.py"), "\n")
    print(f"{folder.name}: {documents['listed']} documents, {result['chunks']['total']} chunks, {len(texts)} texts, "
          f"{loop['tokens']} tokens, {result['embedder']}")  # fmt: skip
    print(f"bare embedding of the same texts   {loop['embed']:6.1f} s   (and {loop['load']:.1f} s to import and load)")
    print(f"index from nothing                 {cold:6.1f} s   {cold / loop['embed']:.2f} x bare embedding (at most 2)")
    print(f"to load, and embed the chunks      {peer:6.1f} s   as shipped {cold / peer:.2f} x that, with "
          f"sentences.embedded: fast {min(quick):.1f} s, {min(quick) / peer:.2f} x (at most 1.2)")  # fmt: skip
    print(f"index with nothing changed         {again:6.2f} s   {second['chunks']['written']} chunks written, "
          f"{second['embedded']['chunks'] + second['embedded']['sentences']} texts embedded (under 2 s)")  # fmt: skip
    print(f"peak memory                        {largest:6.0f} MB largest process, {together:.0f} MB all together")
    print(
        "seconds by stage                   "
        + ", ".join(f"{k} {v:.1f}" for k, v in result["seconds"].items() if v >= 0.05)
    )


if __name__ == "__main__":
    main()
