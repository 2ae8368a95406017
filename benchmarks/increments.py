"""A folder of many small documents indexed again: with nothing changed, and with one document changed.

    python benchmarks/increments.py [--documents 10000] [--folder DIR] [--serve]

Makes the documents from a seed (Markdown of one to three chunks, invented words), and embeds at a
loopback endpoint that answers at once, so that what is timed is pincite. Every run is a process of its
own that starts and stops the state's Postgres. Beside the seconds stand those that no run can do
without, taken in the same run: reading and hashing the same files in a bare loop, starting and stopping
the same Postgres, and Python with the imports of any run. Of the run with one changed document it tells
which buckets' files were made anew and how many rows were written.

With --folder the project is kept there and used again; --serve only answers its embedding requests, for
runs by hand.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.quick_endpoint import quick_endpoint  # noqa: E402  (the path above finds it)
from resources.postgres.server import PostgresServer  # noqa: E402

DIMENSION = 384
TABLES = ("documents", "document_names", "abbreviations", "chunks", "sentences", "sentence_links", "postings")
BARE = {
    "python and imports": "import click, dagster, numpy, psycopg, pyarrow.parquet, pydantic, yaml",
    "start and stop Postgres": "import sys; from pathlib import Path; from resources.postgres.server import "
    "PostgresServer as P; s = P(Path(sys.argv[1])); s.acquire(); s.release()",
}

# ---------------------------------------------------------------- documents and vectors

VERBS = ("approves", "records", "inspects", "returns", "delivers", "repairs", "replaces", "checks", "signs", "keeps")
ENDINGS = ("before the end of the month", "within ten days", "at the front desk", "for the next year", "with care")
FRAME = {"the", "of", "and", "edition", "notice", "questions", "go", "to", "office", *VERBS, *" ".join(ENDINGS).split()}
STARTS, MIDDLES, ENDS = (
    ["b", "br", "d", "f", "g", "gr", "k", "l", "m", "n", "p", "pr", "s", "st", "t", "tr", "v", "w"],
    ["a", "e", "i", "o", "u", "ai", "ou"],
    ["n", "r", "l", "nd", "st", "m", "x"],
)


def invented(chance: random.Random, count: int) -> list[str]:
    """Distinct words of two syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(chance.choice(part) for part in (STARTS, MIDDLES, ENDS, MIDDLES, ENDS))] = None
    return list(words)


def document(
    number: int, nouns: Sequence[str], edition: int = 1, sections: int | None = None, sentences: int | None = None
) -> str:
    """Markdown of a title and sections, one to three of two or three sentences each where nothing else is said;
    the same number and edition give the same text."""
    chance = random.Random(number * 1000 + edition)

    def noun() -> str:
        return nouns[int(len(nouns) * chance.random() ** 2)]

    def sentence() -> str:
        start = f"The {noun()} of the {noun()} {chance.choice(VERBS)}"
        return f"{start} the {noun()} and the {noun()} {chance.choice(ENDINGS)}."

    parts = [
        f"## {noun().title()} {noun()}\n\n" + " ".join(sentence() for _ in range(sentences or chance.randint(2, 3)))
        for _ in range(sections or chance.randint(1, 3))
    ]
    end = f"Edition {edition} of notice {number}. Questions go to the {chance.choice(nouns[:2000])} office."
    return "\n\n".join([f"# {noun().title()} {number}", *parts, end, ""])


def make_documents(folder: Path, count: int, **shape: int) -> list[str]:
    """Writes the documents that are not there, a hundred in a folder; returns the words they are made of."""
    nouns = invented(random.Random(5), 4000)
    for number in range(count):
        file = path_of(folder, number)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(document(number, nouns, **shape), encoding="utf-8")
    return nouns


def path_of(folder: Path, number: int) -> Path:
    return folder / f"{number // 100:03d}" / f"notice-{number:05d}.md"


@cache
def word_vector(word: str) -> Any:
    """Words of the frame that all sentences share weigh little, as in vectors of a model."""
    if word in FRAME:
        return np.zeros(DIMENSION)
    seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(DIMENSION)


def vectors(texts: Sequence[str]) -> Iterator[list[float]]:
    """The sum of one random vector a word."""
    for text in texts:
        summed = np.sum([word_vector(word) for word in ["", *re.findall(r"\w+", text.lower())]], 0)
        yield [round(value, 3) for value in summed.tolist()]


# ---------------------------------------------------------------- a project and its runs


