"""Which questions would be declined by the words of their passages, where the documents have no answer.

`ask` declined so before it judged statements, which benchmarks/answers.py measures.

    python benchmarks/declining.py [--sets ...] [--questions 300] [--keep DIR]

Every set is indexed by the command itself, with the embedder and splitter of benchmarks/results.yaml. Each question is
asked twice: as it is, and as if the documents that answer it were not there, their passages being left out of what was
found (`withheld`; words are as rare as they are with them); a set's own unanswerable questions are asked once. Printed
is how many are declined at the threshold that keeps 95 % of those whose document is found, by the share of words alone
and by support, and what the shipped threshold and one chosen on all other sets keep and decline.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import index_of, percent  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.judging import question_for  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.assemble import assemble  # noqa: E402
from pipelines.query.retrieve import MEASURED_DEPTH, retrieve  # noqa: E402
from pipelines.query.support import Evidence, Weights, coverage, evidence_of, share  # noqa: E402
from pipelines.query.wording import Question  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from pipelines.terms import terms_of  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.search.answers import Weigher, passage_sentences  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

KEPT, SEED = 0.95, 1
WORDS_ENOUGH = 0.8
"""Share of the question's words that is enough support alone. The rarest of its words is enough too: if all passages
say nearly the same, no sentence stands out."""
LEAST_OUT, FULLY_OUT = 0.2, 0.5
"""The factor that remains if no sentence stands out, and the slope: from .4 of the way on, nothing is lost."""
ANSWERED, WITHHELD, OWN = "answered", "withheld", "unanswerable"


@dataclass(frozen=True)
class Borne:
    """A question: the share of its words that a passage holds, and its support. `kind` of ANSWERED, where a document
    with the answer is among the passages, WITHHELD and OWN."""

    kind: str
    words: float
    support: float


Score = Callable[[Borne], float]
SCORES: Mapping[str, Score] = {"words": lambda one: one.words, "support": lambda one: one.support}


# ---------------------------------------------------------------- support


def support(wanted: Weights, evidence: Sequence[Evidence], alike: Sequence[float]) -> float:
    """Return how far passages support a question, in [0, 1]: the share of its words that the best of them holds.

    If the best one lacks the rarest words and holds less than WORDS_ENOUGH, the share is multiplied by how far the
    nearest sentence stands out. `alike` are cosines, of the nearest sentence of every candidate; equal ones are of
    equal sentences. A model that finds everything alike gives high cosines only. The factor therefore depends on
    how much of the way from the others' mean to 1 the greatest has gone."""
    best = max(evidence, key=lambda item: share(wanted, item.about, item.around), default=None)
    if best is None:
        return 0.0
    held = share(wanted, best.about, best.around)
    most = max(wanted.values(), default=0.0)
    lacking = (weight for term, weight in wanted.items() if term not in best.about and term not in best.around)
    if held >= WORDS_ENOUGH or most not in lacking:
        return held
    return held * standing_out(alike)


def standing_out(alike: Sequence[float]) -> float:
    """Return the factor for the nearest sentence, in [LEAST_OUT, 1]."""
    near = sorted(set(alike))
    if len(near) < 2:
        return 1.0
    mean = min(sum(near[:-1]) / (len(near) - 1), near[-1])
    way = (near[-1] - mean) / (1 - mean) if mean < 1 else 0.0
    return min(1.0, LEAST_OUT + way / FULLY_OUT)


# ---------------------------------------------------------------- measuring


