"""Small documents for tests, made through the same assembly that parsers use."""

from __future__ import annotations

from pipelines.fingerprint import document_id
from pipelines.indexing.sentences import NoiseRules
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.parsing.elements import build_elements
from pipelines.records import (
    Block,
    BlockCell,
    Box,
    Element,
    ParsedDocument,
    ParsedFile,
    RawDocument,
    StructuralChunk,
    TextRun,
)
from pipelines.settings.base import ChunkingSettings, SentenceSettings

CLAUSE_TOKENS = ChunkingSettings().clause_tokens


def raw(uri: str = "notes/example.txt", source: str = "test", **changes: object) -> RawDocument:
    values: dict[str, object] = {
        "doc_id": document_id(source, uri),
        "source": source,
        "uri": uri,
        "content_hash": "0" * 32,
        "size": 1,
        "media_type": "text/plain",
        "title": None,
        "effective_date": None,
        "version": None,
        "groups": None,
        "source_groups": (),
        "metadata": {},
    }
    return RawDocument(**{**values, **changes})  # type: ignore[arg-type]


def heading(text: str, level: int = 1) -> Block:
    return Block("heading", (TextRun(text),), level=level)


def paragraph(text: str, page: int | None = None) -> Block:
    return Block("paragraph", (TextRun(text, Box(page, 72.0, 100.0, 500.0, 112.0) if page else None),))


def item(text: str) -> Block:
    return Block("list_item", (TextRun(text),), level=1, marker="•")


def table(*rows: tuple[str, ...], headers: int = 1) -> Block:
    cells = tuple(
        BlockCell(row, column, (TextRun(text),), header=row < headers)
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    )
    return Block("table", cells=cells)


def document(
    *blocks: Block, title: str | None = "A Title", language: str = "en"
) -> tuple[ParsedDocument, list[Element]]:
    properties = {"title": title} if title else {}
    return build_elements(raw(), ParsedFile(blocks, properties), lambda text: language)


def units(*blocks: Block, title: str | None = "A Title") -> tuple[ParsedDocument, list[Element], list[StructuralChunk]]:
    parsed, elements = document(*blocks, title=title)
    return parsed, elements, structural_chunks(parsed, elements, CLAUSE_TOKENS)


def noise_rules(**changes: object) -> NoiseRules:
    """Return the noise rules that the settings have by default, with changes."""
    shipped = SentenceSettings().model_dump(include=set(NoiseRules.__dataclass_fields__))
    return NoiseRules(**{**shipped, **changes})
