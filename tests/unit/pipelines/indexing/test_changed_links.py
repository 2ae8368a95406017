"""Links after a change, with the vectors of all other sentences a piece at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexing import changed_links as module
from pipelines.indexing.changed_links import LinkColumns, Neighbours, PreviousLinks
from pipelines.indexing.sentence_links import links_over
from pipelines.records import SentenceLink
from tests.unit.pipelines.indexing.test_sentence_links import CHANGES, FLOORS, POOL, WORLDS, Sentence


def column(values: Sequence[str]) -> np.ndarray:
    return np.array([value.encode() for value in values] or [], "S")


def columns(links: Sequence[SentenceLink]) -> LinkColumns:
    sources, targets = [link.source_id for link in links], [link.target_id for link in links]
    return LinkColumns(column(sources), column(targets), np.array([link.similarity for link in links]))


def records(links: LinkColumns) -> list[SentenceLink]:
    rows = zip(*(column.tolist() for column in links), strict=True)
    return [SentenceLink(source.decode(), target.decode(), cosine) for source, target, cosine in rows]


def rebuilt(world: Mapping[str, Sentence], floor: float, most: int) -> list[SentenceLink]:
    vectors = POOL[[value[1] for value in world.values()]].reshape(-1, POOL.shape[1])
    return links_over(floor, list(world), [value[0] for value in world.values()], vectors, most).links


def arrays(world: Mapping[str, Sentence], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return column(names), column([world[name][0] for name in names]), POOL[[world[name][1] for name in names]]


def updated(
    before: list[SentenceLink], world: Mapping[str, Sentence], known: set[str], floor: float, most: int, piece: int
) -> tuple[list[SentenceLink], int]:
    """Links, and how many sentences were asked; known sentences are seen, and all compared, `piece` at a time."""
    names, standing = list(world), PreviousLinks(columns(before), most)
    pieces = [names[at : at + piece] for at in range(0, len(names), piece)]
    for some in pieces:
        standing.see(arrays(world, [name for name in some if name in known])[0])
    held, lost = standing.held_links()
    fresh = [name for name in names if name not in known]
    asked = [*fresh, *(name.decode() for name in lost)]
    if not asked:
        return records(held), 0
    search = Neighbours(*arrays(world, asked), len(fresh), held, most, floor)
    for some in pieces:
        search.compare(*arrays(world, some))
    return records(search.links()), len(asked)


@settings(max_examples=100)
@given(
    WORLDS,
    st.lists(CHANGES, min_size=1, max_size=4),
    st.sampled_from(FLOORS) | st.just(0.9),
    st.integers(1, 2),
    st.sampled_from([1, 3, 64]),
    st.sampled_from([2, 7, 64]),
)
def test_an_update_by_pieces_gives_what_a_rebuild_gives(
    world: dict[str, Sentence],
    steps: list[dict[str, Sentence | None]],
    floor: float,
    most: int,
    block: int,
    piece: int,
) -> None:
    links = rebuilt(world, floor, most)
    for changes in steps:
        after = {name: value for name, value in {**world, **changes}.items() if value is not None}
        known = {name for name in after if world.get(name) == after[name]}
        with mock.patch.object(module, "BLOCK", block):
            found, _ = updated(links, after, known, floor, most, piece)
        assert found == rebuilt(after, floor, most)
        world, links = after, found


def test_only_what_lost_a_neighbour_and_may_have_another_is_asked_again() -> None:
    """Four alike in chunks of their own, of which each has two; two alike, of which each has one."""
    world = {name: (name, 0) for name in "abcd"} | {"e": ("e", 7), "f": ("f", 7)}
    links = rebuilt(world, 0.9, 2)
    without_a = {name: value for name, value in world.items() if name != "a"}
    assert updated(links, without_a, set(without_a), 0.9, 2, 2)[1] == 3
    without_f = {name: value for name, value in world.items() if name != "f"}
    found, asked = updated(links, without_f, set(without_f), 0.9, 2, 2)
    assert (found, asked) == (rebuilt(without_f, 0.9, 2), 0)


@pytest.mark.parametrize("width", [1, 5])
def test_ids_of_other_lengths_than_before_are_kept_whole(width: int) -> None:
    first = {f"{number:0{width}d}": (str(number), 0) for number in range(3)}
    then = {**first, "9999999": ("9", 0)}
    assert updated(rebuilt(first, 0.9, 2), then, set(first), 0.9, 2, 3)[0] == rebuilt(then, 0.9, 2)
