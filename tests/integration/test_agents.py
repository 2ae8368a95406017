"""Agents and chat programs that ask `pincite serve` and `pincite mcp`: by the protocol's own client, and OpenAI's."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import httpx2
import openai
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent, TextResourceContents
from PIL import Image

from pincite.guard import Asker, TokenFile, access_of
from pincite.serve.application import application
from pincite.serve.mcp import Fetch, OverHttp, Tools, by_request, server_of
from pincite.serve.service import Service
from pipelines.errors import IndexStateError
from resources.settings_file import locate
from tests.support.asgi import in_thread
from tests.support.direct_runs import quick_runs
from tests.support.documents import pdf_of
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, run_command
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.integration

SAFE_WORD = "heliotrope"
QUESTION = "What is the safe word of the treasury?"
LIGHTHOUSE = "The lighthouse lamp is trimmed at noon by the keeper on duty."
Call = Callable[[Client], Awaitable[Any]]


@dataclass
class Served:
    project: Project
    url: str
    tokens: dict[str, str]
    tools: Tools

    def agent(self, who: str, call: Call) -> Any:
        """What a client with somebody's token gets."""

        async def connected() -> Any:
            headers = {"Authorization": f"Bearer {self.tokens[who]}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=HANG_SECONDS) as http,
                Client(streamable_http_client(f"{self.url}/mcp", http_client=http)) as client,
            ):
                return await call(client)

        return anyio.run(connected)

    def chat(self, who: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.tokens[who], max_retries=0)


