"""What it costs that the weights of words are frozen: statistics of a part of the documents, searched over all of them.

    python benchmarks/drift.py [--sets ...] [--questions 300] [--keep DIR]

A generation keeps the document frequencies that it was made with until the corpus has grown by `publish.drift`
(docs/guide/generations.md). Every set is indexed by the command itself, with the embedder and splitter of
benchmarks/results.yaml. Its questions are asked as if the statistics had been frozen when only a share of the
documents, by chance, was there: the words that only later ones have are unseen, and weigh as the rarest. Lengths of
chunks stay those of all. R@1 and R@5 of lexical and hybrid search in percent, the mean of as many draws as DRAWS;
differences are paired, with 95 % intervals of a bootstrap over questions, the draws as they are. Growth is told by the
chunks that there were. Sets of fewer documents than LEAST are left out.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import index_of, percent  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from benchmarks.support.searching_data import POSTINGS  # noqa: E402
from pipelines.evaluation.judging import bootstrap_interval, judge, question_for  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.retrieve import retrieve  # noqa: E402
from pipelines.query.tools import ModelFunctions  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.postgres.postings import join_rows, unpack_row  # noqa: E402
from resources.postgres.search_index import PostgresSearchIndex  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

SHARES = (1.0, 0.8, 0.67, 0.5, 0.33)
DRAWS, SEED, LEAST = 2, 0, 20
ROUTES = ("lexical", "hybrid")
CHUNKS = "SELECT number, doc_id FROM {}.chunks"
Frequencies = Callable[[Sequence[str]], tuple[dict[str, int], int]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """R@1 and R@5 of each question, the mean of the draws, by (route, share of the documents), and the part of the
    chunks that such a share has."""

    found: Mapping[tuple[str, float], Floats]
    chunks: Mapping[float, float]


def drawn(documents: Mapping[int, str], share: float, seed: int) -> frozenset[int]:
    """Numbers of the chunks of a share of the documents, at least one."""
    ordered = sorted(set(documents.values()))
    kept = set(random.Random(seed).sample(ordered, max(1, round(share * len(ordered)))))
    return frozenset(number for number, doc_id in documents.items() if doc_id in kept)


def frozen(index: PostgresSearchIndex, numbers: Collection[int]) -> Frequencies:
    """Document frequencies among these chunks, and how many they are."""

    def frequencies(terms: Sequence[str]) -> tuple[dict[str, int], int]:
        found: dict[str, list[tuple[bytes, bytes]]] = {}
        statement = POSTINGS.format(index._schema)
        for term, *row in index.connection.execute(statement, {"terms": list(terms)}, binary=True):
            found.setdefault(term, []).append((row[0], row[1]))
        counts = {term: sum(map(numbers.__contains__, unpack_row(*join_rows(rows))[0].tolist()))
                  for term, rows in found.items()}  # fmt: skip
        return {term: count for term, count in counts.items() if count}, len(numbers)

    return frequencies


def asked_once(tools: ModelFunctions) -> ModelFunctions:
    """Which embed each question once."""
    known = cache(lambda texts: tools.embed_queries(texts))
    return replace(tools, embed_queries=lambda texts: known(tuple(texts)))


def measured(name: str, file: Path, most: int) -> Asked | None:
    """None of a set of too few documents."""
    dataset, state, settings = DATASETS[name], State(locate(config=str(file))), QuerySettings()
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        exam, searcher = (
            examination(state, read_questions(dataset.write_golden(file.parent / "golden.jsonl")), live),
            Searcher(state),
        )
        with state.parts.database.connect() as connection:
            documents = dict(connection.execute(CHUNKS.format(live.schema)).fetchall())
        if len(set(documents.values())) < LEAST:
            return None
        subsets = {share: [drawn(documents, share, SEED + draw) for draw in range(DRAWS if share < 1 else 1)]
                   for share in SHARES}  # fmt: skip
        filters = Filters(groups=tuple(dataset.evaluation.get("groups", ())))
        questions = list(exam.questions)
        found: dict[tuple[str, float], list[Floats]] = {}
        for mapped in random.Random(SEED).sample(questions, min(most, len(questions))):
            question = question_for(mapped, dataset.evaluation.get("with_options", "none"))
            with searcher.reading() as (_, index):
                assert isinstance(index, PostgresSearchIndex)
                index.ask_for(filters.groups)
                tools = asked_once(searcher.tools.tools_for(index.generation.embedder))
                for (share, own), route in product(subsets.items(), ROUTES):
                    scores = []
                    for numbers in own:
                        index.frequencies = frozen(index, numbers)  # type: ignore[assignment, method-assign]
                        index._ranked = None
                        hits = retrieve(question, index, tools, settings, k=5, strategy=route, rerank=(),
                                        filters=filters).hits  # fmt: skip
                        told = judge(mapped, hits, exam.corpus, 5).scores
                        scores.append([told["recall@1"] or 0.0, told["recall@5"] or 0.0])
                    found.setdefault((route, share), []).append(np.mean(scores, axis=0))
    finally:
        state.close()
    chunks = {share: float(np.mean([len(own) for own in draws])) / len(documents) for share, draws in subsets.items()}
    return Asked({key: np.array(own) for key, own in found.items()}, chunks)


# ---------------------------------------------------------------- the tables


def by_share(sets: Mapping[str, Asked], route: str) -> list[str]:
    rows = []
    for share in SHARES:
        means = [own.found[route, share].mean(axis=0) for own in sets.values()]
        pairs = [*means, np.mean(means, axis=0)]
        rows.append([f"{share:.0%}", *(" / ".join(map(percent, pair)) for pair in pairs)])
    return table((f"{route}, R@1 / R@5", *sets, "mean"), rows)


def lost(sets: Mapping[str, Asked], route: str) -> list[str]:
    """What a share of the documents loses of R@1 and of R@5, all questions of all sets together."""
    rows = []
    for share in SHARES[1:]:
        differences = np.concatenate([own.found[route, share] - own.found[route, 1.0] for own in sets.values()])
        cells = []
        for at in range(2):
            low, high = bootstrap_interval(differences[:, at].tolist())
            cells.append(f"{100 * differences[:, at].mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})")
        grown = [1 / own.chunks[share] - 1 for own in sets.values()]
        rows.append([f"{share:.0%}", f"{min(grown):.2f} to {max(grown):.2f}", *cells])
    return table((f"{route}, frozen at", "chunks grown since by", "R@1", "R@5"), rows)


def report(place: Path, names: Sequence[str], most: int) -> None:
    sets: dict[str, Asked] = {}
    for name in names:
        if (own := measured(name, index_of(name, place), most)) is None:
            print(f"{name}: fewer than {LEAST} documents, left out", file=sys.stderr, flush=True)
            continue
        sets[name] = own
        print(f"{name}: {len(own.found[ROUTES[0], 1.0])} questions", file=sys.stderr, flush=True)
    for route in ROUTES if sets else ():
        for block in (by_share(sets, route), lost(sets, route)):
            print("\n".join(block), end="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--questions", type=int, default=300, help="Most of a set, by a fixed seed.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-drift-") as folder:
        report(options.keep.resolve() if options.keep else Path(folder), options.sets, options.questions)


if __name__ == "__main__":
    main()
