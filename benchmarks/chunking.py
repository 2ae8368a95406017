"""The splitters side by side on questions with gold excerpts, and table answers with their labels.

    python benchmarks/chunking.py [--quick] [--only curves|tables] [--write docs/measured/chunking.md]
        [--data ../shared/data]

Curves: corpora and questions of Chroma's chunking evaluation, the default English embedder, k = 5, one
index over all corpora, dense cosine in process. Recall, precision, IoU and precision-omega are those
of the data's README, in characters of the source. Tables: TAT-QA's tables as plain HTML, parsed and
chunked; whether an answer stands in one chunk with its row label and column headers. Progress goes to
stderr; a figure that is not reached is marked `missed`, and the exit code stays 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.chunking_data import Document, Question, documents_in, questions_in  # noqa: E402  (the path above finds it)
from benchmarks.support.chunking_tables import TARGETS, table_scores  # noqa: E402
from benchmarks.support.machine import BUT_ROWS, provenance  # noqa: E402
from benchmarks.support.parsing_report import share, table  # noqa: E402
from benchmarks.support.published import PUBLISHED as FIGURES  # noqa: E402
from pipelines.evaluation.document_map import as_pairs  # noqa: E402
from pipelines.evaluation.judging import Spans, length_of, precision_omega, span_scores  # noqa: E402
from pipelines.indexing.embeddings import embedded_text  # noqa: E402
from pipelines.indexing.overlap import calibrations, cosines_of, with_overlap, with_own_overlap  # noqa: E402
from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks  # noqa: E402
from pipelines.plots import Curves, figure  # noqa: E402
from pipelines.records import Chunk  # noqa: E402
from pipelines.settings.models import EmbedderSettings  # noqa: E402
from resources.models.embedders.e5_weights import StaticEmbedder  # noqa: E402
from resources.models.embedders.loaded import make_embedder  # noqa: E402
from resources.models.embedders.specs import ENGLISH, resolve  # noqa: E402

K = 5
METRICS = ("recall", "precision", "IoU", "precision-omega")
STRUCTURE, CLUSTER, PAGE = "structure", "cluster", "page"
STRUCTURE_TARGETS = (50, 80, 100, 120, 130, 150, 170, 200, 250, 320, 400)
OTHER_TARGETS = (50, 100, 200, 320)
OVERLAP = 64
_SPANS = ("span_recall", "span_precision", "span_iou", "span_precision_omega")
PUBLISHED: Mapping[str, tuple[int, tuple[float, ...]]] = {
    row.name: (int(row.name.split()[1].partition("/")[0]), row.shares(_SPANS)) for row in FIGURES["chunking-evaluation"]
}
"""Target tokens and the METRICS, means over five corpora, of which three are shared here."""
SMALL, SMALL_RECALL = (80, 100, 120), 0.80


STARTED = time.perf_counter()


def say(text: str) -> None:
    print(f"{time.perf_counter() - STARTED:5.0f} s  {text}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- one setting


@dataclass
class Vectors:
    """Every distinct text is embedded once in a run."""

    embedder: Any
    known: dict[str, Any] = field(default_factory=dict)

    def passages(self, texts: Sequence[str]) -> Any:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known.update(zip(new, self.embedder.passages(new), strict=True))
        return np.stack([self.known[text] for text in texts])


@dataclass(frozen=True)
class Setting:
    strategy: str
    target: int
    overlap: int = 0

    @property
    def name(self) -> str:
        return f"{self.strategy} {self.target}" + (f"/{self.overlap}" if self.overlap else "")


@dataclass(frozen=True)
class Outcome:
    setting: Setting
    chunks: int
    characters: float
    scores: tuple[float, float, float, float]


def chunks_of(documents: Sequence[Document], setting: Setting, static: StaticEmbedder) -> list[Chunk]:
    """The chunks of all documents as an index would have them; the ceiling keeps the default's ratio."""
    packed = [
        chunk
        for document in documents
        for chunk in packed_chunks(
            document.units,
            document.elements,
            setting.target,
            setting.target * 8 // 5,
            setting.strategy,
            static.passages if setting.strategy == CLUSTER else None,
        )
    ]
    bodies = {document.parsed.doc_id: document.parsed.body for document in documents}
    if setting.strategy != STRUCTURE or not setting.overlap:
        return with_own_overlap(packed, bodies, setting.overlap)
    vectors = static.passages([chunk.text for chunk in packed])
    (floor,) = {made.floor for name, made in calibrations({"en": cosines_of(vectors, packed)}).items() if name == "en"}
    return with_overlap(packed, vectors, bodies, floor, setting.overlap)


