"""HTTP with JSON: what the commands give, by addresses."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pincite import __version__
from pincite.serve.access import Asker
from pincite.serve.guard import asker_of, for_groups
from pincite.serve.requests import UNFORESEEN, Ask, Listing, Search, asked, number_in, place_of, status_of, told_of
from pincite.serve.service import Service
from pincite.serve.streaming import PRIVATE, STILL_AT_WORK, as_events, event, told_by
from pipelines.errors import PinciteError, UsageError

LOG = logging.getLogger("pincite.serve")


class Api:
    """Routes over a service. `url` is the address that links begin with."""

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
        told = await asked(request, Search)
        found = await run_in_threadpool(
            self._service.search, told.q, asker_of(request), told.k, told.strategy, told.rerank, told.filter
        )
        return JSONResponse(self.linked(found), headers=PRIVATE)

    async def ask(self, request: Request) -> Response:
        told = await asked(request, Ask)
        if "text/event-stream" in request.headers.get("accept", ""):
            return as_events(self._events(told, asker_of(request)))
        answer = await run_in_threadpool(
            self._service.ask, told.q, asker_of(request), told.k, told.strategy, told.rerank, told.filter, told.option
        )
        return JSONResponse(self.linked(answer), headers=PRIVATE)

    async def _events(self, told: Ask, asker: Asker) -> AsyncIterator[str]:
        """`passages` as soon as they are found, then `answer`, which was checked as a whole; or `error`."""

        def work(tell: Callable[[tuple[str, Any]], None]) -> tuple[str, Any]:
            def found(passages: Mapping[str, Any]) -> None:
                tell(("passages", self.linked(passages)))

            answer = self._service.ask(
                told.q, asker, told.k, told.strategy, told.rerank, told.filter, told.option, None, found
            )
            return "answer", self.linked(answer)

        try:
            async for item in told_by(work):
                yield STILL_AT_WORK if item is None else event(item[1], item[0])
        except PinciteError as error:
            yield event({"code": error.code, "message": told_of(error)}, "error")
        except Exception:
            LOG.exception("an answer failed")
            yield event({"code": "internal", "message": UNFORESEEN}, "error")

    async def documents(self, request: Request) -> Response:
        told = await asked(request, Listing)
        listed = await run_in_threadpool(self._service.documents, asker_of(request), told.after, told.most)
        for item in listed:
            item["url"] = f"{self._url}/documents/{item['doc_id']}"
        return JSONResponse({"documents": listed}, headers=PRIVATE)

    async def document(self, request: Request) -> Response:
        found = await run_in_threadpool(self._service.document, request.path_params["doc_id"], asker_of(request))
        return JSONResponse({**found, "url": f"{self._url}/documents/{found['doc_id']}"}, headers=PRIVATE)

    async def file(self, request: Request) -> Response:
        """The file itself, to be kept and never shown by a browser as a page of this site."""
        document = await run_in_threadpool(self._service.found, request.path_params["doc_id"], asker_of(request))
        content = await run_in_threadpool(self._service.file, document)
        name = quote(document.uri.rpartition("/")[2], safe="")
        headers = {**PRIVATE, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return StreamingResponse(iterate_in_threadpool(content), 200, headers, "application/octet-stream")

    async def passage(self, request: Request) -> Response:
        found = await run_in_threadpool(self._service.passage, request.path_params["chunk_id"], asker_of(request))
        return JSONResponse({**found, "url": f"{self._url}/passages/{found['chunk_id']}"}, headers=PRIVATE)

    async def page(self, request: Request) -> Response:
        doc_id, number = request.path_params["doc_id"], number_in(request.path_params["number"])
        if number is None:
            raise HTTPException(404)
        passage = request.query_params.get("passage")
        png = await run_in_threadpool(self._service.page_image, doc_id, number, passage, asker_of(request))
        return Response(png, media_type="image/png", headers={"Cache-Control": "private, max-age=60"})

    async def status(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._service.status, asker_of(request)), headers=PRIVATE)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(openapi(self._url))

    async def owner(self, request: Request) -> Response:
        """What `pincite query` and `pincite ask` send by the state's own socket: the arguments of the command, its
        groups among them."""
        if not request.scope["state"].get("owner"):
            raise HTTPException(404)
        values = json.loads(await request.body())
        asker = for_groups(asker_of(request), tuple(values.pop("groups", ())))
        calls: dict[str, Callable[..., Any]] = {"query": self._service.search, "ask": self._service.ask}
        call = calls.get(request.path_params["command"])
        if call is None:
            raise UsageError(f"no command {request.path_params['command']!r} is answered here")
        try:
            return JSONResponse(await run_in_threadpool(call, values.pop("text"), asker, **values))
        except PinciteError as error:
            told = {"code": error.code, "message": str(error), "exit_code": error.exit_code}
            return JSONResponse({"error": told}, status_of(error))

    def linked(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Hits and citations with the address where each can be read, a citation with its sentence set off."""
        made = dict(found)
        for name in ("hits", "citations", "marked"):
            if name in made:
                made[name] = [{**item, "url": f"{self._url}/passages/{place_of(item)}"} for item in made[name]]
        return made


# ---------------------------------------------------------------- what is described

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
    """The description of the routes in OpenAPI 3.1."""
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