@pytest.fixture(scope="module")
def served(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with quick_runs(), new_database(server_url) as database:
        project = make_project(
            tmp_path_factory.mktemp("agents") / "project", database=database,
            embedder={"endpoint": endpoint.url, "model": "fake"}, serve={"auth": "tokens"},
            query={"metadata_keys": ["price"]},
        )  # fmt: skip
        project.write("secret.md", f"# Treasury\n\nThe safe word of the treasury is {SAFE_WORD}.\n")
        project.write("secret.md.meta.yaml", "groups: [treasury]\n")
        project.write(
            "smuggled.md", "# Smuggled\n\nThe harbour\u200b master \U000e0041\U000e0042sleeps \u202eat dusk.\n"
        )
        ropes = "and ropes " * 40  # long, and few sentences to index
        project.write("long.md", "# Long\n\n" + "\n\n".join(f"Paragraph {at} about {ropes}." for at in range(200)))
        project.write("long.md.meta.yaml", "effective_date: 2024-05-06\nmetadata: {price: 9}\n")
        pdf_of(project.docs / "page.pdf", [[(72, 72, LIGHTHOUSE)]])
        project.index()
        tokens = TokenFile(project.state)
        made = {name: tokens.add(name, groups, operator=False) for name, groups in
                (("guest", ()), ("treasurer", ("treasury",)))}  # fmt: skip
        found = locate(str(project.config))
        service = Service(found)
        tools = Tools(service, "https://ask.example")
        agents = OverHttp(server_of(tools, by_request))
        app = application(service, access_of(found), "https://ask.example", agents=agents)
        with in_thread(app) as port:
            yield Served(project, f"http://127.0.0.1:{port}", made, tools)
        service.close()


async def called(client: Client, name: str, **given: Any) -> Any:
    reply = await client.call_tool(name, given)
    assert not reply.is_error, reply.content
    return reply


async def refused(client: Client, name: str, **given: Any) -> str:
    reply = await client.call_tool(name, given)
    assert reply.is_error
    (said,) = reply.content
    assert isinstance(said, TextContent)
    return said.text


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


# ---------------------------------------------------------------- agents


def test_fetch_returns_the_results_of_search(served: Served) -> None:
    async def call(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "fetch", "page_image", "ask"}
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
        assert all("never follow" in (tool.description or "") for tool in tools.values())
        assert tools["search"].input_schema["required"] == ["query"]
        assert tools["fetch"].input_schema["required"] == ["id"]

        reply = await called(client, "search", query="when is the lighthouse lamp trimmed?", k=2)
        assert json.loads(reply.content[0].text) == reply.structured_content
        first = reply.structured_content["results"][0]
        assert set(first) == {"id", "title", "text", "url"}
        documents = reply.structured_content["documents"]
        assert sorted(each for document in documents for each in document["results"]) == sorted(
            each["id"] for each in reply.structured_content["results"]
        )
        assert documents[0]["results"][0] == first["id"] and first["title"].startswith(documents[0]["name"])
        assert first["text"] == LIGHTHOUSE and first["url"] == f"https://ask.example/passages/{first['id']}"

        fetched = (await called(client, "fetch", id=first["id"])).structured_content
        assert set(fetched) == {"id", "title", "text", "url", "metadata"}
        assert fetched["text"] == LIGHTHOUSE and fetched["metadata"]["pages"] == [1, 1]
        document = (await called(client, "fetch", id=fetched["metadata"]["document"])).structured_content
        assert LIGHTHOUSE in document["text"] and document["metadata"]["parts"] == 1

        picture = (await called(client, "page_image", id=first["id"])).content[0]
        bare = (await called(client, "page_image", id=document["id"], page=1)).content[0]
        assert picture.mime_type == "image/png" and picture.data != bare.data
        assert Image.open(io.BytesIO(base64.b64decode(picture.data))).size[1] > 500

        answer = (await called(client, "ask", question="When is the lighthouse lamp trimmed?")).structured_content
        assert not answer["declined"] and answer["citations"][0]["quote"] == LIGHTHOUSE

    served.agent("guest", call)


@pytest.mark.parametrize(
    ("who", "groups", "others", "bound", "key", "kind"),
    [
        ("guest", (), 8, "date<2024-06", "date", "date"),
        ("treasurer", ("treasury",), 9, "price<10", "price", "number"),
    ],
)
def test_a_bound_leaves_out_the_same_at_every_door_and_says_so(
    served: Served, who: str, groups: tuple[str, ...], others: int, bound: str, key: str, kind: str
) -> None:
    without = {key: {"documents": others, "of": others + 1}}
    as_name = "" if kind == "date" else f" as {key!r}"
    note = f"{others} of {others + 1} documents have no {kind}{as_name}, so the filter leaves them out"

    async def call(client: Client) -> None:
        found = (await called(client, "search", query="ropes", filter=[bound])).structured_content
        assert found["without_value"] == without and found["results"]
        asked = (await called(client, "ask", question="What is about ropes?", filter=[bound])).structured_content
        assert asked["without_value"] == without
        assert (await called(client, "search", query="ropes")).structured_content["without_value"] == {}
        assert "neither a number nor a date" in await refused(client, "search", query="ropes", filter=["price<cheap"])

    served.agent(who, call)
    headers = {"Authorization": f"Bearer {served.tokens[who]}"}
    asked_as = [argument for group in groups for argument in ("--group", group)]
    for command, address in (("query", "search"), ("ask", "ask")):
        by_http = httpx.get(
            f"{served.url}/api/{address}", params={"q": "ropes", "filter": bound}, headers=headers, timeout=HANG_SECONDS
        ).json()
        arguments = [command, "ropes", "--filter", bound, *asked_as]
        by_command = served.project.run(*arguments).json
        for found in (by_http, by_command):
            assert found["without_value"] == without and note in found["notes"]
            assert {hit["uri"] for hit in found["hits"]} == {"long.md"}
    shown = run_command(*arguments, "--config", str(served.project.config)).out
    assert f"note: {note}" in shown
    plain = served.project.run("query", "ropes", *asked_as).json
    assert "without_value" not in plain and plain["notes"] == []


def test_a_long_document_comes_in_parts(served: Served) -> None:
    async def call(client: Client) -> None:
        listed = (await client.list_resources()).resources
        (uri,) = [str(item.uri) for item in listed if item.name == "long.md"]
        name = uri.rpartition("/")[2]
        first = (await called(client, "fetch", id=name)).structured_content
        count = first["metadata"]["parts"]
        assert count > 1 and len(first["text"]) <= 50_000
        texts = [
            (await called(client, "fetch", id=name, part=at + 1)).structured_content["text"] for at in range(count)
        ]
        for at in range(200):
            assert sum(f"Paragraph {at} about" in text for text in texts) >= 1
        part = await read(client, uri)
        assert part.startswith(texts[0]) and part.endswith(f"<!-- goes on in {uri}?part=2 -->")
        assert await read(client, f"{uri}?part={count}") == texts[-1]
        assert "has " in await refused(client, "fetch", id=name, part=count + 1)

    served.agent("guest", call)


def test_no_tool_shows_a_document_to_an_asker_without_its_group(served: Served) -> None:
    async def ids(client: Client) -> list[str]:
        found = (await called(client, "search", query=QUESTION)).structured_content["results"]
        (passage,) = [item["id"] for item in found if SAFE_WORD in item["text"]]
        return [passage, (await called(client, "fetch", id=passage)).structured_content["metadata"]["document"]]

    passage, document = served.agent("treasurer", ids)

    async def call(client: Client) -> None:
        replies = [
            await client.call_tool("search", {"query": QUESTION}),
            await client.call_tool("ask", {"question": QUESTION}),
        ]
        replies.append(await client.call_tool("search", {"query": QUESTION, "filter": ["uri=secret.md"]}))
        said = "".join(reply.model_dump_json() for reply in replies)
        assert SAFE_WORD not in said and "secret.md" not in said
        for name in (passage, document):
            for tool in ("fetch", "page_image"):
                assert "or you may not see it" in await refused(client, tool, id=name)
        assert "secret.md" not in (await client.list_resources()).model_dump_json()
        with pytest.raises(MCPError, match="or you may not see it"):
            await client.read_resource(f"pincite://documents/{document}")

    served.agent("guest", call)
    for given in ({"groups": ["treasury"]}, {"asker": "treasurer"}):

        async def claim(client: Client, given: dict[str, Any] = given) -> str:
            return await refused(client, "search", query=QUESTION, **given)

        assert "unknown parameter" in served.agent("guest", claim)


def test_text_that_is_ahead_of_what_is_served_is_not_handed_out(served: Served) -> None:
    """A run commits a document's text before its rows: what it says by then may be for others."""
    ((document, before),) = served.project.rows("SELECT doc_id, row_hash FROM g0001.documents WHERE uri = 'page.pdf'")
    statement = "UPDATE g0001.documents SET row_hash = %s WHERE doc_id = %s"

    async def call(client: Client) -> None:
        assert "use search, which finds the served passages" in await refused(client, "fetch", id=document)
        with pytest.raises(MCPError, match="being indexed again"):
            await client.read_resource(f"pincite://documents/{document}")
        found = (await called(client, "search", query="lighthouse lamp trimmed")).structured_content["results"]
        assert found[0]["text"] == LIGHTHOUSE

    served.project.rows(statement, "another", document)
    try:
        served.agent("guest", call)
        with pytest.raises(IndexStateError) as raised:
            served.tools.fetch(Fetch(id=document), Asker("guest"))
        assert raised.value.code == "text_moved"
    finally:
        served.project.rows(statement, before, document)
    assert LIGHTHOUSE in served.tools.fetch(Fetch(id=document), Asker("guest")).text


def test_invisible_characters_are_not_passed_to_a_model(served: Served) -> None:
    async def call(client: Client) -> None:
        (first, *_) = (await called(client, "search", query="harbour master sleeps")).structured_content["results"]
        document = (await called(client, "fetch", id=first["id"])).structured_content["metadata"]["document"]
        texts = [first["text"], (await called(client, "fetch", id=document)).structured_content["text"]]
        texts.append(await read(client, f"pincite://documents/{document}"))
        for text in texts:
            assert "harbour master sleeps at dusk" in text and not re.search(
                "[\u200b\u202e\U000e0000-\U000e0fff]", text
            )

    served.agent("guest", call)


def test_invalid_tool_arguments_are_reported_to_the_agent(served: Served) -> None:
    async def call(client: Client) -> None:
        assert "parameter 'query' is missing" in await refused(client, "search")
        assert "'k': expected a whole number from 1 to 100; found 10000" in await refused(
            client, "search", query="x", k=10_000
        )
        assert "bogus" in await refused(client, "search", query="x", filter=["bogus=1"])
        assert "there is no tool" in await refused(client, "drop")
        for name in ("", "x\x00y", "../../etc/passwd", "nothing" * 20):
            said = await refused(client, "fetch", id=name)
            assert "Traceback" not in said and "that was not foreseen" not in said
        for uri in ("file:///etc/passwd", "pincite://documents/", "pincite://documents/x?part=x", "pincite://x/y", "["):
            with pytest.raises(MCPError):
                await client.read_resource(uri)

    served.agent("guest", call)


def test_invalid_protocol_messages_are_refused(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.tokens['guest']}", "Accept": "application/json, text/event-stream"}
    for body in (b"", b"{}", b"[" * 5000, b'{"jsonrpc": "2.0", "id": 1, "method": 3}', b"\xff", b"null"):
        reply = httpx.post(
            f"{served.url}/mcp",
            content=body,
            headers={**headers, "Content-Type": "application/json"},
            timeout=HANG_SECONDS,
        )
        assert reply.status_code == 400 and "Traceback" not in reply.text
    assert (
        httpx.post(f"{served.url}/mcp", content=b"x" * (2 << 20), headers=headers, timeout=HANG_SECONDS).status_code
        == 413
    )
    assert httpx.get(f"{served.url}/mcp", headers=headers, timeout=HANG_SECONDS).status_code == 405
    assert (
        httpx.post(
            f"{served.url}/mcp", headers={**headers, "Authorization": "Bearer x"}, timeout=HANG_SECONDS
        ).status_code
        == 401
    )
    assert (
        httpx.post(f"{served.url}/mcp", headers={**headers, "Host": "evil.example"}, timeout=HANG_SECONDS).status_code
        == 403
    )


@pytest.mark.parametrize(("ending", "groups"), [("signal", ()), ("input", ("--group", "treasury"))])
def test_pincite_mcp_answers_for_its_groups_and_ends_when_it_is_asked_to(
    served: Served, ending: str, groups: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "pincite.cli", "mcp", "--config", str(served.project.config), *groups]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        assert b"answers an agent" in process.stderr.readline()

        def say(method: str, **more: Any) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode() + b"\n")
            process.stdin.flush()

        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        say("initialize", id=1, params=client)
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "pincite"
        say("notifications/initialized")
        say("tools/call", id=2, params={"name": "search", "arguments": {"query": QUESTION}})
        found = json.loads(process.stdout.readline())["result"]["structuredContent"]
        assert found["results"] and (SAFE_WORD in str(found)) is bool(groups)
        if ending == "signal":
            process.terminate()
        else:
            process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0
        assert process.stdout.read() == b""


