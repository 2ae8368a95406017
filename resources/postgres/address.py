"""The safe handling of a database address: what messages may show of it, and which refusals deserve another try."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import SettingsError

CONNECT_SECONDS = 10
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""Keepalive parameters that soon detect a server that no longer answers, if the address does not set them: seconds,
a count, and `tcp_user_timeout` in milliseconds."""
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
    """Connection parameters by which the loss of the server's machine is noticed."""

    def reason(self, error: BaseException) -> str:
        """Return the first line of a database error, fit to be shown."""
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return text.replace(self.password, "***") if self.password else text


def address_of(url: str) -> Address:
    """Check a database address. Raise SettingsError if it is not one. The message repeats none of the address, since
    a password with an unescaped special character spills into the other parts."""
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
    """Say whether the server may accept the connection soon: never after a wrong password or name."""
    return bool(_TRANSIENT.search(reason))


def is_full(reason: str) -> bool:
    """Say whether the server answers, but has no connection to spare."""
    return "too many" in reason or "remaining connection slots" in reason
