"""The move of a catalog from shards to ranges: which keys change, which stay, how two numbers of shards meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import ModelError
from pipelines.fingerprint import fingerprint
from pipelines.ranges import bucket_of, bucket_range
from pipelines.settings.base import Settings, shaped_as
from pipelines.stages import STAGES, UNPARTITIONED, Frozen, chunking_key, generation_key, stage_keys
from resources.postgres.document_ranges import KeyInputs, RangeCommit, RangedCatalog, plan_ranges, sharded_keys
from tests.support.sharded_states import (
    DOCUMENTS,
    FLOORS,
    MODELS,
    TEXT_STAGES,
    catalog,
    commit,
    commits_of,
    in_postgres,
    inputs,
    recorded,
    settings,
)

TEXT = replace(MODELS, embedder="")
FROZEN = replace(MODELS, floors=FLOORS, embedder="embedder 1")


def covering(commits: Collection[RangeCommit], table: str, key: str, doc_id: str) -> list[RangeCommit]:
    return [row for row in commits if (row.table, row.key) == (table, key) and row.first <= doc_id < row.after]


def by_range(new: RangedCatalog, table: str, key: str) -> dict[tuple[str, str], RangeCommit]:
    return {(row.first, row.after): row for row in new.commits if (row.table, row.key) == (table, key)}


# ---------------------------------------------------------------- keys


def test_a_generation_gets_the_keys_that_this_version_computes() -> None:
    own = settings()
    row = recorded(1, own, shards=2)
    new = plan_ranges(catalog([*commits_of(row.keys, 8), *in_postgres(row)], [row], counts=[8], last=8), inputs(own))
    (moved,) = new.generations
    shaped = shaped_as(own, row.settings)
    assert moved.keys == stage_keys(shaped, FROZEN)
    assert moved.key == generation_key(own, MODELS)
    assert moved.statistics == {**row.statistics, "chunking": chunking_key(own, MODELS)}
    assert (moved.settings, moved.embedder) == (row.settings, row.embedder)
    for stage in STAGES.values():
        for table in stage.tables:
            before = {made.number: made for made in commits_of(row.keys, 8) if made.table == table}
            rows = by_range(new, table, moved.keys[stage.name])
            wanted = {bucket_range(n, 8) if n >= 0 else ("", "g"): n for n in before}
            assert rows.keys() == wanted.keys()
            for ends, number in wanted.items():
                same = ("file", "input", "output", "rows", "documents", "run_id", "committed_at")
                assert all(getattr(rows[ends], name) == getattr(before[number], name) for name in same)
                assert rows[ends].whole


def test_rows_in_postgres_are_of_buckets_of_parts_and_of_all() -> None:
    row = recorded(1, settings(), shards=2)
    new = plan_ranges(catalog(in_postgres(row), [row]), inputs())
    assert list(by_range(new, "indexed_documents", "g0001")) == [bucket_range(n, 4) for n in range(4)]
    assert list(by_range(new, "indexed_parts", "g0001")) == [bucket_range(n, 8) for n in range(8)]
    assert list(by_range(new, "loaded_links", "g0001")) == [("", "g")]
    assert len(new.commits) == 13


def test_a_version_without_a_number_of_shards_had_one_a_bucket() -> None:
    row = recorded(1, settings())
    new = plan_ranges(catalog(commits_of(row.keys, 4), [row]), inputs())
    assert list(by_range(new, "chunks", new.generations[0].keys["chunks"])) == [bucket_range(n, 4) for n in range(4)]
    assert new.generations[0].key == generation_key(settings(), MODELS)


def test_keys_of_a_stage_of_another_version_stay_and_only_their_ranges_are_set() -> None:
    row = recorded(1, settings(), shards=2)
    names = list(STAGES)
    others = {name: fingerprint("other", key) for name, key in row.keys.items() if names.index(name) >= 5}
    old = replace(row, keys={**row.keys, **others}, key="other")
    new = plan_ranges(
        catalog(commits_of(old.keys, 8), [old], [(DOCUMENTS[0], "sentences", others["sentences"])]), inputs()
    )
    (moved,) = new.generations
    now = stage_keys(settings(), FROZEN)
    assert moved.keys == {**{name: now[name] for name in names[:5]}, **others}
    assert moved.key == "other"
    assert len(by_range(new, "sentences", others["sentences"])) == 8
    assert len(by_range(new, "packed_chunks", now["packed_chunks"])) == 8
    assert len(new.commits) == len(list(commits_of(old.keys, 8)))
    assert not new.gone


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {}},
        {"settings": {**recorded(1, settings(), 2).settings, "chunking": {"unheard": 1}}},
        {"statistics": {}},
        {"embedder": {}},
    ],
    ids=["nothing recorded", "a setting that is unknown", "no floors", "no embedder"],
)
def test_a_generation_that_this_version_cannot_read_keeps_its_keys(change: dict[str, dict[str, object]]) -> None:
    strange = {name: fingerprint("strange", key) for name, key in recorded(1, settings(), 2).keys.items()}
    row = replace(recorded(1, settings(), 1), keys=strange, **change)  # type: ignore[arg-type]
    new = plan_ranges(catalog(commits_of(strange, 4), [row]), inputs())
    assert new.generations == []
    assert {made.key for made in new.commits} == set(strange.values())
    assert len(by_range(new, "chunks", strange["chunks"])) == 4


def test_the_listing_and_text_of_a_run_without_a_generation_are_kept() -> None:
    own = settings()
    keys = sharded_keys(own, TEXT, 16)
    old = catalog(
        commits_of(keys, 16, TEXT_STAGES), failures=[(DOCUMENTS[0], "parsed_elements", keys["parsed_elements"])]
    )
    new = plan_ranges(old, inputs(own))
    now = stage_keys(own, TEXT)
    assert {row.key for row in new.commits} == {now[name] for name in TEXT_STAGES}
    assert len(new.commits) == len(old.commits)
    assert (new.gone, new.keys) == ([], {keys["parsed_elements"]: now["parsed_elements"]})


def test_commits_that_no_settings_ask_for_are_left_out() -> None:
    """Of a run that was stopped, by settings that differ in the size of chunks."""
    tried = settings(chunking={"target_tokens": 123})
    keys = sharded_keys(tried, TEXT, 8)
    failures = [(DOCUMENTS[0], "packed_chunks", keys["packed_chunks"]), ("a", "older versions had no key", "")]
    new = plan_ranges(catalog(commits_of(keys, 8, TEXT_STAGES), failures=failures), inputs(settings()))
    now = stage_keys(settings(), TEXT)
    assert {row.key for row in new.commits} == {now[name] for name in TEXT_STAGES if name != "packed_chunks"}
    assert [(one.doc_id, one.stage, one.key) for one in new.gone] == failures


def test_a_generation_is_moved_by_what_it_recorded_if_its_models_are_not_here() -> None:
    row = recorded(1, settings(), embedder="any preset")

    def installed(own: Settings) -> Frozen:
        raise ModelError("the embedder is not installed")

    new = plan_ranges(catalog(commits_of(row.keys, 4), [row]), KeyInputs(settings(), installed))
    assert new.generations[0].key == generation_key(settings(), MODELS)


def test_a_key_of_other_models_than_those_here_is_moved_all_the_same() -> None:
    before = replace(MODELS, static="static 0", sentence_models="sentences 0")
    row = recorded(1, settings(), models=before)
    new = plan_ranges(catalog(commits_of(row.keys, 4), [row]), inputs())
    assert new.generations[0].key == generation_key(settings(), before)


def test_the_key_of_a_generation_that_recorded_no_models_is_that_of_those_here() -> None:
    row = recorded(1, settings())
    bare = {name: value for name, value in row.statistics.items() if name != "models"}
    (moved,) = plan_ranges(catalog(commits_of(row.keys, 4), [replace(row, statistics=bare)]), inputs()).generations
    assert moved.key == generation_key(settings(), MODELS)


def test_nothing_is_asked_of_models_without_need() -> None:
    def installed(own: Settings) -> Frozen:
        raise AssertionError

    keys = sharded_keys(settings(), TEXT, 8)
    new = plan_ranges(catalog(commits_of(keys, 8, ["raw_documents"])), KeyInputs(settings(), installed))
    assert len(new.commits) == 8


# ---------------------------------------------------------------- two numbers of shards


def half_way(*numbers: int, last: int = 8) -> tuple[RangedCatalog, dict[str, str]]:
    """A generation of 4 shards, and after it these of 8 shards, by the same settings."""
    few, many = recorded(1, settings(), 1), recorded(2, settings(), 2)
    old = catalog(
        [*commits_of(few.keys, 4), *commits_of(many.keys, 8, numbers=numbers, day=1)], [few, many], (), [4, 8], last
    )
    new = plan_ranges(old, inputs())
    assert new.generations[0].keys == new.generations[1].keys
    return new, dict(new.generations[0].keys)


def test_ranges_that_the_last_number_lacks_are_filled_from_the_other() -> None:
    new, keys = half_way(0, 1, 2)
    rows = by_range(new, "chunks", keys["chunks"])
    eight, four = [*(bucket_range(n, 8)[0] for n in range(8)), "g"], [*(bucket_range(n, 4)[0] for n in range(4)), "g"]
    assert sorted(rows) == [
        (eight[0], eight[1]), (eight[1], eight[2]), (eight[2], eight[3]), (eight[3], four[2]), (four[2], four[3]),
        (four[3], four[4]),
    ]  # fmt: skip
    clipped = rows[eight[3], four[2]]
    assert (clipped.whole, clipped.input, clipped.rows, clipped.documents) == (False, "", -1, -1)
    assert "/01-" in clipped.file
    assert len({row.output for row in rows.values()}) == 6
    assert all(row.whole and row.input for ends, row in rows.items() if ends != (eight[3], four[2]))


def test_a_part_of_an_empty_shard_is_empty() -> None:
    few, many = recorded(1, settings(), 1), recorded(2, settings(), 2)
    empty = [
        replace(made, file=f"{made.table}/{made.key}/empty", rows=0, documents=0) for made in commits_of(few.keys, 4)
    ]
    new = plan_ranges(catalog([*empty, *commits_of(many.keys, 8, numbers=[0])], [few, many], last=8), inputs())
    part = by_range(new, "chunks", new.generations[0].keys["chunks"])[bucket_range(1, 8)[0], bucket_range(1, 4)[0]]
    assert (part.whole, part.input, part.rows, part.documents) == (True, "", 0, 0)
    assert part.file.endswith("/empty")


def test_one_file_may_fill_two_gaps() -> None:
    few, many = recorded(1, settings(), 1), recorded(2, settings(), 4)
    commits = [*commits_of(few.keys, 4), *commits_of(many.keys, 16, numbers=[1])]
    new = plan_ranges(catalog(commits, [few, many], last=16), inputs())
    rows = by_range(new, "sentences", new.generations[0].keys["sentences"])
    first, second = (
        rows[bucket_range(0, 16)[0], bucket_range(1, 16)[0]],
        rows[bucket_range(2, 16)[0], bucket_range(4, 16)[0]],
    )
    assert first.file == second.file and first.output != second.output
    assert not first.whole and not second.whole


def test_tables_of_a_stage_come_from_the_same_shards() -> None:
    """A shard that lacks one of its tables was never made, whatever the other holds."""
    few, many = recorded(1, settings(), 1), recorded(2, settings(), 2)
    half = [made for made in commits_of(many.keys, 8) if made.table != "chunk_terms" or made.number > 1]
    new = plan_ranges(catalog([*commits_of(few.keys, 4), *half], [few, many], last=8), inputs())
    key = new.generations[0].keys["chunks"]
    chunks, words = by_range(new, "chunks", key), by_range(new, "chunk_terms", key)
    assert chunks.keys() == words.keys()
    assert f"chunks/{few.keys['chunks']}/00-" in chunks["00000000", bucket_range(1, 4)[0]].file
    assert len(chunks) == 7


def test_a_listing_is_filled_from_a_whole_one_alone() -> None:
    old = sharded_keys(settings(), TEXT, 4), sharded_keys(settings(), TEXT, 8)
    part = [*commits_of(old[1], 8, ["raw_documents"], [0, 1], day=1)]
    key = stage_keys(settings(), TEXT)["raw_documents"]
    whole = plan_ranges(catalog([*commits_of(old[0], 4, ["raw_documents"]), *part], last=8), inputs())
    assert len(by_range(whole, "raw_documents", key)) == 5
    lacking = plan_ranges(catalog([*commits_of(old[0], 4, ["raw_documents"], [1, 2, 3]), *part], last=8), inputs())
    assert len(by_range(lacking, "raw_documents", key)) == 2


def test_the_number_of_the_last_listing_comes_first_then_whole_then_new() -> None:
    def first_of(last: int | None, commits: list[tuple[int, list[int], int]]) -> str:
        rows = {
            count: recorded(number, settings(buckets=4), count // 4) for number, (count, _, _) in enumerate(commits, 1)
        }
        made = [
            one
            for count, numbers, day in commits
            for one in commits_of(rows[count].keys, count, numbers=numbers, day=day)
        ]
        new = plan_ranges(catalog(made, rows.values(), last=last), inputs())
        (row,) = covering(new.commits, "chunks", new.generations[0].keys["chunks"], "00000000")
        return next(str(count) for count, each in rows.items() if each.keys["chunks"] in row.file)

    assert first_of(8, [(8, [0], 0), (16, list(range(16)), 1)]) == "8"
    assert first_of(None, [(16, list(range(16)), 1), (4, [0], 0)]) == "4", "of the settings"
    assert first_of(32, [(8, list(range(8)), 0), (16, [0, 1], 1)]) == "8", "whole"
    assert first_of(32, [(8, list(range(8)), 0), (16, list(range(16)), 1)]) == "16", "new"


def test_one_of_several_tables_that_are_not_partitioned_stays() -> None:
    new, keys = half_way(0, 1)
    (links,) = by_range(new, "sentence_links", keys["sentence_links"]).values()
    many = recorded(2, settings(), 2)
    assert many.keys["sentence_links"] in links.file


def test_failures_follow_the_commit_that_covers_their_document() -> None:
    few, many = recorded(1, settings(), 1), recorded(2, settings(), 2)
    commits = [*commits_of(few.keys, 4), *commits_of(many.keys, 8, numbers=[0, 1, 2])]
    own = {bucket_of(doc_id, 8): doc_id for doc_id in DOCUMENTS}
    stage = "parsed_elements"
    failures = [
        (own[0], stage, few.keys[stage]), (own[1], stage, many.keys[stage]), (own[2], stage, few.keys[stage]),
        (own[2], stage, many.keys[stage]), (own[3], stage, few.keys[stage]), (own[3], stage, many.keys[stage]),
        (own[7], stage, few.keys[stage]),
    ]  # fmt: skip
    new = plan_ranges(catalog(commits, [few, many], failures, last=8), inputs())
    kept = [failure for failure in failures if failure not in {(one.doc_id, one.stage, one.key) for one in new.gone}]
    assert kept == [failures[1], failures[3], failures[4], failures[6]]
    assert new.keys == dict.fromkeys((few.keys[stage], many.keys[stage]), new.generations[0].keys[stage])


def test_one_is_left_of_several_failures_that_no_commit_covers() -> None:
    few, many = recorded(1, settings(), 1), recorded(2, settings(), 2)
    stage, doc_id = "parsed_elements", DOCUMENTS[-1]
    failures = [(doc_id, stage, few.keys[stage]), (doc_id, stage, many.keys[stage])]
    for commits in ([], [*commits_of(few.keys, 4, numbers=[0]), *commits_of(many.keys, 8, numbers=[0])]):
        new = plan_ranges(catalog(commits, [few, many], failures, last=8), inputs())
        assert len(new.gone) == 1
    assert new.gone[0].key == few.keys[stage]


COUNTS = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16])


@given(
    st.dictionaries(
        COUNTS, st.tuples(st.sets(st.integers(0, 15)), st.sets(st.integers(0, 15))), min_size=1, max_size=4
    ),
    COUNTS,
)
def test_each_document_has_one_commit_and_none_is_lost(
    layouts: dict[int, tuple[set[int], set[int]]], last: int
) -> None:
    """Whatever shards of whatever numbers were committed, with some of a stage's second table missing."""
    own = settings(buckets=1)
    rows = {count: recorded(at, own, count) for at, count in enumerate(layouts, 1)}
    made = [
        one
        for count, (lacking, second) in layouts.items()
        for one in commits_of(rows[count].keys, count, ["chunks", "sentences"], set(range(count)) - lacking, count)
        if one.table != "chunk_terms" or one.number not in second
    ]
    new = plan_ranges(catalog(made, rows.values(), last=last), inputs(own))
    keys, at = new.generations[0].keys, {(one.table, one.key, one.number) for one in made}
    for table, stage in (("chunks", "chunks"), ("chunk_terms", "chunks"), ("sentences", "sentences")):
        for doc_id in DOCUMENTS:
            found = covering(new.commits, table, keys[stage], doc_id)
            assert len(found) <= 1
            complete = {
                count
                for count, row in rows.items()
                if all((each, row.keys[stage], bucket_of(doc_id, count)) in at for each in STAGES[stage].tables)
            }
            if complete:
                (row,) = found
                if last in complete:
                    assert rows[last].keys[stage] in row.file and row.whole and row.input
    ends: defaultdict[str, set[tuple[str, str, str]]] = defaultdict(set)
    for row in new.commits:
        ends[row.table].add((row.first, row.after, row.file.split("/")[-2]))
    if len({one.key for one in made if one.table == "chunks"}) > 1:
        assert ends["chunks"] == ends["chunk_terms"]


def test_a_number_that_its_shards_do_not_have_is_left_out() -> None:
    row = recorded(1, settings())
    extra = [commit("chunks", row.keys["chunks"], 4), commit("indexed_documents", "g0001", 4, file="")]
    stray = [commit("indexed_documents", "g0002", 0, file=""), commit("unknown", "g0001", 0, file="")]
    new = plan_ranges(catalog([*commits_of(row.keys, 4), *extra, *stray], [row]), inputs())
    assert len(new.commits) == len(list(commits_of(row.keys, 4)))
    assert UNPARTITIONED == -1
