"""The Markdown of an answer: words of documents stay words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linkify_it import LinkifyIt
from markdown_it import MarkdownIt

from pincite.serve.api import ChatRequest, check_values, markdown_answer
from pipelines.defused_text import defuse
from pipelines.errors import UsageError
from pipelines.parsing.markdown_view import plain_markdown
from tests.support.hostile_texts import TEXTS

URL = "https://ask.example"


def answer(quote: str, uri: str = "a.pdf", **more: Any) -> dict[str, Any]:
    citation = {"uri": uri, "page": 3, "quote": quote, "chunk_id": "c1", "source": "s", "generated": False}
    return {"answer": quote, "declined": False, "generated": False, "model": None, "citations": [citation],
            "hits": [], **more}  # fmt: skip


FUZZY = LinkifyIt(options={"fuzzy_ip": True}).tlds(["md", "app", "zip", "dev", "py", "рф", "укр", "भारत"], True)
IN_TEXT = re.compile(
    r"(?:https?://|www(?=\.))[-.\w]+|[-.\w+]+@[-\w]+|(?<!\w)@\w|(?:mailto|tel|skype):\S", re.IGNORECASE
)
"""What viewers that look at the text after Markdown was read make links and mentions of, escaped or not."""


def links_and_words(markdown: str) -> tuple[list[str], str]:
    """Return the addresses of links, and all that is shown. Fail if anything but links, lists and code is made of it,
    or a viewer finds more links in the text between these."""
    links: list[str] = []
    words: list[str] = []
    between: list[str] = []
    inside = False
    for block in MarkdownIt("gfm-like").parse(markdown):
        assert block.type.rpartition("_")[0] in ("paragraph", "ordered_list", "bullet_list", "list_item") or (
            block.type == "inline"
        ), block.type
        for token in block.children or ():
            if token.type == "link_open":
                links.append(str(token.attrs["href"]))
            inside = token.type == "link_open" or (inside and token.type != "link_close")
            shown = ("text", "text_special", "code_inline", "link_open", "link_close", "softbreak")
            assert token.type in shown, token.type
            words.append(token.content)
            between.append(" " if inside or token.type == "code_inline" else token.content)
    text = "".join(between)
    assert not FUZZY.match(text) and not IN_TEXT.search(text), text
    return links, "".join(words)


ACTING = ("[x](javascript:alert(1))", "![a](//b)", "<b>", "a]( b", "*a* $x$ `c`", "1. x")


@pytest.mark.parametrize("text", [*ACTING, *(make(500) for ending, make in TEXTS.values() if ending == ".md")])
def test_words_of_a_document_become_no_link(text: str) -> None:
    for made in (answer(text), answer(text, uri=text), answer(text, generated=True, model="m")):
        links, _ = links_and_words(markdown_answer(made, URL))
        assert set(links) == {f"{URL}/passages/c1"}


@given(st.text("ab [](){}<>*_`~#!|\\&;:/.@$-+=\n0189w", max_size=60))
def test_plain_text_shows_as_it_is(text: str) -> None:
    """And has no address or formula that a viewer would make something of by itself."""
    links, words = links_and_words(f"x {plain_markdown(text)} x")
    assert not links and words.split() == f"x {' '.join(defuse(text).split())} x".split()
    assert not re.search(r"(?<!\\)\$", re.sub(r"(?<![\\`])(`+)[^`].*?\1", "", plain_markdown(text)))


LINKED = [
    "https://evil.example/a?b=c", "HTTP://EVIL.EXAMPLE", "ftp://evil.example", "//evil.com", "www.evil.com",
    "evil.com/x", "EVIL.COM", "evil.com.", "(evil.com)", "“evil.com”", "a.b.c.museum/x", "evil.рф", "приклад.укр",
    "evi\u0301l.com", "x.भारत", "user@evil.com", "user@host", "user+a@evil.co.uk", "@everyone", "@channel",
    "mailto:a@b", "tel:+380441234567", "skype:eve?call", "1.2.3.4", "1.2.3.4:80/x", "localhost:8080",
    "http://localhost", "http://[::1]/", "readme.md", "setup.py", "notes.app", "xn--e1afmkfd.xn--p1ai",
    "evil.com:443/a_(b)", "https://a/`b`", "`evil.com`", "a`evil.com/``x", "[evil.com]", "evil.com](x",
    "see:evil.com", "https:///evil.com", "https:\\\\evil.com", "evil。com", "javascript.com", "'https://evil.com'",
    "<https://evil.com>", "evil.com,evil.org", "http://evil.com|b", "*evil.com*", "_evil.com_", "\\evil.com\\x",
    "a-b.c-d.co", "$evil.com$", "https://evil.com/" + "a" * 5_000,
]  # fmt: skip


@pytest.mark.parametrize("word", LINKED, ids=lambda word: ascii(word)[:40])
def test_no_viewer_makes_a_link_of_a_word(word: str) -> None:
    """Not even one that looks for names of hosts, and each word can be copied as it is."""
    for text in (word, f"See {word}, and {word}.", f"{word} {word}", f"- {word}", f"1. {word}"):
        links, shown = links_and_words(plain_markdown(text))
        assert not links and shown.split() == defuse(text).split()
        cited = answer(text)
        assert set(links_and_words(markdown_answer(cited, URL))[0]) == {f"{URL}/passages/c1"}


@pytest.mark.parametrize(
    "text",
    ["Leave ends in March, e.g. on the 31st; i.e. 3.5 days (p.m.).",
     "Version 2.10, § 4.1.2 of Ph.D. rules: 10:30 a.m.", "Кінець речення. Початок № 5.", "東京。大阪は",
     "50 % of 100, and/or none: yes", "N/A",
     "…and so on...", "U.S. law"],
)  # fmt: skip
def test_ordinary_words_are_not_set_as_code(text: str) -> None:
    assert "`" not in plain_markdown(text)


@given(
    st.lists(
        st.sampled_from([*LINKED[:-1], "and", "(", ")", "`", "``", "*", "[", "](", "a", ".", "com", "//"]), max_size=8
    )
)
def test_no_viewer_makes_a_link_of_words_together(words: list[str]) -> None:
    for joint in (" ", ""):
        text = joint.join(words)
        links, shown = links_and_words(f"x {plain_markdown(text)}")
        assert not links and shown.split() == f"x {defuse(text)}".split()


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
    told = check_values(ChatRequest, {"messages": messages, "temperature": 0.2, "tools": [1]})
    assert told.question().q == "Second"
    with pytest.raises(UsageError, match="user"):
        check_values(ChatRequest, {"messages": messages[1:2]}).question()
    with pytest.raises(UsageError, match="parameter 'q'"):
        check_values(ChatRequest, {"messages": [{"role": "user", "content": "  "}]}).question()
