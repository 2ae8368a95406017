"""Which sentences are quoted if sentences alone are quoted: by the words they hold, by their cosine, by both.

`ask` quoted so before it quoted statements, which benchmarks/answers.py measures.

    python benchmarks/quotes.py [--sets ...] [--questions 150] [--keep DIR]

Every set is indexed by the command itself, with the embedder and splitter of benchmarks/results.yaml, and each question
is searched for as `ask` does. Of the sentences of its context are taken how far they support the question, their cosine
to it, and which are gold: where a sentence stands decides, by the rule of benchmarks/support/datasets.py (an excerpt, a
cell, a page, a piece). Printed is, of the questions that are not declined, how many of the first quotes and of all are
gold, how many questions have a gold one, and how many quotes there are: by each form of FORMS, and by the powers and
ratios of GRID that do best on all other sets (leave one set out). Percent; differences are paired, in points, with
95 % intervals of a bootstrap over questions.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.declining import support  # noqa: E402
from benchmarks.fusion import index_of, percent  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from pipelines.evaluation.document_map import DocumentMap  # noqa: E402
from pipelines.evaluation.judging import Shown, bootstrap_interval, matches, question_for  # noqa: E402
from pipelines.ports import Filters  # noqa: E402
from pipelines.query.assemble import assemble  # noqa: E402
from pipelines.query.retrieve import retrieve  # noqa: E402
from pipelines.query.support import Evidence, evidence_of  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402
from pipelines.terms import terms_of  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.postgres.catalog import schema_name  # noqa: E402
from resources.postgres.statements import query as statement  # noqa: E402
from resources.search.answers import Weigher, passage_sentences  # noqa: E402
from resources.search.passages import Searcher  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

SEED = 1
MOST_SENTENCES, NEAR_BEST, LEAST_COSINE = 3, 0.75, 0.01
SETS = tuple(name for name in DATASETS if name != "sec-10-q")
"""Gold of `sec-10-q` is a document of a hundred pages: any quote of it would do."""
Floats = NDArray[np.float64]
Spans = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Quotable:
    """The sentences of a question's context in reading order: how far each supports it, its cosine, which are gold."""

    support: Floats
    cosine: Floats
    gold: NDArray[np.bool_]


# ---------------------------------------------------------------- measuring


def place_of(item: Evidence, spans: Spans, document: DocumentMap) -> Shown:
    """Where a sentence stands: by its words, there where its paragraph is, which is all that is known of a row."""
    page, own = item.sentence.page, spans.get(item.sentence.sentence_id)
    found = document.occurrences(item.sentence.text)
    here = [each for each in found if page is None or page in document.characters_by_page(each)] or found
    inside = [each for each in here if own and any(start < own[1] and own[0] < end for start, end in each)]
    stands = next(iter(inside or here), None) or ((own,) if own else item.passage.chunks[0].spans)
    return Shown(document.doc_id, stands, {page: 1} if page is not None else document.characters_by_page(stands))


def measured(name: str, file: Path, most: int) -> Iterator[Quotable]:
    dataset, state, settings = DATASETS[name], State(locate(config=str(file))), QuerySettings()
    try:
        live = state.parts.catalog.live()
        assert live is not None, "an index that was just made is live"
        exam, searcher = (
            examination(state, read_questions(dataset.write_golden(file.parent / "quotes.jsonl")), live),
            Searcher(state),
        )
        groups, schema = tuple(dataset.evaluation.get("groups", ())), schema_name(live.generation)
        questions, passages = list(exam.questions), settings.context_passages
        for mapped in random.Random(SEED).sample(questions, min(most, len(questions))):
            question = question_for(mapped, dataset.evaluation.get("with_options", "none"))
            with searcher.reading() as (connection, index):
                tools = searcher.tools.tools_for(index.generation.embedder)
                found = retrieve(question, index, tools, settings, k=passages, filters=Filters(groups=groups))
                sentences = passage_sentences(connection, index.generation.number, found.hits, found.vector)
                context, _ = assemble(found.hits, sentences, most=passages, tokens=settings.context_tokens)
                evidence = evidence_of(context)
                wanted = Weigher(searcher, index.generation, groups)(set(terms_of(question.text)))
                chunks = list({item.sentence.chunk_id for item in evidence})
                named = statement("search_sentences", "sentences_of_paragraphs", schema=schema)
                rows = connection.execute(named, {"chunk_ids": chunks, "paragraph_ids": [""] * len(chunks)}).fetchall()
            if support(wanted, evidence, found.alike) < settings.answer_support:
                continue
            spans = {row[2]: (row[8], row[9]) for row in rows}
            shown = [place_of(each, spans, exam.corpus.documents[each.passage.chunks[0].doc_id]) for each in evidence]
            yield Quotable(
                np.array([each.support(wanted) for each in evidence]),
                filled([each.sentence.cosine for each in evidence]),
                np.array([any(matches(own, place) for place in mapped.places) for own in shown], bool),
            )
    finally:
        state.close()


def filled(cosines: Sequence[float | None]) -> Floats:
    """A passage that is quoted whole has none; it counts as the others do."""
    known = [near for near in cosines if near is not None]
    return np.array([np.mean(known) if near is None else near for near in cosines]) if known else np.ones(len(cosines))


