"""Plain BM25 over the text that pincite has parsed, as a row beside its own: a hundred lines that anybody could write.

A unit is a page, or a window of 220 words. Its words are lower case letters and digits, cut to six letters (k1 1.2,
b 0.75), as in ../shared/tools/baselines.py. Units are judged by the set's own rule, as passages of pincite are.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.datasets import Dataset
from benchmarks.support.published import BASELINE, Figures
from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import GoldenQuestion
from pipelines.evaluation.judging import ask_all, run_json
from pipelines.ports import Passage
from pipelines.query.results import Hit
from pipelines.query.wording import Question
from pipelines.settings.query import MEASURED_HITS
from resources.evaluation.golden import Examination

WINDOW = 220
LETTERS = 6
K1, B = 1.2, 0.75
SOURCE = "benchmarks/support/plain_bm25.py, by the same run"
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    return [word[:LETTERS] for word in _WORD.findall(text.lower())]


class Bm25:
    """The units of a corpus by their words; every word has its idf in them."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for unit, text in enumerate(texts):
            for word, count in Counter(text).items():
                found[word].append((unit, count))
        lengths = np.array([len(text) for text in texts], np.float64)
        norm = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if len(texts) else lengths
        self._size, self._postings = len(texts), {}
        for word, pairs in found.items():
            units, counts = np.array(pairs).T
            idf = math.log1p((len(texts) - len(units) + 0.5) / (len(units) + 0.5))
            self._postings[word] = units, idf * counts * (K1 + 1) / (counts + norm[units])

    def best(self, question: str, k: int) -> list[tuple[int, float]]:
        """The k units of highest score, ties in the order of the corpus."""
        total: NDArray[np.float64] = np.zeros(self._size)
        for word in set(words(question)) & self._postings.keys():
            units, weights = self._postings[word]
            total[units] += weights
        order = np.argsort(-total, kind="stable")[:k]
        return [(int(unit), float(total[unit])) for unit in order if total[unit] > 0]


def pages_of(document: DocumentMap) -> Iterator[tuple[int, int]]:
    """The span of the body from the first to the last character of each page; none where a format has no pages."""
    spans: dict[int, tuple[int, int]] = {}
    for start, end, page in document.page_spans():
        first, last = spans.get(page, (start, end))
        spans[page] = min(first, start), max(last, end)
    yield from (spans[page] for page in sorted(spans))


def windows_of(document: DocumentMap) -> Iterator[tuple[int, int]]:
    """The spans of WINDOW words each."""
    found = [match.span() for match in _WORD.finditer(document.body)]
    for at in range(0, len(found), WINDOW):
        part = found[at : at + WINDOW]
        yield part[0][0], part[-1][1]


UNITS: Mapping[str, Callable[[DocumentMap], Iterator[tuple[int, int]]]] = {"pages": pages_of, "windows": windows_of}


def plain_rows(exam: Examination, dataset: Dataset, k: int = MEASURED_HITS) -> list[Figures]:
    """A row for pages, where the corpus has any, and one for windows, scored by the set's own rule."""
    documents = [exam.corpus.documents[doc_id] for doc_id in sorted(exam.corpus.documents)]
    rows = []
    for name, units in UNITS.items():
        passages = [_passage(each, span) for each in documents for span in units(each)]
        if passages:
            scores = _scores(passages, exam, dataset, k)
            values = {metric: 100 * value for metric, value in scores.items() if value is not None}
            rows.append(Figures(BASELINE, f"plain BM25 over {name} of our text", values, SOURCE))
    return rows


def _scores(passages: Sequence[Passage], exam: Examination, dataset: Dataset, k: int) -> Mapping[str, float | None]:
    index = Bm25([words(passage.text) for passage in passages])

    def hits(question: str, most: int) -> list[Hit]:
        best = enumerate(index.best(question, most), start=1)
        return [Hit(rank, score, {"plain": score}, passages[unit]) for rank, (unit, score) in best]

    if dataset.scores is not None:

        def query(text: str, k: int) -> dict[str, Any]:
            return {"hits": [{"uri": hit.passage.uri} for hit in hits(text, k)]}

        return dataset.scores(query, list(dataset.golden(dataset.folder)))

    def search(question: Question, most: int, golden: GoldenQuestion) -> list[Hit]:
        assert not golden.filters, "plain BM25 searches everything"
        return hits(question.words, most)

    options = dataset.evaluation.get("with_options", "none")
    outcomes = ask_all(exam.questions, search, exam.corpus, perf_counter, k=k, options=options)
    found: Mapping[str, float | None] = run_json(outcomes, (), name="plain", strategy="lexical", rerank=())["metrics"]
    return found


def _passage(document: DocumentMap, span: tuple[int, int]) -> Passage:
    text = document.body[slice(*span)]
    return Passage(
        chunk_id=f"{document.doc_id} {span[0]}", doc_id=document.doc_id, index=0, source=document.source,
        uri=document.uri, title=document.uri, effective_date=None, family="", section_id="", header_chain=(),
        block_types=("paragraph",), text=text, overlap="", context="", page_start=None, page_end=None, boxes=(),
        spans=(span,), previous_id=None, next_id=None,
    )  # fmt: skip
