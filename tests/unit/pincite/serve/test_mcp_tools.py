"""What leaves by the tools for agents: nothing that a person would not see; and parts of a long text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError

from pincite.guard import Anybody, Asker
from pincite.serve.api import markdown_answer
from pincite.serve.application import application
from pincite.serve.mcp import Tools, parts_of, server_of, whole_name, with_whole_names
from pipelines.defused_text import clear, visible_text
from pipelines.errors import DocumentError, IndexStateError
from pipelines.records import Element
from resources.search.documents import FACETS, DocumentCounts, FoundDocument
from resources.search.passages import with_documents
from tests.support.bare_index import DOCUMENT, PASSAGE, URL, Bare, bare_service

SMUGGLED = "x\U000e0049\U000e0067\u202ey\u200bz\ufe01\u3164\u2066\x1b[2J\uf000\u200d\u200c\u00ad\u200f"
ELEMENT = Element("d", 0, "paragraph", None, SMUGGLED, SMUGGLED, 0, 0, None, None, (), (), 1.0, "", {})
FILTERS: list[list[str]] = []


class Hostile(Bare):
    """An index whose one document hides signs in all that it says."""

    def __init__(self) -> None:
        super().__init__([ELEMENT, replace(ELEMENT, kind="figure", text="", metadata={"alt": SMUGGLED})])

    def one(self, doc_id: str, groups: Sequence[str]) -> FoundDocument:
        if doc_id != "d":
            raise IndexStateError(f"there is no document {SMUGGLED}", "unknown_document")
        return self.list_documents(groups, "", 1)[0]

    def list_documents(self, groups: Sequence[str], after: str, most: int) -> list[FoundDocument]:
        return [replace(DOCUMENT, uri=f"{SMUGGLED}.pdf", title=SMUGGLED, source="s", summary=SMUGGLED,
                        metadata={SMUGGLED: SMUGGLED})]  # fmt: skip

    def overview(self, groups: Sequence[str], doc_ids: Sequence[str]) -> tuple[DocumentCounts, set[str]]:
        counted, seen_ids = super().overview(groups, doc_ids)
        return replace(counted, facets=dict.fromkeys(FACETS, ((SMUGGLED, 1), (f"{SMUGGLED}2", 1)))), seen_ids

    def pages(self, document: FoundDocument) -> Any:
        raise DocumentError(f"{document.uri} has no page 9; it has 1", "no_page")

    def show(self, chunk_id: str, groups: Sequence[str]) -> dict[str, Any]:
        return {**super().show(chunk_id, groups), **self.said()}

    def query(self, text: str, *given: Any) -> dict[str, Any]:
        FILTERS.append(list(given[3]))
        hit = {**PASSAGE, "rank": 1, **self.said()}
        return with_documents({"query": text, "generation": 1, "hits": [hit], "seconds": 0.0, "notes": [SMUGGLED]})

    def ask(self, text: str, *given: Any) -> dict[str, Any]:
        cited = {"uri": SMUGGLED, "page": 1, "quote": SMUGGLED, "chunk_id": "c", "source": "s", "sentence_id": "s"}
        return with_documents({**self.query(text, *given[1:]), "answer": SMUGGLED, "declined": text == "declined",
                               "generated": True, "model": SMUGGLED, "citations": [cited]})  # fmt: skip

    @staticmethod
    def said() -> dict[str, Any]:
        return {"uri": f"{SMUGGLED}.pdf", "title": SMUGGLED, "header_chain": [SMUGGLED, SMUGGLED], "text": SMUGGLED,
                "overlap": SMUGGLED, "context": SMUGGLED}  # fmt: skip


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text and name within JSON, and within texts that are JSON themselves."""
    if isinstance(value, str):
        yield value
        if value.startswith("{"):
            yield from texts_in(json.loads(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def test_nothing_that_nobody_sees_leaves_by_a_tool() -> None:
    tools = Tools(bare_service(index=Hostile()), URL)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "a"}), ("fetch", {"id": "c"}), ("fetch", {"id": "d"}), ("fetch", {"id": SMUGGLED}),
        ("fetch", {"id": "d", "part": 9}), ("page_image", {"id": "c"}), ("page_image", {"id": SMUGGLED}),
        ("ask", {"question": "a"}), ("ask", {"question": "declined"}), (SMUGGLED, {}), ("search", {SMUGGLED: SMUGGLED}),
        ("search", {"query": "a", "filter": [SMUGGLED]}), ("search", {"query": "a", "k": SMUGGLED}),
    ]  # fmt: skip

    async def all_replies() -> list[Any]:
        async with Client(server_of(tools, lambda context: Asker())) as client:
            replies = [await client.call_tool(name, given) for name, given in calls]
            found: list[Any] = [reply.model_dump(mode="json", exclude_none=True) for reply in replies]
            assert [reply.is_error for reply in replies] == [
                *[False] * 3,
                *[True] * 4,
                *[False] * 2,
                *[True] * 2,
                False,
                True,
            ]
            for made in (client.list_tools(), client.list_resources(), client.list_resource_templates(),
                         client.read_resource("pincite://documents/d")):  # fmt: skip
                found.append((await made).model_dump(mode="json", exclude_none=True))
            for uri in ("pincite://documents/x", f"pincite://documents/{SMUGGLED}", SMUGGLED):
                with pytest.raises(MCPError) as caught:
                    await client.read_resource(uri)
                found.append(caught.value.message)
            return found

    for reply in anyio.run(all_replies):
        for text in texts_in(reply):
            assert text == clear(text), ascii(text)


