"""What the audit finds in rows that somebody spoiled."""

from __future__ import annotations

import pytest

from resources.checks.audit import audit
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from tests.support.index_tables import document, spoil, tables

pytestmark = pytest.mark.integration


@pytest.fixture
def index(module_database: Database) -> GenerationTables:
    return tables(module_database)


def codes(index: GenerationTables) -> set[str]:
    return {code for code, _ in audit(index)}


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE sentences SET chunk_id = 'gone' WHERE ordinal = 0", {"orphan_sentence"}),
        (
            "UPDATE sentences SET chunk_id = (SELECT chunk_id FROM chunks WHERE text = 'other') WHERE text = 'red'",
            {"orphan_sentence"},
        ),
        ("DELETE FROM chunks WHERE text = 'other'", {"orphan_sentence", "empty_document", "posting_without_chunk"}),
        ("UPDATE chunks SET embedding = '[0,0,0,0]' WHERE text = 'red'", {"zero_vector"}),
        ("UPDATE sentences SET embedding = '[0,0,0,0]' WHERE text = 'red'", {"zero_vector"}),
        ("DELETE FROM postings WHERE term = 'green'", {"chunk_without_postings"}),
        ("UPDATE postings SET weights = '' WHERE term = 'green'", {"uneven_postings"}),
        ("UPDATE chunks SET next_id = NULL WHERE text = 'red'", {"chunk_next_not_mutual"}),
        ("UPDATE chunks SET previous_id = NULL WHERE text = 'green'", {"chunk_next_not_mutual"}),
        ("UPDATE sentences SET next_id = 'gone' WHERE text = 'green'", {"sentence_next_not_mutual"}),
        ("UPDATE sentences SET previous_id = NULL WHERE text = 'green'", {"sentence_next_not_mutual"}),
        ("INSERT INTO sentence_links VALUES ('gone', 'away', 1)", {"link_without_sentence"}),
        (
            "INSERT INTO sentence_links SELECT sentence_id, sentence_id, 1 FROM sentences LIMIT 1",
            {"link_without_sentence"},
        ),
        (
            "INSERT INTO sentence_links SELECT a.sentence_id, b.sentence_id, 1 FROM sentences a, sentences b "
            "WHERE a.sentence_id <> b.sentence_id",
            {"link_budget"},
        ),
        ("DROP INDEX sentences_embedding", {"vector_index"}),
    ],
)
def test_the_audit_finds_each_violation(index: GenerationTables, statement: str, found: set[str]) -> None:
    index.replace(0, [document("a", "red", "green", "blue"), document("b", "other")])
    index.vector_indexes.build()
    assert audit(index) == []
    spoil(index, statement)
    assert codes(index) == found


def test_postings_that_are_looked_at_in_parts_are_looked_at_all(
    index: GenerationTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number stands in the parts of all terms of its chunk."""
    monkeypatch.setattr("resources.checks.audit._PART", 0)
    index.replace(0, [document("a", "red green", "green", "blue red"), document("b", "other red")])
    index.vector_indexes.build()
    assert audit(index) == []
    spoil(index, "DELETE FROM postings WHERE term IN ('green', 'other')")
    assert [message.split(",")[0] for _, message in audit(index)] == ["1 chunk cannot be found by terms"]
    spoil(index, "DELETE FROM chunks WHERE text IN ('blue red', 'other red')")
    assert "2 chunk numbers in the postings have no chunk" in dict(audit(index))["posting_without_chunk"]
