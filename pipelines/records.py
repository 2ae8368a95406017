"""The records that pass between stages, and the table that holds each kind.

Records are frozen and plain, and come in reading order. Spans are half-open character ranges of the document's body.
Boxes are PDF points from the top left of a page. Pages are 1-based, and None if a format has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# ---------------------------------------------------------------- places


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Box:
    page: int
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Stop:
    """A point in a line at which a sentence may end. `at` is the offset of the text after it, in the place's own text.
    `x_end` is the right edge of the character before, `x_start` the left edge of the one after."""

    at: int
    x_end: float
    x_start: float


@dataclass(frozen=True, slots=True)
class Place:
    """The place in the source of a stretch of the body: a page and box, offsets of the decoded
    source text, or a locator such as `Sheet1!A2:C2` or `slide 3`. `stops` are in order."""

    start: int
    end: int
    box: Box | None = None
    source_start: int | None = None
    source_end: int | None = None
    locator: str | None = None
    stops: tuple[Stop, ...] = ()


# ---------------------------------------------------------------- results of parsers


UNKNOWN_LANGUAGE = "und"
"""The code of the language of a document if the file declares none, and its prose is too short to detect one."""


@dataclass(frozen=True, slots=True)
class TextRun:
    """A stretch of source text in one place: a line of a page, a block of a text file.

    `text` is the source's own, uncleaned. Successive runs of a block are lines, with a space between them if their
    script has spaces (pipelines/parsing/joining.py); they are joined directly if `joined` is true (a word divided at
    the end of the line; the hyphen is already removed if it was only a line-end hyphen). `gaps` are the
    (x_end, x_start) of the places in the line at which a sentence may end, from left to right."""

    text: str
    box: Box | None = None
    source_start: int | None = None
    source_end: int | None = None
    locator: str | None = None
    joined: bool = False
    gaps: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class BlockCell:
    row: int
    column: int
    runs: tuple[TextRun, ...]
    row_span: int = 1
    column_span: int = 1
    header: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One block in reading order as a parser found it. `kind` is like Element.kind. A table has
    `cells` and no runs. `level` is 1-based: a heading's level, or the nesting of a list item."""

    kind: str
    runs: tuple[TextRun, ...] = ()
    level: int | None = None
    marker: str | None = None
    cells: tuple[BlockCell, ...] = ()
    confidence: float = 1.0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The result of a parser for one file: blocks, and the file's own properties.

    `properties` uses the keys title, effective_date (ISO), version, groups (comma-separated),
    language; other keys are free metadata."""

    blocks: tuple[Block, ...]
    properties: dict[str, str] = field(default_factory=dict)
    pages: int | None = None
    warnings: tuple[str, ...] = ()
    origin: str = ""


# ---------------------------------------------------------------- tables, stage by stage


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One listed file. `groups` (including principals) and `metadata` come from the side-car, not from the file.

    `source_groups` apply if neither the side-car nor the file names groups. They also apply if `groups` is empty rather
    than None: in a source where untrusted people choose names, groups named in a file are ignored.
    """

    doc_id: str
    source: str
    uri: str
    content_hash: str
    size: int
    media_type: str
    title: str | None
    effective_date: str | None
    version: str | None
    groups: tuple[str, ...] | None
    source_groups: tuple[str, ...]
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The document as parsed: its body, and the properties that the file itself gives."""

    doc_id: str
    title: str
    title_is_file_name: bool
    language: str
    body: str
    pages: int | None
    effective_date: str | None
    version: str | None
    groups: tuple[str, ...] | None
    metadata: dict[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    row: int
    column: int
    row_span: int
    column_span: int
    header: bool
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Element:
    """A block in reading order. kind: heading, paragraph, list_item, table, caption, formula,
    code, key_value, footnote, quote, figure, page_header, page_footer, break. Page headers and footers
    are not part of the body: their span is empty. For all others `text == body[start:end]`. A figure
    mostly has no text, but has a place in the body."""

    doc_id: str
    index: int
    kind: str
    level: int | None
    marker: str | None
    text: str
    start: int
    end: int
    page_start: int | None
    page_end: int | None
    places: tuple[Place, ...]
    cells: tuple[Cell, ...]
    confidence: float
    origin: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class StructuralChunk:
    """The smallest unit, divided only if it alone is over the ceiling of a chunk. block_type: paragraph, table-row,
    list-item, heading, clause, caption, code, formula, figure-description. A table's first row has its header rows in
    its span. The description of a figure, which a model made, has the figure's empty place. `corner` is the text above
    the labels of a row's table, if the row's text does not say it."""

    doc_id: str
    index: int
    section_id: str
    header_chain: tuple[str, ...]
    block_type: str
    text: str
    span: Span
    element: int
    page_start: int | None
    page_end: int | None
    boxes: tuple[Box, ...]
    tokens: int
    metadata: dict[str, str]
    corner: str | None = None


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """Neighbours of one section up to a token budget. `units` are structural chunk indexes. `spans`
    and `offsets` (the starts of the units in `text`) are aligned with them."""

    doc_id: str
    index: int
    chunk_id: str
    section_id: str
    header_chain: tuple[str, ...]
    block_types: tuple[str, ...]
    text: str
    spans: tuple[Span, ...]
    units: tuple[int, ...]
    offsets: tuple[int, ...]
    page_start: int | None
    page_end: int | None
    boxes: tuple[Box, ...]
    tokens: int
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A packed chunk after conditional overlap, which is embedded and retrieved."""

    doc_id: str
    index: int
    chunk_id: str
    section_id: str
    header_chain: tuple[str, ...]
    block_types: tuple[str, ...]
    text: str
    spans: tuple[Span, ...]
    units: tuple[int, ...]
    offsets: tuple[int, ...]
    page_start: int | None
    page_end: int | None
    boxes: tuple[Box, ...]
    tokens: int
    metadata: dict[str, str]
    has_overlap: bool
    overlap: str
    overlap_spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """The lexical index's entry of a chunk: its terms, each once and in alphabetical order, with their counts."""

    doc_id: str
    index: int
    chunk_id: str
    terms: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StaticVector:
    """The vector of a packed chunk from the chunking settings' own fast embedder; no table keeps it."""

    doc_id: str
    index: int
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FigurePicture:
    """The picture of the figure that is element `index`, PNG or JPEG, or the reason it is missing; no table has it."""

    doc_id: str
    index: int
    picture: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class PagePicture:
    """Page `index` of a PDF of `pages` pages as PNG, `scale` pixels a point, or the reason it cannot be drawn. No table
    keeps it."""

    index: int
    pages: int
    scale: float
    picture: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, the unit finer than a chunk. `start` and `length` are characters of the chunk's own text:
    `chunk.text[start:start + length] == text`.

    `paragraph_start` and `paragraph_length` are the same for its paragraph, or for the part of it in the chunk.
    `paragraph_span` is that part's place in the body. If the paragraph is longer than LONGEST_PARAGRAPH, `paragraph` is
    only this part. `lead` is text above it in the document that belongs to it, such as a table's unit line. It is not
    part of `text`.
    """

    doc_id: str
    index: int
    sentence_id: str
    text: str
    source: str
    page: int | None
    boxes: tuple[Box, ...]
    confidence: float
    chunk_id: str
    start: int
    length: int
    paragraph_id: str
    paragraph: str
    paragraph_start: int
    paragraph_length: int
    paragraph_span: Span
    section_id: str
    section_path: tuple[str, ...]
    previous_id: str | None
    next_id: str | None
    lead: str = ""


@dataclass(frozen=True, slots=True)
class FilteredSentence:
    """A sentence that the noise rule named `rule` left out of the skeleton. Other fields are like Sentence's."""

    doc_id: str
    index: int
    chunk_id: str
    start: int
    length: int
    text: str
    rule: str