def test_the_text_that_an_agent_reads_equals_its_structured_content() -> None:
    async def call() -> Any:
        async with Client(server_of(Tools(bare_service(index=Hostile()), URL), lambda context: Asker())) as client:
            return await client.call_tool("fetch", {"id": "c"})

    reply = anyio.run(call)
    assert json.loads(reply.content[0].text) == reply.structured_content
    assert reply.structured_content["text"].split() == ["xyz\ufffd", "xyz\ufffd"]


def test_a_document_is_found_by_the_name_that_an_agent_was_shown() -> None:
    """Names keep what nobody sees as numbers, so that two of them stay two."""
    tools = Tools(bare_service(index=Hostile()), URL)

    async def asked() -> str:
        async with Client(server_of(tools, lambda context: Asker())) as client:
            reply = await client.call_tool("fetch", {"id": "c"})
            assert reply.structured_content
            uri: str = reply.structured_content["metadata"]["uri"]
            (listed,) = (await client.list_resources()).resources
            assert listed.name == uri
            await client.call_tool("search", {"query": "a", "filter": [f"uri={uri}", "source=s"]})
            return uri

    uri = anyio.run(asked)
    assert uri.isascii() and uri.startswith("x\\U000e0049")
    assert FILTERS[-1] == [f"uri={uri}", "source=s", f"uri={SMUGGLED}.pdf"]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_every_name_is_shown_clear_and_found_again(uri: str) -> None:
    shown = whole_name(uri)
    assert shown == clear(shown) and len(shown.splitlines()) <= 1
    assert f"uri={uri}" in with_whole_names([f"uri={shown}"]) or "\\" in uri


@pytest.mark.parametrize(
    "given", ["uri=a.md", "uri=a\\u0062.md", "uri=a\\ud800.md", "uri=\\U00110000", "title=\\u200b", "uri"]
)
def test_a_filter_that_names_nothing_hidden_stays_as_it_is(given: str) -> None:
    assert with_whole_names([given]) == [given]


def test_nothing_that_nobody_sees_leaves_in_a_chat_an_error_or_a_page() -> None:
    index = Hostile()
    for question in ("a", "declined"):
        said = markdown_answer(index.ask(question, None, None, None, None, ()), URL)
        assert said == clear(said)
    transport = httpx.ASGITransport(application(bare_service(index=index), Anybody(), URL))

    async def replies(*paths: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
            return [await client.get(path, headers={"Accept": "text/html"}) for path in paths]

    for reply in anyio.run(replies, "/api/documents/x", "/api/pages/d/1.png"):
        message = reply.json()["error"]["message"]
        assert reply.status_code == 404 and message == clear(message)
    (file,) = anyio.run(replies, "/api/documents/d/file")
    name = unquote(file.headers["content-disposition"].partition("''")[2])
    assert name == clear(f"{SMUGGLED}.pdf"), "a name that is turned around may end as another kind of file does"
    for reply in anyio.run(
        replies, "/", "/?q=a", "/passages/c", "/documents/d?view=text", "/documents/x", "/documents", "/status"
    ):
        assert "xyz" in reply.text or reply.request.url.path == "/status"
        assert reply.text == visible_text(reply.text), reply.request.url


@given(st.text("ab \n", max_size=300), st.integers(2, 40))
def test_parts_are_bounded_and_make_the_text(text: str, most: int) -> None:
    parts = parts_of(text, most)
    assert "".join(parts) == text
    assert all(len(part) <= most for part in parts) and (all(parts) or not text)


def test_a_text_is_parted_between_paragraphs() -> None:
    assert parts_of("one two\n\nthree four\nfive", 15) == ["one two\n\n", "three four\nfive"]
