"""Corpora and questions of the chunking evaluation, and where chunks of the body stand in the source."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pipelines.evaluation.document_map import merge_spans
from pipelines.evaluation.judging import Spans
from pipelines.fingerprint import document_id
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.parsing.elements import build_elements
from pipelines.records import Element, ParsedDocument, Place, RawDocument, StructuralChunk
from pipelines.settings.base import ChunkingSettings
from resources.models.text_models import detect_language
from resources.parsers.registry import media_type_of, parse_file


@dataclass
class Document:
    name: str
    source: str
    parsed: ParsedDocument
    elements: list[Element]

    @cached_property
    def units(self) -> list[StructuralChunk]:
        return structural_chunks(self.parsed, self.elements, ChunkingSettings().clause_tokens)

    @cached_property
    def places(self) -> list[Place]:
        return [place for element in self.elements for place in element.places if place.source_start is not None]

    def in_source(self, spans: Spans) -> list[tuple[int, int]]:
        """Spans of the body as spans of the source: from where the first character stands to where the
        last one does; spans with nothing but space between them are one."""
        found: list[tuple[int, int]] = []
        for start, end in merge_spans(self._hull(start, end) for start, end in spans):
            if found and not self.source[found[-1][1] : start].strip():
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
        return found

    def _hull(self, start: int, end: int) -> tuple[int, int]:
        inside = [place for place in self.places if place.start < end and start < place.end]
        return min(_at(place, start) for place in inside), max(_at(place, end) for place in inside)


def _at(place: Place, offset: int) -> int:
    """Where an offset of the body stands in the source, in proportion where cleaning shortened a place."""
    assert place.source_start is not None and place.source_end is not None
    scale = (place.source_end - place.source_start) / (place.end - place.start)
    return place.source_start + round((min(max(offset, place.start), place.end) - place.start) * scale)


@dataclass(frozen=True)
class Question:
    text: str
    document: str
    gold: list[tuple[int, int]]


def documents_in(folder: Path) -> list[Document]:
    found = []
    for path in sorted(folder.glob("*.md")):
        media_type = media_type_of(path)
        assert media_type is not None
        source = path.read_bytes().decode()
        doc_id, size = document_id("chunking", path.name), len(source)
        raw = RawDocument(doc_id, "chunking", path.name, "", size, media_type, None, None, None, None, (), {})
        parsed, elements = build_elements(raw, parse_file(path, media_type), detect_language)
        found.append(Document(path.stem, source, parsed, elements))
    return found


def questions_in(folder: Path) -> list[Question]:
    with (folder / "questions.csv").open(newline="", encoding="utf-8") as file:
        return [
            Question(
                row["question"],
                row["corpus_id"],
                merge_spans((gold["start_index"], gold["end_index"]) for gold in json.loads(row["references"])),
            )
            for row in csv.DictReader(file)
        ]
