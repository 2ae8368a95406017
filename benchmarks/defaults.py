"""Each default of `query` that ranks, beside its neighbours: over all sets, and chosen on some sets for another.

    python benchmarks/defaults.py [--sets ...] [--questions 100] [--keep DIR]

Every set is indexed by the command itself, as benchmarks/results.yaml has it. Its questions are asked under each value
of NEIGHBOURS through the product's own search, without a vector index; what repeats a better hit is taken out. R@1 and
R@5 in points, by the rule of benchmarks/support/datasets.py. Printed are, for each neighbour, the mean over sets of its
difference to the default, paired by question, with 95 % intervals of a bootstrap within each set, and the sets on which
it loses outside its interval; and for each default, the value that does best on all other sets, and what these choices
gain on the sets that were left out. Exit code 1 where that gain excludes zero, since then the default should change.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import index_of, objective  # noqa: E402  (the path above finds it)
from benchmarks.parts import METRICS, Scores, difference, losing, sampled, settings_with, shown  # noqa: E402
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.judging import judge, question_for  # noqa: E402
from pipelines.ports import Filters, SearchIndex  # noqa: E402
from pipelines.query.retrieve import retrieve  # noqa: E402
from pipelines.settings.query import MEASURED_HITS, QuerySettings  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

SHIPPED = "as shipped"
Changes = Mapping[str, Any]
"""Settings of `query` by dotted key."""


def neighbours(key: str, values: Sequence[object], beside: Changes | None = None) -> tuple[Changes, dict[str, Changes]]:
    """The settings under which the default is looked at, and those of its neighbours by their names."""
    under = beside or {}
    return under, {str(value): {**under, key: value} for value in values}


def rank_by(reranker: str) -> Changes:
    return {"rerank": [reranker]}


BY_SENTENCE = {"strategy": "sentence"}
NEIGHBOURS: Mapping[str, tuple[Changes, dict[str, Changes]]] = {
    "candidates, 20": neighbours("candidates", (10, 15, 30, 50)),
    "fusion, weighted-score": neighbours("fusion", ("reciprocal-rank",)),
    "strategy, hybrid": neighbours("strategy", ("dense", "lexical")),
    "rerank, none": ({}, {name: rank_by(name) for name in ("evidence", "weighted")}),
    "asking_part, true": neighbours("asking_part", (False,)),
    "fiscal_years, true": neighbours("fiscal_years", (False,)),
    "abbreviations, false": neighbours("abbreviations", (True,)),
    "fusion_weights.dense, 0.5": neighbours("fusion_weights.dense", (0.3, 0.7)),
    "fusion_weights.lexical, 1": neighbours("fusion_weights.lexical", (0.7, 1.3)),
    "fusion_weights.nearest_sentence, 0.7": neighbours("fusion_weights.nearest_sentence", (0.5, 0.9)),
    "fusion_weights.document, 0.4": neighbours("fusion_weights.document", (0.2, 0.6)),
    "fusion_weights.names, 0.8": neighbours("fusion_weights.names", (0.4, 1.2)),
    "fusion_weights.surroundings, 0": neighbours("fusion_weights.surroundings", (0.15, 0.3)),
    "evidence_weight, 0.3 (of rerank evidence)": neighbours("evidence_weight", (0.15, 0.5), rank_by("evidence")),
    "weighted.similarity, 0.5 (of rerank weighted)": neighbours("weighted.similarity", (1.0, 2.0), rank_by("weighted")),
    "weighted.recency, 0.2 (of rerank weighted)": neighbours("weighted.recency", (0.0, 0.1), rank_by("weighted")),
    "weighted.hierarchy, 0.2 (of rerank weighted)": neighbours("weighted.hierarchy", (0.0, 0.1), rank_by("weighted")),
    "weighted.adjacency, 0.1 (of rerank weighted)": neighbours("weighted.adjacency", (0.0, 0.2), rank_by("weighted")),
    "sentence.anchors, 5 (of strategy sentence)": neighbours("sentence.anchors", (3, 10), BY_SENTENCE),
    "sentence.steps, 2 (of strategy sentence)": neighbours("sentence.steps", (1, 3), BY_SENTENCE),
    "sentence.keywords, 50 (of strategy sentence)": neighbours("sentence.keywords", (25.0, 100.0), BY_SENTENCE),
    "sentence.coherence, 0 (of strategy sentence)": neighbours("sentence.coherence", (5.0, 10.0), BY_SENTENCE),
    "sentence.crowding, 20 (of strategy sentence)": neighbours("sentence.crowding", (10.0, 40.0), BY_SENTENCE),
    "sentence.per_document, 10 (of strategy sentence)": neighbours("sentence.per_document", (5, 20), BY_SENTENCE),
}
"""Each default with its value: the settings it is looked at under, and its neighbours."""


class Remembered:
    """An index that answers the same call of one question once."""

    def __init__(self, index: SearchIndex) -> None:
        self._index, self._known = index, dict[tuple[str, str], Any]()

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._index, name)
        return own if not callable(own) else self._once(name, own)

    def _once(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def found(*values: object, **named: object) -> Any:
            call = name, repr((values, named))
            if call not in self._known:
                self._known[call] = function(*values, **named)
            return self._known[call]

        return found


def query_settings(changes: Changes) -> QuerySettings:
    return QuerySettings(**settings_with(changes, {}))


def measured(name: str, file: Path, most: int) -> dict[str, Scores]:
    """Return the scores of each question, by default, value and metric."""
    dataset, state = DATASETS[name], State(locate(config=str(file)))
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        exam = examination(state, read_questions(sampled(dataset, file.parent, most)), live)
        searcher, filters = Searcher(state, exact=True), Filters(groups=tuple(dataset.evaluation.get("groups", ())))
        found: dict[str, dict[str, list[dict[str, float | None]]]] = {}
        for mapped in exam.questions:
            question = question_for(mapped, dataset.evaluation.get("with_options", "none"))
            vectors: dict[str, Any] = {}
            with searcher.reading() as (_, index):
                tools = searcher.tools.tools_for(index.generation.embedder)

                def embedded(
                    texts: Sequence[str], known: dict[str, Any] = vectors, embed: Any = tools.embed_queries
                ) -> Any:
                    key = "\0".join(texts)
                    if key not in known:
                        known[key] = embed(texts)
                    return known[key]

                remembered = cast(SearchIndex, Remembered(index))
                once = replace(tools, embed_queries=embedded)
                scores: dict[str, dict[str, float | None]] = {}
                for default, (under, others) in NEIGHBOURS.items():
                    for value, changes in {SHIPPED: under, **others}.items():
                        key = repr(sorted(changes.items()))
                        if key not in scores:
                            hits = retrieve(question, remembered, once, query_settings(changes), filters=filters).hits
                            scores[key] = judge(mapped, hits, exam.corpus, MEASURED_HITS).scores
                        found.setdefault(default, {}).setdefault(value, []).append(scores[key])
    finally:
        state.close()
    return {
        default: {
            value: {metric: np.array([each[metric] or 0.0 for each in own]) for metric in METRICS}
            for value, own in values.items()
        }
        for default, values in found.items()
    }


# ---------------------------------------------------------------- the tables


def best_elsewhere(sets: Mapping[str, Scores]) -> dict[str, str]:
    """Return by set the value that does best on the other sets, the default of equals."""
    reached = {
        name: {value: tuple(scores[metric].mean() for metric in METRICS) for value, scores in own.items()}
        for name, own in sets.items()
    }
    values = list(next(iter(sets.values())))
    return {
        name: max(
            values, key=lambda value: round(objective([reached[each][value] for each in sets if each != name]), 9)
        )
        for name in sets
    }


def tables_of(
    sets: Mapping[str, Mapping[str, Scores]], neighbours: Mapping[str, Sequence[str]]
) -> tuple[str, list[str]]:
    """Return the tables, and the defaults that should change."""
    beside, choices, changing = [], [], []
    for default, others in neighbours.items():
        own = {name: scores[default] for name, scores in sets.items()}
        for value in others:
            found = [shown(difference(own, value, SHIPPED, metric)) for metric in METRICS]
            beside.append([default, value, *found, ", ".join(losing(own, value, SHIPPED)) or "none"])
        if len(own) > 1:
            chosen = best_elsewhere(own)
            there = {name: {**scores, "chosen": scores[chosen[name]]} for name, scores in own.items()}
            gains = [difference(there, "chosen", SHIPPED, metric) for metric in METRICS]
            told = ", ".join(f"{value} ({count})" for value, count in Counter(chosen.values()).most_common())
            choices.append([default, told, *map(shown, gains)])
            changing += [default] if any(low > 0 for _, low, _ in gains) else []
    heads = "default", "neighbour", "R@1 less the default", "R@5 less the default", "loses on"
    blocks = [table(heads, beside)]
    if choices:
        blocks.append(table(("default", "best on the other sets (how many times)", "R@1 there", "R@5 there"), choices))
    return "\n\n".join("\n".join(block) for block in blocks), changing


def show(sets: Mapping[str, Mapping[str, Scores]], neighbours: Mapping[str, Sequence[str]]) -> NoReturn:
    """Print the tables, and exit with 1 where a default should change."""
    text, changing = tables_of(sets, neighbours)
    print(text)
    if changing:
        print(f"do better with a value chosen on other sets: {', '.join(changing)}", file=sys.stderr)
    sys.exit(1 if changing else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--questions", type=int, default=100, help="Of each set, at the most; by chance.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-defaults-") as folder:
        place = (options.keep or Path(folder)).resolve()
        sets = {}
        for name in options.sets:
            sets[name] = measured(name, index_of(name, place), options.questions)
            print(f"{name}: measured", file=sys.stderr, flush=True)
    show(sets, {default: list(others) for default, (_, others) in NEIGHBOURS.items()})


if __name__ == "__main__":
    main()
