"""Whether a hit is a gold place: one rule, whatever the gold states and whoever asks.

- Gold that names pages matches a hit with any of its own text on them. A label that may be off by one, or a
  passage that goes on to the next page, says so by `page_end`.
- Gold that is text alone matches a hit that shares a character with it, wherever in the document it stands.
- Gold that is a document alone matches any of its hits; text that could not be found matches none.

A hit's own text is its spans of the body: the paragraph's where the sentence route found one, without overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import GoldPlace, Pages
from pipelines.evaluation.metrics import Spans, touches
from pipelines.ports import Passage


@dataclass(frozen=True, slots=True)
class Shown:
    """What a hit or a citation shows: spans of a document's body, and {page: characters on it}."""

    doc_id: str
    spans: Spans
    pages: Mapping[int, int]


def shown_by(passage: Passage, document: DocumentMap | None) -> Shown:
    """A passage with its pages; where the map tells none, each page of its boxes, or else of its range,
    counts 1. `document` is the map of its document."""
    counts = document.characters_by_page(passage.spans) if document else {}
    if not counts:
        pages = {box.page for box in passage.boxes}
        if not pages and passage.page_start is not None:
            pages = set(range(passage.page_start, (passage.page_end or passage.page_start) + 1))
        counts = dict.fromkeys(pages, 1)
    return Shown(passage.doc_id, passage.spans, counts)


def shown_by_citation(citation: Mapping[str, Any], passage: Passage | None, document: DocumentMap) -> Shown:
    """A citation of the JSON of `ask`: where its quote stands, on its page where it names one; where the body
    has it in other words, as it has a row of a table, the whole passage that it is from."""
    page = citation["page"]
    found = document.occurrences(citation["quote"])
    here = [spans for spans in found if page is None or page in document.characters_by_page(spans)] or found
    spans = here[0] if here else passage.spans if passage else ()
    return Shown(document.doc_id, spans, {page: 1} if page is not None else document.characters_by_page(spans))


def predicted_page(shown: Shown) -> int | None:
    """The page that holds most of what is shown; the first of equals."""
    return min(shown.pages, key=lambda page: (-shown.pages[page], page)) if shown.pages else None


def by_page(place: GoldPlace) -> bool:
    """Whether pages decide: those that the file names, or those of gold without text."""
    return bool(place.pages) and (place.named_page or not place.spans)


def matches(shown: Shown, place: GoldPlace) -> bool:
    if place.doc_id != shown.doc_id:
        return False
    if by_page(place):
        return within(shown.pages, place.pages)
    if place.spans:
        return any(touches(shown.spans, spans) for spans in place.occurrences)
    return not place.lost


def in_chunks(place: GoldPlace, chunks: Iterable[Spans], document: DocumentMap) -> bool:
    """Whether a document's chunks hold the gold at all; its text where both page and text are known."""
    if place.spans:
        return any(touches(chunk, spans) for chunk in chunks for spans in place.occurrences)
    if place.pages:
        return within(document.characters_by_page(span for chunk in chunks for span in chunk), place.pages)
    return not place.lost and any(True for _ in chunks)


def within(pages: Iterable[int], wanted: Pages | None) -> bool:
    return wanted is not None and any(wanted[0] <= page <= wanted[1] for page in pages)


def gold_pages(place: GoldPlace, document: DocumentMap) -> list[Pages]:
    """First and last page of everywhere the gold may be meant to stand."""
    if place.named_page or not place.elsewhere:
        return [place.pages] if place.pages else []
    counts = [document.characters_by_page(spans) for spans in place.occurrences]
    return [(min(pages), max(pages)) for pages in counts if pages]


def answered_in_table(places: Sequence[GoldPlace], documents: Mapping[str, DocumentMap]) -> bool | None:
    """Whether the gold text stands in tables: more than half of its characters. None where no text is known."""
    inside = total = 0
    for place in places:
        document = documents.get(place.doc_id or "")
        if document is not None and place.spans:
            inside += document.characters_in_tables(place.spans)
            total += sum(end - start for start, end in place.spans)
    return 2 * inside > total if total else None