class Project:
    """A folder with documents, settings and a state; the settings keep the endpoint's port."""

    def __init__(self, folder: Path, documents: int, **shape: int) -> None:
        self.docs, self.state, self.config = folder / "docs", folder / "state", folder / "pincite.yaml"
        self.nouns = make_documents(self.docs, documents, **shape)
        kept = json.loads(self.config.read_text())["embedder"]["endpoint"] if self.config.exists() else ""
        self.port = int(kept.rsplit(":", 1)[1].split("/")[0]) if kept else 0

    def configure(self, url: str, model: str = "quick") -> None:
        settings = {
            "state": "state",
            "sources": [{"name": "docs", "path": "docs"}],
            "embedder": {"endpoint": url, "model": model},
        }
        self.config.write_text(json.dumps(settings), encoding="utf-8")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "pincite.cli", "index", "--json", "--config", str(self.config)]

    def index(self) -> tuple[float, dict[str, Any]]:
        """Seconds of the whole process, and its JSON."""
        return timed(self.command)

    def files(self) -> dict[str, set[str]]:
        """Table to its files."""
        found: dict[str, set[str]] = {}
        for file in (self.state / "parquet").rglob("*.parquet"):
            found.setdefault(file.relative_to(self.state / "parquet").parts[0], set()).add(file.name)
        return found

    def rows_since(self, transaction: int) -> tuple[int, dict[str, int]]:
        """(The next transaction, rows by table that were written since one.)"""
        import psycopg

        server = PostgresServer(self.state)
        try:
            with psycopg.connect(server.acquire()) as connection:
                schema, after = connection.execute(
                    "SELECT 'g' || lpad(generation::text, 4, '0'), pg_current_xact_id()::text::bigint FROM pincite.live"
                ).fetchone() or ("", 0)
                counts = {
                    table: connection.execute(
                        f"SELECT count(*) FROM {schema}.{table} WHERE xmin::text::bigint >= {transaction}"
                    ).fetchone()[0]  # type: ignore[index]
                    for table in TABLES
                }
        finally:
            server.release()
        return after, counts


def timed(command: Sequence[str]) -> tuple[float, dict[str, Any]]:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)} exited with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return seconds, json.loads(done.stdout) if done.stdout.startswith("{") else {}


def hashed(folder: Path) -> float:
    """Seconds to walk a folder and hash every file."""
    started = time.perf_counter()
    for file in sorted(folder.rglob("*.md")):
        blake2b(file.read_bytes(), digest_size=16).hexdigest()
    return time.perf_counter() - started


def floor(project: Project) -> dict[str, float]:
    """Seconds of what no run can do without, the best of three."""
    made = {"read and hash the files": min(hashed(project.docs) for _ in range(3))}
    for name, code in BARE.items():
        made[name] = min(timed([sys.executable, "-c", code, str(project.state)])[0] for _ in range(3))
    return made


def told(result: dict[str, Any]) -> str:
    stages = ", ".join(f"{name} {spent:.2f}" for name, spent in result["seconds"].items() if spent >= 0.05)
    return f"seconds by stage: {stages}"


def measure(project: Project, runs: int) -> None:
    cold, result = project.index()
    documents, chunks = result["documents"], result["chunks"]
    print(f"{documents['listed']} documents, {chunks['total']} chunks")
    if chunks["written"]:
        print(f"from nothing           {cold:7.1f} s   {told(result)}")
    needed = floor(project)
    print("no run without         " + "   ".join(f"{name} {spent:.2f} s" for name, spent in needed.items()))
    limit = sum(needed.values())
    found = [project.index() for _ in range(runs)]
    still = min(spent for spent, _ in found)
    written = sum(result["chunks"]["written"] + sum(result["embedded"].values()) for _, result in found)
    print(
        f"nothing changed        {still:7.2f} s   {still / limit:.2f} x the above (under 5 s); {written} rows or texts"
    )
    changed = []
    for run in range(runs):
        number = (run + 1) * 997 % documents["listed"]
        files, (transaction, _) = project.files(), project.rows_since(0)
        path_of(project.docs, number).write_text(document(number, project.nouns, 2 + time.time_ns()), encoding="utf-8")
        changed.append((*project.index(), files, project.files(), project.rows_since(transaction)[1]))
    one, result, before, after, rows = min(changed, key=lambda found: found[0])
    buckets = {name: sorted(file[:3].strip("-") for file in after[name] - before.get(name, set())) for name in after}
    print(f"one document changed   {one:7.2f} s   {one / limit:.2f} x the above (under 10 s)   {told(result)}")
    print("  new files by bucket  " + ", ".join(f"{name} {' '.join(made)}" for name, made in buckets.items() if made))
    print("  rows written         " + ", ".join(f"{count} {name}" for name, count in rows.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="Keep the project here, and use it again.")
    parser.add_argument("--runs", type=int, default=3, help="Runs of each kind; the best counts.")
    parser.add_argument("--serve", action="store_true", help="Only answer embedding requests of --folder's project.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as place:
        project = Project((options.folder or Path(place)).resolve(), options.documents)
        with quick_endpoint(vectors, project.port) as url:
            project.configure(url)
            if options.serve:
                print(f"answering at {url} for {project.config}; stop with Ctrl-C")
                threading.Event().wait()
            measure(project, options.runs)


if __name__ == "__main__":
    main()
