"""The catalog over a real database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from pipelines.errors import DatabaseError, IndexStateError, SourceError
from pipelines.ranges import Range
from pipelines.records import Failure
from resources.engine.memory import MemoryManifest
from resources.engine.work import Manifest
from resources.postgres.catalog import UNCOUNTED, Catalog, GenerationRow, IndexCommit, ManifestRow
from resources.postgres.database import Database
from resources.postgres.statements import query

pytestmark = pytest.mark.integration


@pytest.fixture
def database(emptied_database: Database) -> Database:
    return emptied_database


ROW = ManifestRow("chunks", "k1", "30", "40", "chunks/a.parquet", True, "in", "out", 12, 2, "run")


def failure(doc_id: str, code: str = "corrupt", stage: str = "parsed_elements") -> Failure:
    return Failure(doc_id, "handbook", f"{doc_id}.pdf", stage, code, "cannot be read")


def generation(catalog: Catalog, key: str = "k") -> GenerationRow:
    return catalog.create_generation(key, {"buckets": 4}, {"name": "m"}, 3, {"chunks": 1}, {"chunks": "k1"})


def plain(row: ManifestRow) -> ManifestRow:
    return replace(row, committed_at=None)


# ---------------------------------------------------------------- sources


def test_a_source_is_remembered_with_its_newest_settings(catalog: Catalog) -> None:
    catalog.remember_source("handbook", "/docs/handbook", {"groups": []})
    catalog.remember_source("handbook", "/docs/handbook", {"groups": ["hr"]})
    catalog.remember_source("archive", "/docs/archive", {})
    rows = catalog.sources()
    assert [(row.name, row.root, row.settings) for row in rows] == [
        ("archive", "/docs/archive", {}),
        ("handbook", "/docs/handbook", {"groups": ["hr"]}),
    ]
    assert rows[0].indexed_at is None
    catalog.touch_sources(["archive"])
    assert [row.indexed_at is None for row in catalog.sources()] == [False, True]


def test_the_same_name_with_another_root_is_refused(catalog: Catalog) -> None:
    catalog.remember_source("handbook", "/docs/handbook", {"groups": ["hr"]})
    with pytest.raises(SourceError, match=r"known with the folder /docs/handbook.*--source NAME=/other") as raised:
        catalog.remember_source("handbook", "/other", {})
    assert raised.value.code == "source_moved"
    assert [(row.root, row.settings) for row in catalog.sources()] == [("/docs/handbook", {"groups": ["hr"]})]


def test_a_source_is_forgotten(catalog: Catalog) -> None:
    catalog.remember_source("handbook", "/docs/handbook", {})
    catalog.remove_source("handbook")
    assert catalog.sources() == []
    with pytest.raises(SourceError, match="no source is named 'handbook'; see `pincite sources list`") as raised:
        catalog.remove_source("handbook")
    assert raised.value.code == "unknown_source"


# ---------------------------------------------------------------- manifest and failures


def row(first: str, after: str, file: str = "chunks/a.parquet", **more: Any) -> ManifestRow:
    return replace(ROW, first=first, after=after, file=file, **more)


def test_a_commit_replaces_what_its_range_had(catalog: Catalog) -> None:
    others = [row("50", "60"), replace(ROW, key="k2"), replace(ROW, table="sentences", first="38", after="3c")]
    catalog.commit([ROW, others[0]], "chunks", "k1", [("30", "40"), ("50", "60")])
    catalog.commit([others[1]], "chunks", "k2", [("30", "40")])
    catalog.commit([others[2]], "sentences", "k1", [("38", "3c")])
    new = row("30", "40", "chunks/c.parquet", output="new")
    catalog.commit([new], "chunks", "k1", [("30", "40")])
    assert list(map(plain, catalog.manifest_of("chunks", "k1"))) == [new, others[0]]
    assert list(map(plain, catalog.manifest_of("chunks", "k2"))) == [others[1]]
    assert list(map(plain, catalog.manifest_of("sentences", "k1"))) == [others[2]]
    several = catalog.manifests_of({"sentences": "k1", "chunks": "k2", "packed_chunks": "k1"})
    found = {table: list(map(plain, manifest)) for table, manifest in several.items()}
    assert found == {"sentences": [others[2]], "chunks": [others[1]], "packed_chunks": []}
    assert list(map(plain, catalog.manifests_of({"chunks": "k1"})["chunks"])) == [new, others[0]]
    assert catalog.manifests_of({}) == {}


HALVES = [row("30", "38", "chunks/b.parquet"), row("38", "40", "chunks/c.parquet")]
COMMITS: dict[str, list[tuple[list[ManifestRow], list[Range]]]] = {
    "split": [([ROW], [("30", "40")]), (HALVES, [("30", "38"), ("38", "40")])],
    "joined": [(HALVES, [("30", "40")]), ([ROW], [("30", "40")])],
    "one half after the other": [([ROW], [("30", "40")]), (HALVES[1:], [("38", "40")]), (HALVES[:1], [("30", "38")])],
    "a part of the middle": [([ROW], [("30", "40")]), ([row("34", "38", "chunks/d.parquet")], [("34", "38")])],
    "over two others": [(HALVES, [("30", "40")]), ([row("34", "3c", "chunks/d.parquet")], [("34", "3c")])],
    "over a gap": [([HALVES[0]], [("30", "38")]), ([row("34", "50", "chunks/d.parquet")], [("34", "50")])],
    "cut twice": [
        ([ROW], [("30", "40")]), ([row("34", "38", "chunks/d.parquet")], [("34", "38")]),
        ([row("36", "3c", "chunks/e.parquet")], [("36", "3c")]),
    ],
    "of no rows": [([ROW], [("30", "40")]), ([], [("30", "40")])],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMITS)
def test_rows_outside_a_committed_range_stay(catalog: Catalog, name: str) -> None:
    """The manifest in memory does the same."""
    memory = MemoryManifest()
    for rows, over in COMMITS[name]:
        for manifest in (catalog, memory):
            manifest.commit(rows, "chunks", "k1", over)
    found = catalog.manifest_of("chunks", "k1")
    assert list(map(plain, found)) == list(map(plain, memory.manifest_of("chunks", "k1")))
    assert all(one.after <= following.first for one, following in pairwise(found))
    owners = {
        at: [item.file for item in found if item.first <= at < item.after]
        for at in ["30", "32", "34", "36", "38", "3a", "3c", "44"]
    }
    wanted: dict[str, list[str]] = {at: [] for at in owners}
    for rows, _ in COMMITS[name]:
        for at in wanted:
            wanted[at] = next(([item.file] for item in rows if item.first <= at < item.after), wanted[at])
    assert owners == wanted
    for item in found:
        made = next(each for rows, _ in COMMITS[name] for each in rows if each.file == item.file)
        assert item.whole == (item.range == made.range)
        assert (item.input == "", item.rows, item.documents) == (
            (False, made.rows, made.documents) if item.whole else (True, UNCOUNTED, UNCOUNTED)
        )


def test_runs_of_two_buckets_commit_at_once_where_a_row_reaches_into_both(catalog: Catalog, database: Database) -> None:
    """Neither takes the other's rows for its own. Whoever comes second waits for the first."""
    catalog.commit([row("20", "60")], "chunks", "k1", [("20", "60")])
    with ThreadPoolExecutor() as threads, database.connect() as held:
        held.execute(query("catalog", "lock_commits"), {"key": "k1"})
        ends = [(f"{at:02x}", f"{at + 4:02x}") for at in range(0x20, 0x60, 4)]
        tasks = [
            threads.submit(catalog.commit, [row(*own, f"chunks/{own[0]}.parquet")], "chunks", "k1", [own])
            for own in ends
        ]
        held.commit()
        for task in tasks:
            task.result()
    assert [(item.range, item.whole) for item in catalog.manifest_of("chunks", "k1")] == [(own, True) for own in ends]


