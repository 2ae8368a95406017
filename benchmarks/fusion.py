"""How the routes and measures of hybrid search become one ranking: weights chosen on some sets, reported on others.

    python benchmarks/fusion.py [--sets ...] [--questions N] [--made 60] [--folder DIR] [--keep DIR]

Every set is indexed by the command itself, with the embedder and splitter of benchmarks/results.yaml. Of each
question the candidates that hybrid search measures are taken, with all that it measures of them, and ordered anew: by
each route and measure alone, by reciprocal rank, by scores stretched to [0, 1], by standard scores with the shipped
weights, with one part left out, and with the weights of GRID that do best on all other sets (leave one set out). A
hit counts by the rule of benchmarks/support/datasets.py; what says the same again is not taken out. R@1 and R@5 in
percent; differences are paired, with 95 % intervals of a bootstrap over questions. With --made, weights are also
chosen on questions that are made from each corpus itself, as `pincite eval --suggest` makes them, whole and with half
of their telling words left out, as people leave them out; a folder, which has no questions, is asked these alone.
Exit code 1 where the shipped form loses to a route, outside that interval, on any set.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results import SETS  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.indexes import indexed  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.judging import bootstrap_interval, matches, question_for, shown_by  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.retrieve import MEASURED_DEPTH, of_named_documents  # noqa: E402
from pipelines.query.routes import (  # noqa: E402
    FUSED_DEPTH,
    MEASURES,
    STRATEGIES,
    QueryState,
    reciprocal_rank,
    searches_of,
    standardise,
    stretch,
)
from pipelines.query.support import content_terms  # noqa: E402
from pipelines.query.wording import Question, Wordings  # noqa: E402
from pipelines.settings.query import FusionWeights, QuerySettings  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.evaluation.suggest import suggest  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

PARTS = ("dense", "lexical", "nearest_sentence", "document", "names", "surroundings")
GRID = [
    dict(zip(PARTS, (dense, 1.0, sentence, document, names, around), strict=True))
    for dense, sentence, document, names, around in itertools.product(
        (0.3, 0.5, 0.7, 0.9), (0.3, 0.5, 0.7, 0.9), (0.2, 0.3, 0.4, 0.5), (0.4, 0.8), (0.0, 0.3)
    )
]
SHIPPED: Mapping[str, float] = {name: getattr(FusionWeights(), name) for name in PARTS}
KINDS = ((0, "whole"), (1, "halved"))
SEED = 1
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """A question's candidates: {part: their values}, their places by reciprocal rank, and which are gold."""

    values: Mapping[str, Floats]
    by_rank: Floats
    gold: NDArray[np.bool_]


Order = Callable[[Measured], Floats]
"""A score for each candidate."""


def by_part(name: str) -> Order:
    return lambda one: one.values[name]


def by_rank(one: Measured) -> Floats:
    return one.by_rank


def standard(values: Sequence[float]) -> list[float]:
    own = {str(place): value for place, value in enumerate(values)}
    return list(standardise(own, own).values())


def summed(weights: Mapping[str, float], normal: Callable[[Sequence[float]], list[float]] = standard) -> Order:
    return lambda one: np.sum([weights[name] * np.array(normal(one.values[name].tolist())) for name in weights], axis=0)


def without(name: str) -> dict[str, float]:
    return {part: weight for part, weight in SHIPPED.items() if part != name}


STRETCHED = summed({"dense": 1.0, "lexical": 1.25}, stretch)
ORDERS: Mapping[str, Order] = {
    **{f"{name} alone": by_part(name) for name in ("dense", "lexical", "nearest_sentence")},
    "reciprocal rank": by_rank,
    "two routes, stretched, 1 to 1.25": STRETCHED,
    "two routes, standard, 1 to 1": summed({"dense": 1.0, "lexical": 1.0}),
    **{f"without {name}": summed(without(name)) for name in ("dense", "nearest_sentence", "document", "names")},
    "with surroundings": summed({**SHIPPED, "surroundings": 0.3}),
    "as shipped": summed(SHIPPED),
}


def found_at(questions: Sequence[Measured], order: Order, k: int) -> Floats:
    """By question, 1 where one of the first k is gold."""
    best = [np.argsort(-order(one), kind="stable")[:k] for one in questions]
    return np.array([float(one.gold[own].any()) for one, own in zip(questions, best, strict=True)])


# ---------------------------------------------------------------- measuring


def index_of(name: str, place: Path) -> Path:
    """The settings file of a set, after its index was brought up to date."""
    plan, file = SETS[name], place / name / "pincite.yaml"
    indexed(file, DATASETS[name].settings(file.parent / "state", plan["preset"], plan.get("splitter", "structure")))
    return file


