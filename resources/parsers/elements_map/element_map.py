"""`NAME.elements.json`: the structure that an external extractor found, read and written.

docs/reference/elements.md describes the file. A map is taken as it is, once it is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pipelines.errors import DocumentError
from pipelines.fingerprint import combined
from pipelines.parsing.pictures import FIGURE, IMAGE_HASH
from pipelines.records import Block, BlockCell, Box, ParsedFile, Run
from resources.hashes import content_hash
from resources.parsers.elements_map.element_schema import (
    OFF_PAGE_POINTS,
    PROPERTIES,
    VERSION,
    ElementMap,
    MapBox,
    MapCell,
    MapElement,
    MapPage,
    MapRun,
    overlapping,
    path_of,
    problems_of,
)

ORIGIN = "elements.json"
MOST_BYTES = 256 << 20
SHOWN_PROBLEMS, SHOWN_CHARACTERS = 5, 300
_SURROGATE = re.compile("[\ud800-\udfff]")
_ELEMENT = TypeAdapter(MapElement)

# ---------------------------------------------------------------- reading


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError `element_map` naming what is wrong, by JSON path where it can: what the map meant to say of
    groups is unknown then."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        message = f"{path.name}: {size >> 20} MB, over the {MOST_BYTES >> 20} MB that a map may have: divide it"
        raise DocumentError(message, "element_map")
    try:
        values = json.loads(path.read_bytes(), object_pairs_hook=_each_once)
    except (ValueError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path.name}: not valid JSON ({error}): write it again", "element_map") from None
    except RecursionError:
        raise DocumentError(f"{path.name}: its JSON is nested too deeply to be a map", "element_map") from None
    return _with_pictures_named(parse_map(values, path.name), path.with_name(path.name.removesuffix(f".{ORIGIN}")))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises ValueError where a key is given twice, since one of the two would be lost."""
    made: dict[str, Any] = {}
    for key, value in pairs if len(dict(pairs)) != len(pairs) else ():
        if key in made:
            raise ValueError(f"{key!r} is given twice")
        made[key] = value
    return dict(pairs)


def _with_pictures_named(parsed: ParsedFile, pages: Path) -> ParsedFile:
    """Figures that are cut out of the pages of the PDF beside a map are named by it and their places: a map
    that stayed as it was must not keep what was said of other pages."""
    if pages.suffix.lower() != ".pdf" or not pages.is_file():
        return parsed
    boxes = [[run.box for run in block.runs if run.box] if block.kind == FIGURE else [] for block in parsed.blocks]
    if not any(boxes):
        return parsed
    file = content_hash(pages)
    blocks = (
        replace(block, metadata={**block.metadata, IMAGE_HASH: combined([file, *map(repr, places)])})
        if places
        else block
        for block, places in zip(parsed.blocks, boxes, strict=True)
    )
    return replace(parsed, blocks=tuple(blocks))


def parse_map(values: Any, name: str) -> ParsedFile:
    """A map from plain values. Raises DocumentError `element_map`."""
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
        found = list(_misplaced(element, index, head.pages))
        problems.add(len(found), found)
        blocks.append(_block(element))
    problems.refuse()
    count = len(head.pages) if isinstance(head.pages, list) else head.pages
    return ParsedFile(tuple(blocks), _properties(head), count, tuple(head.warnings), head.origin or ORIGIN)


class _Problems:
    """The first problems of a map, and how many there are."""

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


def _misplaced(element: MapElement, index: int, pages: int | list[MapPage] | None) -> Iterator[str]:
    """What is wrong with an element only in its document or its table."""
    for where, box in _boxes(element):
        problem = _outside(box, pages)
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


def _outside(box: MapBox, pages: int | list[MapPage] | None) -> str:
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


def _run(run: MapRun) -> Run:
    gaps = tuple((end, start) for end, start in run.gaps)
    return Run(run.text, _box(run.box), run.start, run.end, run.locator, run.joined, gaps)


def _runs(words: MapElement | MapCell, table_box: MapBox | None = None, code: bool = False) -> tuple[Run, ...]:
    if words.runs is not None:
        return tuple(map(_run, words.runs))
    if words.text is None:
        return ()
    boxes = words.boxes or ([table_box] if table_box is not None else [])
    if len(boxes) < 2:
        return (Run(words.text, _box(boxes[0]) if boxes else None, locator=words.locator),)
    return tuple(
        Run(text, _box(box), locator=words.locator) for text, box in _divided(words.text, boxes, "\n" if code else " ")
    )


def _divided(text: str, boxes: Sequence[MapBox], separator: str) -> Iterator[tuple[str, MapBox]]:
    """The words of a text over its boxes, as many characters in each as its share of the area."""
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
    """The map of a parsed file as plain values for JSON; `parse_map` gives the same blocks back."""
    free = {key: value for key, value in parsed.properties.items() if key not in PROPERTIES}
    groups = [group.strip() for group in parsed.properties.get("groups", "").split(",") if group.strip()]
    named = {key: parsed.properties[key] for key in PROPERTIES if key != "groups" and key in parsed.properties}
    document = {**named, **_given(groups=groups, metadata=free)}
    head = {
        "version": VERSION,
        **_given(origin=parsed.origin, document=document, pages=parsed.pages, warnings=list(parsed.warnings)),
    }
    values: dict[str, Any] = _storable({**head, "elements": [_element_of(block) for block in parsed.blocks]})
    return values


def _given(**values: Any) -> dict[str, Any]:
    """Without what says nothing."""
    return {key: value for key, value in values.items() if value or (value == 0 and value is not False)}


def _storable(value: Any) -> Any:
    """Without lone surrogates, which no JSON file can hold and cleaning removes."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("", value)
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


def _box_of(box: Box) -> dict[str, Any]:
    return {"page": box.page, "x0": box.x0, "y0": box.y0, "x1": box.x1, "y1": box.y1}


def _run_of(run: Run) -> dict[str, Any]:
    box = _box_of(run.box) if run.box else None
    offsets = {"start": run.source_start, "end": run.source_end} if run.source_start is not None else {}
    locator = {} if run.locator is None else {"locator": run.locator}
    gaps = [list(gap) for gap in run.gaps]
    return {"text": run.text, **_given(box=box), **offsets, **locator, **_given(joined=run.joined, gaps=gaps)}


def _words_of(runs: Sequence[Run]) -> dict[str, Any]:
    if not runs:
        return {}
    values = [_run_of(run) for run in runs]
    if len(runs) > 1 or {"start", "joined", "gaps"} & values[0].keys():
        return {"runs": values}
    box = values[0].pop("box", None)
    return {**values[0], **_given(boxes=[box] if box else [])}


def _cell_of(cell: BlockCell) -> dict[str, Any]:
    spans = {"row_span": cell.row_span, "column_span": cell.column_span}
    wide = {key: span for key, span in spans.items() if span != 1}
    return {"row": cell.row, "column": cell.column, **_words_of(cell.runs), **wide, **_given(header=cell.header)}


def _element_of(block: Block) -> dict[str, Any]:
    cells = [_cell_of(cell) for cell in block.cells]
    marker = {} if block.marker is None else {"marker": block.marker}
    sure = {} if block.confidence == 1.0 else {"confidence": block.confidence}
    return {
        "kind": block.kind,
        **_given(level=block.level),
        **marker,
        **_words_of(block.runs),
        **_given(cells=cells),
        **sure,
        **_given(metadata=dict(block.metadata)),
    }
