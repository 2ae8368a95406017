"""What is no text (half of a surrogate pair, U+0000) is refused with a sentence, wherever in a request it stands."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from pincite.guard import Anybody
from pincite.serve.application import application
from pincite.serve.mcp import OverHttp, Tools, by_request, server_of
from tests.support.bare_index import URL, bare_service

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
WRONG = {
    "high": "\ud800",
    "low": "\udfff",
    "inside": "a\udc80b",
    "turned": "\udc00\ud800",
    "nul": "\x00",
    "in nul": "a\x00b",
}
CHAT = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "user": "u",
        "metadata": {"a": ["b"]}}  # fmt: skip
JSON = {
    "/api/search": {"q": "a", "strategy": "dense", "rerank": "none", "filter": ["source=a"]},
    "/api/ask": {"q": "a", "option": ["A=b"]},
    "/v1/chat/completions": CHAT,
}  # fmt: skip
TOOLS = {
    "search": {"query": "a", "filter": ["source=a"]}, "fetch": {"id": "d"}, "page_image": {"id": "d"},
    "ask": {"question": "a", "filter": ["source=a"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    service = bare_service()
    agents = OverHttp(server_of(Tools(service, URL), by_request))
    with TestClient(application(service, Anybody(), URL, agents=agents), base_url=URL) as made:
        yield made


def spoilt(value: Any, wrong: str) -> Iterator[Any]:
    """Yield the value once for each of its texts and names, with that one spoilt."""
    if isinstance(value, str):
        yield wrong
        yield value + wrong
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for made in spoilt(item, wrong):
                yield [*value[:at], made, *value[at + 1 :]]
    elif isinstance(value, dict):
        for name, item in value.items():
            for made in spoilt(item, wrong):
                yield {**value, name: made}
            yield {**{key: each for key, each in value.items() if key != name}, name + wrong: item}
        yield {**copy.deepcopy(value), wrong: wrong}


def says_why(message: str) -> bool:
    message.encode()
    return len(message.split()) >= 4 and "U+" in message


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("path", JSON)
def test_no_text_in_a_body_is_told(client: TestClient, path: str, wrong: str) -> None:
    for body in spoilt(JSON[path], wrong):
        for stream in (False, True) if path == "/v1/chat/completions" else (False,):
            asked = {**body, "stream": True} if stream else body
            reply = client.post(path, content=json.dumps(asked), headers=ACCEPT)
            assert reply.status_code == 400, (asked, reply.text)
            assert says_why(reply.json()["error"]["message"])


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("tool", TOOLS)
def test_no_text_in_a_call_of_a_tool_is_told(client: TestClient, tool: str, wrong: str) -> None:
    """The protocol's library refuses halves of pairs itself, as no JSON."""
    for given in spoilt(TOOLS[tool], wrong):
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}
        reply = client.post("/mcp", content=json.dumps(call), headers=ACCEPT)
        said = reply.json()
        if reply.status_code == 200:
            assert said["result"]["isError"] and says_why(said["result"]["content"][0]["text"]), said
        else:
            assert reply.status_code == 400 and len(said["error"]["message"].split()) >= 2, said


CALLS = [
    {"jsonrpc": "2.0", "id": "a", "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "pincite://documents/d"}},
    {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"cursor": "a"}},
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "fetch", "arguments": {"id": "d"}, "_meta": {"a": "b"}},
    },
]


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call["method"])
def test_no_text_anywhere_in_a_message_of_an_agent_is_no_error_of_ours(
    client: TestClient, call: dict[str, Any], wrong: str
) -> None:
    for asked in spoilt(call, wrong):
        reply = client.post("/mcp", content=json.dumps(asked), headers=ACCEPT)
        assert reply.status_code in (200, 202, 400, 404), (asked, reply.status_code, reply.text)
        assert "not foreseen" not in reply.text and "Internal" not in reply.text, (asked, reply.text)


@pytest.mark.parametrize("call", CALLS[1:3], ids=lambda call: call["method"])
def test_no_text_in_a_name_that_an_agent_sends_back_is_told(client: TestClient, call: dict[str, Any]) -> None:
    ((name, value),) = call["params"].items()
    reply = client.post("/mcp", content=json.dumps({**call, "params": {name: f"{value}\0"}}), headers=ACCEPT)
    assert says_why(reply.json()["error"]["message"])


def test_no_text_in_what_a_command_sends_is_told(client: TestClient) -> None:
    async def by_socket(scope: Any, receive: Any, send: Any) -> None:
        await client.app({**scope, "server": ("/run/ask", None)}, receive, send)

    own = TestClient(by_socket)
    for wrong in WRONG.values():
        for body in spoilt({"text": "a", "filters": ["source=a"], "groups": ["b"]}, wrong):
            reply = own.post("/owner/query", content=json.dumps(body))
            assert reply.status_code == 400 and says_why(reply.json()["error"]["message"])
    for odd in (b"", b"[]", b"{}", b'{"text": 1}', b"null", b"[" * 9_000):
        assert own.post("/owner/query", content=odd).status_code == 400
    assert own.post("/owner/query", json={"text": "a"}).status_code == 200


ADDRESSES = [
    "/api/search?q=a{}", "/api/search?q=a&{}=b", "/api/ask?q={}", "/api/documents?after={}", "/api/documents/{}",
    "/api/documents/{}/file", "/api/passages/{}", "/api/pages/{}/1.png", "/api/pages/d/{}.png",
    "/api/pages/d/1.png?passage={}", "/?q={}", "/?q=a&source={}", "/passages/{}", "/passages/c?sentence={}",
    "/documents/{}", "/documents/d?q={}", "/login?next={}", "/static/{}", "/{}", "/v1/{}", "/health?{}",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_text_in_an_address_is_told(client: TestClient, address: str) -> None:
    """A half of a pair cannot stand there: what is no UTF-8 is read as the sign for that."""
    reply = client.get(address.format("%00"))
    assert reply.status_code == 400 and says_why(reply.json()["error"]["message"]), reply.text
    for half in ("%ED%A0%80", "%ED%BF%BF", "%FF", "%C0%80"):
        for accept in ("text/html", "application/json"):
            reply = client.get(address.format(half), headers={"Accept": accept})
            assert reply.status_code < 500, (address, half, reply.text)


def test_no_text_in_a_header_lets_nobody_in_and_fails_nothing(client: TestClient) -> None:
    for name in ("Cookie", "Authorization", "Accept", "X-Forwarded-User"):
        for value in (
            b"pincite_token=\xed\xa0\x80",
            b"Bearer \xff",
            b'pincite_token="\\355\\240\\200"',
            b"Bearer \x01",
        ):
            assert client.get("/", headers=[(name.encode(), value)]).status_code in (200, 400, 401)