def outcome(
    documents: Sequence[Document], questions: Sequence[Question], asked: Any, setting: Setting, tools: tuple[Any, Any]
) -> Outcome:
    static, vectors = tools
    chunks = chunks_of(documents, setting, static)
    names = {document.parsed.doc_id: document for document in documents}
    spans = [
        (names[chunk.doc_id].name, places) for chunk in chunks for places in [_retrieved(names[chunk.doc_id], chunk)]
    ]
    by_document: dict[str, list[Spans]] = {}
    for name, places in spans:
        by_document.setdefault(name, []).append(places)
    made = vectors.passages([embedded_text(chunk, "", "") for chunk in chunks])
    scores = []
    for question, ranking in zip(questions, np.argsort(-(asked @ made.T), axis=1, kind="stable")[:, :K], strict=True):
        gold = {question.document: question.gold}
        judged = span_scores(gold, [spans[at] for at in ranking])
        omega = precision_omega(gold, by_document)
        scores.append((judged.recall, judged.precision, judged.iou, omega))
    return Outcome(
        setting,
        len(chunks),
        sum(length_of(places) for _, places in spans) / len(chunks),
        _mean(scores),
    )


def _retrieved(document: Document, chunk: Chunk) -> list[tuple[int, int]]:
    """What a chunk shows of the source: its own text and its overlap, which run on into each other."""
    return document.in_source([*as_pairs(chunk.overlap_spans), *as_pairs(chunk.spans)])


