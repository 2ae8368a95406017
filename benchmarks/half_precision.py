"""What half precision loses of the vectors of an index: nearest neighbours, and digits of a cosine.

    python benchmarks/half_precision.py CONFIG [CONFIG ...]

Of 300 chunks and 300 sentences of the live generation of each pincite.yaml, their vectors moved a little as a question
lies beside a passage's: the share of the ten nearest in half precision that are among the ten nearest in full, equal
ones counted, and the most that a cosine is off. Every vector is compared: nothing here is the loss of a walk.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pincite.index import open_index  # noqa: E402  (the path above finds it)

ASKED, NEAREST, MOVED = 300, 10, 0.2
TABLES = ("chunk_embeddings", "sentence_search_embeddings")


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def halved(vectors: Any) -> Any:
    return unit(vectors.astype(np.float16).astype(np.float64))


def measured(vectors: Any) -> tuple[float, float]:
    """(share of the nearest that are found, the most that a cosine is off) of vectors of shape (n, dimension)."""
    chance = np.random.default_rng(0)
    chosen = vectors[chance.choice(len(vectors), min(ASKED, len(vectors)), replace=False)]
    asked = unit(chosen + chance.normal(0, MOVED / chosen.shape[1] ** 0.5, chosen.shape))
    full, half = asked @ vectors.T, halved(asked) @ halved(vectors).T
    most = min(NEAREST, len(vectors))
    least = np.sort(full, axis=1)[:, -most, None]
    found = np.take_along_axis(full, np.argsort(-half, axis=1)[:, :most], axis=1) >= least - 1e-6
    return float(found.mean()), float(np.abs(full - half).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="+", type=Path)
    for config in parser.parse_args().config:
        with open_index(config) as index:
            for table in TABLES:
                rows = index.table(table).select("vector").collect()["vector"].to_list()
                vectors = unit(np.array(rows, dtype=np.float64))
                found, off = measured(vectors)
                print(f"{config.parent.name}, {table}: {len(vectors):,} vectors, {found:.4f} found, {off:.6f} off")


if __name__ == "__main__":
    main()
