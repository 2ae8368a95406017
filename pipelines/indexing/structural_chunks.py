"""The structural chunks of a document: the smallest units with their own type, header chain and place.

A stack of headings gives every unit its header chain and its section; each row of a table becomes a unit
(table_rows.py), or several units if it is over the ceiling of a chunk. Chains stay short in any document: a heading as
long as a paragraph counts as a paragraph, and very deep chains lose their middle.

Descriptions of figures are units of their own. They come after all others, so that the other units are the same with
and without them; their spans say where they belong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile

from pipelines.fingerprint import fingerprint
from pipelines.indexing.boundaries import divide
from pipelines.indexing.places import boxes_of, locator_of, pages_of
from pipelines.indexing.table_rows import HEADING_TOKENS, first_words, table_rows
from pipelines.parsing.pictures import ALT, FIGURE, IMAGE, IMAGE_HASH
from pipelines.records import DESCRIPTION, Element, FigureDescription, ParsedDocument, Span, StructuralChunk
from pipelines.tokens import TokenIndex, count_tokens

CEILING = 512
"""Tokens above which a table row or a description is divided, unless the settings say otherwise."""
CHAIN_ENDS = 8
"""Number of headings kept at each end of a deep chain."""
CHAIN_CHARACTERS = 2000
"""Most characters of the headings kept at each end of a chain, since every unit repeats its chain."""
GENERATED_BY = "generated_by"
"""Metadata key of a unit whose text a model wrote; its value is the model's name."""
_OUTSIDE = frozenset({"page_header", "page_footer"})
_OF_THE_PICTURE = frozenset({ALT, IMAGE, IMAGE_HASH})
_TYPES = {"list_item": "list-item", "caption": "caption", "code": "code", "formula": "formula"}
_KEY_VALUE = re.compile(r"^[^:.!?]{2,60}:\s+\S")
_MEASURE = re.compile(
    r"\d[.,\s]*+(?:%|°|[$€£₴]|\b(?:ms|s|sec|seconds?|min|minutes?|h|hours?|days?|weeks?|months?|years?|"
    r"kb|mb|gb|tb|kg|mg|g|ml|l|mm|cm|m|km|usd|eur|gbp|uah|percent|copies|times|"
    r"секунд\w*|хвилин\w*|годин\w*|дн\w+|день|тижн\w*|місяц\w*|рок\w*|років|рік|грн|мг|мл|кг|г|см|мм|км|відсотк\w*)\b)"
    r"|[$€£₴]\s?\d|\b(?:19|20)\d\d-\d\d-\d\d\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
    r"|\b(?:at least|at most|no (?:more|less|fewer|later) than|within|maximum|minimum|up to)\b"
    r"|\b(?:не більше|не менше|щонайменше|щонайбільше|протягом)\b",
    re.IGNORECASE,
)


def is_clause(text: str, limit: int) -> bool:
    """Say whether a text is a short, dense statement: it has a digit (a measure, date or limit), or the form `key:
    value`."""
    if not any(character.isdigit() for character in text) or count_tokens(text) > limit:
        return False
    return bool(_MEASURE.search(text) or _KEY_VALUE.match(text))


def _fitting(headings: Sequence[tuple[int, str]]) -> list[str]:
    """Return the texts of the first headings that together have at most CHAIN_CHARACTERS; at least one heading."""
    lengths = accumulate(len(text) for _, text in headings)
    kept = takewhile(lambda total: total <= CHAIN_CHARACTERS, lengths)
    return [text for _, text in headings[: max(1, sum(1 for _ in kept))]]


@dataclass
class _Section:
    """The state of the walk through a document: the stack of headings and the current section."""

    doc_id: str
    title: str | None
    stack: list[tuple[int, str]] = field(default_factory=list)
    seen: Counter[tuple[str, ...]] = field(default_factory=Counter)
    section_id: str = ""

    def __post_init__(self) -> None:
        self.open()

    @property
    def chain(self) -> tuple[str, ...]:
        if self.stack:
            last = _fitting(self.stack[: -CHAIN_ENDS - 1 : -1])[::-1]
            first = _fitting(self.stack[: min(CHAIN_ENDS, len(self.stack) - len(last))])
            middle = ("…",) if len(first) + len(last) < len(self.stack) else ()
            return (*first, *middle, *last)
        return (self.title,) if self.title else ()

    def enter(self, level: int, text: str) -> None:
        while self.stack and self.stack[-1][0] >= level:
            self.stack.pop()
        self.stack.append((level, text))
        self.open()

    def open(self) -> None:
        chain = self.chain
        self.section_id = fingerprint("section", self.doc_id, chain, self.seen[chain])
        self.seen[chain] += 1


