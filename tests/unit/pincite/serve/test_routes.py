"""Every address takes a turn before anything of the index is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, MCPError
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from pincite.guard import Anybody, Asker
from pincite.serve.application import application
from pincite.serve.mcp import OverHttp, Tools, by_request, server_of
from pincite.serve.turns import Queues
from pipelines.settings.serve import ServeSettings

URL = "http://127.0.0.1:8750"
AT_ONCE = {"/health", "/static", "/login", "/logout", "/v1/models", "/api/openapi.json", "/feedback"}
"""Routes that are answered at once, from memory: no index, no thread. Feedback is not allowed here."""
ASKING = ("/api/search", "/api/ask", "/results")
IDS = {"doc_id": "d" * 32, "chunk_id": "c" * 32, "number": "1", "command": "query"}
BODIES: dict[str, Any] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "where?"}]},
    "/owner/{command}": {"text": "where?"},
}


class Full:
    """A service all of whose turns are taken; nothing else of it may be asked."""

    def __init__(self) -> None:
        self.turns, self.settings = Queues(ServeSettings(waiting=0)), ServeSettings()
        for turns in self.turns.all():
            for at in range(turns.at_once):
                turns._running[f"other {at}"] += 1

    def turns_of(self, *_: Any, answering: bool = False) -> Any:
        return self.turns.answers if answering else self.turns.questions

    def __getattr__(self, name: str) -> Any:
        def asked(*_: Any, **__: Any) -> Any:
            raise AssertionError(f"{name} was asked without a turn")

        return asked


@pytest.fixture
def app() -> Iterator[Any]:
    service: Any = Full()
    agents = OverHttp(server_of(Tools(service, URL), by_request))
    guard: Any = application(service, Anybody(), URL, agents=agents)
    guard.by_owner = lambda asked: True
    yield guard
    service.turns.close()


def requests(route: Route) -> Iterator[tuple[str, str, Any]]:
    address = route.path.format(**IDS)
    for method in sorted(route.methods or ()):
        if method == "POST":
            yield method, address, BODIES.get(route.path, {"q": "where?"})
        else:
            yield (
                method,
                f"{address}?q=where%3F" if route.path in ASKING else address,
                None,
            )


def test_every_route_takes_a_turn(app: Any) -> None:
    client = TestClient(app, base_url=URL, raise_server_exceptions=False, follow_redirects=False)
    seen = set()
    for route in app._app.routes:
        if isinstance(route, Mount) or route.path in AT_ONCE:
            seen.add(route.path)
            continue
        if route.path == "/mcp":
            continue  # the tools are called one by one below
        for method, address, body in requests(route):
            for accept in ("application/json", "text/event-stream"):
                reply: Any = client.request(method, address, json=body, headers={"Accept": accept})
                assert reply.status_code == 503, (method, address, reply.text)
                assert method == "HEAD" or reply.json()["error"]["code"] == "busy"
                assert reply.headers.get("retry-after") == "2" or address.startswith("/owner/")
    assert seen == AT_ONCE


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "BREW"])
def test_other_methods_are_refused_at_once(app: Any, method: str) -> None:
    client = TestClient(app, base_url=URL, raise_server_exceptions=False)
    for route in app._app.routes:
        path = "/static/style.css" if isinstance(route, Mount) else route.path.format(**IDS)
        assert client.request(method, path).status_code == 405, path


@pytest.mark.parametrize("path", [*sorted(AT_ONCE - {"/static", "/logout", "/feedback"}), "/static/style.css"])
def test_paths_that_need_no_turn_are_answered_while_all_are_taken(app: Any, path: str) -> None:
    client = TestClient(app, base_url=URL, raise_server_exceptions=True, follow_redirects=False)
    assert client.get(path).status_code in (200, 303)


def test_every_tool_and_resource_takes_a_turn() -> None:
    service: Any = Full()
    tools = Tools(service, URL)
    given = {"search": {"query": "x"}, "ask": {"question": "x"}, "fetch": {"id": "x"}, "page_image": {"id": "x"}}
    assert {tool.name for tool in tools.all()} == given.keys()

    async def run() -> None:
        async with Client(server_of(tools, lambda context: Asker())) as client:
            for name, values in given.items():
                reply = await client.call_tool(name, values)
                assert reply.is_error and "too many questions at once" in str(reply.content), name
            with pytest.raises(MCPError, match="too many questions at once"):
                await client.list_resources()
            with pytest.raises(MCPError, match="too many questions at once"):
                await client.read_resource("pincite://documents/x")

    asyncio.run(run())
    service.turns.close()
