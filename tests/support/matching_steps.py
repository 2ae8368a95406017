"""A backtracking matcher that works as Python's `re` does and counts its steps.

The time of a match depends on the machine and on what else it does. The number of steps does not, so a test of how
the cost of a pattern grows gives the same answer everywhere. The matcher reads the tree that `re` itself parses. One
character at a time is checked by `re`, so classes, categories and flags mean the same here and there.
"""

from __future__ import annotations

import re
import re._compiler as compiler  # type: ignore[import-not-found]
import re._constants as op
import re._parser as parser
from collections.abc import Iterable, Iterator
from typing import Any

Registers = tuple[Any, ...]
Instruction = tuple[Any, ...]

_CHAR, _SPLIT, _JUMP, _AT, _RUN, _SAVE, _BEGIN, _LOOP, _LOOK, _ATOMIC, _AGAIN, _SAME, _IF, _FAIL, _DONE = range(15)
_ONE_CHARACTER = frozenset({op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN})
_GREEDY, _LAZY, _POSSESSIVE = range(3)
_KINDS = {op.MAX_REPEAT: _GREEDY, op.MIN_REPEAT: _LAZY, op.POSSESSIVE_REPEAT: _POSSESSIVE}


class TooManySteps(Exception):
    """A match that took more steps than it was allowed."""


class _Characters(dict[str, bool]):
    """The characters that one node of a pattern takes, found out as they are asked for."""

    def __init__(self, node: tuple[Any, Any], flags: int) -> None:
        self._one = _compiled(node, flags)
        self.run = _compiled((op.POSSESSIVE_REPEAT, (0, op.MAXREPEAT, _tree([node], flags))), flags)
        """The pattern that takes as many of them as there are."""

    def __missing__(self, character: str) -> bool:
        taken = self[character] = self._one.match(character) is not None
        return taken


def _tree(nodes: list[tuple[Any, Any]], flags: int) -> parser.SubPattern:
    state = parser.State()
    state.flags = flags
    return parser.SubPattern(state, nodes)


def _compiled(node: tuple[Any, Any], flags: int) -> re.Pattern[str]:
    return compiler.compile(_tree([node], flags), flags)  # type: ignore[no-any-return]