def test_empty_parts_are_committed_together_and_have_no_failures(catalog: Catalog) -> None:
    for doc_id in ("3a", "4b", "5c"):
        catalog.commit([], "parsed_elements", "k1", [(doc_id[0], f"{doc_id[0]}z")], [failure(doc_id)])
    catalog.commit([], "parsed_elements", "k2", [("3", "4")], [failure("3d")])
    rows = [row(first, after, "chunks/k1/empty", rows=0, documents=0) for first, after in (("30", "40"), ("40", "50"))]
    catalog.commit(rows, "parsed_elements", "k1", [("30", "40"), ("40", "50")])
    assert list(map(plain, catalog.manifest_of("chunks", "k1"))) == rows
    assert [item.doc_id for item in catalog.failures(["k1"])] == ["5c"]
    assert [item.doc_id for item in catalog.failures(["k2"])] == ["3d"]


def test_rows_in_postgres_have_commits_of_their_own(catalog: Catalog) -> None:
    catalog.commit([ROW], "chunks", "k1", [ROW.range])
    made = IndexCommit("indexed_documents", "g0001", "30", "40", "in", "out", 12, 2, "run")
    catalog.commit_index(made)
    assert catalog.index_commits("indexed_documents", "g0002") == {}
    (found,) = catalog.index_commits("indexed_documents", "g0001").values()
    assert replace(found, committed_at=None) == made and found.committed_at
    assert catalog.files_under(["k1", "g0001"]) == {ROW.file}


