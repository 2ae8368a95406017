"""One generation's tables: what a reader finds after any sequence of replacements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pgvector import Vector
from psycopg.types.json import Jsonb
from psycopg.types.range import Range

from pipelines.errors import IndexStateError, ModelError
from pipelines.records import SentenceLink
from resources.checks.audit import audit
from resources.postgres.catalog import Catalog
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.index_rows import packed_rows
from resources.postgres.postings import unpack_row
from tests.support.index_tables import AVERAGE, DIMENSION, document, rows, tables, vector

pytestmark = pytest.mark.integration


@pytest.fixture
def index(module_database: Database) -> GenerationTables:
    return tables(module_database)


def posted(index: GenerationTables) -> dict[str, dict[str, float]]:
    """Term to weight by text of the chunk, over all buckets."""
    texts = dict(rows(index, "SELECT number, text FROM chunks"))
    found: dict[str, dict[str, float]] = {}
    for term, *packed in rows(index, "SELECT term, chunks, weights FROM postings"):
        chunks, weights = (values.tolist() for values in unpack_row(*packed))
        assert chunks == sorted(set(chunks))
        for number, weight in zip(chunks, weights, strict=True):
            found.setdefault(term, {})[texts[number]] = weight
    return found


def weights_of(*texts: str) -> dict[str, dict[str, Any]]:
    """The same by definition, chunk by chunk."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        words = text.split()
        for term, count in Counter(words).items():
            weight = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(words) / AVERAGE))
            found.setdefault(term, {})[text] = pytest.approx(weight, rel=1e-6)
    return found


# ---------------------------------------------------------------- documents


def test_rows_come_back_as_they_went_in(index: GenerationTables) -> None:
    one = document("a.txt", "alpha beta", "gamma")
    assert index.replace(2, [one]) == 0
    assert rows(index, "SELECT bucket, source, uri, title, family, language, effective_date, version, groups, "
                       "metadata, pages, summary, content_hash, stale FROM documents") == [
        (2, "s", "a.txt", "Title", "title", "en", date(2026, 1, 31), "2", ["hr"], {"owner": "me"}, 2, "about",
         "content of a.txt", False)
    ]  # fmt: skip
    first, second = one.chunks
    assert rows(index, "SELECT chunk_id, ordinal, header_chain, block_types, text, overlap, context, page_start, "
                       "page_end, boxes, spans::text, tokens, terms, metadata, previous_id, next_id, embedding::real[] "
                       "FROM chunks ORDER BY number") == [
        (first.chunk_id, 0, ["Top", "Part"], ["paragraph"], "alpha beta", "before", "context", 1, 2,
         [{"page": 1, "x0": 0.5, "y0": 1.0, "x1": 2.0, "y1": 3.0}], '{"[0,5)","[9,12)"}', 7, 2, {"kv.form": "W-4"},
         None, second.chunk_id, pytest.approx(vector("alpha beta").tolist())),
        (second.chunk_id, 1, ["Top", "Part"], ["paragraph"], "gamma", "before", "", 1, 2,
         [{"page": 1, "x0": 0.5, "y0": 1.0, "x1": 2.0, "y1": 3.0}], '{"[0,5)","[9,12)"}', 7, 1, {"kv.form": "W-4"},
         first.chunk_id, None, pytest.approx(vector("gamma").tolist())),
    ]  # fmt: skip
    ids = [sentence.sentence_id for sentence in one.sentences]
    alpha, gamma = (pytest.approx(vector(text).tolist()) for text in ("alpha beta", "gamma"))
    assert rows(index, "SELECT sentence_id, chunk_id, ordinal, text, section_path, confidence, previous_id, next_id, "
                       "embedding::real[] FROM sentences ORDER BY ordinal") == [
        (ids[0], first.chunk_id, 0, "alpha beta", ["Top"], 0.5, None, ids[1], alpha),
        (ids[1], second.chunk_id, 1, "gamma", ["Top"], 0.5, ids[0], None, gamma),
    ]  # fmt: skip
    assert index.counts() == {"documents": 1, "chunks": 2, "sentences": 2, "sentence_links": 0, "terms": 0}
    assert index.document_hashes(2) == {one.raw.doc_id: one.row_hash}
    assert index.document_hashes(3) == {}
    assert index.content_hashes() == {one.raw.doc_id: "content of a.txt"}
    assert set(index.bucket_states()) == {2}


