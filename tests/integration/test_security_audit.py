"""Row-level security that somebody has changed: found, queries refused where rows lie open, put back by a run."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pipelines.errors import IndexStateError
from resources.checks.audit import audit
from resources.postgres.catalog import Catalog, GenerationRow
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.row_security import secure, security_problems
from resources.postgres.search_index import search_index
from resources.postgres.server_process import ADMINISTRATOR

pytestmark = pytest.mark.integration

TABLES = ("documents", "document_names", "abbreviations", "chunks", "sentences", "sentence_links", "postings", "terms")
HERE = "SELECT set_config('search_path', %s, true)"
INVOKED = "WITH (security_invoker = true)"

MENDED = {
    **{f"off in {table}": ("row_security", f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY") for table in TABLES},
    "not forced": ("row_security", "ALTER TABLE chunks NO FORCE ROW LEVEL SECURITY"),
    "true": ("policy", "DROP POLICY asker ON chunks; CREATE POLICY asker ON chunks FOR SELECT TO pincite_query "
                       "USING (true)"),
    "or true": ("policy", "ALTER POLICY asker ON documents USING (groups = '{}' OR groups && (SELECT "
                          "pincite.asker_groups()) OR true)"),
    "other table": ("policy", "ALTER POLICY asker ON chunks USING ((SELECT true FROM terms WHERE term = doc_id))"),
    "one more": ("policy", "CREATE POLICY more ON sentences FOR SELECT USING (true)"),
    "upkeep for all": ("policy", "ALTER POLICY upkeep ON documents TO PUBLIC"),
    "upkeep for askers": ("policy", "ALTER POLICY upkeep ON documents TO pincite_query"),
    "gone": ("policy", "DROP POLICY asker ON terms"),
    "every group": ("policy", "CREATE OR REPLACE FUNCTION pincite.asker_groups() RETURNS text[] LANGUAGE sql STABLE AS "
                              "$$ SELECT ARRAY['board'] $$"),
    "invoker": ("policy", "ALTER FUNCTION pincite.asker_groups() SECURITY INVOKER"),
    "search path": ("policy", "ALTER FUNCTION pincite.asker_groups() RESET search_path"),
    "cannot tell": ("query_role", "REVOKE EXECUTE ON FUNCTION pincite.asker_groups() FROM pincite_query"),
    "memberships": ("query_role", "GRANT SELECT ON pincite.memberships TO pincite_query"),
    "joins": ("query_role", "GRANT INSERT ON pincite.memberships TO pincite_query"),
    "younger": ("query_role", "GRANT UPDATE (memberships_at) ON pincite.sources TO pincite_query"),
    "catalog": ("query_role", "GRANT SELECT ON pincite.sources TO pincite_query"),
    "column": ("query_role", "GRANT SELECT (root) ON pincite.sources TO PUBLIC"),
    "writes": ("query_role", "GRANT UPDATE ON chunks TO pincite_query"),
    "makes": ("query_role", "GRANT CREATE ON SCHEMA pincite TO PUBLIC"),
    "view": ("query_role", "CREATE VIEW seen AS SELECT text FROM chunks; ALTER VIEW seen OWNER TO pincite; "
                           "GRANT SELECT ON seen TO pincite_query"),
    "cannot read": ("query_role", "REVOKE SELECT ON chunks FROM pincite_query"),
}  # fmt: skip
"""What a run puts back."""
TOLD = {
    "bypasses": ("ALTER ROLE pincite_query BYPASSRLS", "ALTER ROLE pincite_query NOBYPASSRLS"),
    "member": ("GRANT pg_read_all_data TO pincite_query", "REVOKE pg_read_all_data FROM pincite_query"),
    "defaults": (
        "ALTER DEFAULT PRIVILEGES FOR ROLE pincite GRANT SELECT ON TABLES TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES FOR ROLE pincite REVOKE SELECT ON TABLES FROM PUBLIC",
    ),
    "function": (
        "CREATE FUNCTION public.told() RETURNS bigint SECURITY DEFINER LANGUAGE sql AS 'SELECT 1::bigint'",
        "DROP FUNCTION public.told()",
    ),
    "view elsewhere": (
        "CREATE VIEW public.seen AS SELECT text FROM chunks; ALTER VIEW public.seen OWNER TO pincite; "
        "GRANT SELECT ON public.seen TO pincite_query",
        "DROP VIEW public.seen",
    ),
}
"""What an administrator must, and how."""


@pytest.fixture
def generation(module_database: Database) -> Iterator[GenerationRow]:
    made = Catalog(module_database).create_generation("k", {}, {}, 3, {"average_terms": 1.0, "chunks": 0}, {})
    assert security_problems(module_database, made.schema) == []
    yield made
    secure(Catalog(module_database))
    assert security_problems(module_database, made.schema) == []


def spoil(database: Database, generation: GenerationRow, statement: str) -> None:
    with psycopg.connect(database.url, user=ADMINISTRATOR) as connection:
        connection.execute(HERE, [f"{generation.schema}, public"])
        connection.execute(statement)


@pytest.mark.defends("4e")
@pytest.mark.parametrize("name", MENDED)
def test_a_run_repairs_these_security_problems(module_database: Database, generation: GenerationRow, name: str) -> None:
    code, statement = MENDED[name]
    spoil(module_database, generation, statement)
    assert code in {found for found, _ in security_problems(module_database, generation.schema)}
    assert code in {found for found, _ in audit(GenerationTables(module_database, generation))}
    secure(Catalog(module_database))
    assert security_problems(module_database, generation.schema) == []


@pytest.mark.defends("4e")
@pytest.mark.parametrize("name", TOLD)
def test_an_administrator_must_repair_these_security_problems(
    module_database: Database, generation: GenerationRow, name: str
) -> None:
    statement, remedy = TOLD[name]
    spoil(module_database, generation, statement)
    assert {found for found, _ in security_problems(module_database, generation.schema)} == {"query_role"}
    secure(Catalog(module_database))
    assert {found for found, _ in security_problems(module_database, generation.schema)} == {"query_role"}
    spoil(module_database, generation, remedy)


def test_a_view_that_reads_as_the_asker_is_fine(module_database: Database, generation: GenerationRow) -> None:
    spoil(module_database, generation, f"CREATE VIEW seen {INVOKED} AS SELECT text FROM chunks; "
                                       "GRANT SELECT ON seen TO pincite_query")  # fmt: skip
    assert security_problems(module_database, generation.schema) == []


OPENED = {
    **{name: statement for name, (code, statement) in MENDED.items() if code in ("row_security", "policy")},
    "bypasses": "ALTER ROLE pincite_query BYPASSRLS",
    "superuser": "ALTER ROLE pincite_query SUPERUSER",
    "member": "GRANT pg_read_all_data TO pincite_query",
    "owner": "ALTER TABLE documents OWNER TO pincite_query",
    "a view in its place": "ALTER TABLE chunks RENAME TO hidden; CREATE VIEW chunks AS SELECT * FROM hidden; "
                           "ALTER VIEW chunks OWNER TO pincite; GRANT SELECT ON chunks TO pincite_query",
}  # fmt: skip
"""What shows a query rows that it should not see, or may."""
CLOSED = {
    "bypasses": "ALTER ROLE pincite_query NOBYPASSRLS",
    "superuser": "ALTER ROLE pincite_query NOSUPERUSER",
    "member": "REVOKE pg_read_all_data FROM pincite_query",
    "owner": "ALTER TABLE documents OWNER TO pincite",
    "a view in its place": "DROP VIEW chunks; ALTER TABLE hidden RENAME TO chunks",
}
"""What an administrator puts back."""


@pytest.mark.defends("4e")
@pytest.mark.parametrize("name", OPENED)
def test_nothing_is_read_where_rows_lie_open(module_database: Database, generation: GenerationRow, name: str) -> None:
    with module_database.connect() as connection, search_index(connection, generation.generation):
        pass  # it was found to be sound, and is looked at again nevertheless
    spoil(module_database, generation, OPENED[name])
    try:
        for _ in range(2):
            with (
                module_database.connect() as connection,
                pytest.raises(IndexStateError, match="row-level security is damaged in generation") as raised,
                search_index(connection, generation.generation),
            ):
                raise AssertionError("it was opened")
            assert raised.value.code == "row_security"
    finally:
        if name in CLOSED:
            spoil(module_database, generation, CLOSED[name])
    secure(Catalog(module_database))
    with module_database.connect() as connection, search_index(connection, generation.generation):
        pass


def test_rights_that_show_no_query_more_refuse_none(module_database: Database, generation: GenerationRow) -> None:
    for name in ("catalog", "view"):
        spoil(module_database, generation, MENDED[name][1])
    assert {code for code, _ in security_problems(module_database, generation.schema)} == {"query_role"}
    with module_database.connect() as connection, search_index(connection, generation.generation):
        pass
