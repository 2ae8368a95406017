"""Anchors, expansion and selection over sentences in memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pipelines.ports import FoundSentence
from pipelines.query.results import Hit, hit_json
from pipelines.query.retrieve import Retrieved, retrieve
from pipelines.query.sentence_route import crowding_losses
from pipelines.settings.query import QuerySettings, SentenceRouteSettings
from tests.support.query_fakes import passage
from tests.support.sentence_fakes import BOX, SentenceIndex, sentence
from tests.support.tool_fakes import lengths, tools

TOOLS = tools(embed_queries=lengths)


def asked(index: SentenceIndex, k: int = 10, candidates: int = 20, question: str = "zebra", **route: Any) -> Retrieved:
    settings = QuerySettings(candidates=candidates, sentence=SentenceRouteSettings(**route))
    return retrieve(question, index, TOOLS, settings, k=k, strategy="sentence")


def hits(index: SentenceIndex, k: int = 10, **values: Any) -> list[Hit]:
    return asked(index, k, **values).hits


def places(found: list[Hit]) -> list[str]:
    return [hit.passage.reached.paragraph_id for hit in found if hit.passage.reached]


def document(doc_id: str, *scores: float, **values: Any) -> list[FoundSentence]:
    """Sentences that follow each other, each a paragraph of one chunk."""
    return [
        sentence(f"{doc_id}{at}", score, doc_id=doc_id, index=at, chunk_id=f"c-{doc_id}", **values)
        for at, score in enumerate(scores)
    ]


def library(count: int, seed: int) -> list[FoundSentence]:
    """Documents of chunks of paragraphs of sentences, of any source and nearness."""
    chance = random.Random(seed)
    return [
        sentence(
            f"s{at:03d}", chance.random(), doc_id=f"d{at // 12}", index=at % 12, chunk_id=f"c{at // 4}",
            paragraph_id=f"p{at // 2}", source=chance.choice(["paragraph", "list_item", "table_row"]),
        )
        for at in range(count)
    ]  # fmt: skip


# ---------------------------------------------------------------- anchors


def test_a_hit_is_the_anchors_paragraph_and_names_the_anchor_with_page_and_boxes() -> None:
    near = sentence("near", 0.9, text="The zebra grazes.", chunk_id="c", paragraph_id="p", doc_id="d")
    beside = sentence("beside", 0.1, text="It sleeps.", chunk_id="c", paragraph_id="p", doc_id="d", index=1)
    (hit,) = hits(SentenceIndex([near, beside]), anchors=1)
    assert hit.passage.text == "The zebra grazes. It sleeps."
    shown = hit_json(hit)["paragraph"]
    assert (shown["id"], shown["edge"], shown["via"], shown["similarity"]) == ("p", "anchor", None, None)
    (anchor,) = shown["anchors"]
    assert anchor == {
        "sentence_id": "near", "text": "The zebra grazes.", "source": "paragraph", "page": 3, "score": 0.9,
        "boxes": [{"page": 3, "x0": 1, "y0": 2, "x1": 3, "y1": 4}],
    }  # fmt: skip


def test_other_routes_have_no_paragraph() -> None:
    assert hit_json(Hit(1, 1.0, {}, passage("c")))["paragraph"] is None


def test_repeated_boilerplate_counts_once() -> None:
    repeats = [
        sentence(f"r{at}", 0.9, text="All rights  reserved." if at else "all rights reserved.", doc_id=f"r{at}")
        for at in range(3)
    ]
    beside = [
        sentence(
            f"b{at}", 0.0, text=f"Of file {at}.", doc_id=f"r{at}", index=1, chunk_id=f"c-r{at}", paragraph_id=f"p-r{at}"
        )
        for at in range(3)
    ]
    contained, other = sentence("part", 0.8, text="rights reserved."), sentence("other", 0.1, text="Zebras graze.")
    index = SentenceIndex(
        [*repeats, *beside, contained, other, sentence("far", 0.0)],
        links={("other", "far"): 0.95, ("part", "far"): 0.5},
    )
    found = {hit.passage.reached.paragraph_id: hit for hit in hits(index, anchors=2, question="lion")}  # type: ignore[union-attr]
    assert found["p-r0"].scores["sentence.density"] > found["p-other"].scores["sentence.density"]
    assert [found[f"p-r{at}"].scores["sentence.density"] for at in (1, 2)] == [0, 0]
    reached = found["p-far"].passage.reached
    assert reached is not None and (reached.edge, reached.via) == ("related", "other")


def test_sentences_below_the_least_confidence_are_not_ranked() -> None:
    index = SentenceIndex([sentence("sure", 0.5), sentence("unsure", 0.9)], confidence={"unsure": 0.4})
    assert places(hits(index)) == ["p-sure"]
    assert places(hits(index, least_confidence=0.4)) == ["p-unsure", "p-sure"]


def test_words_of_a_chunk_bring_its_sentences_among_the_anchors() -> None:
    near = [sentence(f"n{at:03d}", 0.5 - at / 1000) for at in range(120)]
    far = sentence("far", 0.01, chunk_id="said")
    assert "p-far" not in places(hits(SentenceIndex([*near, far])))
    assert "p-far" in places(hits(SentenceIndex([*near, far], bm25={"said": 9.0, "c-n119": 1.0})))[:2]


def test_a_sentence_that_only_announces_comes_after_what_it_announces() -> None:
    index = SentenceIndex(document("d", 0.9, 0.8, 0.1))
    assert places(hits(index))[0] == "p-d0"
    lead_in = [sentence("d0", 0.9, doc_id="d", text="What is a zebra?"), *document("d", 0.9, 0.8, 0.1)[1:]]
    assert places(hits(SentenceIndex(lead_in), keywords=0))[0] == "p-d1"


# ---------------------------------------------------------------- expansion


def test_edges_are_followed_by_priority_and_named() -> None:
    chain = document("d", 0.1, 0.1, 0.9, 0.1, 0.1, 0.1)
    index = SentenceIndex([*chain, sentence("like", 0.1)], links={("d2", "like"): 0.93, ("d2", "d3"): 0.97})
    reached = {item.paragraph_id: item for hit in hits(index, anchors=1) if (item := hit.passage.reached) is not None}
    assert {key: item.edge for key, item in reached.items()} == {
        "p-d2": "anchor", "p-d3": "next", "p-d4": "next", "p-d1": "previous", "p-d0": "previous",
        "p-like": "related", "p-d5": "anchor",
    }  # fmt: skip
    assert (reached["p-like"].via, reached["p-like"].similarity, reached["p-like"].anchors) == ("d2", 0.93, ())
    assert (reached["p-d3"].via, reached["p-d3"].similarity) == ("d2", None)


def test_an_edge_reaches_what_no_walk_found() -> None:
    near = [sentence(f"n{at:03d}", 0.9 - at / 1000) for at in range(30)]
    far = sentence("far", 0.0, text="Of zebra and zebra.")
    index = SentenceIndex([*near, far], links={("n000", "far"): 0.95})
    assert "p-far" in places(hits(index, k=2, candidates=2))


def test_nothing_hidden_is_reached() -> None:
    index = SentenceIndex(
        [*document("d", 0.9, 0.1), sentence("secret", 0.8)], links={("d0", "secret"): 0.99}, hidden=("d-secret",)
    )
    assert places(hits(index)) == ["p-d0", "p-d1"]


# ---------------------------------------------------------------- selection


def test_every_factor_is_reported_and_they_add_up() -> None:
    for hit in hits(SentenceIndex(library(60, 1)), coherence=7, mixing=3):
        parts = ("density", "keywords", "coherence", "crowding", "mixing")
        assert hit.scores["sentence"] == pytest.approx(sum(hit.scores[f"sentence.{part}"] for part in parts))
        assert hit.score == hit.scores["sentence"]
        assert {"sentence.dense", "sentence.lexical"} <= set(hit.scores)


def test_words_of_the_question_add_their_share() -> None:
    index = SentenceIndex([sentence("a", 0.5, text="The zebra grazes."), sentence("b", 0.5, text="The lion sleeps.")])
    first, second = hits(index, keywords=10, question="zebra herd")
    assert first.passage.text == "The zebra grazes."
    assert 0 < first.scores["sentence.keywords"] < 10
    assert second.scores["sentence.keywords"] == 0


def test_a_paragraph_of_several_near_sentences_comes_before_one_with_a_single_near_one() -> None:
    def two(name: str, second: float) -> list[FoundSentence]:
        own = {"doc_id": f"d-{name}", "chunk_id": f"c-{name}", "paragraph_id": f"p-{name}"}
        return [sentence(f"{name}0", 0.9, **own), sentence(f"{name}1", second, index=1, **own)]

    first, second = hits(SentenceIndex([*two("alone", 0.1), *two("together", 0.8)]))
    assert places([first, second]) == ["p-together", "p-alone"]
    assert first.scores["sentence.dense"] == second.scores["sentence.dense"] == 0.9


def test_coherence_counts_several_anchors_in_a_paragraph_and_anchors_that_follow_each_other() -> None:
    def three(name: str, *indexes: int) -> list[FoundSentence]:
        own = {"doc_id": f"d-{name}", "chunk_id": f"c-{name}", "paragraph_id": f"p-{name}"}
        return [sentence(f"{name}{at}", 0.9, index=at, **own) for at in indexes]

    beside = document("e", 0.9, 0.9, 0.1)
    index = SentenceIndex([*three("apart", 0, 2), *three("following", 0, 1), *three("alone", 0), *beside])
    found = {hit.passage.reached.paragraph_id: hit for hit in hits(index, anchors=7, coherence=10)}  # type: ignore[union-attr]
    assert {key: hit.scores["sentence.coherence"] for key, hit in found.items()} == {
        "p-following": 20, "p-apart": 10, "p-e0": 10, "p-e1": 10, "p-alone": 0, "p-e2": 0,
    }  # fmt: skip
    assert places(list(found.values()))[0] == "p-following"
    assert {hit.scores["sentence.coherence"] for hit in hits(index, anchors=7)} == {0}


def test_a_sentence_that_is_no_anchor_makes_nothing_coherent() -> None:
    index = SentenceIndex(document("d", 0.9, 0.8, 0.7))
    assert {hit.scores["sentence.coherence"] for hit in hits(index, anchors=1, coherence=10)} == {0}


def test_paragraphs_of_another_kind_of_source_than_the_best_lose_the_penalty() -> None:
    kinds = {"a": "table_row", "b": "paragraph", "c": "table_row", "d": "paragraph"}
    index = SentenceIndex([sentence(key, 0.9 - at / 50, source=kinds[key]) for at, key in enumerate(kinds)])
    assert places(hits(index)) == ["p-a", "p-b", "p-c", "p-d"]
    found = hits(index, mixing=70)
    assert places(found) == ["p-a", "p-c", "p-b", "p-d"]
    assert [hit.scores["sentence.mixing"] for hit in found] == [0, 0, -70, -70]
    assert [hit.rank for hit in found] == [hit.ranks["sentence"] for hit in found] == [1, 2, 3, 4]


def test_better_paragraphs_of_the_same_chunk_take_from_the_next() -> None:
    assert crowding_losses({("c", "a"): 90.0, ("c", "b"): 80.0, ("d", "a"): 70.0}, 20) == {
        ("c", "a"): 0, ("d", "a"): 0, ("c", "b"): 20,
    }  # fmt: skip
    assert list(crowding_losses({("c", "a"): 90.0, ("c", "b"): 80.0, ("d", "a"): 70.0}, 20)) == [
        ("c", "a"), ("d", "a"), ("c", "b"),
    ]  # fmt: skip


def test_untraceable_sentences_are_omitted_with_a_note() -> None:
    lost = [sentence("pageless", 0.9, page=None), sentence("strange", 0.9, source="rumour")]
    fine = [sentence("found", 0.5), sentence("markdown", 0.4, page=None, paged=False)]
    result = asked(SentenceIndex([*lost, *fine]))
    assert places(result.hits) == ["p-found", "p-markdown"]
    assert [note for note in result.notes if "page or kind of source" in note]
    assert not asked(SentenceIndex(fine)).notes


# ---------------------------------------------------------------- what always holds


@pytest.mark.parametrize("seed", range(8))
def test_properties(seed: int) -> None:
    known = library(96, seed)
    links = {(f"s{at:03d}", f"s{(at * 7 + 13) % 96:03d}"): 0.9 for at in range(0, 96, 3)}
    words = {f"c{at}": float(at) for at in range(0, 24, 5)}
    index = SentenceIndex(known, links=links, bm25=words)
    for k in (1, 5, 20, 48, 60):
        found = hits(index, k=k, candidates=3, per_document=2, coherence=20, mixing=10)
        assert len(found) == min(k, 48)
        assert len(set(places(found))) == len(found)
        by_document: dict[str, int] = {}
        for hit in found:
            reached = hit.passage.reached
            assert reached is not None and hit.passage.page_start is not None
            assert reached.anchors or reached.via
            assert all(anchor.page and anchor.boxes == (BOX,) and anchor.source for anchor in reached.anchors)
            by_document[hit.passage.doc_id] = by_document.get(hit.passage.doc_id, 0) + 1
            others = {item.doc_id for item in known} - by_document.keys()
            assert by_document[hit.passage.doc_id] <= 2 or not others
    shuffled = list(known)
    random.Random(seed).shuffle(shuffled)
    again = SentenceIndex(shuffled, links=dict(reversed(links.items())), bm25=words)
    for weights in ({}, {"coherence": 20, "mixing": 10}):
        assert hits(again, k=20, **weights) == hits(index, k=20, **weights)


def test_it_goes_deeper_until_there_are_k_distinct_paragraphs() -> None:
    repeats = [
        sentence(f"r{at:03d}", 0.9, text="The same long text in each and every one of the files.") for at in range(90)
    ]
    index = SentenceIndex([*repeats, *(sentence(f"z{at}", 0.1) for at in range(5))])
    assert len(hits(index, k=4, candidates=4)) == 4
    assert len(index.depths) > 1


def test_an_empty_index_has_no_hits() -> None:
    assert hits(SentenceIndex([])) == []