OFF, EXTRACTIVE, LLM, FALLBACK, WAITING = "off", "extractive", "llm", "fallback", "waiting"
"""The ways in which a generated text is made. fallback: extractive, since no reply of the model could be used;
waiting: extractive, or from the model's last reply, until it answers."""
BY_MODEL = frozenset({LLM, WAITING})
DESCRIPTION = "figure-description"
"""The block type of a model's description of a figure."""


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """A document's summary. `note` says why the method is fallback or waiting. `reply` is the key under which the
    model's reply is kept."""

    doc_id: str
    text: str
    method: str
    model: str = ""
    reply: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """A chunk's context. Its fields are like DocumentSummary's."""

    doc_id: str
    index: int
    chunk_id: str
    text: str
    method: str
    model: str = ""
    reply: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Embedding:
    """One vector of one generation's embedder; `item_id` is a chunk's or a sentence's id."""

    doc_id: str
    index: int
    item_id: str
    text_hash: str
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SentenceLink:
    """A RELATED_TO link, directed and made from vectors; it is never mixed with NEXT and PART_OF."""

    source_id: str
    target_id: str
    similarity: float


@dataclass(frozen=True, slots=True)
class FigureDescription:
    """A model's description of a figure. `element` is the figure's index, `image_hash` the hash of the picture's
    bytes in the file. `text` is empty if there is no usable reply, or no picture to show. Other fields are like
    DocumentSummary's."""

    doc_id: str
    index: int
    element: int
    image_hash: str
    text: str
    method: str
    model: str = ""
    reply: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """An abbreviation that a document defines itself. The first definition is in `body` from `start` to `end`; `count`
    says how often the short form occurs in the document."""

    doc_id: str
    index: int
    short: str
    long: str
    start: int
    end: int
    count: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that failed at a stage; its last good version stays served, in the same generation."""

    doc_id: str
    source: str
    uri: str
    stage: str
    code: str
    message: str


# ---------------------------------------------------------------- tables by name


TABLES: Mapping[str, type] = {
    "raw_documents": RawDocument,
    "parsed_documents": ParsedDocument,
    "parsed_elements": Element,
    "figure_descriptions": FigureDescription,
    "structural_chunks": StructuralChunk,
    "packed_chunks": PackedChunk,
    "chunks": Chunk,
    "chunk_terms": ChunkTerms,
    "sentences": Sentence,
    "filtered_sentences": FilteredSentence,
    "abbreviations": Abbreviation,
    "document_summaries": DocumentSummary,
    "chunk_contexts": ChunkContext,
    "chunk_embeddings": Embedding,
    "sentence_embeddings": Embedding,
    "sentence_search_embeddings": Embedding,
    "sentence_links": SentenceLink,
}


def tables(*names: str) -> dict[str, type]:
    """Return the named tables, with the type of their records."""
    return {name: TABLES[name] for name in names}


# ---------------------------------------------------------------- columns, for people


_COLUMNS = {
    "doc_id": "The document's id: a hash of its source and its path or address in it.",
    "index": "The place in the document's reading order, from 0.",
    "source": "The source that the document was found in.",
    "uri": "The path or address in the source.",
    "content_hash": "The hash of the file's bytes.",
    "size": "Bytes of the file.",
    "media_type": "The media type by which the parser is chosen.",
    "title": "The title that the file, or its first heading, gives.",
    "effective_date": "The date from which the document holds, in ISO form.",
    "version": "The document's version, as it names it.",
    "groups": "The groups whose members may read the document.",
    "source_groups": "The source's groups, which hold where neither side-car nor file names any.",
    "metadata": "Further properties by name.",
    "title_is_file_name": "True if nothing else gave a title.",
    "language": "The language of most of the body, as an ISO 639 code; `und` if it is not known.",
    "body": "The whole text, which all offsets count in characters of.",
    "pages": "The number of pages, if the format has pages.",
    "warnings": "Remarks of the parser about a document that is indexed all the same.",
    "kind": "The kind of block: heading, paragraph, list_item, table, caption, ...",
    "level": "A heading's level, or the nesting of a list item, from 1.",
    "marker": "The number or bullet in front.",
    "text": "The text.",
    "start": "The first character in the body.",
    "end": "The character in the body after the last.",
    "page": "The page, from 1.",
    "page_start": "The first page, from 1.",
    "page_end": "The last page, from 1.",
    "places": "Boxes or offsets in the source of each stretch of the text.",
    "boxes": "Boxes on the pages, in PDF points from the top left.",
    "cells": "A table's cells with their rows, columns and texts.",
    "confidence": "The certainty of text recognition, 1 for text that the file itself has.",
    "origin": "The part of the parser that found it.",
    "element": "The index of the element that it was made from.",
    "image_hash": "The hash of the picture's bytes in the file.",
    "method": "The way in which the text was made: off, extractive, llm, fallback or waiting.",
    "model": "The language model that wrote it.",
    "reply": "The key under which the model's reply is kept.",
    "note": "The reason why the method is fallback or waiting.",
    "section_id": "The id of the section that it stands in.",
    "header_chain": "The headings above it, the outermost first.",
    "section_path": "The headings above it, the outermost first.",
    "block_type": "The kind of the smallest unit: paragraph, table-row, list-item, heading, clause, ...",
    "block_types": "The kinds of the units.",
    "span": "The place in the body.",
    "spans": "The places of the units in the body.",
    "tokens": "The number of tokens of the text, as chunking counts them.",
    "corner": "The text above the labels of a row's table, if the row's text does not say it.",
    "chunk_id": "The chunk's id.",
    "units": "The indexes of the structural chunks that it is packed from.",
    "offsets": "The starts of the units in the text.",
    "has_overlap": "True if the end of the chunk before goes in front.",
    "overlap": "The end of the chunk before, which is embedded with the text.",
    "overlap_spans": "The places of the overlap in the body.",
    "terms": "The terms of the lexical index, each once, in alphabetical order.",
    "counts": "How often each term occurs.",
    "sentence_id": "The sentence's id.",
    "length": "The number of characters.",
    "paragraph_id": "The id of the paragraph (PART_OF).",
    "paragraph": "The text of the paragraph.",
    "paragraph_start": "The paragraph's first character in the chunk's own text.",
    "paragraph_length": "The number of characters of the paragraph in the chunk.",
    "paragraph_span": "The paragraph's place in the body.",
    "previous_id": "The sentence before (PREVIOUS).",
    "next_id": "The sentence after (NEXT).",
    "lead": "Text above that must be read with the sentence, such as a table's unit.",
    "rule": "The noise rule that left the sentence out.",
    "item_id": "The id of the chunk or sentence that was embedded.",
    "text_hash": "The hash of the embedded text.",
    "vector": "The unit vector.",
    "source_id": "The sentence that the link begins at (RELATED_TO).",
    "target_id": "The sentence that it leads to.",
    "similarity": "The cosine of their vectors.",
    "RawDocument.title": "The title that the side-car gives.",
    "RawDocument.effective_date": "The date from which the document holds, as the side-car gives it.",
    "RawDocument.version": "The version that the side-car gives.",
    "RawDocument.groups": "The groups that the side-car names, principals among them.",
    "RawDocument.metadata": "Further properties of the side-car by name.",
    "ParsedDocument.groups": "The groups that the file itself names.",
    "ParsedDocument.metadata": "Further properties of the file itself by name.",
    "Sentence.source": "The kind of text that it is from: prose, list, table, ...",
    "Sentence.start": "The first character in the chunk's own text.",
    "FilteredSentence.start": "The first character in the chunk's own text.",
    "short": "The short form, as it is written.",
    "long": "The long form, on one line.",
    "count": "How often the short form stands in the document.",
    "Abbreviation.start": "The first character of its definition in the body.",
    "Abbreviation.end": "The character after the definition in the body.",
    "FigureDescription.text": "The description, empty if there is no usable reply or no picture to show.",
    "DocumentSummary.text": "The summary, which goes in front of each chunk when it is embedded.",
    "ChunkContext.text": "The sentence or two that place the chunk in its document.",
}


def column_description(record: type, column: str) -> str:
    """Return the description of a column of a record's table, for people."""
    return _COLUMNS.get(f"{record.__name__}.{column}") or _COLUMNS[column]
