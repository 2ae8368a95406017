"""The joining of two lines of a paragraph: with a space, directly, or directly without the hyphen.

A line break becomes a space only in scripts that separate words by spaces. Chinese, Japanese, Thai, Lao, Khmer and
Burmese do not; Korean does. The document's own words decide whether a hyphen at the end of a line is kept. Its own
lines decide whether Chinese or Japanese is separated by a space from Latin letters and digits.

Readers of text with soft line breaks call `unwrap` or `DocumentWords.runs`. Hard breaks (`<br>`, two spaces at the end
of a line in Markdown) are separate runs `\\n`, and become spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property

from pipelines.records import Block, BlockCell, TextRun

# ---------------------------------------------------------------- scripts


_HAN_AND_KANA = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3031-\u303c\u3041-\u312f\u31a0-\u33ff\u3400-\u4dbf\u4e00-\ua4cf"
    "\uf900-\ufaff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff65-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_EAST_MARKS = (
    "\u3001-\u3004\u3008-\u3020\u3030\u303d\ufe10-\ufe19\ufe30-\ufe4f"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff64"
)
_EITHER_MARKS = "‘’“”…—·"
"""Punctuation that Chinese and Latin scripts share; the character on the other side shows the script."""
_THAI_TO_KHMER = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"
_FIRST_UNSPACED = "\u0e00"
_LETTER = re.compile(f"[{_HAN_AND_KANA}]")
_MARK = re.compile(f"[{_EAST_MARKS}]")
_LETTER_OR_MARK = re.compile(f"[{_HAN_AND_KANA}{_EAST_MARKS}{_EITHER_MARKS}]")
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")
_SOUTH_EAST = re.compile(f"[{_THAI_TO_KHMER}]")
_MIXED = re.compile(f"[{_HAN_AND_KANA}]( ?)[A-Za-z0-9]|[A-Za-z0-9]( ?)[{_HAN_AND_KANA}]")


def is_spaced(before: str, after: str) -> bool:
    """Say whether a space belongs between two lines, judged by the two characters that meet."""
    last, first = before[-1:], after[:1]
    if max(last, first) < _FIRST_UNSPACED:
        return True
    if _SOUTH_EAST.match(last) and _SOUTH_EAST.match(first):
        return False
    if _MARK.match(last) or _MARK.match(first):
        return bool(_HANGUL.match(last) or _HANGUL.match(first))
    east = _LETTER_OR_MARK.match(last) and _LETTER_OR_MARK.match(first)
    return not (east and (_LETTER.match(last) or _LETTER.match(first)))


def _are_mixed(before: str, after: str) -> bool:
    last, first = before[-1:], after[:1]
    if max(last, first) < _FIRST_UNSPACED:
        return False
    return _MIXED.fullmatch(last + first) is not None


# ---------------------------------------------------------------- hyphens


_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+)*")
_DIVIDED = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)[-‐\xad]\s*$")
_REST = re.compile(r"(?<!\s)\s*+([^\W\d_]++(?:-[^\W\d_]++)*+)")
_HYPHENS = ("-", "‐", "\xad")
LEAST_PART = 3
LONGEST_WORD = 100
_CONJUNCTIONS = "and or nor to und oder bis sowie et ou och eller або та і й чи или и"
_SUSPENDED = frozenset(_CONJUNCTIONS.split())
"""Words after a suspended hyphen, as in `short- and long-term`."""
_LINE_BREAK = re.compile(r"(?<!\s)[^\S\n]*+\n\s*+")


class Joint(Enum):
    """The way in which two lines are joined: with a space, directly, or directly without the hyphen."""

    SPACE = " "
    NOTHING = ""
    NO_HYPHEN = "-"


def _divided_word(text: str) -> re.Match[str] | None:
    """Return the word before the hyphen at the end of the text. Only the end is searched, since a page may hold a word
    of a hundred thousand letters."""
    end = text[-LONGEST_WORD:].rstrip()
    return _DIVIDED.search(end) if end[-1:] in _HYPHENS else None


class DocumentWords:
    """The document's own lines and words, which decide how its lines are joined."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)

    @cached_property
    def _known_words(self) -> tuple[set[str], set[str]]:
        """The words of the lines, and the compounds written with a hyphen."""
        words: set[str] = set()
        compounds: set[str] = set()
        divided = False
        for line in self.lines:
            whole = _REST.sub(" ", line, count=1) if divided else line
            end = _divided_word(line)
            divided = end is not None
            for word in _WORD.findall((whole.rstrip()[: -len(end.group())] if end else whole).lower()):
                if "-" in word:
                    compounds.add(word)
                    words.update(word.split("-"))
                else:
                    words.add(word)
        return words, compounds

    @cached_property
    def _mixes_tightly(self) -> bool:
        """True if Chinese or Japanese next to Latin text usually has no space within the lines."""
        spaces = [bool(a or b) for line in self.lines for a, b in _MIXED.findall(line)]
        return 2 * sum(spaces) < len(spaces)

    def joint(self, before: str, after: str) -> Joint:
        """Return how two consecutive lines of a paragraph are joined."""
        if before[-1:].isalnum() and before[-1:] < _FIRST_UNSPACED and after[:1] < _FIRST_UNSPACED:
            return Joint.SPACE
        before, after = before[-LONGEST_WORD:].rstrip(), after[: 2 * LONGEST_WORD].lstrip()
        if not before or not after:
            return Joint.SPACE
        if before[-1] in _HYPHENS and before[-2:-1].isalnum() and after[0].isalnum():
            rest = _REST.match(after)
            if rest is not None and rest[1].lower() in _SUSPENDED:
                return Joint.SPACE
            return Joint.NO_HYPHEN if self.is_soft(before, after) else Joint.NOTHING
        tight = not is_spaced(before, after) or (_are_mixed(before, after) and self._mixes_tightly)
        return Joint.NOTHING if tight else Joint.SPACE

    def is_soft(self, before: str, after: str) -> bool:
        """Say whether the hyphen between two parts of a line is dropped. It is kept before a capital or digit, and in a
        compound that this document also writes with a hyphen, or whose parts are both words here."""
        divided, rest = _divided_word(before), _REST.match(after)
        if divided is None or rest is None or rest[1][0].isupper():
            return False
        if before.rstrip().endswith("\xad"):
            return True
        words, compounds = self._known_words
        a, b = divided[1].lower(), rest[1].lower()
        if a + b in words or a + b in compounds:
            return True
        if f"{a}-{b}" in compounds:
            return False
        last, first = a.rsplit("-", 1)[-1], b.split("-", 1)[0]
        both = last in words and first in words and min(len(last), len(first)) >= LEAST_PART
        return not both and "-" not in a + b

    def runs(self, runs: Iterable[TextRun]) -> tuple[TextRun, ...]:
        """Return the runs of a block with their lines joined. A line begins at a run that is not joined to the one
        before, and after a line break within a run."""
        made: list[TextRun] = []
        for run in runs:
            run = replace(run, text=self._in_one_line(run.text)) if "\n" in run.text and run.text.strip() else run
            if made and _begins_line(made[-1], run):
                joint = self.joint(made[-1].text, run.text)
                if joint is not Joint.SPACE:
                    made[-1] = _trim(made[-1], hyphen=joint is Joint.NO_HYPHEN)
                    run = replace(run, text=run.text.lstrip(), joined=True)
            made.append(run)
        return tuple(made)

    def cells(self, cells: Iterable[BlockCell]) -> tuple[BlockCell, ...]:
        """Return the cells of a table, with the lines of each cell joined."""
        return tuple(replace(cell, runs=self.runs(cell.runs)) if _has_lines(cell) else cell for cell in cells)

    def _in_one_line(self, text: str) -> str:
        """Return a text of several lines as one line; hard line breaks become spaces."""
        parts: list[str] = []
        last = 0
        for found in _LINE_BREAK.finditer(text):
            end = found.start()
            joint = self.joint(
                text[max(last, end - LONGEST_WORD) : end], text[found.end() : found.end() + 2 * LONGEST_WORD]
            )
            if joint is not Joint.SPACE:
                parts.append(text[last : end - (joint is Joint.NO_HYPHEN)])
                last = found.end()
        return "".join((*parts, text[last:]))


