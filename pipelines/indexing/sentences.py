"""The sentences of a document, and the noise rules that drop some of them.

Sentences come from a chunk's own text alone, so text repeated by overlap gives no second sentence. Table rows,
captions, code, formulas and descriptions of figures have their own value of `source`; a formula is one sentence with
the words that introduce it. Sentences hold their neighbours (NEXT and PREVIOUS) and their chunk (PART_OF) as columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipelines.fingerprint import fingerprint
from pipelines.indexing.boundaries import trimmed_spans
from pipelines.indexing.places import line_boxes
from pipelines.ports import SentenceSplitter
from pipelines.records import (
    DESCRIPTION,
    Box,
    Chunk,
    Element,
    FilteredSentence,
    ParsedDocument,
    Sentence,
    Span,
    StructuralChunk,
)

CODE = "code"
SOURCES = {
    "table-row": "table_row",
    "list-item": "list_item",
    "caption": "figure_caption",
    DESCRIPTION: "figure_description",
    "formula": "equation",
    "code": CODE,
    "paragraph": "paragraph",
    "clause": "paragraph",
}
LONGEST_PARAGRAPH = 20_000
"""Most characters of a paragraph that is stored whole with each of its sentences. For a longer one, only the part in
the sentence's chunk is stored."""
_WHOLE = frozenset({"table-row", "caption", "formula", "code"})
_WRITTEN_OUT = frozenset({"table-row", DESCRIPTION})
"""Block types whose text differs from the body's, so any part of it has the boxes of the whole."""
_INTRODUCING = frozenset({"paragraph", "list-item", "clause"})
_COMPLETE = re.compile(r"[.!?…][\"'”’»)\]]*$")
_FORM_LABEL = re.compile(
    # A label and a blank to fill in, once or more; or one to three words and a colon, the first with a capital.
    r"(?:[^.!?…_]{0,40}+(?:_{3,}+|\.{6,}+|…{3,}+|(?<=[:\s])(?:\.{4,}+|…{2})))++[\W_]*+"
    r"|(?=.{2,31}$)(?![a-zа-яґєії-])[\w’'/-]++(?: [\w’'/-]++){0,2} ?:"
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class NoiseRules:
    """The rules by which a sentence is dropped: too short, too few words, too little confidence, or a form label."""

    min_characters: int
    min_words: int
    min_confidence: float
    form_labels: bool

    def broken_rule(self, text: str, confidence: float) -> str | None:
        """Return the name of the first rule that the text breaks, or None."""
        if len(text) < self.min_characters:
            return "min_characters"
        if len(_WORD.findall(text)) < self.min_words:
            return "min_words"
        if self.form_labels and _FORM_LABEL.fullmatch(text):
            return "form_label"
        return "min_confidence" if confidence < self.min_confidence else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """The text of one unit within one chunk; for a formula, together with the paragraph that introduces it."""

    chunk: Chunk
    unit: StructuralChunk
    offset: int
    text: str
    span: Span
    joined: tuple[_Piece, ...] = ()

    @property
    def parts(self) -> tuple[_Piece, ...]:
        return self.joined or (self,)


_Found = tuple[_Piece, int, int]
"""A piece, and a sentence's start and end in its text."""


def sentences(
    document: ParsedDocument,
    elements: Sequence[Element],
    units: Sequence[StructuralChunk],
    chunks: Sequence[Chunk],
    split: SentenceSplitter,
    rules: NoiseRules,
) -> tuple[list[Sentence], list[FilteredSentence]]:
    """Return the sentences of one document in reading order, and those that the noise rules dropped."""
    pieces = _pieces(units, chunks)
    prose = [piece.text for piece in pieces if piece.unit.block_type not in _WHOLE]
    spans = iter(split(prose, document.language))
    by_index = {element.index: element for element in elements}
    made: list[Sentence] = []
    dropped: list[FilteredSentence] = []
    seen: Counter[tuple[str, str]] = Counter()
    for piece, start, end in _join_formulas(_divide(pieces, spans)):
        confidence = min(by_index[part.unit.element].confidence for part in piece.parts)
        broken = rules.broken_rule(piece.text[start:end], confidence)
        if broken:
            dropped.append(_filtered_sentence(piece, start, end, len(dropped), broken))
        else:
            boxes = _boxes(by_index, piece, start, end)
            made.append(_sentence(document, piece, start, end, len(made), seen, boxes, confidence))
    return link_in_order(made), dropped


def _pieces(units: Sequence[StructuralChunk], chunks: Sequence[Chunk]) -> list[_Piece]:
    by_index: Mapping[int, StructuralChunk] = {unit.index: unit for unit in units}
    pieces = []
    for chunk in chunks:
        for index, span, offset in zip(chunk.units, chunk.spans, chunk.offsets, strict=True):
            unit = by_index[index]
            length = len(unit.text) if unit.block_type in _WRITTEN_OUT else span.end - span.start
            pieces.append(_Piece(chunk, unit, offset, chunk.text[offset : offset + length], span))
    return pieces


def _divide(pieces: Iterable[_Piece], spans: Iterator[Sequence[tuple[int, int]]]) -> Iterator[_Found]:
    for piece in pieces:
        whole = piece.unit.block_type in _WHOLE
        for start, end in trimmed_spans(piece.text, ()) if whole else next(spans):
            yield piece, start, end


def _join_formulas(found: Iterable[_Found]) -> list[_Found]:
    """Join each formula to the sentence before it in its chunk, if that sentence has no end mark."""
    joined: list[_Found] = []
    for piece, start, end in found:
        if piece.unit.block_type == "formula" and joined and _introduces(joined[-1], piece):
            words, start, _ = joined.pop()
            piece = _both(words, piece)
            end = len(piece.text)
        joined.append((piece, start, end))
    return joined


def _introduces(found: _Found, formula: _Piece) -> bool:
    piece, start, end = found
    between = piece.chunk.text[piece.offset + end : formula.offset]
    return (
        piece.chunk is formula.chunk
        and piece.unit.block_type in _INTRODUCING
        and not between.strip()
        and not _COMPLETE.search(piece.text, start, end)
    )


def _both(words: _Piece, formula: _Piece) -> _Piece:
    text = words.chunk.text[words.offset : formula.offset + len(formula.text)]
    span = Span(words.span.start, formula.span.end)
    return replace(formula, offset=words.offset, text=text, span=span, joined=(words, formula))


def _filtered_sentence(piece: _Piece, start: int, end: int, index: int, rule: str) -> FilteredSentence:
    chunk = piece.chunk
    text, at = piece.text[start:end], piece.offset + start
    return FilteredSentence(chunk.doc_id, index, chunk.chunk_id, at, end - start, text, rule)


def _boxes(elements: Mapping[int, Element], piece: _Piece, start: int, end: int) -> tuple[Box, ...]:
    if piece.unit.block_type == DESCRIPTION:
        return piece.chunk.boxes
    if piece.unit.block_type == "table-row":
        return line_boxes(elements[piece.unit.element].places, piece.span)
    start, end = piece.span.start + start, piece.span.start + end
    return tuple(
        box
        for part in piece.parts
        for box in line_boxes(
            elements[part.unit.element].places, Span(max(start, part.span.start), min(end, part.span.end))
        )
    )


def _sentence(
    document: ParsedDocument,
    piece: _Piece,
    start: int,
    end: int,
    index: int,
    seen: Counter[tuple[str, str]],
    boxes: tuple[Box, ...],
    confidence: float,
) -> Sentence:
    text, unit, chunk = piece.text[start:end], piece.unit, piece.chunk
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
        confidence=confidence,
        chunk_id=chunk.chunk_id,
        start=piece.offset + start,
        length=end - start,
        paragraph_id=fingerprint("paragraph", document.doc_id, unit.section_id, unit.index),
        paragraph=unit.text if len(piece.parts) == 1 and len(unit.text) <= LONGEST_PARAGRAPH else piece.text,
        paragraph_start=piece.offset,
        paragraph_length=len(piece.text),
        paragraph_span=piece.span,
        section_id=unit.section_id,
        section_path=unit.header_chain,
        previous_id=None,
        next_id=None,
        lead=unit.corner or "",
    )


def link_in_order(made: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with NEXT and PREVIOUS set in reading order."""
    ids = [None, *(sentence.sentence_id for sentence in made), None]
    return [
        replace(sentence, previous_id=ids[position], next_id=ids[position + 2])
        for position, sentence in enumerate(made)
    ]
