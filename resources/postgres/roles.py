"""The roles of the embedded server: a superuser that serves only here, and the owner of the index, who is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resources.postgres.setup import ADMINISTRATOR, OWNER
from resources.postgres.statements import query

if TYPE_CHECKING:
    import psycopg


def settled(connection: psycopg.Connection[Any]) -> bool:
    """Whether who connects as the owner is no superuser, as in states made before."""
    return connection.info.parameter_status("is_superuser") == "off"


def missing_role(reason: str) -> bool:
    """Whether the server answers, but has not all roles yet."""
    return f'role "{OWNER}" does not exist' in reason


def settle(url: str) -> None:
    """Makes what is not yet there and hands over what the superuser owns; `url` is the owner's address. It may be
    repeated, and a step that is interrupted has not happened.

    Raises psycopg.Error."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    try:
        connection = psycopg.connect(url, user=ADMINISTRATOR)
    except psycopg.OperationalError as error:
        if f'role "{ADMINISTRATOR}" does not exist' not in str(error):
            raise
        connection = psycopg.connect(url)
        for step in ("make_other_superuser", "become_other_superuser", "rename_superuser", "become_superuser_again",
                     "drop_other_superuser"):  # fmt: skip
            connection.execute(query("session", step))
    with connection:
        connection.execute(query("session", "make_owner"))
        connection.execute(query("session", "hand_over_database"))
        databases = [row[0] for row in connection.execute(query("session", "databases"))]
        here = connection.info.dbname
        connection.execute(query("session", "reload"))
    for name in databases:
        if name != here:
            with psycopg.connect(make_conninfo(url, user=ADMINISTRATOR, dbname=name)) as other:
                other.execute(query("session", "hand_over_database"))
