from __future__ import annotations

from pincite.report import excerpt, pin


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
