"""The sentence that is set off, and hits as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pincite.serve.marked_text import LONGEST_QUOTE, best_sentences, shown_documents
from pipelines.query.excerpts import Piece
from resources.search.documents import SentenceInPlace
from resources.search.passages import with_documents


def sentence(text: str, start: int = 0) -> SentenceInPlace:
    return SentenceInPlace("c", text, text, start, None, [])


def test_the_rarest_words_of_the_question_decide() -> None:
    texts = ("Records are kept here.", "Records of payroll are kept seven years.", "Records.")
    said = [sentence(text) for text in texts]
    assert best_sentences("how long are payroll records kept", {"c": said})["c"] is said[1]


def test_none_is_set_off_where_none_has_a_word_of_the_question() -> None:
    assert best_sentences("zebra", {"c": [sentence("Nothing of it.")], "d": []}) == {}


# ---------------------------------------------------------------- hits


def hit(rank: int, doc_id: str = "a", **values: Any) -> dict[str, Any]:
    known = {"rank": rank, "chunk_id": f"c{rank}", "doc_id": doc_id, "source": "s", "uri": f"{doc_id}.pdf",
             "title": "Travel", "page_start": 2, "page_end": 2, "header_chain": [], "text": "", "generated": [],
             "paragraph": None, "duplicates": []}  # fmt: skip
    return known | values


def shown(hits: list[dict[str, Any]], sentences: Sequence[SentenceInPlace] = (), **found: Any) -> Any:
    result = with_documents({"query": "taxi limits", "hits": hits, **found})
    return shown_documents(result, {"c": sentences, "c1": sentences})


def marked(pieces: Sequence[Piece]) -> str:
    return "".join(f"[{piece.text}]" if piece.marked else piece.text for piece in pieces)


def test_each_document_shows_its_best_hit_and_folds_the_others() -> None:
    first, second = shown([hit(1), hit(2, "b"), hit(3), hit(4)])
    assert [each.chunk_id for each in (*first.hits, *first.rest)] == ["c1", "c3", "c4"]
    assert (len(first.hits), len(first.rest), len(second.hits), len(second.rest)) == (1, 2, 1, 0)
    assert (first.told["name"], second.told["name"]) == ("Travel (a.pdf)", "Travel (b.pdf)")


def test_one_document_alone_shows_three() -> None:
    (only,) = shown([hit(at) for at in range(1, 6)])
    assert (len(only.hits), len(only.rest)) == (3, 2)


def test_a_hit_is_the_lines_around_its_sentence_and_its_headings_once() -> None:
    text = "Taxis\nOne.\nTwo.\nThe limit of a taxi is £60.\nThree.\nFour."
    best = SentenceInPlace("c1", "s1", "The limit of a taxi is £60.", 17, 2, [])
    ((one,),) = [document.hits for document in shown([hit(1, text=text, header_chain=["Travel", "Taxis"])], [best])]
    assert marked(one.text) == "… Two.\nThe [limit] of a [taxi] is £60.\nThree. …"
    assert [marked(heading) for heading in one.headings] == ["[Taxis]"]
    assert (one.sentence_id, one.quote) == ("s1", "The limit of a taxi is £60.")


def test_the_anchor_of_a_paragraph_is_its_match() -> None:
    paragraph = {"anchors": [{"text": "Taxi: £60.", "sentence_id": "s9"}]}
    ((one,),) = [document.hits for document in shown([hit(1, text="Taxi: £60. More.", paragraph=paragraph)])]
    assert (one.sentence_id, one.quote) == ("s9", "Taxi: £60.")


def test_a_passage_without_a_sentence_is_quoted_by_its_shown_lines() -> None:
    ((one,),) = [document.hits for document in shown([hit(1, text="Nothing of\nthat.")])]
    assert (one.sentence_id, one.quote) == ("", "Nothing of that.")
    ((long,),) = [document.hits for document in shown([hit(1, text="x" * 9_000)])]
    assert len(long.quote) <= LONGEST_QUOTE + 2


def test_a_title_is_no_heading_and_a_heading_stands_once() -> None:
    ((one,),) = [document.hits for document in shown([hit(1, header_chain=["TRAVEL", "Rates", "Rates"], text="a")])]
    assert [marked(heading) for heading in one.headings] == ["Rates"]
    ((two,),) = [document.hits for document in shown([hit(1, header_chain=["Rates", "Cars"], text="a")])]
    assert [marked(heading) for heading in two.headings] == ["Rates", "Cars"]


def test_words_that_were_also_searched_for_are_marked() -> None:
    ((one,),) = [document.hits for document in shown([hit(1, text="A cab.")], added=[{"text": "cabs"}])]
    assert marked(one.text) == "A [cab]."
