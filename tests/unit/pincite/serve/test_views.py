"""Every view of documents whose elements say nothing: pages, JSON and tools open all of them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pincite.serve.access import Anybody, Asker
from pincite.serve.app import application
from pincite.serve.mcp_tools import Fetch, Tools
from pincite.serve.service import Service
from pipelines.errors import DocumentError, IndexStateError
from pipelines.parsing.elements import KINDS
from pipelines.records import Cell, Element
from pipelines.settings.base import settings_from
from resources.search.documents import DocumentText, FoundDocument, SentenceInPlace
from resources.settings_file import Project

URL = "http://127.0.0.1:8750"
DOCUMENT = FoundDocument(1, "d", "s", "a.pdf", "", "", None, None, None, "", {}, "", False, "")
PLAIN = Element("d", 0, "paragraph", None, None, "", 0, 0, None, None, (), (), 1.0, "", {})
BLANK = Cell(0, 0, 1, 1, False, 0, 0, "")
SHAPES: dict[str, dict[str, Any]] = {
    "nothing": {}, "blank": {"text": " "}, "no body": {"text": "gone", "start": 90, "end": 94},
    "level 0": {"level": 0}, "level 99": {"level": 99}, "no marker": {"marker": ""},
    "one empty cell": {"cells": (BLANK,)}, "no span": {"cells": (replace(BLANK, row_span=0, column_span=0),)},
    "empty header": {"cells": (replace(BLANK, header=True), replace(BLANK, row=3, column=2))},
    "first page": {"page_start": 1, "page_end": 1}, "no alt": {"metadata": {"alt": "", "language": ""}},
}  # fmt: skip
PASSAGE: dict[str, Any] = {
    "rank": None, "score": None, "scores": {}, "ranks": {}, "chunk_id": "c", "doc_id": "d", "source": "s",
    "uri": "a.pdf", "title": "", "page_start": None, "page_end": None, "header_chain": [], "block_types": [],
    "text": "", "overlap": "", "context": "", "generated": [], "boxes": [], "paragraph": None, "duplicates": [],
    "spans": [], "sentence": None, "generation": 1, "images": [],
}  # fmt: skip


class Bare:
    """An index of one document that says nothing, with one passage and one sentence that say nothing."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self.documents = self.files = self
        self._text: DocumentText | None = DocumentText("", tuple(elements))

    def keep_connections(self, most: int) -> None: ...

    def one(self, doc_id: str, groups: Sequence[str]) -> FoundDocument:
        if doc_id != "d":
            raise IndexStateError("there is no document that you may see", "unknown_document")
        return DOCUMENT

    def listed(self, groups: Sequence[str], after: str, most: int) -> list[FoundDocument]:
        return [DOCUMENT]

    def text(self, document: FoundDocument) -> DocumentText | None:
        return self._text

    def content(self, document: FoundDocument) -> Iterator[bytes]:
        return iter([b""])

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
        return {"query": text, "generation": 1, "hits": [hit], "seconds": 0.0, "notes": []}

    def ask(self, text: str, *given: Any) -> dict[str, Any]:
        cited = {"uri": "a.pdf", "page": None, "quote": "", "chunk_id": "c", "source": "s", "sentence_id": "s"}
        return {**self.query(text), "answer": "", "declined": False, "generated": False, "model": None,
                "citations": [cited]}  # fmt: skip

    def asked_status(self, groups: Sequence[str], operator: bool) -> dict[str, Any]:
        return {"live": 1, "sources": [], "failures": [], "failures_untold": [], "generations": [], "runs": [],
                "workers": []}  # fmt: skip


VIEWS = [
    "/", "/?q=a", "/?q=a&ask=1", "/status", "/passages/c", "/passages/c?q=a", "/passages/c?view=text",
    *(f"/passages/c?sentence={named}" for named in ("s", "x", "")), "/passages/x",
    "/documents/d", "/documents/d?view=text", "/documents/x", *(f"/documents/d?view=text&part={part}" for part in
    ("0", "1", "2", "-1", "9999999", "9" * 30, "x", "")), *(f"/documents/d?page={page}" for page in
    ("0", "1", "2", "-1", "9999999", "9" * 30, "x", "")), "/api/documents", "/api/documents/d", "/api/documents/d/file",
    "/api/documents/x", "/api/passages/c", "/api/passages/x", "/api/search?q=a", "/api/ask?q=a", "/api/status",
    *(f"/api/pages/d/{page}.png{marked}" for page in ("0", "1", "2", "-1", "9999999", "9" * 30, "x", "1.5")
      for marked in ("", "?passage=c", "?passage=x")),
]  # fmt: skip


def views_of(monkeypatch: pytest.MonkeyPatch, elements: Sequence[Element] | None) -> tuple[TestClient, Tools]:
    """The whole application, and the tools of agents, over an index of one bare document; None where its text moved."""
    bare = Bare(elements or ())
    if elements is None:
        bare._text = None
    monkeypatch.setattr("pincite.serve.service.open_index", lambda project, seconds: bare)
    service = Service(Project(settings_from({}), None, Path("state"), Path()))
    return TestClient(application(service, Anybody(), URL), base_url=URL), Tools(service, URL)


def sentence_in(reply: Any) -> str:
    """What a refusal tells, of a page or in JSON."""
    if "html" in reply.headers["content-type"]:
        (told,) = re.findall(r"<p>(.*?)</p>", reply.text, re.DOTALL)
        return html.unescape(told)
    return str(reply.json()["error"]["message"])


def opens(client: TestClient, path: str) -> None:
    """Fails unless a view is shown, or refused with a sentence that says why."""
    for accept in ("text/html", "application/json"):
        reply = client.get(path, headers={"Accept": accept})
        assert reply.status_code in (200, 400, 404, 409), (path, reply.text)
        if reply.status_code != 200:
            assert len(sentence_in(reply).split()) >= 4, (path, reply.text)


@pytest.mark.parametrize("kind", [*sorted(KINDS), "unheard-of"])
def test_every_view_of_a_kind_of_element_that_says_nothing_opens(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    elements = [replace(PLAIN, index=at, kind=kind, **shape) for at, shape in enumerate(SHAPES.values())]
    client, tools = views_of(monkeypatch, elements)
    for path in VIEWS:
        opens(client, path)
    for alone in elements:
        client, tools = views_of(monkeypatch, [alone])
        opens(client, "/documents/d?view=text")
        opens(client, "/api/documents/d")
        assert tools.fetch(Fetch(id="d"), Asker()).metadata["parts"] == 1
        assert tools.read("pincite://documents/d", Asker())


@pytest.mark.parametrize("elements", [(), None], ids=["no element", "text moved"])
def test_every_view_of_a_document_without_elements_opens(
    elements: Sequence[Element] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = views_of(monkeypatch, elements)
    for path in VIEWS:
        opens(client, path)
