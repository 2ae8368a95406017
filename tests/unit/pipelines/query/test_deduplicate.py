"""The same passage counts once, and no different one is lost with it."""

from __future__ import annotations

from pipelines.query.results import Scored
from pipelines.query.retrieve import distinct
from tests.support.query_fakes import scored

LONG = "Employees are entitled to twenty-five days of paid leave in every calendar year, and to public holidays."


def kept(*ranked: Scored) -> list[str]:
    return [item.passage.chunk_id for item, _ in distinct(ranked).kept]


OTHERS = [scored("x", 0.5), scored("y", 0.4), scored("z", 0.3)]


def test_equal_texts_count_once_across_documents_and_are_reported() -> None:
    result = distinct([scored("a", 0.9, text=LONG), scored("b", 0.8, text=f"  {LONG.upper()} ", doc_id="other")]).kept
    assert [(item.passage.chunk_id, [twin.chunk_id for twin in twins]) for item, twins in result] == [("a", ["b"])]


def test_duplicates_in_one_document_are_shown_at_the_first_place() -> None:
    twice = [scored("later", 0.9, text=LONG, index=7), scored("first", 0.8, text=LONG, index=2)]
    ((item, twins),) = distinct(twice).kept
    assert (item.passage.chunk_id, item.score, [twin.chunk_id for twin in twins]) == ("first", 0.9, ["later"])
    other_heading = scored("first", 0.8, text=LONG, index=2, header_chain=("Plan B",))
    assert kept(scored("later", 0.9, text=LONG, index=7), other_heading) == ["later"]


def test_a_text_inside_a_better_one_goes_and_one_around_it_stands_behind() -> None:
    longer = f"Leave. {LONG} Ask your manager."
    assert kept(scored("a", 0.9, text=longer), scored("b", 0.8, text=LONG)) == ["a"]
    assert kept(scored("b", 0.9, text=LONG), scored("a", 0.8, text=longer), *OTHERS) == ["b", "x", "y", "a", "z"]


def test_containment_is_word_for_word() -> None:
    heading = ("Plan", "Copay")
    assert kept(
        scored("a", 0.9, text="Visit: $500", header_chain=heading),
        scored("b", 0.8, text="Visit: $50", header_chain=heading),
    ) == ["a", "b"]


def test_a_short_text_is_another_one_under_another_heading() -> None:
    row = "Visit: $20"
    assert kept(scored("a", 0.9, text=row, header_chain=("X",)), scored("b", 0.8, text=row, header_chain=("Y",))) == [
        "a",
        "b",
    ]
    assert kept(scored("a", 0.9, text=row, header_chain=("X",)), scored("b", 0.8, text=row, header_chain=("X",))) == [
        "a"
    ]


def test_a_chunk_shown_whole_by_the_overlap_of_a_better_one_goes() -> None:
    following = scored("b", 0.9, text="What comes next is new.", overlap=LONG, previous_id="a")
    assert kept(following, scored("a", 0.8, text=LONG, next_id="b")) == ["b"]


def test_a_chunk_mostly_shown_by_the_overlap_goes_and_one_with_text_of_its_own_stands_behind() -> None:
    following = scored("b", 0.9, text="What comes next is new.", overlap=LONG, previous_id="a")
    mostly = scored("a", 0.8, text=f"It is so. {LONG}", next_id="b")
    assert kept(following, mostly, *OTHERS) == ["b", "x", "y", "z"]
    partly = scored("a", 0.8, text=f"{'Much more before. ' * 9}{LONG}", next_id="b")
    assert kept(following, partly, *OTHERS) == ["b", "x", "y", "a", "z"]
    assert kept(following, partly) == ["b", "a"]


def test_a_chunk_whose_overlap_repeats_a_better_one_stands_behind() -> None:
    ranked = [
        scored("a", 0.9, text=f"{'Much more before. ' * 9}{LONG}", next_id="b"),
        scored("b", 0.8, text="What comes next is new.", overlap=LONG, previous_id="a"),
    ]
    assert kept(*ranked, *OTHERS) == ["a", "x", "y", "b", "z"]


def test_neighbours_without_overlap_and_overlap_of_another_text_both_stay() -> None:
    first = scored("a", 0.9, text=LONG, next_id="b")
    assert kept(first, scored("b", 0.8, text="What comes next.", previous_id="a")) == ["a", "b"]
    assert kept(first, scored("b", 0.8, text="What comes next.", previous_id="a", overlap="Other.")) == ["a", "b"]
    apart = scored("a", 0.9, text=LONG)
    assert kept(apart, scored("b", 0.8, text="What comes next.", previous_id="z", overlap="holidays.")) == ["a", "b"]


def test_every_second_passage_of_an_overlapping_chain_keeps_its_place() -> None:
    words = [f"{number} is told here at some length" for number in ("one", "two", "three", "four")]
    chain = [
        scored(str(at), 1 - at / 10, text=word, overlap=words[at - 1][4:] if at else "", previous_id=str(at - 1))
        for at, word in enumerate(words)
    ]
    assert kept(*chain, *OTHERS) == ["0", "2", "x", "1", "3", "y", "z"]
