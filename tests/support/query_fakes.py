"""Passages for tests of the query side; a keyword for whatever a test cares about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.ports import (
    Candidate,
    DocumentTerms,
    Filters,
    FoundAbbreviation,
    FoundSentence,
    Paragraph,
    ParagraphKey,
    Passage,
    ReachedSentence,
    Terms,
)
from pipelines.query.results import Hit, Scored

_PLAIN = Passage(
    chunk_id="c",
    doc_id="d",
    index=0,
    source="s",
    uri="d.pdf",
    title="D",
    effective_date=None,
    family="d",
    section_id="x",
    header_chain=("D",),
    block_types=("paragraph",),
    text="",
    overlap="",
    context="",
    page_start=None,
    page_end=None,
    boxes=(),
    spans=(),
    previous_id=None,
    next_id=None,
)


def passage(chunk_id: str, **values: Any) -> Passage:
    return replace(_PLAIN, chunk_id=chunk_id, **{"text": f"own text of {chunk_id}", **values})


def scored(chunk_id: str, score: float, **values: Any) -> Scored:
    return Scored(passage(chunk_id, **values), score, {"dense": score})


def hit(rank: int, chunk_id: str, **values: Any) -> Hit:
    return Hit(rank, 1.0 / rank, {}, passage(chunk_id, **values))


class Unasked:
    """Implements ports.SearchIndex for a test that asks a part of it: the other parts are not to be asked."""

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        raise AssertionError("not to be asked for chunks by their vectors")

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        raise AssertionError("not to be asked for chunks by their terms")

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        raise AssertionError("not to be asked for cosines of chunks")

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        raise AssertionError("not to be asked for cosines of sentences")

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        raise AssertionError("not to be asked for scores by terms")

    def surrounding_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        raise AssertionError("not to be asked for scores of surroundings")

    def document_terms(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> list[DocumentTerms]:
        raise AssertionError("not to be asked for terms of documents")

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        raise AssertionError("not to be asked for passages")

    def newest_date(self) -> str | None:
        raise AssertionError("not to be asked for dates")

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        raise AssertionError("not to be asked for frequencies")

    @property
    def keeps_names(self) -> bool:
        raise AssertionError("not to be asked whether names are kept")

    def bearers(self, names: Collection[str], filters: Filters) -> tuple[dict[str, int], int]:
        raise AssertionError("not to be asked who bears names")

    def named_documents(self, names: Mapping[str, float], k: int, filters: Filters) -> dict[str, float]:
        raise AssertionError("not to be asked for documents by their names")

    def abbreviations(self, keys: Collection[str], filters: Filters) -> list[FoundAbbreviation]:
        return []  # every question asks for them

    def documents_of(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, str]:
        raise AssertionError("not to be asked for documents of chunks")

    def sentences(self, vector: Sequence[float], k: int, filters: Filters, least: float) -> list[FoundSentence]:
        raise AssertionError("not to be asked for sentences")

    def sentences_of(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters, least: float
    ) -> list[FoundSentence]:
        raise AssertionError("not to be asked for sentences of chunks")

    def expand(
        self, sentence_ids: Sequence[str], steps: int, vector: Sequence[float], filters: Filters, least: float
    ) -> list[ReachedSentence]:
        raise AssertionError("not to be asked for edges")

    def paragraphs(self, keys: Sequence[ParagraphKey], filters: Filters) -> dict[ParagraphKey, Paragraph]:
        raise AssertionError("not to be asked for paragraphs")


class Unmeasured(Unasked):
    """Tells nothing more of chunks that were found: all measure alike, and no document has a name."""

    @property
    def keeps_names(self) -> bool:
        return True

    def bearers(self, names: Collection[str], filters: Filters) -> tuple[dict[str, int], int]:
        return {}, 0

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        return dict.fromkeys(chunk_ids, 0.0)

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        return dict.fromkeys(chunk_ids, 0.0)

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        return {}

    def document_terms(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> list[DocumentTerms]:
        return []
