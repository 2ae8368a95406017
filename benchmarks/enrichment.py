"""What summaries and contexts are worth to retrieval, each mode through the real pipeline.

    python benchmarks/enrichment.py [--sets summary-augmentation contextual-code unlp-medicine]
        [--write docs/measured/enrichment.md] [--keep DIR]

Each set is indexed by the command itself, once for each mode, and asked its own questions; sentences and all
else that a mode does not change are made once. `ready-made` is the mode `llm`: a server on loopback answers
each prompt with the summary that the set's makers bought for the text. Tables are printed, and with --write
put between the marks of their set in that page. States are thrown away, or kept in DIR, where the next run
takes them up again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.datasets import DATASETS  # noqa: E402  (the path above finds it)
from benchmarks.support.enrichment_data import ReadyMade, chunks_in  # noqa: E402
from benchmarks.support.indexes import indexed  # noqa: E402
from benchmarks.support.machine import BUT_ROWS, provenance  # noqa: E402
from benchmarks.support.parsing_report import share, table  # noqa: E402
from benchmarks.support.published import PUBLISHED  # noqa: E402
from pincite.index import open_index  # noqa: E402
from tests.support.llm_server import llm_server  # noqa: E402

OFF, EXTRACTIVE, LLM = "off", "extractive", "llm"
MODES: Mapping[str, Mapping[str, str]] = {
    "off": {"summary": OFF, "context": OFF},
    "extractive summary": {"summary": EXTRACTIVE, "context": OFF},
    "extractive context (default)": {"summary": OFF, "context": EXTRACTIVE},
    "extractive summary and context": {"summary": EXTRACTIVE, "context": EXTRACTIVE},
}
READY_MADE = "ready-made summary"
LONGEST_SUMMARY = 600
"""Characters: no ready-made summary is longer."""

SUMMARY_METRICS = {"precision@3": "P@3", "recall@3": "R@3", "f1@3": "F1", "mrr@3": "MRR@3"}
CODE_METRICS = {"gold_recall@5": "recall@5", "gold_recall@10": "recall@10", "gold_recall@20": "recall@20"}
PAGE_METRICS = {
    "accuracy_doc": "document",
    "accuracy_page": "page",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@20": "R@20",
    "mrr": "MRR",
}

Row = list[str]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def index_of(place: Path, settings: Mapping[str, Any], mode: str, enrichment: Mapping[str, Any]) -> Path:
    """The settings file of a state that is indexed in a mode and live."""
    file = place / f"{'-'.join(mode.split())}.yaml"
    told = indexed(file, {**settings, "enrichment": dict(enrichment)})
    if not told["published"]:
        raise SystemExit(f"{place.name}, {mode}: its generation was not published")
    chunks, calls = told["chunks"]["total"], told["llm"]["calls"]
    say(f"{place.name}, {mode}: {chunks} chunks, embedded {told['embedded']}, {calls} calls")
    return file


# ---------------------------------------------------------------- summary-augmentation


def summary_augmentation(place: Path) -> list[str]:
    """Precision, recall, F1 of both, and reciprocal rank of the first three documents."""
    name = "summary-augmentation"
    dataset = DATASETS[name]
    chunks, questions = chunks_in(dataset.folder), list(dataset.golden(dataset.folder))
    ready = ReadyMade(chunks)
    rows = []
    with llm_server() as server:
        server.reply = ready
        llm = {"base_url": server.url, "model": "ready-made-summaries"}
        settings = {**dataset.settings(place / "state"), "llm": llm}
        summary = {"summary": LLM, "context": OFF, "summary_characters": LONGEST_SUMMARY}
        for mode, enrichment in {"off": MODES["off"], READY_MADE: summary, **MODES}.items():
            with open_index(index_of(place, settings, mode, enrichment)) as index:
                if mode == READY_MADE:
                    require_all_given(index.status()["enrichment"]["document_summaries"], ready, len(chunks))
                assert dataset.scores is not None
                rows.append([mode, *map(share, dataset.scores(index.query, questions).values())])
            say(" ".join(rows[-1]))
    head = ("summary-augmentation, hybrid", *SUMMARY_METRICS.values())
    return table(head, rows + published(name, SUMMARY_METRICS))


def require_all_given(methods: Mapping[str, int], ready: ReadyMade, count: int) -> None:
    """Each document has its own ready-made summary; those that a run before bought are not asked for again."""
    if methods != {LLM: count} or (ready.given and len(ready.given) != count):
        raise SystemExit(f"the ready-made summaries are not those of their documents: {dict(methods)}")


# ---------------------------------------------------------------- contextual-code, unlp-medicine


def contextual_code(place: Path) -> list[str]:
    """Share of the gold chunks among the first 5, 10 and 20."""
    name = "contextual-code"
    dataset = DATASETS[name]
    golden = dataset.write_golden(place / "golden.jsonl")
    settings = dataset.settings(place / "state", splitter="page")
    rows = list(evaluated(place, settings, golden, CODE_METRICS, ("hybrid", "dense", "lexical")))
    head = (name, "search", *CODE_METRICS.values())
    return table(head, rows + [[label, "", *values] for label, *values in published(name, CODE_METRICS)])


def unlp_medicine(place: Path) -> list[str]:
    """As the shared task counts; the options join the lexical query."""
    dataset = DATASETS["unlp-medicine"]
    golden = dataset.write_golden(place / "golden.jsonl")
    settings = dataset.settings(place / "state", "multilingual-small")
    rows = evaluated(place, settings, golden, PAGE_METRICS, ("hybrid", "dense"), **dataset.evaluation)
    return table(("unlp-medicine", "search", *PAGE_METRICS.values()), list(rows))


def evaluated(
    place: Path,
    settings: Mapping[str, Any],
    golden: Path,
    metrics: Mapping[str, str],
    strategies: Sequence[str],
    **options: Any,
) -> Iterator[Row]:
    for mode, enrichment in MODES.items():
        with open_index(index_of(place, settings, mode, enrichment)) as index:
            for strategy in strategies:
                (run,) = index.evaluate(golden, strategy=strategy, **options)["runs"]
                if run["unmapped"]:
                    raise SystemExit(f"{place.name}: {run['unmapped']} gold places were not found")
                row = [mode, strategy, *(share(run["metrics"][metric]) for metric in metrics)]
                say(" ".join(row))
                yield row


def published(name: str, metrics: Mapping[str, str]) -> list[Row]:
    return [[f"{row.kind}, {row.name}", *map(share, row.shares(metrics))] for row in PUBLISHED.get(name, ())]


# ---------------------------------------------------------------- report

SETS: Mapping[str, Callable[[Path], list[str]]] = {
    "summary-augmentation": summary_augmentation,
    "contextual-code": contextual_code,
    "unlp-medicine": unlp_medicine,
}


def put(page: Path, name: str, lines: Sequence[str]) -> None:
    """Replaces what stands between the marks of a set. Raises ValueError where they are missing."""
    begin, end = f"<!-- {name}: written by benchmarks/enrichment.py -->", f"<!-- /{name} -->"
    text = page.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise ValueError(f"{page}: needs the lines {begin!r} and {end!r}, between which the figures go")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


def measure(names: Sequence[str], folder: Path, page: Path | None) -> None:
    for name in names:
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        lines = SETS[name](place)
        print("\n".join([*lines, ""]), flush=True)
        if page:
            put(page, name, [provenance("python benchmarks/enrichment.py", BUT_ROWS), "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--write", type=Path, metavar="FILE", help="The page whose figures are replaced.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the states here, and use those that are here.")
    options = parser.parse_args()
    if options.keep:
        measure(options.sets, options.keep.resolve(), options.write)
        return
    with tempfile.TemporaryDirectory(prefix="pincite-enrichment-") as folder:
        measure(options.sets, Path(folder), options.write)


if __name__ == "__main__":
    main()
