"""Tables, promised figures, and the place in a page where they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- figures: written by benchmarks/parsing.py -->", "<!-- /figures -->"


@dataclass(frozen=True, slots=True)
class Promise:
    """A figure and what it should reach; a negative `least` is what it should stay under.
    `unit` is `share` or `number`."""

    what: str
    value: float
    least: float
    unit: str = "share"

    def row(self) -> list[str]:
        shown = share if self.unit == "share" else number
        least = shown(self.least) if self.least >= 0 else f"under {shown(-self.least)}"
        return [self.what, least, shown(self.value)]

    @property
    def met(self) -> bool:
        return self.value >= self.least if self.least >= 0 else self.value < -self.least


def share(value: float | None, digits: int = 3) -> str:
    """A share as `.950`; never rounded up to 1."""
    if value is None:
        return "-"
    shown = f"{value:.{digits}f}"
    if value < 1 <= float(shown):
        shown = f"{1 - 10**-digits:.{digits}f}"
    return shown.removeprefix("0") if 0 < value < 1 else "1" if value == 1 else shown


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, its columns as wide as their widest cell; short rows are filled up."""
    cells = [list(head), *([*row, *[""] * (len(head) - len(row))] for row in rows)]
    cells = [[text.replace("|", "\\|") for text in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [f"| {' | '.join(text.ljust(width) for text, width in zip(row, widths, strict=True))} |" for row in cells]
    return [lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]]


def promised(promises: Sequence[Promise]) -> Iterator[str]:
    """Yield how many figures are reached, and a table of those that are not."""
    missed = [promise.row() for promise in promises if not promise.met]
    yield f"{len(promises) - len(missed)} of {len(promises)} are reached{'. These are not:' if missed else '.'}"
    if missed:
        yield from ("", *table(("promised", "at least", "measured"), missed))


def put_between_marks(page: Path, lines: Sequence[str]) -> None:
    """Replace what stands between the marks of a page. Raises ValueError where they are missing."""
    text = page.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{page}: needs the lines {BEGIN!r} and {END!r}, between which the figures go")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text("\n".join([before + BEGIN, "", *lines, "", END + after]))
