"""Requests to a pool about one document: parsing it, and drawing pictures of its figures and pages.

Documents are not trusted: they are parsed, decoded and drawn in separate processes (resources/documents/pool.py). A
picture or page that crashes a process affects neither others nor the caller. Nothing is written, and no model is
loaded.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import DocumentError, UsageError
from pipelines.fingerprint import document_id
from pipelines.records import Element, Failure, FigurePicture, PagePicture, ParsedDocument, ParsedFile, RawDocument
from pipelines.schemas import from_table
from resources.documents.figures import figure_name
from resources.documents.page_pictures import LONGEST_SIDE, PAD, RenderedPage
from resources.documents.protocol import InputRows, Task, parse_task
from resources.parsers.registry import MEDIA_TYPES, media_type_of
from resources.sources.files import Place

if TYPE_CHECKING:
    from pipelines.settings.base import ParsingSettings
    from resources.documents.pool import DocumentPool


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class ReadFile:
    """The parser's result for one file, and its elements. The document's language is not detected."""

    path: Path
    parsed: ParsedFile
    document: ParsedDocument
    elements: list[Element]


@contextmanager
def reader(parsing: ParsingSettings | None = None) -> Iterator[FileReader]:
    """Open a reader of files in worker processes, under the limits of these settings, or of the defaults."""
    from pipelines.settings.base import ParsingSettings
    from resources.documents.pool import DocumentPool

    settings = parsing or ParsingSettings()
    with DocumentPool(settings) as pool:
        yield FileReader(pool, settings)


class FileReader:
    """A reader of single files that belong to no source. `pool` works on one file at a time."""

    def __init__(self, pool: DocumentPool, settings: ParsingSettings) -> None:
        self.pool, self._settings = pool, settings

    def read(self, path: Path) -> ReadFile:
        """Read a file. Raise UsageError if the file does not exist, and the DocumentError of an index run."""
        if not path.is_file():
            if path.is_dir():
                raise UsageError(f"{path}: this is a folder; name one file, or index it with `pincite index {path}`")
            raise UsageError(f"{path}: {'not a file: name one' if path.exists() else 'no such file'}")
        if media_type_of(path) is None:
            raise DocumentError(
                f"{path.name}: no parser for this kind of file; known are {', '.join(sorted(MEDIA_TYPES))}",
                "unsupported",
            )
        raw, root = listed_alone(path, self._settings.readers)
        task = parse_task(raw, root, self._settings, "look")
        ((_, made),) = self.pool.run([task], 1)
        if isinstance(made, Failure):
            raise DocumentError(made.message, made.code)
        (parsed,) = from_table(ParsedFile, made.tables["parsed_files"])
        (document,) = from_table(ParsedDocument, made.tables["parsed_documents"])
        return ReadFile(path, parsed, document, from_table(Element, made.tables["parsed_elements"]))


def listed_alone(path: Path, readers: Mapping[str, str] | None = None) -> tuple[RawDocument, Path]:
    """Return a file as a document without a source, and its folder. Links are followed, since a person named the
    file."""
    found = path.resolve()
    raw = RawDocument(
        document_id("", path.name), "", found.name, "", found.stat().st_size, media_type_of(path, readers) or "", None,
        None, None, None, (), {},
    )  # fmt: skip
    return raw, found.parent


# ---------------------------------------------------------------- figures


STAGE = "figure_descriptions"
FIGURES_A_BATCH = 16
"""Figures in one task, which bounds the pictures in memory, since a task is answered as a whole."""


def figure_images(
    pool: DocumentPool, raw: RawDocument, root: Place, figures: Sequence[Element]
) -> Iterator[bytes | str]:
    """Yield for each figure in order its picture, or the reason why there is no picture. `root` is the place of the
    document's file."""
    for start in range(0, len(figures), FIGURES_A_BATCH):
        batch = figures[start : start + FIGURES_A_BATCH]
        rows = InputRows("parsed_elements", Element, batch)
        task = Task("figure_pictures", raw.doc_id, raw.source, raw.uri, {}, rows,
                    raw=raw, root=root, without=frozenset(), stage=STAGE)  # fmt: skip
        ((task, made),) = pool.run([task], 1)
        found: dict[int, FigurePicture] = {}
        reason = made.message if isinstance(made, Failure) else "what reads its picture crashed, or took too long"
        if not isinstance(made, Failure):
            found = {row.index: row for row in from_table(FigurePicture, made.tables["figure_pictures"])}
        for figure in batch:
            row = found.get(figure.index)
            yield (row.picture or row.reason) if row else f"{figure_name(Path(raw.uri), figure)}: {reason}"


