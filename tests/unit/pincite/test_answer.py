from __future__ import annotations

from typing import Any

from pincite.text.passages import answer_shown

HIT = {"source": "docs", "uri": "a.pdf", "page_start": 3, "page_end": 4}
ANSWER: dict[str, Any] = {
    "answer": "Two [Travel, p. 3].", "declined": False, "generated": False, "model": None, "notes": ["one note"],
    "citations": [{"source": "docs", "uri": "a.pdf", "page": 3, "quote": "Two.", "chunk_id": "0123456789abcdef",
                   "generated": False}],
    "hits": [HIT], "generation": 1, "seconds": 0.1,
}  # fmt: skip


def test_an_answer_is_shown_with_its_quoted_places() -> None:
    assert answer_shown(ANSWER).splitlines() == [
        "Two [Travel, p. 3].",
        "",
        "1. a.pdf, p. 3  [docs]  chunk 0123456789",
        "   Two.",
        "",
        "note: one note",
        "0.100 s",
    ]
    written = answer_shown({**ANSWER, "generated": True, "model": "m"})
    assert written.splitlines()[:2] == [
        "Written by a language model (m), checked against the passages:",
        "Two [Travel, p. 3].",
    ]


def test_a_quote_that_a_language_model_wrote_is_marked() -> None:
    quoted = answer_shown({**ANSWER, "citations": [{**ANSWER["citations"][0], "generated": True}]})
    assert quoted.splitlines()[3:5] == ["   Written by a language model:", "   Two."]


def test_a_declined_question_gets_the_nearest_passages() -> None:
    shown = answer_shown({**ANSWER, "answer": "", "declined": True, "citations": []})
    assert shown.splitlines()[:4] == [
        "The documents do not answer this.",
        "",
        "Nearest passages:",
        "   a.pdf, pp. 3–4  [docs]",
    ]
