from __future__ import annotations

from pincite.report import excerpt, hits_shown, passage_shown, pin


def test_an_excerpt_begins_with_the_line_that_says_most_of_what_was_asked() -> None:
    rows = "\n".join(
        f"City: {name} | Limit: £{number}" for number, name in enumerate(["Paris", "Rome", "London", "Oslo"])
    )
    assert excerpt(rows, "limit in London", 40) == "… City: London | Limit: £2\nCity: Oslo | …"
    assert excerpt("short text", "anything") == "short text"


def test_pins() -> None:
    assert pin({"uri": "a.md", "page_start": None, "page_end": None}) == "a.md"
    assert pin({"uri": "a.pdf", "page_start": 3, "page_end": 3}) == "a.pdf, p. 3"
    assert pin({"uri": "a.pdf", "page_start": 3, "page_end": 4}) == "a.pdf, pp. 3–4"


HIT = {
    "rank": 1, "score": 0.5, "scores": {"dense": 0.5}, "chunk_id": "0123456789abcdef", "source": "docs", "uri": "a.pdf",
    "title": "Travel", "page_start": 3, "page_end": 4, "header_chain": ["Travel", "Limits"],
    "block_types": ["paragraph", "table-row"], "text": "One.\nTwo.", "overlap": "Before.", "context": "",
    "boxes": [{"page": 3, "x0": 1.4, "y0": 2, "x1": 3, "y1": 4}],
}  # fmt: skip


def test_hits_name_the_beginning_of_their_chunk_id() -> None:
    result = {"query": "two", "generation": 1, "hits": [HIT], "seconds": 0.1}
    assert hits_shown(result, explain=False).splitlines()[0] == "1. a.pdf, pp. 3–4  [docs]  0.5000  chunk 0123456789"


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
