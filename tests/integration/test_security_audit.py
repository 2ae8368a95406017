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
SHOW_ROWS = ("row_security", "policy")
"""The problems that show a query rows that it should not see, or may."""
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


@pytest.fixture(scope="module")
def made(module_database: Database) -> GenerationRow:
    return Catalog(module_database).create_generation("k", {}, {}, 3, {"average_terms": 1.0, "chunks": 0}, {})


@pytest.fixture
def generation(module_database: Database, made: GenerationRow) -> Iterator[GenerationRow]:
    """A generation that is sound, and is made sound again for the next test."""
    assert security_problems(module_database, made.schema) == []
    yield made
    spoil(module_database, made, "DROP VIEW IF EXISTS seen")
    secure(Catalog(module_database))


def spoil(database: Database, generation: GenerationRow, statement: str) -> None:
    with psycopg.connect(database.url, user=ADMINISTRATOR) as connection:
        connection.execute(HERE, [f"{generation.schema}, public"])
        connection.execute(statement)


def assert_read(database: Database, generation: GenerationRow) -> None:
    with database.connect() as connection, search_index(connection, generation.generation):
        pass


def assert_refused(database: Database, generation: GenerationRow) -> None:
    """Each time, though it was found to be sound before."""
    for _ in range(2):
        with (
            database.connect() as connection,
            pytest.raises(IndexStateError, match="row-level security is damaged in generation") as raised,
            search_index(connection, generation.generation),
        ):
            raise AssertionError("it was opened")
        assert raised.value.code == "row_security"


@pytest.mark.defends("4e")
@pytest.mark.parametrize("name", MENDED)
def test_a_run_repairs_these_security_problems(module_database: Database, generation: GenerationRow, name: str) -> None:
    """Nothing is read from a generation whose rows lie open until then."""
    code, statement = MENDED[name]
    assert_read(module_database, generation)
    spoil(module_database, generation, statement)
    assert code in {found for found, _ in security_problems(module_database, generation.schema)}
    if code in SHOW_ROWS:
        assert_refused(module_database, generation)
    secure(Catalog(module_database))
    assert security_problems(module_database, generation.schema) == []
    assert_read(module_database, generation)


def test_the_audit_tells_of_security_problems(module_database: Database, generation: GenerationRow) -> None:
    spoil(module_database, generation, MENDED["not forced"][1])
    assert "row_security" in {found for found, _ in audit(GenerationTables(module_database, generation))}


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
    "bypasses": ("ALTER ROLE pincite_query BYPASSRLS", "ALTER ROLE pincite_query NOBYPASSRLS"),
    "superuser": ("ALTER ROLE pincite_query SUPERUSER", "ALTER ROLE pincite_query NOSUPERUSER"),
    "member": ("GRANT pg_read_all_data TO pincite_query", "REVOKE pg_read_all_data FROM pincite_query"),
    "owner": ("ALTER TABLE documents OWNER TO pincite_query", "ALTER TABLE documents OWNER TO pincite"),
    "a view in its place": (
        "ALTER TABLE chunks RENAME TO hidden; CREATE VIEW chunks AS SELECT * FROM hidden; "
        "ALTER VIEW chunks OWNER TO pincite; GRANT SELECT ON chunks TO pincite_query",
        "DROP VIEW chunks; ALTER TABLE hidden RENAME TO chunks",
    ),
}
"""Damage by which a query may see rows that it should not, each with what an administrator does about it."""


@pytest.mark.defends("4e")
@pytest.mark.parametrize("name", OPENED)
def test_nothing_is_read_where_rows_lie_open(module_database: Database, generation: GenerationRow, name: str) -> None:
    statement, remedy = OPENED[name]
    assert_read(module_database, generation)
    spoil(module_database, generation, statement)
    try:
        assert_refused(module_database, generation)
    finally:
        spoil(module_database, generation, remedy)
    secure(Catalog(module_database))
    assert_read(module_database, generation)


def test_rights_that_show_no_query_more_refuse_none(module_database: Database, generation: GenerationRow) -> None:
    for name in ("catalog", "view"):
        spoil(module_database, generation, MENDED[name][1])
    assert {code for code, _ in security_problems(module_database, generation.schema)} == {"query_role"}
    assert_read(module_database, generation)
