"""Who asks, and for which groups: told by what a request carries that nobody can choose, never by a parameter."""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import HTTPConnection

from pincite.serve.tokens import TokenFile
from pipelines.errors import SettingsError
from pipelines.groups import group_names
from pipelines.settings.serve import ServeSettings
from resources.settings_file import Project

COOKIE = "pincite_token"
LONGEST_SECRET = 1_000
_SHORTEST_SECRET = 16


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks; `name` is "" where nobody is named. An `operator` sees the names of failed documents. One who asks
    `by_cookie` may be made to by a page of another site."""

    name: str = ""
    groups: tuple[str, ...] = ()
    operator: bool = False
    by_cookie: bool = False


class Access(Protocol):
    """`signs_in` says whether people have something to type that lets them in."""

    signs_in: bool

    def who(self, asked: HTTPConnection) -> Asker | None:
        """Who a request comes from; None where it is not let in."""


class Anybody:
    """`serve.auth: none`: whoever reaches loopback, for public documents."""

    signs_in = False

    def who(self, asked: HTTPConnection) -> Asker | None:
        return Asker()


class ByToken:
    """`serve.auth: tokens`: an Authorization header, or the cookie that a person's token was put into."""

    signs_in = True

    def __init__(self, tokens: TokenFile, operators: str | None) -> None:
        self._tokens, self._operators = tokens, operators

    def who(self, asked: HTTPConnection) -> Asker | None:
        header = asked.headers.get("authorization", "")
        kind, _, given = header.partition(" ")
        by_cookie = not header
        given = asked.cookies.get(COOKIE, "") if by_cookie else given.strip()
        return self.of(given, by_cookie) if by_cookie or kind.lower() == "bearer" else None

    def of(self, token: str, by_cookie: bool = False) -> Asker | None:
        found = self._tokens.who(token) if 0 < len(token) <= LONGEST_SECRET else None
        if found is None:
            return None
        name, entry = found
        return Asker(name, entry.groups, entry.operator or self._operators in entry.groups, by_cookie)


class ByProxy:
    """`serve.auth: proxy`: names and groups from headers of a proxy that knows the secret. What it does not say is
    nothing; what it says wrongly lets nobody in."""

    signs_in = False

    def __init__(self, settings: ServeSettings, secret: str) -> None:
        self._proxy, self._operators, self._secret = settings.proxy, settings.operators, secret.encode()

    def who(self, asked: HTTPConnection) -> Asker | None:
        secret = _only(asked, self._proxy.secret_header)
        user, groups = _only(asked, self._proxy.user_header), _only(asked, self._proxy.groups_header)
        if secret is None or not hmac.compare_digest(secret.encode("utf-8", "replace"), self._secret):
            return None
        if user is None or groups is None or not user.strip():
            return None
        try:
            named = group_names(groups) if groups.strip() else ()
        except ValueError:
            return None
        return Asker(user.strip(), named, self._operators in named, by_cookie=True)


def _only(asked: HTTPConnection, header: str) -> str | None:
    """The value of a header, "" where there is none; None where it was sent twice."""
    values: Sequence[str] = asked.headers.getlist(header)
    if len(values) > 1:
        return None
    try:
        return values[0].encode("latin-1").decode("utf-8") if values else ""
    except UnicodeDecodeError:
        return None


def access_of(project: Project) -> Access:
    """As the settings say. Raises SettingsError naming the setting and the remedy."""
    settings = project.settings.serve
    if settings.auth == "none":
        return Anybody()
    if settings.auth == "tokens":
        tokens = TokenFile(project.state)
        if not tokens.all():
            raise SettingsError("serve.auth is tokens, and there is none yet: `pincite tokens add NAME --group GROUP`")
        return ByToken(tokens, settings.operators)
    secret = os.environ.get(settings.proxy.secret_env, "")
    if len(secret) < _SHORTEST_SECRET:
        raise SettingsError(
            f"serve.auth is proxy, and the environment variable {settings.proxy.secret_env} "
            f"(serve.proxy.secret_env) has no secret of at least {_SHORTEST_SECRET} characters; set it here and have "
            f"the proxy send it as {settings.proxy.secret_header}"
        )
    return ByProxy(settings, secret)
