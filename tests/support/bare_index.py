"""All that is served, over an index of one document that says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

from pincite.serve.service import Service
from pipelines.errors import DocumentError, IndexStateError
from pipelines.records import Element
from pipelines.settings.base import settings_from
from resources.evaluation.suggest import Example
from resources.search.documents import Browsed, Choice, Counted, DocumentText, FoundDocument, SentenceInPlace
from resources.search.passages import with_documents
from resources.settings_file import Project

URL = "http://127.0.0.1:8750"
COUNTED = Counted(1, 1, {"source": (("s", 1),), "kind": (("pdf", 1),), "language": (("", 1),), "year": (("none", 1),)})
DOCUMENT = FoundDocument(1, "d", "s", "a.pdf", "", "", None, None, None, "", {}, "", False, "")

PASSAGE: dict[str, Any] = {
    "rank": None, "score": None, "scores": {}, "ranks": {}, "chunk_id": "c", "doc_id": "d", "source": "s",
    "uri": "a.pdf", "title": "", "page_start": None, "page_end": None, "header_chain": [], "block_types": [],
    "text": "", "overlap": "", "context": "", "generated": [], "boxes": [], "paragraph": None, "duplicates": [],
    "spans": [], "sentence": None, "generation": 1, "images": [],
}  # fmt: skip


class Bare:
    """An index of one document that says nothing, with one passage and one sentence that say nothing."""

    def __init__(self, elements: Sequence[Element] | None) -> None:
        self.documents = self.files = self
        self.shows(elements)

    def shows(self, elements: Sequence[Element] | None) -> None:
        self._text = DocumentText("", tuple(elements)) if elements is not None else None

    def says(self, body: str, elements: Sequence[Element]) -> None:
        self._text = DocumentText(body, tuple(elements))

    def keep_connections(self, most: int) -> None: ...

    def one(self, doc_id: str, groups: Sequence[str]) -> FoundDocument:
        if doc_id != "d":
            raise IndexStateError("there is no document that you may see", "unknown_document")
        return DOCUMENT

    def list_documents(self, groups: Sequence[str], after: str, most: int) -> list[FoundDocument]:
        return [DOCUMENT]

    def overview(self, groups: Sequence[str], doc_ids: Sequence[str]) -> tuple[Counted, set[str]]:
        return COUNTED, {"d"} & set(doc_ids)

    def browse(self, groups: Sequence[str], choice: Choice, page: int) -> Browsed:
        counted, _ = self.overview(groups, ())
        return Browsed(counted, tuple(self.list_documents(groups, "", 1)), 1, 1)

    def read_at(self) -> dict[str, datetime]:
        return {}

    def examples(self) -> Iterator[Example]:
        yield Example("What is in it?", "d")

    def text(self, document: FoundDocument) -> DocumentText | None:
        return self._text

    def content(self, document: FoundDocument) -> Iterator[bytes]:
        yield b""

    def pages(self, document: FoundDocument) -> Any:
        raise DocumentError("a.pdf: only pages of a PDF can be drawn", "no_pages")

    def show(self, chunk_id: str, groups: Sequence[str]) -> dict[str, Any]:
        if chunk_id != "c":
            raise IndexStateError("there is no passage that you may see", "unknown_chunk")
        return dict(PASSAGE)

    def sentences_in_place(self, chunk_ids: Sequence[str], groups: Sequence[str]) -> dict[str, list[SentenceInPlace]]:
        return {"c": [SentenceInPlace("c", "s", "", 0, None, [])]}

    def query(self, text: str, *given: Any) -> dict[str, Any]:
        hit = {**PASSAGE, "rank": 1, "score": 0.0}
        return with_documents({"query": text, "generation": 1, "hits": [hit], "seconds": 0.0, "notes": []})

    def ask(self, text: str, *given: Any) -> dict[str, Any]:
        cited = {"uri": "a.pdf", "page": None, "quote": "", "chunk_id": "c", "source": "s", "sentence_id": "s"}
        if given and callable(given[-1]):
            given[-1]({name: value for name, value in self.query(text).items() if name != "notes"})
        return with_documents({**self.query(text), "answer": "", "declined": False, "generated": False, "model": None,
                               "citations": [cited]})  # fmt: skip

    def asked_status(self, groups: Sequence[str], operator: bool) -> dict[str, Any]:
        return {"live": 1, "sources": [], "failures": [], "failures_untold": [], "generations": [], "runs": [],
                "workers": []}  # fmt: skip


def bare_service(elements: Sequence[Element] | None = (), index: Bare | None = None, **serve: Any) -> Service:
    """The service over an index of one bare document, whose text has moved where `elements` is None. `serve` are
    settings of the server."""
    project = Project(settings_from({"serve": serve}), None, Path("state"), Path())
    with mock.patch("pincite.serve.service.open_index", lambda project, seconds: index or Bare(elements)):
        return Service(project)
