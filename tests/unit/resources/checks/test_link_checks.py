"""The checks of the links between sentences, silent about what is right, each with its code about what is not; the same
however many links are looked at together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.checks.stages import ENDS, LINKS, NEIGHBOURS, over_budget, related_problems

SENTENCES = [(f"s{number}", f"c{number // 4}") for number in range(24)]
CHUNK = dict(SENTENCES)
Link = tuple[str, str, float]


def link(source: int, target: int, similarity: float = 0.95) -> Link:
    return f"s{source}", f"s{target}", similarity


SOUND = [link(number, (number + step) % 24) for number in range(24) for step in (12, 11)]


def table(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> pa.Table:
    types = [pa.float64() if name == "similarity" else pa.string() for name in names]
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(types)]
    return pa.table(columns, names=list(names))


def pieces(rows: Sequence[tuple[Any, ...]], names: Sequence[str], size: int = 7) -> Iterator[pa.Table]:
    return (table(rows[at : at + size], names) for at in range(0, len(rows), size))


def problems(links: Sequence[Link], most: int = 2, part: int = 1000) -> list[tuple[str, str]]:
    return related_problems(lambda: pieces(links, LINKS), lambda: pieces(SENTENCES, ENDS), len(links), most, 0.9, part)


def codes(links: Sequence[Link], most: int = 2) -> set[str]:
    return {code for code, _ in problems(links, most)}


def test_sound_links_have_no_problem() -> None:
    assert len(SOUND) == 48
    assert problems(SOUND) == problems([]) == problems([link(0, 12, 0.9)]) == []
    assert problems(SOUND, part=5) == []


@pytest.mark.parametrize(
    ("added", "code"),
    [
        (("nobody", "s0", 0.95), "link_without_sentence"),
        (("s0", "nobody", 0.95), "link_without_sentence"),
        (link(0, 1), "link_within_chunk"),
        (link(3, 3), "link_within_chunk"),
        (link(0, 12), "link_twice"),
        (link(0, 14, 0.89), "weak_link"),
        (link(0, 14, np.nan), "weak_link"),
        (link(0, 14), "links_of_sentence"),
    ],
)
def test_a_link_that_should_not_be_is_told(added: Link, code: str) -> None:
    assert code in codes([*SOUND, added])


def test_fewer_may_be_allowed() -> None:
    assert problems(SOUND, most=1) == [("links_of_sentence", "sentences have more than 1 links: 24, such as s0")]


def test_problems_count_and_name_the_first() -> None:
    assert problems([*SOUND, link(5, 99), link(0, 1), link(99, 98)]) == [
        ("link_without_sentence", "links have an end that is no sentence: 2, such as s5 -> s99"),
        ("link_within_chunk", "links lie within a chunk: 1, such as s0 -> s1"),
        ("links_of_sentence", "sentences have more than 2 links: 1, such as s0"),
    ]


def test_missing_link_ends_and_weights_are_reported() -> None:
    rows: list[tuple[Any, ...]] = [("s0", None, 0.95), ("s1", "s12", None), (None, None, 0.95)]
    found = related_problems(lambda: pieces(rows, LINKS), lambda: pieces(SENTENCES, ENDS), len(rows), 2, 0.9)
    assert found == [
        ("link_without_sentence", "links have an end that is no sentence: 2, such as s0 -> None"),
        ("weak_link", "links are weaker than 0.9: 1, such as s1 -> s12"),
    ]


def expected(links: Sequence[Link], most: int) -> dict[str, tuple[int, str]]:
    """By code how many and the first, link by link."""
    found: dict[str, list[str]] = {}
    seen, of = set[tuple[str, str]](), Counter(one[0] for one in links if one[0] in CHUNK and one[1] in CHUNK)
    for source, target, similarity in links:
        name, known = f"{source} -> {target}", source in CHUNK and target in CHUNK
        if not known:
            found.setdefault("link_without_sentence", []).append(name)
        elif CHUNK[source] == CHUNK[target]:
            found.setdefault("link_within_chunk", []).append(name)
        if known and (source, target) in seen:
            found.setdefault("link_twice", []).append(name)
        if not similarity >= 0.9:
            found.setdefault("weak_link", []).append(name)
        if known and of.pop(source, 0) > most:
            found.setdefault("links_of_sentence", []).append(source)
        seen.add((source, target))
    return {code: (len(names), names[0]) for code, names in found.items()}


ENDPOINT = st.integers(0, 26)
ANY_LINKS = st.lists(st.builds(link, ENDPOINT, ENDPOINT, st.sampled_from([0.95, 0.89, np.nan])), max_size=60)


@given(st.one_of(ANY_LINKS, ANY_LINKS.map(lambda found: [*SOUND, *found])), st.integers(0, 3), st.integers(1, 70))
def test_the_same_is_told_link_by_link_and_by_parts_of_any_size(links: list[Link], most: int, part: int) -> None:
    told = {}
    for code, message in problems(links, most, part):
        count, _, example = message.partition(": ")[2].partition(", such as ")
        told[code] = (int(count), example)
    assert told == expected(links, most)


def test_each_sentence_may_have_two_links_on_the_mean() -> None:
    chain = [(None, "s1"), *((f"s{at - 1}", f"s{at + 1}") for at in range(1, 23)), ("s22", None)]
    assert over_budget(48, 24, lambda: pieces(chain, NEIGHBOURS)) == []
    (problem,) = over_budget(49, 24, lambda: pieces(chain, NEIGHBOURS))
    assert problem == ("link_budget", f"49 links and {49 + 24 + 46} edges in all are too many for 24 sentences")
