"""The guard of the UI over a webserver that lets everybody in: who gets through, and who does not."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from pincite.guard import NO_TOKEN, UI_MESSAGES, UiGuard

TOKEN = "a-token-of-the-test-and-nothing-else"
HERE = "127.0.0.1:3000"
JSON = {"content-type": "application/json"}
BEARER = {"authorization": f"Bearer {TOKEN}"}
OWN = {"origin": f"http://{HERE}", "sec-fetch-site": "same-origin"}


async def anything(request: Request) -> JSONResponse:
    return JSONResponse({"path": request.url.path, "method": request.method})


async def echo(socket: WebSocket) -> None:
    await socket.accept(subprotocol="graphql-ws")
    await socket.send_json({"type": "connection_ack"})
    await socket.close()


def client(host: str = HERE, **options: Any) -> TestClient:
    methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS"]
    app = Starlette(routes=[WebSocketRoute("/graphql", echo), Route("/{path:path}", anything, methods=methods)])
    guard = UiGuard(app, TOKEN, 3000, **options)
    return TestClient(guard, base_url=f"http://{host}", follow_redirects=False)


@pytest.fixture
def stranger() -> TestClient:
    return client()


@pytest.fixture
def browser() -> TestClient:
    """One that has opened the printed address."""
    opened = client()
    assert opened.get(f"/?token={TOKEN}").status_code == 303
    return opened


# ---------------------------------------------------------------- token


@pytest.mark.defends("5b")
@pytest.mark.parametrize(
    "path",
    ["/", "/graphql", "/server_info", "/dagit_info", "/runs/1", "/logs/a/b.out", "/download_debug/1", "/favicon.ico",
     "/notebook?path=/x.ipynb", "/_next/static/chunk.js", "/report_asset_materialization/chunks", "//graphql", ""],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS"])
def test_nobody_gets_anything_without_a_token(stranger: TestClient, method: str, path: str) -> None:
    assert stranger.request(method, f"http://{HERE}{path}").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer "}, {"authorization": ""}, {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"}, {"authorization": "Bearer é"}, {"cookie": "pincite_ui_3000="},
        {"cookie": f"pincite_ui_3000={TOKEN}"}, {"cookie": "pincite_ui_3000"}, {"x-token": TOKEN},
    ],
)  # fmt: skip
def test_no_other_secret_will_do(stranger: TestClient, headers: dict[str, str]) -> None:
    sent = {name.encode("latin-1"): value.encode("latin-1") for name, value in headers.items()}
    assert stranger.get("/server_info", headers=sent).status_code == 403


@pytest.mark.parametrize(
    "query",
    ["token=", "token=wrong", f"token={TOKEN}&token=wrong", f"token={TOKEN}x", "token=%ff", f"token%00={TOKEN}"],
)
def test_a_wrong_token_in_the_address_sets_no_cookie(stranger: TestClient, query: str) -> None:
    answer = stranger.get(f"/?{query}")
    assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)


def test_the_printed_address_becomes_a_cookie_and_leaves_no_token_behind() -> None:
    opened = client()
    answer = opened.get(f"/runs?token={TOKEN}&view=back%26fills")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?view=back%26fills")
    (cookie,) = answer.headers.get_list("set-cookie")
    assert TOKEN not in cookie
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {"httponly", "path=/", "samesite=strict"}
    assert opened.get("/runs").json() == {"path": "/runs", "method": "GET"}
    assert client().get("/", headers={"cookie": cookie.partition(";")[0]}).status_code == 403, "of another start"


@pytest.mark.parametrize(
    "path", ["//elsewhere.example/", "///elsewhere.example", "/\\elsewhere.example", "/%5celsewhere"]
)
def test_the_token_leads_nowhere_else(stranger: TestClient, path: str) -> None:
    location = stranger.get(f"http://{HERE}{path}?token={TOKEN}").headers["location"]
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\", "/%5c", "/%5C"))


def test_a_program_sends_the_token_as_a_header(stranger: TestClient) -> None:
    assert stranger.get("/server_info", headers=BEARER).status_code == 200
    assert stranger.post("/graphql", headers={**BEARER, **JSON}, content="{}").status_code == 200


def test_who_is_refused_is_told_how_to_come_in(stranger: TestClient) -> None:
    page = stranger.get("/", headers={"accept": "text/html,*/*"})
    assert page.headers["content-type"].startswith("text/html")
    assert NO_TOKEN in page.text
    assert stranger.get("/").text == NO_TOKEN + "\n"


def test_a_stranger_is_told_so_whichever_page_the_request_comes_from(stranger: TestClient) -> None:
    answer = stranger.get("/", headers={"origin": "http://evil.example"})
    assert (answer.status_code, answer.text) == (403, NO_TOKEN + "\n")


# ---------------------------------------------------------------- host


@pytest.mark.parametrize("host", ["localhost:3000", "127.0.0.1:8080", "[::1]:3000", "LOCALHOST", "localhost.:3000"])
def test_loopback_is_ours_by_all_its_names_and_ports(host: str, stranger: TestClient) -> None:
    assert stranger.get("/", headers={**BEARER, "host": host}).status_code == 200


@pytest.mark.defends("5b")
@pytest.mark.parametrize(
    "host", ["rebound.example:3000", "127.0.0.1.example", "10.0.0.7:3000", "", "localhost@evil.example", "[::1",
             "a:b:c", "0.0.0.0:3000", "xn--localhost", "evil.example#localhost"]
)  # fmt: skip
@pytest.mark.parametrize("headers", [BEARER, {}])
def test_another_name_is_refused_even_with_the_token(host: str, headers: dict[str, str], stranger: TestClient) -> None:
    answer = stranger.get(f"/?token={TOKEN}", headers={**headers, "host": host})
    assert (answer.status_code, answer.text) == (403, UI_MESSAGES["other_host"] + "\n")


def test_a_name_that_was_allowed_is_ours() -> None:
    named = client(names=["index.Example"])
    assert named.get("/", headers={**BEARER, "host": "INDEX.example"}).status_code == 200
    assert named.get("/", headers={**BEARER, "host": "10.0.0.7"}).status_code == 403


def test_where_it_listens_everywhere_any_number_is_ours_but_no_name() -> None:
    everywhere = client(any_address=True)
    assert everywhere.get("/", headers={**BEARER, "host": "10.0.0.7:3000"}).status_code == 200
    assert everywhere.get("/", headers={**BEARER, "host": "rebound.example:3000"}).status_code == 403


# ---------------------------------------------------------------- other sites


@pytest.mark.defends("5b")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:3000"}, {"origin": f"http://{HERE}", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "cross-site"}, {}, {"sec-fetch-site": "none"},
    ],
)  # fmt: skip
def test_a_page_of_another_site_changes_nothing_with_our_cookie(browser: TestClient, headers: dict[str, str]) -> None:
    answer = browser.post("/graphql", headers={**JSON, **headers}, content="{}")
    assert (answer.status_code, answer.text) == (403, UI_MESSAGES["other_site"] + "\n")


def test_our_own_pages_ask_as_they_like(browser: TestClient) -> None:
    assert browser.post("/graphql?op=Runs", headers={**JSON, **OWN}, content="{}").status_code == 200
    assert browser.get("/_next/static/x.js", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_link_on_another_site_may_be_followed_but_nothing_embedded(browser: TestClient) -> None:
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    answer = browser.get("/runs", headers=visit)
    assert (answer.status_code, answer.headers["x-frame-options"]) == (200, "DENY")
    assert browser.get("/runs", headers={**visit, "sec-fetch-mode": "no-cors"}).status_code == 403


# ---------------------------------------------------------------- what may be asked


@pytest.mark.defends("5b")
@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "//graphql", "/x/graphql", "/%67raphql"])
@pytest.mark.parametrize("query", ["query=mutation{launchRun}", "query={version}&operationName=A", "", "extensions={}"])
@pytest.mark.parametrize("accept", ["*/*", "text/html"])
def test_graphql_is_not_asked_by_get(browser: TestClient, path: str, query: str, accept: str) -> None:
    for method in ("GET", "HEAD", "PUT"):
        headers = {"accept": accept, **OWN}
        assert browser.request(method, f"http://{HERE}{path}?{query}", headers=headers).status_code == 405


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
             "text/plain; application/json", "application/graphql"]
)  # fmt: skip
def test_graphql_is_asked_in_json_only(browser: TestClient, kind: str) -> None:
    answer = browser.post("/graphql?query=mutation{a}", headers={"content-type": kind, **OWN}, content="x")
    assert (answer.status_code, answer.text) == (405, UI_MESSAGES["not_json"] + "\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_else_is_changed(browser: TestClient, method: str) -> None:
    for path in ("/report_asset_materialization/chunks", "/report_asset_check/chunks", "/", "/logs/x"):
        assert browser.request(method, path, headers={**JSON, **OWN}).status_code == 405


# ---------------------------------------------------------------- websockets


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "http://127.0.0.1:9999"}, {}, {**OWN, "host": "rebound.example"}],
)
def test_a_websocket_of_another_site_is_closed(browser: TestClient, headers: dict[str, str]) -> None:
    with pytest.raises(WebSocketDisconnect) as closed, browser.websocket_connect("/graphql", headers=headers):
        pass
    assert closed.value.code == 1008


def test_a_websocket_needs_the_token(stranger: TestClient) -> None:
    for path in ("/graphql", f"/graphql?token={TOKEN}"):
        with pytest.raises(WebSocketDisconnect), stranger.websocket_connect(path, headers=OWN):
            pass


def test_a_websocket_of_ours_is_served(browser: TestClient) -> None:
    with browser.websocket_connect(f"ws://{HERE}/graphql", headers=OWN) as socket:
        assert socket.receive_json() == {"type": "connection_ack"}
