from __future__ import annotations

from typing import Any

from pincite.text.passages import hits_shown, passage_shown, pin, shown_text


def test_a_long_text_is_shown_where_it_says_most_of_the_question() -> None:
    cities = ["Paris", "Rome", "Kyiv", "Oslo", "Bern", "London", "Riga", "Vienna"]
    hit = {"text": "\n".join(f"City: {name} | Limit: £{at}" for at, name in enumerate(cities)), "header_chain": []}
    assert shown_text(hit, "limit in London", 3) == (
        "… City: Bern | Limit: £4\nCity: London | Limit: £5\nCity: Riga | Limit: £6 …"
    )
    assert shown_text({"text": "short text", "header_chain": []}, "anything") == "short text"


def test_a_heading_is_printed_once_in_each_hit() -> None:
    shown = hits_shown(found(hits=[{**HIT, "text": "Travel\nLimits\nTwo hours."}]), explain=False)
    assert shown.count("Travel") == shown.count("Limits") == 1 and "   Two hours." in shown


def test_pins() -> None:
    assert pin({"uri": "a.md", "page_start": None, "page_end": None}) == "a.md"
    assert pin({"uri": "a.pdf", "page_start": 3, "page_end": 3}) == "a.pdf, p. 3"
    assert pin({"uri": "a.pdf", "page_start": 3, "page_end": 4}) == "a.pdf, pp. 3–4"


HIT = {
    "rank": 1, "score": 0.5, "scores": {"dense": 0.5}, "chunk_id": "0123456789abcdef", "doc_id": "d", "source": "docs",
    "uri": "a.pdf", "title": "Travel", "page_start": 3, "page_end": 4, "header_chain": ["Travel", "Limits"],
    "block_types": ["paragraph", "table-row"], "text": "One.\nTwo.", "overlap": "Before.", "context": "",
    "boxes": [{"page": 3, "x0": 1.4, "y0": 2, "x1": 3, "y1": 4}],
}  # fmt: skip


def found(**values: Any) -> dict[str, Any]:
    way = {"strategy": "hybrid", "rerank": ["weighted"], "searched": {}, "added": [], "notes": []}
    return {"query": "two", "generation": 1, "hits": [HIT], "seconds": 0.1, **way, **values}


def test_hits_name_the_beginning_of_their_chunk_id_and_are_counted() -> None:
    """Their scores are figures of one stage on its own scale, which only --explain names."""
    shown = hits_shown(found(hits=[HIT, HIT]), explain=False).splitlines()
    assert shown[0] == "1. a.pdf, pp. 3–4  [docs]  chunk 0123456789"
    assert shown[-1] == "2 passages in 1 document, 0.100 s"


def test_an_explained_hit_has_a_row_for_every_stage_in_order() -> None:
    scores = {"dense": 0.81234, "lexical": 12.0, "fused": 0.9, "weighted": 0.7, "weighted.recency": 1.0}
    ranks = {"dense": 2, "lexical": 11, "fused": 1, "weighted": 1}
    searched = {"hyde": "Two is a number."}
    shown = hits_shown(found(hits=[{**HIT, "scores": scores, "ranks": ranks}], searched=searched), explain=True)
    assert shown.splitlines()[:2] == [
        "strategy hybrid, rerank weighted, generation 1",
        "hyde searched for, written by a language model: Two is a number.",
    ]
    assert [line for line in shown.splitlines() if line.startswith("   ")][3:10] == [
        "   stage             score    place",
        "   dense             0.8123   2",
        "   lexical           12.0000  11",
        "   fused             0.9000   1",
        "   weighted          0.7000   1",
        "   weighted.recency  1.0000",
        "   box: page 3, 1 2 3 4",
    ]
    assert "stage" not in hits_shown(found(), explain=False)


def test_a_fallback_is_said() -> None:
    for explain in (False, True):
        assert hits_shown(found(notes=["hyde: no passage"]), explain).count("note: hyde: no passage") == 1
    assert hits_shown(found(hits=[]), explain=False) == "no passage found, 0.100 s"


def test_text_written_by_a_language_model_is_marked() -> None:
    mark = "Written by a language model"
    assert mark in hits_shown(found(hits=[{**HIT, "generated": ["text"]}]), explain=False)
    shown = passage_shown({**HIT, "context": "About it.", "generated": ["context"], "generation": 7, "images": []})
    assert "context, written by a language model:" in shown
    assert mark not in hits_shown(found(), explain=False)


def test_a_passage_is_shown_whole_with_what_was_laid_around_it() -> None:
    shown = passage_shown({**HIT, "generation": 7, "images": ["page.png"]})
    assert shown.splitlines() == [
        "a.pdf, pp. 3–4  [docs]  Travel",
        "chunk 0123456789abcdef, paragraph, table-row, generation 7",
        "Travel › Limits",
        "overlap, from the passage before:",
        "   Before.",
        "text:",
        "   One.",
        "   Two.",
        "box: page 3, 1 2 3 4",
        "image: page.png",
    ]


def paragraph(edge: str = "anchor", text: str = "Two hours.", **values: Any) -> dict[str, Any]:
    anchor = {"sentence_id": "0123456789abc", "text": text, "source": "table_row", "page": 4, "boxes": [], "score": 0.5}
    reached = {"id": "p", "edge": edge, "via": None, "similarity": None, "anchors": [anchor]} | values
    return {**HIT, "text": "One day. Two hours. Three.", "paragraph": reached}


def test_a_paragraph_is_shown_with_its_anchors_set_off() -> None:
    lines = hits_shown(found(hits=[paragraph()]), explain=False).splitlines()
    assert "   One day. >>Two hours.<< Three." in lines
    assert "   anchor 0123456789, p. 4, table_row, 0.50" in lines


def test_a_long_paragraph_is_shown_from_its_first_anchor_on() -> None:
    hit = {**paragraph(), "text": "One day. " * 100 + "Two hours. " + "Three. " * 100}
    shown = hits_shown(found(hits=[hit]), explain=False)
    assert "   … >>Two hours.<< Three." in shown
    assert "One day." not in shown
    assert shown.count("Three.") < 70


def test_an_expanded_paragraph_says_by_which_edge_it_came() -> None:
    for edge, line in {
        "next": "after the anchor abcdefghij",
        "previous": "before the anchor abcdefghij",
        "related": "related to the anchor abcdefghij, 0.93 alike",
    }.items():
        similarity = 0.93 if edge == "related" else None
        hit = paragraph(edge, via="abcdefghijkl", similarity=similarity, anchors=[])
        assert f"   {line}" in hits_shown(found(hits=[hit]), explain=False).splitlines()
