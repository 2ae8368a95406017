"""The HTTP API for programs: its requests, by query string or JSON, and its JSON answers.

A chat program uses the form of OpenAI's chat completions, by POST /v1/chat/completions. The last message of the user is
the question; earlier messages are ignored. The answer is Markdown with links only to the reader.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pincite import __version__
from pincite.guard import Asker, asker_of, is_owner, no_text
from pincite.serve.answers import PRIVATE, Download, as_events, event, place_of, status_of, telling
from pincite.serve.service import Service
from pincite.serve.turns import caller_of
from pipelines.defused_text import clear
from pipelines.errors import DocumentError, PinciteError, UsageError
from pipelines.parsing.markdown_view import link_label, plain_markdown
from pipelines.settings.query import FILTER_HELP, HITS, StrategyName
from pipelines.settings.section import explain_errors

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


# ---------------------------------------------------------------- requests


MOST_HITS = 100
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")


class Search(BaseModel):
    """A question, and the options of its search."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    q: str = Field(min_length=1, max_length=10_000, description="The question.")
    k: int = Field(HITS, ge=1, le=MOST_HITS, description="Hits to give.")
    strategy: StrategyName | None = Field(None, description="How candidates are found; the settings' where left out.")
    rerank: str | None = Field(None, max_length=200, description="Rerankers by commas; the settings' where left out.")
    filter: tuple[str, ...] = Field((), max_length=50, description=FILTER_HELP)


class Ask(Search):
    """A question to be answered."""

    option: tuple[str, ...] = Field((), max_length=26, description="LETTER=TEXT of answers to choose from.")