def made(file: Path, count: int, groups: Sequence[str] = ()) -> tuple[Path, Path]:
    """Questions made from the corpus itself, and the same with half of their telling words left out."""
    state, chance = State(locate(config=str(file))), random.Random(SEED)
    try:
        whole = suggest(state, count, groups)["questions"]
    finally:
        state.close()
    halved = []
    for one in whole:
        words = one["question"].split()
        telling = [at for at, word in enumerate(words) if content_terms(word)]
        out = set(chance.sample(telling, len(telling) // 2))
        halved.append({**one, "question": " ".join(word for at, word in enumerate(words) if at not in out)})
    return golden_file(file.parent / "made.jsonl", whole), golden_file(file.parent / "halved.jsonl", halved)


def golden_file(file: Path, questions: Sequence[Mapping[str, object]]) -> Path:
    file.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in questions), encoding="utf-8")
    return file


def measured(file: Path, golden: Path, evaluation: Mapping[str, Any]) -> Iterator[Measured]:
    """The questions of a file; `evaluation` as of a Dataset."""
    state = State(locate(config=str(file)))
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        exam, searcher = examination(state, read_questions(golden), live), Searcher(state)
        filters = Filters(groups=tuple(evaluation.get("groups", ())))
        options = evaluation.get("with_options", "none")
        for mapped in exam.questions:
            question = question_for(mapped, options)
            question = question if isinstance(question, Question) else Question(question)
            with searcher.reading() as (_, index):
                known = partial(index.abbreviations, filters=filters)
                meant = Wordings(QuerySettings()).wordings_of(question, index.frequencies, known)
                one = QueryState(meant, index, searcher.tools.tools_for(index.generation.embedder), filters)
                best, values = measured_candidates(one)
                passages = index.passages(list(best), filters)
            shown = [shown_by(passages[key], exam.corpus.documents.get(passages[key].doc_id)) for key in best]
            yield Measured(
                {part: np.array([own.get(key, 0.0) for key in best]) for part, own in values.items()},
                np.array(list(best.values())),
                np.array([any(matches(each, place) for place in mapped.places) for each in shown], bool),
            )
    finally:
        state.close()


def measured_candidates(one: QueryState) -> tuple[dict[str, float], dict[str, Mapping[str, float]]]:
    """Return the candidates that hybrid search measures with their scores by reciprocal rank, and the values of each
    part; a part has none where the question gives it nothing to measure."""
    searches = searches_of(STRATEGIES["hybrid"], one, 0)
    wide = QuerySettings().candidates * FUSED_DEPTH
    fused = reciprocal_rank({route: search.best(wide, None) for route, search in searches.items()})
    first = dict(fused[: QuerySettings().candidates * MEASURED_DEPTH])
    best = {**first, **{key: 0.0 for key in of_named_documents(one, searches) if key not in first}}
    own = {measure: scores for measure, make in MEASURES.items() if (scores := make(one))}
    measures = {**{route: search.scores for route, search in searches.items()}, **own}
    return best, {part: measures[part](list(best)) if part in measures else {} for part in PARTS}


# ---------------------------------------------------------------- the tables


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def means(sets: Mapping[str, list[Measured]], order: Order) -> list[tuple[float, float]]:
    return [(found_at(own, order, 1).mean(), found_at(own, order, 5).mean()) for own in sets.values()]


def orders(sets: Mapping[str, list[Measured]]) -> list[str]:
    rows = []
    for name, order in ORDERS.items():
        scores = means(sets, order)
        pairs = [*scores, tuple(np.mean(scores, axis=0))]
        rows.append([name, *(" / ".join(map(percent, pair)) for pair in pairs)])
    return table(("R@1 / R@5", *sets, "mean"), rows)


def objective(scores: Sequence[tuple[float, float]]) -> float:
    return float(np.mean(scores))


def left_out(sets: Mapping[str, list[Measured]]) -> list[str]:
    """For each set, the weights that are best on the others."""
    grid = [(weights, means(sets, summed(weights))) for weights in GRID]
    shipped, rows = means(sets, summed(SHIPPED)), []
    for at, name in enumerate(sets):
        weights, scores = max(grid, key=lambda one: objective([*one[1][:at], *one[1][at + 1 :]]))
        _, own = max(grid, key=lambda one: objective([one[1][at]]))
        chosen = ", ".join(f"{weights[part]:g}" for part in PARTS)
        rows.append([name, chosen, *(" / ".join(map(percent, pair)) for pair in (scores[at], shipped[at], own[at]))])
    return table(("set", "chosen on the others", "there", "as shipped", "chosen on itself"), rows)


