"""The Markdown of an answer: words of documents stay words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pincite.serve.chat import Completion, markdown_answer, plain
from pincite.serve.requests import checked
from pipelines.errors import UsageError
from pipelines.inert import inert
from tests.support.hostile_texts import TEXTS

URL = "https://ask.example"


def answer(quote: str, uri: str = "a.pdf", **more: Any) -> dict[str, Any]:
    citation = {"uri": uri, "page": 3, "quote": quote, "chunk_id": "c1", "source": "s", "generated": False}
    return {"answer": quote, "declined": False, "generated": False, "model": None, "citations": [citation],
            "hits": [], **more}  # fmt: skip


def links_and_words(markdown: str) -> tuple[list[str], str]:
    """Addresses of links, and all that is shown. Raises where anything but links and lists is made of it."""
    links: list[str] = []
    words: list[str] = []
    for block in MarkdownIt("gfm-like", {"linkify": False}).parse(markdown):
        assert block.type.rpartition("_")[0] in ("paragraph", "ordered_list", "bullet_list", "list_item") or (
            block.type == "inline"
        ), block.type
        for token in block.children or ():
            if token.type == "link_open":
                links.append(str(token.attrs["href"]))
            assert token.type in ("text", "text_special", "link_open", "link_close", "softbreak"), token.type
            words.append(token.content)
    return links, "".join(words)


ACTING = ("[x](javascript:alert(1))", "![a](//b)", "<b>", "a]( b", "*a* $x$ `c`", "1. x")


@pytest.mark.parametrize("text", [*ACTING, *(make(500) for ending, make in TEXTS.values() if ending == ".md")])
def test_words_of_a_document_become_no_link(text: str) -> None:
    for made in (answer(text), answer(text, uri=text), answer(text, generated=True, model="m")):
        links, _ = links_and_words(markdown_answer(made, URL))
        assert set(links) == {f"{URL}/passages/c1"}


@given(st.text("ab [](){}<>*_`~#!|\\&;:/.@$-+=\n0189w", max_size=60))
def test_what_is_plain_shows_as_it_is(text: str) -> None:
    """And has no address or formula that a viewer would make something of by itself."""
    links, words = links_and_words(f"x {plain(text)} x")
    assert not links and words.split() == f"x {' '.join(inert(text).split())} x".split()
    assert not re.search(r"(?<!\\)(://|@|\$)|www\.", plain(text))


def test_a_declined_answer_names_the_nearest_passages() -> None:
    hits = [{"uri": f"{at}.pdf", "page_start": None, "chunk_id": str(at)} for at in range(5)]
    links, words = links_and_words(markdown_answer(answer("x", declined=True, citations=[], hits=hits), URL))
    assert links == [f"{URL}/passages/{at}" for at in range(3)]
    assert "do not answer" in words and "2.pdf" in words


def test_the_last_message_of_the_user_is_the_question() -> None:
    parts = [{"type": "text", "text": "Second"}, {"type": "image_url", "image_url": {"url": "x"}}]
    messages = [
        {"role": "user", "content": "First"}, {"role": "assistant", "content": "Answer"},
        {"role": "user", "content": parts}, {"role": "assistant", "content": None},
    ]  # fmt: skip
    told = checked(Completion, {"messages": messages, "temperature": 0.2, "tools": [1]})
    assert told.question().q == "Second"
    with pytest.raises(UsageError, match="user"):
        checked(Completion, {"messages": messages[1:2]}).question()
    with pytest.raises(UsageError, match="parameter 'q'"):
        checked(Completion, {"messages": [{"role": "user", "content": "  "}]}).question()