def test_commits_of_rows_in_postgres_replace_those_that_overlap(catalog: Catalog) -> None:
    made = IndexCommit("indexed_parts", "g0001", "30", "40", "in", "out", 12, 2, "run")
    halves = [replace(made, after="38"), replace(made, first="38")]
    for rows in ([made], halves, [made], halves[1:]):
        for each in rows:
            catalog.commit_index(each)
        found = catalog.index_commits("indexed_parts", "g0001").values()
        assert [replace(each, committed_at=None) for each in found] == rows


def test_rows_that_no_kept_key_needs_are_forgotten(catalog: Catalog) -> None:
    catalog.commit(
        [row("30", "40", "old"), row("40", "50", "old")], "chunks", "k1", [("30", "50")], [failure("3a")]
    )  # fmt: skip
    catalog.commit([replace(ROW, key="k2", file="new")], "chunks", "k2", [ROW.range], [failure("3b")])
    catalog.commit([replace(ROW, key="g0001", table="loaded", file="")], "loaded", "g0001", [ROW.range])
    assert catalog.files_under({"k1", "k2", "g0001"}) == {"old", "new"}
    catalog.forget_keys({"k2"})
    assert catalog.files_under({"k1", "k2", "g0001"}) == {"new"}
    assert [item.doc_id for item in catalog.failures({"k1", "k2"})] == ["3b"]


@pytest.mark.parametrize("kind", ["catalog", "memory"])
def test_failures_of_a_stage_and_range_are_replaced(catalog: Catalog, kind: str) -> None:
    book: Manifest = catalog if kind == "catalog" else MemoryManifest()
    book.commit([], "parsed_elements", "k1", [("3", "4")], [failure("3a"), failure("3b"), failure("3c")])
    book.commit([], "parsed_elements", "k1", [("4", "5")], [failure("4d")])
    book.commit([], "chunks", "k1", [("3", "4")], [failure("3e", stage="chunks")])
    book.commit([ROW], "parsed_elements", "k1", [("3", "4")], [failure("3b", "encrypted")], keep_failures_of={"3c"})
    assert [(item.doc_id, item.code) for item in book.failures({"k1"})] == [
        ("3b", "encrypted"), ("3c", "corrupt"), ("3e", "corrupt"), ("4d", "corrupt"),
    ]  # fmt: skip
    assert book.failures({"k1"})[0] == failure("3b", "encrypted")


def test_files_and_failures_are_committed_together_or_not_at_all(catalog: Catalog) -> None:
    catalog.commit([], "chunks", "k1", [("3", "4")], [failure("3a", stage="chunks")])
    for wrong in (replace(ROW, output=None), row("40", "30")):  # type: ignore[arg-type]
        with pytest.raises(DatabaseError):
            catalog.commit([ROW, wrong], "chunks", "k1", [("3", "4")])
        assert catalog.manifest_of("chunks", "k1") == []
        assert [item.doc_id for item in catalog.failures({"k1"})] == ["3a"]


def test_unchanged_rows_are_not_written_again(catalog: Catalog, database: Database) -> None:
    def write() -> list[tuple[str, ...]]:
        catalog.commit([], "chunks", "k1", [("0", "g")], [failure("a", stage="chunks")])
        catalog.remember_source("handbook", "/docs", {"groups": []})
        with database.connect() as connection:
            return connection.execute(
                "SELECT xmin::text FROM pincite.failures UNION ALL SELECT xmin::text FROM pincite.sources"
            ).fetchall()

    assert write() == write()


# ---------------------------------------------------------------- generations


