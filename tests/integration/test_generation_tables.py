"""One generation's tables: what a reader finds after any sequence of replacements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pgvector import Vector
from psycopg.types.json import Jsonb
from psycopg.types.range import Range

from pipelines.errors import IndexStateError, ModelError
from pipelines.fingerprint import document_id, fingerprint
from pipelines.indexing.indexed_documents import DocumentFacts
from pipelines.ports import Filters
from pipelines.records import Box, Chunk, ParsedDocument, Sentence, SentenceLink, Span
from pipelines.settings.base import VectorIndexSettings
from resources.checks.audit import audit
from resources.checks.filter_audit import ENDS_EARLY
from resources.checks.walks import (
    LEAST_RECALL,
    WIDTHS,
    needed_ef_search,
    recall,
    to_be_judged,
    tuned,
    walk_problems,
)
from resources.postgres.catalog import Catalog
from resources.postgres.copy_rows import packed_rows
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables, IndexedDocument
from resources.postgres.search_base import _statement
from resources.postgres.search_index import COMPARED, search_index
from resources.postgres.setup import ADMINISTRATOR
from resources.postgres.statements import statements
from resources.postgres.vector_indexes import VectorIndexes
from tests.support.builders import raw

pytestmark = pytest.mark.integration

DIMENSION = 4
AVERAGE = 3.0


def tables(database: Database, dimension: int = DIMENSION) -> GenerationTables:
    generation = Catalog(database).create_generation("k", {}, {}, dimension, {"average_terms": AVERAGE}, {})
    return GenerationTables(database, generation)


@pytest.fixture
def index(module_database: Database) -> GenerationTables:
    return tables(module_database)


def vector(seed: str, dimension: int = DIMENSION) -> np.ndarray:
    found = np.random.default_rng(int(fingerprint(seed)[:8], 16)).standard_normal(dimension).astype(np.float32)
    return found / np.linalg.norm(found)


def _chunk(doc_id: str, number: int, text: str) -> Chunk:
    return Chunk(
        doc_id=doc_id, index=number, chunk_id=fingerprint("chunk", doc_id, number), section_id="s1",
        header_chain=("Top", "Part"), block_types=("paragraph",), text=text, spans=(Span(0, 5), Span(9, 12)),
        units=(number,), offsets=(0,), page_start=1, page_end=2, boxes=(Box(1, 0.5, 1.0, 2.0, 3.0),), tokens=7,
        metadata={"kv.form": "W-4"}, has_overlap=False, overlap="before", overlap_spans=(),
    )  # fmt: skip


def _sentences(chunks: Sequence[Chunk]) -> list[Sentence]:
    ids = [fingerprint("sentence", chunk.chunk_id) for chunk in chunks]
    around = zip([None, *ids], ids, [*ids[1:], None], chunks, strict=False)
    return [
        Sentence(
            doc_id=chunk.doc_id, index=number, sentence_id=own, text=chunk.text, source="parse", page=1, boxes=(),
            confidence=0.5, chunk_id=chunk.chunk_id, start=0, length=len(chunk.text), paragraph_id="p",
            paragraph=chunk.text, paragraph_start=0, paragraph_length=len(chunk.text), paragraph_span=chunk.spans[0],
            section_id="s1", section_path=("Top",), previous_id=previous, next_id=following,
        )
        for number, (previous, own, following, chunk) in enumerate(around)
    ]  # fmt: skip


def document(uri: str, *texts: str, dimension: int = DIMENSION, **changes: Any) -> IndexedDocument:
    """A document with a chunk of one sentence for each text; its terms are the words."""
    doc_id = document_id("s", uri)
    chunks = [_chunk(doc_id, number, text) for number, text in enumerate(texts)]
    sentences = _sentences(chunks)
    values: dict[str, Any] = {
        "raw": raw(uri, "s", content_hash=f"content of {uri}"),
        "parsed": ParsedDocument(doc_id, "Title", False, "en", "body", 2, None, None, None, {}, ()),
        "facts": DocumentFacts("Title", "title", date(2026, 1, 31), "2", ("hr",), {"owner": "me"}),
        "summary": "about",
        "stale": False,
        "row_hash": fingerprint(uri, texts),
        "chunks": chunks,
        "contexts": {chunks[0].chunk_id: "context"} if chunks else {},
        "terms": {chunk.chunk_id: Counter(chunk.text.split()) for chunk in chunks},
        "vectors": {chunk.chunk_id: vector(chunk.text, dimension) for chunk in chunks},
        "sentences": sentences,
        "sentence_vectors": {item.sentence_id: vector(item.text, dimension) for item in sentences},
    }
    return IndexedDocument(**{**values, **changes})


def rows(index: GenerationTables, statement: str) -> list[tuple[Any, ...]]:
    with index.database.connect() as connection:
        return connection.execute(statement.replace("FROM ", f"FROM {index.schema}.", 1)).fetchall()


def posted(index: GenerationTables) -> dict[str, dict[str, float]]:
    """Term to weight by text of the chunk, over all buckets."""
    texts = dict(rows(index, "SELECT number, text FROM chunks"))
    found: dict[str, dict[str, float]] = {}
    for term, chunks, weights in rows(index, "SELECT term, chunks, weights FROM postings"):
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


def codes(index: GenerationTables) -> set[str]:
    return {code for code, _ in audit(index)}


def spoil(index: GenerationTables, statement: str) -> None:
    with psycopg.connect(index.database.url, user=ADMINISTRATOR) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(f"SET LOCAL search_path = {index.schema}, public")
        connection.execute(statement)


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
    with pytest.raises(IndexStateError, match="no frozen average_terms"):
        bare.replace(0, [document("a", "red")])


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


# ---------------------------------------------------------------- vector indexes


@pytest.mark.case(5)
@pytest.mark.parametrize("live", [False, True])
def test_vector_indexes_are_built_once_and_again_when_invalid(index: GenerationTables, live: bool) -> None:
    index.replace(0, [document("a", "red", "green")])
    assert [message for code, message in audit(index) if code == "vector_index"] == [
        f"the vector index of {index.schema}.{table} is missing" for table in ("chunks", "sentences")
    ]
    build = index.vector_indexes.build(live)
    assert build.built == ("chunks", "sentences") and build.unfitting == ()
    assert index.vector_indexes.build(live).built == ()
    assert audit(index) == []
    spoil(index, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'chunks_embedding'::regclass")
    assert audit(index) == [("vector_index", f"the vector index of {index.schema}.chunks is {INVALID}")]
    assert index.vector_indexes.build(live).built == ("chunks",)
    assert audit(index) == []


def test_a_graph_that_does_not_fit_memory_is_told_before_and_after_it_is_built(
    index: GenerationTables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("resources.postgres.vector_indexes.GRAPH_BYTES", 10_000)
    index.replace(0, [document("a", *(f"text {number}" for number in range(2000)))])
    little = VectorIndexSettings(memory_mb=16, workers=0)
    built = VectorIndexes(index.database, index.generation, little).build()
    assert built.built == ("chunks", "sentences") and built.unfitting == (), "it was only feared"
    assert "chunks, of 2,000 vectors, may take about 20 MB to build and has 16: " in caplog.messages[0]
    caplog.clear()
    tiny = VectorIndexSettings.model_construct(memory_mb=1, workers=0, precision="auto")
    built = VectorIndexes(index.database, index.generation, tiny).build(anew=["chunks"])
    assert len(caplog.messages) == 1
    assert built.unfitting[0].startswith("hnsw graph no longer fits into maintenance_work_mem after ")
    assert VectorIndexes(index.database, index.generation, VectorIndexSettings()).build(anew=["chunks"]).unfitting == ()


@pytest.mark.parametrize("settings", [{}, {"memory_mb": 16, "workers": 3}], ids=["none", "both"])
def test_memory_and_workers_of_a_build_are_settings(
    index: GenerationTables, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int]
) -> None:
    """Without them a server that is not embedded keeps what it has."""
    index.replace(0, [document("a", "red", "green")])
    plain = psycopg.Connection.execute
    seen = []

    def means(connection: Any) -> list[Any]:
        names = "maintenance_work_mem", "max_parallel_maintenance_workers"
        return [plain(connection, f"SHOW {name}").fetchall()[0][0] for name in names]

    def execute(connection: Any, statement: Any, *given: Any, **named: Any) -> Any:
        if "USING hnsw" in str(statement):
            seen.append(means(connection))
        return plain(connection, statement, *given, **named)

    with index.database.connect() as connection:
        own = means(connection)
    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    VectorIndexes(index.database, index.generation, VectorIndexSettings(**settings)).build()
    assert seen == [["16MB", "3"] if settings else own] * 2


def test_vector_indexes_of_half_precision_take_half_the_bytes_and_are_what_searches_walk(
    module_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another precision makes them invalid, so that the next build makes them anew."""
    index = tables(module_database, 384)
    index.replace(0, [document("a", *(f"text {number}" for number in range(300)), dimension=384)])
    sizes = {}
    monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
    monkeypatch.setattr("resources.postgres.sentence_index.EXACT_SENTENCES", 0)
    for precision in ("full", "half"):
        row = Catalog(module_database).add_statistics(index.generation.generation, {"precision": precision})
        index = GenerationTables(module_database, row)
        assert index.vector_indexes.build().built == ("chunks", "sentences")
        assert audit(index) == [], "searches walk them: the audit counts their walks"
        (sizes[precision],) = rows(index, f"SELECT pg_relation_size('{index.schema}.chunks_embedding') FROM documents")[
            0
        ]
        with index.database.connect() as connection, search_index(connection, row.generation) as search:
            found = search.dense(vector("text 7", 384).tolist(), 3, Filters(groups=("hr",)))
            assert [item.chunk_id for item in found[:1]] == [fingerprint("chunk", document_id("s", "a"), 7)]
            assert found[0].score == pytest.approx(1, abs=1e-4)
    assert sizes["half"] < 0.65 * sizes["full"]


