"""Text of documents as it is shown: words stay, what a viewer, a browser or a terminal acts on does not."""

from __future__ import annotations

import html
import re
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.defused_text import clear, defuse
from tests.support.growth import calls

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
    assert defuse(text) == text


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
def test_active_text_is_removed(text: str, shown: str) -> None:
    assert defuse(text) == shown


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
    shown = defuse(text)
    for pattern in ACTIVE:
        assert not pattern.search(shown), (text, shown)
    assert not any(unicodedata.category(sign) == "Cc" and sign not in "\n\t" for sign in shown)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
@example("\x1b[&lt;<a")
def test_entities_hide_nothing(text: str) -> None:
    shown = defuse(html.escape(text))
    assert not any(pattern.search(html.unescape(shown)) for pattern in ACTIVE[:2]), (text, shown)


@pytest.mark.parametrize(
    "unit",
    ["[", "](", "(", "<a ", "<", "java\n", "[a](", "![a](b)", "&amp;", "<!", "\x1b[", "data:", "javascript:", "]",
     "\x1b]", "<a b=", "data:/", "[[a](b)](", "&lt;", "\x9d"],
)  # fmt: skip
def test_a_long_text_is_read_in_one_go(unit: str) -> None:
    """No text of it is looked at again and again; test_patterns.py counts the steps of the patterns."""
    assert calls(lambda: defuse(unit * 2_000)) < 2.2 * calls(lambda: defuse(unit * 1_000))


# ---------------------------------------------------------------- texts for a model

SEEN = [
    "Leave expires in March.\n\tTab",
    "Мітка: «так» – 5 €",
    "日本語、中文。한국어",
    "العربية ١٢٣",
    "עברית: שלום",
    "שלום עולם",
    "می\u200cخواهم",
    "क्\u200dष",
    "ന്\u200d",
    "ශ්\u200dරී",
    "👩\u200d💻",
    "👩🏽\u200d🚀",
    "❤\ufe0f",
    "❤\ufe0f\u200d🔥",
    "1\ufe0f\u20e3",
    "ℹ\ufe0f",
    "™\ufe0e",
    "ᠨ\u180b",
    "\u06dd١",
    "e\u0301 ñ Zalgo\u0316\u0317",
    "a\u00a0b\u2009c\u3000d\u202fe",
    "⠀⠁",
    "x ≤ y ∑ → ✓ •",
    "\U0001f3f4",
    "𝒜 𝟘",
    "",
]
"""What a person reads, or sees as a space: it passes as it is."""
TAKEN = {
    "tag": ("a\U000e0041\U000e0042b", "ab"),
    "flag of tags": ("🏴\U000e0067\U000e0062\U000e007f", "🏴"),
    "override": ("a\u202eb\u202c", "ab"),
    "isolate": ("a\u2066b\u2069", "ab"),
    "mark": ("a\u200eb\u200fc\u061cd", "abcd"),
    "mark in Hebrew": ("שלום\u200e C", "שלום C"),
    "zero width": ("a\u200bb\u2060c\ufeffd", "abcd"),
    "joiners in Latin": ("a\u200db\u200cc", "abc"),
    "two joiners": ("می\u200c\u200cخ", "میخ"),
    "joiner at an end": ("\u200dषक\u200c", "षक"),
    "joiner of words": ("می \u200c خواهم", "می  خواهم"),
    "joiner after an emoji": ("👩\u200d a", "👩 a"),
    "soft hyphen": ("co\u00adop", "coop"),
    "no glyph": ("a\u034fb", "ab"),
    "fillers": ("a\u115f\u1160\u3164\uffa0b", "ab"),
    "Khmer": ("ក\u17b4\u17b5", "ក"),
    "variants": ("a\ufe00\ufe0fb\U000e0101", "ab"),
    "many variants": ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f"),
    "key without a cap": ("1\ufe0fa", "1a"),
    "variant in Mongolian": ("a\u180bb", "ab"),
    "control": ("a\x00b\x1b[31mc\x9bd\x85e\x7f", "abc e"),
    "music": ("a\U0001d173b", "ab"),
    "shorthand": ("a\U0001bca0b", "ab"),
    "annotation": ("a\ufff9b\ufffac\ufffb", "abc"),
    "unassigned": ("a\uffffb\U000e0fffc\u0378d\U0010ffffe", "abcde"),
    "half a pair": ("a\ud800b", "ab"),
    "private": ("\uf0b7 a \U000f0000\U0010fffd", "\ufffd a \ufffd\ufffd"),
    "lines": ("a\u2028b\u2029c", "a\nb\nc"),
}


@pytest.mark.parametrize("text", SEEN, ids=ascii)
def test_visible_text_reaches_a_model_unchanged(text: str) -> None:
    assert clear(text) == text


@pytest.mark.parametrize(("text", "shown"), TAKEN.values(), ids=TAKEN)
def test_invisible_text_does_not_reach_a_model(text: str, shown: str) -> None:
    assert clear(text) == shown


@given(st.text(max_size=30) | st.text("a1می\u200c\u200d\ufe0f\u20e3❤👩क्\u180b\U000e0041\u202e\x1b[", max_size=30))
def test_a_cleared_text_is_clear_and_holds_no_marks(text: str) -> None:
    shown = clear(text)
    assert clear(shown) == shown
    assert not re.search(
        "[\u200b\u200e\u200f\u061c\u202a-\u202e\u2060-\u206f\U000e0000-\U000e0fff\ud800-\udfff]", shown
    )
    assert not re.search("[\u200c\u200d\ufe00-\ufe0f]{3}", shown)
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Cn", "Co") and sign not in "\n\t" for sign in shown)
    escaped = clear(text, lambda sign: sign.encode("unicode_escape", "surrogatepass").decode())
    assert clear(escaped) == escaped


PLANE = 1 << 16
HOLD_LETTERS = (0, 1, 2, 3, 14)
"""The planes of Unicode in which characters are assigned. Of the others, some characters are tried."""


def test_all_of_unicode_is_decided() -> None:
    """Of what has no width or is not assigned nothing passes by itself, and of the rest everything."""
    signs = [
        chr(code)
        for start in range(0, sys.maxunicode + 1, PLANE)
        for code in range(start, start + PLANE, 1 if start // PLANE in HOLD_LETTERS else PLANE // 255 - 2)
    ]
    controls, others = signs[:0xA0], signs[0xA0:]  # a control character may take what follows it along
    cleared = [clear(f"a{sign}b")[1:-1] for sign in controls]
    for at in range(0, len(others), 4096):
        lines = "\n".join(f"a{sign}b" for sign in others[at : at + 4096])
        cleared += clear(lines)[1:-1].split("b\na")
    kept = {sign for sign, left in zip(signs, cleared, strict=True) if sign == left}
    by_category = {sign: unicodedata.category(sign) for sign in signs}
    assert not {sign for sign in kept if by_category[sign] in ("Cc", "Cs", "Cn", "Co")} - set("\n\t")
    formats = {sign for sign in kept if by_category[sign] == "Cf"}
    assert {unicodedata.name(sign).split()[0] for sign in formats} == {"ARABIC", "SYRIAC", "KAITHI"}
    gone = {sign for sign in set(signs) - kept if by_category[sign][0] not in "C"}
    assert {by_category[sign] for sign in gone} == {"Lo", "Mn", "Zl", "Zp"} and len(gone) < 300
