"""Whether the groups of documents are kept apart in Postgres, in every generation, and how that is mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, PinciteError
from resources.postgres.catalog import each_generation, schema_name
from resources.postgres.statements import query, statements

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.catalog import Catalog, GenerationRow
    from resources.postgres.database import Database


def security_problems(database: Database, schema: str) -> list[tuple[str, str]]:
    """Tables without row-level security, policies that are others than they should be, and what the role of queries
    may do beside reading by them."""
    with database.connect() as connection:
        return [(code, message) for code, message, _ in _unsecured(connection, schema)]


def _unsecured(connection: Connection[Any], schema: str) -> list[tuple[str, str, bool]]:
    """Return code and message of each problem, and whether a query may be shown other rows by it."""
    defined = statements("generation")["define_asker_groups"].split("$$")[1]
    values = {"schema_name": schema, "asker_groups": defined}
    return connection.execute(query("audit", "unsecured"), values).fetchall()


TABLES = ("documents", "chunks", "sentences", "sentence_links", "postings", "terms")
_sound: dict[tuple[str, int, str, str], str] = {}
"""By server, database and schema, the state of row-level security that was last found to be as it should be. Every
query compares the present state with it, which is cheap; only a state that differs is looked at closely."""


def require_row_security(connection: Connection[Any], generation: int) -> None:
    """Raise IndexStateError (`row_security`) unless restricted rows are kept from who asks. It is asked within the
    transaction of a query, as the query role. Rights beside that, which show no query other rows, are for `verify`."""
    schema = schema_name(generation)
    values = {"tables": [f"{schema}.{name}" for name in TABLES]}
    row = connection.execute(query("session", "row_security_state"), values, prepare=True).fetchone()
    holds, now = row or (False, "")
    key = connection.info.host, connection.info.port, connection.info.dbname, schema
    if holds and _sound.get(key) == now:
        return
    opened = [message for _, message, opens in _unsecured(connection, schema) if opens]
    if holds and not opened:
        _sound[key] = now
        return
    told = f" ({opened[0]})" if opened else ""
    raise IndexStateError(
        f"row-level security does not hold in generation {generation}{told}, so nothing is read from it; see `pincite "
        "verify`, and run `pincite index`, which puts it back",
        "row_security",
    )


def secure(catalog: Catalog) -> None:
    """Makes policies and rights anew in the generations where they are not what they should be. What the role of
    queries is by itself, only an administrator can change; the audit tells of it.

    A generation that cannot be secured is shut. Raises that error after all the others are secured."""
    each_generation(catalog, partial(_secure, catalog.database))


def _secure(database: Database, generation: GenerationRow) -> None:
    if not security_problems(database, generation.schema):
        return
    with shut_where_damaged(database, generation), database.writing() as connection:
        _withdraw_rights(connection, generation)
        connection.execute(query("generation", "protect"), {"schema_name": generation.schema})


@contextmanager
def shut_where_damaged(database: Database, generation: GenerationRow) -> Iterator[None]:
    """Where the tables of a generation are not such that what restricts can be written to them, nobody reads them: its
    rights are given back when it can be secured again."""
    try:
        yield
    except IndexStateError as error:
        if error.code == "damaged_schema":
            with suppress(PinciteError), database.connect() as connection:  # whoever meets it may shut
                _withdraw_rights(connection, generation)
        raise


def _withdraw_rights(connection: Connection[Any], generation: GenerationRow) -> None:
    """Policies go, and all rights in a generation but its owner's."""
    for step in ("unprotect", "revoke", "revoke_tables"):
        connection.execute(query("generation", step, schema=generation.schema))
    for step in ("define_asker_groups", "revoke_asker_groups", "grant_asker_groups", "use_catalog"):
        connection.execute(query("generation", step))
