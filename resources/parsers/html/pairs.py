"""Labels with values in the forms of a page: neighbours whose classes say what they are.

`<span class="field-label">Order</span> <span class="field-value">17</span>` is a pair; so are `label` and
`value`, `form__key` and `form__value`: class names alike but for that word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from pipelines.records import Block, Run
from resources.parsers.text.key_values import key_value
from resources.parsers.text.source_text import Finder

_LABEL, _VALUE = (re.compile(rf"\A(?P<stem>.*?)(?:\b|_)(?:{word})", re.IGNORECASE) for word in ("label|key", "value"))


def pairs_of(root: Any, blocks: Collection[str]) -> dict[Any, Any]:
    """The element of each value, and that of its label. Neither holds an element of `blocks`, and between them
    stands nothing but a colon."""
    found = {}
    for label in root.iter():
        value = label.getnext() if isinstance(label.tag, str) and label.get("class") else None
        if value is None or not isinstance(value.tag, str) or (label.tail or "").strip(" \t\r\n:"):
            continue
        alike = set(_stems(label, _LABEL)) & set(_stems(value, _VALUE))
        plain = not any(inner.tag in blocks for element in (label, value) for inner in element.iterdescendants())
        if alike and plain and key_value(_words(label), _words(value)):
            found[value] = label
    return found


def pair_block(label: Any, value: Any, finder: Finder) -> Block:
    name, words = _words(label).rstrip(" :"), _words(value)
    runs = (finder.run(name), Run(": ", joined=True), finder.run(words, joined=True))
    return Block("key_value", runs, metadata=key_value(name, words))


def _stems(element: Any, pattern: re.Pattern[str]) -> Iterator[str]:
    for name in (element.get("class") or "").split():
        if matched := pattern.fullmatch(name):
            yield matched["stem"].casefold()


def _words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())
