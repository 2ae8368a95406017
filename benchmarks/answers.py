"""A measure of answers without a language model, and of what each rule of them does.

    python benchmarks/answers.py [--corpora policies library] [--part dev] [--each] [--keep DIR]

Each corpus is indexed by the command itself, with the embedder that the published figures have, and asked the questions
of tests/data/answers, as `pincite ask` does, by a user of the group `hr`. Printed is, in percent, of the answerable
questions how many have a first quotation that holds a gold text, how many have no other quotation, and how many are not
declined; of the unanswerable ones how many are declined; and the processor time of choosing an answer from the passages
that were found. The same follows with each rule left out, for `dev` alone: of `held` questions only the totals are
shown, since a rule that was chosen by one of them would make the set worthless. --each also names every `dev` question
with its answer. Exit code 1 where a figure of AIMS is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import percent  # noqa: E402  (the path above finds it)
from benchmarks.results import PLANS  # noqa: E402
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.indexes import indexed  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.golden import MappedQuestion  # noqa: E402
from pipelines.evaluation.judging import Corpus, judge_answer  # noqa: E402
from pipelines.query.answer import Answer, answer_json, extract_answer  # noqa: E402
from pipelines.query.assemble import assemble  # noqa: E402
from pipelines.query.statements import ALL, Rules  # noqa: E402
from pipelines.query.wording import Question, also_said  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.search.answers import MORE_PASSAGES, Weigher, passage_sentences  # noqa: E402
from resources.search.passages import Searcher, shared_titles  # noqa: E402
from resources.search.search_options import SearchOptions  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

QUESTIONS = ROOT / "tests" / "data" / "answers"
CORPORA, PARTS = ("policies", "library"), ("dev", "held")
GROUPS = ("hr",)
METRICS = ("first_quotation", "all_quotations", "kept_answerable", "declined_unanswerable")
AIMS: Mapping[str, float] = {"first_quotation": 0.75, "kept_answerable": 0.95, "declined_unanswerable": 0.9}
RULES = tuple(rule.name for rule in fields(Rules))
REPEATS = 3
"""Times that each question is answered; the first may load word lists, and is not counted."""


@dataclass(frozen=True)
class Found:
    """A question with its passages: `answer` makes an answer by rules."""

    mapped: MappedQuestion
    answer: Callable[[Rules], Answer]


@dataclass(frozen=True)
class Totals:
    """The means of METRICS, and the milliseconds of processor time that an answer takes."""

    metrics: Mapping[str, float]
    milliseconds: float

    @property
    def cells(self) -> list[str]:
        return [*(percent(self.metrics[name]) for name in METRICS), f"{self.milliseconds:.1f}"]


def found_in(state: State, file: Path) -> Iterator[tuple[Found, Corpus]]:
    """Yield the questions of a file with what `ask` reads for each."""
    live = state.parts.catalog.live()
    assert live is not None, "an index that was just made is live"
    exam, searcher, settings = examination(state, read_questions(file), live), Searcher(state), QuerySettings()
    read = settings.context_passages + MORE_PASSAGES
    for mapped in exam.questions:
        with searcher.asking() as reading:
            index, text = reading.index, mapped.question.question
            number = index.generation.number
            found = searcher.retrieve(Question(text), index, SearchOptions.from_texts(read, groups=GROUPS), reading)
            index.ask_for(GROUPS)
            sentences = passage_sentences(index.connection, number, found.hits, found.vector)
            shared = shared_titles(index.connection, number, found.hits)
            weigher = Weigher(searcher, index.generation, GROUPS)
            context, _ = assemble(found.hits, sentences, most=read, tokens=settings.context_tokens, shared=shared)
            said = partial(also_said, found.question.expansions)
            asked, unknown = found.question.terms, weigher.unknown(found.question.terms)

            def weigh(terms: Collection[str], weigher: Any = weigher, asked: Any = asked) -> Mapping[str, float]:
                return {term: weight * asked.get(term, 1.0) for term, weight in weigher(terms).items()}

            def answer(rules: Rules, kept: Any = (text, context, weigh, found.alike, said, unknown)) -> Answer:
                question, passages, weights, alike, reading, misspelt = kept
                least = QuerySettings().answer_support
                return extract_answer(question, passages, weights, least, alike, reading, misspelt, rules)

            answer(ALL)  # reads the frequencies of all words while the index is open
            yield Found(mapped, answer), exam.corpus


def judged(found: Sequence[Found], corpus: Corpus, rules: Rules, each: bool = False) -> Totals:
    scores: dict[str, list[float]] = {name: [] for name in METRICS}
    seconds = 0.0
    for one in found:
        for again in range(REPEATS):
            begun = time.process_time()
            answer = one.answer(rules)
            seconds += (time.process_time() - begun) if again else 0.0
        said = answer_json(one.mapped.question.question, answer, [], False)
        own = judge_answer(one.mapped, said, [], corpus, {})
        for name in METRICS:
            if (value := own[name]) is not None:
                scores[name].append(value)
        if each:
            told = {key: own[key] for key in METRICS if own[key] is not None}
            print(json.dumps({"question": one.mapped.question.question, "answer": said["answer"], **told},
                             ensure_ascii=False))  # fmt: skip
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    return Totals(means, 1000 * seconds / (REPEATS - 1) / len(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--part", choices=PARTS, default="dev")
    parser.add_argument("--each", action="store_true", help="Print each dev question with its answer and scores.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    rows, missed = list[list[str]](), False
    with tempfile.TemporaryDirectory(prefix="pincite-answers-") as folder:
        place = (options.keep or Path(folder)).resolve()
        for name in options.corpora:
            file, dataset, plan = place / name / "pincite.yaml", DATASETS[name], PLANS["sets"][name]
            if not file.exists():
                indexed(file, dataset.settings(file.parent / "state", plan["preset"]), some_may_fail=True)
            state = State(locate(config=str(file)))
            try:
                pairs = list(found_in(state, QUESTIONS / f"{name}.{options.part}.jsonl"))
            finally:
                state.close()
            found, corpus = [one for one, _ in pairs], pairs[0][1]
            shown = options.each and options.part == "dev"
            total = judged(found, corpus, ALL, shown)
            missed |= any(total.metrics[metric] < aim for metric, aim in AIMS.items())
            rows.append([name, options.part, *total.cells])
            for rule in RULES if options.part == "dev" else ():
                rows.append([name, f"without {rule}", *judged(found, corpus, replace(ALL, **{rule: False})).cells])
    heads = ("first right", "all right", "kept", "declined", "ms")
    print("\n".join(table(("corpus", "questions", *heads), rows)))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