class Listing(BaseModel):
    """Documents in the order of their ids."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: str = Field("", max_length=200, description="Those after this doc_id: the last of the list before.")
    most: int = Field(100, ge=1, le=1000, description="How many at most.")


_MANY: Final = ("filter", "option")
MOST_TOLD: Final = 5
"""Most faults of a request that an error lists."""


async def parse_request(request: Request, model: type[M]) -> M:
    """Return the fields of a request, from its query string or, for POST, from its JSON. Raises UsageError."""
    values: Any
    if request.method == "POST":
        values = await body_of(request)
    else:
        pairs = request.query_params.multi_items()
        single = [(name, value) for name, value in pairs if name not in _MANY]
        values = dict(single)
        if len(values) < len(single):
            raise UsageError("a parameter is given twice; give it once")
        for name in _MANY:
            if given := [value for key, value in pairs if key == name]:
                values[name] = given
    return check_values(model, values)


def check_values(model: type[M], values: Any) -> M:
    """Return external values as a model; raise UsageError that names each wrong value."""
    require_text(values)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong = explain_errors(model, error.errors()[:MOST_TOLD], "parameter")
        raise UsageError(f"the request is not valid: {'; '.join(wrong)}") from None


def require_text(values: Any) -> None:
    """Raise UsageError if a text or name within JSON contains U+0000 or half of a surrogate pair, which cannot be
    stored or written as UTF-8."""
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if found := _NO_TEXT.search(value):
                raise UsageError(no_text(found[0]))
        elif isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value


def number_in(text: str | None) -> int | None:
    """Parse the number of a page or part, counted from 1; return None if the text is not such a number."""
    return int(text) or None if text and text.isascii() and text.isdecimal() and len(text) < 8 else None


async def body_of(request: Request) -> Any:
    """Return the JSON of a request. Raises UsageError."""
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise UsageError("the request's body is not JSON; send an object as JSON") from None


# ---------------------------------------------------------------- routes


class Api:
    """The routes of the HTTP API over a service. `url` is the start of links."""

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
        told, asker = await parse_request(request, Search), asker_of(request)

        def work() -> Response:
            found = self._service.search(told.q, asker, told.k, told.strategy, told.rerank, told.filter)
            return JSONResponse(self.with_links(found), headers=PRIVATE)

        return await self._service.turns_of(told.strategy, told.rerank).run(caller_of(request), work)

    async def ask(self, request: Request) -> Response:
        told, asker = await parse_request(request, Ask), asker_of(request)
        turns, caller = self._service.turns_of(told.strategy, told.rerank, answering=True), caller_of(request)

        def answer(found: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
            return self.with_links(
                self._service.ask(
                    told.q, asker, told.k, told.strategy, told.rerank, told.filter, told.option, None, found
                )
            )

        def work(tell: Callable[[tuple[str, Any]], None]) -> tuple[str, Any]:
            return "answer", answer(lambda passages: tell(("passages", self.with_links(passages))))

        if "text/event-stream" in request.headers.get("accept", ""):
            # `passages` as soon as they are found, then `answer`, which was checked as a whole; or `error`.
            told_meanwhile = await telling(turns, caller, work)
            return as_events(
                told_meanwhile, lambda item: event(item[1], item[0]), lambda problem: event(problem, "error")
            )
        return await turns.run(caller, lambda: JSONResponse(answer(), headers=PRIVATE))

    async def documents(self, request: Request) -> Response:
        told, asker = await parse_request(request, Listing), asker_of(request)

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
        document = await self._reading(request, lambda: self._service.find_document(doc_id, asker))
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
            raise DocumentError(
                "the name of the page is invalid; name it by its number from 1, such as 1.png", "no_page"
            )
        passage, asker = request.query_params.get("passage"), asker_of(request)
        png = await self._service.turns.draw(
            caller_of(request), lambda draw: self._service.page_image(doc_id, number, passage, asker, draw)
        )
        return Response(png, media_type="image/png", headers={"Cache-Control": "private, max-age=60"})

    async def status(self, request: Request) -> Response:
        asker = asker_of(request)
        return await self._reading(request, lambda: JSONResponse(self._service.status(asker), headers=PRIVATE))

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(openapi(self._url))

    async def owner(self, request: Request) -> Response:
        """Answer the commands `pincite query` and `pincite ask`, which send their arguments, including groups, over the
        state's own socket."""
        if not is_owner(request):
            raise HTTPException(404)
        values = await body_of(request)
        require_text(values)
        if not isinstance(values, dict) or not isinstance(values.get("text"), str):
            raise UsageError("the command has no text; send an object with `text`")
        asker = replace(asker_of(request), groups=tuple(values.pop("groups", ())))
        command = request.path_params["command"]
        calls: dict[str, Callable[..., Any]] = {"query": self._service.search, "ask": self._service.ask}
        if command not in calls:
            raise UsageError(f"the command {command!r} is not answered here; send query or ask")
        turns = self._service.turns_of(values.get("strategy"), values.get("rerank"), answering=command == "ask")
        work = partial(calls[command], values.pop("text"), asker, **values)
        try:
            return JSONResponse(await turns.run(caller_of(request), work))
        except PinciteError as error:
            told = {"code": error.code, "message": str(error), "exit_code": error.exit_code}
            return JSONResponse({"error": told}, status_of(error))

    async def _reading(self, request: Request, work: Callable[[], T]) -> T:
        return await self._service.turns.reading.run(caller_of(request), work)

    def with_links(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Add to hits and citations their addresses in the reader, which highlights a citation's sentence."""
        made = dict(found)
        for name in ("hits", "citations", "marked"):
            if name in made:
                made[name] = [{**item, "url": f"{self._url}/passages/{place_of(item)}"} for item in made[name]]
        return made


# ---------------------------------------------------------------- description in OpenAPI

_CALLS: tuple[tuple[str, str, str, type[BaseModel] | None], ...] = (
    ("/api/search", "search", "Passages for a question, each with document, page and boxes; `documents` groups "
     "them, the best first, each with a `name` that identifies it, `format`, `date` and ranks of hits.", Search),
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

# ---------------------------------------------------------------- the form of OpenAI's chat completions

MODEL = "pincite"
NEAREST = 3
"""Number of nearest passages that are named if the documents do not answer."""


class _MessagePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: str = "text"
    text: str = ""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str
    content: str | tuple[_MessagePart, ...] | None = None


class ChatRequest(BaseModel):
    """The fields of a chat request that are used; sampler settings have no effect."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str = MODEL
    messages: tuple[_Message, ...] = Field(min_length=1)
    stream: bool = False
    n: Literal[1] = 1

    def question(self) -> Ask:
        """Return the user's last message as a question. Raises UsageError if the user asks nothing."""
        for message in reversed(self.messages):
            if message.role == "user":
                parts = [message.content] if isinstance(message.content, str) else [
                    part.text for part in message.content or () if part.type == "text"
                ]  # fmt: skip
                return check_values(Ask, {"q": "\n".join(parts).strip()})
        raise UsageError("messages: no message has the role user; add one with the question")


class Chat:
    """The chat's routes over a service. `url` is the start of links."""

    def __init__(self, service: Service, url: str) -> None:
        self._service, self._url, self._since = service, url, int(time.time())

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self.models),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
        ]

    async def models(self, request: Request) -> Response:
        asker_of(request)
        model = {"id": MODEL, "object": "model", "created": self._since, "owned_by": "pincite"}
        return JSONResponse({"object": "list", "data": [model]})

    async def complete(self, request: Request) -> Response:
        asker, told = asker_of(request), check_values(ChatRequest, await body_of(request))
        question = told.question()
        made = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": told.model[:100]}
        turns, caller = self._service.turns_of(answering=True), caller_of(request)
        if told.stream:
            answered = await telling(turns, caller, lambda tell: self._answer(question, asker))
            return self._events(answered, {**made, "object": "chat.completion.chunk"})
        text = await turns.run(caller, lambda: self._answer(question, asker))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return JSONResponse({**made, "object": "chat.completion", "choices": [choice]}, headers=PRIVATE)

    def _events(self, answered: AsyncIterator[str | None], made: Mapping[str, Any]) -> Response:
        """Return an answer as events. The whole answer is checked before any of it is sent, so it is sent in one
        piece."""

        def piece(delta: Mapping[str, str], finish: str | None = None) -> str:
            return event({**made, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        return as_events(
            answered,
            lambda text: piece({"content": text}) + piece({}, "stop"),
            lambda problem: event({"error": problem}),
            begin=piece({"role": "assistant", "content": ""}),
            end=event("[DONE]"),
        )

    def _answer(self, question: Ask, asker: Asker) -> str:
        return markdown_answer(self._service.ask(question.q, asker), self._url)


def markdown_answer(answer: Mapping[str, Any], url: str) -> str:
    """Return the JSON of `pincite ask` as Markdown; a mark at each claim links to its place in the reader at `url`."""

    def link(words: str, item: Mapping[str, Any]) -> str:
        return f"[{words}]({url}/passages/{place_of(item)})"

    def place(item: Mapping[str, Any], page: int | None) -> str:
        return link(link_label(item["uri"] + (f", p. {page}" if page is not None else "")), item)

    cited: Sequence[Mapping[str, Any]] = answer["citations"]
    marks = [link(f"\\[{number}\\]", item) for number, item in enumerate(cited, start=1)]
    if answer["declined"]:
        said = ["The documents do not answer this."]
        nearest = [f"- {place(hit, hit['page_start'])}" for hit in answer["hits"][:NEAREST]]
        said += ["Nearest passages:", "\n".join(nearest)] if nearest else []
        return "\n\n".join(said)
    if answer["generated"]:
        said = [plain_markdown(answer["answer"]) + " " + " ".join(marks)]
        said.append(
            f"Written by a language model ({plain_markdown(str(answer['model']))}), checked against the passages:"
        )
        places = [f"{place(item, item['page'])}: “{plain_markdown(item['quote'])}”" for item in cited]
    else:
        said = [f"{plain_markdown(item['quote'])} {mark}" for item, mark in zip(cited, marks, strict=True)]
        places = [place(item, item["page"]) for item in cited]
    said.append("\n".join(f"{number}. {words}" for number, words in enumerate(places, start=1)))
    return "\n\n".join(said)
