"""The web application of `pincite serve`: all routes behind the guard, and errors as a page or JSON."""

from __future__ import annotations

import logging
from collections.abc import Collection
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from pincite.guard import FOR_PROGRAMS, Access, ServeGuard, error
from pincite.serve.answers import UNFORESEEN, status_of, told_of
from pincite.serve.api import Api, Chat
from pincite.serve.pages import Pages
from pincite.serve.service import Service
from pincite.serve.turns import Busy
from pipelines.errors import PinciteError

if TYPE_CHECKING:
    from pincite.serve.mcp import OverHttp

LOG = logging.getLogger("pincite.serve")
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

    `url` is the start of links; `names` are the server's host names, besides loopback.
    """
    pages, api, chat = Pages(service, access, answers_by_model), Api(service, url), Chat(service, url)
    routes: list[BaseRoute] = [*api.routes(), *chat.routes(), *pages.routes(), *(agents.routes() if agents else ())]

    def error_response(request: Request, status: int, code: str, message: str) -> Response:
        page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(FOR_PROGRAMS)
        return pages.error_page(request, status, code, message) if page else error(status, code, message)

    async def by_pincite(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, PinciteError)
        status = status_of(problem)
        if status >= 500 and not isinstance(problem, Busy):
            LOG.warning("%s: %s", problem.code, problem)
        answer = error_response(request, status, problem.code, told_of(problem))
        if isinstance(problem, Busy):
            answer.headers["Retry-After"] = "2"
        return answer

    async def by_http(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        code = HTTPStatus(problem.status_code).name.lower()
        told = _TOLD.get(problem.status_code, problem.detail)
        return error_response(request, problem.status_code, code, told)

    async def answer_gone(request: Request, problem: Exception) -> Response:
        return Response(status_code=400)  # the client is gone, so nobody reads it

    async def answer_unforeseen(request: Request, problem: Exception) -> Response:
        return error_response(request, 500, "internal", UNFORESEEN)

    handlers: dict[Any, Any] = {
        PinciteError: by_pincite, HTTPException: by_http, ClientDisconnect: answer_gone, Exception: answer_unforeseen,
    }  # fmt: skip
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=agents.lifespan if agents else None)
    return ServeGuard(app, access, names, any_address)
