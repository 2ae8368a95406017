"""RELATED_TO over 1,000 to 100,000 sentences: all of them, those near one another, and after one document changed.

    python benchmarks/links.py [--sentences 1000 10000 100000] [--crowded | --vectors FILE.npy] [--floor 0.90]
                               [--only-near]

The sentences are vectors of 384 dimensions from a seed: a third lie alone, most of the others in groups of
two to eight that are alike, and a twentieth are one and the same line of boilerplate; three to a chunk, six
to a document. Beside the seconds stand those of the bare products of the same shapes in single precision,
taken in the same run: every block of rows against itself and those after it for the whole, one document's
rows against all for the update. An update must give what a rebuild gives; that is checked.

`--crowded` moves them all together, as multilingual-e5-small does: cosines of pairs at random are 0.84, and one
in a thousand is over 0.94; its floor is 0.97. `--vectors` takes those of real sentences, shape (n, dimension), of
unit length, over and over to the count, so that every sentence is boilerplate; an update is of the first document.

Above sentence_links.EXACT_PAIRS only sentences near one another are compared. `near` does so whatever their number, and
says which share it finds of the links of some sentences that are compared with all; `--only-near` leaves out all else,
for numbers that nobody would compare exactly.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipelines.indexing import sentence_links as linking  # noqa: E402  (path above)
from pipelines.indexing.sentence_links import BLOCK, sentence_links  # noqa: E402
from pipelines.settings.base import SentenceSettings  # noqa: E402

DIMENSION, DOCUMENT, CHUNK = 384, 6, 3
SAMPLED = 2000
MOST = SentenceSettings().related_most
TOPICS, COMMON = 24, 0.84
"""Crowded vectors: dimensions in which they differ, and the cosine that they have in common."""


def grouped(count: int, dimension: int) -> Any:
    """Shape (count, dimension), unit length."""
    chance = np.random.default_rng(count)
    group = np.concatenate([np.repeat(-1 - np.arange(count // 3), 1), np.zeros(count // 20, dtype=np.int64)])
    group = np.concatenate([group, 1 + chance.integers(0, max(1, count // 8), count - len(group))])
    centres = chance.standard_normal((group.max() + count // 3 + 1, dimension), dtype=np.float32)
    vectors = centres[np.where(group < 0, group.max() - group, group)]
    alike = group > 0
    vectors[alike] += np.float32(0.25) * chance.standard_normal((int(alike.sum()), dimension), dtype=np.float32)
    vectors = vectors[chance.permutation(count)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def crowded(count: int) -> Any:
    """Grouped vectors in few dimensions, turned into all, with a large part in common."""
    turned, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((DIMENSION, TOPICS + 1)))
    shared = np.full((count, 1), np.sqrt(COMMON))
    own = np.sqrt(1 - COMMON) * grouped(count, TOPICS)
    return (np.concatenate([shared, own], axis=1) @ turned.T).astype(np.float32)


def repeated(file: Path, count: int) -> Any:
    return np.resize(np.load(file).astype(np.float32), (count, np.load(file, mmap_mode="r").shape[1]))


def places(count: int) -> tuple[list[str], list[str]]:
    """Ids in no order, and chunks."""
    ids = [f"{value:08d}" for value in np.random.default_rng(count).permutation(count)]
    return ids, [str(number // CHUNK) for number in range(count)]


def bare(vectors: Any, rows: int) -> float:
    """Seconds of the products alone of the first rows with all."""
    started = time.perf_counter()
    for start in range(0, rows, BLOCK):
        for other in range(start, len(vectors), BLOCK):
            vectors[start : min(start + BLOCK, rows)] @ vectors[other : other + BLOCK].T
    return time.perf_counter() - started


def memory(which: str) -> float:
    """MB that this process holds (VmRSS), or the most since the last reset (VmHWM). Linux only."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{which}:")[1].split()[0]) / 1024


def measure(vectors: Any, floor: float) -> None:
    count = len(vectors)
    ids, chunks = places(count)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    held, started = memory("VmRSS"), time.perf_counter()
    whole = sentence_links(ids, chunks, vectors, floor, MOST)
    seconds, added = time.perf_counter() - started, memory("VmHWM") - held
    told("whole", count, whole.compared, len(whole.links), seconds, bare(vectors, count), added)
    measure_near(vectors, floor)

    vectors[:DOCUMENT] = vectors[DOCUMENT : 2 * DOCUMENT]
    started = time.perf_counter()
    update = sentence_links(ids, chunks, vectors, floor, MOST, before=whole.links, known=set(ids[DOCUMENT:]))
    seconds = time.perf_counter() - started
    told("one document", count, update.compared, len(update.links), seconds, bare(vectors, update.compared), None)
    if update.links != sentence_links(ids, chunks, vectors, floor, MOST).links:
        raise SystemExit("the update differs from a rebuild")


def measure_near(vectors: Any, floor: float) -> None:
    ids, chunks = places(len(vectors))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    held, pairs, linking.EXACT_PAIRS = memory("VmRSS"), linking.EXACT_PAIRS, 0
    started = time.perf_counter()
    near = sentence_links(ids, chunks, vectors, floor, MOST)
    seconds, linking.EXACT_PAIRS = time.perf_counter() - started, len(ids) ** 2
    added = memory("VmHWM") - held
    counts = f"{len(vectors):>9,}{near.compared:>10,}{len(near.links):>9,}"
    asked = set(ids[:: max(1, len(ids) // SAMPLED)])
    one_by_one = sentence_links(ids, chunks, vectors, floor, MOST, known=set(ids) - asked)
    linking.EXACT_PAIRS = pairs
    exact = {link for link in one_by_one.links if link.source_id in asked}
    share = f"   {len(exact & set(near.links)) / len(exact):.4f} of the exact ones of {len(asked):,}"
    print(f"{'near':<13}{counts}{seconds:>9.2f}{'':>16}{added:>9.0f}{share}", flush=True)


def told(what: str, count: int, compared: int, links: int, seconds: float, least: float, added: float | None) -> None:
    counts, more = f"{count:>9,}{compared:>10,}{links:>9,}", "" if added is None else f"{added:>9.0f}"
    print(f"{what:<13}{counts}{seconds:>9.2f}{least:>9.2f}{seconds / least:>7.1f}{more}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, nargs="+", default=[1000, 10_000, 100_000])
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--crowded", action="store_true")
    shape.add_argument("--vectors", type=Path, metavar="FILE.npy")
    parser.add_argument("--floor", type=float, help="0.90 by default, 0.97 where crowded.")
    parser.add_argument("--only-near", action="store_true")
    asked = parser.parse_args()
    heads = ("", "sentences", "compared", "links", "s", "bare s", "ratio", "MB more")
    print("{:<13}{:>9}{:>10}{:>9}{:>9}{:>9}{:>7}{:>9}".format(*heads))
    for count in asked.sentences:
        if asked.vectors:
            vectors = repeated(asked.vectors, count)
        else:
            vectors = crowded(count) if asked.crowded else grouped(count, DIMENSION)
        floor = asked.floor or (0.97 if asked.crowded else 0.90)
        if asked.only_near:
            measure_near(vectors, floor)
        else:
            measure(vectors, floor)


if __name__ == "__main__":
    main()