class Matcher:
    """One pattern. `steps` counts what all calls since the last reset took."""

    def __init__(self, pattern: str, flags: int = 0, most: int = 10**9) -> None:
        tree = parser.parse(pattern, flags)
        self._referred = set(_references(tree))
        self._registers = 2 * tree.state.groups
        self._code = self._program(tree, tree.state.flags)
        self._begins: dict[str, bool] = {}
        self.most, self.steps = most, 0

    def fullmatch(self, text: str) -> tuple[int, int] | None:
        """Return the span of a match of the whole text."""
        found = self._from(text, 0, whole=True)
        return None if found is None else (0, found)

    def match(self, text: str) -> tuple[int, int] | None:
        """Return the span of a match at the beginning."""
        found = self._from(text, 0)
        return None if found is None else (0, found)

    def search(self, text: str) -> tuple[int, int] | None:
        """Return the span of the first match."""
        return next(self.finditer(text), None)

    def finditer(self, text: str) -> Iterator[tuple[int, int]]:
        """Give the spans of all matches, as `re` finds them one after the other."""
        at, empty = 0, True
        previous = -1
        while at <= len(text):
            found = self._from(text, at, not_at=at if at == previous and empty else -1)
            if found is None:
                at += 1
                continue
            yield at, found
            empty, at = found == at, found
            previous = at

    def _from(self, text: str, at: int, whole: bool = False, not_at: int = -1) -> int | None:
        if at < len(text):
            begins = self._begins.get(text[at])
            if begins is None:
                begins = self._begins[text[at]] = _may_begin(self._code, 0, text[at])
            if not begins:
                self._count(1)
                return None
        found = self._run(self._code, text, at, (None,) * self._registers, whole, not_at)
        return None if found is None else found[0]

    def _run(
        self, code: list[Instruction], text: str, at: int, values: Registers, whole: bool = False, not_at: int = -1
    ) -> tuple[int, Registers] | None:
        """Return where a program ends and the registers that it leaves; None where it does not match."""
        end = len(text)
        left: list[tuple[int, int, Registers, int, _Characters | None]] = []
        place = steps = 0
        while True:
            steps += 1
            instruction = code[place]
            kind = instruction[0]
            fails = False
            if kind == _CHAR:
                if at < end and instruction[1][text[at]]:
                    at, place = at + 1, place + 1
                else:
                    fails = True
            elif kind == _RUN:
                _, characters, least, most, how = instruction
                place += 1
                stop = end if most is None else min(end, at + most)
                reached = characters.run.match(text, at, at + least if how == _LAZY else stop).end()
                steps += reached - at
                if reached - at < least:
                    fails = True
                elif how == _LAZY:
                    left.append((place, reached, values, stop, characters))
                    at = reached
                else:
                    if how == _GREEDY and reached > at + least:
                        left.append((place, reached - 1, values, at + least, None))
                    at = reached
            elif kind == _SPLIT:
                _, branches, known = instruction
                character = text[at] if at < end else ""
                others = known.get(character)
                if others is None:
                    others = known[character] = [one for one in branches if _may_begin(code, one, character)][::-1]
                steps += len(branches) - len(others)
                if others:
                    place = others[-1]
                    left.extend([(other, at, values, at, None) for other in others[:-1]])
                else:
                    fails = True
            elif kind == _JUMP:
                place = instruction[1]
            elif kind == _AT:
                fails = instruction[1].match(text, at) is None
                place += 1
            elif kind == _SAVE:
                values = _put(values, instruction[1], at)
                place += 1
            elif kind == _BEGIN:
                values = _put(values, instruction[1], (0, -1))
                place += 1
            elif kind == _LOOP:
                _, register, least, most, how, out = instruction
                times, last = values[register]
                more = most is None or times < most
                place += 1
                if times < least:
                    values = _put(values, register, (times + 1, last))
                elif how == _LAZY:
                    if more and last != at:
                        left.append((place, at, _put(values, register, (times + 1, at)), at, None))
                    place = out
                elif more and last != at:
                    left.append((out, at, values, at, None))
                    values = _put(values, register, (times + 1, at))
                else:
                    place = out
            elif kind == _LOOK:
                _, inner, width, wanted = instruction
                found = self._within(inner, text, at - width, values, steps) if at >= width else None
                steps = 0
                fails = (found is not None) is not wanted
                if found is not None and wanted:
                    values = found[1]
                place += 1
            elif kind == _ATOMIC:
                found = self._within(instruction[1], text, at, values, steps)
                steps = 0
                place += 1
                if found is None:
                    fails = True
                else:
                    at, values = found
            elif kind == _AGAIN:
                _, inner, least, most = instruction
                times, place = 0, place + 1
                while most is None or times < most:
                    found = self._within(inner, text, at, values, steps)
                    steps = 0
                    if found is None:
                        break
                    times, last = times + 1, at
                    at, values = found
                    if last == at and times >= least:
                        break
                fails = times < least
            elif kind == _SAME:
                began, ended = values[2 * instruction[1]], values[2 * instruction[1] + 1]
                place += 1
                fails = began is None or ended is None or not text.startswith(text[began:ended], at)
                if not fails:
                    at, steps = at + ended - began, steps + ended - began
            elif kind == _IF:
                place = place + 1 if values[2 * instruction[1] + 1] is not None else instruction[2]
            elif kind == _DONE:
                if not (whole and at != end) and at != not_at:
                    self._count(steps)
                    return at, values
                fails = True
            else:
                fails = True
            if not fails:
                continue
            if steps > 10_000:
                self._count(steps)
                steps = 0
            while left:
                place, at, values, limit, characters = left.pop()
                if characters is None:
                    if at > limit:
                        left.append((place, at - 1, values, limit, None))
                elif at < limit and characters[text[at]]:
                    at += 1
                    left.append((place, at, values, limit, characters))
                else:
                    steps += 1
                    continue
                break
            else:
                self._count(steps)
                return None

    def _within(
        self, code: list[Instruction], text: str, at: int, values: Registers, steps: int
    ) -> tuple[int, Registers] | None:
        self._count(steps)
        return self._run(code, text, at, values)

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.most:
            raise TooManySteps

    # ---------------------------------------------------------------- programs

    def _program(self, nodes: Iterable[tuple[Any, Any]], flags: int) -> list[Instruction]:
        code: list[Instruction] = []
        self._add(code, nodes, flags)
        code.append((_DONE,))
        return code

    def _add(self, code: list[Instruction], nodes: Iterable[tuple[Any, Any]], flags: int) -> None:
        for kind, value in nodes:
            if kind in _ONE_CHARACTER:
                code.append((_CHAR, _Characters((kind, value), flags)))
            elif kind is op.AT:
                code.append((_AT, _compiled((kind, value), flags)))
            elif kind is op.BRANCH:
                self._branches(code, value[1], flags)
            elif kind is op.SUBPATTERN:
                group, added, dropped, inner = value
                self._group(code, group, inner, compiler._combine_flags(flags, added, dropped))
            elif kind in _KINDS:
                self._repeat(code, _KINDS[kind], value, flags)
            elif kind in (op.ASSERT, op.ASSERT_NOT):
                width = value[1].getwidth()[0] if value[0] < 0 else 0
                code.append((_LOOK, self._program(value[1], flags), width, kind is op.ASSERT))
            elif kind is op.ATOMIC_GROUP:
                code.append((_ATOMIC, self._program(value, flags)))
            elif kind is op.GROUPREF:
                code.append((_SAME, value))
            elif kind is op.GROUPREF_EXISTS:
                self._condition(code, value, flags)
            elif kind is op.FAILURE:
                code.append((_FAIL,))
            else:
                raise AssertionError(f"this matcher knows no {kind}")

    def _group(self, code: list[Instruction], group: int | None, inner: Any, flags: int) -> None:
        kept = group in self._referred
        if kept:
            code.append((_SAVE, 2 * group))  # type: ignore[operator]
        self._add(code, inner, flags)
        if kept:
            code.append((_SAVE, 2 * group + 1))  # type: ignore[operator]

    def _branches(self, code: list[Instruction], branches: list[Any], flags: int) -> None:
        split = len(code)
        code.append(())
        begins, ends = [], []
        for branch in branches:
            begins.append(len(code))
            self._add(code, branch, flags)
            ends.append(len(code))
            code.append(())
        code[split] = (_SPLIT, tuple(begins), {})
        for end in ends:
            code[end] = (_JUMP, len(code))

    def _condition(self, code: list[Instruction], value: Any, flags: int) -> None:
        group, yes, no = value
        test = len(code)
        code.append(())
        self._add(code, yes, flags)
        leap = len(code)
        code.append(())
        code[test] = (_IF, group, len(code))
        self._add(code, no or (), flags)
        code[leap] = (_JUMP, len(code))

    def _repeat(self, code: list[Instruction], how: int, value: Any, flags: int) -> None:
        least, most, inner = int(value[0]), None if value[1] is op.MAXREPEAT else int(value[1]), value[2]
        if compiler._simple(inner):
            node, own = inner[0], flags
            while node[0] is op.SUBPATTERN:
                own = compiler._combine_flags(own, node[1][1], node[1][2])
                node = node[1][3][0]
            code.append((_RUN, _Characters(node, own), least, most, how))
        elif how == _POSSESSIVE:
            code.append((_AGAIN, self._program(inner, flags), least, most))
        else:
            register = self._registers
            self._registers += 1
            code.append((_BEGIN, register))
            loop = len(code)
            code.append(())
            self._add(code, inner, flags)
            code.append((_JUMP, loop))
            code[loop] = (_LOOP, register, least, most, how, len(code))