def test_a_generation_has_its_own_empty_tables(catalog: Catalog, database: Database) -> None:
    made = generation(catalog)
    assert made.schema == "g0001"
    assert (made.key, made.settings, made.embedder, made.dimension) == ("k", {"buckets": 4}, {"name": "m"}, 3)
    assert (made.statistics, made.built_at, made.published_at) == ({"chunks": 1}, None, None)
    with database.connect() as connection:
        assert connection.execute("SELECT count(*) FROM g0001.chunks").fetchone() == (0,)
    assert catalog.generation(made.generation) == made
    assert catalog.generation(99) is None


def test_the_newest_generation_of_a_key_is_found(catalog: Catalog) -> None:
    first, second, other = generation(catalog), generation(catalog), generation(catalog, "other")
    assert catalog.find_generation("k") == second
    assert catalog.find_generation("nothing") is None
    assert catalog.generations() == [first, second, other]


def test_vectors_too_long_to_index_are_refused_and_leave_nothing(catalog: Catalog) -> None:
    with pytest.raises(DatabaseError, match="4001 dimensions"):
        catalog.create_generation("k", {}, {}, 4001, {}, {})
    assert catalog.generations() == []


def test_statistics_are_added(catalog: Catalog) -> None:
    made = generation(catalog)
    assert catalog.add_statistics(made.generation, {"average_terms": 7.5}).statistics == {
        "chunks": 1,
        "average_terms": 7.5,
    }
    with pytest.raises(IndexStateError, match="generation 99 does not exist"):
        catalog.add_statistics(99, {})


def test_exactly_one_generation_is_live(catalog: Catalog, database: Database) -> None:
    first, second = generation(catalog), generation(catalog)
    assert catalog.live() is None
    assert catalog.publish(first.generation)
    assert catalog.publish(second.generation)
    assert not catalog.publish(second.generation)
    live = catalog.live()
    assert live is not None
    assert live.generation == second.generation and live.published_at is not None
    assert (catalog.previous(), catalog.is_held()) == (first.generation, False)


def test_a_rollback_holds_until_somebody_publishes(catalog: Catalog) -> None:
    first, second = generation(catalog), generation(catalog)
    assert (catalog.previous(), catalog.is_held()) == (None, False)
    catalog.publish(first.generation)
    catalog.publish(second.generation)
    assert catalog.publish(first.generation, held=True)
    assert (catalog.previous(), catalog.is_held()) == (second.generation, True)
    assert catalog.publish(first.generation)
    assert (catalog.previous(), catalog.is_held()) == (second.generation, False)


def test_a_dropped_generation_leaves_nothing_and_the_live_one_cannot_be_dropped(
    catalog: Catalog, database: Database
) -> None:
    first, second = generation(catalog), generation(catalog)
    catalog.publish(first.generation)
    catalog.publish(second.generation)
    with pytest.raises(DatabaseError, match="live"):
        catalog.drop_generation(second)
    catalog.drop_generation(first)
    assert [row.generation for row in catalog.generations()] == [second.generation]
    assert catalog.previous() is None
    with database.connect() as connection:
        assert connection.execute(
            "SELECT to_regclass('g0001.chunks'), to_regclass('g0002.chunks')::text"
        ).fetchone() == (
            None,
            "g0002.chunks",
        )


def test_why_a_generation_is_not_published_is_kept(catalog: Catalog) -> None:
    made = generation(catalog)
    assert made.verdict is None
    catalog.set_verdict(made.generation, {"held": True})
    found = catalog.generation(made.generation)
    assert found is not None and found.verdict == {"held": True}
    catalog.set_verdict(made.generation, None)
    assert catalog.generation(made.generation) == made


def test_a_generation_records_its_built_from(catalog: Catalog) -> None:
    made = generation(catalog)
    catalog.mark_built(made.generation, "listing")
    built = catalog.generation(made.generation)
    assert built is not None and built.built_from == "listing"
    catalog.mark_built(made.generation, "listing")
    assert catalog.generation(made.generation) == built


# ---------------------------------------------------------------- costs and scores


def test_costs_are_summed_and_scores_kept(catalog: Catalog) -> None:
    made = generation(catalog)
    catalog.add_cost("r1", "summaries", 2, 100, 0.5, made.generation)
    catalog.add_cost("r2", "summaries", 3, 50, 0.25, made.generation)
    assert catalog.costs() == [{"stage": "summaries", "generation": 1, "items": 5, "tokens": 150, "seconds": 0.75}]
    catalog.add_scores(made.generation, "golden", {"mrr": 0.5})
    (score,) = catalog.scores()
    assert (score["generation"], score["name"], score["metrics"]) == (1, "golden", {"mrr": 0.5})
