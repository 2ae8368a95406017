"""Chunks against sentences: what each route finds, and within how much that is read.

    python benchmarks/routes.py [--sets ...] [--embedded FORM] [--keep DIR]

Every set is indexed by the command itself with default settings, and its questions are put to every route of ROUTES. A
hit counts by one rule for all of them (benchmarks/support/datasets.py). The first table, chunks / sentences, is that of
docs/measured/sentences.md.

`read 200`, `read 500` and `read 1000` are recall within so many tokens of hits in order, which is what a reader or a
language model pays for; the best is read whatever its length. Gold of the library's facts is their text,
though the file names pages too: any hit of a page would count else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.datasets import DATASETS, Dataset  # noqa: E402  (the path above finds it)
from benchmarks.support.indexes import indexed  # noqa: E402
from benchmarks.support.route_figures import DEFAULT, NO_LINKS, RIVAL, Answered  # noqa: E402
from benchmarks.support.route_questions import LIBRARY_FACTS, tatqa  # noqa: E402
from benchmarks.support.route_report import overview, route_tables  # noqa: E402
from pipelines.evaluation.judging import judge, question_for  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.results import Hit  # noqa: E402
from pipelines.query.retrieve import retrieve  # noqa: E402
from pipelines.tokens import count_tokens  # noqa: E402
from resources.evaluation.golden import Examination, examination, read_questions  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

BUDGETS = (200, 500, 1000)
RANKED = 20


class Unlinked:
    """An index whose sentences are RELATED_TO nothing."""

    def __init__(self, index: Any) -> None:
        self._index = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def expand(self, *arguments: Any) -> list[Any]:
        return [reached for reached in self._index.expand(*arguments) if reached.edge != "related"]


ROUTES: Mapping[str, tuple[str, bool]] = {
    DEFAULT: ("hybrid", True),
    "dense": ("dense", True),
    RIVAL: ("sentence", True),
    NO_LINKS: ("sentence", False),
}
"""(strategy, whether links are followed) by name."""


@dataclass(frozen=True)
class Case:
    """A set as it is asked here; `index` names the folder, since several may ask one index."""

    name: str
    dataset: Dataset
    index: str
    preset: str = "auto"
    counts: bool = True


def cases(place: Path) -> list[Case]:
    medicine = DATASETS["unlp-medicine"]
    return [
        Case("policies", DATASETS["policies"], "policies"),
        Case("unlp-medicine", medicine, "unlp-medicine", "multilingual-small"),
        Case("unlp-medicine, no options", replace(medicine, evaluation={}), "unlp-medicine", "multilingual-small",
             counts=False),
        Case("chunking-evaluation", DATASETS["chunking-evaluation"], "chunking-evaluation"),
        Case("library", DATASETS["library"], "library"),
        Case("library-facts", LIBRARY_FACTS, "library"),
        Case("tatqa", tatqa(place / "tatqa"), "tatqa"),
    ]  # fmt: skip


NAMES = ("policies", "unlp-medicine", "chunking-evaluation", "library", "library-facts", "tatqa")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def index_of(case: Case, place: Path, form: str | None) -> Path:
    """The settings file of a case, after its index was brought up to date."""
    file = place / (f"{case.index}-{form}" if form else case.index) / "pincite.yaml"
    settings = case.dataset.settings(file.parent / "state", case.preset)
    indexed(file, {**settings, **({"sentences": {"embedded": form}} if form else {})})
    return file


# ---------------------------------------------------------------- asking


def within(hits: Sequence[Hit], tokens: int) -> list[Hit]:
    """The hits that are read: in order, up to the first that no longer fits; the best one in any case."""
    read = list(accumulate(map(length, hits)))
    return list(hits[: max(1, bisect_right(read, tokens))])


def length(hit: Hit) -> int:
    return count_tokens(f"{hit.passage.overlap}\n{hit.passage.text}")


def scored(exam: Examination, number: int, hits: Sequence[Hit]) -> dict[str, float | None]:
    mapped = exam.questions[number]
    scores = dict(judge(mapped, hits, exam.corpus, 5).scores)
    for budget in BUDGETS:
        scores[f"read {budget}"] = judge(mapped, within(hits, budget), exam.corpus, 5).scores[f"recall@{RANKED}"]
    return {**scores, "tokens": float(sum(map(length, hits[:5])))}


def answered(case: Case, file: Path) -> Iterator[Answered]:
    """Every question of a case that has gold, put to every route."""
    golden = case.dataset.write_golden(file.parent / f"{case.name.replace(', ', '-').replace(' ', '-')}.jsonl")
    state = State(locate(config=str(file)))
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        exam, searcher = examination(state, read_questions(golden), live), Searcher(state)
        if exam.unmapped:
            say(f"{case.name}: gold that could not be mapped: {exam.unmapped}")
        filters = Filters(groups=tuple(case.dataset.evaluation.get("groups", ())))
        options = case.dataset.evaluation.get("with_options", "none")
        for number, mapped in enumerate(exam.questions):
            found = {}
            with searcher.reading() as (_, index):
                tools = searcher.tools.tools_for(index.generation.embedder)
                for route, (strategy, linked) in ROUTES.items():
                    one: Any = index if linked else Unlinked(index)
                    hits = retrieve(question_for(mapped, options), one, tools, state.settings.query, k=RANKED,
                                    strategy=strategy, rerank=(), filters=filters).hits  # fmt: skip
                    found[route] = scored(exam, number, hits)
            yield Answered(case.name, mapped.question.id, found, case.counts)
    finally:
        state.close()


# ---------------------------------------------------------------- the run


def report(place: Path, sets: Sequence[str], form: str | None) -> None:
    answers: list[Answered] = []
    ready: dict[str, Path] = {}
    for case in cases(place):
        if case.name.split(",")[0] in sets:
            if case.index not in ready:
                ready[case.index] = index_of(case, place, form)
            answers += answered(case, ready[case.index])
            say(f"{case.name}: {sum(answer.dataset == case.name for answer in answers)} questions")
    for block in (overview(answers), *route_tables(answers)):
        print("\n".join(block), end="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=list(NAMES))
    forms = ("fast", "blended", "header-chain", "bare")
    parser.add_argument("--embedded", choices=forms, help="What of a sentence is searched, in indexes of their own.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-routes-") as folder:
        place = options.keep.resolve() if options.keep else Path(folder)
        report(place, options.sets, options.embedded)


if __name__ == "__main__":
    main()
