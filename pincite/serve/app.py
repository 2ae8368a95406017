"""All that is served, as one ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from pincite.serve.access import Access
from pincite.serve.api import Api
from pincite.serve.guard import Guard, error
from pincite.serve.pages import Pages
from pincite.serve.requests import status_of, told_of
from pincite.serve.service import Busy, Service
from pipelines.errors import PinciteError

LOG = logging.getLogger("pincite.serve")


def application(
    service: Service,
    access: Access,
    url: str,
    names: Collection[str] = (),
    any_address: bool = False,
    answers_by_model: bool = False,
    more: Sequence[BaseRoute] = (),
) -> ASGIApp:
    """Page and HTTP over a service, and `more` routes. `url` is what links begin with; `names` are hosts that it is
    reached by, besides loopback."""
    pages, api = Pages(service, access, answers_by_model), Api(service, url)

    def failed(request: Request, status: int, code: str, message: str) -> Response:
        page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
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
        told = problem.detail if problem.status_code not in (404, 405) else f"{HTTPStatus(problem.status_code).phrase}"
        return failed(request, problem.status_code, code, told)

    async def gone(request: Request, problem: Exception) -> Response:
        return error(400, "disconnected", "the connection ended before the request did")

    async def unforeseen(request: Request, problem: Exception) -> Response:
        return failed(request, 500, "internal", "an error that was not foreseen; the server's log has it")

    handlers: dict[Any, Any] = {
        PinciteError: by_pincite, HTTPException: by_http, ClientDisconnect: gone, Exception: unforeseen,
    }  # fmt: skip
    app = Starlette(routes=[*api.routes(), *pages.routes(), *more], exception_handlers=handlers)
    return Guard(app, access, names, any_address)
