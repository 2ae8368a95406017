"""The sentence skeleton against plain chunk embedding of the same text: seconds, ratio and memory by stage.

    python benchmarks/sentences.py [--sentences 100000] [--form blended] [--preset english-small] [--folder DIR]

The text is that of the shared policies, chunking corpora and reports (tatqa), again and again until there are
about so many sentences; in each sentence one word is another, and its digits are others each time round, so
that next to nothing is spared for being said twice. It is indexed stage by stage as `pincite index` does it,
without summaries and contexts, so that chunks are embedded as plainly as they can be. What sentences cost, both
their tables of vectors, links, rows and vector index, should take at most three times as long as the stage
that embeds the chunks. Their rows are loaded together with those of the chunks: the whole of that is counted.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.links import memory  # noqa: E402
from benchmarks.support.datasets import SHARED  # noqa: E402  (path above)
from pipelines.fingerprint import document_id  # noqa: E402
from pipelines.indexing.boundaries import sentence_spans  # noqa: E402
from pipelines.parsing.elements import build_elements  # noqa: E402
from pipelines.records import RawDocument  # noqa: E402
from pipelines.settings.base import settings_from  # noqa: E402
from pipelines.stages import STAGES  # noqa: E402
from resources.parsers.registry import media_type_of, parse_file  # noqa: E402
from resources.postgres.vector_indexes import VectorIndexes  # noqa: E402
from resources.settings_file import Project  # noqa: E402
from resources.stages.embedded_items import SENTENCE_FORMS  # noqa: E402
from resources.stages.indexed_documents import IndexBuild  # noqa: E402
from resources.stages.make import link_sentences, list_documents, make, write_index  # noqa: E402
from resources.state.state import State  # noqa: E402

AIM = 3.0
BLOCKS_A_DOCUMENT = 60
_WORD = re.compile(r"[^\W\d_]{5,}")

# ---------------------------------------------------------------- text

Blocks = list[tuple[str, str]]
"""(kind, text) of headings, paragraphs and list items, in order."""


def read_blocks(file: Path) -> Blocks:
    media_type = media_type_of(file)
    assert media_type is not None
    doc_id = document_id("s", file.name)
    raw = RawDocument(doc_id, "s", file.name, "", 1, media_type, None, None, None, None, (), {})
    _, elements = build_elements(raw, parse_file(file, media_type), lambda text: "en")
    return [(each.kind, " ".join(each.text.split())) for each in elements
            if each.kind in ("heading", "paragraph", "list_item") and each.text.strip()]  # fmt: skip


def real_documents() -> list[Blocks]:
    files = [*sorted((SHARED / "policies").glob("*.pdf")), *sorted((SHARED / "chunking-evaluation").glob("*.md"))]
    if not files:
        raise SystemExit(f"no text under {SHARED}")
    found = [read_blocks(file) for file in files]
    reports = json.loads((SHARED / "tatqa" / "dev.json").read_text(encoding="utf-8"))
    found.append([("paragraph", each["text"]) for report in reports for each in report["paragraphs"]])
    return [blocks[at : at + BLOCKS_A_DOCUMENT] for blocks in found for at in range(0, len(blocks), BLOCKS_A_DOCUMENT)]


def altered(text: str, edition: int, words: Sequence[str], chance: random.Random) -> tuple[str, int]:
    """Another edition of a text, and its number of sentences."""
    parts, at, spans = [], 0, sentence_spans(text)
    for start, end in spans:
        parts.append(text[at:start])
        sentence = re.sub(r"\d", lambda digit: str((int(digit[0]) + edition) % 10), text[start:end])
        places = list(_WORD.finditer(sentence))
        if places:
            place = chance.choice(places)
            sentence = sentence[: place.start()] + chance.choice(words) + sentence[place.end() :]
        parts.append(sentence)
        at = end
    return "".join([*parts, text[at:]]), len(spans)


def write_documents(folder: Path, sentences: int) -> None:
    """Markdown files of about so many sentences."""
    documents, chance = real_documents(), random.Random(1)
    words = sorted({word[0] for blocks in documents for _, text in blocks for word in _WORD.finditer(text)})
    folder.mkdir(parents=True)
    for number, (edition, blocks) in enumerate(editions(documents)):
        lines = [f"# Report {number}"]
        for kind, text in blocks:
            said, count = altered(text, edition, words, chance)
            sentences -= 0 if kind == "heading" else count
            lines.append({"heading": "## ", "list_item": "- "}.get(kind, "") + said)
        (folder / f"{number:05d}.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
        if sentences <= 0:
            return


def editions(documents: Sequence[Blocks]) -> Iterator[tuple[int, Blocks]]:
    edition = 0
    while True:
        yield from ((edition, blocks) for blocks in documents)
        edition += 1


# ---------------------------------------------------------------- stages


class Watch:
    """Seconds and peak memory of this process, by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peaks: dict[str, float] = {}

    def step(self, name: str, work: Any, *arguments: Any) -> Any:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        started = time.perf_counter()
        made = work(*arguments)
        self.seconds[name], self.peaks[name] = time.perf_counter() - started, memory("VmHWM")
        print(f"  {name:28}{self.seconds[name]:9.1f} s{self.peaks[name]:8.0f} MB", flush=True)
        return made


