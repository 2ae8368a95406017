"""The file `NAME.elements.json`: the structure that an external extractor found, its schema, and its error messages.

The models are the schema: docs/reference/elements.schema.json and docs/reference/elements.md are generated from them. A
valid map is used unchanged. Errors name their JSON path.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from pipelines.errors import DocumentError
from pipelines.fingerprint import combine
from pipelines.groups import group_names, misnamed_keys, require_few
from pipelines.parsing.elements import KINDS
from pipelines.parsing.pictures import FIGURE, IMAGE_HASH
from pipelines.records import Block, BlockCell, Box, ParsedFile, TextRun
from resources.hashes import content_hash

# ---------------------------------------------------------------- schema


VERSION: Final = 1
MOST_PAGES = 1_000_000
MOST_ROWS, MOST_COLUMNS = 1 << 20, 1 << 14
MOST_SQUARES = 10_000_000
OFF_PAGE_POINTS = 1.0
PROPERTIES = ("title", "language", "effective_date", "version", "groups")

Text = Annotated[str, Field(strict=True)]
Points = Annotated[float, Field(allow_inf_nan=False)]
Gap = Annotated[list[Points], Field(min_length=2, max_length=2)]
Metadata = dict[str, str]
_Row = Annotated[int, Field(ge=0, lt=MOST_ROWS)]
_Column = Annotated[int, Field(ge=0, lt=MOST_COLUMNS)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class MapBox(_Part):
    """A box in PDF points (1/72 inch) from the top left of its page."""

    page: int = Field(ge=1, le=MOST_PAGES, description="Number of the page, from 1.")
    x0: Points = Field(description="Left edge.")
    y0: Points = Field(description="Upper edge.")
    x1: Points = Field(description="Right edge.")
    y1: Points = Field(description="Lower edge.")

    @field_validator("x1", "y1")
    @classmethod
    def _require_order(cls, value: float, info: Any) -> float:
        other = info.field_name.replace("1", "0")
        if value < info.data.get(other, value):
            raise ValueError(f"must not be less than {other}: the box has a negative size")
        return value


class MapRun(_Part):
    """A stretch of text in one place."""

    text: Text = Field(description="The text, as the source has it.")
    box: MapBox | None = Field(None, description="Where it stands on its page.")
    start: int | None = Field(None, ge=0, description="First character in the decoded source text; needs `end`.")
    end: int | None = Field(None, ge=0, description="The character after the last one; needs `start`.")
    locator: Text | None = Field(None, description="Another place: `Sheet1!A2:C2`, `slide 3`, `page 3`.")
    joined: bool = Field(False, description="Whether it follows the run before without a space.")
    gaps: list[Gap] = Field(
        [],
        description="Of one line with a `box`: right edge of what stands before, left edge of what stands after every "
        "place in the text where one sentence may end and another begin, from left to right.",
    )

    @model_validator(mode="after")
    def _both_ends(self) -> Self:
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end go together")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ValueError("end must not be less than start")
        return self


class _Words(_Part):
    """Text with its places: `text` with `boxes`, or `runs` with an exact place for each part."""

    text: Text | None = Field(None, description="The text, where `runs` are not given.")
    boxes: list[MapBox] = Field(
        [], description="Where `text` stands; with several, it is divided among them by their areas."
    )
    locator: Text | None = Field(None, description="Another place of `text`: `Sheet1!A2`, `slide 3`, `page 3`.")
    runs: list[MapRun] | None = Field(None, description="Stretches of text, each with its own place, in order.")

    @model_validator(mode="after")
    def _text_or_runs(self) -> Self:
        if self.runs is not None and (self.text is not None or self.boxes or self.locator is not None):
            raise ValueError("give either runs, each with its place, or text with boxes and locator, not both")
        return self


class MapCell(_Words):
    """A cell of a table."""

    row: _Row = Field(description="First row it covers, from 0.")
    column: _Column = Field(description="First column it covers, from 0.")
    row_span: int = Field(1, ge=1, le=MOST_ROWS, description="Rows it covers.")
    column_span: int = Field(1, ge=1, le=MOST_COLUMNS, description="Columns it covers.")
    header: bool = Field(False, description="Whether it names its column or row.")


class MapElement(_Words):
    """A block in reading order."""

    kind: Text = Field(description="What the block is.", json_schema_extra={"enum": [*sorted(KINDS)]})
    level: int | None = Field(None, ge=1, description="Of a heading, or the nesting of a list item, from 1.")
    marker: Text | None = Field(None, description="What stands before a list item: `•`, `a)`, `2.1`.")
    cells: list[MapCell] = Field([], description="Of a table, which has no text of its own.")
    confidence: float = Field(1.0, ge=0, le=1, description="How sure the extractor is of the text.")
    metadata: Metadata = Field({}, description="Free values; `kv.KEY` is found by `--filter kv.KEY=VALUE`.")

    @field_validator("kind")
    @classmethod
    def _require_known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r}; {_suggestion(kind, sorted(KINDS))}")
        return kind

    @model_validator(mode="after")
    def _table(self) -> Self:
        if self.kind != "table":
            if self.cells:
                raise ValueError(f"only a table has cells, not a {self.kind}")
            return self
        if self.text is not None or self.runs is not None:
            raise ValueError("a table has cells, not a text of its own")
        if len(self.boxes) > 1 and not all(cell.boxes or cell.runs for cell in self.cells):
            raise ValueError("where a table has several boxes, each of its cells needs its own")
        return self


class MapPage(_Part):
    """The size of a page in points."""

    width: Points = Field(gt=0, description="From left to right, as the page is shown.")
    height: Points = Field(gt=0, description="From top to bottom.")


class MapDocument(_Part):
    """The properties of the document, as the file states them."""

    title: Text | None = Field(None, description="Else the first heading, else the file's name.")
    language: Text | None = Field(None, description="ISO 639-1 code; else it is told from the text.")
    effective_date: Text | None = Field(None, description="From when it holds, as YYYY-MM-DD.")
    version: Text | None = Field(None, description="As people name it.")
    groups: list[Text] = Field([], description="Who may find the document; leave it out for everyone.")
    metadata: Metadata = Field({}, description="Anything else, one text a key.")

    @field_validator("groups")
    @classmethod
    def _names(cls, groups: list[str]) -> list[str]:
        return list(require_few(group_names(groups)))

    @field_validator("metadata")
    @classmethod
    def _free(cls, metadata: Metadata) -> Metadata:
        for key in PROPERTIES:
            if key in metadata:
                raise ValueError(f"{key!r} has a place of its own: document.{key}")
        if wrong := next(misnamed_keys({"metadata": metadata}), None):
            raise ValueError(f"{wrong!r} may be meant as document.groups, or as principals of a side-car")
        return metadata


Pages = Annotated[
    Annotated[int, Field(ge=0, le=MOST_PAGES, strict=True), Tag("count")] | Annotated[list[MapPage], Tag("sizes")],
    Discriminator(lambda value: "sizes" if isinstance(value, list) else "count"),
]


class ElementMap(_Part):
    """The structure of one document, as an extractor found it."""

    model_config = ConfigDict(title="NAME.elements.json")

    version: Literal[1] = Field(description="Version of this schema.")
    origin: Text = Field("", description="Name of the extractor.")
    document: MapDocument = Field(MapDocument(), description="What the file says of itself.")
    pages: Pages | None = Field(None, description="Number of pages, or the size of each, the first one first.")
    warnings: list[Text] = Field([], description="What the extractor could not do, for people.")
    elements: list[MapElement] = Field(description="Blocks in reading order.")


# ---------------------------------------------------------------- error messages

_MODELS: dict[str, type[BaseModel]] = {
    "document": MapDocument,
    "pages": MapPage,
    "elements": MapElement,
    "cells": MapCell,
    "boxes": MapBox,
    "box": MapBox,
    "runs": MapRun,
}
_TOLD = {
    "missing": "is missing",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "greater_than_equal": "must be {ge:g} or more",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be {le:g} or less",
    "less_than": "must be less than {lt:g}",
    "literal_error": "must be {expected}",
}


def _suggestion(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name[:100], known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(known)}"


def path_of(location: Sequence[str | int]) -> str:
    """Return a JSON path such as `elements[12].boxes[0].page`."""
    path = ""
    for index, part in enumerate(location):
        if part in ("count", "sizes") and index and location[index - 1] == "pages":
            continue
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def problems_of(error: ValidationError, before: Sequence[str | int] = ()) -> Iterator[str]:
    """Yield every problem as `path: fault`; `before` is the path of the validated value."""
    for item in error.errors(include_url=False, include_input=False):
        location = (*before, *item["loc"])
        where, kind = path_of(location), item["type"]
        if kind == "extra_forbidden":
            holder = next((part for part in reversed(location[:-1]) if isinstance(part, str) and part in _MODELS), "")
            names = list(_MODELS.get(holder, ElementMap).model_fields)
            yield f"{where}: unknown key; {_suggestion(str(location[-1]), names)}"
        else:
            known = _TOLD.get(kind)
            told = known.format(**item.get("ctx", {})) if known else item["msg"].removeprefix("Value error, ")
            yield f"{where or 'the file'}: {told}"


def overlapping(cells: Sequence[MapCell]) -> tuple[int, str] | None:
    """Return the index of the first cell that overlaps another, and a description of the fault."""
    filled: dict[int, tuple[int, int]] = {}  # column -> (the row up to which it is filled, by which cell)
    squares = 0
    for index, cell in sorted(enumerate(cells), key=lambda item: (item[1].row, item[1].column)):
        squares += cell.row_span * cell.column_span
        if squares > MOST_SQUARES:
            return index, f"the cells cover more than {MOST_SQUARES:,} squares"
        for column in range(cell.column, cell.column + cell.column_span):
            until, other = filled.get(column, (0, -1))
            if until > cell.row:
                return index, f"overlaps cells[{other}] at row {cell.row}, column {column}"
            filled[column] = (cell.row + cell.row_span, index)
    return None


# ---------------------------------------------------------------- file


ORIGIN = "elements.json"
MOST_BYTES = 256 << 20
SHOWN_PROBLEMS, SHOWN_CHARACTERS = 5, 300
_SURROGATE = re.compile("[\ud800-\udfff]")
_ELEMENT = TypeAdapter(MapElement)

# ---------------------------------------------------------------- reading


def parse(path: Path) -> ParsedFile:
    """Read a map. Raise DocumentError `element_map` with the fault, by JSON path if possible. A faulty map is not used
    at all, because its groups are unknown."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        message = f"{path.name}: {size >> 20} MB, over the {MOST_BYTES >> 20} MB that a map may have: divide it"
        raise DocumentError(message, "element_map")
    try:
        values = json.loads(path.read_bytes(), object_pairs_hook=_each_once)
    except (ValueError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path.name}: not valid JSON ({error}): create the map again", "element_map") from None
    except RecursionError:
        raise DocumentError(
            f"{path.name}: its JSON is nested too deeply: create the map again", "element_map"
        ) from None
    return _with_pictures_named(parse_map(values, path.name), path.with_name(path.name.removesuffix(f".{ORIGIN}")))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raise ValueError if a key occurs twice, since one of the values would be lost."""
    made: dict[str, Any] = {}
    for key, value in pairs if len(dict(pairs)) != len(pairs) else ():
        if key in made:
            raise ValueError(f"{key!r} is given twice")
        made[key] = value
    return dict(pairs)


def _with_pictures_named(parsed: ParsedFile, pages: Path) -> ParsedFile:
    """Set the image hash of figures that lie in the PDF beside a map, from the PDF's hash and their places. Otherwise
    old descriptions of figures would be kept when only the PDF changes."""
    if pages.suffix.lower() != ".pdf" or not pages.is_file():
        return parsed
    boxes = [[run.box for run in block.runs if run.box] if block.kind == FIGURE else [] for block in parsed.blocks]
    if not any(boxes):
        return parsed
    file = content_hash(pages)
    blocks = (
        replace(block, metadata={**block.metadata, IMAGE_HASH: combine([file, *map(repr, places)])})
        if places
        else block
        for block, places in zip(parsed.blocks, boxes, strict=True)
    )
    return replace(parsed, blocks=tuple(blocks))


def parse_map(values: Any, name: str) -> ParsedFile:
    """Read a map from plain values. Raise DocumentError `element_map`."""
    problems = _Problems(name)
    elements = values.get("elements") if isinstance(values, dict) else None
    listed = elements if isinstance(elements, list) else []
    rest = {**values, "elements": []} if isinstance(elements, list) else values
    try:
        head = ElementMap.model_validate(rest)
    except ValidationError as error:
        problems.add(error.error_count(), problems_of(error))
        head = ElementMap(version=VERSION, elements=[])
    blocks = []
    for index, value in enumerate(listed):  # one at a time: a million of them are not held twice
        try:
            element = _ELEMENT.validate_python(value)
        except ValidationError as error:
            problems.add(error.error_count(), problems_of(error, ("elements", index)))
            continue
        found = list(_place_problems(element, index, head.pages))
        problems.add(len(found), found)
        blocks.append(_block(element))
    problems.refuse()
    count = len(head.pages) if isinstance(head.pages, list) else head.pages
    return ParsedFile(tuple(blocks), _properties(head), count, tuple(head.warnings), head.origin or ORIGIN)


class _Problems:
    """The first problems of a map, and the total number."""

    def __init__(self, name: str) -> None:
        self.name, self.count = name, 0
        self.shown: list[str] = []

    def add(self, count: int, problems: Sequence[str] | Iterator[str]) -> None:
        self.count += count
        if count and len(self.shown) < SHOWN_PROBLEMS:
            shown = list(problems)[: SHOWN_PROBLEMS - len(self.shown)]
            self.shown += [text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…" for text in shown]

    def refuse(self) -> None:
        if self.count:
            more = f"; and {self.count - len(self.shown)} more" if self.count > len(self.shown) else ""
            message = f"{self.name}: {'; '.join(self.shown)}{more} (the schema: docs/reference/elements.md)"
            raise DocumentError(message, "element_map")


def _place_problems(element: MapElement, index: int, pages: int | list[MapPage] | None) -> Iterator[str]:
    """Yield the problems of an element that concern its document or its table."""
    for where, box in _boxes(element):
        problem = _outside_text(box, pages)
        if problem:
            yield f"{path_of(('elements', index, *where))}{problem}"
    clash = overlapping(element.cells)
    if clash:
        yield f"{path_of(('elements', index, 'cells', clash[0]))}: {clash[1]}"


def _boxes(element: MapElement) -> Iterator[tuple[tuple[str | int, ...], MapBox]]:
    holders: list[tuple[tuple[str | int, ...], MapElement | MapCell]] = [((), element)]
    holders += [(("cells", index), cell) for index, cell in enumerate(element.cells)]
    for where, holder in holders:
        for index, box in enumerate(holder.boxes):
            yield (*where, "boxes", index), box
        for index, run in enumerate(holder.runs or ()):
            if run.box is not None:
                yield (*where, "runs", index, "box"), run.box


def _outside_text(box: MapBox, pages: int | list[MapPage] | None) -> str:
    if pages is None:
        return ""
    count = len(pages) if isinstance(pages, list) else pages
    if box.page > count:
        return f".page: must be {count} or less, the number of pages"
    if isinstance(pages, list):
        size, off = pages[box.page - 1], OFF_PAGE_POINTS
        if min(box.x0, box.y0) < -off or box.x1 > size.width + off or box.y1 > size.height + off:
            return f": lies outside page {box.page}, which is {size.width:g} by {size.height:g} points"
    return ""


def _properties(head: ElementMap) -> dict[str, str]:
    document = head.document
    own = {key: getattr(document, key) for key in PROPERTIES if key != "groups"}
    groups = {"groups": ",".join(document.groups)} if document.groups else {}
    return {**{key: value for key, value in own.items() if value is not None}, **groups, **document.metadata}


def _box(box: MapBox | None) -> Box | None:
    return None if box is None else Box(box.page, box.x0, box.y0, box.x1, box.y1)


def _run(run: MapRun) -> TextRun:
    gaps = tuple((end, start) for end, start in run.gaps)
    return TextRun(run.text, _box(run.box), run.start, run.end, run.locator, run.joined, gaps)


def _runs(words: MapElement | MapCell, table_box: MapBox | None = None, code: bool = False) -> tuple[TextRun, ...]:
    if words.runs is not None:
        return tuple(map(_run, words.runs))
    if words.text is None:
        return ()
    boxes = words.boxes or ([table_box] if table_box is not None else [])
    if len(boxes) < 2:
        return (TextRun(words.text, _box(boxes[0]) if boxes else None, locator=words.locator),)
    return tuple(
        TextRun(text, _box(box), locator=words.locator)
        for text, box in _divide_text(words.text, boxes, "\n" if code else " ")
    )


def _divide_text(text: str, boxes: Sequence[MapBox], separator: str) -> Iterator[tuple[str, MapBox]]:
    """Yield the words of a text for each of its boxes; each box gets characters in proportion to its area."""
    words = text.split(separator)
    areas = [max((box.x1 - box.x0) * (box.y1 - box.y0), 1e-6) for box in boxes]
    share, at, written = len(text) / sum(areas), 0, 0
    until = 0.0
    for number, (box, area) in enumerate(zip(boxes, areas, strict=True), start=1):
        until += area * share
        begin = at
        while at < len(words) and (number == len(boxes) or written + len(words[at]) / 2 <= until):
            written += len(words[at]) + len(separator)
            at += 1
        if at > begin:
            yield separator.join(words[begin:at]), box


def _block(element: MapElement) -> Block:
    table_box = element.boxes[0] if element.cells and element.boxes else None
    cells = tuple(
        BlockCell(cell.row, cell.column, _runs(cell, table_box), cell.row_span, cell.column_span, cell.header)
        for cell in element.cells
    )
    return Block(
        element.kind,
        _runs(element, code=element.kind == "code"),
        element.level,
        element.marker,
        cells,
        element.confidence,
        element.metadata,
    )


# ---------------------------------------------------------------- writing


def to_map(parsed: ParsedFile) -> dict[str, Any]:
    """Return the map of a parsed file as plain values for JSON; `parse_map` returns the same blocks from it."""
    free = {key: value for key, value in parsed.properties.items() if key not in PROPERTIES}
    groups = [group.strip() for group in parsed.properties.get("groups", "").split(",") if group.strip()]
    named = {key: parsed.properties[key] for key in PROPERTIES if key != "groups" and key in parsed.properties}
    document = {**named, **_given_values(groups=groups, metadata=free)}
    head = {
        "version": VERSION,
        **_given_values(origin=parsed.origin, document=document, pages=parsed.pages, warnings=list(parsed.warnings)),
    }
    values: dict[str, Any] = _storable({**head, "elements": [_element_of(block) for block in parsed.blocks]})
    return values


def _given_values(**values: Any) -> dict[str, Any]:
    """Return the values that are not empty."""
    return {key: value for key, value in values.items() if value or (value == 0 and value is not False)}


def _storable(value: Any) -> Any:
    """Return a value without lone surrogates, which no JSON file can hold and which cleaning removes."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("", value)
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


