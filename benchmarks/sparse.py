"""A learned sparse model as a third route of hybrid search, with weights chosen on other sets. Nothing of it ships.

    python benchmarks/sparse.py WEIGHTS [--sets ...] [--questions 400] [--keep DIR]

WEIGHTS is a folder with the config.json, tokenizer.json and model.safetensors of a SPLADE: a BERT for masked words,
whose logits say which words a text is about (Formal and others, SPLADE v2, 2021; log(1 + ReLU), the greatest over its
tokens). No code of that folder runs. Sets without English are left out, as are filings, which are large.
Every set is indexed by the command itself, with the embedder and splitter of benchmarks/results.yaml. Printed are R@1,
R@5 and R@20 in percent of words alone, of SPLADE alone, of hybrid search as shipped, and of hybrid search with SPLADE,
with the weights of GRID that do best on all other sets; the differences, paired, with 95 % intervals of a bootstrap
over questions; and what encoding costs beside the set's embedder, on one thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import (  # noqa: E402  (the path above finds it)
    SHIPPED,
    Measured,
    found_at,
    index_of,
    measured_candidates,
    objective,
    percent,
    summed,
)
from benchmarks.parts import Scores, difference, sampled, shown  # noqa: E402
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.judging import bootstrap_interval, matches, question_for, shown_by  # noqa: E402
from pipelines.ports import Candidate, Filters  # noqa: E402
from pipelines.query.rerankers import full_text  # noqa: E402
from pipelines.query.routes import STRATEGIES, LazyRanking, QueryState, searches_of  # noqa: E402
from pipelines.query.wording import Question, Wordings  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

LEFT_OUT = ("unlp-medicine", "library", "filings", "filings-text")
ENGLISH = tuple(name for name in DATASETS if name not in LEFT_OUT)
SPARSE = "sparse"
GRID = [
    {**SHIPPED, "dense": dense, "lexical": words, SPARSE: sparse}
    for sparse, dense, words in itertools.product((0.1, 0.2, 0.35, 0.5, 0.75, 1.0), (0.2, 0.5), (0.6, 1.0))
]
AT = (1, 5, 20)
WORDS, ALONE, HYBRID, BOTH = "BM25 alone", "SPLADE alone", "hybrid, as shipped", "hybrid and SPLADE"
BATCH, MOST_TOKENS, TOKENS_AT_ONCE = 16, 512, 128
TIMED_CHUNKS, TIMED_QUESTIONS = 64, 50
Floats = NDArray[np.float64]
Sparse = tuple[NDArray[np.int64], NDArray[np.float32]]
"""The words of a text by number, and how much it is about each."""


class Splade:
    """The model in WEIGHTS."""

    def __init__(self, folder: Path) -> None:
        import torch
        from safetensors.torch import load_file
        from tokenizers import Tokenizer
        from transformers import BertConfig, BertForMaskedLM

        torch.set_num_threads(1)
        self._tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokens.enable_truncation(MOST_TOKENS)
        self._tokens.enable_padding()
        model = BertForMaskedLM(BertConfig(**json.loads((folder / "config.json").read_text(encoding="utf-8"))))
        # Weights that old releases of TensorFlow wrote call the weight of a norm gamma, and its bias beta.
        weights = {
            key.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): value
            for key, value in load_file(folder / "model.safetensors").items()
        }
        missing, unknown = model.load_state_dict(weights, strict=False)
        tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "cls.predictions.bias"}
        if set(missing) - tied or unknown:
            raise SystemExit(f"{folder}: these weights are of another model: lacks {missing}, has {unknown}")
        model.tie_weights()
        self._model = model.eval()

    def encode(self, texts: Sequence[str]) -> list[Sparse]:
        found: dict[int, Sparse] = {}
        longest_last = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        for at in range(0, len(texts), BATCH):
            own = longest_last[at : at + BATCH]
            found.update(zip(own, self._encoded([texts[each] for each in own]), strict=True))
        return [found[at] for at in range(len(texts))]

    def _encoded(self, texts: Sequence[str]) -> list[Sparse]:
        import torch

        made = self._tokens.encode_batch(list(texts))
        mask = torch.tensor([each.attention_mask for each in made])
        found = []
        with torch.inference_mode():
            ids = torch.tensor([each.ids for each in made])
            states = self._model.cls.predictions.transform(self._model.bert(input_ids=ids, attention_mask=mask)[0])
            words = self._model.cls.predictions.decoder
            for own, real in zip(states, mask, strict=True):
                # Every token has a number for each of 30,000 words: a few tokens at a time stay in the cache. The
                # logarithm grows with its argument, so the greatest is taken first.
                parts = [words(part).amax(dim=0) for part in own[real.bool()].split(TOKENS_AT_ONCE)]
                scores = torch.log1p(torch.relu(torch.stack(parts).amax(dim=0))).numpy()
                found.append((np.flatnonzero(scores), scores[np.flatnonzero(scores)]))
        return found


class SparseIndex:
    """The sparse vectors of all chunks, by word."""

    def __init__(self, ids: Sequence[str], vectors: Sequence[Sparse]) -> None:
        self._ids = np.array(ids)
        self._numbers = {key: number for number, key in enumerate(ids)}
        words = np.concatenate([own for own, _ in vectors])
        order = np.argsort(words, kind="stable")
        self._words = words[order]
        self._chunks = np.repeat(np.arange(len(ids)), [len(own) for own, _ in vectors])[order]
        self._values = np.concatenate([own for _, own in vectors])[order]

    def scores(self, question: Sparse) -> Floats:
        """Return the product of each chunk's vector with the question's."""
        total = np.zeros(len(self._ids))
        starts, ends = (np.searchsorted(self._words, question[0], side=side) for side in ("left", "right"))  # type: ignore[call-overload]
        for start, end, weight in zip(starts, ends, question[1], strict=True):
            total[self._chunks[start:end]] += weight * self._values[start:end]  # each chunk has a word once
        return total

    def ranking(self, question: Sparse, within: Callable[[tuple[str, ...]], set[str]]) -> LazyRanking:
        """Return the route. `within` gives the chunks of documents."""
        scores = self.scores(question)
        order = np.argsort(-scores, kind="stable")

        def best(depth: int, documents: tuple[str, ...] | None = None) -> list[Candidate]:
            among = None if documents is None else within(documents)
            own = (at for at in order if among is None or str(self._ids[at]) in among)
            return [Candidate(str(self._ids[at]), float(scores[at])) for at in itertools.islice(own, depth)]

        def scores_of(chunk_ids: Sequence[str]) -> Mapping[str, float]:
            return {key: float(scores[self._numbers[key]]) for key in chunk_ids if key in self._numbers}

        return LazyRanking(best, scores_of)


# ---------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Ranked:
    """A question: by route the gold among its first 20, and its candidates with and without SPLADE."""

    alone: Mapping[str, NDArray[np.bool_]]
    hybrid: Measured
    both: Measured


@dataclass(frozen=True)
class Cost:
    """The cost of encoding: CPU milliseconds a question, and chunks a CPU second."""

    question: float
    chunks: float


def cost(questions: Sequence[str], chunks: Sequence[str], one: Callable[[list[str]], object],
         many: Callable[[list[str]], object]) -> Cost:  # fmt: skip
    one([questions[0]])
    spent = []
    for text in questions:
        started = time.process_time()
        one([text])
        spent.append(1000 * (time.process_time() - started))
    started = time.process_time()
    many(list(chunks))
    return Cost(float(np.median(spent)), len(chunks) / (time.process_time() - started))


def measured(name: str, file: Path, most: int, splade: Splade) -> tuple[list[Ranked], dict[str, Cost]]:
    dataset, state = DATASETS[name], State(locate(config=str(file)))
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        exam = examination(state, read_questions(sampled(dataset, file.parent, most)), live)
        searcher, filters = Searcher(state), Filters(groups=tuple(dataset.evaluation.get("groups", ())))
        ids = [
            key
            for read in state.of_generation(live).engine.table("chunks").pieces(["chunk_id"])
            for key in read["chunk_id"].to_pylist()
        ]
        with searcher.reading() as (_, index):
            passages = index.passages(ids, filters)
            tools = searcher.tools.tools_for(index.generation.embedder)
        texts = {key: full_text(passage) for key, passage in passages.items()}
        sparse = SparseIndex(list(texts), splade.encode(list(texts.values())))
        of_document: dict[str, set[str]] = {}
        for key, passage in passages.items():
            of_document.setdefault(passage.doc_id, set()).add(key)

        def within(documents: tuple[str, ...]) -> set[str]:
            return set().union(*(of_document.get(each, set()) for each in documents))

        found, asked_texts = [], []
        for mapped in exam.questions:
            question = question_for(mapped, "none")
            question = question if isinstance(question, Question) else Question(question)
            with searcher.reading() as (_, index):
                known = partial(index.abbreviations, filters=filters)
                meant = Wordings(QuerySettings()).wordings_of(question, index.frequencies, known)
                one = QueryState(meant, index, tools, filters)
                text = meant.text if meant.embedded is None else meant.embedded
                route = sparse.ranking(splade.encode([text])[0], within)
                words = searches_of(STRATEGIES["lexical"], one, 0)["lexical"]
                orders = {WORDS: words.best(AT[-1], None), ALONE: route.best(AT[-1], None)}
                candidates = [measured_candidates(one), measured_candidates(one, {SPARSE: route})]
            asked_texts.append(text)

            def gold(keys: Sequence[str], places: Sequence[Any] = mapped.places) -> NDArray[np.bool_]:
                seen = [shown_by(passages[key], exam.corpus.documents.get(passages[key].doc_id)) for key in keys]
                return np.array([any(matches(each, place) for place in places) for each in seen], bool)

            made = [
                Measured(
                    {part: np.array([own.get(key, 0.0) for key in best]) for part, own in values.items()},
                    np.array(list(best.values())),
                    gold(list(best)),
                )
                for best, values in candidates
            ]
            alone = {route: gold([each.chunk_id for each in own]) for route, own in orders.items()}
            found.append(Ranked(alone, made[0], made[1]))
        chunks, timed = list(texts.values())[:TIMED_CHUNKS], asked_texts[:TIMED_QUESTIONS]
        costs = {
            "SPLADE": cost(timed, chunks, splade.encode, splade.encode),
            str(live.embedder["name"]): cost(timed, chunks, tools.embed_queries, tools.embed_passages),
        }
        return found, costs
    finally:
        state.close()


def hits(questions: Sequence[Ranked], weights: Mapping[str, float]) -> dict[str, Floats]:
    """Return by metric 1 for each question that has gold among the first of hybrid search and SPLADE, else 0."""
    return {f"R@{k}": found_at([one.both for one in questions], summed(weights), k) for k in AT}


def scores_of(questions: Sequence[Ranked]) -> Scores:
    """All but what needs weights of other sets."""
    alone = {
        route: {f"R@{k}": np.array([float(one.alone[route][:k].any()) for one in questions]) for k in AT}
        for route in (WORDS, ALONE)
    }
    hybrid = {f"R@{k}": found_at([one.hybrid for one in questions], summed(SHIPPED), k) for k in AT}
    return {**alone, HYBRID: hybrid}


# ---------------------------------------------------------------- the tables


def paired(own: Scores, value: str, other: str, metric: str) -> str:
    differences = own[value][metric] - own[other][metric]
    return shown((float(differences.mean()), *bootstrap_interval(differences.tolist())))


def chosen_weights(sets: Mapping[str, Sequence[Ranked]]) -> tuple[dict[str, Scores], dict[str, str]]:
    """Return the scores by set, with those of the weights that are best on the other sets, and these weights."""
    grid = {name: [hits(own, weights) for weights in GRID] for name, own in sets.items()}
    reached = {name: [(own["R@1"].mean(), own["R@5"].mean()) for own in tried] for name, tried in grid.items()}
    found, told = {}, {}
    for name, questions in sets.items():
        others = [own for other, own in reached.items() if other != name] or [reached[name]]
        best = max(range(len(GRID)), key=lambda at: objective([own[at] for own in others]))
        found[name] = {**scores_of(questions), BOTH: grid[name][best]}
        told[name] = ", ".join(f"{GRID[best][part]:g}" for part in ("dense", "lexical", SPARSE))
    return found, told


def report(sets: Mapping[str, Sequence[Ranked]], costs: Mapping[str, Mapping[str, Cost]]) -> str:
    found, told = chosen_weights(sets)
    metrics = [f"R@{k}" for k in AT]
    values = (WORDS, ALONE, HYBRID, BOTH)
    rows = []
    for value in values:
        means = [[own[value][metric].mean() for metric in metrics] for own in found.values()]
        rows.append([value, *(" / ".join(map(percent, own)) for own in (*means, np.mean(means, axis=0)))])
    blocks = [table((" / ".join(metrics), *(f"{name} ({len(own)})" for name, own in sets.items()), "mean"), rows)]
    rows = [
        [name, told[name], *(paired(own, BOTH, HYBRID, metric) for metric in metrics)] for name, own in found.items()
    ]
    rows.append(["mean", "", *(shown(difference(found, BOTH, HYBRID, metric)) for metric in metrics)])
    blocks.append(table(("hybrid and SPLADE less hybrid", "dense, lexical, SPLADE", *metrics), rows))
    rows = [["mean", *(shown(difference(found, ALONE, WORDS, metric)) for metric in metrics)]]
    blocks.append(table(("SPLADE less BM25", *metrics), rows))
    rows = [[name, *(f"{each} {own.question:.1f} / {own.chunks:.1f}" for each, own in of.items())]
            for name, of in costs.items()]  # fmt: skip
    blocks.append(table(("CPU ms a question / chunks a CPU second", "", ""), rows))
    return "\n\n".join("\n".join(block) for block in blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="Folder of the model.")
    parser.add_argument("--sets", nargs="+", choices=ENGLISH, default=list(ENGLISH))
    parser.add_argument("--questions", type=int, default=400, help="Of each set, at the most; by chance.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    splade = Splade(options.weights)
    sets, costs = {}, {}
    with tempfile.TemporaryDirectory(prefix="pincite-sparse-") as folder:
        place = (options.keep or Path(folder)).resolve()
        for name in options.sets:
            sets[name], costs[name] = measured(name, index_of(name, place), options.questions, splade)
            print(f"{name}: {len(sets[name])} questions", file=sys.stderr, flush=True)
        print(report(sets, costs))


if __name__ == "__main__":
    main()
