"""The safe form of a document's text for display: its words, without anything on which a terminal, browser or viewer
acts.

Links, images, tags and addresses that run code become plain words. Ordinary text stays unchanged, including web
addresses (`https:`), which show their target themselves. Every step is linear in the text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f\n]*+(?:\x07|\x1b\\|\x9c)?"
)
_HIDDEN = frozenset({"Cc", "Cs", "Cn"})
_FORMAT = re.compile("[\u00ad\u061c\u180e\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]")
"""Format characters that are invisible, or that change the order of visible characters. Joiners and marks that scripts
need are not among them."""

_NAMES = (
    "a|abbr|applet|area|article|aside|audio|b|base|big|blockquote|body|br|button|canvas|center|code|col|dd|del|details"
    "|div|dl|dt|em|embed|fieldset|font|footer|form|frame|frameset|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd"
    "|label|li|link|main|map|marquee|math|meta|nav|noscript|object|ol|option|p|param|picture|pre|q|s|script|section"
    "|select|small|source|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|template|textarea|tfoot|th|thead"
    "|title|tr|track|tt|u|ul|var|video|wbr"
)
_TAG = re.compile(
    rf"</?+(?:(?:{_NAMES})(?=[\s/>])[^<>]*+|[a-z][^\s<>:@]*+\s[^<>=]*+=[^<>]*+)>|<[!?][^<>]*+>", re.IGNORECASE
)
_OPENS = re.compile(r"<(?=[A-Za-z/!?&\\])")
_SCHEMES = ("javascript", "vbscript", "livescript", "mocha", "view-source", "ms-appx", "search-ms", "ms-msdt")
_BROKEN = "|".join(r"\n?".join(map(re.escape, name)) for name in _SCHEMES)  # browsers ignore line ends in a scheme
_RUNS = re.compile(
    rf"(?<!\w)(?:{_BROKEN})\n?:"
    r"|(?<!\w)data:(?=[^\s,;/]{0,99}+(?:/[^\s,;]|;\s?base64))|(?<!\w)(?:blob|filesystem|jar|intent|file):(?=\S)"
)
"""Pattern, in folded text, of the beginning of an address that runs code, or that reads a local file of the person who
opens it."""
_JOINTS = re.compile(r"\](?=[(\[:])")
_INERT = re.compile(
    "[A-Za-z0-9 .,;!?()'\"%$+=/\n’“”«»–—…•°£€№АБВГҐДЕЄЖЗИІЇЙКЛМНОПРСТУФХЦЧШЩЬЮЯабвгґдеєжзиіїйклмнопрстуфхцчшщьюя-]*+"
)
"""Signs that cannot form active content: without colon, bracket, tag, entity, and without signs that look like
others."""
_ROUNDS = 5
"""Times that entities are decoded, since an entity may contain another."""


def defuse(text: str) -> str:
    """Return the words of a text without active content; a text without any is returned unchanged."""
    if _INERT.fullmatch(text):
        return text
    text = visible_text(text)  # first, since an escape sequence may end in the middle of an entity
    if "&" in text:
        decoded = text
        for _ in range(_ROUNDS):
            decoded = html.unescape(decoded)
        # Entities are kept as they are written, unless they hide something that acts.
        if (plain := _words(decoded)) != visible_text(decoded):
            return plain
    return _words(text)


def fold(text: str) -> str:
    """Return the visible text in lower case and in normal width, for searching in it."""
    if _INERT.fullmatch(text):
        return text.lower()
    return _fold(visible_text(text))


def _words(text: str) -> str:
    text = _TAG.sub("", _without_links(visible_text(text)))
    text = _OPENS.sub("‹", _without_addresses(text))
    return _JOINTS.sub("] ", text)


def visible_text(text: str) -> str:
    """Return a text without invisible characters, and without characters that change the order of visible ones."""
    if text.replace("\n", " ").replace("\t", " ").isprintable() and (text.isascii() or not _FORMAT.search(text)):
        return text
    text = _FORMAT.sub("", _ESCAPES.sub("", text))
    return "".join(
        sign if sign in "\n\t" or unicodedata.category(sign) not in _HIDDEN else " " if sign.isspace() else ""
        for sign in text
    )


_READ_FORMATS = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
"""Visible signs of numbers and verses that Unicode counts among format characters."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
"""Invisible signs that Unicode counts among letters and marks."""
_JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f]"
)
"""Letters and marks of scripts in which joiners decide how letters are written."""
_VIRAMA, _EMOJI = 9, frozenset({"So", "Sk"})
_MONGOLIAN = re.compile("[\u1820-\u18aa]")


