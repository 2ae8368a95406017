"""The units of an answer: statements of passages, each with the sentences that belong to it.

A heading, title, question or mail header is not a statement. The lead-in of a list belongs to its items, a heading
with a full stop (`2. RENT. The tenant pays ...`) to the sentence after it, and the sentence before to one that begins
with a bare pronoun. A label (`COVERED SERVICES: Acupuncture`) is a statement only if it adds to the headings above it.

The punctuation at the ends of lines decides, which most languages share; the lists of pronouns and mail headers are
English and Ukrainian.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipelines.query.support import Evidence
from pipelines.terms import terms_of

# ---------------------------------------------------------------- kinds of sentences


LONGEST_LIST = 1_200
"""Most characters of a list that are quoted with its lead-in; a longer list is cut after an item. A longer line is not
a lead-in, since it would be quoted and compared with each item."""
LEAST_WORDS = 5
"""Fewest words of a statement without a full stop; a shorter line is a heading."""
LEAST_ITEM_WORDS = 3
"""Fewest words of a list item that is a statement without a lead-in."""

_CLOSING = " \t\n\r\"'”’»“)]*_"
_STOPS = ".!…。！।｡"
_QUESTION_MARKS = "?？؟"
_ROW = " | "
_CAPTION = "figure_caption"
_ITEM = "list_item"
_LABEL = re.compile(
    r"\s*+(?:(?:article|section|clause|стаття|розділ|пункт)\s++)?(?:§+\s*+)?"
    r"(?:(?:[0-9]{1,3}\.){1,6}[0-9]{0,3}|[0-9]{1,3}\)|\(?[a-z]\)|[IVX]{1,5}\.)\s++",
    re.IGNORECASE,
)
_MAIL_HEADER = re.compile(
    r"\s*+(?:>|(?:from|to|cc|bcc|sent|subject|reply-to|від|кому|копія|надіслано|тема)\s*+:)", re.IGNORECASE
)
_ADVERBS = (
    r"(?:(?:additionally|however|also|moreover|furthermore|therefore|thus|but|and|then|крім\s+того|проте|однак|також|тому)"
    r",?\s++)?+"
)
_VERBS = (
    r"(?:is|are|was|were|will|can|cannot|could|may|might|must|should|would|shall|do|does|did|has|have|had|means?"
    r"|include|includes|included|appl(?:y|ies)|also|allows?|helps?|makes?|gives?|ensures?|covers?|costs?|takes?|not|only)\b"
)
_PRONOUN = re.compile(
    rf"\s*+{_ADVERBS}(?:(?:they|he|she)\b|it\s++(?!(?:is|was|may\s++be)\s++(?:also\s++)?\w++\s++(?:to|that)\b)"
    rf"|(?:this|these|that|those|it)\s++{_VERBS}(?!\s++\w++\s++(?:to|that)\b)"
    r"|(?:вони|він|вона|воно)\b|це\s++(?:[—–-]|означа|стосу|не\s|є\s|дає|дозвол|робит|бул|буд|має|мож|потріб|треба))",
    re.IGNORECASE,
)
_VERB = re.compile(rf"\b{_VERBS}", re.IGNORECASE)
MOST_HEAD_WORDS = 8
"""Most words of a heading within a line, without its number."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of answers. Each can be turned off to measure its effect."""

    statements: bool = True
    lists: bool = True
    antecedents: bool = True
    clauses: bool = True
    quantities: bool = True
    spelling: bool = True
    definitions: bool = True
    subjects: bool = True
    one: bool = True


ALL = Rules()


def last_sign(text: str) -> str:
    """Return the last sign of a text, ignoring closing quotes and brackets."""
    return text.rstrip(_CLOSING)[-1:]


def begins_with_pronoun(text: str) -> bool:
    """Say whether a sentence begins with a pronoun whose noun is in the sentence before."""
    return _PRONOUN.match(text) is not None


