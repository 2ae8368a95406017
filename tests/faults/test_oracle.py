"""Each part of the oracle can fail: an index is broken in that way, and it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from resources.postgres.server_process import ADMINISTRATOR
from tests.faults.running import (
    Change,
    Clean,
    Reader,
    assert_verified,
    changed,
    contents,
    edit,
    row_versions,
    unchanged,
    until,
)
from tests.support.projects import Project, columns, rows_of

pytestmark = pytest.mark.integration

BROKEN = "broken.pdf"


def with_a_failure(project: Project) -> None:
    project.write(BROKEN, b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog")
    project.index(code=3)


@pytest.fixture
def project(full: tuple[Project, Clean], server_url: str, tmp_path: Path) -> Iterator[Project]:
    with changed(full[0], server_url, tmp_path / "project", unchanged) as copy:
        yield copy


OF_CARDS = "doc_id = (SELECT doc_id FROM g0001.documents WHERE uri = 'cards.md')"
ORPHAN = f"""ALTER TABLE g0001.chunks DROP CONSTRAINT chunks_doc_id_fkey; CREATE TEMP TABLE lost AS
    SELECT * FROM g0001.chunks WHERE {OF_CARDS} AND ordinal = 0; UPDATE lost SET doc_id = repeat('e', 32),
    chunk_id = repeat('e', 32), number = 999999; INSERT INTO g0001.chunks SELECT * FROM lost"""
TWICE = f"""ALTER TABLE g0001.sentences DROP CONSTRAINT sentences_pkey;
    INSERT INTO g0001.sentences SELECT * FROM g0001.sentences WHERE {OF_CARDS} AND ordinal = 0"""
INVALID = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'g0001.chunks_embedding'::regclass"
DIMENSION = """DROP INDEX g0001.chunks_embedding; ALTER TABLE g0001.chunks ALTER COLUMN embedding TYPE vector(8)
    USING subvector(embedding, 1, 8)::vector(8)"""
EMBEDDER = "UPDATE pincite.generations SET embedder = embedder || jsonb_build_object('identity', 'another'::text)"


def case(part: str, statement: str, code: str, told: str, name: str, before: Change = unchanged) -> object:
    return pytest.param(before, statement, code, told, id=f"{part}-{name}")


A = [
    case("a", f"DELETE FROM g0001.documents WHERE {OF_CARDS}", "missing_document", "docs/cards.md", "document-gone"),
    case(
        "a",
        f"UPDATE g0001.chunks SET text = 'Another text.' WHERE {OF_CARDS}",
        "changed_chunk",
        "docs/cards.md",
        "other-version",
    ),
    case("a", "UPDATE g0001.documents SET stale = true", "changed_document", "in stale", "marked-stale"),
]
B = [
    case("b", ORPHAN, "orphan_chunk", "e" * 32, "orphan"),
    case("b", TWICE, "duplicate_sentence", "stored twice", "twice"),
    case(
        "b",
        f"UPDATE g0001.documents SET row_hash = 'other' WHERE {OF_CARDS}",
        "changed_document",
        "docs/cards.md",
        "hash",
    ),
]
C = [
    case("c", "DELETE FROM pincite.live", "not_published", "pincite generations publish", "none-live"),
    case("c", INVALID, "vector_index", "g0001.chunks is invalid", "index-invalid"),
    case("c", DIMENSION, "dimension", "g0001.chunks has 8, the generation 16", "dimension"),
    case("c", EMBEDDER, "embedder", "another", "embedder"),
]
D = [
    case(
        "d",
        "UPDATE pincite.manifest SET output = 'other' WHERE table_name = 'parsed_documents' AND first = '40000000'",
        "unfinished",
        "bucket 01",
        "input-changed",
    ),
    case(
        "d",
        "DELETE FROM pincite.manifest WHERE table_name = 'chunk_embeddings' AND first = '80000000'",
        "missing_bucket",
        "02 of chunk_embeddings",
        "vectors-not-committed",
    ),
]
E = [
    case("e", "DELETE FROM pincite.failures", "unrecorded_failure", BROKEN, "forgotten", with_a_failure),
    case("e", "UPDATE pincite.failures SET message = ''", "nameless_failure", BROKEN, "no-reason", with_a_failure),
    case("e", "UPDATE pincite.failures SET code = ''", "nameless_failure", BROKEN, "no-code", with_a_failure),
]


def assert_told(project: Project, before: Change, statement: str, code: str, told: str) -> None:
    before(project)
    assert_verified(project)
    with psycopg.connect(project.settings["database"], user=ADMINISTRATOR) as connection:
        connection.execute(statement)  # type: ignore[arg-type]
    ran = project.run("verify")
    assert ran.code == 1
    found = {problem["code"]: problem["message"] for problem in ran.json["problems"]}
    assert told in found.get(code, ""), found


@pytest.mark.case("a")
@pytest.mark.parametrize(("before", "statement", "code", "told"), A)
def test_other_documents_than_the_manifest_names(
    project: Project, before: Change, statement: str, code: str, told: str
) -> None:
    assert_told(project, before, statement, code, told)


@pytest.mark.case("b")
@pytest.mark.parametrize(("before", "statement", "code", "told"), B)
def test_orphans_duplicates_and_rows_of_another_hash(
    project: Project, before: Change, statement: str, code: str, told: str
) -> None:
    assert_told(project, before, statement, code, told)


@pytest.mark.case("c")
@pytest.mark.parametrize(("before", "statement", "code", "told"), C)
def test_no_live_generation_or_an_invalid_index_or_another_embedder(
    project: Project, before: Change, statement: str, code: str, told: str
) -> None:
    assert_told(project, before, statement, code, told)


@pytest.mark.case("d")
@pytest.mark.parametrize(("before", "statement", "code", "told"), D)
def test_work_that_another_run_would_do(project: Project, before: Change, statement: str, code: str, told: str) -> None:
    assert_told(project, before, statement, code, told)
    versions = row_versions(project)
    project.index("--retry-failed")
    assert row_versions(project) != versions, "there was work to do"
    assert_verified(project)


@pytest.mark.case("e")
@pytest.mark.parametrize(("before", "statement", "code", "told"), E)
def test_failures_without_name_or_reason(
    project: Project, before: Change, statement: str, code: str, told: str
) -> None:
    assert_told(project, before, statement, code, told)


HALF = f"DELETE FROM g0001.chunks WHERE {OF_CARDS} AND ordinal = 0"
NO_TERMS = "DELETE FROM g0001.postings"
"""Seen by the lexical route alone."""


@pytest.mark.case("f")
@pytest.mark.parametrize(
    "statement", [HALF, "DELETE FROM g0001.documents", NO_TERMS], ids=["half", "empty", "no-terms"]
)
def test_a_reader_that_saw_half_of_a_document_or_nothing(
    project: Project, clean_after: Callable[[Change], Clean], statement: str
) -> None:
    """What is broken between two questions of a reader who never stops is mended before the last."""
    with Reader(project) as reader:
        project.rows(statement)
        reader.ask()
        edit(project)
        project.index()
        last = reader.ask()
    assert contents(project) == clean_after(edit).contents
    with pytest.raises(AssertionError, match=r"\.(md|txt|csv|html)"):
        reader.assert_saw_whole_documents(last)


@pytest.mark.case("f")
def test_a_reader_that_saw_another_version(project: Project) -> None:
    """Only while it polled, between two answers that are alike."""
    of_cards = f"WHERE {OF_CARDS} AND ordinal = 0"
    ((text,),) = project.rows(f"SELECT text FROM g0001.chunks {of_cards}")
    with Reader(project) as reader:
        project.rows(f"UPDATE g0001.chunks SET text = 'Another text.' {of_cards}")
        seen = len(reader.polled)
        until(lambda: len(reader.polled) > seen + 1)
        project.rows(f"UPDATE g0001.chunks SET text = %s {of_cards}", text)
        assert reader.ask() == reader.first
    with pytest.raises(AssertionError, match=r"cards\.md"):
        reader.assert_saw_only(reader.first)


@pytest.mark.case("f")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("header_chain", "'{Another}'"),
        ("boxes", """'[{"page": 9, "x0": 1, "y0": 2, "x1": 3, "y1": 4}]'"""),
        ("page_start", "9"),
        ("overlap", "'More.'"),
    ],
    ids=["headings", "boxes", "pages", "overlap"],
)
def test_a_reader_that_saw_another_place(project: Project, column: str, value: str) -> None:
    """The text of every passage is as it was."""
    with Reader(project) as reader:
        project.rows(f"UPDATE g0001.chunks SET {column} = {value} WHERE {OF_CARDS} AND ordinal = 0")
        reader.ask()
        until(lambda: len(reader.polled) > 1)
    with pytest.raises(AssertionError, match=r"cards\.md"):
        reader.assert_saw_only(reader.first)


def test_a_reader_that_nobody_heard_meanwhile(project: Project) -> None:
    with Reader(project) as reader:
        pass
    reader.polled.clear()
    with pytest.raises(AssertionError, match="nobody has asked"):
        reader.assert_saw_only(reader.first)


# ---------------------------------------------------------------- the comparison with a clean run

OTHER = {
    "text": "coalesce({}, '') || 'x'",
    "_text": "array_append({}, 'x')",
    "int2": "{} + 1",
    "int4": "coalesce({}, 0) + 100000",
    "float4": "{} / 2",
    "bool": "NOT {}",
    "date": "coalesce({}, '2000-01-01') + 1",
    "jsonb": "jsonb_build_array({})",
    "vector": "{} * {}",
    "int4range": "int4range(coalesce(upper({}), 0), coalesce(upper({}), 0) + 1)",
    "_int4range": "array_append({}, int4range(1, 2))",
    "bytea": "overlay({} PLACING int4send(999999) FROM 1)",
}
"""Type of a column to another value of it."""


def test_a_difference_in_any_column_is_seen(full: tuple[Project, Clean]) -> None:
    """One row, one column at a time: boxes, pages, header chains, overlap, context, neighbours, links, groups,
    metadata and all others."""
    project, clean = full
    wanted, unseen = clean.contents["g0001"], []
    with psycopg.connect(project.settings["database"], user=ADMINISTRATOR) as connection:
        connection.execute("SET session_replication_role = replica")  # foreign keys do not keep it from being broken
        there = columns(connection, "g0001")
        connection.commit()
        assert rows_of(connection, "g0001") == wanted
        for table, name, kind in [(table, *column) for table, found in there.items() for column in found]:
            other = OTHER[kind].replace("{}", f'"{name}"')
            first = f"ctid = (SELECT min(ctid) FROM g0001.{table})"
            connection.execute(f'UPDATE g0001.{table} SET "{name}" = {other} WHERE {first}')  # type: ignore[arg-type]
            if rows_of(connection, "g0001") == wanted:
                unseen.append(f"{table}.{name}")
            connection.rollback()
        assert rows_of(connection, "g0001") == wanted
    assert unseen == [] and len(there["chunks"]) > 20