# ---------------------------------------------------------------- walks of the vector indexes

INVALID = "invalid, or not the one that searches use"
DROPPED = "DROP INDEX chunks_embedding; "


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches walk the vector indexes, however few rows there are."""
    monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
    monkeypatch.setattr("resources.postgres.sentence_index.EXACT_SENTENCES", 0)


@pytest.fixture(scope="module")
def crowd(module_database: Database) -> GenerationTables:
    """400 chunks, of which one document in three is for nobody in particular."""
    made = tables(module_database)
    documents = [document(f"{name}.txt", *(f"{name} {n}" for n in range(5))) for name in range(80)]
    made.replace(0, [replace(item, facts=replace(item.facts, groups=("hr",) if at % 3 else ()))
                     for at, item in enumerate(documents)])  # fmt: skip
    made.vector_indexes.build()
    return made


@pytest.mark.usefixtures("walks")
def test_the_audit_walks_the_index_by_filters_of_several_selectivities(
    crowd: GenerationTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert audit(crowd) == []
    walks = []

    def no_shortfall(*given: Any) -> list[tuple[str, str]]:
        walks.append(given[2])
        return []

    monkeypatch.setattr("resources.checks.filter_audit._shortfall", no_shortfall)
    found = [message for code, message in audit(crowd) if code == "filter"]
    assert walks == ["chunks"] * 5 + ["sentences"] * 5, "where ten match a search compares them"
    assert len(found) == 10 and all("does not walk the vector index" in message for message in found)


@pytest.mark.defends("7f")
@pytest.mark.usefixtures("walks")
def test_a_walk_that_does_not_go_on_is_found(crowd: GenerationTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, and the generation published: a search that finds too few compares all that match."""
    monkeypatch.setitem(statements("session"), "tune", statements("session")["tune"].replace("relaxed_order", "off"))
    width, problems = needed_ef_search(crowd)
    assert width == WIDTHS[0] and audit(crowd) == []
    found = [message for code, message in problems if code == ENDS_EARLY]
    for table in ("chunks", "sentences"):
        assert any(f"among {table} ends before it has found what matches" in message for message in found)


