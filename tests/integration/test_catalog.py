"""The catalog over a real database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.errors import DatabaseError, IndexStateError, SourceError
from pipelines.records import Failure
from resources.postgres.catalog import Catalog, GenerationRow, IndexCommit, ManifestRow
from resources.postgres.database import Database

pytestmark = pytest.mark.integration

ROW = ManifestRow("chunks", "k1", 3, "chunks/a.parquet", "in", "out", 12, 2, "run")


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


def test_several_shards_are_committed_together_and_have_no_failures(catalog: Catalog) -> None:
    for shard, doc_id in ((3, "a"), (4, "b"), (5, "c")):
        catalog.commit([], "parsed_elements", "k1", shard, [failure(doc_id)])
    catalog.commit([], "parsed_elements", "k2", 3, [failure("d")])
    rows = [replace(ROW, bucket=shard, file="chunks/k1/empty", rows=0, documents=0) for shard in (3, 4)]
    catalog.commit_shards(rows, "parsed_elements", "k1", [3, 4], None)
    assert list(map(plain, catalog.manifest_of("chunks", "k1").values())) == rows
    assert [item.doc_id for item in catalog.failures(["k1"])] == ["c"]
    assert [item.doc_id for item in catalog.failures(["k2"])] == ["d"]


def test_rows_in_postgres_have_commits_of_their_own(catalog: Catalog) -> None:
    catalog.commit([ROW], "chunks", "k1", 3)
    made = IndexCommit("indexed_documents", "g0001", 3, "in", "out", 12, 2, "run")
    catalog.commit_index(made)
    assert catalog.index_commits("indexed_documents", "g0002") == {}
    (found,) = catalog.index_commits("indexed_documents", "g0001").values()
    assert replace(found, committed_at=None) == made and found.committed_at
    assert catalog.files_under(["k1", "g0001"]) == {ROW.file}


def test_the_manifest_has_one_row_a_table_key_and_bucket(catalog: Catalog) -> None:
    other_bucket, other_key = replace(ROW, bucket=4), replace(ROW, key="k2", file="chunks/b.parquet")
    catalog.commit([ROW, other_bucket, other_key], "chunks", "k1", 3)
    catalog.commit([replace(ROW, file="chunks/c.parquet", output="new")], "chunks", "k1", 3)
    found = catalog.manifest_of("chunks", "k1")
    assert {bucket: plain(row) for bucket, row in found.items()} == {
        3: replace(ROW, file="chunks/c.parquet", output="new"),
        4: other_bucket,
    }
    assert catalog.manifest_of("sentences", "k1") == {}


def test_what_no_kept_key_needs_is_forgotten(catalog: Catalog) -> None:
    catalog.commit([replace(ROW, file="old"), replace(ROW, bucket=4, file="old")], "chunks", "k1", 3, [failure("a")])
    catalog.commit([replace(ROW, key="k2", file="new")], "chunks", "k2", 3, [failure("b")])
    catalog.commit([replace(ROW, key="g0001", table="loaded", file="")], "loaded", "g0001", 3)
    assert catalog.files_under({"k1", "k2", "g0001"}) == {"old", "new"}
    catalog.forget_keys({"k2"})
    assert catalog.files_under({"k1", "k2", "g0001"}) == {"new"}
    assert [item.doc_id for item in catalog.failures({"k1", "k2"})] == ["b"]


def test_failures_of_a_stage_and_bucket_are_replaced(catalog: Catalog) -> None:
    catalog.commit([], "parsed_elements", "k1", 3, [failure("a"), failure("b"), failure("c")])
    catalog.commit([], "parsed_elements", "k1", 4, [failure("d")])
    catalog.commit([], "chunks", "k1", 3, [failure("e", stage="chunks")])
    catalog.commit([ROW], "parsed_elements", "k1", 3, [failure("b", "encrypted")], keep_failures_of={"c"})
    assert [(item.doc_id, item.code) for item in catalog.failures({"k1"})] == [
        ("b", "encrypted"), ("c", "corrupt"), ("d", "corrupt"), ("e", "corrupt"),
    ]  # fmt: skip
    assert catalog.failures({"k1"})[0] == failure("b", "encrypted")


def test_files_and_failures_are_committed_together_or_not_at_all(catalog: Catalog) -> None:
    catalog.commit([], "chunks", "k1", 3, [failure("a", stage="chunks")])
    with pytest.raises(DatabaseError, match="bucket"):
        catalog.commit([ROW, replace(ROW, bucket=None)], "chunks", "k1", 3)  # type: ignore[arg-type]
    assert catalog.manifest_of("chunks", "k1") == {}
    assert [item.doc_id for item in catalog.failures({"k1"})] == ["a"]


def test_what_is_the_same_is_not_written_again(catalog: Catalog, database: Database) -> None:
    def write() -> list[tuple[str, ...]]:
        catalog.commit([], "chunks", "k1", 3, [failure("a", stage="chunks")])
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
    with pytest.raises(IndexStateError, match="no generation 99"):
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
    assert (catalog.previous(), catalog.held()) == (first.generation, False)


def test_a_rollback_holds_until_somebody_publishes(catalog: Catalog) -> None:
    first, second = generation(catalog), generation(catalog)
    assert (catalog.previous(), catalog.held()) == (None, False)
    catalog.publish(first.generation)
    catalog.publish(second.generation)
    assert catalog.publish(first.generation, held=True)
    assert (catalog.previous(), catalog.held()) == (second.generation, True)
    assert catalog.publish(first.generation)
    assert (catalog.previous(), catalog.held()) == (second.generation, False)


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


def test_what_a_generation_was_built_from(catalog: Catalog) -> None:
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
