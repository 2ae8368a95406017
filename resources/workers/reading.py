"""One file as its parser reads it, without an index: nothing is written, no model is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import DocumentError, UsageError
from pipelines.fingerprint import document_id
from pipelines.records import Element, Failure, ParsedDocument, ParsedFile, RawDocument
from pipelines.schemas import from_table
from resources.parsers.registry import MEDIA_TYPES, media_type_of
from resources.workers.task import parse_task

if TYPE_CHECKING:
    from pipelines.settings.base import ParsingSettings
    from resources.workers.pool import DocumentPool


@dataclass(frozen=True, slots=True)
class Reading:
    """What the parser gave, and the elements made of it; the document's language is not detected."""

    path: Path
    parsed: ParsedFile
    document: ParsedDocument
    elements: list[Element]


@contextmanager
def reader(parsing: ParsingSettings | None = None) -> Iterator[Reader]:
    """What reads files in processes of their own, under the limits of these settings, or of the defaults."""
    from pipelines.settings.base import ParsingSettings
    from resources.workers.pool import DocumentPool

    settings = parsing or ParsingSettings()
    with DocumentPool(settings) as pool:
        yield Reader(pool, settings)


class Reader:
    """Reads single files that belong to no source. `pool` works on one file at a time."""

    def __init__(self, pool: DocumentPool, settings: ParsingSettings) -> None:
        self.pool, self._settings = pool, settings

    def read(self, path: Path) -> Reading:
        """Raises UsageError where there is no such file, DocumentError as an index run would report it."""
        if not path.is_file():
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
        return Reading(path, parsed, document, from_table(Element, made.tables["parsed_elements"]))


def listed_alone(path: Path, readers: Mapping[str, str] | None = None) -> tuple[RawDocument, Path]:
    """A file as a document of no source, and the folder that it is in; a link is followed, since a person named it."""
    found = path.resolve()
    raw = RawDocument(
        document_id("", path.name), "", found.name, "", found.stat().st_size, media_type_of(path, readers) or "", None,
        None, None, None, (), {},
    )  # fmt: skip
    return raw, found.parent
