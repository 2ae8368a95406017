from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexing import sentence_links as module
from pipelines.indexing.sentence_links import STEP, Links, floor_for, links_over, sentence_links
from pipelines.settings.base import SentenceSettings
from tests.support.brute_links import brute_force, exact_cosines, unit


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 30), st.floats(0.3, 0.95), st.integers(0, 2))
def test_links_are_those_of_brute_force(seed: int, count: int, floor: float, most: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = unit(generator.normal(size=(count, 3)))[generator.integers(0, count, count)]
    ids = [f"{value:04d}" for value in generator.permutation(count)]
    chunks = [f"c{number % 5}" for number in range(count)]
    with mock.patch.object(module, "BLOCK", 7):
        links = links_over(floor, ids, chunks, vectors, most).links
    assert links == brute_force(ids, chunks, vectors, floor, most)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(0, 40), st.floats(0.3, 0.99), st.integers(0, 2))
def test_any_links_satisfy_the_invariants(seed: int, count: int, floor: float, most: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = unit(generator.normal(size=(max(count, 1), 3)))[generator.integers(0, max(count, 1), count)]
    ids = [f"{value:04d}" for value in generator.permutation(count)]
    chunk_of = {name: f"c{number % 5}" for number, name in enumerate(ids)}
    links, compared, used = sentence_links(ids, list(chunk_of.values()), vectors, floor, most)
    assert used in (floor, round(floor - STEP, 6)) and compared == (count if most else 0)
    targets: dict[str, list[tuple[float, str]]] = {}
    for link in links:
        assert chunk_of[link.source_id] != chunk_of[link.target_id], "also a sentence and itself"
        assert used <= link.similarity <= 1
        targets.setdefault(link.source_id, []).append((-link.similarity, link.target_id))
    assert list(targets) == sorted(targets)
    for found in targets.values():
        assert len(found) <= most and found == sorted(set(found)), "the strongest first, ties by id, none twice"
    assert used == floor or not brute_force(ids, list(chunk_of.values()), vectors, floor, most)
    assert used == floor or links == brute_force(ids, list(chunk_of.values()), vectors, used, most)


def test_cosines_are_exact_at_the_size_of_a_model() -> None:
    generator = np.random.default_rng(8)
    vectors = unit(np.repeat(generator.normal(size=(50, 384)), 20, axis=0) + generator.normal(0, 0.2, (1000, 384)))
    ids, chunks = [f"{n:03d}" for n in generator.permutation(1000)], [str(n) for n in range(1000)]
    assert sentence_links(ids, chunks, vectors, 0.9, 2).links == brute_force(ids, chunks, vectors, 0.9, 2)


# ---------------------------------------------------------------- updates

KINDS = 4
NOISE = (0.0, 2e-7, 1e-5, 1e-4, 1e-3, 0.03, 0.2)
"""Of texts that are the same, that differ in the last bits, that are nearly the same, and that are alike."""


def _pool() -> np.ndarray:
    generator = np.random.default_rng(5)
    centres = generator.normal(size=(KINDS, 1, 48))
    noise = generator.normal(size=(KINDS, len(NOISE), 48)) * np.array(NOISE)[None, :, None]
    return unit((centres + noise).reshape(-1, 48))


POOL = _pool()
FLOORS = [cosine for cosine in np.unique(exact_cosines(POOL)).tolist() if 0.5 < cosine < 1]
"""The cosines that there are, so that some pair always lies right at the floor."""

Sentence = tuple[str, int]
"""Its chunk, and its vector's place in the pool."""
IDS = st.integers(0, 59).map("{:02d}".format)
SENTENCES = st.tuples(st.integers(0, 6).map(str), st.integers(0, len(POOL) - 1))
WORLDS = st.dictionaries(IDS, SENTENCES, max_size=60)
CHANGES = st.dictionaries(IDS, st.none() | SENTENCES, max_size=12)
"""What becomes of some sentences: gone, new, with another vector, or in another chunk."""


def made(world: Mapping[str, Sentence], floor: float, most: int, block: int, **before: Any) -> Links:
    ids = list(world)
    vectors = POOL[[world[name][1] for name in ids]].reshape(-1, POOL.shape[1])
    with mock.patch.object(module, "BLOCK", block):
        return sentence_links(ids, [world[name][0] for name in ids], vectors, floor, most, **before)


@settings(max_examples=80)
@given(
    WORLDS,
    st.lists(CHANGES, min_size=1, max_size=4),
    st.sampled_from(FLOORS) | st.just(0.9),
    st.integers(1, 2),
    st.tuples(st.sampled_from([1, 3, 8, 64]), st.sampled_from([5, 64])),
)
def test_an_update_gives_what_a_rebuild_gives(
    world: dict[str, Sentence],
    steps: list[dict[str, Sentence | None]],
    floor: float,
    most: int,
    blocks: tuple[int, int],
) -> None:
    links = made(world, floor, most, blocks[0]).links
    for changes in steps:
        after = {name: value for name, value in {**world, **changes}.items() if value is not None}
        known = {name for name in after if world.get(name) == after[name]}
        updated = made(after, floor, most, blocks[0], before=links, known=known)
        rebuilt = made(after, floor, most, blocks[1])
        assert (updated.links, updated.floor) == (rebuilt.links, rebuilt.floor)
        assert rebuilt.compared == len(after)
        world, links = after, updated.links


def test_only_what_a_change_touches_is_compared() -> None:
    """Four alike in chunks of their own, of which each has two; two alike, of which each has one; one alone."""
    world = {name: (name, 0) for name in "abcd"} | {"e": ("e", 7), "f": ("f", 7), "g": ("g", 14)}
    links = made(world, 0.9, 2, 3).links
    assert len(links) == 10
    with_e = {name: value for name, value in world.items() if name != "a"}
    without = made(with_e, 0.9, 2, 3, before=links, known=set(with_e))
    assert without.compared == 3, "b, c and d had two targets, and one of them is gone"
    assert [link.target_id for link in without.links] == ["c", "d", "b", "d", "b", "c", "f", "e"]
    pair = {name: value for name, value in world.items() if name != "f"}
    assert made(pair, 0.9, 2, 3, before=links, known=set(pair)).compared == 0, "e had fewer than it may"
    added = made(world, 0.9, 2, 3, before=without.links, known=set(with_e))
    assert (added.compared, added.links) == (1, links)


# ---------------------------------------------------------------- blocks, ties, memory


@pytest.mark.parametrize("dimension", [3, 384])
def test_blocks_change_nothing(dimension: int) -> None:
    generator = np.random.default_rng(3)
    vectors = unit(
        np.repeat(generator.normal(size=(5, dimension)), 20, axis=0) + generator.normal(0, 3e-4, (100, dimension))
    )
    ids, chunks = [f"{n:03d}" for n in generator.permutation(100)], [str(n % 7) for n in range(100)]
    whole = sentence_links(ids, chunks, vectors, 0.9, 2)
    for block in (1, 7, 64):
        with mock.patch.object(module, "BLOCK", block):
            assert sentence_links(ids, chunks, vectors, 0.9, 2) == whole
    assert len(whole.links) == 200


def test_ties_fall_to_the_smaller_id_and_none_links_within_its_chunk() -> None:
    vectors = unit(np.ones((4, 2)))
    links = sentence_links(["d", "b", "a", "c"], ["1", "2", "3", "1"], vectors, 0.9, most=1).links
    assert [(link.source_id, link.target_id) for link in links] == [("a", "b"), ("b", "a"), ("c", "a"), ("d", "a")]


@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_boilerplate_in_thousands_of_sentences_costs_no_more_memory(noise: float) -> None:
    count = 3000
    vectors = unit(np.ones((count, 16)) + np.random.default_rng(2).normal(0, noise, (count, 16)))
    ids, chunks = [f"{n:04d}" for n in range(count)], [str(n // 2) for n in range(count)]
    with mock.patch.object(module, "BLOCK", 100):
        tracemalloc.start()
        links = sentence_links(ids, chunks, vectors, 0.9, 2).links
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert len(links) == 2 * count
    assert [link.target_id for link in links if link.source_id == "0001"] == ["0002", "0003"]
    assert peak < 5_000_000, "all pairs are 36 MB in single precision, one block against all 1.2 MB"


def test_progress_ends_where_all_is_compared() -> None:
    told: list[tuple[int, int]] = []
    with mock.patch.object(module, "BLOCK", 4):
        ids = [str(number) for number in range(10)]
        sentence_links(ids, ids, POOL[:10], 0.9, 2, progress=lambda *done: told.append(done))
    assert told == [(4, 10), (8, 10), (10, 10)]


def test_no_sentences() -> None:
    assert sentence_links([], [], np.zeros((0, 3), dtype=np.float32), 0.9, 2) == ([], 0, 0.85)


# ---------------------------------------------------------------- the two floors


def fan(*degrees: float) -> np.ndarray:
    """Vectors of two dimensions by their angles; the cosine of 25.8 degrees is 0.90, of 31.8 it is 0.85."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("cosine", "floor", "count"), [(0.9001, 0.9, 2), (0.8999, 0.85, 2), (0.8501, 0.85, 2), (0.8499, 0.85, 0)]
)
def test_the_floor_is_lowered_once_where_no_pair_reaches_it(cosine: float, floor: float, count: int) -> None:
    links = sentence_links(["a", "b"], ["1", "2"], fan(0, np.degrees(np.arccos(cosine))), 0.9, 2)
    assert (links.floor, len(links.links)) == (floor, count)


def test_one_pair_over_the_floor_keeps_the_weaker_ones_away() -> None:
    """Of four in a row the first two are nearest; where their link comes or goes, so do all others."""
    vectors = fan(0, 20, 47, 75)
    assert [link.target_id for link in sentence_links(list("abcd"), list("1234"), vectors, 0.9, 2).links] == ["b", "a"]
    known = {"b", "c", "d"}
    before = sentence_links(list("abcd"), list("1234"), vectors, 0.9, 2).links
    without = sentence_links(list("bcd"), list("234"), vectors[1:], 0.9, 2, before=before, known=known)
    assert (without.floor, without.compared) == (0.85, 3) and len(without.links) == 4
    again = sentence_links(list("abcd"), list("1234"), vectors, 0.9, 2, before=without.links, known=known)
    assert (again.floor, again.links, again.compared) == (0.9, before, 1)


def test_default_links_need_a_cosine_of_nine_tenths_and_a_sentence_has_two() -> None:
    floor, most = floor_for(SentenceSettings(), "any"), SentenceSettings().related_most
    near = sentence_links(list("abcd"), list("1234"), fan(0, 20, 47, 75), floor, most).links
    assert [(link.source_id, link.target_id) for link in near] == [("a", "b"), ("b", "a")]
    alike = sentence_links(list("abcde"), list("12345"), fan(0, 1, 2, 3, 4), floor, most).links
    assert [link.source_id for link in alike] == list("aabbccddee")


def test_an_update_under_the_lower_floor_compares_what_changed() -> None:
    vectors = fan(0, 28, 57, 88)
    before = sentence_links(list("abc"), list("123"), vectors[:3], 0.9, 2)
    assert (before.floor, before.compared, len(before.links)) == (0.85, 3, 4)
    after = sentence_links(list("abcd"), list("1234"), vectors, 0.9, 2, before=before.links, known=set("abc"))
    assert (after.floor, after.compared) == (0.85, 1)
    assert after.links == sentence_links(list("abcd"), list("1234"), vectors, 0.9, 2).links


def test_updates_that_cross_from_one_floor_to_the_other_give_what_a_rebuild_gives() -> None:
    """Sentences come, go, change and move between chunks; few at a time, so that often no pair reaches the floor."""
    generator, crossings = np.random.default_rng(9), {0.9: 0, 0.85: 0}
    vectors = fan(*generator.integers(0, 36, 24) * 14.5, *range(0, 360, 30))
    world: dict[str, Sentence] = {}
    before = Links([], 0, 0.9)
    for _ in range(600):
        after = dict(world)
        for name in generator.choice(list("abcdefghij"), 2, replace=False).tolist():
            if generator.random() < 0.5:
                after.pop(name, None)
            else:
                after[name] = (str(generator.integers(0, 4)), int(generator.integers(0, len(vectors))))
        ids, chunks = list(after), [chunk for chunk, _ in after.values()]
        rows = vectors[[row for _, row in after.values()]].reshape(-1, 2)
        known = {name for name in ids if world.get(name) == after[name]}
        updated = sentence_links(ids, chunks, rows, 0.9, 2, before=before.links, known=known)
        rebuilt = sentence_links(ids, chunks, rows, 0.9, 2)
        assert (updated.links, updated.floor) == (rebuilt.links, rebuilt.floor)
        crossings[updated.floor] += bool(before.links and updated.links and before.floor != updated.floor)
        world, before = after, updated
    assert min(crossings.values()) > 10


def test_the_floor_is_that_of_the_embedder_where_it_has_one() -> None:
    own = SentenceSettings(related_floor=0.8, related_floors={"a model": 0.97})
    assert (floor_for(own, "a model"), floor_for(own, "another")) == (0.97, 0.8)
    fast = own.model_copy(update={"embedded": "fast", "fast_floors": {"a model": 0.9}})
    assert (floor_for(fast, "a model"), floor_for(fast, "another")) == (0.9, 0.8)
