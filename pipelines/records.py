"""The records that pass between stages, and the table that holds each kind.

Records are frozen and plain, and stand in reading order. Spans are half-open character ranges of the document's body.
Boxes are PDF points from the top left of a page; pages are 1-based and None where a format has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# ---------------------------------------------------------------- records
#
# The records that pass between stages. Frozen, plain, in reading order.
#
# Spans are half-open character ranges of the document's body. Boxes are PDF points from the top
# left of a page; pages are 1-based and None where a format has none.


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
    """Where in a line a sentence may end: `at` is the offset of what follows, in the place's own text;
    `x_end` and `x_start` are the right edge of the character before and the left edge of the one after."""

    at: int
    x_end: float
    x_start: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stretch of the body stands in the source: a page and box, offsets of the decoded
    source text, or a locator such as `Sheet1!A2:C2` or `slide 3`. `stops` are in order."""

    start: int
    end: int
    box: Box | None = None
    source_start: int | None = None
    source_end: int | None = None
    locator: str | None = None
    stops: tuple[Stop, ...] = ()


# ---------------------------------------------------------------- what a parser gives


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of source text in one place: a line of a page, a block of a text file.

    `text` is as the source has it, uncleaned. Successive runs of a block are joined by one
    space, or directly when `joined` is true (a word divided at the end of the line; the hyphen
    is already removed if it was only a line-end hyphen). `gaps` are the (x_end, x_start) of the places in
    the line where a sentence may end, from left to right."""

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
    runs: tuple[Run, ...]
    row_span: int = 1
    column_span: int = 1
    header: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One block in reading order as a parser found it. `kind` as Element.kind. A table has
    `cells` and no runs. `level` is 1-based: of a heading, or the nesting of a list item."""

    kind: str
    runs: tuple[Run, ...] = ()
    level: int | None = None
    marker: str | None = None
    cells: tuple[BlockCell, ...] = ()
    confidence: float = 1.0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What a parser returns for one file: blocks, and the file's own properties.

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
    """One listed file. `groups`, principals among them, and `metadata` are the side-car's, not the file's own;
    `source_groups` hold where neither names any, and where `groups` are empty, not None: in a source in which strangers
    choose names, what the file says of its own groups counts for nothing."""

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
    """The document as parsed: its body and what the file says of itself."""

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
    are not part of the body: their span is empty. For all others `text == body[start:end]`; a figure
    mostly has none, and its place in the body."""

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
    """The smallest unit never split. block_type: paragraph, table-row, list-item, heading,
    clause, caption, code, formula, figure-description. A table's first row has its header rows in its
    span; the description of a figure, which a model made, has the figure's empty place. `corner` is what stands over
    the labels of a row's table, where its text does not say it."""

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
    """Neighbours of one section up to a token budget. `units` are structural chunk indexes; `spans`
    and `offsets` (where the unit's text begins in `text`) are aligned with them."""

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
    """A packed chunk after conditional overlap: what is embedded and retrieved."""

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
    """What the lexical index knows of a chunk: its terms, each once and in alphabetical order, with their counts."""

    doc_id: str
    index: int
    chunk_id: str
    terms: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StaticVector:
    """Of a packed chunk, by the chunking settings' own fast embedder; kept in no table."""

    doc_id: str
    index: int
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FigurePicture:
    """Of the figure that is element `index`: PNG or JPEG, or why there is none; kept in no table."""

    doc_id: str
    index: int
    picture: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class PagePicture:
    """Page `index` of a PDF of so many `pages` as PNG, `scale` pixels a point, or why it cannot be drawn; kept in no
    table."""

    index: int
    pages: int
    scale: float
    picture: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """The finer unit. `start` and `length` are characters of the chunk's own text;
    `chunk.text[start:start + length] == text`. `paragraph_start` and `paragraph_length` likewise are those of
    its paragraph, or of the part of it that the chunk holds, and `paragraph_span` that part's place in the body; of a
    very long one (LONGEST_PARAGRAPH) `paragraph` is this part. `lead` stands above it in the document and must be read
    with it, as a table's unit line; it is no part of `text`."""

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
    """What a noise rule, named by `rule`, left out of the skeleton; other fields as of Sentence."""

    doc_id: str
    index: int
    chunk_id: str
    start: int
    length: int
    text: str
    rule: str


OFF, EXTRACTIVE, LLM, FALLBACK, WAITING = "off", "extractive", "llm", "fallback", "waiting"
"""How a generated text was come by. fallback: extractive, since no reply of the model could be used;
waiting: extractive, or of the model's last reply, until it answers."""
BY_MODEL = frozenset({LLM, WAITING})
DESCRIPTION = "figure-description"
"""The block type of what a model says that a figure shows."""


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """`note` says why the method is fallback or waiting; `reply` is the key under which the model's
    reply is kept."""

    doc_id: str
    text: str
    method: str
    model: str = ""
    reply: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """Fields as of DocumentSummary."""

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
    """RELATED_TO, directed, from vectors; never mixed with NEXT and PART_OF."""

    source_id: str
    target_id: str
    similarity: float


@dataclass(frozen=True, slots=True)
class FigureDescription:
    """What a model says that a figure shows: `element` is the figure's index, `image_hash` of the picture's
    bytes as the file has them. `text` is empty where there is no usable reply, or no picture to show; other
    fields as of DocumentSummary."""

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
class Failure:
    """A document that failed at a stage; its last good version stays served, in the same generation."""

    doc_id: str
    source: str
    uri: str
    stage: str
    code: str
    message: str


# ---------------------------------------------------------------- tables
#
# Every table by name, with the type of its records.


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
    "document_summaries": DocumentSummary,
    "chunk_contexts": ChunkContext,
    "chunk_embeddings": Embedding,
    "sentence_embeddings": Embedding,
    "sentence_search_embeddings": Embedding,
    "sentence_links": SentenceLink,
}


def tables(*names: str) -> dict[str, type]:
    """Some of them."""
    return {name: TABLES[name] for name in names}