def structural_chunks(
    document: ParsedDocument,
    elements: Sequence[Element],
    clause_tokens: int,
    descriptions: Sequence[FigureDescription] = (),
    ceiling: int = CEILING,
) -> list[StructuralChunk]:
    """Return the structural chunks of one document in reading order, including headings, then those of its figures.
    Table rows and descriptions of more tokens than the `ceiling` are divided.

    A document that has only headings gets them as paragraphs, so that none of its text is lost.
    """
    body = [element for element in elements if element.kind not in _OUTSIDE]
    text = [element for element in body if element.kind != FIGURE]
    position = -1
    only_headings = all(_is_heading(element) or element.kind == "break" for element in text)
    section = _Section(document.doc_id, None if document.title_is_file_name else document.title)
    said = {described.element: described for described in descriptions if described.text}
    chunks: list[StructuralChunk] = []
    figures: list[StructuralChunk] = []
    for element in body:
        if element.kind == FIGURE:
            figures += _figure(section, element, said.get(element.index), ceiling)
            continue
        position += 1
        if element.kind == "break":
            section.open()
        elif _is_heading(element) and not only_headings:
            section.enter(element.level or 1, element.text)
            chunks.append(_unit(section, section.chain, element, "heading", element.text, len(chunks)))
        elif element.kind == "table" and element.cells:
            chain = _with_caption(section.chain, text, position)
            for row in table_rows(element, ceiling and max(ceiling - _bare(chunks, chain), ceiling // 2)):
                unit = _unit(section, chain, element, "table-row", row.text, len(chunks), row.span)
                chunks.append(replace(unit, corner=row.corner))
        elif element.text.strip():
            kind = _block_type(element, clause_tokens)
            chunks.append(_unit(section, section.chain, element, kind, element.text, len(chunks)))
    return chunks + [replace(unit, index=at) for at, unit in enumerate(figures, start=len(chunks))]


def _bare(chunks: Sequence[StructuralChunk], chain: tuple[str, ...]) -> int:
    """Count the tokens of the last headings that are not in the chain: they will be written above the next unit."""
    last = takewhile(lambda unit: unit.block_type == "heading", reversed(chunks))
    return sum(count_tokens(unit.text) for unit in last if unit.text not in chain)


def _figure(
    section: _Section, element: Element, said: FigureDescription | None, ceiling: int
) -> Iterable[StructuralChunk]:
    """Yield the parts of a figure's description: the extractor's, which is part of the body, or else a model's."""
    own = {key: value for key, value in element.metadata.items() if key not in _OF_THE_PICTURE}
    element = replace(element, metadata=own)
    if element.text:
        for start, end in _divide(element.text, ceiling):
            span = Span(element.start + start, element.start + end)
            yield _unit(section, section.chain, element, DESCRIPTION, element.text[start:end], 0, span)
    elif said:
        boxes = tuple(place.box for place in element.places if place.box)
        located = next((place.locator for place in element.places if place.locator), None)
        metadata = {**own, GENERATED_BY: said.model, **({"locator": located} if located else {})}
        for start, end in _divide(said.text, ceiling):
            unit = _unit(section, section.chain, element, DESCRIPTION, said.text[start:end], 0)
            yield replace(unit, boxes=boxes, metadata=metadata)


def _divide(text: str, ceiling: int) -> list[tuple[int, int]]:
    if count_tokens(text) <= ceiling:
        return [(0, len(text))]
    return divide(text, TokenIndex(text), ceiling, ceiling)


def _is_heading(element: Element) -> bool:
    """Say whether an element counts as a heading. A very long one counts as a paragraph, since every unit below would
    repeat it."""
    return element.kind == "heading" and count_tokens(element.text) <= HEADING_TOKENS


def _block_type(element: Element, clause_tokens: int) -> str:
    if element.kind in _TYPES:
        return _TYPES[element.kind]
    return "clause" if is_clause(element.text, clause_tokens) else "paragraph"


def _with_caption(chain: tuple[str, ...], body: Sequence[Element], position: int) -> tuple[str, ...]:
    """Return the chain of a table's rows: it ends with the caption before the table, or else the caption after it. A
    long caption is shortened, since it is a unit too."""
    for neighbour in (position - 1, position + 1):
        if 0 <= neighbour < len(body) and body[neighbour].kind == "caption":
            return (*chain, first_words(body[neighbour].text))
    return chain


def _unit(
    section: _Section,
    chain: tuple[str, ...],
    element: Element,
    block_type: str,
    text: str,
    index: int,
    span: Span | None = None,
) -> StructuralChunk:
    span = span or Span(element.start, element.end)
    page_start, page_end = pages_of(element, span)
    metadata = dict(element.metadata)
    locator = locator_of(element, span)
    if locator:
        metadata["locator"] = locator
    return StructuralChunk(
        doc_id=section.doc_id,
        index=index,
        section_id=section.section_id,
        header_chain=chain,
        block_type=block_type,
        text=text,
        span=span,
        element=element.index,
        page_start=page_start,
        page_end=page_end,
        boxes=boxes_of(element.places, [span]),
        tokens=count_tokens(text),
        metadata=metadata,
    )