@pytest.mark.parametrize("most", [1, 2, 3, 5, 10])
def test_content_hashes_are_read_in_blocks(index: GenerationTables, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("resources.postgres.generation_tables.BLOCK", most)
    documents = [document(f"{number}.txt", "alpha") for number in range(5)]
    index.replace(3, documents)
    blocks = list(index.all_content_hashes())
    assert {doc_id: content for block in blocks for doc_id, content in block.items()} == {
        one.raw.doc_id: one.raw.content_hash for one in documents
    }
    assert sum(map(len, blocks)) == 5 and max(map(len, blocks)) <= most


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NUMBER = st.integers(-(2**31), 2**31 - 1)
SINGLE = st.floats(width=32, allow_nan=False)
VALUES = {
    "bool": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "integer": NUMBER,
    "real": SINGLE,
    "text": TEXT,
    "date": st.dates(),
    "text[]": st.lists(TEXT, max_size=3),
    "int4range[]": st.lists(st.tuples(NUMBER, NUMBER).map(lambda ends: Range(min(ends), max(ends))), max_size=3),
    "jsonb": st.recursive(
        st.none() | st.booleans() | NUMBER | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=6,
    ).map(Jsonb),
    f"vector({DIMENSION})": st.lists(SINGLE.filter(np.isfinite), min_size=DIMENSION, max_size=DIMENSION).map(
        lambda values: np.array(values, np.float32)
    ),
}
"""Values of every type that COPY is given."""
COPIED = {"smallint": "int2", "integer": "int4", "real": "float4", f"vector({DIMENSION})": "vector"}
"""Names of types in `copy_rows.ENCODERS` where those of SQL are others."""


@pytest.mark.case(22)
@given(st.lists(st.tuples(*[st.none() | values for values in VALUES.values()]), max_size=4))
@settings(max_examples=150)
def test_every_value_comes_back_as_it_was_copied(module_database: Database, given_rows: list[tuple[Any, ...]]) -> None:
    from pgvector.psycopg import register_vector

    columns = ", ".join(f'"{name}" {name}' for name in VALUES)
    with module_database.connect() as connection:
        register_vector(connection)
        connection.execute(f"CREATE TEMPORARY TABLE copied (place serial, {columns}) ON COMMIT DROP")
        names = ", ".join(f'"{name}"' for name in VALUES)
        with connection.cursor() as cursor, cursor.copy(f"COPY copied ({names}) FROM STDIN (FORMAT binary)") as copy:
            for data in packed_rows([COPIED.get(name, name) for name in VALUES], given_rows):
                copy.write(data)
        found = connection.execute(f"SELECT {names} FROM copied ORDER BY place", binary=True).fetchall()
    assert _plain([list(row) for row in found]) == _plain([list(row) for row in given_rows])


def _plain(value: Any) -> Any:
    """Values that can be compared; a range without a number is an empty one."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Range):
        return None if value.isempty or value.lower == value.upper else (value.lower, value.upper)
    if isinstance(value, Jsonb):
        return value.obj
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.to_list() if isinstance(value, Vector) else value


def test_postings_after_adding_changing_and_removing(index: GenerationTables) -> None:
    stay = ["red stays", "red red stays too"]
    index.replace(
        0, [document("a", "red red green", "blue"), document("e", *stay), document("b", "red one two three four")]
    )
    index.replace(1, [document("c", "green")])
    assert posted(index) == weights_of("red red green", "blue", *stay, "red one two three four", "green")
    assert index.replace(0, [document("a", "red", "violet")], [document("b").raw.doc_id]) == 3
    assert posted(index) == weights_of(*stay, "red", "violet", "green")
    assert index.replace(0, [document("d", "red violet")]) == 0
    assert posted(index) == weights_of(*stay, "red", "violet", "green", "red violet")
    assert index.replace(0, [], [document(uri).raw.doc_id for uri in "ade"]) == 5
    assert posted(index) == weights_of("green")
    assert rows(index, "SELECT count(*) FROM postings") == [(1,)]
    assert index.counts()["chunks"] == 1


def test_numbers_of_a_documents_chunks_follow_each_other(index: GenerationTables) -> None:
    """What is summed from the first to the last of them is of this document alone."""
    gaps = """SELECT doc_id FROM chunks GROUP BY doc_id
              HAVING max(number) - min(number) + 1 <> count(*)
                  OR array_agg(ordinal ORDER BY number) <> array_agg(ordinal ORDER BY ordinal)"""
    index.replace(0, [document(uri, *["red"] * count) for uri, count in (("a", 3), ("b", 1), ("c", 4))])
    index.replace(1, [document("d", "red", "green")])
    index.replace(0, [document("b", *["blue"] * 5), document("a", "red", "blue")])
    index.replace(0, [document("e", "red", "red"), document("b", "red", "red")], whole=True,
                  held=[document("c").raw.doc_id])  # fmt: skip
    assert rows(index, gaps) == []
    assert rows(index, "SELECT count(*), count(DISTINCT doc_id) FROM chunks") == [(10, 4)]


def test_terms_of_any_script_and_length(index: GenerationTables) -> None:
    terms = ["їжак", "x" * 3000, "naïve", "日本", "'", "\\", "%s"]
    index.replace(0, [document("a", " ".join(terms))])
    index.replace(0, [document("b", "їжак")])
    assert posted(index) == weights_of(" ".join(terms), "їжак")


def test_many_postings_cross_blocks(index: GenerationTables) -> None:
    texts = [" ".join(f"w{word}" for word in range(start, start + 4000)) for start in range(0, 12000, 3000)]
    index.replace(0, [document("a", *texts)])
    assert posted(index) == weights_of(*texts)


def test_a_failing_replacement_changes_nothing(index: GenerationTables) -> None:
    index.replace(0, [document("a", "red", "green")])
    before = (posted(index), index.document_hashes(0))
    twice = document("b", "red")
    with pytest.raises(Exception, match="duplicate key"):
        index.replace(0, [document("a", "blue"), twice, replace(twice, raw=replace(twice.raw, doc_id="other"))])
    assert (posted(index), index.document_hashes(0)) == before


def test_postings_that_fail_beside_the_copy_change_nothing(
    index: GenerationTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.replace(0, [document("a", "red")])
    before = index.bucket_states()

    def fail(*_: object) -> None:
        raise MemoryError("no room for postings")

    monkeypatch.setattr("resources.postgres.postings.postings_of", fail)
    with pytest.raises(MemoryError, match="no room for postings"):
        index.replace(0, [document("b", "green")], whole=True)
    assert index.bucket_states() == before


def test_a_reader_sees_the_old_rows_or_the_new(index: GenerationTables) -> None:
    index.replace(0, [document("a", "red", "green")])
    with index.database.connect() as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        statement = f"SELECT array_agg(text ORDER BY ordinal) FROM {index.schema}.chunks"
        assert reader.execute(statement).fetchone() == (["red", "green"],)
        index.replace(0, [document("a", "blue")])
        assert reader.execute(statement).fetchone() == (["red", "green"],)
    assert rows(index, "SELECT text FROM chunks") == [("blue",)]


def test_statistics_must_be_frozen_first(module_database: Database) -> None:
    bare = GenerationTables(module_database, Catalog(module_database).create_generation("k", {}, {}, DIMENSION, {}, {}))
    with pytest.raises(IndexStateError, match="no frozen statistics") as caught:
        bare.replace(0, [document("a", "red")])
    assert caught.value.code == "not_built"


# ---------------------------------------------------------------- vectors


@pytest.mark.case(8)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones(3, np.float32), r"shape \(3,\).*dimension 4"),
        (np.ones((1, 4), np.float32), r"shape \(1, 4\)"),
        (np.array([1, np.nan, 0, 0], np.float32), "not finite"),
        (np.array([1, np.inf, 0, 0], np.float32), "not finite"),
        (np.zeros(4, np.float32), "is zero"),
        (None, "has no vector"),
    ],
)
@pytest.mark.parametrize("what", ["chunk", "sentence"])
def test_a_bad_vector_is_refused_by_name(index: GenerationTables, what: str, bad: Any, message: str) -> None:
    good = document("a", "red", "green")
    item = good.chunks[1].chunk_id if what == "chunk" else good.sentences[1].sentence_id
    field = "vectors" if what == "chunk" else "sentence_vectors"
    vectors: dict[str, Any] = {field: {**getattr(good, field), item: bad}}
    with pytest.raises(ModelError, match=f"{what} {item} of s/a .*{message}") as raised:
        index.replace(0, [document("b", "fine"), replace(good, **vectors)])
    assert raised.value.code == "bad_vector"
    assert index.counts()["documents"] == 0


@pytest.mark.case(8)
def test_long_vectors_are_indexed_in_half_precision(module_database: Database) -> None:
    index = tables(module_database, 2500)
    index.replace(0, [document("a", "red", "green", dimension=2500)])
    index.vector_indexes.build()
    assert audit(index) == []
    definitions = rows(index, f"SELECT indexdef FROM pg_indexes WHERE schemaname = '{index.schema}'".replace(
        "FROM pg_indexes", "FROM chunks, pg_catalog.pg_indexes") + " AND indexname = 'chunks_embedding'")  # fmt: skip
    assert "halfvec(2500)" in definitions[0][0]
    large = document("b", "red", dimension=2500)
    vectors = {large.chunks[0].chunk_id: np.full(2500, 70000, np.float32)}
    with pytest.raises(ModelError, match="half precision"):
        index.replace(0, [replace(large, vectors=vectors)])


@pytest.mark.case(10)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM documents WHERE uri = 'a'",
        "DELETE FROM chunks WHERE text = 'red'",
        "DELETE FROM sentences WHERE text = 'red'",
        "DELETE FROM postings WHERE term = 'green'",
        "UPDATE documents SET row_hash = 'other' WHERE uri = 'a'",
    ],
)
def test_a_bucket_that_somebody_changed_is_not_in_the_state_it_was_left_in(
    index: GenerationTables, statement: str
) -> None:
    index.replace(1, [document("b", "other")])
    left: list[tuple[str, int]] = []
    index.replace(0, [document("a", "red", "green")], commit=lambda connection, *state: left.append(state))
    assert left == [(index.bucket_states()[0], 2)]
    before = index.bucket_states()
    with index.database.connect() as connection:
        connection.execute(f"SET LOCAL search_path = {index.schema}, public")
        connection.execute(statement)
    after = index.bucket_states()
    assert after.get(0) != before[0] and after[1] == before[1]
    index.replace(0, [document("a", "red", "green")], whole=True)
    assert index.bucket_states() == before
    assert posted(index) == weights_of("red", "green", "other")


def test_a_commit_that_fails_leaves_the_rows_as_they_were(index: GenerationTables) -> None:
    index.replace(0, [document("a", "red")])

    def refuse(connection: Any, state: str, rows: int) -> None:
        raise RuntimeError("no commit")

    with pytest.raises(RuntimeError, match="no commit"):
        index.replace(0, [document("a", "green")], commit=refuse)
    assert rows(index, "SELECT text FROM chunks") == [("red",)]


def test_groups_change_and_nothing_else(index: GenerationTables) -> None:
    one = document("a", "red")
    index.replace(0, [one])
    index.replace(0, [], regrouped={one.raw.doc_id: ("staff",)})
    assert index.document_groups() == {one.raw.doc_id: (0, ("staff",))}
    assert rows(index, "SELECT text FROM chunks") == [("red",)]
    assert index.document_hashes(0) != {one.raw.doc_id: one.row_hash}


# ---------------------------------------------------------------- statistics and links


def test_terms_are_frozen_whole(index: GenerationTables) -> None:
    index.freeze_terms({(): {"red": 2, "їжак": 1}})
    index.freeze_terms({(): {"red": 3}, ("hr",): {"red": 1}})
    assert rows(index, "SELECT term, groups, documents FROM terms ORDER BY documents") == [
        ("red", ["hr"], 1),
        ("red", [], 3),
    ]


def test_links_are_replaced_by_their_difference(index: GenerationTables) -> None:
    one = document("a", "red", "green", "blue")
    index.replace(0, [one])
    a, b, c = (sentence.sentence_id for sentence in one.sentences)
    assert index.replace_links([SentenceLink(a, b, 0.9), SentenceLink(b, c, 0.8)]) == (2, 0)
    before = rows(index, "SELECT xmin::text FROM sentence_links WHERE similarity > 0.85")
    assert index.replace_links([SentenceLink(a, b, 0.9), SentenceLink(c, a, 0.95)]) == (1, 1)
    assert rows(index, "SELECT xmin::text FROM sentence_links WHERE similarity < 0.92") == before
    assert index.replace_links([SentenceLink(a, b, 0.7), SentenceLink(c, a, 0.95)]) == (1, 0)
    assert rows(index, "SELECT source_id, target_id, similarity FROM sentence_links ORDER BY 3") == [
        (a, b, pytest.approx(0.7)), (c, a, pytest.approx(0.95)),
    ]  # fmt: skip
    assert index.replace_links([]) == (0, 2)
