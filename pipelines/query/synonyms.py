"""The user's own synonyms, in the format of Solr's synonym files, and the search for their entries in a question.

Each line of a file has one rule. `PP&E, fixed assets` searches each for the other. `capex => capital expenditure, PP&E`
searches the right side instead of the left one; if the right side repeats the entry, the entry is kept. Rules with the
same entry on the left add up. A backslash removes the special meaning of the next character.

Entries and questions are compared by their terms, so inflected forms match if the index has one term for them: in
Cyrillic, if their first six letters are the same. Two spellings with the same terms are one entry. Where entries
overlap in a question, the one that begins first counts, and the longest of those that begin at one word. Entries that
are added to a question do not add further entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.errors import SettingsError
from pipelines.terms import terms_of

MOST_CHARACTERS = 1_000_000
"""Most characters of a file, since all of it is read before the first question is answered."""
MOST_RULES = 10_000
MOST_WORDS = 20
"""Most terms of an entry, since each word of a question may begin the longest entry. In scripts without spaces, two
neighbouring characters are a term."""
MOST_ENTRY_CHARACTERS = 300
"""Most characters of an entry, which is shown in full wherever it is added to a question."""
MOST_ADDED = 100
"""Most entries that one entry may add to a question, with all its rules. A list of n entries has n times n pairs, and
the search time grows with all that are added."""
_SHOWN = 60
"""Most characters of an entry in a message."""

_LINE_END = re.compile(r"\r\n|\r|\n")
"""The ends of lines that editors count, unlike those of `str.splitlines`."""
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
"""NUL and half surrogates, which no database accepts; bytes that are not UTF-8 become half surrogates in a text."""
_ESCAPED = re.compile(r"\\.")
_PART = re.compile(r"\\(.)|=>|,|[^\\=,]+|=")
_LIKE_AN_ARROW = re.compile(r"<=|[-–—]>|[→⇒⟶⟹]")
_ASIDE = re.compile(r"\s#(?:\s|$)")

Terms = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A text to search for in addition to an entry, or instead of it, as written in the file, with its terms and its
    line."""

    text: str
    terms: Terms
    line: int


@dataclass(frozen=True, slots=True)
class Expansion:
    """An entry that was found in a question, at the terms from `start` up to `end`. `asked` is the entry as first
    written in the file, in `line`. `replaces` says that `added` is searched instead of the entry."""

    start: int
    end: int
    asked: str
    added: tuple[Alternative, ...]
    replaces: bool
    line: int


@dataclass(slots=True)
class _Entry:
    """An entry with the texts that each of its rules adds. A list, or a right side that repeats the entry, adds the
    entry itself too. All entries of a rule share one tuple, so memory is proportional to the file's length."""

    first: Alternative
    rules: list[tuple[Alternative, ...]] = field(default_factory=list)
    most_added: int = 0

    def expansion(self, start: int, end: int) -> Expansion | None:
        """Return the texts that the entry adds at these terms, or None if it adds only itself."""
        added: dict[Terms, Alternative] = {}
        for rule in self.rules:
            for each in rule:
                added.setdefault(each.terms, each)
        replaces = added.pop(self.first.terms, None) is None
        if not added:
            return None
        return Expansion(start, end, self.first.text, tuple(added.values()), replaces, self.first.line)


@dataclass(slots=True)
class _Node:
    """A node in the tree of entries: the nodes of the next terms, and the entry that ends here."""

    after: dict[str, _Node] = field(default_factory=dict)
    entry: _Entry | None = None


class Synonyms:
    """The entries of a synonym file by their terms. `Synonyms()` has none."""

    def __init__(self, entries: Mapping[Terms, _Entry] | None = None) -> None:
        self._root = _Node()
        for terms, entry in (entries or {}).items():
            node = self._root
            for term in terms:
                node = node.after.setdefault(term, _Node())
            node.entry = entry

    def found_in(self, terms: Sequence[str]) -> list[Expansion]:
        """Return the entries in a question, from left to right, without overlaps.

        `terms` is the result of `terms_of` for the question, in order and with repeats.
        """
        found: list[Expansion] = []
        start = 0
        while start < len(terms):
            entry, end = self._longest(terms, start)
            if entry is not None and (expansion := entry.expansion(start, end)) is not None:
                found.append(expansion)
            start = end
        return found

    def _longest(self, terms: Sequence[str], start: int) -> tuple[_Entry | None, int]:
        """Return the longest entry that begins at a term, and its end; if no entry begins there, return None and the
        next term."""
        longest, end = None, start + 1
        node: _Node | None = self._root
        for at in range(start, len(terms)):
            node = node.after.get(terms[at]) if node is not None else None
            if node is None:
                break
            if node.entry is not None:
                longest, end = node.entry, at + 1
        return longest, end


