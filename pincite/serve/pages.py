"""Pages for people: search, reader, answer, state. They are forms and links, and work without JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pincite.guard import COOKIE, Access, Asker, ByToken, asker_of, inside
from pincite.serve.api import Search, checked, number_in
from pincite.serve.reader import Reader, Reading, best_sentences, set_off
from pincite.serve.service import Service
from pincite.serve.turns import Busy, caller_of
from pincite.text.passages import pin
from pipelines.inert import seen
from pipelines.settings.query import HITS
from resources.child_process import ROOT

HERE = Path(ROOT, "pincite", "serve")
PRIVATE = {"Cache-Control": "private, no-store"}
EXCERPT = 700
"""Characters of a hit's text that are shown."""


def environment() -> Environment:
    """Return the templates. They escape every value, and drop characters of texts that reorder what a reader sees."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_seen,
    )  # fmt: skip
    made.filters.update(seen=seen, pin=pin)
    made.globals.update(query=_query)
    return made


def _seen(value: Any) -> Any:
    """Return a value as every page shows it; markup that a template made of other values stays as it is."""
    return seen(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _query(**values: Any) -> str:
    """Return a query string of the values that are not empty."""
    return urlencode([(name, value) for name, value in values.items() if value not in (None, "", False)])


class Pages:
    def __init__(self, service: Service, access: Access, answers_by_model: bool) -> None:
        self._service, self._access, self._by_model = service, access, answers_by_model
        self._turns, self._templates = service.turns, environment()
        self._readers = {draw: Reader(service, draw) for draw in (False, True)}

    def routes(self) -> list[Route | Mount]:
        return [
            Route("/", self.search),
            Route("/passages/{chunk_id}", self.passage),
            Route("/documents/{doc_id}", self.document),
            Route("/status", self.status),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def html(self, request: Request, name: str, status: int = 200, /, **values: Any) -> Response:
        asker = request.scope["state"].get("asker") or Asker()
        given = {"asker": asker, "signs_in": self._access.signs_in, "q": "", "title": "", **values}
        return HTMLResponse(self._templates.get_template(name).render(given), status, PRIVATE)

    # ------------------------------------------------------------ search and answer

    async def search(self, request: Request) -> Response:
        """Answer with the front page; with a question, its answer and hits too. A language model answers only on
        request."""
        asker, caller = asker_of(request), caller_of(request)
        given = {key: value for key, value in request.query_params.items() if value}
        answering = given.pop("ask", "") == "1" or not self._by_model
        narrowed = {name: given.pop(name, "") for name in ("source", "from", "to")}
        status = await self._turns.reading.run(caller, lambda: self._service.status(asker))
        if status["live"] is None:
            return self.html(request, "first.html", 503)
        values = {"status": status, "narrowed": narrowed, "by_model": self._by_model, "strategy": given.get("strategy")}
        if not given.get("q", "").strip():
            listed = await self._turns.reading.run(caller, lambda: self._service.documents(asker, "", 12))
            return self.html(request, "search.html", found=None, documents=listed, **values)
        filters = tuple(f"{name}={value}" for name, value in narrowed.items() if value)
        told = checked(Search, {"k": HITS, **given, "filter": filters})
        turns = self._service.turns_of(told.strategy, told.rerank, answering=answering)
        found = await turns.run(caller, lambda: self._found(told, asker, answering))
        return self.html(request, "search.html", q=told.q, found=found, documents=[], answered=answering, **values)

    def _found(self, told: Search, asker: Asker, answering: bool) -> dict[str, Any]:
        ask = self._service.ask if answering else self._service.search
        found = ask(told.q, asker, told.k, told.strategy, told.rerank, told.filter)
        sentences = self._service.sentences([hit["chunk_id"] for hit in found["hits"]], asker)
        best = best_sentences(told.q, sentences)
        for hit in found["hits"]:
            hit["shown"], hit["sentence_id"] = _shown(hit, best)
        return found

    # ------------------------------------------------------------ reader

    async def passage(self, request: Request) -> Response:
        asker, question, as_text, number = _asked_of_reader(request)
        named, sentence = request.path_params["chunk_id"], request.query_params.get("sentence", "")
        reading = await self._turns.drawn(
            caller_of(request),
            lambda draw: self._readers[draw].passage(named, asker, question, sentence, as_text, number),
        )
        return await self._read(request, reading, asker, question, as_text)

    async def document(self, request: Request) -> Response:
        asker, question, as_text, number = _asked_of_reader(request)
        page = number_in(request.query_params.get("page")) or 1
        doc_id = request.path_params["doc_id"]
        reading = await self._turns.drawn(
            caller_of(request), lambda draw: self._readers[draw].document(doc_id, asker, page, as_text, number)
        )
        return await self._read(request, reading, asker, question, as_text)

    async def _read(self, request: Request, reading: Reading, asker: Asker, question: str, as_text: bool) -> Response:
        others: list[dict[str, Any]] = []
        if question:
            with suppress(Busy):  # the passage is shown without them
                others = await self._service.turns_of().run(
                    caller_of(request), lambda: self._readers[False].others(reading, asker, question)
                )
        return self.html(request, "reader.html", reading=reading, others=others, q=question, as_text=as_text,
                         sentence=reading.sentence_id)  # fmt: skip

    # ------------------------------------------------------------ state and signing in

    async def status(self, request: Request) -> Response:
        asker = asker_of(request)
        status = await self._turns.reading.run(caller_of(request), lambda: self._service.status(asker))
        return self.html(request, "status.html", status=status, dagster=self._service.settings.dagster)

    async def login(self, request: Request) -> Response:
        """Exchange a token for a cookie."""
        if not isinstance(self._access, ByToken):
            return RedirectResponse("/", 303)
        there = inside(request.query_params.get("next", ""))
        if request.method == "GET":
            return self.html(request, "login.html", there=there, wrong=False)
        body = (await request.body()).decode("utf-8", "replace")
        token = dict(parse_qsl(body)).get("token", "").strip()
        if self._access.of(token) is None:
            return self.html(request, "login.html", 403, there=there, wrong=True)
        answer = RedirectResponse(there, 303)
        secure = request.url.scheme == "https" or (self._service.settings.url or "").startswith("https:")
        self._access.remember(answer, token, secure)
        return answer

    async def logout(self, request: Request) -> Response:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def failed(self, request: Request, status: int, code: str, message: str) -> Response:
        """Return an error as a page."""
        return self.html(request, "message.html", status, code=code, message=message, status=status)


def _shown(hit: Mapping[str, Any], best: Mapping[str, Any]) -> tuple[tuple[str, str, str], str]:
    """Return a hit's text around the sentence that is set off, and the sentence's id; "" if it has no such sentence."""
    anchors = hit["paragraph"]["anchors"] if hit["paragraph"] else ()
    one = best.get(hit["chunk_id"])
    said, name = (anchors[0]["text"], anchors[0]["sentence_id"]) if anchors else (
        (one.text, one.sentence_id) if one else ("", "")
    )  # fmt: skip
    at = hit["text"].find(said) if said else -1
    return set_off(hit["text"], max(at, 0), len(said) if at >= 0 else 0, EXCERPT), name


def _asked_of_reader(request: Request) -> tuple[Asker, str, bool, int | None]:
    given = request.query_params
    return asker_of(request), given.get("q", "")[:10_000], given.get("view") == "text", number_in(given.get("part"))
