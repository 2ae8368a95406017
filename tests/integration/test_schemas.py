"""The schemas as sql/catalog.sql and sql/generation.sql state them, and as they come to be."""

from __future__ import annotations

import psycopg
import pytest

from resources.postgres import index_rows
from resources.postgres.catalog import Catalog
from resources.postgres.database import Database
from resources.postgres.row_security import secure
from resources.postgres.statements import query, script
from tests.support.schema_shape import columns, shape

pytestmark = pytest.mark.integration

COPIED = {
    "documents": index_rows.DOCUMENTS,
    "chunks": index_rows.CHUNKS,
    "sentences": index_rows.SENTENCES,
    "sentence_links": index_rows.SENTENCE_LINKS,
    "terms": index_rows.TERMS,
    "postings": index_rows.POSTINGS,
}


def test_the_catalog_is_what_the_migrations_make(module_database: Database, fresh_url: str) -> None:
    with module_database.connect() as connection:
        migrated = shape(connection, "pincite")
    with psycopg.connect(fresh_url) as connection:
        connection.execute(script("catalog.sql"))
        stated = shape(connection, "pincite")
    assert len(stated) > 100
    assert stated == migrated


@pytest.mark.parametrize(
    "altered",
    [
        "ALTER TABLE pincite.runs ADD COLUMN more text",
        "ALTER TABLE pincite.runs ALTER COLUMN token DROP NOT NULL",
        "ALTER TABLE pincite.runs ALTER COLUMN token TYPE integer",
        "ALTER TABLE pincite.live ALTER COLUMN held SET DEFAULT true",
        "ALTER TABLE pincite.live DROP CONSTRAINT live_generation_fkey",
        "ALTER TABLE pincite.failures DROP COLUMN message, ADD COLUMN message text NOT NULL",
        "CREATE INDEX ON pincite.costs (run_id)",
        "CREATE POLICY all_of_it ON pincite.runs USING (true)",
        "GRANT SELECT ON pincite.runs TO pincite_query",
        "ALTER FUNCTION pincite.asker_groups() VOLATILE",
        "REVOKE USAGE ON SCHEMA pincite FROM pincite_query",
    ],
)
def test_schema_differences_are_detected(module_database: Database, altered: str) -> None:
    with module_database.connect() as connection:
        before = shape(connection, "pincite")
        connection.execute(altered)
        assert shape(connection, "pincite") != before
        connection.rollback()


def test_rows_are_copied_into_the_columns_that_a_generation_has(module_database: Database) -> None:
    schema = Catalog(module_database).create_generation("columns", {}, {}, 3, {}, {}).schema
    with module_database.connect() as connection:
        found = {table: columns(connection, schema, table) for table in COPIED}
    assert {table: list(stated.items()) for table, stated in COPIED.items()} == {
        table: list(stated.items()) for table, stated in found.items()
    }


def test_row_level_security_that_is_put_back_is_as_it_was_made(database: Database) -> None:
    catalog = Catalog(database)
    schema = catalog.create_generation("secured", {}, {}, 3, {}, {}).schema
    with database.connect() as connection:
        before = shape(connection, schema), shape(connection, "pincite")
        connection.execute(
            "CREATE OR REPLACE FUNCTION pincite.asker_groups() RETURNS text[] LANGUAGE sql AS 'SELECT NULL::text[]'"
        )
        connection.execute(query("generation", "unprotect", schema=schema))
    secure(catalog)
    with database.connect() as connection:
        assert (shape(connection, schema), shape(connection, "pincite")) == before