def begins_as_heading(text: str) -> bool:
    """Say whether the first sentence of a line is the heading of the others, as in `2. RENT. The tenant pays ...`: a
    few words without a verb, with a number or a capital letter in each long word."""
    label = _LABEL.match(text)
    words = text[label.end() if label else 0 :].split()
    if not 0 < len(words) <= MOST_HEAD_WORDS or last_sign(text) != "." or _VERB.search(text):
        return False
    long = [word for word in words if len(word) > 3 and word[0].isalpha()]
    if label and len(words) < LEAST_WORDS:
        return bool(long)
    return bool(long) and all(word[0].isupper() for word in long)


# ---------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that may be quoted. `parts` are its sentences in order; `evidence` is the one that a citation points
    to. `terms` are the terms of `parts`, `cosine` is the statement's. `rest` has the further items of a list, which are
    quoted but do not count as support."""

    evidence: Evidence
    parts: tuple[Evidence, ...]
    terms: frozenset[str]
    cosine: float | None
    rest: tuple[Evidence, ...] = ()

    @property
    def text(self) -> str:
        sentences = [item.sentence.text for item in (*self.parts, *self.rest)]
        return ("\n" if self.rest or last_sign(sentences[0]) == ":" else " ").join(sentences)

    @property
    def is_stripped(self) -> bool:
        return any(item.sentence.stripped for item in (*self.parts, *self.rest))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a passage, with the evidence in it. `apart` says that an empty line precedes it."""

    text: str
    apart: bool
    evidence: list[Evidence]

    @property
    def alone(self) -> bool:
        """True if the line is a single fragment, and not a sentence or row."""
        return last_sign(self.text) not in (*_STOPS, *_QUESTION_MARKS) and _ROW not in self.text

    @property
    def leads(self) -> bool:
        """True if the line may introduce a list."""
        return last_sign(self.text) == ":" and len(self.text) <= LONGEST_LIST

    @property
    def is_item(self) -> bool:
        return any(item.sentence.kind == _ITEM for item in self.evidence)


def statements_of(evidence: Sequence[Evidence], rules: Rules = ALL) -> list[Statement]:
    """Return the statements of evidence, in reading order."""
    if not rules.statements:
        return [_single(item) for item in evidence]
    return [
        statement
        for _, own in groupby(evidence, key=lambda item: item.passage.number)
        for statement in _of_passage(list(own), rules)
    ]


def _single(item: Evidence) -> Statement:
    return Statement(item, (item,), item.terms, item.sentence.cosine)


def _of_passage(evidence: Sequence[Evidence], rules: Rules) -> Iterator[Statement]:
    lines, led = _lines_of(evidence), False
    head: Evidence | None = None
    for at, line in enumerate(lines):
        if rules.lists and line.leads and line.evidence and (items := _items_below(lines, at)):
            yield from _of_list(line.evidence, items)
        if rules.lists and at:
            above = lines[at - 1]
            # An item of a list with a lead-in that can be quoted, or below such an item.
            led = bool(above.evidence) if above.leads else led and not line.apart
        if _is_heading(line):
            head = line.evidence[0]
            continue
        for place, item in enumerate(line.evidence):
            if not place and len(line.evidence) > 1 and begins_as_heading(item.sentence.text):
                head = item
                continue
            if _states(item, line, led, at > 0 and not line.apart and lines[at - 1].alone):
                noun = line.evidence[place - 1] if place and _lacks_noun(item, rules) else None
                before = head or noun
                yield _with_sentence_before(before, item) if before else _single(item)
            head = None


