"""How long chunking takes, by length and splitter, without any embedding model.

    python benchmarks/chunking_speed.py

Prints CPU seconds for documents of 10, 100 and 1,000 pages of made text, and for hostile ones. Vectors
for `cluster` are random: only its own work counts.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks  # noqa: E402  (the path above finds it)
from pipelines.indexing.structural_chunks import structural_chunks  # noqa: E402
from pipelines.ports import Vectors  # noqa: E402
from pipelines.records import Block, Box, TextRun  # noqa: E402
from pipelines.settings.base import ChunkingSettings  # noqa: E402
from tests.support.builders import document, heading, paragraph, table  # noqa: E402

SHIPPED = ChunkingSettings()
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
chance = random.Random(3)
noise = np.random.default_rng(0)
WORDS = ["".join(chance.choices(LETTERS, k=chance.randint(2, 11))) for _ in range(5000)]


def sentence() -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(8, 25))).capitalize() + "."


def pages(count: int) -> list[Block]:
    """Four paragraphs a page, a heading every third, a table every fifth: about 3,100 characters a page."""
    blocks: list[Block] = []
    for page in range(1, count + 1):
        if page % 3 == 1:
            blocks.append(heading(f"Section {page} {chance.choice(WORDS)}", 1 + page % 3))
        for _ in range(4):
            words = " ".join(sentence() for _ in range(6)).split()
            lines = [" ".join(words[at : at + 12]) for at in range(0, len(words), 12)]
            runs = (TextRun(line, Box(page, 72, 100 + n, 500, 112 + n)) for n, line in enumerate(lines))
            blocks.append(Block("paragraph", tuple(runs)))
        if page % 5 == 0:
            blocks.append(table(*[tuple(chance.choices(WORDS, k=5)) for _ in range(12)]))
    return blocks


def embed(texts: Sequence[str]) -> Vectors:
    vectors = noise.standard_normal((len(texts), 64)).astype(np.float32)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def cases() -> Iterator[tuple[str, list[Block]]]:
    for count in (10, 100, 1000):
        yield f"{count:,} pages", pages(count)
    yield "1M characters without a space", [paragraph("x" * 1_000_000)]
    yield "1M full stops", [paragraph("." * 1_000_000 + "x")]
    yield (
        "10,000 nested headings",
        [block for at in range(10_000) for block in (heading(f"Heading {at}", at + 1), paragraph(f"Text {at} here."))],
    )
    yield "a table of 100,000 rows", [table(("A", "B", "C"), *[(f"r{n}", "x y", "7") for n in range(100_000)])]


def main() -> None:
    print("| text | characters | structural | " + " | ".join(SPLITTERS) + " | peak MB |")
    print("|---" * (len(SPLITTERS) + 4) + "|")
    for name, blocks in cases():
        made, elements = document(*blocks)
        started = time.process_time()
        units = structural_chunks(made, elements, SHIPPED.clause_tokens)
        times = [time.process_time() - started]
        for strategy in SPLITTERS:
            started = time.process_time()
            packed_chunks(units, elements, SHIPPED.target_tokens, SHIPPED.max_tokens, strategy, embed)
            times.append(time.process_time() - started)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"| {name} | {len(made.body):,} | " + " | ".join(f"{t:.2f}" for t in times) + f" | {peak} |", flush=True)


if __name__ == "__main__":
    main()
