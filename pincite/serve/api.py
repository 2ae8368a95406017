"""The HTTP application: its addresses for programs, their JSON, and the form in which each asker gets an error.

Chat, pages and the tools for agents are modules of their own, which `application` joins.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from pincite import __version__
from pincite.guard import FOR_PROGRAMS, Access, ServeGuard, asker_of, error, is_owner
from pincite.serve.chat import Chat
from pincite.serve.pages import Pages
from pincite.serve.requests import (
    UNFORESEEN,
    Ask,
    Listing,
    Search,
    asked,
    body_of,
    number_in,
    place_of,
    require_text,
    status_of,
    told_of,
)
from pincite.serve.service import Service
from pincite.serve.turns import PRIVATE, STILL_AT_WORK, Busy, Download, as_events, caller_of, event, telling
from pipelines.errors import DocumentError, PinciteError, UsageError
from pipelines.inert import clear

if TYPE_CHECKING:
    from pincite.serve.mcp import OverHttp


# ---------------------------------------------------------------- api


LOG = logging.getLogger("pincite.serve")
T = TypeVar("T")


class Api:
    """The routes for programs over a service. `url` is the address that links begin with."""

    def __init__(self, service: Service, url: str) -> None:
        self._service, self._url = service, url

    def routes(self) -> list[Route]:
        return [
            Route("/health", self.health),
            Route("/api/search", self.search, methods=["GET", "POST"]),
            Route("/api/ask", self.ask, methods=["GET", "POST"]),
            Route("/api/documents", self.documents),
            Route("/api/documents/{doc_id}", self.document),
            Route("/api/documents/{doc_id}/file", self.file),
            Route("/api/passages/{chunk_id}", self.passage),
            Route("/api/pages/{doc_id}/{number}.png", self.page),
            Route("/api/status", self.status),
            Route("/api/openapi.json", self.openapi),
            Route("/owner/{command}", self.owner, methods=["POST"]),
        ]

    async def health(self, request: Request) -> Response:
        return JSONResponse({"ok": True, "version": __version__})

    async def search(self, request: Request) -> Response:
        told, asker = await asked(request, Search), asker_of(request)

        def work() -> Response:
            found = self._service.search(told.q, asker, told.k, told.strategy, told.rerank, told.filter)
            return JSONResponse(self.linked(found), headers=PRIVATE)

        return await self._service.turns_of(told.strategy, told.rerank).run(caller_of(request), work)

    async def ask(self, request: Request) -> Response:
        told, asker = await asked(request, Ask), asker_of(request)
        turns, caller = self._service.turns_of(told.strategy, told.rerank, answering=True), caller_of(request)

        def answer(found: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
            return self.linked(
                self._service.ask(
                    told.q, asker, told.k, told.strategy, told.rerank, told.filter, told.option, None, found
                )
            )

        def work(tell: Callable[[tuple[str, Any]], None]) -> tuple[str, Any]:
            return "answer", answer(lambda passages: tell(("passages", self.linked(passages))))

        if "text/event-stream" in request.headers.get("accept", ""):
            return as_events(self._events(await telling(turns, caller, work)))
        return await turns.run(caller, lambda: JSONResponse(answer(), headers=PRIVATE))

    async def _events(self, told: AsyncIterator[tuple[str, Any] | None]) -> AsyncIterator[str]:
        """Yield `passages` as soon as they are found, then `answer`, which was checked as a whole; or `error`."""
        try:
            async for item in told:
                yield STILL_AT_WORK if item is None else event(item[1], item[0])
        except PinciteError as error:
            yield event({"code": error.code, "message": told_of(error)}, "error")
        except Exception:
            LOG.exception("an answer failed")
            yield event({"code": "internal", "message": UNFORESEEN}, "error")

    async def documents(self, request: Request) -> Response:
        told, asker = await asked(request, Listing), asker_of(request)

        def work() -> Response:
            listed = self._service.documents(asker, told.after, told.most)
            for item in listed:
                item["url"] = f"{self._url}/documents/{item['doc_id']}"
            return JSONResponse({"documents": listed}, headers=PRIVATE)

        return await self._reading(request, work)

    async def document(self, request: Request) -> Response:
        doc_id, asker = request.path_params["doc_id"], asker_of(request)

        def work() -> Response:
            found = self._service.document(doc_id, asker)
            return JSONResponse({**found, "url": f"{self._url}/documents/{found['doc_id']}"}, headers=PRIVATE)

        return await self._reading(request, work)

    async def file(self, request: Request) -> Response:
        """Answer with the document's file as a download, so that no browser shows it as a page of this site."""
        doc_id, asker = request.path_params["doc_id"], asker_of(request)
        document = await self._reading(request, lambda: self._service.found(doc_id, asker))
        turns, caller = self._service.turns.files, caller_of(request)
        await turns.take(caller)
        try:
            content = await run_in_threadpool(self._service.file, document)
        except BaseException:
            turns.give_back(caller.name)
            raise
        name = quote(clear(document.uri.rpartition("/")[2]), safe="")
        headers = {**PRIVATE, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return Download(content, headers, partial(turns.give_back, caller.name))

    async def passage(self, request: Request) -> Response:
        chunk_id, asker = request.path_params["chunk_id"], asker_of(request)

        def work() -> Response:
            found = self._service.passage(chunk_id, asker)
            return JSONResponse({**found, "url": f"{self._url}/passages/{found['chunk_id']}"}, headers=PRIVATE)

        return await self._reading(request, work)

    async def page(self, request: Request) -> Response:
        doc_id, number = request.path_params["doc_id"], number_in(request.path_params["number"])
        if number is None:
            raise DocumentError("a page is named by its number, such as 1.png; the first one is 1", "no_page")
        passage, asker = request.query_params.get("passage"), asker_of(request)
        png = await self._service.turns.drawn(
            caller_of(request), lambda draw: self._service.page_image(doc_id, number, passage, asker, draw)
        )
        return Response(png, media_type="image/png", headers={"Cache-Control": "private, max-age=60"})

    async def status(self, request: Request) -> Response:
        asker = asker_of(request)
        return await self._reading(request, lambda: JSONResponse(self._service.status(asker), headers=PRIVATE))

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(openapi(self._url))

    async def owner(self, request: Request) -> Response:
        """Answer `pincite query` and `pincite ask`, which send their arguments, groups among them, by the state's own
        socket."""
        if not is_owner(request):
            raise HTTPException(404)
        values = await body_of(request)
        require_text(values)
        if not isinstance(values, dict) or not isinstance(values.get("text"), str):
            raise UsageError("a command is sent as an object with its text")
        asker = replace(asker_of(request), groups=tuple(values.pop("groups", ())))
        command = request.path_params["command"]
        calls: dict[str, Callable[..., Any]] = {"query": self._service.search, "ask": self._service.ask}
        if command not in calls:
            raise UsageError(f"no command {command!r} is answered here")
        turns = self._service.turns_of(values.get("strategy"), values.get("rerank"), answering=command == "ask")
        work = partial(calls[command], values.pop("text"), asker, **values)
        try:
            return JSONResponse(await turns.run(caller_of(request), work))
        except PinciteError as error:
            told = {"code": error.code, "message": str(error), "exit_code": error.exit_code}
            return JSONResponse({"error": told}, status_of(error))

    async def _reading(self, request: Request, work: Callable[[], T]) -> T:
        return await self._service.turns.reading.run(caller_of(request), work)

    def linked(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return hits and citations with the address where each can be read, a citation with its sentence set off."""
        made = dict(found)
        for name in ("hits", "citations", "marked"):
            if name in made:
                made[name] = [{**item, "url": f"{self._url}/passages/{place_of(item)}"} for item in made[name]]
        return made


# ---------------------------------------------------------------- description in OpenAPI

_CALLS: tuple[tuple[str, str, str, type[BaseModel] | None], ...] = (
    ("/api/search", "search", "Passages for a question, each with document, page and boxes.", Search),
    ("/api/ask", "ask", "An answer with the places that bear it out, or declined. With Accept: text/event-stream the "
     "events passages, answer and error.", Ask),
    ("/api/documents", "documents", "The documents that who asks may find.", Listing),
    ("/api/documents/{doc_id}", "document", "A document and its text as Markdown.", None),
    ("/api/documents/{doc_id}/file", "file", "The file of a document as it was indexed.", None),
    ("/api/passages/{chunk_id}", "passage", "A passage by its id.", None),
    ("/api/pages/{doc_id}/{number}.png", "page", "A page as PNG; with ?passage= its boxes are drawn.", None),
    ("/api/status", "status", "Sources, failures and generations.", None),
)  # fmt: skip


def openapi(url: str) -> dict[str, Any]:
    """Return the description of the routes in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for path, name, told, model in _CALLS:
        given = [
            {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
            for part in path.replace(".png", "").split("/")
            if part.startswith("{")
        ]
        get: dict[str, Any] = {"operationId": name, "summary": told, "parameters": given, "responses": _RESPONSES}
        paths[path] = {"get": get}
        if model is None:
            continue
        schema = model.model_json_schema()
        get["parameters"] = given + [
            {"name": key, "in": "query", "required": key in schema.get("required", ()), "schema": part}
            for key, part in schema["properties"].items()
        ]
        if model is not Listing:
            body = {"required": True, "content": {"application/json": {"schema": schema}}}
            paths[path]["post"] = {
                "operationId": f"{name}_post", "summary": told, "requestBody": body, "responses": _RESPONSES,
            }  # fmt: skip
    info = {"title": "pincite", "version": __version__}
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": url}], "paths": paths,
            "components": {"securitySchemes": schemes}, "security": [{}, {"token": []}]}  # fmt: skip


_RESPONSES = {
    "200": {"description": "What the command gives as JSON, or the file."},
    "default": {
        "description": "An error.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "error": {
                            "type": "object",
                            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                        }
                    },
                }
            }
        },
    },
}