def clear(text: str, instead: Callable[[str], str] | None = None) -> str:
    """Return a text for a language model, in which every sign is visible to a person.

    Removed are tag characters, direction marks, signs without width, fillers, variant selectors and private signs.
    Joiners are kept if a script or an emoji needs them, and so is the selector that makes a sign an emoji. `instead`
    returns the replacement of a removed sign.
    """
    if text.isascii() and text.isprintable():
        return text
    if instead is None:
        text = _ESCAPES.sub("", text)
    made: list[str] = []
    for at, sign in enumerate(text):
        kept = _clear(text, at)
        made.append(kept if kept == sign or instead is None else instead(sign))
    return "".join(made)


def _clear(text: str, at: int) -> str:
    """Return the visible replacement of the sign at a place."""
    sign = text[at]
    if " " <= sign <= "~" or sign in "\n\t":
        return sign
    if sign in "\u2028\u2029":
        return "\n"
    category = unicodedata.category(sign)
    if category == "Co":
        return "\ufffd"
    if category in _HIDDEN:
        return " " if sign.isspace() else ""
    if (category != "Cf" or sign in _READ_FORMATS) and not _BLANK.match(sign):
        return sign
    return sign if at and _belongs(text, at) else ""


def _belongs(text: str, at: int) -> bool:
    """Say whether an invisible sign at a place is needed for writing its neighbours."""
    sign, before, after = text[at], text[at - 1], text[at + 1 : at + 2]
    if sign in "\u200c\u200d":
        if _joins(before):
            return unicodedata.combining(before) == _VIRAMA or _joins(after)
        is_emoji = unicodedata.category(before) in _EMOJI or (before == "\ufe0f" and at > 1 and _belongs(text, at - 1))
        return sign == "\u200d" and is_emoji and after != "" and unicodedata.category(after) == "So"
    if sign in "\ufe0e\ufe0f":
        if before.isascii():
            return before in "#*0123456789" and after == "\u20e3"
        return unicodedata.category(before) in ("So", "Sm", "Po", "Pd") or before == "\u2139"
    return sign in "\u180b\u180c\u180d\u180f" and bool(_MONGOLIAN.match(before))


def _joins(sign: str) -> bool:
    """Say whether a sign, or "", is a letter or mark beside which a joiner has a meaning."""
    return bool(_JOINING.match(sign)) and unicodedata.category(sign)[0] in "LM" and not _BLANK.match(sign)


def _without_links(text: str) -> str:
    """Return a text with `[words](address)` and `![words](address)` replaced by their words, nested ones too."""
    if "](" not in text:
        return text
    closing, opened_by = _pairs(text, "(", ")"), {end: start for start, end in _pairs(text, "[", "]").items()}
    gone = bytearray(len(text))
    end_of_gone = 0
    for at in (match.start() for match in re.finditer(r"\]\(", text)):
        start, end = opened_by.get(at), closing.get(at + 1)
        if start is None or end is None:
            continue
        gone[at] = gone[start] = 1
        if start and text[start - 1] == "!":
            gone[start - 1] = 1
        # Each sign is marked once, however deep links are nested, so the work stays linear.
        first = max(at + 1, end_of_gone)
        if end >= first:
            gone[first : end + 1] = b"\x01" * (end + 1 - first)
            end_of_gone = end + 1
    return "".join(sign for sign, is_gone in zip(text, gone, strict=True) if not is_gone)


def _pairs(text: str, opening: str, closing: str) -> dict[int, int]:
    """Return, for each opening bracket with a closing one, the place of the latter."""
    found: dict[int, int] = {}
    waiting: list[int] = []
    for match in re.finditer(f"[{re.escape(opening + closing)}]", text):
        if match[0] == opening:
            waiting.append(match.start())
        elif waiting:
            found[waiting.pop()] = match.start()
    return found


def _without_addresses(text: str) -> str:
    """Return a text without addresses that run code. If no address follows a scheme, its colon is separated from it."""
    folded = _fold(text)
    kept: list[str] = []
    done = 0
    for match in _RUNS.finditer(folded):
        if match.start() < done:
            continue
        end = match.end()
        if end < len(text) and not text[end].isspace():
            kept.append(text[done : match.start()])
            while end < len(text) and not text[end].isspace():
                end += 1
        else:
            kept.append(text[done : end - 1] + " :")
        done = end
    return "".join([*kept, text[done:]])


def _fold(text: str) -> str:
    """Return a text in lower case and in normal width, sign by sign, so that offsets do not change."""
    if text.isascii():
        return text.lower()
    return "".join(_plain(sign) for sign in text)


def _plain(sign: str) -> str:
    plain = unicodedata.normalize("NFKC", sign).lower()
    return plain if len(plain) == 1 else sign
