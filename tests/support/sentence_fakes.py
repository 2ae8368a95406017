"""Sentences, their edges and paragraphs in memory, as the sentence route asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.ports import Candidate, Filters, FoundSentence, Paragraph, ParagraphKey, ReachedSentence, Terms
from pipelines.records import Box
from pipelines.terms import terms_of
from tests.support.query_fakes import Unasked, passage

BOX = Box(3, 1, 2, 3, 4)


def sentence(sentence_id: str, score: float = 0.5, **values: Any) -> FoundSentence:
    """In a document, chunk and paragraph of its own, unless told otherwise."""
    plain = FoundSentence(
        sentence_id, f"d-{sentence_id}", 0, f"c-{sentence_id}", f"p-{sentence_id}", f"text {sentence_id}",
        "paragraph", 3, True, score,
    )  # fmt: skip
    return replace(plain, **values)


@dataclass
class SentenceIndex(Unasked):
    """`links` are of (sentence, sentence): similarity. Sentences are found in the order given, so that what is
    asked sorts them; `confidence` is 1 where it is not told; `hidden` documents are seen by nobody."""

    known: Sequence[FoundSentence]
    links: Mapping[tuple[str, str], float] = field(default_factory=dict)
    confidence: Mapping[str, float] = field(default_factory=dict)
    bm25: Mapping[str, float] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    depths: list[int] = field(default_factory=list)

    def _seen(self, least: float) -> list[FoundSentence]:
        return [
            item
            for item in self.known
            if item.doc_id not in self.hidden and self.confidence.get(item.sentence_id, 1.0) >= least
        ]

    def sentences(self, vector: Sequence[float], k: int, filters: Filters, least: float) -> list[FoundSentence]:
        self.depths.append(k)
        return sorted(self._seen(least), key=lambda item: (-item.score, item.sentence_id))[:k]

    def sentences_of(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters, least: float
    ) -> list[FoundSentence]:
        return [item for item in self._seen(least) if item.chunk_id in chunk_ids]

    def expand(
        self, sentence_ids: Sequence[str], steps: int, vector: Sequence[float], filters: Filters, least: float
    ) -> list[ReachedSentence]:
        seen = self._seen(least)
        by_id = {item.sentence_id: item for item in seen}
        found = []
        for anchor in (by_id[sentence_id] for sentence_id in sentence_ids):
            via = anchor.sentence_id
            found += [ReachedSentence(item, "anchor", via, 0, None) for item in seen if item.place == anchor.place]
            for item in seen:
                away = item.index - anchor.index
                if item.doc_id == anchor.doc_id and 0 < abs(away) <= steps:
                    found.append(ReachedSentence(item, "next" if away > 0 else "previous", via, abs(away), None))
            for (source, target), similarity in self.links.items():
                if source == via and target in by_id:
                    found.append(ReachedSentence(by_id[target], "related", via, 0, similarity))
        return found

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        ranked = sorted(self.bm25.items(), key=lambda item: (-item[1], item[0]))
        return [Candidate(chunk_id, score) for chunk_id, score in ranked[:k]]

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        counts = {term: sum(term in terms_of(item.text) for item in self.known) for term in terms}
        return {term: count for term, count in counts.items() if count}, len(self.known)

    def paragraphs(self, keys: Sequence[ParagraphKey], filters: Filters) -> dict[ParagraphKey, Paragraph]:
        found = {}
        for key in keys:
            own = sorted((item for item in self.known if item.place == key), key=lambda item: item.index)
            text = " ".join(item.text for item in own)
            pages = [item.page for item in own if item.page is not None]
            made = passage(
                key[0], doc_id=own[0].doc_id, text=text, title="", header_chain=(), index=own[0].index,
                page_start=min(pages, default=None), page_end=max(pages, default=None),
            )  # fmt: skip
            found[key] = Paragraph(made, {item.sentence_id: (BOX,) for item in own})
        return found

    def newest_date(self) -> str | None:
        return None