# ---------------------------------------------------------------- the forms


Form = Callable[[Quotable], list[int]]
"""The places of the sentences that are quoted, the first first."""


def best(scores: Sequence[float], least: float) -> list[int]:
    ranked = sorted(range(len(scores)), key=lambda at: -scores[at])[:MOST_SENTENCES]
    return [at for at in ranked if scores[at] >= least]


def near(scores: Sequence[float], ratio: float) -> list[int]:
    """Those that score a part of the best one's, at the least."""
    return best(scores, ratio * max(scores))


def in_reading_order(one: Quotable) -> list[int]:
    return sorted(near(one.support.tolist(), 0.75))


def by(power: float, ratio: float) -> Form:
    """Support times the cosine to a power, and of these the near ones."""
    return lambda one: near((one.support * np.maximum(one.cosine, 0.0) ** power).tolist(), ratio)


def standard(values: Floats) -> Floats:
    deviation = values.std()
    return (values - values.mean()) / deviation if deviation else 0.0 * values


def by_standard_scores(one: Quotable) -> list[int]:
    scores = ((standard(one.support) + standard(one.cosine)) / 2).tolist()
    return best(scores, max(scores) - 0.75)


def answering(supports: Sequence[float], cosines: Sequence[float | None]) -> list[float]:
    """Support times cosine; a sentence without a cosine gets the mean of the others."""
    known = [max(near, LEAST_COSINE) for near in cosines if near is not None]
    mean = sum(known) / len(known) if known else 1.0
    factors = [mean if near is None else max(near, LEAST_COSINE) for near in cosines]
    return [held * factor for held, factor in zip(supports, factors, strict=True)]


def as_shipped(one: Quotable) -> list[int]:
    return near(answering(one.support.tolist(), one.cosine.tolist()), NEAR_BEST)


FORMS: Mapping[str, Form] = {
    "words, in reading order": in_reading_order,
    "words, best first": by(0, 0.75),
    "cosine, best first": lambda one: near(one.cosine.tolist(), 0.9),
    "standard scores of both": by_standard_scores,
    "as shipped": as_shipped,
}
GRID = [(power, ratio) for power, ratio in itertools.product((0, 0.5, 1, 2), (0.7, 0.75, 0.8, 0.85, 0.9))]


@dataclass(frozen=True)
class Quoted:
    """By question: 1 where the first quote is gold, 1 where any is, how many are, how many there are."""

    first: Floats
    any: Floats
    right: Floats
    count: Floats

    @property
    def all(self) -> float:
        return float(self.right.sum() / self.count.sum())

    @property
    def goodness(self) -> float:
        return float(np.mean([self.first.mean(), self.any.mean(), self.all]))

    @property
    def told(self) -> str:
        parts = (self.first.mean(), self.all, self.any.mean())
        return f"{' / '.join(map(percent, parts))} ({self.count.mean():.1f})"


def quoted(own: Sequence[Quotable], form: Form) -> Quoted:
    gold = [one.gold[form(one)].astype(float) for one in own]
    return Quoted(
        np.array([each[0] for each in gold]),
        np.array([each.max() for each in gold]),
        np.array([each.sum() for each in gold]),
        np.array([float(len(each)) for each in gold]),
    )


# ---------------------------------------------------------------- the tables


def forms(sets: Mapping[str, Sequence[Quotable]]) -> list[str]:
    rows = [[name, *(quoted(own, form).told for own in sets.values())] for name, form in FORMS.items()]
    return table(("first / all / any (how many)", *sets), rows)


def left_out(sets: Mapping[str, Sequence[Quotable]]) -> list[str]:
    """For each set, the power and ratio that are best on the others."""
    grid = [(pair, [quoted(own, by(*pair)) for own in sets.values()]) for pair in GRID]
    rows = []
    for at, (name, own) in enumerate(sets.items()):
        (power, ratio), found = max(
            grid, key=lambda one: np.mean([each.goodness for place, each in enumerate(one[1]) if place != at])
        )
        rows.append([name, f"{power:g}, {ratio:g}", found[at].told, quoted(own, as_shipped).told])
    return table(("set", "power and ratio chosen on the others", "there", "as shipped"), rows)


def beside(sets: Mapping[str, Sequence[Quotable]]) -> list[str]:
    """The shipped form less that by words, in reading order as it was and best first."""
    rows = []
    for name, own in sets.items():
        shipped = quoted(own, as_shipped)
        for other in ("words, in reading order", "words, best first"):
            before = quoted(own, FORMS[other])
            both = (shipped.first - before.first, shipped.any - before.any)
            rows.append([name, other, *map(difference, both)])
    return table(("set", "as shipped less", "first", "any"), rows)


def difference(values: Floats) -> str:
    low, high = bootstrap_interval(values.tolist())
    return f"{100 * values.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-quotes-") as folder:
        place, sets = (options.keep or Path(folder)).resolve(), {}
        for name in options.sets:
            sets[name] = list(measured(name, index_of(name, place), options.questions))
            print(f"{name}: {len(sets[name])} questions", file=sys.stderr, flush=True)
    for block in (forms(sets), left_out(sets) if len(sets) > 1 else [], beside(sets)):
        print("\n".join(block), end="\n\n")


if __name__ == "__main__":
    main()
