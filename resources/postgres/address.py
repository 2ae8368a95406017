"""The safe handling of a database address: the parts that messages may show, and the refusals after which to try
again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import SettingsError

CONNECT_SECONDS = 10
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""Keepalive parameters that detect a lost server soon, unless the address sets them: seconds, a count, and
`tcp_user_timeout` in milliseconds."""
_TRANSIENT = re.compile(
    r"starting up|shutting down|recovery mode|not yet accepting|refused|timed? ?out|closed the connection|reset by peer"
    r"|too many clients|too many connections|remaining connection slots|no such file or directory"
    r"|temporary failure in name resolution",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Address:
    """A checked address. `shown` names user, host and database, never the password."""

    shown: str
    password: str | None
    timeout: int
    alive: Mapping[str, Any] = field(default_factory=dict)
    """Connection parameters that detect the loss of the server's machine."""

    def reason(self, error: BaseException) -> str:
        """Return the first line of a database error in a form that is safe to show."""
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return text.replace(self.password, "***") if self.password else text


def address_of(url: str) -> Address:
    """Check a database address. Raise SettingsError if it is invalid. The message does not repeat the address, since a
    password with an unescaped special character may extend into its other parts."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    refusal = SettingsError(
        "setting 'database' is not a usable postgresql:// address; special characters in its user or password "
        "must be percent-encoded (@ as %40, / as %2F, : as %3A)"
    )
    if not url.startswith(("postgresql://", "postgres://")):
        raise refusal
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        raise refusal from None
    host, port = parts.get("host", "the local socket"), parts.get("port", "")
    if "@" in host or not re.fullmatch(r"[\d,]*", port):
        raise refusal
    where = f"{host}:{port}" if port else host
    user = f"{parts['user']}@" if "user" in parts else ""
    shown = f"{user}{where}, database {parts.get('dbname', '(default)')}"
    alive = {name: value for name, value in _ALIVE.items() if name not in parts}
    return Address(shown, parts.get("password"), int(parts.get("connect_timeout", CONNECT_SECONDS)), alive)


def is_transient(reason: str) -> bool:
    """Say whether the server may accept the connection soon, which is never so after a wrong password or name."""
    return bool(_TRANSIENT.search(reason))


def is_full(reason: str) -> bool:
    """Say whether the server answers but has no free connection."""
    return "too many" in reason or "remaining connection slots" in reason