def _has_lines(cell: BlockCell) -> bool:
    return len(cell.runs) > 1 or any("\n" in run.text for run in cell.runs)


def _begins_line(before: TextRun, run: TextRun) -> bool:
    """Say whether there is only a soft line break between two runs. A run that is itself a line break is a hard one."""
    if not before.text.strip() or not run.text.strip():
        return False
    if not run.joined:
        return not _are_side_by_side(before, run)
    between = before.text[len(before.text.rstrip()) :] + run.text[: len(run.text) - len(run.text.lstrip())]
    return "\n" in between


def _are_side_by_side(before: TextRun, run: TextRun) -> bool:
    """Say whether two runs are on one line of a page, like pieces of one cell."""
    a, b = before.box, run.box
    if a is None or b is None or a.page != b.page or b.x0 < a.x1:
        return False
    return 2 * (min(a.y1, b.y1) - max(a.y0, b.y0)) > min(a.y1 - a.y0, b.y1 - b.y0)


def _trim(run: TextRun, hyphen: bool) -> TextRun:
    """Return a run without the space, and the hyphen, at its end. If its place is exact, the place is shortened too."""
    text = run.text.rstrip()[: -1 if hyphen else None]
    end = run.source_end
    if end is not None and run.source_start is not None and end - run.source_start == len(run.text):
        end = run.source_start + len(text)
    return replace(run, text=text, source_end=end)


# ---------------------------------------------------------------- blocks


_AS_WRITTEN = frozenset(("code", "formula"))


def unwrap(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the blocks of a file with soft line breaks, with the lines of each block joined."""
    words = DocumentWords(line for block in blocks for line in _lines(block))
    return tuple(
        replace(block, runs=words.runs(block.runs), cells=words.cells(block.cells))
        if block.kind not in _AS_WRITTEN
        else block
        for block in blocks
    )


def _lines(block: Block) -> Iterator[str]:
    for runs in (block.runs, *(cell.runs for cell in block.cells)):
        text = "".join(run.text if run.joined else f"\n{run.text}" for run in runs)
        yield from text.split("\n")