def read_synonyms(text: str, origin: str) -> Synonyms:
    """Return the synonyms of a file's text; `origin` names the file in errors.

    Raise SettingsError with the number of the first invalid line, or if the file is too large.
    """
    if len(text) > MOST_CHARACTERS:
        raise SettingsError(
            f"{origin}: the file has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read: shorten it"
        )
    if bad := _NO_TEXT.search(text):
        number = 1 + sum(1 for _ in _LINE_END.finditer(text, 0, bad.start()))
        what = "a NUL character" if bad[0] == "\x00" else "a character that is no text (half of a surrogate pair)"
        raise SettingsError(f"{origin} line {number}: holds {what}; save the file as UTF-8 text")
    entries: dict[Terms, _Entry] = {}
    for count, (number, line) in enumerate(_rules(text), start=1):
        where = f"{origin} line {number}"
        if count > MOST_RULES:
            raise SettingsError(f"{where}: more than {MOST_RULES:,} rules; leave some out")
        left, right = _sides(line, number, where)
        rule = tuple(right.values())
        for terms, written in left.items():
            entry = entries.setdefault(terms, _Entry(written))
            entry.rules.append(rule)
            entry.most_added += max(1, len(rule) - (terms in right))  # a rule that adds nothing takes time too
            if entry.most_added > MOST_ADDED:
                raise SettingsError(
                    f"{where}: {_printable(written.text)} has more than {MOST_ADDED} synonyms, those of lines above "
                    "included; leave some out"
                )
    return Synonyms(entries)


def _rules(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither empty nor comments, each with its number."""
    for number, line in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), start=1):
        if (rule := line.strip()) and not rule.startswith("#"):
            yield number, rule


def _sides(line: str, number: int, where: str) -> tuple[dict[Terms, Alternative], dict[Terms, Alternative]]:
    """Return the entries left and right of the arrow by their terms; all entries of a list are on both sides."""
    bare = _ESCAPED.sub("", line)
    if bare.endswith("\\"):
        raise SettingsError(f"{where}: ends with a backslash; write the rule on one line, or \\\\ for a backslash")
    if bare.count("=>") > 1:
        raise SettingsError(f"{where}: has two arrows; write one rule a line, or \\=> for an arrow within an entry")
    if like := _LIKE_AN_ARROW.search(bare):
        raise SettingsError(
            f"{where}: has {like[0]!r} where a rule has =>; write =>, or a backslash before {like[0]!r} to keep it"
        )
    if _ASIDE.search(bare):
        raise SettingsError(f"{where}: has a comment after a rule; put it on a line of its own, or write \\# for #")
    parts: list[list[list[str]]] = [[[]]]
    for part in _PART.finditer(line):
        if part[0] == "=>":
            parts.append([[]])
        elif part[0] == ",":
            parts[-1].append([])
        else:
            parts[-1][-1].append(part[1] or part[0])
    sides = [[" ".join("".join(entry).split()) for entry in side] for side in parts]
    for side, name in zip(sides, ("left", "right"), strict=False):
        if len(sides) > 1 and not any(side):
            raise SettingsError(f"{where}: the arrow has nothing on its {name}; write `entry => other, another`")
    if len(sides) == 1 and len(sides[0]) == 1:
        raise SettingsError(f"{where}: has a single entry; write its synonyms after a comma or =>, or delete the line")
    made = [_entries(side, number, where) for side in sides]
    return made[0], made[-1]


def _entries(texts: Sequence[str], number: int, where: str) -> dict[Terms, Alternative]:
    """Return the entries of one side of a rule by their terms, each once."""
    found: dict[Terms, Alternative] = {}
    for text in texts:
        if not text:
            raise SettingsError(f"{where}: has an empty entry; delete the comma, or write \\, for one within an entry")
        if len(text) > MOST_ENTRY_CHARACTERS:
            raise SettingsError(
                f"{where}: {_printable(text)} has {len(text):,} characters; at most {MOST_ENTRY_CHARACTERS} are taken "
                "for an entry: shorten it"
            )
        terms = tuple(terms_of(text))
        if not terms:
            raise SettingsError(
                f"{where}: {_printable(text)} has no letter or digit, so no search finds it; delete it or write it "
                "in words"
            )
        if len(terms) > MOST_WORDS:
            raise SettingsError(
                f"{where}: {_printable(text)} has {len(terms)} words; at most {MOST_WORDS} are taken for an entry: "
                "shorten it"
            )
        found.setdefault(terms, Alternative(text, terms, number))
    return found


def _printable(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()} …")
