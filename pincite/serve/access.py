"""The identity of an asker and their groups, from a token or a trusted proxy and never from a parameter.

    <state>/tokens.json      {"NAME": {"sha256", "groups", "operator", "created"}}

The file holds hashes, never a token. A token has 256 random bits, so its plain SHA-256 reveals nothing about it. A file
that cannot be read lets nobody in.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from starlette.requests import HTTPConnection

from pipelines.errors import IndexStateError, SettingsError, UsageError
from pipelines.groups import group_names
from pipelines.settings.serve import ServeSettings
from pipelines.visible import one_line
from resources.private_files import private
from resources.settings_file import Project

# ---------------------------------------------------------------- tokens


FILE = "tokens.json"
PREFIX = "pincite_"
MOST_BYTES = 10 << 20
LONGEST_NAME = 100
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Token:
    """The asker that a token stands for. `operator` sees the names of failed documents; `created` is ISO 8601."""

    sha256: str
    groups: tuple[str, ...]
    operator: bool
    created: str


class TokenFile:
    """The tokens of one state, read again when their file was replaced or changed."""

    def __init__(self, state: Path) -> None:
        self._state, self._file = state, state / FILE
        self._read: tuple[tuple[int, ...], dict[str, Token]] | None = None

    def all(self) -> Mapping[str, Token]:
        """Return the tokens by name. Raises SettingsError naming the file if it does not hold tokens."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._no_tokens(error) from None
        identity = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        if self._read is None or self._read[0] != identity:
            self._read = identity, self._parsed()
        return self._read[1]

    def who(self, given: str) -> tuple[str, Token] | None:
        """Return the name that a token was made for, and its entry; None if nobody has it. Raises SettingsError."""
        held = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
        found = None
        for name, token in self.all().items():  # all of them, so that the time taken reveals nothing
            if hmac.compare_digest(token.sha256, held):
                found = name, token
        return found

    def add(self, name: str, groups: tuple[str, ...], operator: bool) -> str:
        """Return a new token, which nobody can see again. Raises UsageError, IndexStateError `name_taken`."""
        if not name.strip() or len(name) > LONGEST_NAME or one_line(name) != name:
            raise UsageError(f"{name!a} is no name for who asks; give up to {LONGEST_NAME} printable characters")
        token = PREFIX + secrets.token_urlsafe(32)
        made = Token(hashlib.sha256(token.encode()).hexdigest(), groups, operator,
                     datetime.now(UTC).isoformat(timespec="seconds"))  # fmt: skip
        with self._changing() as tokens:
            if name in tokens:
                raise IndexStateError(
                    f"{name} has a token already; take it away first: `pincite tokens remove {name}`", "name_taken"
                )
            tokens[name] = made
        return token

    def remove(self, name: str) -> None:
        """Remove the token of a name. Raises IndexStateError `unknown_name`."""
        with self._changing() as tokens:
            if tokens.pop(name, None) is None:
                raise IndexStateError(f"nobody named {name!a} has a token; see `pincite tokens list`", "unknown_name")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """Yield the tokens, and write them back whole if the block ends well; one process at a time does so."""
        with private(self._state), (self._state / f"{FILE}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = dict(self.all())
            yield tokens
            partial = self._file.with_suffix(".partial")
            written = {name: asdict(token) for name, token in sorted(tokens.items())}
            with partial.open("w", encoding="utf-8") as stream:
                json.dump(written, stream, ensure_ascii=False, indent=2)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, self._file)

    def _parsed(self) -> dict[str, Token]:
        try:
            with self._file.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES >> 20} MB")
            values = json.loads(data, object_pairs_hook=_once)
            tokens = {name: _token(value) for name, value in values.items()}
            if len({token.sha256 for token in tokens.values()}) < len(tokens):
                raise ValueError("two names have the same token")
            return tokens
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise self._no_tokens(error) from None

    def _no_tokens(self, error: Exception) -> SettingsError:
        return SettingsError(
            f"{self._file}: it is not what `pincite tokens` writes ({error}), so nobody is let in; mend it, or "
            "delete it and add the tokens anew"
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _token(value: Any) -> Token:
    made = Token(value["sha256"], tuple(value["groups"]), value["operator"], value["created"])
    known = set(value) == {"sha256", "groups", "operator", "created"} and isinstance(value["groups"], list)
    texts = isinstance(made.created, str) and isinstance(made.sha256, str) and _HASH.fullmatch(made.sha256)
    if not known or not texts or not isinstance(made.operator, bool):
        raise ValueError("an entry has other keys or values than it should")
    if made.groups and group_names(list(made.groups)) != made.groups:
        raise ValueError("an entry names groups that are none")
    return made


# ---------------------------------------------------------------- access


COOKIE = "pincite_token"
LONGEST_SECRET = 1_000
_SHORTEST_SECRET = 16


@dataclass(frozen=True, slots=True)
class Asker:
    """The identity of who asks; `name` is "" if nobody is named. An `operator` sees the names of failed documents. A
    page of another site may cause the requests of one who asks `by_cookie`."""

    name: str = ""
    groups: tuple[str, ...] = ()
    operator: bool = False
    by_cookie: bool = False


class Access(Protocol):
    """A way to identify who asks. `signs_in` says whether people have something to type that lets them in."""

    signs_in: bool

    def who(self, asked: HTTPConnection) -> Asker | None:
        """Return who a request comes from; None if it is not let in."""


class Anybody:
    """Access under `serve.auth: none`: anybody who reaches loopback, for public documents."""

    signs_in = False

    def who(self, asked: HTTPConnection) -> Asker | None:
        return Asker()


class ByToken:
    """Access under `serve.auth: tokens`: an Authorization header, or the cookie that holds a person's token."""

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
    """Access under `serve.auth: proxy`: names and groups from headers of a proxy that knows the secret. No groups
    header means no groups; a missing user, or a header that is sent twice or malformed, lets nobody in."""

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
    """Return the value of a header, "" if it is absent; None if it was sent twice or is not UTF-8."""
    values: Sequence[str] = asked.headers.getlist(header)
    if len(values) > 1:
        return None
    try:
        return values[0].encode("latin-1").decode("utf-8") if values else ""
    except UnicodeDecodeError:
        return None


def access_of(project: Project) -> Access:
    """Return the access that the settings ask for. Raises SettingsError naming the setting and the remedy."""
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
