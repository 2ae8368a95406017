"""Every view of a served file: by page, JSON and tool, with numbers and names that fit and that do not."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import Client, MCPError
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient

from pincite.guard import Asker
from pincite.serve.answers import UNFORESEEN
from pincite.serve.application import application
from pincite.serve.mcp import Tools, server_of
from pincite.serve.service import Service
from pipelines.fingerprint import document_id
from resources.settings_file import locate
from tests.support.projects import Project

URL = "http://127.0.0.1:8750"
NUMBERS = ("0", "-1", "9999999", "1000000000", "x")
PART = re.compile(r"part (\d+) of (\d+)")


@dataclass
class Shown:
    """A served index, and what it says of one of its files by any address."""

    project: Project
    client: TestClient
    tools: Tools
    asker: Asker

    def opens(self, path: str) -> Any:
        """Ask for a view; fail unless it is shown, or refused with a sentence."""
        reply = self.client.get(path, headers={"Accept": "text/html"})
        assert reply.status_code in (200, 400, 404, 409), (path, reply.status_code, reply.text[:2000])
        if reply.status_code != 200:
            page = "html" in reply.headers["content-type"]
            (told,) = re.findall(r"<p>(.*?)</p>", reply.text) if page else [reply.json()["error"]["message"]]
            assert len(html.unescape(told).split()) >= 4 and UNFORESEEN not in told, (path, told)
        return reply

    def every_view(self, uri: str) -> None:
        doc_id = document_id("docs", uri)
        rows = self.project.rows("SELECT pages FROM g0001.documents WHERE doc_id = %s", doc_id)
        pages = rows[0][0] or 0 if rows else 0
        chunks = [row[0] for row in self.project.rows(
            "SELECT chunk_id FROM g0001.chunks WHERE doc_id = %s ORDER BY chunk_id", doc_id)]  # fmt: skip
        named = self.project.rows(
            "SELECT chunk_id, sentence_id FROM g0001.sentences WHERE doc_id = %s ORDER BY sentence_id LIMIT 1", doc_id
        )
        taken = self.opens(f"/api/documents/{doc_id}").status_code == 200
        assert taken == bool(rows) == bool(chunks)
        assert self.opens(f"/api/documents/{doc_id}/file").status_code == (200 if taken else 404)
        for number in (*NUMBERS, *(str(at) for at in {1, pages, pages + 1})):
            self.opens(f"/documents/{doc_id}?page={number}")
            drawn = self.opens(f"/api/pages/{doc_id}/{number}.png")
            there = number.isdecimal() and len(number) < 8 and 1 <= int(number) <= pages and self.has_pages(uri)
            assert (drawn.status_code == 200) == there, (number, drawn.text[:300])
            self.opens(f"/documents/{doc_id}?view=text&part={number}")
        for view in ("", "&view=text"):
            for at in ("", "2", "9999999"):
                self.opens(f"/documents/{doc_id}?find=the{view}&at={at}")
        self.whole_text(f"/documents/{doc_id}")
        sentences = ["", "unknown", *(row[1] for row in named)]
        for chunk in {*chunks[:1], *chunks[-1:], "unknown", *(row[0] for row in named)}:
            self.opens(f"/api/passages/{chunk}")
            for sentence in sentences:
                self.opens(f"/passages/{chunk}?sentence={sentence}")
            self.opens(f"/passages/{chunk}?view=text")
            self.opens(f"/api/pages/{doc_id}/1.png?passage={chunk}")
        self.opens(f"/passages/{doc_id}")
        for chunk in chunks[:1]:  # a question is searched for, which takes long in a large index
            self.opens(f"/passages/{chunk}?q=the&sentence=unknown")
        anyio.run(self.by_agent, doc_id, [*chunks[:1], *chunks[-1:], "unknown"])

    @staticmethod
    def has_pages(uri: str) -> bool:
        return uri.lower().endswith(".pdf")

    def whole_text(self, address: str) -> None:
        """Open every part of a document's text."""
        count = 1
        at = 1
        while at <= count:
            shown = self.opens(f"{address}?view=text&part={at}").text
            if said := PART.search(shown):
                assert int(said[1]) == at
                count = int(said[2])
            at += 1

    async def by_agent(self, doc_id: str, chunks: list[str]) -> None:
        async with Client(server_of(self.tools, lambda context: self.asker)) as client:
            for name in (doc_id, *chunks):
                for tool, given in (("fetch", {}), ("fetch", {"part": 9_999}), ("page_image", {}),
                                    ("page_image", {"page": 0}), ("page_image", {"page": 99_999})):  # fmt: skip
                    reply = await client.call_tool(tool, {"id": name, **given})
                    said = reply.content[0].model_dump()
                    assert not reply.is_error or len(said["text"].split()) >= 4, said
                    assert said.get("text") != UNFORESEEN, (tool, name, given)
            for part in ("", "?part=1", "?part=9999", "?part=0", "?part=x"):
                try:
                    await client.read_resource(f"pincite://documents/{doc_id}{part}")
                except MCPError as error:
                    assert UNFORESEEN not in str(error)


class Member:
    """An access that takes everybody for one asker."""

    signs_in = False

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def who(self, asked: HTTPConnection) -> Asker:
        return self._asker


@contextmanager
def shown(project: Project) -> Iterator[Shown]:
    """All that is served of a project's index, to a member of every group."""
    found = project.rows("SELECT DISTINCT unnest(groups) FROM g0001.documents ORDER BY 1")
    asker = Asker("member", tuple(name for (name,) in found))
    with (
        closing(Service(locate(str(project.config)))) as service,
        # One event loop for all requests: outside a `with`, each would start one, and a thread.
        TestClient(application(service, Member(asker), URL), base_url=URL) as client,
    ):
        yield Shown(project, client, Tools(service, URL), asker)
