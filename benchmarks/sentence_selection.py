"""Measure parts of the selection that are off by default: structural coherence, the penalty for mixed sources, and the
pruning of repeats.

    python benchmarks/sentence_selection.py [--sets policies ...] [--keep DIR]

Each set is one `pincite eval --matrix` of the route `sentence`, with the settings and the sample of
benchmarks/results.yaml. Printed are recall@1 and nDCG@10 as shipped, and the differences of each value to it over the
same questions, in points, with 95 % intervals of a bootstrap over questions; the mean is over the sets, each counting
the same. Then, for each set and strategy, the tokens of the passages that a language model is sent for these
questions, with repeats, and the share that `query.context_repeats: false` saves; this changes no ranking. Indexes and
finished runs stand in DIR (build/sentence-selection), so that an interrupted command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results import SETS, evaluated, say, write_questions  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.judging import question_for  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.answer import passages_shown  # noqa: E402
from pipelines.query.assemble import assemble  # noqa: E402
from pipelines.query.repeats import without_repeats  # noqa: E402
from pipelines.query.retrieve import retrieve  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from pipelines.tokens import count_tokens  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.search.answers import passage_sentences  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

VALUES: Mapping[str, Mapping[str, Any]] = {
    "as shipped": {},
    **{f"coherence {value}": {"query.sentence.coherence": value} for value in (1.5, 5, 15, 50, 150)},
    **{f"mixing {value}": {"query.sentence.mixing": value} for value in (5, 15, 50)},
}
METRICS = ("recall@1", "ndcg@10")
STRATEGIES = ("hybrid", "sentence")
RESAMPLES, SEED = 2_000, 1
Floats = NDArray[np.float64]
Scores = Mapping[str, Mapping[str, Floats]]
"""Value to metric to the score of each question."""


# ---------------------------------------------------------------- rankings


def place_of(name: str, keep: Path) -> Path:
    place = keep / name
    place.mkdir(parents=True, exist_ok=True)
    plan, dataset = SETS[name], DATASETS[name]
    settings = dataset.settings(place / "state", plan["preset"], plan.get("splitter", "structure"))
    (place / "pincite.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return place


def scores_of(name: str, place: Path) -> Scores:
    plan, file = SETS[name], place / "selection.json"
    questions = write_questions(DATASETS[name], plan.get("sample"), place / "golden.jsonl")
    settings = {**plan.get("settings", {}), "query.strategy": "sentence"}
    tables = {"Selection": {"rows": [{"selection": "*"}], "metrics": list(METRICS)}}
    matrix = {"settings": settings, "axes": {"selection": VALUES}, "tables": tables}
    file.write_text(json.dumps(matrix), encoding="utf-8")
    result = evaluated(name, place / "pincite.yaml", questions, file, place / "experiments", 1)
    if result["failed"]:
        raise SystemExit(f"{name}: {result['failed']}")
    rows = pl.read_parquet(place / "experiments" / "selection" / "questions.parquet")
    found = {}
    for value, run in zip(VALUES, result["runs"], strict=True):
        own = rows.filter(pl.col("run") == run["name"]).sort("id")
        found[value] = {metric: own[metric].to_numpy().astype(float) for metric in METRICS}
    return found


def answered(scores: Scores, value: str, metric: str) -> Floats:
    """The differences to what is shipped, of the questions that have a score."""
    difference = scores[value][metric] - scores["as shipped"][metric]
    return difference[~np.isnan(difference)]


def mean_over_sets(differences: Sequence[Floats]) -> str:
    """The mean of the sets' means, with an interval by resampling the questions of each set."""
    chance = np.random.default_rng(SEED)
    means = [
        each[chance.integers(0, len(each), size=(RESAMPLES, len(each)))].mean(axis=1)
        for each in differences
        if len(each)
    ]
    low, high = np.percentile(np.mean(means, axis=0), [2.5, 97.5])
    return shown(float(np.mean([each.mean() for each in differences])), float(low), float(high))


def shown(mean: float, low: float, high: float) -> str:
    return f"{100 * mean:+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"


def rankings(sets: Mapping[str, Scores], metric: str) -> list[str]:
    rows = [["as shipped", *(f"{100 * np.nanmean(own['as shipped'][metric]):.1f}" for own in sets.values()), ""]]
    for value in list(VALUES)[1:]:
        differences = [answered(own, value, metric) for own in sets.values()]
        rows.append([value, *(mean_over_sets([each]) for each in differences), mean_over_sets(differences)])
    return table((metric, *sets, "mean"), rows)


# ---------------------------------------------------------------- tokens


def tokens_of(name: str, place: Path, strategy: str) -> tuple[Floats, Floats]:
    """The tokens of the passages for each question, with repeats and without."""
    dataset, settings = DATASETS[name], QuerySettings(strategy=strategy)  # type: ignore[arg-type]
    state, sent = State(locate(state=str(place / "experiments" / "state"))), []
    try:
        generation = state.parts.catalog.generations()[-1]
        exam, searcher = examination(state, read_questions(place / "golden.jsonl"), generation), Searcher(state)
        groups, most = tuple(dataset.evaluation.get("groups", ())), settings.context_passages
        with searcher.reading(generation.generation) as (connection, index):
            tools = searcher.tools.tools_for(index.generation.embedder)
            for mapped in exam.questions:
                question = question_for(mapped, dataset.evaluation.get("with_options", "none"))
                found = retrieve(question, index, tools, settings, k=most, filters=Filters(groups=groups))
                sentences = passage_sentences(connection, index.generation.number, found.hits, found.vector)
                context, _ = assemble(found.hits, sentences, most=most, tokens=settings.context_tokens)
                sent.append([count_tokens(passages_shown(each)) for each in (context, without_repeats(context))])
    finally:
        state.close()
    return np.array([one[0] for one in sent], float), np.array([one[1] for one in sent], float)


def saved(places: Mapping[str, Path]) -> list[str]:
    rows = []
    for name, place in places.items():
        for strategy in STRATEGIES:
            whole, pruned = tokens_of(name, place, strategy)
            less = whole - pruned
            rows.append([name, strategy, f"{whole.mean():.0f}", f"{100 * less.sum() / whole.sum():.2f} %",
                         f"{100 * (less > 0).mean():.1f} %"])  # fmt: skip
            say(f"{name}: tokens of {strategy} counted")
    return table(("set", "strategy", "tokens a question", "saved", "questions with any saved"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=["policies", "unlp-medicine", "library"])
    parser.add_argument("--keep", type=Path, metavar="DIR", default=ROOT / "build" / "sentence-selection")
    options = parser.parse_args()
    places = {name: place_of(name, options.keep.resolve()) for name in options.sets}
    sets = {name: scores_of(name, place) for name, place in places.items()}
    for metric in METRICS:
        print("\n".join(rankings(sets, metric)), end="\n\n", flush=True)
    print("\n".join(saved(places)))


if __name__ == "__main__":
    main()
