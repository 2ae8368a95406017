"""Chunks to the sentence skeleton: NEXT and PREVIOUS, and PART_OF as columns.

Sentences come from the own text alone, so what overlap repeats is not made twice. Table rows,
captions and formulas are sentences of their own source, and so are those of the descriptions of
figures. Noise is left out by declared rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipelines.fingerprint import fingerprint
from pipelines.indexing.boundaries import ends_sentence, trimmed
from pipelines.indexing.places import line_boxes
from pipelines.ports import SentenceSplitter
from pipelines.records import (
    DESCRIPTION,
    Chunk,
    Element,
    FilteredSentence,
    ParsedDocument,
    Sentence,
    Span,
    StructuralChunk,
)

VERSION = 3
SOURCES = {
    "table-row": "table_row",
    "list-item": "list_item",
    "caption": "figure_caption",
    DESCRIPTION: "figure_description",
    "formula": "equation",
    "code": "paragraph",
    "paragraph": "paragraph",
    "clause": "paragraph",
}
_WHOLE = frozenset({"table-row", "caption", "formula", "code"})
_WRITTEN_OUT = frozenset({"table-row", DESCRIPTION})
"""Their text is not the body's: a stretch of it has the boxes of the whole."""
_FORM_LABEL = re.compile(r"[^.!?]{0,40}[_.…]{4,}\s*|[^\w]*|[\w\s]{1,30}:\s*")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class NoiseRules:
    """A sentence that breaks one of these is not made: too short, too few words, or a form label."""

    min_characters: int = 3
    min_words: int = 1
    min_confidence: float = 0.0
    form_labels: bool = True

    def broken(self, text: str, confidence: float) -> str | None:
        """The name of the first rule that the text breaks, or None."""
        if len(text) < self.min_characters:
            return "min_characters"
        if len(_WORD.findall(text)) < self.min_words:
            return "min_words"
        if self.form_labels and _FORM_LABEL.fullmatch(text):
            return "form_label"
        return "min_confidence" if confidence < self.min_confidence else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """One unit's text as it stands in one chunk."""

    chunk: Chunk
    unit: StructuralChunk
    offset: int
    text: str
    span: Span


def sentences(
    document: ParsedDocument,
    elements: Sequence[Element],
    units: Sequence[StructuralChunk],
    chunks: Sequence[Chunk],
    split: SentenceSplitter,
    rules: NoiseRules,
) -> tuple[list[Sentence], list[FilteredSentence]]:
    """Sentences of one document in reading order, and what the noise rules left out."""
    pieces = _pieces(units, chunks)
    prose = [piece.text for piece in pieces if piece.unit.block_type not in _WHOLE]
    spans = iter(split(prose, document.language))
    by_index = {element.index: element for element in elements}
    made: list[Sentence] = []
    dropped: list[FilteredSentence] = []
    seen: Counter[tuple[str, str]] = Counter()
    for piece in pieces:
        whole = piece.unit.block_type in _WHOLE
        element = by_index[piece.unit.element]
        for start, end in [(0, len(piece.text))] if whole else mended(piece.text, next(spans)):
            broken = rules.broken(piece.text[start:end], element.confidence)
            if broken:
                dropped.append(_filtered(piece, start, end, len(dropped), broken))
            else:
                made.append(_sentence(document, element, piece, start, end, len(made), seen))
    return linked(made), dropped


def _filtered(piece: _Piece, start: int, end: int, index: int, rule: str) -> FilteredSentence:
    chunk = piece.chunk
    text, at = piece.text[start:end], piece.offset + start
    return FilteredSentence(chunk.doc_id, index, chunk.chunk_id, at, end - start, text, rule)


def _pieces(units: Sequence[StructuralChunk], chunks: Sequence[Chunk]) -> list[_Piece]:
    by_index: Mapping[int, StructuralChunk] = {unit.index: unit for unit in units}
    pieces = []
    for chunk in chunks:
        for index, span, offset in zip(chunk.units, chunk.spans, chunk.offsets, strict=True):
            unit = by_index[index]
            length = len(unit.text) if unit.block_type in _WRITTEN_OUT else span.end - span.start
            pieces.append(_Piece(chunk, unit, offset, chunk.text[offset : offset + length], span))
    return pieces


def mended(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """A model's sentence spans without the ends that the rules know to be none: after an
    abbreviation, an initial or a clause number, and before a lower-case word."""
    cuts = []
    for (_, end), (start, _) in pairwise(spans):
        mark = end - 1
        while mark > 0 and text[mark] in "\"'”’»)]":
            mark -= 1
        if text[mark] in ".!?…" and not ends_sentence(text, mark, start):
            continue
        if text[mark].isalnum() and text[start].islower():
            continue
        cuts.append(end)
    return trimmed(text, cuts)


def _sentence(
    document: ParsedDocument,
    element: Element,
    piece: _Piece,
    start: int,
    end: int,
    index: int,
    seen: Counter[tuple[str, str]],
) -> Sentence:
    text, unit, chunk = piece.text[start:end], piece.unit, piece.chunk
    if unit.block_type == DESCRIPTION:
        boxes = chunk.boxes
    elif unit.block_type == "table-row":
        boxes = line_boxes(element.places, piece.span)
    else:
        boxes = line_boxes(element.places, Span(piece.span.start + start, piece.span.start + end))
    occurrence = seen[unit.section_id, text]
    seen[unit.section_id, text] += 1
    return Sentence(
        doc_id=document.doc_id,
        index=index,
        sentence_id=fingerprint("sentence", document.doc_id, unit.section_id, text, occurrence),
        text=text,
        source=SOURCES[unit.block_type],
        page=boxes[0].page if boxes else unit.page_start,
        boxes=boxes,
        confidence=element.confidence,
        chunk_id=chunk.chunk_id,
        start=piece.offset + start,
        length=end - start,
        paragraph_id=fingerprint("paragraph", document.doc_id, unit.section_id, unit.index),
        paragraph=unit.text,
        paragraph_start=piece.offset,
        paragraph_length=len(piece.text),
        paragraph_span=piece.span,
        section_id=unit.section_id,
        section_path=unit.header_chain,
        previous_id=None,
        next_id=None,
    )


def linked(made: Sequence[Sentence]) -> list[Sentence]:
    """The sentences with NEXT and PREVIOUS in reading order."""
    ids = [None, *(sentence.sentence_id for sentence in made), None]
    return [
        replace(sentence, previous_id=ids[position], next_id=ids[position + 2])
        for position, sentence in enumerate(made)
    ]
