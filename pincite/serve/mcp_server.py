"""The tools for agents over the Model Context Protocol, with its official SDK: on standard input and output, or as a
route of `pincite serve` (streamable HTTP without sessions, so that any of several processes may answer)."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pincite import __version__
from pincite.connections import OWNER
from pincite.guard import MOST_BODY, Asker, asker_of
from pincite.listening import STOPPING
from pincite.serve.mcp_tools import INSTRUCTIONS, SCHEME, Picture, Tool, Tools, whole_name
from pincite.serve.requests import UNFORESEEN, checked, require_text, told_of
from pincite.serve.turns import Caller, caller_of
from pipelines.errors import PinciteError
from pipelines.inert import clear

LOG = logging.getLogger("pincite.serve")
T = TypeVar("T")
LISTED = 100
R = TypeVar("R", bound=BaseModel)
Context = ServerRequestContext[Any, Any]
AskerOf = Callable[[Context], Asker]


def by_request(context: Context) -> Asker:
    """Return who sent the HTTP request of a call. Raises HTTPException 401 if nobody was let in."""
    assert isinstance(context.request, Request)
    return asker_of(context.request)


def server_of(tools: Tools, asker: AskerOf) -> Server[Any]:
    """Return the tools as a server of the SDK; `asker` says for whom a call is answered."""
    named = {tool.name: tool for tool in tools.all()}

    async def list_tools(context: Context, asked: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in named.values()])

    async def call_tool(context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = named.get(asked.name)
        if tool is None:
            return _failed(f"there is no tool {asked.name[:100]!a}; there are {', '.join(named)}")
        try:
            given = checked(tool.given, asked.arguments or {})
            return _result(await tools.run(tool, given, asker(context), _caller(context)))
        except PinciteError as error:
            return _failed(told_of(error))
        except ClientDisconnect:
            return _failed("nobody waits for the answer")
        except Exception:
            LOG.exception("a tool failed")
            return _failed(UNFORESEEN)

    async def list_resources(context: Context, asked: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        after = (asked.cursor if asked else None) or ""
        who = asker(context)
        listed = await _or_refused(
            after, lambda: tools.reading(_caller(context), lambda: tools.documents(who, after, LISTED))
        )
        resources = [
            types.Resource(
                name=whole_name(item["uri"]),
                title=item["title"] or None,
                uri=item["resource"],
                mime_type="text/markdown",
            )
            for item in listed
        ]
        more = listed[-1]["doc_id"] if len(listed) == LISTED else None
        return types.ListResourcesResult(resources=resources, next_cursor=more)

    async def list_templates(
        context: Context, asked: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            name="document", title="A document as Markdown", uri_template=f"{SCHEME}://documents/{{doc_id}}",
            mime_type="text/markdown",
        )  # fmt: skip
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(context: Context, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        who = asker(context)
        text = await _or_refused(asked.uri, lambda: tools.reading(_caller(context), lambda: tools.read(asked.uri, who)))
        content = types.TextResourceContents(uri=asked.uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[content])

    return Server(
        "pincite", version=__version__, title="pincite", instructions=INSTRUCTIONS, on_list_tools=_leaving(list_tools),
        on_call_tool=_leaving(call_tool), on_list_resources=_leaving(list_resources),
        on_list_resource_templates=_leaving(list_templates), on_read_resource=_leaving(read_resource),
    )  # fmt: skip


def _leaving(handler: Callable[[Context, Any], Awaitable[R]]) -> Callable[[Context, Any], Awaitable[R]]:
    """Return a handler whose texts, of results and errors alike, hold nothing that a person would not see."""

    async def answered(context: Context, asked: Any) -> R:
        try:
            result = await handler(context, asked)
        except MCPError as error:
            raise MCPError(error.code, clear(error.message)) from None
        told = _cleared(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        if (structured := told.get("structuredContent")) is not None:
            # Made from the cleared values: in JSON a character may be written as its number.
            told["content"] = [{"type": "text", "text": json.dumps(structured, ensure_ascii=False)}]
        return type(result).model_validate(told)

    return answered


def _cleared(value: Any) -> Any:
    if isinstance(value, str):
        return clear(value)
    if isinstance(value, dict):
        return {clear(name): _cleared(item) for name, item in value.items()}
    return [_cleared(item) for item in value] if isinstance(value, list) else value


class OverHttp:
    """A server as a route; it answers while `lifespan` lasts."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._manager: StreamableHTTPSessionManager | None = None

    def routes(self) -> list[Route]:
        # There are no sessions, so there is nothing to listen to by GET or to end by DELETE.
        return [Route("/mcp", self._Endpoint(self), methods=["POST"])]

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=MOST_BODY
        )
        async with manager.run():
            self._manager = manager
            yield

    class _Endpoint:
        """The route's endpoint: a class, since Starlette takes a function for one that answers a Request."""

        def __init__(self, over_http: OverHttp) -> None:
            self._over_http = over_http

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            manager = self._over_http._manager
            assert manager is not None
            await manager.handle_request(scope, receive, send)


async def serve_stdio(server: Server[Any], asked_to_end: Callable[[], NoReturn]) -> None:
    """Answer on standard input and output until the input ends.

    A signal calls `asked_to_end`, which has to leave the process: nothing else wakes a thread that waits for standard
    input."""

    async def listen() -> None:
        with anyio.open_signal_receiver(*STOPPING) as signals:
            async for _ in signals:
                asked_to_end()

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
        group.cancel_scope.cancel()


def _caller(context: Context) -> Caller:
    """Return who sent the request of a call; on standard input and output there is only one."""
    return caller_of(context.request) if isinstance(context.request, Request) else Caller(OWNER)


async def _or_refused(given: str, read: Callable[[], Awaitable[T]]) -> T:
    """Return what `read` gives; raise its errors as MCPError, which the protocol reports to who asks."""
    try:
        require_text(given)
        return await read()
    except PinciteError as error:
        raise MCPError(types.INVALID_PARAMS, told_of(error)) from None
    except Exception:
        LOG.exception("a resource failed")
        raise MCPError(types.INTERNAL_ERROR, UNFORESEEN) from None


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name, title=tool.title, description=tool.told, input_schema=tool.given.model_json_schema(),
        output_schema=tool.gives.model_json_schema() if tool.gives else None,
        annotations=types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )  # fmt: skip


def _result(found: Any) -> types.CallToolResult:
    """Return a tool's result as structured content. It leaves as JSON text too, for clients that read only text."""
    if isinstance(found, Picture):
        return types.CallToolResult(content=[types.ImageContent(data=found.base64, mime_type="image/png")])
    return types.CallToolResult(content=[], structured_content=found.model_dump(mode="json"))


def _failed(told: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=told)], is_error=True)
