"""One file as its parser reads it, without an index: nothing is written, no model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import DocumentError, UsageError
from pipelines.fingerprint import document_id
from pipelines.indexing.elements import build_elements
from pipelines.records import Element, ParsedDocument, ParsedFile, RawDocument
from resources.parsers.ocr import OcrSettings
from resources.parsers.registry import MEDIA_TYPES, media_type_of, parse_file, require_size

if TYPE_CHECKING:
    from pipelines.settings import ParsingSettings


@dataclass(frozen=True, slots=True)
class Reading:
    """What the parser gave, and the elements made of it; the document's language is not detected."""

    path: Path
    parsed: ParsedFile
    document: ParsedDocument
    elements: list[Element]


def read(path: Path, parsing: ParsingSettings | None = None) -> Reading:
    """With the settings of parsing, or the defaults.

    Raises UsageError where there is no such file, DocumentError as an index run would report it."""
    if not path.is_file():
        raise UsageError(f"{path}: {'not a file: name one' if path.exists() else 'no such file'}")
    media_type = media_type_of(path)
    if media_type is None:
        raise DocumentError(
            f"{path.name}: no parser for this kind of file; known are {', '.join(sorted(MEDIA_TYPES))}", "unsupported"
        )
    raw = RawDocument(
        document_id("", path.name), "", path.name, "", path.stat().st_size, media_type, None, None, None, None, (), {}
    )
    ocr = OcrSettings(parsing.ocr, parsing.ocr_languages, parsing.ocr_seconds) if parsing else OcrSettings()
    require_size(path.name, raw.size, parsing.max_megabytes if parsing else None)
    try:
        parsed = parse_file(path, media_type, ocr=ocr)
        document, elements = build_elements(raw, parsed, lambda text: "")
    except DocumentError:
        raise
    except RecursionError:
        raise DocumentError(f"{path.name}: its structure is nested too deeply", "limit_exceeded") from None
    except OSError as error:
        raise DocumentError(f"{path.name}: the file cannot be read ({error.strerror})", "unreadable") from None
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        message = f"{path.name}: cannot be parsed ({reason}); open it and save it again"
        raise DocumentError(message, "corrupt") from error
    return Reading(path, parsed, document, elements)
