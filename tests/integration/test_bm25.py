"""Lexical search against a reference implementation of BM25, bm25s, on real documents.

Both get the same terms of the same chunks: ours through the parser, the packer, the postings that the
pipeline writes and the statement that the search runs; the reference in memory, in double precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import bm25s
import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.support.datasets import DATASETS, Dataset
from pipelines.fingerprint import document_id
from pipelines.indexing.indexed_documents import chunk_terms, document_facts
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.parsing.elements import build_elements
from pipelines.ports import Filters
from pipelines.records import Chunk, RawDocument
from pipelines.terms import terms_of
from resources.documents.tasks import parsed_file
from resources.models.text_models import detect_language
from resources.parsers.registry import MEDIA_TYPES
from resources.postgres.catalog import Catalog, GenerationRow
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.index_rows import IndexedDocument
from resources.postgres.postings import K1, B
from resources.postgres.search_index import search_index
from tests.support.builders import CLAUSE_TOKENS
from tests.support.places import require_data

pytestmark = pytest.mark.integration

BUCKETS = 4
MOST_QUESTIONS = 60
TIE = 1e-5
"""Scores that differ by less than this share are equal: the stored weights are in single precision."""


@dataclass(frozen=True)
class Corpus:
    """Chunks in one order with their terms, and the same as documents of the search tables."""

    documents: list[IndexedDocument]
    chunk_ids: list[str]
    terms: list[list[str]]
    questions: list[str]


@cache
def corpus(name: str) -> Corpus:
    chosen = DATASETS[name]
    require_data(chosen.folder)
    terms: dict[str, list[str]] = {}
    documents = [_document(name, chosen, path, terms) for path in _files(chosen)]
    questions = [_asked(golden) for golden in chosen.golden(chosen.folder)]
    step = -(-len(questions) // MOST_QUESTIONS)
    return Corpus(documents, list(terms), list(terms.values()), questions[::step])


def _files(chosen: Dataset) -> list[Path]:
    folder = chosen.folder / chosen.documents
    found = {path for pattern in chosen.include for path in folder.glob(pattern)}
    return sorted(path for path in found if path.suffix in MEDIA_TYPES)


def _asked(golden: dict) -> str:
    return "\n".join([golden["question"], *golden.get("options", {}).values()])


def _document(name: str, chosen: Dataset, path: Path, all_terms: dict[str, list[str]]) -> IndexedDocument:
    uri = str(path.relative_to(chosen.folder))
    raw = RawDocument(
        document_id(name, uri), name, uri, "", path.stat().st_size, MEDIA_TYPES[path.suffix], None, None, None, None,
        (), {},
    )  # fmt: skip
    parsed, elements = build_elements(raw, parsed_file(raw, path), detect_language)
    packed = packed_chunks(structural_chunks(parsed, elements, CLAUSE_TOKENS), elements, 320, 512)
    chunks = [Chunk(**{field: getattr(item, field) for field in item.__slots__}, has_overlap=False, overlap="",
                    overlap_spans=()) for item in packed]  # fmt: skip
    own = {chunk.chunk_id: chunk_terms(chunk, parsed.title) for chunk in chunks}
    all_terms.update(own)
    return IndexedDocument(
        raw=raw, parsed=parsed, facts=document_facts(raw, parsed), summary="", stale=False, row_hash="", chunks=chunks,
        contexts={}, terms={chunk_id: Counter(terms) for chunk_id, terms in own.items()},
        vectors={chunk_id: np.ones(1, np.float32) for chunk_id in own}, sentences=[], sentence_vectors={},
    )  # fmt: skip


def indexed(database: Database, name: str, made: Corpus) -> GenerationRow:
    """The corpus as the pipeline writes it: statistics frozen, then bucket by bucket, some of them twice."""
    statistics = {"chunks": len(made.terms), "average_terms": sum(map(len, made.terms)) / len(made.terms)}
    tables = GenerationTables(database, Catalog(database).create_generation(name, {}, {}, 1, statistics, {}))
    tables.freeze_terms({(): Counter(term for terms in made.terms for term in set(terms))})
    for bucket in range(BUCKETS):
        mine = made.documents[bucket::BUCKETS]
        tables.replace(bucket, mine)
        tables.replace(bucket, mine[:1], [document.raw.doc_id for document in mine[:1]])
    return tables.generation


@pytest.fixture(scope="module", params=["chunking-evaluation", "library"])
def compared(request: pytest.FixtureRequest, module_database: Database) -> Iterator[tuple[Corpus, np.ndarray, list]]:
    """A corpus; the reference's scores, shape (questions, chunks); ours, all that were found by question."""
    made = corpus(request.param)
    generation = indexed(module_database, request.param, made)
    reference = bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float64")
    reference.index(made.terms, show_progress=False)
    asked = [terms_of(question) for question in made.questions]
    # The reference leaves out the factor k1 + 1, which is the same for all.
    scores = np.array([(K1 + 1) * reference.get_scores(terms) for terms in asked])
    with module_database.connect() as connection, search_index(connection, generation.generation) as index:
        everyone = Filters(groups=tuple({group for item in made.documents for group in item.facts.groups}))
        yield made, scores, [index.lexical(terms, len(made.terms), everyone) for terms in asked]


def test_scores_and_ranking_are_those_of_the_reference(
    compared: tuple[Corpus, np.ndarray, list], record_property: Callable[[str, float], None]
) -> None:
    made, scores, found = compared
    places = {chunk_id: place for place, chunk_id in enumerate(made.chunk_ids)}
    same_top, correlations = [], []
    for expected, candidates in zip(scores, found, strict=True):
        assert len(candidates) == (expected > 0).sum()
        own = np.zeros(len(expected))
        own[[places[item.chunk_id] for item in candidates]] = [item.score for item in candidates]
        np.testing.assert_allclose(own, expected, rtol=TIE)
        tenth = np.sort(expected)[::-1][:10][-1]
        sure = {made.chunk_ids[place] for place in np.flatnonzero(expected > tenth * (1 + TIE))}
        possible = {made.chunk_ids[place] for place in np.flatnonzero(expected >= tenth * (1 - TIE))}
        top = {item.chunk_id for item in candidates[:10]}
        same_top.append(sure <= top <= possible)
        correlations.append(spearmanr(own, expected).statistic)
    record_property("questions with the same first ten", float(np.mean(same_top)))
    record_property("least rank correlation", float(min(correlations)))
    assert all(same_top)
    assert min(correlations) > 0.9999
