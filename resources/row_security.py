"""Whether the groups of documents are kept apart in Postgres, in every generation, and how that is mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.sql_files import query

if TYPE_CHECKING:
    from resources.catalog import Catalog
    from resources.database import Database


def security_problems(database: Database, schema: str) -> list[tuple[str, str]]:
    """Tables without row-level security, policies that are others than they should be, and what the role of queries
    may do beside reading by them."""
    with database.connect() as connection:
        return connection.execute(query("audit", "unsecured"), {"schema_name": schema}).fetchall()


def secure(catalog: Catalog) -> None:
    """Makes policies and rights anew in the generations where they are not what they should be. What the role of
    queries is by itself, only an administrator can change; the audit tells of it."""
    for generation in catalog.generations():
        if not security_problems(catalog.database, generation.schema):
            continue
        with catalog.database.writing() as connection:
            for step in ("unprotect", "revoke", "revoke_tables"):
                connection.execute(query("generation", step, schema=generation.schema))
            connection.execute(query("generation", "define_asker_groups"))
            connection.execute(query("generation", "use_catalog"))
            connection.execute(query("generation", "protect"), {"schema_name": generation.schema})