# ---------------------------------------------------------------- application


_TOLD = {404: "nothing is served at this address", 405: "this address does not take requests of this method"}
"""Messages for the statuses that Starlette gives without one."""


def application(
    service: Service,
    access: Access,
    url: str,
    names: Collection[str] = (),
    any_address: bool = False,
    answers_by_model: bool = False,
    agents: OverHttp | None = None,
) -> ASGIApp:
    """Return pages, HTTP and chat over a service as one application, with the tools for `agents` if there are any.

    `url` is the address that links begin with; `names` are hosts that it is reached by, besides loopback."""
    pages, api, chat = Pages(service, access, answers_by_model), Api(service, url), Chat(service, url)
    routes: list[BaseRoute] = [*api.routes(), *chat.routes(), *pages.routes(), *(agents.routes() if agents else ())]

    def failed(request: Request, status: int, code: str, message: str) -> Response:
        page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(FOR_PROGRAMS)
        return pages.failed(request, status, code, message) if page else error(status, code, message)

    async def by_pincite(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, PinciteError)
        status = status_of(problem)
        if status >= 500 and not isinstance(problem, Busy):
            LOG.warning("%s: %s", problem.code, problem)
        answer = failed(request, status, problem.code, told_of(problem))
        if isinstance(problem, Busy):
            answer.headers["Retry-After"] = "2"
        return answer

    async def by_http(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        code = HTTPStatus(problem.status_code).name.lower()
        told = _TOLD.get(problem.status_code, problem.detail)
        return failed(request, problem.status_code, code, told)

    async def gone(request: Request, problem: Exception) -> Response:
        return Response(status_code=400)  # the client is gone, so nobody reads it

    async def unforeseen(request: Request, problem: Exception) -> Response:
        return failed(request, 500, "internal", UNFORESEEN)

    handlers: dict[Any, Any] = {
        PinciteError: by_pincite, HTTPException: by_http, ClientDisconnect: gone, Exception: unforeseen,
    }  # fmt: skip
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=agents.lifespan if agents else None)
    return ServeGuard(app, access, names, any_address)
