"""Strings made from a pattern to make it slow, and a measure of how its time grows with their length.

Every repeat is pumped: what comes before it, then its own characters over and over, then an ending at which the
pattern just fails. What comes before it is pumped too, for a search that begins anew at every place.
"""

from __future__ import annotations

import re
import re._constants as op
import re._parser as parser
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import log

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
        self.letters = list(dict.fromkeys(self._letters(self.tree)))[:24]

    def _letters(self, tree: object) -> Iterator[str]:
        for code, value in tree:  # type: ignore[attr-defined]
            yield from self.characters(code, value)[:3]
            for inner in _inside(code, value):
                yield from self._letters(inner)

    def characters(self, code: object, value: object) -> list[str]:
        """Characters that one node takes, of different kinds."""
        if code is op.LITERAL:
            return [chr(value)]  # type: ignore[arg-type]
        if code is op.NOT_LITERAL:
            return [item for item in "a0 ._" if ord(item) != value]
        if code is op.ANY:
            return list("a0 ._(")
        if code is op.IN:
            ends = [chr(at) for kind, given in value for at in _ends(kind, given)]  # type: ignore[attr-defined]
            return [item for item in dict.fromkeys([*ends[:3], *_PROBES, *ends[3:8]]) if _takes(value, item)]
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
                for inner in _inside(code, value):
                    yield from self.pumps(inner, prefix, rest)


def _inside(code: object, value: object) -> list[object]:
    if code in _REPEATS:
        return [value[2]]  # type: ignore[index]
    if code is op.BRANCH:
        return list(value[1])  # type: ignore[index]
    if code is op.SUBPATTERN:
        return [value[3]]  # type: ignore[index]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [value[1]]  # type: ignore[index]
    return [value] if code is op.ATOMIC_GROUP else []


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


def attacks(pattern: str, flags: int = 0) -> Iterator[Callable[[int], str]]:
    """Functions from a length to a text of about that length, those that find most first."""
    strings = _Strings(pattern, flags)
    families: dict[tuple[str, str, str], None] = {}
    pumps = list(islice(strings.pumps(strings.tree), 160))
    for letter in strings.letters:
        families["", letter, _FAILS] = families["\x00", letter, _FAILS[1:]] = None
    for one, other in product(strings.letters[:7], repeat=2):
        families["", one + other, _FAILS] = None
    for kind in range(4):
        for prefix, body, rest in pumps:
            families[prefix, body, (_FAILS, _FAILS[1:], rest[:-1] + _FAILS, "")[kind]] = None
    for prefix, body, ending in families:
        yield lambda n, parts=(prefix, body, ending): parts[0] + parts[1] * max(1, n // len(parts[1])) + parts[2]  # type: ignore[misc]


# ---------------------------------------------------------------- growth


@dataclass(frozen=True)
class Growth:
    """An attack and the power of its length with which the time grows."""

    text: str
    power: float


_LENGTHS = (10, 16, 24, 34, 48, 68, 96, 136, 190, 270, 400, 1200)
_QUICK = 0.0004
"""Seconds of the processor from which it is worth to measure the growth: linear time takes few patterns there."""
_TIMES, _TIMES_BOUNDED = 16, 100
_STEP, _SHORT_STEP = 1.3, 1.1
"""How much longer the next text is; the short one where a text took long already, and the next may take very long."""
_LONG = 0.005
_LINEAR = 1.5


def growth(run: Callable[[str], object], text: Callable[[int], str], longest: int | None = None) -> Growth | None:
    """How the time grows with the length where that is more than linear; None where it is linear, or where no
    text up to `longest` takes much. Judged by how much longer a text must be to take
    16 times as long, or 100 times where it is bounded."""
    length = next((n for n in _LENGTHS if _time(run, text(n)) > _QUICK and _best(run, text(n)) > _QUICK), 0)
    if not length or (length == _LENGTHS[-1] and _best(run, text(length)) < 5 * _best(run, text(length // 3))):
        return None
    first, seconds, at = (size := len(text(length))), (begun := _best(run, text(length))), length
    while seconds < (_TIMES_BOUNDED if longest else _TIMES) * begun:
        if size >= _TIMES * first or at >= (longest or _TIMES * length):
            return None
        at = int(at * (_STEP if seconds < _LONG else _SHORT_STEP)) + 1
        size, seconds = len(text(at)), _best(run, text(at))
    # What else the machine does makes a time longer, never shorter.
    seconds = min(seconds, _best(run, text(at)), _best(run, text(at)))
    power = log(seconds / begun) / log(size / first)
    return Growth(text(24), power) if power > _LINEAR else None


def _best(run: Callable[[str], object], text: str) -> float:
    """Of three times, the least; of a long one, itself."""
    first = _time(run, text)
    return first if first > 10 * _LONG else min(first, *(_time(run, text) for _ in range(2)))


def _time(run: Callable[[str], object], text: str) -> float:
    begun = time.thread_time()
    run(text)
    return time.thread_time() - begun


def slow(
    pattern: str | bytes,
    flags: int = 0,
    methods: Sequence[str] = ("fullmatch", "finditer"),
    longest: int | None = None,
    most: int | None = None,
) -> Growth | None:
    """The first attack under which a pattern takes more than linear time, by any of the methods; `longest` is the
    longest text that the code gives it, `most` how many attacks are tried, the first and as many of the others."""
    text, flags = (pattern, flags) if isinstance(pattern, str) else (pattern.decode("latin-1"), flags | re.ASCII)
    compiled = re.compile(text, flags)
    tried = list(attacks(text, flags))
    tried = [*tried[:most], *tried[most :: max(1, len(tried) // most)]] if most else tried
    for method in methods:
        run = (
            (lambda text: sum(1 for _ in compiled.finditer(text)))
            if method == "finditer"
            else getattr(compiled, method)
        )
        for attack in tried:
            if found := growth(run, attack, longest):
                return found
    return None
