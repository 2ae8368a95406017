"""Named SQL: parsing, filling, and that every statement of the project can be filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import DatabaseError
from resources.child_process import ROOT
from resources.postgres import statements as sql_files

FOLDER = Path(ROOT, "sql")

TWO = """-- What this file is for.

-- name: first
SELECT 1;

-- name: second
-- A comment of its own.
SELECT *
FROM {schema}.chunks WHERE metadata = '{}';
"""


def test_statements_by_name_without_the_final_semicolon() -> None:
    found = sql_files.parse(TWO)
    assert list(found) == ["first", "second"]
    assert found["first"] == "SELECT 1"
    assert found["second"].endswith("metadata = '{}'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\n-- name: a\nSELECT 2;", "before the first"),
        ("-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;", "two statements are named 'a'"),
        ("-- name: a\n-- only a comment\n", "'a' has no statement"),
        ("-- name: A-b\nSELECT 1;", "no name for a statement"),
        ("-- name:\nSELECT 1;", "no name for a statement"),
    ],
)
def test_malformed_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message) as raised:
        sql_files.parse(text, "x.sql")
    assert raised.value.code == "sql_malformed"


def test_text_becomes_a_quoted_identifier_and_a_number_a_literal() -> None:
    filled = sql_files.fill("SELECT '{}' FROM {schema}.t WHERE n = {count}", {"schema": 'g"; DROP', "count": 3})
    assert filled.as_string() == 'SELECT \'{}\' FROM "g""; DROP".t WHERE n = 3'


def test_placeholders_and_values_must_match() -> None:
    with pytest.raises(DatabaseError, match=r"catalog\.names: no value for \{schema\}") as without:
        sql_files.fill("SELECT FROM {schema}.t", {}, "catalog.names")
    with pytest.raises(DatabaseError, match=r"catalog\.names: nothing to fill with schema") as unused:
        sql_files.fill("SELECT 1", {"schema": "g0001"}, "catalog.names")
    assert without.value.code == unused.value.code == "sql_placeholder"


def test_unknown_names_say_what_there_is() -> None:
    with pytest.raises(
        DatabaseError, match=r"catalog.sql has no statement 'nothing'; it has .*manifest_of"
    ) as statement:
        sql_files.query("catalog", "nothing")
    with pytest.raises(DatabaseError, match=r"no SQL file 'queries/nothing\.sql'") as file:
        sql_files.query("nothing", "at_all")
    assert statement.value.code == file.value.code == "sql_missing"


def test_every_query_file_parses() -> None:
    files = sorted(file.stem for file in (FOLDER / "queries").glob("*.sql"))
    assert {"audit", "catalog", "generation", "session"} <= set(files)
    for file in files:
        assert sql_files.statements(file)


def test_migrations_are_numbered_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sql_files.migrations()[0][:2] == (1, "catalog")
    (tmp_path / "migrations").mkdir()
    for name in ("0003_c.sql", "0001_a.sql"):
        (tmp_path / "migrations" / name).write_text("SELECT 1;")
    monkeypatch.setattr(sql_files, "_FOLDER", tmp_path)
    with pytest.raises(DatabaseError, match="without gaps"):
        sql_files.migrations()
    (tmp_path / "migrations" / "0002_b.sql").write_text("SELECT 1;")
    assert [number for number, _, _ in sql_files.migrations()] == [1, 2, 3]
