"""One parsed file: its structural map, its elements, and pictures of its pages. No index is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, UsageError
from pipelines.plural import plural
from pipelines.records import Element
from resources.documents.requests import listed_alone, reader
from resources.parsers.registry import map_beside
from resources.private_files import for_the_user

if TYPE_CHECKING:
    from pipelines.settings.base import ParsingSettings
    from resources.documents.requests import DrawnPages, FileReader, ReadFile

MOST_PAGE = 10_000_000


def pages_from(argument: str) -> list[range]:
    """Return ranges of pages from text such as `3-7,12`; `5-` extends to the last page. Raises UsageError."""
    ranges = []
    for part in argument.split(","):
        found = re.fullmatch(r"\s*+(\d{1,7})\s*+(-\s*+(\d{0,7}))?\s*+", part)
        first = int(found[1]) if found else 0
        last = int(found[3] or MOST_PAGE) if found and found[2] else first
        if not 1 <= first <= last:
            raise UsageError(f"--pages {argument!r}: write pages and ranges separated by commas, such as 3-7,12")
        ranges.append(range(first, last + 1))
    return ranges


@contextmanager
def open_parsed(path: Path, parsing: ParsingSettings, progress: Callable[[str, int, int], None]) -> Iterator[Parsed]:
    """Yield the parser's result for a file, which is valid inside the context. Raises UsageError and DocumentError."""
    with reader(parsing) as files:
        yield Parsed(files, files.read(path), progress)


class Parsed:
    """A parsed file.

    Parameters `pages` are ranges of page numbers; an empty list means all pages. Raises DocumentError `no_pages` or
    `no_page` if the document lacks these pages.
    """

    def __init__(self, files: FileReader, reading: ReadFile, progress: Callable[[str, int, int], None]) -> None:
        self._files, self._progress = files, progress
        self.reading = reading

    @property
    def map_beside(self) -> Path | None:
        """The structural map beside the file that `pincite index` would read in its place. This class does not read
        it."""
        beside = map_beside(self.reading.path)
        return beside if beside.is_file() else None

    def map(self) -> dict[str, Any]:
        """Return the structural map of the whole document."""
        from resources.parsers.elements_map import to_map

        return to_map(self.reading.parsed)

    def elements(self, pages: Sequence[range] = ()) -> list[Element]:
        """Return the elements in reading order; with `pages`, those that are at least partly on them."""
        self._require(pages)
        return _on_pages(self.reading.elements, pages) if pages else self.reading.elements

    def draw(self, folder: Path, pages: Sequence[range] = ()) -> dict[str, Any]:
        """Write a PNG of each page into the folder, with the elements in the colours of their kinds.

        Returns {"images", "warnings"}: the written paths, and the pages that could not be drawn.
        """
        self._require(pages)
        source = self._pages_source()
        try:
            with for_the_user():
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"--image {folder}: the folder cannot be written to ({error.strerror}); name another one"
            ) from None
        from resources.documents.requests import DrawnPages

        drawn = DrawnPages(self._files.pool, *listed_alone(source))
        chosen = [n for n in range(1, len(drawn) + 1) if not pages or any(n in r for r in pages)]
        if not chosen:
            raise DocumentError(
                f"{source.name} has {plural(len(drawn), 'page')}, so those of --pages do not exist; name others",
                "no_page",
            )
        images, problems = self._draw(drawn, chosen, folder / source.stem)
        warnings = [*self.reading.document.warnings, *problems]
        elements = self.reading.elements
        unplaced = sum(e.kind != "break" and all(place.box is None for place in e.places) for e in elements)
        if unplaced:
            warnings.append(f"elements without a box, which are not drawn: {unplaced}")
        return {"images": images, "warnings": warnings}

    def _require(self, pages: Sequence[range]) -> None:
        name, count = self.reading.path.name, self.reading.document.pages or 0
        if pages and not count:
            raise DocumentError(f"{name} has no pages: leave out --pages", "no_pages")
        if pages and all(chosen.start > count for chosen in pages):
            raise DocumentError(
                f"{name} has {plural(count, 'page')}, so those of --pages do not exist; name others", "no_page"
            )

    def _pages_source(self) -> Path:
        """Return the PDF whose pages can be drawn: the file, or the one beside a map."""
        from resources.documents.page_pictures import pages_beside

        path = self.reading.path
        source = pages_beside(path)
        if source is None:
            beside = " and no PDF stands beside it" if path.name.endswith(".json") else ""
            raise DocumentError(
                f"{path.name}: only pages of a PDF can be drawn{beside}; read it with --markdown", "no_pages"
            )
        return source

    def _draw(self, drawn: DrawnPages, chosen: list[int], stem: Path) -> tuple[list[str], list[str]]:
        """Return the paths of the pictures, and messages about pages that could not be drawn."""
        from pipelines.parsing.page_marks import marks_of
        from resources.documents.page_pictures import annotate, write

        marks = marks_of(self.reading.elements)
        images: list[str] = []
        problems: list[str] = []
        for done, (number, picture) in enumerate(drawn.pictures(chosen), start=1):
            if isinstance(picture, DocumentError):
                problems.append(str(picture))
                continue
            target = stem.with_name(f"{stem.name}-p{number:04d}.png")
            write(annotate(picture, marks.get(number, []), f"page {number} of {len(drawn)}"), target)
            images.append(str(target))
            self._progress("drawing", done, len(chosen))
        if not images:
            raise DocumentError(problems[0], "corrupt")
        return images, problems


def _on_pages(elements: Iterable[Element], ranges: Sequence[range]) -> list[Element]:
    """Return the elements that are at least partly on the pages."""
    return [
        element
        for element in elements
        if element.page_start is not None
        and any(element.page_start < r.stop and (element.page_end or element.page_start) >= r.start for r in ranges)
    ]
