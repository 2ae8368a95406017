"""Headings of a DOCX, found by style, number and format together.

A style or an outline level makes a heading. Any other short line is a heading if its format differs from the text that
follows: it is larger, bold, underlined, in capitals, centred or numbered. The format is compared with the surrounding
text, so bold does not count in bold text. A line without following text, among lines of its own format, or before short
lines such as an address needs more evidence, or a format that makes headings elsewhere in the document. Levels follow
the styles; below them, lines of one format or one depth of numbers have the same level in the whole document.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from pipelines.records import Block

# ---------------------------------------------------------------- lines


@dataclass(frozen=True, slots=True)
class ParagraphLook:
    """The format of a paragraph: the size in points of most letters, and the properties of all letters. `number` is its
    marker in the numbered list `list_key`, `level` its level there, `role` the name of its style."""

    text: str
    size: float | None = None
    bold: bool = False
    italic: bool = False
    underlined: bool = False
    capitals: bool = False
    centred: bool = False
    kept: bool = False
    number: str = ""
    list_key: str = ""
    level: int = 0
    role: str = ""


class Rank(NamedTuple):
    """The format of a line that may be a heading, ordered from the strongest down."""

    size: float
    bold: bool
    centred: bool
    capitals: bool
    underlined: bool
    italic: bool


class Numbered(NamedTuple):
    """The number of a line: the kind of numbering, its depth, and the first figure or letter."""

    kind: str = ""
    depth: int = 0
    first: str = ""


Key = tuple[Rank, Numbered]

LONGEST_HEADING = 100
"""Most characters of a line that may be a heading. Chinese and Japanese letters count as three."""
MOST_WORDS, MANY_WORDS = 14, 9
"""Most words of a line that may be a heading, and the number from which it may also be a sentence without a full
stop."""
LONGEST_STYLED, LONGEST_SENTENCE = 250, 120
"""Most characters of a paragraph, and of a sentence, that counts as a heading by style. Contracts have clauses in such
styles."""
LARGER = 1.15
"""Ratio to the size of the text from which a line is prominent by size alone."""
SLIGHTLY_LARGER = 1.04
FEWEST, FEWEST_ALONE = 2, 3
"""Fewest points of a heading before text, and of one before anything else. See `_points`."""
PROSE_LENGTH = 40
"""Fewest characters of a paragraph that counts as text and not as one more short line."""
LONG_PROSE = 60
"""Fewest characters of a paragraph whose format counts as the usual one at its position."""
SAMPLE, NEAR = 3, 10
"""Texts after a line that are examined, and blocks after it that are searched for them."""
MOST_LINES = 3
"""Most consecutive lines of one large format, such as a title of several lines."""
MOST_LEVELS = 12
"""Most formats that have a separate level."""
DEEPEST = 9

CAPTION = re.compile(r"(table|figure|fig\.|tabelle|abbildung|таблиця|рисунок|рис\.|таблица)\s*\d", re.IGNORECASE)
_NO_HEADING = re.compile(
    r"(?:toc|table of|verzeichnis|index|subtitle|untertitel|caption|header|footer|signature|date|quote)"
)
_WORDS = (
    "chapter section article part annex appendix schedule exhibit clause title kapitel abschnitt artikel teil anhang "
    "anlage chapitre partie annexe titre capítulo sección artículo parte anexo título capitolo sezione articolo "
    "allegato rozdział część artykuł załącznik hoofdstuk bölüm madde розділ глава стаття частина додаток параграф "
    "раздел статья часть приложение"
)
_BY_WORD = re.compile(
    rf"(?P<kind>{'|'.join(_WORDS.split())}|§{{1,2}})\s*+(?:№\s*+)?(?P<first>\d{{1,4}}+|[ivxlc]{{1,7}}+|[a-zа-яіїє])"
    r"(?![\w])[.:)]?+(?P<rest>\s*+[–—-]?+\s*+(?:\S|\Z))",
    re.IGNORECASE,
)
_CHINESE = re.compile(r"第(?P<first>[〇一二三四五六七八九十百0-9０-９]{1,6}+)(?P<kind>[章节節条條编編部款])")
_DIGITS = re.compile(r"(?P<all>(?P<first>\d{1,3}+)(?:\.\d{1,3}+)*+)(?P<end>[.)]?+)(?:\s++|(?=[^\W\d])|\Z)")
_LETTER = re.compile(r"(?:(?P<roman>[IVXLC]{1,7}+)|(?P<letter>[A-ZА-ЯІЇЄ]))[.)]\s++|\(?(?P<small>[a-zа-яіїє])\)\s++")
_PAIR = re.compile(r"[^:]{1,30}:\s++\S")
_LEADERS = re.compile(r"[_.…]{4,}+")


def is_text(text: str) -> bool:
    """Say whether a paragraph is long enough to be ordinary text."""
    return _weight(text) >= LONG_PROSE


def is_clause(text: str) -> bool:
    """Say whether a paragraph is text even if its style makes it a heading: it is long, or a longer sentence."""
    return _weight(text) > (LONGEST_SENTENCE if text[-1:] in ".;。；" else LONGEST_STYLED)


def _weight(text: str) -> int:
    return len(text) + 2 * sum("\u2e80" <= char < "\ue000" for char in text) if not text.isascii() else len(text)


def parse_number(text: str) -> tuple[Numbered, str]:
    """Return the number that begins a text, and the text after it. `Article 5` is a number with its word."""
    if found := _BY_WORD.match(text) or _CHINESE.match(text):
        return Numbered(found["kind"].lower(), 1, found["first"].lower()), text[found.end() :]
    if (found := _DIGITS.match(text)) and (found["end"] or "." in found["all"]):
        return Numbered("1", found["all"].count(".") + 1, found["first"]), text[found.end() :]
    if found := _LETTER.match(text):
        kind = found.lastgroup or ""
        return Numbered(kind, 1, found[kind]), text[found.end() :]
    return Numbered(), text


def _number_of(line: ParagraphLook) -> tuple[Numbered, str]:
    if not line.number:
        return parse_number(line.text)
    own, _ = parse_number(f"{line.number.rstrip()} ")
    depth = max(line.level + 1, own.depth)
    return Numbered("1" if own.kind in ("1", "") or depth > 1 else own.kind, depth, own.first), line.text


def _in_order(numbers: list[tuple[Numbered, str]]) -> list[tuple[Numbered, str]]:
    """Return the numbers; Roman numerals that are letters in sequence, such as `C.` after `B.`, become letters."""
    found: list[tuple[Numbered, str]] = []
    last = ""
    for number, rest in numbers:
        follows = bool(last) and len(number.first) == 1 and ord(number.first) == ord(last) + 1
        own = number._replace(kind="letter") if number.kind == "roman" and follows else number
        last = own.first if own.kind == "letter" else last
        found.append((own, rest))
    return found


def _names_a_part(number: Numbered) -> bool:
    """Say whether a number has a word before it, such as `Article 5`."""
    return number.kind not in ("", "1", "roman", "letter", "small")


def _is_row(text: str) -> bool:
    """Say whether a line has columns, dots before a page number, or blanks to fill in."""
    return "\t" in text or _LEADERS.search(text) is not None


def _could_be(line: ParagraphLook, number: Numbered, rest: str) -> bool:
    """Say whether the words of a line may be a heading."""
    text = line.text
    if _weight(text) > LONGEST_HEADING or len(text.split()) > MOST_WORDS or text.count("\n") > 1:
        return False
    if _NO_HEADING.match(line.role) or CAPTION.match(text) or _is_row(rest.strip() if number.kind else text):
        return False
    if sum(map(str.isalpha, text)) <= 2 and not any(char >= "\u2e80" for char in text) and not _names_a_part(number):
        return False
    if text[-1] == "." and number.kind:
        return len(rest.split()) <= MOST_WORDS // 2
    if text[-1] in ".,;!。，；！、،؛" or "@" in text or "://" in text:
        return False
    if text[-1] in ":：":
        return line.bold or line.underlined
    pair = _PAIR.match(text)
    return _names_a_part(number) or not (pair and any(map(str.isdigit, text[pair.end() - 1 :])))


# ---------------------------------------------------------------- votes


def _points(line: ParagraphLook, number: Numbered, usual: ParagraphLook) -> int:
    """Return how much a line differs from the usual format, in points: two points are enough for a heading before
    text."""
    size = line.size / usual.size if line.size and usual.size else 1.0
    points = 3 if size >= LARGER else int(size >= SLIGHTLY_LARGER)
    points += 2 * (line.bold and not usual.bold) + 2 * (line.underlined and not usual.underlined)
    points += 2 * (line.capitals and not usual.capitals) + (line.italic and not usual.italic)
    points += line.centred and not usual.centred
    points += line.kept
    points -= len(line.text.split()) > MANY_WORDS and line.text[-1] not in "?؟？"
    if line.number:
        return points + (points > 0)
    return points + (2 if _names_a_part(number) else bool(number.kind))


class _Votes:
    """The lines of a document that may be headings, and the vote on each."""

    def __init__(self, blocks: Sequence[Block], lines: Sequence[ParagraphLook | None]) -> None:
        self.blocks, self.lines = blocks, lines
        self.numbers = _in_order([_number_of(line) if line is not None else (Numbered(), "") for line in lines])
        self.body = self._usual()
        self.points = self._all_points()
        self.keys = [self._key(at) if points else None for at, points in enumerate(self.points)]
        self.following = self._following()
        self.taken = [False] * len(blocks)
        self._vote()

    def _usual(self) -> ParagraphLook:
        """Return the format of most letters in the document."""
        letters: Counter[tuple[float | None, bool, bool, bool, bool, bool]] = Counter()
        for line in filter(None, self.lines):
            look = (line.size, line.bold, line.italic, line.underlined, line.capitals, line.centred)
            letters[look] += len(line.text)
        return ParagraphLook("", *letters.most_common(1)[0][0]) if letters else ParagraphLook("")

    def _all_points(self) -> list[int]:
        """Return the points of each line, 0 if it cannot be a heading."""
        points = [0] * len(self.lines)
        prose: deque[tuple[int, ParagraphLook]] = deque(maxlen=SAMPLE)
        for at in range(len(self.lines) - 1, -1, -1):
            line, block = self.lines[at], self.blocks[at]
            if line is None:
                continue
            number, rest = self.numbers[at]
            fits = block.kind == "paragraph" or (block.kind == "list_item" and line.number)
            if fits and _could_be(line, number, rest):
                points[at] = _points(line, number, self._usual_look([one for far, one in prose if far - at <= NEAR]))
            if block.kind in ("paragraph", "list_item") and is_text(line.text):
                prose.append((at, line))
        return [found if found >= FEWEST else 0 for found in points]

    def _usual_look(self, texts: list[ParagraphLook]) -> ParagraphLook:
        """Return the usual format of the following texts: their common properties, or, for a single text, those that it
        shares with the document."""
        sample = texts if len(texts) > 1 else [*texts, self.body]
        return ParagraphLook(
            "",
            sample[-1].size or self.body.size,
            bold=all(line.bold for line in sample),
            italic=all(line.italic for line in sample),
            underlined=all(line.underlined for line in sample),
            capitals=all(line.capitals for line in sample),
            centred=all(line.centred for line in sample),
        )

    def _key(self, at: int) -> Key:
        line = self.lines[at]
        assert line is not None
        size = round(2 * (line.size or self.body.size or 0.0)) / 2
        look = Rank(size, line.bold, line.centred, line.capitals, line.underlined, line.italic)
        number, rest = self.numbers[at]
        below = at + 1 < len(self.lines) and self.points[at + 1] and not self.numbers[at + 1][0].kind
        if below and _names_a_part(number) and not rest.strip():
            look = max(look, self._key(at + 1)[0])  # `Chapter I` is above its name, however that looks
        return look, number._replace(first="")

    def _following(self) -> list[int | None]:
        """Return the index of the block after each one, without breaks."""
        found: list[int | None] = []
        after: int | None = None
        for at in range(len(self.blocks) - 1, -1, -1):
            found.append(after)
            after = after if self.blocks[at].kind == "break" else at
        return found[::-1]

    def _vote(self) -> None:
        """Accept lines that stand before text, then lines whose format makes headings elsewhere."""
        rows = self._rows()
        for at in range(len(self.blocks) - 1, -1, -1):
            self.taken[at] = bool(self.points[at]) and self._is_one(at, rows[at], FEWEST_ALONE)
        made = Counter(key for key, taken in zip(self.keys, self.taken, strict=True) if taken)
        for at in range(len(self.blocks) - 1, -1, -1):
            if self.points[at] and not self.taken[at] and made[self.keys[at]] > 1:
                self.taken[at] = self._is_one(at, rows[at], FEWEST)

    def _rows(self) -> list[int]:
        """Return for each line the number of consecutive lines with its format."""
        found: list[int] = []
        for _, row in groupby(range(len(self.blocks)), key=lambda at: self.keys[at] or at):
            places = list(row)
            found += [len(places)] * len(places)
        return found

    def _is_one(self, at: int, row: int, least: int) -> bool:
        after = self.following[at]
        if after is None:
            return False
        points, key = self.points[at], self.keys[at]
        block = self.blocks[after]
        if self.blocks[at].kind == "list_item" and self._is_among_items(at, after):
            return False
        if row > self._most_lines(at):
            last = self.keys[after] != key and (self.blocks[at].kind == "paragraph" or least == FEWEST)
            if row > 2 or not (last or (least == FEWEST and self.taken[after])):
                return False
        if self.keys[after] == key and key is not None:
            return self.taken[after]
        if block.kind == "heading":
            return points >= least
        if self.taken[after]:
            return True
        line = self.lines[after]
        if block.kind == "paragraph" and line is not None:
            if _LEADERS.search(line.text):
                return False
            return points >= (FEWEST if self._is_text(after) else least)
        return True

    def _is_among_items(self, at: int, after: int) -> bool:
        """Say whether a list line is before or after a plain item of its level."""
        own = self.lines[at]
        near = [self.lines[place] for place in (at - 1, after) if place >= 0 and not self.points[place]]
        return any(line and own and (line.list_key, line.level) == (own.list_key, own.level) for line in near)

    def _is_text(self, at: int) -> bool:
        """Say whether a paragraph is text, and neither one more short line nor an italic line above text."""
        line, after = self.lines[at], self.following[at]
        if line is None:
            return True
        if _weight(line.text) >= PROSE_LENGTH or line.text[-1] in ".!?:;。！？：；،؛؟":
            return True
        below = self.lines[after] if line.italic and after is not None else None
        return below is not None and is_text(below.text)

    def _most_lines(self, at: int) -> int:
        """Return how many consecutive lines may be headings: a large or centred title may have several."""
        key = self.keys[at]
        if key is None or self.points[at] < FEWEST_ALONE:
            return 1
        large = self.body.size is not None and key[0].size >= LARGER * self.body.size
        return MOST_LINES if large else 1 + key[0].centred


# ---------------------------------------------------------------- levels


def with_headings(blocks: Sequence[Block], line_of: Callable[[Block], ParagraphLook | None]) -> list[Block]:
    """Return the blocks with all found headings marked, and with consistent levels. If there is a title by style, which
    has level 0, all other headings are one level deeper."""
    lines = [line_of(block) for block in blocks]
    votes = _Votes(blocks, lines)
    levels = _levels(blocks, lines, votes)
    made = [
        block if level is None else replace(block, kind="heading", level=level, marker=None)
        for block, level in zip(blocks, levels, strict=True)
    ]
    if min((level for level in levels if level is not None), default=1) > 0:
        return made
    return [replace(b, level=b.level + 1) if b.kind == "heading" and b.level is not None else b for b in made]


def _levels(blocks: Sequence[Block], lines: Sequence[ParagraphLook | None], votes: _Votes) -> list[int | None]:
    """Return the level of each heading, None for other blocks. Each group of formats is one level below the deepest
    heading above it: one by style, or one with a stronger format."""
    levels: list[int | None] = [block.level if block.kind == "heading" else None for block in blocks]
    group = _groups(votes)
    sizes = [line.size if line is not None else None for line in lines]
    for members in group:
        own = set(members)
        size = max(key[0].size for at in members if (key := votes.keys[at]) is not None)
        above: int | None = None
        deepest, outranked = -1, DEEPEST + 1
        for at, level in enumerate(levels):
            if at in own:
                deepest = max(deepest, above if above is not None else -1)
            elif level is not None and blocks[at].kind == "heading" and size > LARGER * (sizes[at] or size):
                outranked = min(outranked, level)
            elif level is not None:
                above = level
        highest = 1 if outranked > DEEPEST else max(outranked - 1, 0)
        found = highest if deepest < 0 else min(deepest + 1, DEEPEST)
        for at in members:
            levels[at] = found
    return levels


def _groups(votes: _Votes) -> list[list[int]]:
    """Return the indexes of lines that share a level, strongest first: those of one depth of numbers, or of one
    format."""
    looks: dict[Numbered, Counter[Rank]] = defaultdict(Counter)
    places: dict[tuple[Rank | None, Numbered], list[int]] = defaultdict(list)
    for at, key in enumerate(votes.keys):
        if key is not None and votes.taken[at]:
            looks[key[1]][key[0]] += 1
            places[(None if key[1].kind else key[0], key[1])].append(at)
    ranked = [(look or looks[number].most_common(1)[0][0], number, found) for (look, number), found in places.items()]
    ranked.sort(key=lambda entry: (*(-value for value in entry[0]), entry[2][0]))
    digits = iter(sorted((entry for entry in ranked if entry[1].kind == "1"), key=lambda entry: entry[1].depth))
    ordered = [next(digits) if entry[1].kind == "1" else entry for entry in ranked]
    groups: list[tuple[Rank, Numbered, list[int]]] = []
    for look, number, found in ordered:
        like = next((one for one in groups if one[0] == look and _are_alike(one, number, found)), None)
        if like is not None or len(groups) == MOST_LEVELS:
            (like or groups[-1])[2].extend(found)
        else:
            groups.append((look, number, list(found)))
    return [found for _, _, found in groups]


def _are_alike(group: tuple[Rank, Numbered, list[int]], number: Numbered, found: list[int]) -> bool:
    """Say whether lines of one format with two kinds of numbers, or with and without numbers, have the same level. They
    do not if the first kind continues among or after the other, or is a single line above all."""
    if max(group[1].depth, number.depth) > 1:
        return False
    above, below = sorted((group[2], found), key=min)
    later = next((at for at in sorted(above) if at > min(below)), None)
    if (number if above is found else group[1]).kind:
        return later is None
    return len(above) > 1 and (later is None or later > max(below))
