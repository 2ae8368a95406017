"""Text of documents as it is shown: words stay, what a viewer, a browser or a terminal acts on does not."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.inert import inert

ORDINARY = [
    "Leave expires at the end of March.",
    "a < b and b > c, so 3 < 5 > 2", "see [1], [2] (and note 3)",
    "JavaScript, Data",
    "data: 5 items, file: name, type: x", "R&amp;D and AT&T &lt; 5", "Apply at https://example.org/a(b)?c=d.",
    "Write to mailto:desk@example.org, see ftp://example.org/a or www.example.org.",
    "Мітка: «так» – 5 €\nрядок другий", "می‌خواهم", "क्‍ष", "x := y; a[i](j) is none: a[i] (j)".replace("](", "] ("),
    "| a | b |\n| 1 | 2 |", "f(x) = [0, 1)", "50 % (of 100) [sic]", "C:\\Temp and mailto", "", " ", "**bold** _it_ `x`",
]  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert inert(text) == text


@pytest.mark.defends("5e")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Press [click](javascript:alert(1)) now", "Press click now"),
        ("[click](  javascript:alert(1)  'title')", "click"),
        ("![chart](https://evil.example/p.png?q=1)", "chart"),
        ("[![chart](https://evil.example/p.png)](https://evil.example)", "chart"),
        ("[a [b](c) d](javascript:x)", "a b d"),
        ("[a](b)[c](d)", "ac"),
        ("[a][b]\n\n[b]: javascript:alert(1)", "[a] [b]\n\n[b] : "),
        ("[b]:javascript:alert(1)", "[b] :"),
        ("<javascript:alert(1)> and <https://evil.example>", "< and ‹https://evil.example>"),
        ("<img src=x onerror=alert(1)>Hi<br/>", "Hi"),
        ("<a\nhref='javascript:x'>y</a>", "y"),
        ("<svg/onload=alert(1)>x", "x"),
        ("<scr<b>ipt>alert</scr</b>ipt>", "‹script>alert‹/script>"),
        ("<!-- hidden --><?php x ?>y", "y"),
        ("<unheard-of onclick=x>y", "y"),
        ("Dear <name>,", "Dear ‹name>,"),
        ("JavaScript: The Good Parts", "JavaScript : The Good Parts"),
        ("go to JaVaScRiPt:alert(1) or vbscript:x", "go to  or "),
        ("java\nscript:alert(1)", ""),
        ("java\tscript:alert(1)", "java\tscript:alert(1)"),
        ("ｊａｖａｓｃｒｉｐｔ：alert(1)", ""),
        ("java\u200bscript:alert(1)", ""),
        ("data:text/html;base64,PHNjcmlwdD4= x", " x"),
        ("file:///etc/passwd", ""),
        ("&lt;a href=javascript:x&gt;click&lt;/a&gt;", "click"),
        ("&amp;lt;script&amp;gt;x", "x"),
        ("&#x6a;avascript:alert(1)", ""),
        ("javascript&colon;alert(1)", ""),
        ("&#91;click&#93;&#40;javascript&#58;x&#41;", "click"),
        ("\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x9b2Jx", "red link x"),
        ("left \u202eright\u202c", "left right"),
        ("bell\x07 null\x00 del\x7f", "bell null del"),
        ("seen \U000e0041\U000e0042tags", "seen tags"),
    ],
)
def test_what_acts_is_taken_out(text: str, shown: str) -> None:
    assert inert(text) == shown


ACTIVE = (
    re.compile(r"\](?=[(\[:])"),
    re.compile(r"<(?=[A-Za-z/!?])"),
    re.compile(r"(?<!\w)(?:javascript|vbscript)\n?:", re.IGNORECASE),
    re.compile(r"(?<!\w)data:\w+/\w+", re.IGNORECASE),
)
SIGNS = r"""[ ] ( ) ! < > / : & ; \ ' " a b script java data: text/html javascript: <a href= &lt; &#60; &gt; &colon;
    &#x5d; &#40; &amp; m ｊ ： ]( ]: x=1"""
PIECES = st.sampled_from([*SIGNS.split(), "\n", " ", "\x1b[", "\x1b]", "\u202e", "\u200b"])


@pytest.mark.defends("5e")
@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_nothing_that_acts_is_left_in_any_text(text: str) -> None:
    shown = inert(text)
    for pattern in ACTIVE:
        assert not pattern.search(shown), (text, shown)
    assert not any(unicodedata.category(sign) == "Cc" and sign not in "\n\t" for sign in shown)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
@example("\x1b[&lt;<a")
def test_entities_hide_nothing(text: str) -> None:
    shown = inert(html.escape(text))
    assert not any(pattern.search(html.unescape(shown)) for pattern in ACTIVE[:2]), (text, shown)


@pytest.mark.parametrize(
    "unit",
    ["[", "](", "(", "<a ", "<", "java\n", "[a](", "![a](b)", "&amp;", "<!", "\x1b[", "data:", "javascript:", "]",
     "\x1b]", "<a b=", "data:/", "[[a](b)](", "&lt;", "\x9d"],
)  # fmt: skip
def test_a_long_text_is_read_in_one_go(unit: str) -> None:
    """Minutes, where the time were of its square."""
    inert(unit * 100_000)
