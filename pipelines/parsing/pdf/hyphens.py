"""Words divided at the end of a line: which hyphens are only line-end hyphens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipelines.parsing.pdf.lines import Line
from pipelines.records import Run

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+)*")
_DIVIDED = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)[-‐\xad]\s*$")
_REST = re.compile(r"(?<!\s)\s*+([^\W\d_]++(?:-[^\W\d_]++)*+)")
LEAST_PART = 3
LONGEST_WORD = 100


def _divided(text: str) -> re.Match[str] | None:
    """The word that a hyphen at the end of the text divides. Only the end is looked at: a page may
    hold one word of a hundred thousand letters."""
    end = text.rstrip()
    return _DIVIDED.search(end[-LONGEST_WORD:]) if end[-1:] in ("-", "‐", "\xad") else None


class Hyphens:
    """Decides by the document's own words."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.words: set[str] = set()
        self.compounds: set[str] = set()
        divided = False
        for line in lines:
            whole = _REST.sub(" ", line, count=1) if divided else line
            end = _divided(line)
            divided = end is not None
            for word in _WORD.findall((whole.rstrip()[: -len(end.group())] if end else whole).lower()):
                if "-" in word:
                    self.compounds.add(word)
                    self.words.update(word.split("-"))
                else:
                    self.words.add(word)

    def is_soft(self, before: str, after: str) -> bool:
        """Whether the hyphen between two line parts goes: not before a capital or a digit, not in
        a compound that stands elsewhere with its hyphen or whose parts are both words here."""
        divided, rest = _divided(before), _REST.match(after)
        if divided is None or rest is None or rest[1][0].isupper():
            return False
        if before.rstrip().endswith("\xad"):
            return True
        a, b = divided[1].lower(), rest[1].lower()
        if a + b in self.words or a + b in self.compounds:
            return True
        if f"{a}-{b}" in self.compounds:
            return False
        last, first = a.rsplit("-", 1)[-1], b.split("-", 1)[0]
        both = last in self.words and first in self.words and min(len(last), len(first)) >= LEAST_PART
        return not both and "-" not in a + b

    def runs(self, lines: Sequence[Line]) -> list[Run]:
        """Runs of a block, one a line."""
        runs: list[Run] = []
        for line in lines:
            joined = False
            if runs and _divided(runs[-1].text) and _REST.match(line.text):
                joined = True
                if self.is_soft(runs[-1].text, line.text):
                    runs[-1] = replace(runs[-1], text=runs[-1].text.rstrip()[:-1])
            runs.append(Run(line.text, line.box, joined=joined, gaps=line.gaps))
        return runs
