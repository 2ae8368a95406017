"""The schema of `NAME.elements.json`, and what is wrong with a map in words, by JSON path.

The models are the schema: docs/reference/elements.schema.json and docs/reference/elements.md are generated from them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from pipelines.groups import group_names, misnamed, require_few
from pipelines.parsing.elements import KINDS

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
    def _ordered(cls, value: float, info: Any) -> float:
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
    """Text with its places: `text` with `boxes`, or `runs` where each place is known exactly."""

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
    def _known(cls, kind: str) -> str:
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
    """What the file says of itself."""

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
        if wrong := next(misnamed({"metadata": metadata}), None):
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


# ---------------------------------------------------------------- what is wrong, in words

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
    """A JSON path such as `elements[12].boxes[0].page`."""
    path = ""
    for index, part in enumerate(location):
        if part in ("count", "sizes") and index and location[index - 1] == "pages":
            continue
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def problems_of(error: ValidationError, before: Sequence[str | int] = ()) -> Iterator[str]:
    """Every problem as `path: what is wrong`; `before` is the place of what was validated."""
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
    """The first cell that stands where another does, by its index, with what is wrong."""
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
