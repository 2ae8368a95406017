"""The sentence that is set off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from pincite.serve.marked_text import best_sentences, set_off
from resources.search.documents import SentenceInPlace


def sentence(text: str, start: int = 0) -> SentenceInPlace:
    return SentenceInPlace("c", text, text, start, None, [])


def test_the_rarest_words_of_the_question_decide() -> None:
    texts = ("Records are kept here.", "Records of payroll are kept seven years.", "Records.")
    said = [sentence(text) for text in texts]
    assert best_sentences("how long are payroll records kept", {"c": said})["c"] is said[1]


def test_none_is_set_off_where_none_has_a_word_of_the_question() -> None:
    assert best_sentences("zebra", {"c": [sentence("Nothing of it.")], "d": []}) == {}


@given(some.text(max_size=300), some.integers(0, 300), some.integers(0, 300), some.integers(0, 400))
def test_what_is_shown_is_of_the_text_and_bounded(text: str, start: int, length: int, most: int) -> None:
    before, said, after = set_off(text, min(start, len(text)), length, most)
    assert said == text[min(start, len(text)) :][:length][:most]
    assert before.removeprefix("… ") in text and after.removesuffix(" …") in text
    assert len(before) + len(said) + len(after) <= most + 4 or len(text) <= most
