"""The rule for hidden content of files: it is left out and counted, unless `parsing.hidden` includes it.

Struck-out words count as deleted, whether the strike is a font style in Word, Excel, PowerPoint or Writer, `<del>`,
`<s>` or CSS in a web page, or `~~` in Markdown. An answer must not quote text that its author deleted. In a PDF a
strike is an ordinary line, so struck-out words are read.

Every reader calls `HiddenContent.take` for each hidden part (a row, sheet, slide, page element or passage), and adds
the warnings to those of the file.
"""

from __future__ import annotations

from collections import Counter

from pipelines.plural import plural

DELETED = "deletions"
"""Name of deleted or struck-out words, for `HiddenContent.take`."""
METADATA = {"hidden": "true"}
"""Metadata of a hidden block that is read because of `parsing.hidden: read`."""


class HiddenContent:
    """The hidden parts of one file by kind, and whether they are read (`parsing.hidden: read`)."""

    def __init__(self, read: bool = False) -> None:
        self.read = read
        self.counts: Counter[str] = Counter()

    def take(self, what: str, count: int = 1) -> bool:
        """Count hidden parts of one kind, named in the plural, such as `rows` or `lines of
        invisible text`. Return whether to read them."""
        self.counts[what] += count
        return self.read

    def warnings(self) -> tuple[str, ...]:
        """Return one warning that counts the hidden parts; return () if there are no hidden parts."""
        named = ", ".join(_count_text(count, what) for what, count in sorted(self.counts.items()) if count)
        if not named:
            return ()
        if self.read:
            return (f"hidden in the file, and read: {named}",)
        return (f"hidden in the file, and left out: {named}; `parsing.hidden: read` takes them",)


def _count_text(count: int, what: str) -> str:
    noun, space, rest = what.partition(" ")
    return plural(count, noun.removesuffix("s")) + space + rest
