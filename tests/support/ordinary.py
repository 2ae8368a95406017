"""Ordinary documents that are awkward to read, as blocks: forms, contracts, contents lists, listings, logs, tables of
digits, lines without end in many scripts, chains of mails. The same for the same seed; no text is anybody's.

`made(kind, seed)` gives the blocks; tests/support/ordinary_files.py writes them in every format.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["heading", "paragraph", "item", "table", "code"]


@dataclass(frozen=True)
class Part:
    """One block; `level` is of headings and list items, `rows` of tables, whose first row is their header."""

    kind: Kind
    text: str = ""
    level: int = 1
    rows: tuple[tuple[str, ...], ...] = ()


Parts = list[Part]
Make = Callable[[random.Random], Parts]

WORDS = re.findall(
    r"\w+",
    """agreement annex archive balance building claim clause committee consent contract council delivery deposit
    document employee entry equipment evidence fee fund ground holder income inspection invoice keeper ledger licence
    lodger machine maintenance manager meeting member notice number office order owner payment period permit place
    plan premises property purchase record register rent repair report request rule schedule seal service share sheet
    signature site stamp storage supplier tax tenant term title transfer trustee vehicle visitor warehouse year""",
)
VERBS = re.findall(
    r"\w+", "approves closes confirms covers extends holds issues keeps names owes pays renews returns signs"
)

SCRIPTS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "latin": ((0x61, 0x7A),),
    "accented": ((0x61, 0x7A), (0xE0, 0xF6), (0x101, 0x17E)),
    "cyrillic": ((0x430, 0x44F),),
    "greek": ((0x3B1, 0x3C9),),
    "arabic": ((0x627, 0x63A), (0x641, 0x64A)),
    "hebrew": ((0x5D0, 0x5EA),),
    "devanagari": ((0x915, 0x939), (0x93E, 0x944)),
    "bengali": ((0x995, 0x9A8), (0x9AA, 0x9B0)),
    "thai": ((0xE01, 0xE2E), (0xE30, 0xE3A)),
    "chinese": ((0x4E00, 0x4FFF),),
    "japanese": ((0x3042, 0x3093), (0x30A2, 0x30F3)),
    "korean": ((0xAC00, 0xAFFF),),
    "georgian": ((0x10D0, 0x10F0),),
    "ethiopic": ((0x1208, 0x1246),),
}
"""Letters by the ranges of their code points."""
STOPS = {"chinese": "。", "japanese": "。", "devanagari": "।", "bengali": "।", "arabic": ".", "ethiopic": "።"}


def word(chance: random.Random, script: str) -> str:
    return "".join(chr(chance.randint(*chance.choice(SCRIPTS[script]))) for _ in range(chance.randint(2, 9)))


def sentence(chance: random.Random) -> str:
    said = [chance.choice(WORDS) for _ in range(chance.randint(4, 18))]
    said.insert(2, chance.choice(VERBS))
    return (
        f"The {' '.join(said)}{chance.choice(('', f' ({chance.randint(1, 99)})', f', No. {chance.randint(1, 9999)}'))}."
    )


def prose(chance: random.Random, sentences: int) -> Part:
    return Part("paragraph", " ".join(sentence(chance) for _ in range(sentences)))


def title(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(2, 5))).capitalize()


# ---------------------------------------------------------------- kinds


def form(chance: random.Random) -> Parts:
    """Labels with lines, leaders and boxes to fill in, some nested in others."""
    parts = [Part("heading", f"Application for {title(chance).lower()}")]
    for _ in range(chance.randint(8, 40)):
        label, mark = title(chance), chance.choice("_.…-·")
        line = mark * chance.randint(3, 160)
        parts.append(
            chance.choice(
                (
                    Part("paragraph", f"{label}: {line}"),
                    Part("paragraph", f"Signature: {'_' * 60}   Date: {'_' * 24}"),
                    Part("paragraph", f"{label} {'. ' * chance.randint(10, 90)}{chance.randint(1, 99)}"),
                    Part("paragraph", f"☐ {label}  ☑ {title(chance)}  [ ] {title(chance)}  [x] other: {line}"),
                    Part(
                        "paragraph", f"{label}: {title(chance)}; {title(chance)}: {chance.randint(1, 10**9)}; ref: n/a"
                    ),
                    Part("paragraph", f"{label}:\n  {title(chance)}: {line}\n    {title(chance)}: {line}\n"),
                    Part("table", rows=((label, line), (title(chance), ""), (f"{title(chance)}:", "☐ yes ☐ no"))),
                )
            )
        )
    return [*parts, prose(chance, 3)]


def contract(chance: random.Random) -> Parts:
    """Recitals, definitions, and clauses numbered down to 1.1.1(a)(i)."""
    parts = [Part("heading", f"{title(chance)} agreement"), Part("paragraph", f"WHEREAS {sentence(chance)}; AND " * 12)]
    parts += [Part("paragraph", f"“{title(chance)}” means {sentence(chance)}") for _ in range(chance.randint(5, 30))]
    for first in range(1, chance.randint(3, 12)):
        parts.append(Part("heading", f"{first}. {title(chance)}", 2))
        for second in range(1, chance.randint(2, 6)):
            parts.append(Part("paragraph", f"{first}.{second} {sentence(chance)}"))
            for third in range(1, chance.randint(1, 4)):
                parts.append(Part("paragraph", f"{first}.{second}.{third} {sentence(chance)}"))
                for letter in "abcd"[: chance.randint(0, 4)]:
                    parts.append(Part("item", f"({letter}) {sentence(chance)}", 1))
                    for roman in ("i", "ii", "iii", "iv")[: chance.randint(0, 4)]:
                        parts.append(Part("item", f"({roman}) {sentence(chance)}", 2))
    return parts


def contents(chance: random.Random) -> Parts:
    """Entries with leaders of 20 to 300 dots, then what they name."""
    names = [f"{number}.{chance.randint(1, 9)} {title(chance)}" for number in range(1, chance.randint(15, 60))]
    fill = chance.choice((".", ". ", "…", "·", "_", "-"))
    leaders = [f"{name} {fill * chance.randint(20, 300)} {page}" for page, name in enumerate(names, start=3)]
    parts = [Part("heading", "Contents"), *(Part("paragraph", line) for line in leaders)]
    for name in names[:12]:
        parts += [Part("heading", name, 2), prose(chance, chance.randint(1, 6))]
    return parts


def listing(chance: random.Random) -> Parts:
    """Code with long lines, minified scripts, base64, hex dumps."""
    script = "".join(f"function {word(chance, 'latin')}(a,b){{return a[{n}]?b({n}):!1}};" for n in range(600))
    data = chance.randbytes(chance.randint(2_000, 30_000))
    dump = "\n".join(
        f"{at:08x}  {data[at : at + 16].hex(' ')}  |{'.' * len(data[at : at + 16])}|" for at in range(0, 3200, 16)
    )
    tree: object = sentence(chance)
    for depth in range(40):
        tree = {f"key_{depth}": tree, "values": [chance.randint(0, 10**12) for _ in range(8)]}
    return [
        Part("heading", "Listings"),
        Part("code", script),
        prose(chance, 2),
        Part("code", base64.b64encode(data).decode()),
        Part("code", dump),
        Part("code", json.dumps(tree)),
        Part(
            "code", "\n".join(f"{' ' * 4 * (n % 9)}if x[{n}] == '{'=' * (n % 80)}':  # {'*' * 60}" for n in range(200))
        ),
    ]


def log(chance: random.Random) -> Parts:
    lines = []
    for number in range(chance.randint(200, 2_000)):
        day = f"2026-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
        at = f"{day}T{number % 24:02d}:{number % 60:02d}:07.{number:06d}+02:00"
        lines.append(f"{at} {chance.choice(('INFO', 'WARN', 'ERROR'))} [worker-{number % 7}] {sentence(chance)}")
        if chance.random() < 0.05:
            lines.append("Traceback (most recent call last):")
            lines += [f'  File "/srv/app/{word(chance, "latin")}.py", line {n}, in <module>' for n in range(12)]
            lines.append(f"ValueError: {'-' * 72}")
    return [Part("code", "\n".join(lines))]


def digits(chance: random.Random) -> Parts:
    """A statement of a few columns and many rows, or of a few rows and many columns."""
    rows, columns = chance.choice(((40, 6), (400, 5), (5_000, 5), (5, 2_000), (30, 60)))
    head = ("Item", *(f"{2000 + n}" for n in range(columns - 1)))
    body = tuple(
        (f"{title(chance)} {number}", *(f"{chance.randint(-(10**7), 10**7):,}.{number % 100:02d}" for _ in head[1:]))
        for number in range(rows)
    )
    return [
        Part("heading", f"Statement of {title(chance).lower()}"),
        prose(chance, 2),
        Part("table", rows=(head, *body)),
    ]


def long_lines(chance: random.Random) -> Parts:
    """Lines of 10,000 to 400,000 characters, in one script; with spaces, with stops, or with neither."""
    script, size = chance.choice(sorted(SCRIPTS)), int(10 ** chance.uniform(4, 5.6))
    between = chance.choice((" ", " ", f"{STOPS.get(script, '.')} ", ""))
    pieces = [word(chance, script) for _ in range(500)]
    line = between.join(chance.choices(pieces, k=size // 6))[:size]
    return [Part("heading", f"Line of {size} in {script}"), Part("paragraph", line), prose(chance, 2)]


def scripts(chance: random.Random) -> Parts:
    """Sentences of several scripts, directions mixed within lines."""
    parts = [Part("heading", "Many scripts")]
    for name in chance.sample(sorted(SCRIPTS), 6):
        said = [" ".join(word(chance, name) for _ in range(chance.randint(3, 12))) for _ in range(6)]
        parts += [Part("heading", word(chance, name), 2), Part("paragraph", f"{STOPS.get(name, '.')} ".join(said))]
    parts.append(
        Part("paragraph", f"Clause 4 (\u202b{word(chance, 'hebrew')} 12 {word(chance, 'hebrew')}\u202c): 3–5 %.")
    )
    return [
        *parts,
        Part("paragraph", f"{word(chance, 'arabic')} 2026/11 {word(chance, 'arabic')} ABC-12 {word(chance, 'arabic')}"),
    ]


def chain(chance: random.Random) -> Parts:
    """A mail that quotes those before it, each deeper."""
    parts = [prose(chance, 2)]
    for depth in range(1, chance.randint(4, 30)):
        mark = "> " * depth
        said = f"{mark}On {depth} May, {title(chance)} <a{depth}@example.org> wrote:\n"
        parts.append(Part("paragraph", said + "\n".join(mark + sentence(chance) for _ in range(4))))
    return [*parts, Part("paragraph", f"-- \n{title(chance)}\n{'=' * 70}\n{'*' * 70}")]


def deep_list(chance: random.Random) -> Parts:
    parts = [Part("heading", title(chance))]
    for number in range(chance.randint(40, 300)):
        parts.append(Part("item", sentence(chance), 1 + number % chance.randint(1, 9)))
    return parts


def report(chance: random.Random) -> Parts:
    """Six levels of headings over prose, tables and lists."""
    parts: Parts = []
    for number in range(1, chance.randint(6, 30)):
        parts.append(Part("heading", f"{number} {title(chance)}", 1 + number % 6))
        parts += [prose(chance, chance.randint(1, 9)) for _ in range(chance.randint(1, 4))]
        if number % 4 == 0:
            rows = tuple((title(chance), str(chance.randint(1, 999)), sentence(chance)) for _ in range(6))
            parts.append(Part("table", rows=(("Name", "Number", "Note"), *rows)))
        parts += [Part("item", sentence(chance)) for _ in range(number % 3)]
    return parts


KINDS: Mapping[str, Make] = {
    make.__name__: make
    for make in (form, contract, contents, listing, log, digits, long_lines, scripts, chain, deep_list, report)
}


def made(kind: str, seed: int) -> Parts:
    return KINDS[kind](random.Random(f"{kind} {seed}"))
