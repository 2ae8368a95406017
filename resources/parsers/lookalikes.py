"""What was meant as front matter that restricts, and is none: another rule, another syntax, another place."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from pipelines.groups import means_groups

FIRST_LINES = 40
"""Lines in which a rule may stand that begins what was meant as front matter."""
MOST_LINES, LONGEST_LINE = 400, 4000
_RULES, _EM = ("---", "+++", ";;;"), "—―–"
_DASHES = re.compile(r"[-‐-―−]+")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_KEY = re.compile(r"[-?\s]*[\"'\[{]*(?P<key>[^\s:=\"'`|<>#*(\[{][^:=\"'`|<>()]{0,60}?)[\"']?\s*[:=](?P<value>.*)")
_CONTINUED = re.compile(r"\s+\S|[-\[\]{}\"',#]|\.\.\.")
_SENTENCE = re.compile(r"\s*(?:\S+\s+){3,}\S*[.!?;:…](?:\s|$)")
_JSON_KEY = re.compile(r"[\"']([^\"']{1,60})[\"']\s*:")


def groups_under_rule(text: str) -> str:
    """The line that names groups under one that looks like a rule, in the first lines of a text; "" where none does.

    Lines are looked at from the rule to the first of prose: a thematic break is followed by that."""
    lines = [_plain(line) for line in text[: 1 << 18].splitlines()[: FIRST_LINES + MOST_LINES]]
    fenced, begun = "", False
    for at, line in enumerate(lines[:FIRST_LINES]):
        bare = line.strip()
        if fence := _FENCE.match(bare):
            # What is at the very head is no example of something, but the head itself.
            fenced = "" if fenced == fence[1] else fenced or (fence[1] if begun else "")
        if not fenced and _is_rule(bare, begun):
            found = next(_named(lines[at + 1 : at + MOST_LINES], bare.lstrip("-+;")), "")
            if found:
                return found.strip()[:80]
        begun = begun or bool(bare)
    return ""


def _is_rule(line: str, begun: bool) -> bool:
    """Also with something beside it, as dashes of another length, and as the brace that begins JSON at the head."""
    dashes = any(char in line for char in _EM) and _DASHES.fullmatch(line)
    return "|" not in line and bool(dashes or line.startswith(_RULES) or (not begun and line.startswith("{")))


def _plain(line: str) -> str:
    """A line as it is seen: full-width and no-break characters as the plain ones, what cannot be seen left out."""
    if line.isascii():
        return line
    return "".join(char for char in unicodedata.normalize("NFKC", line) if unicodedata.category(char) != "Cf")


def _named(lines: list[str], beside: str) -> Iterator[str]:
    for line in (beside, *lines):
        if any(means_groups(key) for key in _JSON_KEY.findall(line)):
            yield line
        key = _KEY.match(line[:LONGEST_LINE])
        if key and not _SENTENCE.match(key["value"]):
            if means_groups(key["key"]):
                yield line
        elif line is not beside and line.strip() and not _CONTINUED.match(line):
            return