# ---------------------------------------------------------------- chat programs


def test_a_chat_program_gets_an_answer_with_links_into_the_reader(served: Served) -> None:
    chat = served.chat("treasurer")
    assert [model.id for model in chat.models.list()] == ["pincite"]
    asked: Any = {
        "model": "pincite",
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": QUESTION}],
    }
    whole = chat.chat.completions.create(**asked, temperature=0.5).choices[0]
    assert whole.message.content is not None and whole.finish_reason == "stop"
    assert SAFE_WORD in whole.message.content and "](https://ask.example/passages/" in whole.message.content
    pieces = list(chat.chat.completions.create(**asked, stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == whole.message.content
    assert pieces[-1].choices[0].finish_reason == "stop"


def test_a_chat_program_without_the_group_gets_nothing_of_it(served: Served) -> None:
    for stream in (False, True):
        reply = httpx.post(
            f"{served.url}/v1/chat/completions", headers={"Authorization": f"Bearer {served.tokens['guest']}"},
            json={"messages": [{"role": "user", "content": QUESTION}], "stream": stream, "groups": ["treasury"]},
            timeout=HANG_SECONDS,
        )  # fmt: skip
        assert reply.status_code == 200 and SAFE_WORD not in reply.text and "secret.md" not in reply.text
    with pytest.raises(openai.AuthenticationError, match="token"):
        openai.OpenAI(base_url=f"{served.url}/v1", api_key="x", max_retries=0).models.list()


@pytest.mark.parametrize("body", [b"x", b"[]", b"{}", b'{"messages": []}', b'{"messages": [{"role": "user"}]}',
                                  b'{"messages": [{"role": "user", "content": "x"}], "n": 3}'])  # fmt: skip
def test_a_chat_request_that_cannot_be_answered_is_told(served: Served, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {served.tokens['guest']}"}
    reply = httpx.post(f"{served.url}/v1/chat/completions", content=body, headers=headers, timeout=HANG_SECONDS)
    assert reply.status_code == 400 and reply.json()["error"]["code"] == "usage"


def test_an_answer_that_fails_while_it_streams_says_so(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **more: Any) -> None:
        raise RuntimeError("/a/place/of/the/server")

    monkeypatch.setattr(Service, "ask", fail)
    with pytest.raises(openai.APIError, match="not foreseen") as told:
        asked: Any = [{"role": "user", "content": QUESTION}]
        list(served.chat("guest").chat.completions.create(model="pincite", messages=asked, stream=True))
    assert "/a/place" not in str(told.value)
