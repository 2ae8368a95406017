"""Strings made from a pattern to make it slow, and how the steps of its matching grow with their length.

Every repeat is pumped: what comes before it, then its own characters over and over, then an ending at which the
pattern just fails. What comes before it is pumped too, for a search that begins anew at every place.
"""

from __future__ import annotations

import re
import re._constants as op
import re._parser as parser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from tests.support.matching_steps import Matcher, TooManySteps, inside

_PROBES = " \t\n\r0 1a Zжя_.,:;!?…-–—'’\"“»()[]{}<>/\\|=+*#~`@&%$€§^•\x00\x0b\xa0é中\u0301"
_FAILS = "\x00Ж\n\x00"
"""An ending that no class of characters takes whole."""
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_CATEGORY = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


class _Strings:
    """Examples of the parts of one pattern."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.tree = parser.parse(pattern, flags)
        self._groups: dict[int, object] = {}
        self._known: dict[int, list[str]] = {}
        self.letters = list(dict.fromkeys(self._letters(self.tree)))[:24]

    def _letters(self, tree: object) -> Iterator[str]:
        for code, value in tree:  # type: ignore[attr-defined]
            yield from self.characters(code, value)[:3]
            for inner in inside(code, value):
                yield from self._letters(inner)

    def characters(self, code: object, value: object) -> list[str]:
        """Characters that one node takes, of different kinds; those of a class are looked for once."""
        if code is op.LITERAL:
            return [chr(value)]  # type: ignore[arg-type]
        if code is op.NOT_LITERAL:
            return [item for item in "a0 ._" if ord(item) != value]
        if code is op.ANY:
            return list("a0 ._(")
        if code is op.IN:
            if id(value) not in self._known:
                ends = [chr(at) for kind, given in value for at in _ends(kind, given)]  # type: ignore[attr-defined]
                tried = dict.fromkeys([*ends[:3], *_PROBES, *ends[3:8]])
                self._known[id(value)] = [item for item in tried if _takes(value, item)]
            return self._known[id(value)]
        return []

    def example(self, tree: object, choice: int = 0) -> str:
        """The least text that a part takes; `choice` among its branches and characters."""
        parts = []
        for code, value in tree:  # type: ignore[attr-defined]
            characters = self.characters(code, value)
            if characters:
                parts.append(characters[choice % len(characters)])
            elif code in _REPEATS:
                parts.append(self.example(value[2], choice) * min(value[0], 50))
            elif code is op.BRANCH:
                parts.append(self.example(value[1][choice % len(value[1])], choice))
            elif code is op.SUBPATTERN:
                self._groups[value[0]] = value[3]
                parts.append(self.example(value[3], choice))
            elif code is op.ATOMIC_GROUP:
                parts.append(self.example(value, choice))
            elif code is op.GROUPREF and value in self._groups:
                parts.append(self.example(self._groups[value], choice))
        return "".join(parts)

    def pumps(self, tree: object, before: str = "", after: str = "") -> Iterator[tuple[str, str, str]]:
        """Prefix, what is pumped, and what the pattern goes on with."""
        items = list(tree)  # type: ignore[call-overload]
        for at, (code, value) in enumerate(items):
            prefix = before + self.example(items[:at])
            rest = self.example(items[at + 1 :]) + after
            if prefix:
                yield from (("", mark + prefix, rest) for mark in ("", " ", "\n"))
            if code in _REPEATS:
                bodies = [self.example(value[2], choice) for choice in range(6)]
                for body in filter(None, dict.fromkeys(bodies)):
                    yield prefix, body, rest
                yield from self.pumps(value[2], prefix, rest)
            else:
                for inner in inside(code, value):
                    yield from self.pumps(inner, prefix, rest)


def _ends(kind: object, given: object) -> tuple[int, ...]:
    return given if kind is op.RANGE else (given,) if kind is op.LITERAL else ()  # type: ignore[return-value]


def _takes(value: object, character: str) -> bool:
    negated = found = False
    for kind, given in value:  # type: ignore[attr-defined]
        if kind is op.NEGATE:
            negated = True
        elif kind is op.CATEGORY:
            found = found or re.match(_CATEGORY[given], character) is not None
        else:
            low, high = given if kind is op.RANGE else (given, given)
            found = found or low <= ord(character) <= high
    return found is not negated


@dataclass(frozen=True)
class Attack:
    """A text of any length: a beginning, a part that is repeated, and an ending."""

    begin: str
    pump: str
    end: str

    def text(self, times: int) -> str:
        return self.begin + self.pump * times + self.end


def attacks(pattern: str, flags: int = 0) -> list[Attack]:
    """Return the attacks on a pattern, the most promising first."""
    strings = _Strings(pattern, flags)
    families: dict[Attack, None] = {}
    pumps = list(dict.fromkeys(islice(strings.pumps(strings.tree), 160)))
    for kind in range(4):
        for prefix, body, rest in pumps:
            families[Attack(prefix, body, (_FAILS, _FAILS[1:], rest[:-1] + _FAILS, "")[kind])] = None
        for letter in strings.letters if kind == 0 else ():
            families[Attack("", letter, _FAILS)] = families[Attack("\x00", letter, _FAILS[1:])] = None
    for one, other in product(strings.letters[:7], repeat=2):
        families[Attack("", one + other, _FAILS)] = None
    return list(families)


# ---------------------------------------------------------------- growth


@dataclass(frozen=True)
class Growth:
    """The beginning of a text under which a pattern is slow, its length, and the steps that it takes."""

    begin: str
    characters: int
    steps: int


_TIMES = 8
"""Repeats of the pumped part in the shortest text."""
_LINEAR = 2.1
"""By how much the second doubling of a text may cost more than the first. Linear costs give 2, quadratic ones come
nearer to 4 with each doubling, so a text that stays above this is doubled again."""
_LONGEST = 1 << 14
"""Characters up to which a pattern with a bounded repeat, say {0,300}, may look quadratic."""
_LONG, _WORST = 1_000, 12
"""The characters from which attacks are compared by an eighth of the text, and how many are then tried in full."""
_MOST = 1_000_000
"""Steps that no text of up to _LONGEST characters may take. What doubles with each character takes them at once."""


def growth(matcher: Matcher, method: str, attack: Attack, limit: int = _MOST) -> Growth | None:
    """Return a text of more than `limit` steps under which they grow faster than its length, or None if they do not."""
    increase: int | None
    times, before, increase = _TIMES, steps(matcher, method, attack.text(_TIMES)), None
    while True:
        times *= 2
        text = attack.text(times)
        now = steps(matcher, method, text, limit)
        if now > limit:
            return Growth(text[:60], len(text), now)
        if increase is not None and (now - before <= _LINEAR * increase or len(text) > _LONGEST):
            return None
        before, increase = now, now - before


def steps(matcher: Matcher, method: str, text: str, most: int = _MOST) -> int:
    """Return the steps that a method takes with a text, all matches included; a number above `most` if it is more."""
    matcher.steps, matcher.most = 0, most
    try:
        if method in ("finditer", "search"):
            for _ in matcher.finditer(text):
                pass
        else:
            getattr(matcher, method)(text)
    except TooManySteps:
        return most + 1
    return matcher.steps


def slow(
    pattern: str | bytes,
    flags: int = 0,
    methods: Sequence[str] = ("fullmatch", "finditer"),
    most: int | None = None,
    limit: int = _MOST,
) -> Growth | None:
    """Return the first attack under which a pattern takes more than linear time by any of the methods; `most` is the
    number of attacks that are tried, the first and as many of the others; `limit` the steps after which it is sure."""
    matcher, tried = _prepared(pattern, flags)
    tried = [*tried[:most], *tried[most :: max(1, len(tried) // most)]] if most else tried
    found = (growth(matcher, method, attack, limit) for method in methods for attack in tried)
    return next(filter(None, found), None)


def most_steps(pattern: str | bytes, flags: int, methods: Sequence[str], longest: int, most: int = _MOST) -> int:
    """Return the steps of the worst attack of at most `longest` characters; a number above `most` if it is more.

    The attacks are compared by shorter texts first, and the worst of them tried in full.
    """
    matcher, tried = _prepared(pattern, flags)

    def taken(method: str, attack: Attack, length: int) -> int:
        return steps(matcher, method, attack.text(max(1, length // len(attack.pump)))[-length:], most)

    every = [(method, attack) for method in methods for attack in tried]
    if longest >= _LONG:
        every = sorted(every, key=lambda one: taken(one[0], one[1], longest // 8))[-_WORST:]
    return max(taken(method, attack, longest) for method, attack in every)


def _prepared(pattern: str | bytes, flags: int) -> tuple[Matcher, list[Attack]]:
    text, flags = (pattern, flags) if isinstance(pattern, str) else (pattern.decode("latin-1"), flags | re.ASCII)
    return Matcher(text, flags), attacks(text, flags)