class OneByOne(VectorIndexes):
    """Builds the vector index of each table as a step of its own."""

    watch: Watch

    def _build(self, connection: Any, table: str, live: bool) -> None:
        self.watch.step(f"vector index of {table}", super()._build, connection, table, live)


def measure(state: State, watch: Watch) -> None:
    buckets = range(state.settings.buckets)
    watch.step("raw_documents", list_documents, state, buckets, [], True)
    reports = {}
    for stage in STAGES:
        if stage == "chunk_embeddings":
            watch.step("(loading the model)", state.ready_embedder)
        if stage == "sentence_links":
            reports[stage] = watch.step(stage, link_sentences, state)
        elif STAGES[stage].inputs:
            reports[stage] = watch.step(stage, make, state, stage, buckets)
    watch.step("indexed_documents", write_index, state, buckets)
    watch.step("links loaded", IndexBuild(state).load_links)
    indexes = OneByOne(state.parts.database, IndexBuild(state).generation, state.settings.vector_index)
    indexes.watch = watch
    indexes.build()
    counts = IndexBuild(state).index.counts()
    notes = {name: reports[name].notes for name in ("chunk_embeddings", "sentence_embeddings")}
    print(f"{counts['documents']:,} documents, {counts['chunks']:,} chunks, {counts['sentences']:,} sentences, "
          f"{counts['sentence_links']:,} links")  # fmt: skip
    for name, note in notes.items():
        print(f"{name}: {note['texts embedded']:,} texts of {note['tokens']:,} tokens embedded")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--form", choices=[*SENTENCE_FORMS], default="blended")
    parser.add_argument("--preset", choices=["english-small", "multilingual-small"], default="english-small")
    parser.add_argument("--folder", type=Path, help="A new folder for documents and state, which are kept.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as place:
        folder = (options.folder or Path(place)).resolve()
        write_documents(folder / "documents", options.sentences)
        settings = settings_from(
            {
                "sources": [{"name": "s", "path": str(folder / "documents")}],
                "embedder": {"preset": options.preset},
                "enrichment": {"summary": "off", "context": "off"},
                "sentences": {"embedded": options.form},
            }
        )
        state, watch = State(Project(settings, None, folder, folder / "state")), Watch()
        try:
            measure(state, watch)
        finally:
            state.close()
    counted = (
        "sentence_embeddings",
        "sentence_links",
        "indexed_documents",
        "links loaded",
        "vector index of sentences",
    )
    spent, plain = sum(watch.seconds[name] for name in counted), watch.seconds["chunk_embeddings"]
    print(f"sentences embedded, linked and indexed  {spent:8.1f} s   {spent / plain:.2f} x chunk embedding "
          f"({plain:.1f} s; at most {AIM:.0f})")  # fmt: skip
    print(f"peak memory of this process             {max(watch.peaks.values()):8.0f} MB")


if __name__ == "__main__":
    main()
