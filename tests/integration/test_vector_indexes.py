"""The vector indexes of a generation: how they are built, and whether walks of them find what there is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pipelines.fingerprint import document_id, fingerprint
from pipelines.ports import Filters
from pipelines.settings.base import VectorIndexSettings
from resources.checks.audit import audit
from resources.checks.hnsw_recall import (
    ENDS_EARLY,
    LEAST_RECALL,
    WIDTHS,
    needed_ef_search,
    recall,
    to_be_judged,
    tuned_statistics,
    walk_problems,
)
from resources.postgres.catalog import Catalog
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.search_index import COMPARED, _statement, search_index
from resources.postgres.statements import statements
from resources.postgres.vector_indexes import VectorIndexes
from tests.support.index_tables import INVALID, document, rows, spoil, tables, vector

pytestmark = pytest.mark.integration


@pytest.fixture
def index(module_database: Database) -> GenerationTables:
    return tables(module_database)


@pytest.fixture(autouse=True)
def few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge an index by fewer searches than the product does, since those here are good or bad beyond doubt."""
    monkeypatch.setattr("resources.checks.hnsw_recall.PROBES", 6)
    monkeypatch.setattr("resources.checks.hnsw_recall.FILTER_PROBES", 2)


@pytest.fixture
def one_width(monkeypatch: pytest.MonkeyPatch) -> int:
    """The only width that is tried."""
    monkeypatch.setattr("resources.checks.hnsw_recall.WIDTHS", WIDTHS[:1])
    return WIDTHS[0]


# ---------------------------------------------------------------- builds


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
    texts = [f"text {number}" for number in range(2000)]
    index.replace(0, [document("a", *texts, sentences=[], sentence_vectors={})])
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


@pytest.mark.parametrize("live", [False, True])
def test_one_process_builds_where_shared_memory_does_not_hold_the_graph(
    index: GenerationTables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, live: bool
) -> None:
    """As in a container, whose /dev/shm has 64 MB: here a graph is said to take more than the machine's has."""
    index.replace(0, [document("a", *(f"text {number}" for number in range(100)))])
    shared = os.statvfs("/dev/shm")
    megabytes = (shared.f_blocks * shared.f_frsize >> 20) + 1024
    with index.database.connect() as connection:
        if connection.execute("SHOW dynamic_shared_memory_type").fetchone() != ("posix",):
            pytest.skip("this server keeps shared memory in files")
        connection.execute(f"ALTER TABLE {index.schema}.chunks SET (parallel_workers = 1)")
    monkeypatch.setattr("resources.postgres.vector_indexes.GRAPH_BYTES", megabytes * 2**20 // 100)
    many = VectorIndexSettings(memory_mb=megabytes, workers=1)
    built = VectorIndexes(index.database, index.generation, many).build(live)
    assert built.built == ("chunks", "sentences")
    assert [line for line in caplog.messages if "several processes cannot build" in line and "shm-size" in line]
    assert VectorIndexes(index.database, index.generation, many).states() == {
        "chunks_embedding": True,
        "sentences_embedding": True,
    }


def test_vector_indexes_of_half_precision_take_half_the_bytes_and_are_what_searches_walk(
    module_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another precision makes them invalid, so that the next build makes them anew."""
    index = tables(module_database, 384)
    index.replace(0, [document("a", *(f"text {number}" for number in range(120)), dimension=384)])
    sizes = {}
    monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
    monkeypatch.setattr("resources.postgres.search_index.EXACT_SENTENCES", 0)
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

DROPPED = "DROP INDEX chunks_embedding; "


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches walk the vector indexes, however few rows there are."""
    monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
    monkeypatch.setattr("resources.postgres.search_index.EXACT_SENTENCES", 0)


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

    monkeypatch.setattr("resources.checks.hnsw_recall._shortfall", no_shortfall)
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
@pytest.mark.usefixtures("walks")
def test_a_walk_that_finds_others_than_the_nearest_is_found(
    crowd: GenerationTables, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    name = {"chunks": "nearest", "sentences": "nearest_sentences"}[table]
    alias = {"chunks": "c", "sentences": "s"}[table]
    worse = statements(f"search_{table}")[name].replace("    WHERE ", f"    WHERE {alias}.ordinal %% 2 = 0 AND ", 1)
    monkeypatch.setitem(statements(f"search_{table}"), name, worse)
    _statement.cache_clear()
    try:
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
    lacking: GenerationTables, one_width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The less it finds the surer: also one that finds nothing."""
    assert audit(lacking) == [], "of so few rows a search compares all"
    monkeypatch.setattr("resources.postgres.search_index.EXACT_CHUNKS", 0)
    width, problems = needed_ef_search(lacking)
    assert (width, problems) == (COMPARED, walk_problems(lacking, one_width))
    found = dict(problems)
    assert found["recall"].endswith("finds 0.000 of the exact neighbours") and "ends before" in found[ENDS_EARLY]
    assert [code for code, _ in audit(lacking)] == ["recall"]


@pytest.mark.defends("7f")
@pytest.mark.usefixtures("walks", "one_width")
def test_an_index_that_lacks_most_rows_is_built_anew_before_a_generation_is_published(
    lacking: GenerationTables,
) -> None:
    assert tuned_statistics(lacking, ["sentences"])["ef_search"] == COMPARED, "nothing falls short there"
    judged = {"chunks": 40, "sentences": 40}
    assert tuned_statistics(lacking, ["chunks", "sentences"]) == {"ef_search": WIDTHS[0], "judged": judged, "short": []}
    assert audit(lacking) == []


SAME = 2000
"""Equal vectors: far more than a walk meets."""
DRAWINGS = 5
"""Levels of a graph are drawn at random: of 200 drawings about one gives an early row the highest, which leads to the
others, and it is drawn again."""


@pytest.mark.usefixtures("walks")
def test_a_generation_whose_graph_leads_nowhere_compares_every_row(index: GenerationTables, one_width: int) -> None:
    """Of many equal vectors each has only such as neighbours: nothing leads from them to the others."""
    others = [f"other {number}" for number in range(60)]
    for _ in range(DRAWINGS):
        index = tables(index.database)
        index.replace(0, [document("log", *["the same line"] * SAME)])
        index.vector_indexes.build()
        index.replace(1, [document("others", *others)])
        if (recall(index, "chunks", one_width) or 0) < LEAST_RECALL and (found := tuned_statistics(index))[
            "ef_search"
        ] == COMPARED:
            break
    else:
        raise AssertionError("each of the graphs leads everywhere")
    assert any("finds" in message for message in found["short"])
    changed = Catalog(index.database).add_statistics(index.generation.generation, found)
    judged = GenerationTables(index.database, changed)
    assert audit(judged) == [] and tuned_statistics(judged) == {}
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
    monkeypatch.setattr("resources.postgres.search_index.EXACT_SENTENCES", 999)
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
        return [("filter", f"{width} is too narrow")] if width < enough else []

    monkeypatch.setattr("resources.checks.hnsw_recall.filter_problems", narrow)
    enough = WIDTHS[1]
    assert needed_ef_search(index) == (enough, [])
    enough = WIDTHS[-1] + 1
    assert needed_ef_search(index) == (COMPARED, [("filter", f"{WIDTHS[-1]} is too narrow")])
