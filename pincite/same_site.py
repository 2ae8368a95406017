"""The check that a request names one of our hosts and comes from one of our pages.

Another site's name may lead to this address, and another site's page may send a request with the cookies that the
browser keeps for us."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import Message, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE = frozenset({"GET", "HEAD"})


def names_of(names: Collection[str]) -> frozenset[str]:
    """Return host names in the form in which they are compared, with those of loopback."""
    return LOOPBACK | {name.lower().rstrip(".") for name in names}


def named(hosts: list[str], names: Collection[str], any_address: bool = False) -> bool:
    """Say whether a request's one Host is among the names, or is any IP address if `any_address` is listened on."""
    if len(hosts) != 1:
        return False
    try:
        name = (urlsplit(f"//{hosts[0]}").hostname or "").rstrip(".")
    except ValueError:
        return False
    return name in names or (any_address and _is_address(name))


def of_our_pages(asked: HTTPConnection, method: str, by_cookie: bool) -> bool:
    """Say whether a request comes from no page of another site, or of another port.

    Browsers say so in Origin and Sec-Fetch-Site. A request with our cookie that has neither header may change
    nothing."""
    origins, site = asked.headers.getlist("origin"), asked.headers.get("sec-fetch-site")
    if any(_site(origin) != asked.headers["host"].lower() for origin in origins):
        return False
    visit = method in SAFE and asked.headers.get("sec-fetch-mode") == "navigate"
    if site not in (None, "none", "same-origin") and not visit:
        return False
    return method in SAFE or not by_cookie or bool(origins) or site == "same-origin"


def is_json(asked: HTTPConnection) -> bool:
    """Return whether a request names its body as JSON, by one header.

    A browser sends such a body to another site only after it has asked for leave by OPTIONS, which is never given."""
    kinds = asked.headers.getlist("content-type")
    return len(kinds) == 1 and kinds[0].partition(";")[0].strip(" \t").lower() == "application/json"


def _site(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Return a `send` that sets these headers on every answer, in place of those that it had."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = MutableHeaders(scope=message)
            for name, value in headers.items():
                kept[name] = value
        await send(message)

    return sent


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
