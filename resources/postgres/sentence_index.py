"""Sentences of one generation: the nearest ones, what their edges lead to, and the paragraphs that they stand in.

As with chunks, a filter never costs hits, and groups hold at every step: an edge to a document that the asker may
not see leads nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipelines.ports import Filters, FoundSentence, Paragraph, ParagraphKey, Passage, ReachedSentence
from pipelines.records import Box
from resources.postgres.search_base import EF_SEARCH_WIDTH, WALK_WIDTH, GenerationSearch, storable
from resources.postgres.statements import query

EXACT_SENTENCES = 5_000
"""Up to so many matching sentences are compared one by one."""
BLOCK_TYPES = {
    "table_row": ("table-row",),
    "list_item": ("list-item",),
    "figure_caption": ("caption",),
    "figure_description": ("figure-description",),
    "equation": ("formula",),
    "paragraph": ("paragraph", "clause"),
    "code": ("code",),
}
"""Of a sentence's source, which of its chunk's block types it may come from."""


class SentenceSearch(GenerationSearch):
    # ------------------------------------------------------------ sentences

    def sentences(self, vector: Sequence[float], k: int, filters: Filters, least: float) -> list[FoundSentence]:
        """As of SearchIndex. Raises ModelError as `dense` does."""
        if self._exact or self.few_sentences(k, filters, least):
            return self.compared_sentences(vector, k, filters, least)
        self.tune(least_ef_search=EF_SEARCH_WIDTH * k)
        found = self.walked_sentences(vector, k, filters, least)
        return found if len(found) == k else self.compared_sentences(vector, k, filters, least)

    def compared_sentences(
        self, vector: Sequence[float], k: int, filters: Filters, least: float = 0.0
    ) -> list[FoundSentence]:
        """`sentences` by comparing every one that matches."""
        parameters = self._parameters(filters, vector=self._checked(vector), k=k, least_confidence=least)
        return _found(self._rows(self._named("nearest_sentences_exactly"), parameters))

    def walked_sentences(
        self, vector: Sequence[float], k: int, filters: Filters, least: float = 0.0
    ) -> list[FoundSentence]:
        """`sentences` by a walk through the vector index alone, which may end before it has found k."""
        # Few sentences, if any, are of little confidence: no filter that a walk must be wide for.
        wide = k if self._all_match(filters) else WALK_WIDTH * k
        parameters = self._parameters(filters, vector=self._checked(vector), k=k, wide=wide, least_confidence=least)
        return _found(self._rows(self._named("nearest_sentences"), parameters))

    def few_sentences(self, k: int, filters: Filters, least: float = 0.0) -> bool:
        """Whether so few sentences match that `sentences` compares them all."""
        most = max(EXACT_SENTENCES, k)
        if self._all_match(filters) and self.generation.statistics.get("chunks", 0) > most:
            return False
        return self._at_most(most, "count_sentences", filters, least_confidence=least)

    def sentences_of(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters, least: float
    ) -> list[FoundSentence]:
        parameters = self._parameters(
            filters, vector=self._checked(vector), chunk_ids=storable(chunk_ids), least_confidence=least
        )
        return _found(self._rows(self._named("sentences_of_chunks"), parameters))

    def expanded(
        self, sentence_ids: Sequence[str], steps: int, vector: Sequence[float], filters: Filters, least: float
    ) -> list[ReachedSentence]:
        parameters = self._parameters(
            filters, vector=self._checked(vector), anchors=storable(sentence_ids), steps=steps, least_confidence=least
        )
        rows = self._rows(self._named("expanded_sentences"), parameters)
        return [ReachedSentence(FoundSentence(*row[:-4]), *row[-4:]) for row in rows]

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        statement = query("search_chunks", "documents_of", schema=self._schema)
        known = dict(self._rows(statement, {"terms": storable(terms)}))
        return known, int(self.generation.statistics.get("chunks", 0))

    # ------------------------------------------------------------ paragraphs

    def paragraphs(self, keys: Sequence[ParagraphKey], filters: Filters) -> dict[ParagraphKey, Paragraph]:
        chunks = self.passages(list(dict.fromkeys(chunk_id for chunk_id, _ in keys)), filters)
        parameters = {
            "chunk_ids": storable(chunk_id for chunk_id, _ in keys),
            "paragraph_ids": storable(paragraph_id for _, paragraph_id in keys),
        }
        members: dict[ParagraphKey, list[Any]] = {}
        for chunk_id, paragraph_id, *member in self._rows(self._named("sentences_of_paragraphs"), parameters):
            members.setdefault((chunk_id, paragraph_id), []).append(member)
        return {key: _paragraph(chunks[key[0]], key, own) for key, own in members.items() if key[0] in chunks}


def _found(rows: Sequence[tuple[Any, ...]]) -> list[FoundSentence]:
    return [FoundSentence(*row) for row in rows]


def _paragraph(chunk: Passage, key: ParagraphKey, members: Sequence[Any]) -> Paragraph:
    """A part of the chunk, of what its sentences say of it; the whole chunk where they do not say."""
    boxes = {sentence_id: tuple(Box(**box) for box in found) for sentence_id, _, _, found, *_ in members}
    if not key[1]:
        return Paragraph(chunk, boxes)
    _, _, _, _, start, length, first, last, lead = members[0]
    of_types = {name for _, source, *_ in members for name in BLOCK_TYPES.get(source, ())}
    pages = [page for _, _, page, *_ in members if page is not None]
    pages += [box.page for found in boxes.values() for box in found]
    passage = replace(
        chunk,
        text=chunk.text[start : start + length],
        overlap=lead,
        block_types=tuple(name for name in chunk.block_types if name in of_types) or chunk.block_types,
        page_start=min(pages, default=None),
        page_end=max(pages, default=None),
        boxes=tuple(dict.fromkeys(box for found in boxes.values() for box in found)),
        spans=((first, last),) if first is not None else (),
    )
    return Paragraph(passage, boxes)