@pytest.mark.defends("7f")
@pytest.mark.parametrize("table", ["chunks", "sentences"])
def test_a_walk_that_finds_others_than_the_nearest_is_found(
    crowd: GenerationTables, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    name = {"chunks": "nearest", "sentences": "nearest_sentences"}[table]
    alias = {"chunks": "c", "sentences": "s"}[table]
    worse = statements(f"search_{table}")[name].replace("    WHERE ", f"    WHERE {alias}.ordinal %% 2 = 0 AND ", 1)
    monkeypatch.setitem(statements(f"search_{table}"), name, worse)
    _statement.cache_clear()
    try:
        assert audit(crowd) == [], "of so few rows a search compares all"
        monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
        monkeypatch.setattr("resources.postgres.sentence_index.EXACT_SENTENCES", 0)
        found = [message for code, message in audit(crowd) if code == "filter"]
    finally:
        _statement.cache_clear()
    assert any(f"among {table} finds" in message for message in found)
    assert all(f"among {table}" in message for message in found)


@pytest.mark.defends("7f")
@pytest.mark.parametrize(
    "statement",
    [
        DROPPED + "CREATE INDEX chunks_embedding ON chunks USING hnsw (embedding vector_l2_ops)",
        DROPPED + "ALTER INDEX sentences_embedding RENAME TO chunks_embedding; "
        "CREATE INDEX sentences_embedding ON sentences USING hnsw (embedding vector_cosine_ops)",
        DROPPED + "CREATE INDEX chunks_embedding ON chunks USING hnsw (embedding vector_cosine_ops) WHERE ordinal = 0",
        DROPPED + "CREATE INDEX chunks_embedding ON chunks USING hnsw ((embedding::halfvec(4)) halfvec_cosine_ops)",
        DROPPED + "CREATE INDEX chunks_embedding ON chunks (chunk_id)",
    ],
    ids=["distance", "table", "part", "half", "kind"],
)
def test_an_index_that_searches_cannot_walk_is_found_and_made_anew(index: GenerationTables, statement: str) -> None:
    index.replace(0, [document("a", "red", "green", "blue")])
    index.vector_indexes.build()
    spoil(index, statement)
    assert audit(index) == [("vector_index", f"the vector index of {index.schema}.chunks is {INVALID}")]
    assert index.vector_indexes.build().built == ("chunks",)
    assert audit(index) == []


@pytest.fixture
def lacking(index: GenerationTables) -> GenerationTables:
    """A vector index of chunks that lacks most of them."""
    index.replace(0, [document("a", "red")])
    index.vector_indexes.build()
    live = "UPDATE pg_index SET indisready = {0}, indisvalid = {0} WHERE indexrelid = '{1}_embedding'::regclass"
    spoil(index, live.format(False, "chunks"))
    index.replace(0, [document("b", *(f"{n}" for n in range(40)))], [document_id("s", "a")])
    spoil(index, live.format(True, "chunks"))
    return index


@pytest.mark.defends("7f")
def test_an_index_that_lacks_most_rows_fails_by_its_recall(
    lacking: GenerationTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The less it finds the surer: also one that finds nothing."""
    assert audit(lacking) == [], "of so few rows a search compares all"
    monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
    width, problems = needed_ef_search(lacking)
    assert (width, problems) == (COMPARED, walk_problems(lacking, WIDTHS[-1]))
    found = dict(problems)
    assert found["recall"].endswith("finds 0.000 of the exact neighbours") and "ends before" in found[ENDS_EARLY]
    assert [code for code, _ in audit(lacking)] == ["recall"]


@pytest.mark.defends("7f")
@pytest.mark.usefixtures("walks")
def test_an_index_that_lacks_most_rows_is_built_anew_before_a_generation_is_published(
    lacking: GenerationTables,
) -> None:
    assert tuned(lacking, ["sentences"])["ef_search"] == COMPARED, "nothing falls short there"
    judged = {"chunks": 40, "sentences": 40}
    assert tuned(lacking, ["chunks", "sentences"]) == {"ef_search": WIDTHS[0], "judged": judged, "short": []}
    assert audit(lacking) == []


@pytest.mark.usefixtures("walks")
def test_a_generation_whose_graph_leads_nowhere_compares_every_row(index: GenerationTables) -> None:
    """Of many equal vectors each has only such as neighbours: nothing leads from them to the others."""
    others = [f"other {number}" for number in range(60)]
    index.replace(0, [document("log", *["the same line"] * 6000)])
    index.vector_indexes.build()
    index.replace(1, [document("others", *others)])
    assert (recall(index, "chunks", WIDTHS[-1]) or 0) < LEAST_RECALL
    found = tuned(index)
    assert found["ef_search"] == COMPARED
    assert any("finds" in message for message in found["short"])
    changed = Catalog(index.database).add_statistics(index.generation.generation, found)
    judged = GenerationTables(index.database, changed)
    assert audit(judged) == [] and tuned(judged) == {}
    with index.database.connect() as connection, search_index(connection, changed.generation) as search:
        (plans,) = connection.execute("SELECT current_setting('plan_cache_mode')").fetchone() or ("",)
        assert plans == "force_custom_plan", "set for every search, also where it walks nothing"
        for text in others:
            nearest = search.dense(vector(text).tolist(), 1, Filters(groups=("hr",)))
            assert nearest[0].score == pytest.approx(1)


def test_walks_are_judged_once_searches_make_them_and_when_an_index_has_grown_or_shrunk(
    index: GenerationTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"chunks": 100, "sentences": 1000}
    assert not to_be_judged(index.generation, counts)
    monkeypatch.setattr("resources.postgres.sentence_index.EXACT_SENTENCES", 999)
    assert to_be_judged(index.generation, counts)
    judged = replace(index.generation, statistics={"judged": {"sentences": 1200}})
    assert not to_be_judged(judged, {**counts, "sentences": 1440})
    assert to_be_judged(judged, {**counts, "sentences": 1441})
    assert not to_be_judged(judged, counts) and to_be_judged(judged, {**counts, "sentences": 998})
    assert to_be_judged(replace(judged, statistics={**judged.statistics, "chunks": 5001}), counts)


@pytest.mark.usefixtures("walks")
def test_walks_are_as_wide_as_filtered_searches_need(index: GenerationTables, monkeypatch: pytest.MonkeyPatch) -> None:
    index.replace(0, [document("a", "red", "green")])
    index.vector_indexes.build()
    assert needed_ef_search(index) == (WIDTHS[0], [])

    def narrow(index: GenerationTables, tables: Sequence[str], least: float, width: int) -> list[tuple[str, str]]:
        return [("filter", f"{least} is not found")] if width < WIDTHS[1] else []

    monkeypatch.setattr("resources.checks.walks.filter_problems", narrow)
    assert needed_ef_search(index) == (WIDTHS[1], [])


# ---------------------------------------------------------------- audit


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
        ("UPDATE postings SET weights = '{}' WHERE term = 'green'", {"uneven_postings"}),
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
def test_what_does_not_hold_is_found(index: GenerationTables, statement: str, found: set[str]) -> None:
    index.replace(0, [document("a", "red", "green", "blue"), document("b", "other")])
    index.vector_indexes.build()
    assert audit(index) == []
    spoil(index, statement)
    assert codes(index) == found
