"""`pincite parse`: what the parser finds in one file, to read or to look at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pincite.console import Progress, say
from pipelines.errors import DocumentError, UsageError
from pipelines.records import Element
from resources.parsers.registry import map_beside
from resources.reading import listed_alone, reader

if TYPE_CHECKING:
    from pipelines.settings import ParsingSettings
    from resources.drawn_pages import DrawnPages
    from resources.reading import Reader, Reading

MOST_PAGE = 10_000_000


def pages_from(argument: str) -> list[range]:
    """`3-7,12` as ranges of pages; `5-` goes on to the last. Raises UsageError."""
    ranges = []
    for part in argument.split(","):
        found = re.fullmatch(r"\s*+(\d{1,7})\s*+(-\s*+(\d{0,7}))?\s*+", part)
        first = int(found[1]) if found else 0
        last = int(found[3] or MOST_PAGE) if found and found[2] else first
        if not 1 <= first <= last:
            raise UsageError(f"--pages {argument!r}: write pages and ranges by commas, such as 3-7,12")
        ranges.append(range(first, last + 1))
    return ranges


def _within(elements: Iterable[Element], ranges: list[range]) -> list[Element]:
    """Elements that stand, at least in part, on the pages."""
    return [
        element
        for element in elements
        if element.page_start is not None
        and any(element.page_start < r.stop and (element.page_end or element.page_start) >= r.start for r in ranges)
    ]


def parse_command(
    path: Path,
    as_json: bool = False,
    markdown: bool = False,
    image: Path | None = None,
    pages: str | None = None,
    parsing: ParsingSettings | None = None,
) -> str | dict[str, Any]:
    """What is to be printed: text, or a JSON value. Raises UsageError, DocumentError."""
    if markdown and (as_json or image):
        raise UsageError("--markdown stands alone: leave out --json and --image")
    if as_json and pages and not image:
        raise UsageError("--json is the whole document: leave out --pages")
    ranges = pages_from(pages) if pages else []
    try:
        with reader(parsing) as files:
            reading = files.read(path)
            if map_beside(path).is_file():
                say(f"note: read without its map, {map_beside(path).name}, which `pincite index` takes in its place")
            if ranges and not reading.document.pages:
                raise DocumentError(f"{path.name} has no pages: leave out --pages", "no_pages")
            count = reading.document.pages or 0
            if ranges and all(chosen.start > count for chosen in ranges):
                raise DocumentError(f"{path.name} has {count} pages, none of those asked for", "no_page")
            if image:
                return _drawn(files, reading, image, ranges, as_json)
            return _shown(reading, as_json, markdown, ranges)
    except DocumentError as error:
        raise error if as_json else DocumentError(f"{error.code}: {error}", error.code) from error


def _shown(reading: Reading, as_json: bool, markdown: bool, ranges: list[range]) -> str | dict[str, Any]:
    from pincite.outline import outline_shown
    from pipelines.indexing.markdown_view import markdown_of

    if as_json:
        from resources.parsers.element_map import to_map

        return to_map(reading.parsed)
    elements = _within(reading.elements, ranges) if ranges else reading.elements
    if markdown:
        for warning in reading.document.warnings:
            say(f"warning: {warning}")
        return markdown_of(elements).rstrip("\n")
    return outline_shown(reading.document, reading.parsed, elements)


# ---------------------------------------------------------------- pictures


def _drawn(files: Reader, reading: Reading, folder: Path, ranges: list[range], as_json: bool) -> str | dict[str, Any]:
    from resources.drawn_pages import DrawnPages
    from resources.page_pictures import pages_beside

    source = pages_beside(reading.path)
    if source is None:
        beside = " and no PDF stands beside it" if reading.path.name.endswith(".json") else ""
        raise DocumentError(
            f"{reading.path.name}: only pages of a PDF can be drawn{beside}; read it with --markdown", "no_pages"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--image {folder}: not a folder that can be written to ({error.strerror})") from None
    pages = DrawnPages(files.pool, *listed_alone(source))
    chosen = [n for n in range(1, len(pages) + 1) if not ranges or any(n in r for r in ranges)]
    if not chosen:
        raise DocumentError(f"{source.name} has {len(pages)} pages, none of those asked for", "no_page")
    images, problems = _draw_pages(reading, pages, chosen, folder / source.stem)
    notes = [*reading.document.warnings, *problems]
    unplaced = sum(e.kind != "break" and all(place.box is None for place in e.places) for e in reading.elements)
    if unplaced:
        notes.append(f"elements without a box, which are not drawn: {unplaced}")
    if as_json:
        return {"images": images, "warnings": notes}
    return "\n".join([*images, *(f"warning: {note}" for note in notes)])


def _draw_pages(reading: Reading, pages: DrawnPages, chosen: list[int], stem: Path) -> tuple[list[str], list[str]]:
    """Paths of the pictures written, and what is wrong with pages that could not be drawn."""
    from pipelines.indexing.page_marks import marks_of
    from resources.page_pictures import annotated, write

    marks, progress = marks_of(reading.elements), Progress()
    images: list[str] = []
    problems: list[str] = []
    try:
        for done, (number, picture) in enumerate(pages.pictures(chosen), start=1):
            if isinstance(picture, DocumentError):
                problems.append(str(picture))
                continue
            target = stem.with_name(f"{stem.name}-p{number:04d}.png")
            write(annotated(picture, marks.get(number, []), f"page {number} of {len(pages)}"), target)
            images.append(str(target))
            progress("drawing", done, len(chosen))
    finally:
        progress.close()
    if not images:
        raise DocumentError(problems[0], "corrupt")
    return images, problems
