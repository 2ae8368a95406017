"""Which POST requests are answered, over every route: programs send JSON, browsers send it from our own pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from pincite.guard import Access, Anybody, ByProxy, ByToken, TokenFile
from pincite.serve.application import application
from pincite.serve.mcp import OverHttp, Tools, by_request, server_of
from pipelines.settings.serve import ServeSettings
from tests.support.bare_index import URL, bare_service

SECRET = "s" * 32
PROXY = {"X-Pincite-Secret": SECRET, "X-Forwarded-User": "anna", "X-Forwarded-Groups": "hr"}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
OWN = {"Origin": URL}
BODIES: dict[str, Any] = {
    "/api/search": {"q": "a"}, "/api/ask": {"q": "a"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}]},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
}  # fmt: skip
"""Every route that takes JSON, and what it answers."""
FORMS = ("/login", "/logout", "/feedback")
OWNER = "/owner/{command}"
OTHER_SITES = [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "x"},
    {**OWN, "Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
]  # fmt: skip
NO_JSON = [
    [], ["text/plain"], ["text/plain; application/json"], ["application/x-www-form-urlencoded"],
    ["multipart/form-data"], ["text/json"], ["application/jsonp"], ["application/json, text/plain"],
    ["text/plain, application/json"],
    ["application/json", "application/json"], ["application/json", "text/plain"], ["text/plain", "application/json"],
    ["application/xml+json"], ["application/json\u00a0"], ["", "application/json"], [";application/json"], ["json"],
]  # fmt: skip


def served(access: Access) -> Iterator[TestClient]:
    service = bare_service()
    agents = OverHttp(server_of(Tools(service, URL), by_request))
    with TestClient(application(service, access, URL, agents=agents), base_url=URL, follow_redirects=False) as client:
        yield client


@pytest.fixture
def proxied() -> Iterator[TestClient]:
    """A server behind a proxy that has said who asks."""
    for client in served(ByProxy(ServeSettings(auth="proxy"), SECRET)):
        client.headers.update(PROXY)
        yield client


@pytest.fixture(params=["proxy", "cookie"])
def vouched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    """A server that knows who asks by what a browser sends of itself."""
    tokens = TokenFile(tmp_path)
    token = tokens.add("anna", (), operator=False)
    proxy = ByProxy(ServeSettings(auth="proxy"), SECRET)
    for client in served(proxy if request.param == "proxy" else ByToken(tokens, None)):
        client.headers.update(PROXY if request.param == "proxy" else {"Cookie": f"pincite_token={token}"})
        yield client


@pytest.fixture(params=["token", "none"])
def named(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    """A server that a program has named itself to, or that takes everybody."""
    tokens = TokenFile(tmp_path)
    token = tokens.add("anna", (), operator=False)
    for client in served(ByToken(tokens, None) if request.param == "token" else Anybody()):
        client.headers.update({"Authorization": f"Bearer {token}"} if request.param == "token" else {})
        yield client


def post(client: TestClient, path: str, headers: Any = (), body: Any = None) -> Any:
    content = json.dumps(BODIES.get(path) if body is None else body)
    return client.request("POST", path.replace("{command}", "query"), headers=headers, content=content)


def told(reply: Any) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


def test_these_are_all_routes_that_take_a_post(proxied: TestClient) -> None:
    app: Any = proxied.app
    routes = [route for route in app._app.routes if isinstance(route, Route)]
    assert {route.path for route in routes if "POST" in (route.methods or ("POST",))} == {*BODIES, *FORMS, OWNER}


@pytest.mark.parametrize("path", BODIES)
def test_a_program_that_sends_json_needs_no_origin(vouched: TestClient, path: str) -> None:
    kinds = ["application/json", "application/json; charset=utf-8"]
    if path != "/mcp":  # the protocol's own library asks for small letters
        kinds += ["Application/JSON;charset=utf-8", " application/json "]
    for kind in kinds:
        reply = post(vouched, path, {**JSON, "Content-Type": kind})
        assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("path", BODIES)
def test_json_by_another_name_is_refused_where_a_browser_vouches(vouched: TestClient, path: str) -> None:
    for origin in ({}, OWN):
        for kinds in NO_JSON:
            given: list[Any] = [("Accept", JSON["Accept"]), *origin.items()]
            reply = post(vouched, path, given + [("Content-Type", kind.encode("latin-1")) for kind in kinds])
            assert told(reply) == (415, "not_json"), kinds
            assert "Content-Type: application/json" in reply.json()["error"]["message"]


@pytest.mark.parametrize("headers", OTHER_SITES, ids=str)
def test_a_page_of_another_site_posts_nothing(vouched: TestClient, headers: dict[str, str]) -> None:
    for path in (*BODIES, *FORMS, OWNER):
        for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
            assert told(post(vouched, path, {**JSON, **headers, "Content-Type": kind})) == (403, "other_site"), path


def test_nor_where_a_program_is_named_or_nobody(named: TestClient) -> None:
    for path in (*BODIES, *FORMS, OWNER):
        for headers in OTHER_SITES:
            assert told(post(named, path, {**JSON, **headers})) == (403, "other_site"), (path, headers)


@pytest.mark.parametrize("path", BODIES)
def test_our_own_pages_send_json(vouched: TestClient, path: str) -> None:
    for own in (OWN, {"Sec-Fetch-Site": "same-origin"}):
        assert post(vouched, path, {**JSON, **own}).status_code == 200


@pytest.mark.parametrize("path", [*FORMS, OWNER])
def test_a_form_is_sent_by_our_own_pages_alone_whatever_it_calls_itself(vouched: TestClient, path: str) -> None:
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        assert told(post(vouched, path, {**JSON, "Content-Type": kind})) == (403, "other_site")
    sent = post(vouched, path, {**OWN, "Content-Type": "application/x-www-form-urlencoded"})
    assert sent.status_code in (303, 403, 404) and "other_site" not in sent.text


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "QUERY"])
def test_other_methods_do_nothing_and_grant_nothing(vouched: TestClient, method: str) -> None:
    """A browser asks for leave before it sends one of these to another site, and leave is never given."""
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    for path in (*BODIES, *FORMS):
        for headers in ({}, JSON, OWN, {**OTHER_SITES[0], **asked}, asked):
            reply = vouched.request(method, path, headers=headers)
            assert reply.status_code in (403, 405), path
            assert not [name for name in reply.headers if name.lower().startswith("access-control-")]
        assert told(vouched.request(method, path, headers=OTHER_SITES[0])) == (403, "other_site")


@pytest.mark.parametrize("path", BODIES)
def test_a_program_that_names_itself_may_call_its_json_as_it_likes(named: TestClient, path: str) -> None:
    """A browser adds no such name by itself, so that no page of another site can send it."""
    reply = post(named, path, JSON)
    assert reply.status_code == 200, reply.text
    if path != "/mcp":  # the protocol's own library asks for JSON
        assert post(named, path, {"Content-Type": "text/plain"}).status_code == 200
