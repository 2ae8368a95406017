"""What the runs of benchmarks/peers.py come to: rows that should not be there, tokens that were cut, pages found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.support.peers_files import Gold

DEPTHS = (1, 5, 10)

Row = tuple[str, str]
"""A file's name and the text of a passage."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts that went to a model: how many, how many of them over what it reads, their tokens, and those it cut."""

    count: int = 0
    over: int = 0
    tokens: int = 0
    cut: int = 0
    dtypes: frozenset[str] = frozenset()


@dataclass(slots=True)
class Figures:
    """Of one system. `seconds`, `texts` and `wrong` have a value a round for each case; `wrong` counts rows that an
    index from nothing would not have, and rows it would have that are not there. `failed` names a case and what was
    said."""

    about: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    texts: dict[str, list[int]] = field(default_factory=dict)
    wrong: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    cold: Texts = field(default_factory=Texts)
    rows: int = 0
    peak: int = 0
    hits: dict[int, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, case: str, seconds: float, texts: int) -> None:
        self.seconds.setdefault(case, []).append(seconds)
        self.texts.setdefault(case, []).append(texts)

    def middle(self, case: str) -> float | None:
        """Median seconds of a case."""
        return median(self.seconds[case]) if self.seconds.get(case) else None


def result_in(output: str) -> Any:
    """The JSON of the last line that a script wrote. Raises ValueError where it is none."""
    lines = [line for line in output.splitlines() if line.strip()]
    if not lines:
        raise ValueError("nothing was written")
    return json.loads(lines[-1])


def embedded_in(log: Path, tokens_of: Callable[[Sequence[str]], list[int]] | None = None) -> Texts:
    """What a script told of the texts it embedded; tokens are counted where `tokens_of` counts those of each, special
    ones included. A last line that a kill cut short is not counted."""
    count = over = tokens = cut = 0
    dtypes = set()
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        count += len(told["texts"])
        dtypes.add(told["dtype"])
        if tokens_of:
            lengths = tokens_of(told["texts"])
            limit = told["limit"] or max(lengths, default=0)
            tokens += sum(lengths)
            over += sum(length > limit for length in lengths)
            cut += sum(max(0, length - limit) for length in lengths)
    return Texts(count, over, tokens, cut, frozenset(dtypes))


def normal(rows: Iterable[Sequence[str]]) -> list[Row]:
    return [(Path(name).name, text) for name, text in rows]


def beside(rows: Iterable[Row], truth: Iterable[Row]) -> tuple[int, int]:
    """How many rows are too many, and how many are missing."""
    found, wanted = Counter(rows), Counter(truth)
    return (found - wanted).total(), (wanted - found).total()


def replaced(rows: Iterable[Row], name: str, by: Iterable[Row]) -> list[Row]:
    """Rows with those of one file exchanged."""
    return [row for row in rows if row[0] != name] + list(by)


def hit_shares(found: Sequence[Sequence[Sequence[Any]]], gold: Sequence[Sequence[Gold]]) -> dict[int, float]:
    """Share of questions of which a passage among the first k touches a page that counts, by k."""
    firsts = [_first(places, wanted) for places, wanted in zip(found, gold, strict=True)]
    return {k: sum(first is not None and first < k for first in firsts) / len(firsts) for k in DEPTHS} if firsts else {}


def _first(places: Sequence[Sequence[Any]], gold: Sequence[Gold]) -> int | None:
    """The place of the first passage that touches a page that counts."""
    for at, (uri, start, end) in enumerate(places):
        name = Path(uri).name
        if any(name == file and start <= last and first <= end for file, first, last in gold if start):
            return at
    return None