def measured(name: str, file: Path, most: int) -> Iterator[Borne]:
    dataset, state, settings = DATASETS[name], State(locate(config=str(file))), QuerySettings()
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        golden = dataset.write_golden(file.parent / "declining.jsonl", unanswerable=True)
        questions, searcher = list(examination(state, read_questions(golden), live).questions), Searcher(state)
        groups = tuple(dataset.evaluation.get("groups", ()))
        for mapped in random.Random(SEED).sample(questions, min(most, len(questions))):
            question = question_for(mapped, dataset.evaluation.get("with_options", "none"))
            question = question if isinstance(question, Question) else Question(question)
            gold = {place.doc_id for place in mapped.places}
            if None in gold:  # of a document that is not in the index
                continue
            with searcher.reading() as (connection, index):
                tools = searcher.tools.tools_for(index.generation.embedder)
                found = retrieve(question, index, tools, settings, k=settings.candidates * MEASURED_DEPTH,
                                 filters=Filters(groups=groups))  # fmt: skip
                wanted = Weigher(searcher, index.generation, groups)(set(terms_of(question.text)))
                for left_out in [set(), gold] if gold else [set()]:
                    hits = [hit for hit in found.hits if hit.passage.doc_id not in left_out]
                    best = hits[: settings.context_passages]
                    sentences = passage_sentences(connection, index.generation.number, best)
                    context, _ = assemble(best, sentences, most=len(best), tokens=settings.context_tokens)
                    evidence = evidence_of(context)
                    borne = support(wanted, evidence, [hit.scores["nearest_sentence"] for hit in hits])
                    kind = OWN if not gold else WITHHELD if left_out else ANSWERED
                    if kind != ANSWERED or any(hit.passage.doc_id in gold for hit in best):
                        yield Borne(kind, coverage(wanted, evidence), borne)
    finally:
        state.close()


# ---------------------------------------------------------------- the tables


def values(own: Sequence[Borne], score: Score, *kinds: str) -> list[float]:
    return [score(one) for one in own if one.kind in kinds]


def keeping(own: Sequence[Borne], score: Score) -> float:
    """The greatest threshold that keeps KEPT of the questions that are answered."""
    return float(np.quantile(values(own, score, ANSWERED), 1 - KEPT))


def declined(own: Sequence[Borne], score: Score, least: float, *kinds: str) -> str:
    of = values(own, score, *kinds)
    return percent(float(np.mean(np.array(of) < least))) if of else "–"


def kept(own: Sequence[Borne], score: Score, least: float) -> str:
    return percent(float(np.mean(np.array(values(own, score, ANSWERED)) >= least)))


def at_its_own(sets: Mapping[str, Sequence[Borne]]) -> list[str]:
    """Declined of withheld and of unanswerable questions, at the threshold of the set that keeps KEPT."""
    rows = []
    for name, own in sets.items():
        both = [
            declined(own, score, keeping(own, score), kind) for kind in (WITHHELD, OWN) for score in SCORES.values()
        ]
        rows.append([name, *both])
    heads = [f"{kind}, by {score}" for kind in (WITHHELD, OWN) for score in SCORES]
    return table((f"declined where {KEPT:.0%} are kept", *heads), rows)


def at_one(sets: Mapping[str, Sequence[Borne]], shipped: float) -> list[str]:
    """Kept / declined by support, at the shipped threshold and at the mean of those of all other sets."""
    score, rows = SCORES["support"], []
    for at, (name, own) in enumerate(sets.items()):
        others = [keeping(other, score) for place, other in enumerate(sets.values()) if place != at]
        pairs = [
            f"{kept(own, score, least)} / {declined(own, score, least, WITHHELD)} / {declined(own, score, least, OWN)}"
            for least in (shipped, float(np.mean(others)))
        ]
        rows.append([name, *pairs, f"{np.mean(others):.2f}"])
    heads = (f"shipped, {shipped:g}", "chosen on the others", "which is")
    return table(("kept / withheld / unanswerable", *heads), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-declining-") as folder:
        place = (options.keep or Path(folder)).resolve()
        sets = {}
        for name in options.sets:
            sets[name] = list(measured(name, index_of(name, place), options.questions))
            print(f"{name}: {len(sets[name])} questions", file=sys.stderr, flush=True)
    for block in (at_its_own(sets), at_one(sets, QuerySettings().answer_support) if len(sets) > 1 else []):
        print("\n".join(block), end="\n\n")


if __name__ == "__main__":
    main()
