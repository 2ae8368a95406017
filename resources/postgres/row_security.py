"""The check and repair of row-level security in Postgres, which hides documents from other groups, in every
generation."""

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
    """Return tables without row-level security, policies that differ from the defined ones, and permissions of the
    query role beyond reading under these policies."""
    with database.connect(autocommit=True, sets=False) as connection:
        return [(code, message) for code, message, _ in _open_doors(connection, schema)]


def _open_doors(connection: Connection[Any], schema: str) -> list[tuple[str, str, bool]]:
    """Return code and message of each problem, and whether it could show other rows to a query."""
    defined = statements("generation")["define_asker_groups"].split("$$")[1]
    values = {"schema_name": schema, "asker_groups": defined}
    return connection.execute(query("audit", "unsecured"), values).fetchall()


TABLES = ("documents", "document_names", "abbreviations", "chunks", "sentences", "sentence_links", "postings", "terms")
_sound: dict[tuple[str, int, str, str], str] = {}
"""The last state of row-level security that was found correct, by server, database and schema. Every query compares the
present state with it, which is cheap; only a different state is examined in detail."""


def require_row_security(connection: Connection[Any], generation: int) -> None:
    """Raise IndexStateError (`row_security`) unless restricted rows are hidden from the asker. The check runs within
    the transaction of a query, as the query role. Other permissions, which cannot show rows to a query, are checked by
    `verify`."""
    schema = schema_name(generation)
    values = {"tables": [f"{schema}.{name}" for name in TABLES]}
    row = connection.execute(query("session", "row_security_state"), values, prepare=True).fetchone()
    holds, now = row or (False, "")
    key = connection.info.host, connection.info.port, connection.info.dbname, schema
    if holds and _sound.get(key) == now:
        return
    opened = [message for _, message, opens in _open_doors(connection, schema) if opens]
    if holds and not opened:
        _sound[key] = now
        return
    told = f" ({opened[0]})" if opened else ""
    raise IndexStateError(
        f"row-level security is damaged in generation {generation}{told}, so nothing is read from it; see `pincite "
        "verify`, and run `pincite index`, which repairs it",
        "row_security",
    )


def secure(catalog: Catalog) -> None:
    """Recreate policies and permissions in the generations in which they are wrong.

    Only an administrator can change the attributes of the query role itself; the audit reports them. A generation that
    cannot be secured is closed to readers, and its error is raised after all others are secured.
    """
    each_generation(catalog, partial(_secure, catalog.database))


def _secure(database: Database, generation: GenerationRow) -> None:
    if not security_problems(database, generation.schema):
        return
    with shut_where_damaged(database, generation), database.writing() as connection:
        _withdraw_rights(connection, generation)
        connection.execute(query("generation", "protect"), {"schema_name": generation.schema})


@contextmanager
def shut_where_damaged(database: Database, generation: GenerationRow) -> Iterator[None]:
    """Close a generation to readers if its tables are too damaged for new restrictions. It is opened again when it can
    be secured."""
    try:
        yield
    except IndexStateError as error:
        if error.code == "damaged_schema":
            with suppress(PinciteError), database.connect() as connection:  # any process that meets it may shut
                _withdraw_rights(connection, generation)
        raise


def _withdraw_rights(connection: Connection[Any], generation: GenerationRow) -> None:
    """Drop the policies, and all permissions in a generation except its owner's."""
    for step in ("unprotect", "revoke", "revoke_tables"):
        connection.execute(query("generation", step, schema=generation.schema))
    for step in ("define_asker_groups", "revoke_asker_groups", "grant_asker_groups", "use_catalog"):
        connection.execute(query("generation", step))
