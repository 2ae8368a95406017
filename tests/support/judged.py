"""A small corpus of two documents, hits of its chunks, and questions with gold in it."""

from __future__ import annotations

from typing import Any

from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import Gold, GoldenQuestion, MappedQuestion, map_questions
from pipelines.evaluation.judging import Corpus
from pipelines.query.results import Hit
from pipelines.records import Box, Place
from tests.support.query_fakes import hit

BODY = "a" * 100 + "b" * 100 + "c" * 100
PAGED = DocumentMap(
    "d", "s", "d.pdf", BODY, 3, [Place(n * 100, n * 100 + 100, Box(n + 1, 0, 0, 9, 9)) for n in range(3)]
)
OTHER = DocumentMap("o", "s", "o.pdf", "x" * 50, 1, [Place(0, 50, Box(1, 0, 0, 9, 9))])
CHUNKS = {"d": [[(0, 90)], [(90, 150)], [(150, 290)]], "o": [[(0, 50)]]}
CORPUS = Corpus({"d": PAGED, "o": OTHER}, CHUNKS)


def chunk(rank: int, doc_id: str, number: int) -> Hit:
    return hit(rank, f"{doc_id}{number}", doc_id=doc_id, spans=tuple(CHUNKS[doc_id][number]))


def mapped(*gold: Gold, **values: Any) -> MappedQuestion:
    question = GoldenQuestion("1", "What?", gold, **values)
    return map_questions([question], CORPUS.documents.values())[0][0]