def _mean(lines: Sequence[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    recall, precision, iou, omega = np.mean(lines, axis=0)
    return float(recall), float(precision), float(iou), float(omega)


# ---------------------------------------------------------------- report


def settings(quick: bool) -> Iterator[Setting]:
    """Yield what is measured. `page` is left out: these texts have no pages, so it cuts them as `structure` does."""
    for strategy in SPLITTERS:
        if strategy == PAGE:
            continue
        targets = (200,) if quick else STRUCTURE_TARGETS if strategy == STRUCTURE else OTHER_TARGETS
        yield from (Setting(strategy, target) for target in targets)
    if not quick:
        yield from (Setting(STRUCTURE, target, OVERLAP) for target in (200, 320))
        yield Setting("recursive", 250, 125)


def measured(folder: Path, quick: bool) -> list[Outcome]:
    documents, questions = documents_in(folder), questions_in(folder)
    vectors = Vectors(make_embedder(resolve(EmbedderSettings(), ENGLISH), EmbedderSettings()))
    asked = vectors.embedder.queries([question.text for question in questions])
    tools = (StaticEmbedder(), vectors)
    found = []
    for setting in settings(quick):
        found.append(outcome(documents, questions, asked, setting, tools))
        say(f"{setting.name}: {found[-1].chunks} chunks; " + " ".join(map(share, found[-1].scores)))
    return found


def figures(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [
        [
            one.setting.name,
            f"{one.characters:.0f}",
            *map(share, one.scores),
        ]
        for one in outcomes
    ]
    published = [[f"published {name}", "", *map(share, scores)] for name, (_, scores) in PUBLISHED.items()]
    return table(("splitter, tokens", "mean characters", *METRICS), rows + published)


def compared(outcomes: Sequence[Outcome]) -> list[str]:
    """Every published point beside our structure splitter of the same target, then beside the setting of
    ours that reaches most of its figures, metric by metric."""
    ours = [one for one in outcomes if one.setting.strategy == STRUCTURE]
    rows = []
    for name, (target, scores) in PUBLISHED.items():
        same = [one for one in ours if one.setting.target == target and not one.setting.overlap]
        rows += [_aim(f"{name}, same target", one, scores) for one in same]
        rows.append(_aim(f"{name}, any target", _nearest(ours, scores, target), scores))
    cluster = PUBLISHED["cluster 200"][1]
    small = [one for one in ours if one.setting.target in SMALL]
    if small:
        least = (SMALL_RECALL, 0.0, cluster[2], cluster[3])
        rows.append(_aim("one setting near 100 tokens", _nearest(small, least, 100), least))
    return table(("aim", "ours", "mean characters", *METRICS), rows)


def _nearest(ours: Sequence[Outcome], aims: Sequence[float], target: int) -> Outcome:
    """The setting that reaches the most aims; of several the nearest to a target."""
    return max(ours, key=lambda one: (_reached(one, aims), -abs(one.setting.target - target)))


def _reached(one: Outcome, aims: Sequence[float]) -> int:
    return sum(value >= aim for value, aim in zip(one.scores, aims, strict=True))


def _aim(what: str, one: Outcome, aims: Sequence[float]) -> list[str]:
    return [what, one.setting.name, f"{one.characters:.0f}", *map(_beside, one.scores, aims)]


def _beside(value: float, aim: float) -> str:
    return f"{share(value)} against {share(aim)}: {'met' if value >= aim else 'missed'}" if aim else share(value)


def plot(outcomes: Sequence[Outcome]) -> str:
    panels, label = [], "target tokens of a chunk; crosses: published, means over five corpora"
    for at, metric in enumerate(METRICS):
        lines: dict[str, list[tuple[float, float]]] = {}
        for one in outcomes:
            if not one.setting.overlap:
                lines.setdefault(one.setting.strategy, []).append((one.setting.target, one.scores[at]))
        published = {name: (target, scores[at]) for name, (target, scores) in PUBLISHED.items()}
        panels.append(Curves(metric, lines, label, published, x_within=(0,)))
    return figure(panels)


def tables(path: Path) -> list[str]:
    rows = []
    for target in TARGETS:
        for what, good, count, misses in table_scores(json.loads(path.read_text(encoding="utf-8")), target):
            verdict = "met" if good >= 0.99 * count else "missed"
            rows.append([what, str(target), f"{good} of {count}", share(good / count, 4), verdict])
            for miss in misses[:20]:
                print(f"  {target} {what}: {miss}", file=sys.stderr)
    return table(("answers", "target tokens", "with label and headers", "share", "at least .99"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one target size")
    parser.add_argument("--only", choices=("curves", "tables"))
    parser.add_argument("--write", type=Path, help="the page whose figures are replaced; the plot goes beside it")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    chosen = parser.parse_args()
    sections: dict[str, list[str]] = {}
    if chosen.only != "curves":
        sections["tables"] = tables(chosen.data / "tatqa" / "dev.json")
    if chosen.only != "tables":
        outcomes = measured(chosen.data / "chunking-evaluation", chosen.quick)
        sections["curves"] = figures(outcomes)
        sections["aims"] = compared(outcomes)
        if chosen.write:
            chosen.write.with_suffix(".svg").write_text(plot(outcomes), encoding="utf-8")
    for name, lines in sections.items():
        print("\n".join(lines), end="\n\n")
        if chosen.write:
            put(chosen.write, name, [provenance("python benchmarks/chunking.py", BUT_ROWS), "", *lines])


def put(page: Path, name: str, lines: Sequence[str]) -> None:
    """Replaces what stands between the marks of one section of a page."""
    begin, end = f"<!-- {name}: written by benchmarks/chunking.py -->", f"<!-- /{name} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin, 1)
    page.write_text("\n".join([before + begin, "", *lines, "", end + rest.split(end, 1)[1]]), encoding="utf-8")


if __name__ == "__main__":
    main()
