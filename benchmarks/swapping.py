"""A swap of the embedder against embedding alone, and a run killed halfway.

    python benchmarks/swapping.py [--parts swap kill] [--chunks 50000] [--sample 200]

swap: an index of so many chunks is made with one embedder, then the settings name another. Both answer
      at a loopback endpoint and cost next to nothing, so the seconds of the swap, less those of a bare
      loop that embeds the same texts with the same client and endpoint, are what the swap adds. That is
      told as a share of what the texts of all chunks and sentences take with the English preset, at the
      rate measured here over a random sample of them, as many as --sample chunks have.
kill: a first run killed halfway and run again; how many texts were embedded twice.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.increments import DIMENSION, FRAME, Project, timed, told  # noqa: E402
from benchmarks.indexing import embedded_texts  # noqa: E402
from benchmarks.support.quick_endpoint import quick_endpoint  # noqa: E402
from resources.postgres.server import PostgresServer  # noqa: E402

SECTIONS, SENTENCES = 20, 8
"""Of a document of the swap: a chunk a section."""
FREEDOM = 16
"""Vectors of texts lie near a surface of few dimensions, and a graph over them finds its way; over vectors that
fill all 384 it does not, and the audit refuses it."""
BASIS = np.random.default_rng(1).standard_normal((FREEDOM, DIMENSION))

# ---------------------------------------------------------------- vectors that cost little

asked: Counter[str] = Counter()
"""Texts that were asked for, and how often."""


@cache
def word_vector(word: str) -> Any:
    """Words of the frame that all sentences share weigh nothing."""
    if word in FRAME:
        return np.zeros(FREEDOM)
    seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(FREEDOM)


def packed_vectors(texts: Sequence[str]) -> list[str]:
    """The sum of one random vector a word, in base64."""
    asked.update(texts)
    sums = [np.sum([word_vector(word) for word in ["", *re.findall(r"\w+", text.lower())]], 0) for text in texts]
    return [base64.b64encode(vector.tobytes()).decode() for vector in (np.array(sums) @ BASIS).astype("<f4")]


# ---------------------------------------------------------------- a swap of the embedder

BARE = """
import json, sys, time
from pipelines.settings.models import EmbedderSettings
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.specs import resolve
settings = EmbedderSettings(**json.loads(sys.argv[2]))
model = make_embedder(resolve(settings, "english-small"), settings)
model.load()
texts = json.load(open(sys.argv[1]))
model.passages(texts[:64])
started = time.perf_counter()
model.passages(texts)
print(json.dumps({"seconds": time.perf_counter() - started}))
"""


def bare_embedding(texts: Sequence[str], place: Path, **settings: str) -> float:
    """Seconds in which an embedder of these settings, loaded and warm, embeds these texts."""
    file = place / "texts.json"
    file.write_text(json.dumps(texts), encoding="utf-8")
    _, found = timed([sys.executable, "-c", BARE, str(file), json.dumps(settings)])
    return float(found["seconds"])


def measure_swap(place: Path, chunks: int, most: int) -> None:
    project = Project(place / "swap", max(1, chunks // SECTIONS), sections=SECTIONS, sentences=SENTENCES)
    with quick_endpoint(packed_vectors) as url:
        project.configure(url)
        cold, first = project.index()
        project.configure(url, "other")
        swap, second = project.index()
        _, texts = embedded_texts(project.state)
        quick = bare_embedding(texts, place, endpoint=url, model="other")
    count = second["chunks"]["total"]
    sample = random.Random(1).sample(texts, min(len(texts), len(texts) * most // count))
    whole = bare_embedding(sample, place, preset="english-small") * len(texts) / len(sample)
    print(f"swap of the embedder over {count} chunks, {len(texts)} texts, generation {first['generation']} to "
          f"{second['generation']}, published: {second['published']}")  # fmt: skip
    print(f"  from nothing, instant vectors      {cold:7.1f} s   {told(first)}")
    print(f"  the swap with instant vectors      {swap:7.1f} s   {told(second)}")
    print(f"  bare loop, instant vectors         {quick:7.1f} s")
    print(f"  bare loop, English preset          {whole:7.1f} s   from {len(sample)} of the texts")
    added = swap - quick
    print(f"  what the swap adds                 {added:7.1f} s   {added / whole:.1%} of embedding (at most 20 %)")


# ---------------------------------------------------------------- killed halfway


def killed(project: Project, half: Callable[[], bool]) -> None:
    """A run that is killed, with all its processes, as soon as `half` is true."""
    process = subprocess.Popen(
        project.command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while not half():
        if process.poll() is not None:
            raise SystemExit("the run ended before it was half done; give it more documents")
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def indexed(project: Project) -> int:
    """Documents with rows in the newest generation; 0 before there is one."""
    url = PostgresServer(project.state).url
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT max(generation) FROM pincite.generations").fetchone()
            return connection.execute(f"SELECT count(*) FROM g{row[0]:04d}.documents").fetchone()[0]  # type: ignore[index,no-any-return]
    except (psycopg.Error, TypeError):
        return 0


def measure_kill(place: Path, chunks: int) -> None:
    """Texts are about eight a document; the second moment is told by the rows themselves."""
    documents = max(400, chunks // 50)
    moments: dict[str, Callable[[Project], bool]] = {
        "half the texts embedded": lambda project: sum(asked.values()) > 4 * documents,
        "half the documents' rows are in": lambda project: indexed(project) >= documents // 2,
    }
    print(f"killed (SIGKILL) at a moment of a first run over {documents} documents, and run again")
    for number, (moment, half) in enumerate(moments.items()):
        project = Project(place / f"kill{number}", documents)
        asked.clear()
        with quick_endpoint(packed_vectors) as url:
            project.configure(url)
            killed(project, partial(half, project))
            before = sum(asked.values())
            _, result = project.index()
        again = sum(asked.values()) - len(asked)
        print(
            f"  {moment:32} {before} texts before, {sum(result['embedded'].values())} after; of {len(asked)} distinct "
            f"{again} embedded again ({again / len(asked):.1%})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=("swap", "kill"), default=["swap", "kill"])
    parser.add_argument("--chunks", type=int, default=50_000)
    parser.add_argument("--sample", type=int, default=200, help="Chunks whose texts the English preset embeds.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as folder:
        if "swap" in options.parts:
            measure_swap(Path(folder), options.chunks, options.sample)
        if "kill" in options.parts:
            measure_kill(Path(folder), options.chunks)


if __name__ == "__main__":
    main()
