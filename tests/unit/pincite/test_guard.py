"""What every request passes before anything of ours sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pincite import guard
from pincite.guard import MOST_BODY, Access, Asker, ServeGuard, asker_of, by_socket
from pipelines.errors import SettingsError
from tests.support.waiting import AT_ONCE_SECONDS

HERE = "127.0.0.1:8750"
OWN = {"origin": f"http://{HERE}"}


class Known:
    """Lets in who says a name; by a cookie where it stands there."""

    signs_in = True

    def who(self, asked: HTTPConnection) -> Asker | None:
        if name := asked.headers.get("x-name"):
            return Asker(name)
        return Asker("cookie", by_cookie=True) if asked.cookies.get("name") else None


class Unreadable:
    signs_in = True

    def who(self, asked: HTTPConnection) -> Asker | None:
        raise SettingsError("/secret/place/tokens.json: damaged")


async def echo(request: Request) -> JSONResponse:
    body = await request.body()
    return JSONResponse({"name": asker_of(request).name, "bytes": len(body)})


def client(access: Access | None = None, **options: Any) -> TestClient:
    app = Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST", "PUT", "OPTIONS"])])
    made = ServeGuard(app, access or Known(), **options)
    return TestClient(made, base_url=f"http://{HERE}", follow_redirects=False, raise_server_exceptions=False)


ANN = {"x-name": "Ann"}


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# ---------------------------------------------------------------- host and origin


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.example", "10.0.0.7:8750", "", "[::1", "0.0.0.0", "a:b:c"]
)
def test_another_name_is_refused_whoever_asks(host: str) -> None:
    for path in ("/", "/health", "/static/x", "/api/search"):
        assert code(client().get(path, headers={**ANN, "host": host})) == (403, "other_host")


def test_names_that_are_served_and_any_number_where_all_are_listened_on() -> None:
    assert client(names=["Ask.Example"]).get("/", headers={**ANN, "host": "ask.example:443"}).status_code == 200
    assert client(any_address=True).get("/", headers={**ANN, "host": "10.0.0.7"}).status_code == 200
    assert client(any_address=True).get("/", headers={**ANN, "host": "rebound.example"}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://[", f"http://{HERE}.evil.example", "http://127.0.0.1:1"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_page_of_another_site_asks_nothing(origin: str, method: str) -> None:
    assert code(client().request(method, "/api/search", headers={**ANN, "origin": origin})) == (403, "other_site")


@pytest.mark.parametrize("path", ["/login", "/logout", "/any"])
def test_with_a_cookie_nothing_is_changed_but_by_our_pages(path: str) -> None:
    cookie = {"cookie": "name=x"}
    assert code(client().post(path, headers=cookie)) == (403, "other_site")
    assert code(client().post(path, headers={**cookie, "sec-fetch-site": "cross-site"})) == (403, "other_site")
    assert client().post(path, headers={**cookie, **OWN}).status_code == 200


def test_nobody_is_signed_in_by_another_site() -> None:
    assert code(client().post("/login")) == (403, "other_site")
    assert client().post("/api/search", headers=ANN).status_code == 200, "a program that names itself needs no origin"


# ---------------------------------------------------------------- who asks


def test_a_stranger_is_told_how_to_come_in() -> None:
    answer = client().get("/api/search?q=a")
    assert code(answer) == (401, "not_signed_in")
    assert answer.headers["www-authenticate"] == "Bearer"
    page = client().get("/?q=a%20b&x=%2F%2Fevil", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=%2F%3Fq%3Da%2520b%26x%3D%252F%252Fevil")
    assert client().post("/", headers={"accept": "text/html"}).status_code == 401


@pytest.mark.parametrize(
    "path",
    ["/healthy", "/login/", "/loginx", "/static", "/staticx", "//static/x", "//health", "/x/health", "/health/x"],
)
def test_only_what_is_open_is_open(path: str) -> None:
    assert code(client().get(f"http://{HERE}{path}")) == (401, "not_signed_in")


def test_an_open_path_has_no_asker_to_read_for() -> None:
    assert client().get("/health").status_code == 401, "of the application: it has asked who it is"


def test_a_file_of_tokens_that_cannot_be_read_lets_nobody_in_and_is_not_named() -> None:
    answer = client(Unreadable()).get("/health", headers=ANN)
    assert code(answer) == (503, "settings")
    assert "place" not in answer.text


def test_every_answer_has_the_headers_that_browsers_heed() -> None:
    for answer in (client().get("/", headers=ANN), client().get("/"), client().get("/", headers={"host": "x"})):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("server", "is_socket"),
    [(("127.0.0.1", 8750), False), (None, False), (("/tmp/x/ask", None), True), (("", None), False)],
)
def test_the_owners_socket_is_recognised(server: Any, is_socket: bool) -> None:
    assert by_socket({"type": "http", "server": server}) is is_socket


def test_no_websocket_is_served() -> None:
    """The server refuses one by itself; the application never sees it."""
    seen: list[Any] = []

    async def app(*given: Any) -> None:
        seen.append(given)

    scope = {"type": "websocket", "path": "/health", "query_string": b"", "server": ("127.0.0.1", 8750)}
    headers = [(b"host", HERE.encode()), (b"origin", OWN["origin"].encode()), (b"x-name", b"Ann")]
    asyncio.run(ServeGuard(app, Known())({**scope, "headers": headers}, None, None))  # type: ignore[arg-type]
    assert not seen


# ---------------------------------------------------------------- sizes


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client().post("/", headers=ANN, content=b"a" * MOST_BODY).json()["bytes"] == MOST_BODY
    assert code(client().post("/", headers=ANN, content=b"a" * (MOST_BODY + 1))) == (413, "too_large")
    pieces = (b"a" * 65_536 for _ in range(17))
    assert client().post("/", headers=ANN, content=pieces).status_code == 413
    monkeypatch.setattr(guard, "MOST_QUERY", 100)  # the client of the test has a bound of its own before that
    assert client().get("/?q=" + "a" * 98, headers=ANN).status_code == 200
    assert code(client().get("/?q=" + "a" * 99, headers=ANN)) == (413, "too_large")


@pytest.mark.parametrize("length", ["-1", "x", "", "1e3", "9" * 400])
def test_a_length_that_is_none_is_refused(length: str) -> None:
    answer = client().post("/", headers={**ANN, "content-length": length}, content=b"a")
    assert code(answer) == (413, "too_large")


def test_a_body_that_drips_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece comes at once after the one before; all of it never does."""
    monkeypatch.setattr(guard, "BODY_SECONDS", AT_ONCE_SECONDS)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def read() -> None:
        dripping = guard._bound_body(receive)
        while True:
            await dripping()

    with pytest.raises(HTTPException) as caught:
        asyncio.run(read())
    assert caught.value.status_code == 408