def by_generation(sets: Mapping[str, list[Measured]], own: Mapping[str, Sequence[list[Measured]]]) -> list[str]:
    """For each set, the weights that are best on questions made from its corpus, the nearest to the shipped ones of
    equals, and what these and their mean with the shipped ones do on its real questions."""
    rows = []
    for (name, kind), questions in (((name, kind), each[at]) for name, each in own.items() for at, kind in KINDS):
        scores = [objective(means({name: questions}, summed(weights))) for weights in GRID]
        equal = [weights for weights, score in zip(GRID, scores, strict=True) if score == max(scores)]
        chosen = min(equal, key=lambda weights: sum(abs(weights[part] - SHIPPED[part]) for part in PARTS))
        halfway = {part: (chosen[part] + SHIPPED[part]) / 2 for part in PARTS}
        shown = [(questions, by_part("dense")), (questions, by_part("lexical")), (questions, summed(SHIPPED)),
                 *((sets[name], summed(weights)) for weights in (SHIPPED, chosen, halfway))]  # fmt: skip
        found = [" / ".join(percent(found_at(asked, order, k).mean()) for k in (1, 5)) for asked, order in shown]
        told = f"{', '.join(f'{chosen[part]:g}' for part in PARTS)} ({len(equal)})"
        rows.append([name, f"{len(questions)} {kind}", *found[:3], told, *found[3:]])
    heads = (
        "dense",
        "lexical",
        "as shipped",
        "chosen (of equals)",
        "real, as shipped",
        "real, chosen",
        "real, halfway",
    )
    return table(("set", "made", *heads), rows)


def against_routes(sets: Mapping[str, list[Measured]]) -> tuple[list[str], list[str]]:
    """The shipped order less the better route, and where it loses outside the interval."""
    rows, lost = [], []
    for (name, own), k in itertools.product(sets.items(), (1, 5)):
        route = max(("dense", "lexical"), key=lambda part: found_at(own, by_part(part), k).mean())
        differences = found_at(own, summed(SHIPPED), k) - found_at(own, by_part(route), k)
        low, high = bootstrap_interval(differences.tolist())
        rows.append([name, f"R@{k}", route, f"{100 * differences.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"])
        lost += [f"{name} R@{k}"] if high < 0 else []
    return table(("set", "", "better route", "as shipped less it"), rows), lost


def measured_set(name: str, place: Path, most: int, count: int) -> list[list[Measured]]:
    """By its own questions, of more than `most` so many by chance, and by `count` that are made, whole and halved."""
    dataset, file = DATASETS[name], index_of(name, place)
    lines = dataset.write_golden(file.parent / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    sample = random.Random(SEED).sample(lines, most) if len(lines) > most else lines
    questions = [golden_file(file.parent / "golden.jsonl", [json.loads(line) for line in sample])]
    if count:
        questions += made(file, count, tuple(dataset.evaluation.get("groups", ())))
    return [list(measured(file, golden, dataset.evaluation)) for golden in questions]


def measured_folder(folder: Path, place: Path, count: int) -> dict[str, list[Measured]]:
    """A folder without questions, by those that are made."""
    file = place / folder.name / "pincite.yaml"
    source = {"name": folder.name, "path": str(folder)}
    indexed(file, {"state": str(file.parent / "state"), "sources": [source]}, some_may_fail=True)
    golden = made(file, count)
    return {f"{folder.name}, {kind}": list(measured(file, golden[at], {})) for at, kind in KINDS}


def report(place: Path, names: Sequence[str], most: int, count: int, folder: Path | None) -> int:
    sets: dict[str, list[Measured]] = {}
    own: dict[str, Sequence[list[Measured]]] = {}
    for name in names:
        sets[name], *own[name] = measured_set(name, place, most, count)
        print(f"{name}: {len(sets[name])} questions", file=sys.stderr, flush=True)
    known = {**sets, **(measured_folder(folder, place, count) if folder else {})}
    beside, lost = against_routes(known)
    leave_one_out, by_own = left_out(sets) if len(sets) > 1 else [], by_generation(sets, own) if count and sets else []
    for block in (orders(known), leave_one_out, beside, by_own):
        print("\n".join(block), end="\n\n")
    if lost:
        print(f"loses to a route: {', '.join(lost)}", file=sys.stderr)
    return 1 if lost else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--questions", type=int, default=10_000, help="Of each set, at the most; by chance.")
    parser.add_argument("--made", type=int, default=0, metavar="COUNT", help="Questions to make from each corpus.")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="Documents without questions, asked made ones.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-fusion-") as folder:
        place = (options.keep or Path(folder)).resolve()
        sys.exit(
            report(place, options.sets, options.questions, options.made, options.folder and options.folder.resolve())
        )


if __name__ == "__main__":
    main()
