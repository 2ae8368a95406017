"""The parts of an EPUB's style sheets that affect reading: hidden elements, and prominent paragraphs.

Only rules for an element, a class, or both are used; other selectors are ignored.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from pipelines.parsing.hidden import HiddenContent
from resources.parsers.through_html import HIDDEN_MARK, Look, drop, look_mark

_SELECTOR = re.compile(r"([a-z][a-z0-9]*+)?(?:\.([\w-]++))?", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)(em|rem|%|pt|px)")
_IN_POINTS = {"em": 12.0, "rem": 12.0, "%": 0.12, "pt": 1.0, "px": 0.75}
_WORDS = {
    "small": 10.0,
    "smaller": 10.0,
    "medium": 12.0,
    "large": 14.4,
    "larger": 14.4,
    "x-large": 18.0,
    "xx-large": 24.0,
}
_MOST_BYTES = 4 << 20
"""Most bytes of one style sheet that are read."""
_NEVER_SHOWN = frozenset(("head", "title", "style", "script"))
_BOLD = frozenset(("b", "strong", "th"))


class Rule(NamedTuple):
    """The used declarations of a rule; a missing one is None."""

    hidden: bool | None = None
    bold: bool | None = None
    size: float | None = None


Rules = dict[tuple[str, str], Rule]
"""Rules by element and class, either of which may be empty."""
Sheets = tuple[Rules, ...]
"""The style sheets of a page; later ones take precedence."""
MOST_SHEETS = 20
"""Most linked style sheets of one page that are used."""


def rules_of(css: str) -> Rules:
    """Return the rules of a style sheet that have simple selectors. A later rule adds to an earlier one."""
    plain = "".join(part.rpartition("*/")[2] if at else part for at, part in enumerate(css.split("/*")))
    found: Rules = {}
    for chunk in plain.split("}"):
        head, _, body = chunk.rpartition("{")
        rule = _rule(body)
        if rule == Rule():
            continue
        for selector in head.rpartition("{")[2].split(","):
            matched = _SELECTOR.fullmatch(selector.strip())
            if matched and selector.strip():
                key = (matched[1] or "").lower(), matched[2] or ""
                found[key] = _both(found.get(key, Rule()), rule)
    return found


def _rule(body: str) -> Rule:
    values = {}
    for declaration in body.split(";"):
        name, _, value = declaration.partition(":")
        values[name.strip().lower()] = value.partition("!")[0].strip().lower()
    display, weight, size = values.get("display"), values.get("font-weight"), values.get("font-size", "")
    hidden = None if display is None else display == "none"
    if values.get("visibility") == "hidden":
        hidden = True
    bold = None if weight is None else weight in ("bold", "bolder", "600", "700", "800", "900")
    measured = _SIZE.fullmatch(size)
    points = float(measured[1]) * _IN_POINTS[measured[2]] if measured else _WORDS.get(size)
    return Rule(hidden, bold, points)


def _both(first: Rule, second: Rule) -> Rule:
    return Rule(
        first.hidden if second.hidden is None else second.hidden,
        first.bold if second.bold is None else second.bold,
        first.size if second.size is None else second.size,
    )


class PageStyles:
    """The rules for the pages of a book."""

    def __init__(self, package: zipfile.ZipFile) -> None:
        self._package = package
        self._sheets: dict[str, Rules] = {}

    def of_page(self, page: Any, linked: Iterator[str]) -> Sheets:
        """Return the rules of a page: those of each linked sheet, and its own. They are not merged, since pages times
        rules have no bound."""
        own: Rules = {}
        for style in page.iter("style"):
            for key, rule in rules_of(style.text or "").items():
                own[key] = _both(own.get(key, Rule()), rule)
        return (*map(self._sheet, islice(dict.fromkeys(linked), MOST_SHEETS)), own)

    def _sheet(self, part: str) -> Rules:
        if part not in self._sheets:
            self._sheets[part] = {}
            with suppress(KeyError), self._package.open(part) as stream:
                self._sheets[part] = rules_of(stream.read(_MOST_BYTES).decode("utf-8", "replace"))
        return self._sheets[part]


def rule_for(element: Any, sheets: Sheets) -> Rule:
    """Return the declarations of an element, from the rules and its own style."""
    tag = element.tag if isinstance(element.tag, str) else ""
    names = (element.get("class") or "").split()[:20]
    found = Rule(bold=True if tag in _BOLD else None)
    for key in [(tag, ""), *[("", name) for name in names], *[(tag, name) for name in names]]:
        for rules in sheets:
            if key in rules:
                found = _both(found, rules[key])
    style = element.get("style")
    found = _both(found, _rule(style)) if style else found
    return found._replace(hidden=True) if element.get("hidden") is not None else found


def leave_out_hidden(page: Any, sheets: Sheets, content: HiddenContent) -> None:
    """Remove the hidden elements of a page or a part of it, or mark them if they are read."""
    settled: set[Any] = set()
    left_out = []
    for element in [element for element in page.iterdescendants("*") if rule_for(element, sheets).hidden]:
        if element in settled:  # it is within another
            continue
        if element.tag in _NEVER_SHOWN or not "".join(element.itertext()).strip():
            continue
        settled.update(element.iter("*"))
        if content.take("elements"):
            _mark(element)
            for name in ("hidden", "style", "class"):  # the reader of pages would hide it again
                element.attrib.pop(name, None)
        else:
            left_out.append(element)
    drop(left_out)


def _mark(element: Any) -> None:
    """Insert a mark before each text in an element."""
    for inner in element.iter("*"):
        if (inner.text or "").strip():
            inner.text = f"{HIDDEN_MARK}{inner.text}"
        if inner is not element and (inner.tail or "").strip():
            inner.tail = f"{HIDDEN_MARK}{inner.tail}"


def mark_looks(page: Any, sheets: Sheets) -> None:
    """Append marks of their style to paragraphs."""
    from lxml import etree

    looks = [(False, 12.0)]
    letters = strong = 0
    size = 0.0

    def count(text: str | None) -> None:
        nonlocal letters, strong, size
        found = sum(map(str.isalnum, text or ""))
        if found:
            bold, points = looks[-1]
            letters += found
            strong += found if bold else 0
            size = min(size or points, points)

    for event, element in etree.iterwalk(page, events=("start", "end")):
        if not isinstance(element.tag, str):
            continue
        if event == "start":
            rule = rule_for(element, sheets)
            bold, points = looks[-1]
            looks.append((bold if rule.bold is None else rule.bold, rule.size or points))
            if element.tag in ("p", "div"):
                letters = strong = 0
                size = 0.0
            count(element.text)
        else:
            looks.pop()
            if element.tag == "p" and letters:
                mark = look_mark(Look(size, letters == strong))
                if len(element):
                    element[-1].tail = (element[-1].tail or "") + mark
                else:
                    element.text = (element.text or "") + mark
            count(element.tail)