# ---------------------------------------------------------------- pages


MOST_PAGES = 1_000_000
"""Highest page number that can be requested. The parser reads fewer pages of any PDF, so a higher number is a
mistake."""
PAGES_A_BATCH = 8
"""Pages in one task. All of them are drawn before the first one is returned."""


class DrawnPages:
    """The pages of a PDF, 1-based, drawn in worker processes (resources/documents/pool.py)."""

    def __init__(self, pool: DocumentPool, raw: RawDocument, root: Place) -> None:
        self._pool, self._raw, self._root = pool, raw, root
        self._count: int | None = None

    def __len__(self) -> int:
        """Return the number of pages. Raise DocumentError if the file cannot be opened."""
        if self._count is None:
            self._draw([])
        assert self._count is not None
        return self._count

    def require(self, number: int, count: int | None = None) -> None:
        """Raise DocumentError `no_page` if a file of `count` pages has no page of this number, or if no file could have
        it. No process is started."""
        if not 1 <= number <= (count or MOST_PAGES):
            name = self._raw.uri.rpartition("/")[2]
            raise DocumentError(f"{name} has no page {number}" + (f"; it has {count}" if count else ""), "no_page")

    def pictures(self, numbers: Sequence[int]) -> Iterator[tuple[int, RenderedPage | DocumentError]]:
        """Yield these pages in order, each as a picture or as the error why it cannot be drawn."""
        for start in range(0, len(numbers), PAGES_A_BATCH):
            batch = numbers[start : start + PAGES_A_BATCH]
            able = [number for number in batch if 1 <= number <= MOST_PAGES]
            found = self._draw(able) if able else {}
            for number in batch:
                yield number, self._check(number, found.get(number))

    def picture(self, number: int) -> RenderedPage:
        """Draw a page. Raise DocumentError `no_page` if the page does not exist, `corrupt` if it cannot be drawn."""
        ((_, found),) = self.pictures([number])
        if isinstance(found, DocumentError):
            raise found
        return found

    def _draw(self, numbers: Sequence[int]) -> dict[int, PagePicture]:
        raw = self._raw
        task = Task("page_pictures", raw.doc_id, raw.source, raw.uri, {"pages": list(numbers)}, raw=raw,
                    root=self._root, without=frozenset())  # fmt: skip
        ((_, made),) = self._pool.run([task], 1)
        if isinstance(made, Failure):
            raise DocumentError(made.message, made.code)
        rows = from_table(PagePicture, made.tables["page_pictures"])
        self._count = max((row.pages for row in rows), default=0)
        return {row.index: row for row in rows}

    def _check(self, number: int, row: PagePicture | None) -> RenderedPage | DocumentError:
        from PIL import Image

        name = self._raw.uri.rpartition("/")[2]
        try:
            self.require(number)
        except DocumentError as error:
            return error
        if number > len(self):
            return DocumentError(f"{name} has no page {number}; choose one up to {len(self)}", "no_page")
        if row is None or not row.picture:
            reason = row.reason if row else f"{name}: page {number} crashes what draws it, or takes too long"
            return DocumentError(reason, "corrupt")
        try:
            image = Image.open(io.BytesIO(row.picture), formats=["PNG"])
            if max(image.size) > LONGEST_SIDE + PAD:
                return DocumentError(f"{name}: page {number} was drawn larger than requested", "corrupt")
            return RenderedPage(image.convert("RGB"), row.scale)
        except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
            return DocumentError(f"{name}: the process that draws page {number} gives no picture", "corrupt")