def _may_begin(code: list[Instruction], place: int, character: str) -> bool:
    """Return False if a program surely fails before this character, or before the end of the text if it is empty.

    `re` looks at the next character too before it begins a match or a branch.
    """
    while True:
        kind, *rest = code[place]
        if kind == _CHAR:
            return character != "" and rest[0][character]
        if kind == _RUN and rest[1]:
            return character != "" and rest[0][character]
        if kind == _SPLIT:
            return any(_may_begin(code, one, character) for one in rest[0])
        if kind == _FAIL:
            return False
        if kind == _JUMP:
            place = rest[0]
        elif kind == _SAVE:
            place += 1
        elif kind == _BEGIN and code[place + 1][2]:  # a repeat whose first turn is not left out
            place += 2
        else:
            return True


def _put(values: Registers, place: int, value: object) -> Registers:
    return (*values[:place], value, *values[place + 1 :])


def _references(nodes: Iterable[tuple[Any, Any]]) -> Iterator[int]:
    """Give the groups that a pattern refers to."""
    for kind, value in nodes:
        if kind is op.GROUPREF:
            yield value
        elif kind is op.GROUPREF_EXISTS:
            yield value[0]
        for inner in inside(kind, value):
            yield from _references(inner)


def inside(kind: object, value: Any) -> list[Any]:
    """Return the parts that a node of a pattern is made of."""
    if kind in _KINDS:
        return [value[2]]
    if kind is op.BRANCH:
        return list(value[1])
    if kind is op.SUBPATTERN:
        return [value[3]]
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return [value[1]]
    if kind is op.GROUPREF_EXISTS:
        return [part for part in value[1:] if part]
    return [value] if kind is op.ATOMIC_GROUP else []
