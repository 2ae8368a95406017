"""Damaged copies of real files: bytes and structure changed at random, from a seed."""

from __future__ import annotations

import io
import random
import re
import zipfile
import zlib
from collections.abc import Callable

Mutation = Callable[[bytes, random.Random], bytes]
INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"%n",
    b"<!--",
    b"\xef\xbb\xbf",
)
HUGE = (b"-1", b"0", b"4294967296", b"99999999999999999999", b"1e999", b"NaN")


def flipped(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 4, 32, 256))):
        made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made)


def cut(data: bytes, chance: random.Random) -> bytes:
    """Without its end, its beginning, or a part in the middle."""
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return chance.choice((data[:end], data[start:], data[:start] + data[end:]))


def repeated(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    part = data[start : start + chance.choice((16, 256, 4096))]
    return data[:start] + part * chance.choice((2, 20, 200)) + data[start:]


def moved(data: bytes, chance: random.Random) -> bytes:
    a, b, c = sorted(chance.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def planted(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randrange(1, 9)):
        at = chance.randrange(len(made))
        value = chance.choice(INTERESTING)
        made[at : at + (len(value) if chance.random() < 0.5 else 0)] = value
    return bytes(made)


def numbered(data: bytes, chance: random.Random) -> bytes:
    """Some of its numbers (lengths, offsets, references, spans) as others."""
    found = list(re.finditer(rb"\d+", data))
    made, at = [], 0
    for match in sorted(chance.sample(found, min(len(found), chance.choice((1, 5, 50)))), key=re.Match.start):
        made += [data[at : match.start()], chance.choice((*HUGE, b"%d" % chance.randrange(1 << 16)))]
        at = match.end()
    return b"".join([*made, data[at:]])


def within(data: bytes, chance: random.Random) -> bytes:
    """A package with some of its parts damaged, lost, twice or under another's name; packed whole again, so that the
    damage reaches what reads the parts."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            parts = [(item.filename, package.read(item)) for item in package.infolist() if not item.is_dir()]
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError):
        return flipped(data, chance)
    for _ in range(chance.choice((1, 2, 6))):
        at = chance.randrange(len(parts))
        name, part = parts[at]
        parts[at] = (name, chance.choice(PLAIN)(part, chance) if part else b"<")
        if chance.random() < 0.2:
            parts[at] = (chance.choice(parts)[0], part)
        elif chance.random() < 0.2 and len(parts) > 1:
            del parts[at]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for name, part in dict(parts).items():
            package.writestr(name, part)
    return made.getvalue()


PLAIN: tuple[Mutation, ...] = (flipped, cut, repeated, moved, planted, numbered)


def damaged(data: bytes, seed: int) -> bytes:
    """One to three mutations of a file that is not empty."""
    chance = random.Random(seed)
    for _ in range(chance.choice((1, 1, 2, 3))):
        kinds = (within, within, within, *PLAIN) if data[:2] == b"PK" else PLAIN
        data = chance.choice(kinds)(data, chance) or b" "
    return data