def _box_of(box: Box) -> dict[str, Any]:
    return {"page": box.page, "x0": box.x0, "y0": box.y0, "x1": box.x1, "y1": box.y1}


def _run_of(run: TextRun) -> dict[str, Any]:
    box = _box_of(run.box) if run.box else None
    offsets = {"start": run.source_start, "end": run.source_end} if run.source_start is not None else {}
    locator = {} if run.locator is None else {"locator": run.locator}
    gaps = [list(gap) for gap in run.gaps]
    return {
        "text": run.text,
        **_given_values(box=box),
        **offsets,
        **locator,
        **_given_values(joined=run.joined, gaps=gaps),
    }


def _words_of(runs: Sequence[TextRun]) -> dict[str, Any]:
    if not runs:
        return {}
    values = [_run_of(run) for run in runs]
    if len(runs) > 1 or {"start", "joined", "gaps"} & values[0].keys():
        return {"runs": values}
    box = values[0].pop("box", None)
    return {**values[0], **_given_values(boxes=[box] if box else [])}


def _cell_of(cell: BlockCell) -> dict[str, Any]:
    spans = {"row_span": cell.row_span, "column_span": cell.column_span}
    wide = {key: span for key, span in spans.items() if span != 1}
    return {"row": cell.row, "column": cell.column, **_words_of(cell.runs), **wide, **_given_values(header=cell.header)}


def _element_of(block: Block) -> dict[str, Any]:
    cells = [_cell_of(cell) for cell in block.cells]
    marker = {} if block.marker is None else {"marker": block.marker}
    sure = {} if block.confidence == 1.0 else {"confidence": block.confidence}
    return {
        "kind": block.kind,
        **_given_values(level=block.level),
        **marker,
        **_words_of(block.runs),
        **_given_values(cells=cells),
        **sure,
        **_given_values(metadata=dict(block.metadata)),
    }