def _lines_of(evidence: Sequence[Evidence]) -> list[_Line]:
    """Return the lines of a passage. A sentence that was changed, or that spans several lines, is a separate line."""
    text = evidence[0].passage.text
    lines, starts, at, apart = list[_Line](), list[int](), 0, True
    for part in text.split("\n"):
        if part.strip():
            lines.append(_Line(part, apart, []))
            starts.append(at)
        apart = not part.strip()
        at += len(part) + 1
    number, own = 0, dict[int, list[_Line]]()
    for item in evidence:
        found = text.find(item.sentence.text, starts[number]) if starts and "\n" not in item.sentence.text else -1
        if found < 0:
            own.setdefault(number, []).append(_Line(item.sentence.text, True, [item]))
        else:
            number = bisect_right(starts, found) - 1
            lines[number].evidence.append(item)
    if not lines:
        return own.get(0, [])
    return [each for at, line in enumerate(lines) for each in (line, *own.get(at, ()))]


def _items_below(lines: Sequence[_Line], at: int) -> list[_Line]:
    """Return the lines of the list that a line introduces."""
    items: list[_Line] = []
    for place in range(at + 1, len(lines)):
        line = lines[place]
        if (line.apart and items) or last_sign(line.text) == ":" or _ROW in line.text:
            break
        items.append(line)
    if len(items) == 1 and not items[0].is_item:
        return []
    return [line for line in items if line.evidence]


def _of_list(lead: Sequence[Evidence], items: Sequence[_Line]) -> Iterator[Statement]:
    """Yield a list as a whole, and each of its items with the lead-in."""
    first = lead[-1]
    heads = (*lead[-2:-1], first) if begins_with_pronoun(first.sentence.text) else (first,)
    own = frozenset().union(*(item.terms for item in heads))
    every = [item for line in items for item in line.evidence]
    rest, room = list[Evidence](), LONGEST_LIST
    for item in every:
        room -= len(item.sentence.text) + 1
        if room < 0 and rest:
            break
        rest.append(item)
    yield Statement(first, heads, own, first.sentence.cosine, tuple(rest))
    for item in every:
        yield Statement(item, (*heads, item), own | item.terms, _mean(first, item))


def _mean(one: Evidence, other: Evidence) -> float | None:
    near = [item.sentence.cosine for item in (one, other) if item.sentence.cosine is not None]
    return sum(near) / len(near) if near else None


def _with_sentence_before(before: Evidence, item: Evidence) -> Statement:
    return Statement(item, (before, item), before.terms | item.terms, item.sentence.cosine)


def _lacks_noun(item: Evidence, rules: Rules) -> bool:
    return rules.antecedents and begins_with_pronoun(item.sentence.text)


def _is_heading(line: _Line) -> bool:
    """Say whether a line is a heading with a full stop: `2. RENT.`, but not an item, nor `Dr. Smith.`"""
    if len(line.evidence) != 1 or line.is_item or not begins_as_heading(text := line.evidence[0].sentence.text):
        return False
    return text.isupper() or _LABEL.match(text) is not None


def _states(item: Evidence, line: _Line, led: bool, listed: bool) -> bool:
    """Say whether a sentence alone is a statement. `led` and `listed` say that its line is in a list with, or without,
    a lead-in."""
    text, sign = item.sentence.text, last_sign(item.sentence.text)
    if sign in _QUESTION_MARKS or sign == ":" or _MAIL_HEADER.match(text) or item.sentence.kind == _CAPTION:
        return False
    if item.terms <= item.about:
        return False
    if _ROW in text or sign in _STOPS:
        return True
    if led:
        return False
    _, colon, value = text.partition(": ")
    if colon:
        return not item.about.issuperset(terms_of(value))
    words = text.split()
    if listed or line.is_item:
        return len(words) >= LEAST_ITEM_WORDS
    return len(words) >= LEAST_WORDS and not _in_capitals(words)


def _in_capitals(words: Sequence[str]) -> bool:
    """Say whether most long words begin with a capital letter, as in a title."""
    long = [word for word in words[1:] if len(word) > 3 and word[0].isalpha()]
    return bool(long) and 2 * sum(word[0].isupper() for word in long) > len(long)
