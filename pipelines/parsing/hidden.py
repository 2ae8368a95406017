"""One rule for content that a file holds and does not show: it is left out and counted, unless a setting takes it.

Words that are struck out count as deleted, whatever strikes them: a look in Word, Excel, PowerPoint or Writer, `<del>`,
`<s>` or a style of a page, `~~` in Markdown. An answer must not quote what its author took back. A PDF draws such lines
like any others, so its words are read.

Every reader asks `HiddenContent.taken` about each hidden part that it meets (a row, a sheet, a slide, an element of a
page, a passage), and adds the warnings to those of the file.
"""

from __future__ import annotations

from collections import Counter

from pipelines.plural import plural

DELETED = "deletions"
"""Name of words that are deleted or struck out, for `HiddenContent.taken`."""
METADATA = {"hidden": "true"}
"""Metadata of a block that a file hides and that is read all the same."""


class HiddenContent:
    """The hidden parts of one file by what they are, and whether they are read (`parsing.hidden: read`)."""

    def __init__(self, read: bool = False) -> None:
        self.read = read
        self.counts: Counter[str] = Counter()

    def take(self, what: str, count: int = 1) -> bool:
        """Count hidden parts of one kind, named in the plural, such as `rows` or `lines of
        invisible text`. Return whether to read them."""
        self.counts[what] += count
        return self.read

    def warnings(self) -> tuple[str, ...]:
        """Return one warning that counts the hidden parts; none if there are none."""
        named = ", ".join(_count_text(count, what) for what, count in sorted(self.counts.items()) if count)
        if not named:
            return ()
        if self.read:
            return (f"hidden in the file, and read: {named}",)
        return (f"hidden in the file, and left out: {named}; `parsing.hidden: read` takes them",)


def _count_text(count: int, what: str) -> str:
    noun, space, rest = what.partition(" ")
    return plural(count, noun.removesuffix("s")) + space + rest
