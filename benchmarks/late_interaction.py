"""Late interaction as a reranker: MaxSim over the shipped models' token vectors, of the first hits of hybrid search.

    python benchmarks/late_interaction.py [--sets ...] [--questions 100] [--keep DIR]

MaxSim is the mean, over the tokens of the question, of the greatest cosine with a token of the passage (Khattab and
Zaharia, ColBERT, SIGIR 2020, section 3.3), here with models that were trained for one vector a text. Every set is
indexed by the command itself, with the embedder and splitter of benchmarks/results.yaml; the first 20 hits are put into
the order of MaxSim alone, and of the sum of the standard scores of both by WEIGHTS. R@1 and R@5 in percent. Printed too
is what it costs to take the token vectors of 20 passages, which no index keeps: of 250 tokens they are 384 KB a chunk.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import index_of, percent, standard  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.judging import bootstrap_interval, judge, question_for  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.rerankers import full_text  # noqa: E402
from pipelines.query.results import Hit  # noqa: E402
from pipelines.query.retrieve import retrieve  # noqa: E402
from pipelines.query.wording import Question  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.models.embedders.loaded import make_embedder  # noqa: E402
from resources.models.embedders.specs import EmbedderSpec  # noqa: E402
from resources.models.embedders.windowed import WindowedEmbedder  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

FIRST, SEED = 20, 0
WEIGHTS: Mapping[str, float | None] = {"hybrid": 0.0, "and MaxSim, .25": 0.25, "and MaxSim, .5": 0.5,
                                       "and MaxSim, 1": 1.0, "MaxSim alone": None}  # fmt: skip
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]


class Tokens:
    """Unit vectors of the tokens of texts, each text's once."""

    def __init__(self, embedder: WindowedEmbedder) -> None:
        self._embedder, self._known = embedder, dict[str, Vectors]()
        self.milliseconds: list[float] = []

    def of(self, text: str, role: str = "query") -> Vectors:
        return self._made([text], self._embedder._prefix(role))[0]

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        prefix = self._embedder.prompt
        fresh = [text for text in texts if text not in self._known]
        started = time.perf_counter()
        self._known.update(zip(fresh, self._made(fresh, prefix), strict=True))
        if len(fresh) == FIRST:
            self.milliseconds.append(1000 * (time.perf_counter() - started))
        return [self._known[text] for text in texts]

    def _made(self, texts: Sequence[str], prefix: str) -> list[Vectors]:
        spans = [[own for own in encoded.offsets if own[1] > own[0]] for encoded in self._embedder._encode(texts)]
        _, vectors = self._embedder._embed(texts, spans, prefix, None)
        return np.split(vectors, np.cumsum([len(own) for own in spans])[:-1]) if texts else []


def maxsim(question: Vectors, passage: Vectors) -> float:
    return float((question @ passage.T).max(axis=1).mean()) if len(question) and len(passage) else 0.0


def order(hits: Sequence[Hit], near: Sequence[float], weight: float | None) -> list[Hit]:
    own = [hit.score for hit in hits]
    scores = near if weight is None else np.add(standard(own), weight * np.array(standard(near))).tolist()
    return [hits[at] for at in sorted(range(len(hits)), key=lambda at: -scores[at])]


def measured(name: str, file: Path, most: int) -> tuple[dict[str, Floats], list[float]]:
    """{order: R@1 and R@5 of each question}, and milliseconds to make the token vectors of FIRST passages."""
    dataset, state, settings = DATASETS[name], State(locate(config=str(file))), QuerySettings()
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        exam, searcher = (
            examination(state, read_questions(dataset.write_golden(file.parent / "golden.jsonl")), live),
            Searcher(state),
        )
        embedder = make_embedder(EmbedderSpec(**live.embedder), state.settings.embedder)
        assert isinstance(embedder, WindowedEmbedder)
        tokens, questions = Tokens(embedder), list(exam.questions)
        filters = Filters(groups=tuple(dataset.evaluation.get("groups", ())))
        found: dict[str, list[list[float]]] = {each: [] for each in WEIGHTS}
        for mapped in random.Random(SEED).sample(questions, min(most, len(questions))):
            question = question_for(mapped, dataset.evaluation.get("with_options", "none"))
            text = question.text if isinstance(question, Question) else question
            with searcher.reading() as (_, index):
                hits = retrieve(question, index, searcher.tools.tools_for(index.generation.embedder), settings, k=FIRST,
                                rerank=(), filters=filters).hits  # fmt: skip
            of_question = tokens.of(text)
            near = [maxsim(of_question, own) for own in tokens.passages([full_text(hit.passage) for hit in hits])]
            for each, weight in WEIGHTS.items():
                scores = judge(mapped, order(hits, near, weight), exam.corpus, 5).scores
                found[each].append([scores["recall@1"] or 0.0, scores["recall@5"] or 0.0])
    finally:
        state.close()
    return {each: np.array(own) for each, own in found.items()}, tokens.milliseconds


def report(sets: Mapping[str, Mapping[str, Floats]]) -> list[str]:
    """Last the difference to hybrid search of all questions of all sets together, in points of R@1."""
    rows = []
    for each in WEIGHTS:
        means = [own[each].mean(axis=0) for own in sets.values()]
        differences = np.concatenate([own[each][:, 0] - own["hybrid"][:, 0] for own in sets.values()])
        low, high = bootstrap_interval(differences.tolist())
        told = f"{100 * differences.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        pairs = [" / ".join(map(percent, pair)) for pair in (*means, np.mean(means, axis=0))]
        rows.append([each, *pairs, told])
    return table(("R@1 / R@5", *sets, "mean", "R@1 of all"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--questions", type=int, default=100, help="Most of a set, by a fixed seed.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    sets, spent = {}, {}
    with tempfile.TemporaryDirectory(prefix="pincite-late-") as folder:
        place = options.keep.resolve() if options.keep else Path(folder)
        for name in options.sets:
            sets[name], spent[name] = measured(name, index_of(name, place), options.questions)
            print(f"{name}: {len(sets[name]['hybrid'])} questions", file=sys.stderr, flush=True)
    print("\n".join(report(sets)), end="\n\n")
    rows = [[name, f"{np.median(own):.0f}" if own else "–"] for name, own in spent.items()]
    print("\n".join(table(("set", f"ms, token vectors of {FIRST} passages"), rows)))


if __name__ == "__main__":
    main()
