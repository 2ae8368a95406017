"""Financial statements of invented companies as PDF files without rulings, with the truth beside them.

A `Shape` says how a statement is set: columns, signs, header lines, wrapping, pages. `render` draws it
and returns the file and the rows it holds. Numbers come from a seed, so a shape is the same every time.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.statement_lines import CONTENTS, PROSE, Entry

CYRILLIC = tuple(
    Path(folder) / name
    for folder in ("/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/truetype/liberation")
    for name in ("DejaVuSans.ttf", "LiberationSans-Regular.ttf")
)
BOLD = {"Helvetica": "Helvetica-Bold", "Times-Roman": "Times-Bold", "Courier": "Courier-Bold", "Cyrillic": "Cyrillic"}
LABELS = -1
"""Column number of the labels in a header line."""

Head = tuple[str, int, int]
"""Text of a header, first and last column it stands over."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a statement is set. Lengths in points. `dollar` is own (far left of its column), spaced,
    attached or none; `closing` says where a closing parenthesis goes: inside the column, hanging out
    of it, or hanging as a piece of its own; `wrap` which line of a divided label has the values."""

    name: str
    content: str
    heads: tuple[tuple[Head, ...], ...]
    columns: int = 2
    font: str = "Helvetica"
    size: float = 9.0
    page: tuple[float, float] = (612.0, 792.0)
    margin: float = 54.0
    width: float = 84.0
    first: float = 0.0
    dollar: str = "own"
    closing: str = "hang"
    align: str = "right"
    nil: str = "—"
    pitch: float = 1.35
    rules: bool = True
    indent: float = 9.0
    wrap: str = ""
    notes: bool = False
    codes: bool = False
    percent: int = 0
    leaders: bool = False
    thousands: str = ","
    point: str = "."
    decimals: int = 0
    title: str = "CONSOLIDATED STATEMENTS OF FINANCIAL POSITION"
    units: str = ""
    rows_on_first: int = 0
    repeat: bool = True
    going_on: str = ""
    prose: bool = True
    bold_totals: bool = True
    marks: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Statement:
    """A rendered statement: `rows` are label and values as printed, `sections` labels without
    values, `headers` the header texts, `prose` what stands around it."""

    name: str
    pdf: bytes
    rows: tuple[tuple[str, ...], ...]
    sections: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    prose: tuple[str, ...] = field(default=PROSE)


def value_of(entry: Entry, shape: Shape, column: int, rng: random.Random) -> str:
    """A value as printed, its signs attached."""
    if shape.percent and column >= shape.columns - shape.percent:
        share = rng.choice((rng.uniform(0.1, 40), rng.uniform(0.1, 9), -rng.uniform(0.1, 20)))
        return _signed(f"{abs(share):.1f}".replace(".", shape.point), share < 0, "%")
    if rng.random() < 0.07 and not entry.total:
        return shape.nil
    top = 10 ** rng.choice((2, 3, 4, 5, 6) if not entry.small else (1,))
    amount = rng.uniform(top / 10, top)
    decimals = 2 if entry.small else shape.decimals
    text = f"{amount:,.{decimals}f}".replace(".", "!").replace(",", shape.thousands).replace("!", shape.point)
    sign = "$" if entry.dollar and shape.dollar != "none" else ""
    return _signed(sign + text, entry.negative or (entry.either and rng.random() < 0.4), "")


def _signed(text: str, negative: bool, unit: str) -> str:
    if not negative:
        return text + unit
    return f"$({text[1:]}){unit}" if text.startswith("$") else f"({text}){unit}"


class Pen:
    """Draws a statement line by line, on as many pages as it takes."""

    def __init__(self, shape: Shape) -> None:
        from reportlab.pdfbase import pdfmetrics
        from reportlab.pdfbase.ttfonts import TTFont
        from reportlab.pdfgen.canvas import Canvas

        self.shape, self.buffer = shape, io.BytesIO()
        if shape.font == "Cyrillic":
            path = next(path for path in CYRILLIC if path.exists())
            pdfmetrics.registerFont(TTFont("Cyrillic", str(path)))
        self.canvas = Canvas(self.buffer, pagesize=shape.page, invariant=1)
        self.measure = pdfmetrics.stringWidth
        self.y = shape.page[1] - shape.margin
        last = shape.page[0] - shape.margin - 8
        self.rights = [last - shape.width * (shape.columns - 1 - at) for at in range(shape.columns)]
        if shape.first:
            self.rights[0] -= shape.first

    def down(self, lines: float = 1.0) -> None:
        self.y -= lines * self.shape.pitch * self.shape.size

    def write(self, text: str, x: float, bold: bool = False, side: str = "left") -> None:
        font = BOLD[self.shape.font] if bold else self.shape.font
        width = self.measure(text, font, self.shape.size)
        self.canvas.setFont(font, self.shape.size)
        self.canvas.drawString(x - {"left": 0, "right": width, "middle": width / 2}[side], self.y, text)

    def length(self, text: str) -> float:
        return self.measure(text, self.shape.font, self.shape.size)

    def prose(self, text: str) -> None:
        words, line = text.split(), ""
        for word in words:
            if self.length(f"{line} {word}") > self.shape.page[0] - 2 * self.shape.margin:
                self.write(line, self.shape.margin)
                self.down()
                line = ""
            line = f"{line} {word}".strip()
        self.write(line, self.shape.margin)
        self.down(2)

    def heads(self) -> None:
        for line in self.shape.heads:
            for text, start, end in line:
                if start == LABELS:
                    self.write(text, self.shape.margin, bold=True)
                elif start == end and self.shape.align == "right":
                    self.write(text, self.rights[start], bold=True, side="right")
                else:
                    left, right = self.rights[start] - 0.6 * self.shape.width, self.rights[end]
                    self.write(text, (left + right) / 2, bold=True, side="middle")
            self.down()

    def value(self, text: str, column: int, bold: bool) -> None:
        """One value by its right edge, with its signs where the shape has them."""
        shape, right = self.shape, self.rights[column]
        if shape.dollar in ("own", "spaced") and text.startswith("$"):
            if shape.dollar == "own":
                self.write("$", right - 0.68 * shape.width, bold)
                text = text[1:]
            else:
                text = "$ " + text[1:]
        if shape.align == "decimal" and "." in text:
            right += self.length(text.split(".")[1].rstrip(")%")) - self.length("00")
        for tail in (")%", ")", "%"):
            if text.endswith(tail) and shape.closing != "inside":
                text = text.removesuffix(tail)
                if shape.closing == "piece":
                    self.write(tail, right + 0.6, bold)
                else:
                    text, right = text + tail, right + self.length(tail)
                break
        self.write(text, right, bold, "right")

    def rule(self, double: bool) -> None:
        for right in self.rights:
            for at in range(1 + double):
                y = self.y - 2.5 - 1.6 * at
                self.canvas.line(right - 0.7 * self.shape.width, y, right, y)

    def label(self, entry: Entry, lines: Sequence[str], values: Sequence[str], bold: bool) -> None:
        """The label and, on its first or last line or centred between them, the values."""
        shape = self.shape
        x = shape.margin + entry.indent * shape.indent
        at = {"first": 0.0, "last": len(lines) - 1.0, "middle": (len(lines) - 1) / 2}.get(shape.wrap, 0.0)
        top = self.y
        for number, line in enumerate(lines):
            self.write(line, x + (shape.indent if number else 0), bold)
            if number == round(at) and shape.leaders and values and number == len(lines) - 1:
                dots = int((self.rights[0] - 0.75 * shape.width - x - self.length(line)) / self.length(" ."))
                self.write(" ." * max(dots - 1, 0), x + self.length(line))
            if number < len(lines) - 1:
                self.down()
        bottom, self.y = self.y, top - at * shape.pitch * shape.size
        for column, text in enumerate(values):
            if text:
                self.value(text, column, bold)
        self.y = bottom

    def split(self, label: str) -> list[str]:
        words = label.split()
        if not self.shape.wrap or len(words) < 5:
            return [label]
        half = (len(words) + 1) // 2
        return [" ".join(words[:half]), " ".join(words[half:])]


def render(shape: Shape) -> Statement:
    """The statement as a PDF file, and what it says."""
    pen, rng = Pen(shape), random.Random(shape.seed)
    entries, rows, sections = CONTENTS[shape.content], [], []
    if shape.prose:
        pen.prose(PROSE[0])
    if shape.title:
        pen.write(shape.title, shape.page[0] / 2, bold=True, side="middle")
        pen.down()
    if shape.units:
        pen.write(shape.units, shape.page[0] / 2, side="middle")
        pen.down(1.2)
    pen.heads()
    for number, entry in enumerate(entries):
        if shape.rows_on_first and number and number % shape.rows_on_first == 0:
            pen.canvas.showPage()
            pen.y = shape.page[1] - shape.margin
            if shape.going_on:
                pen.write(shape.going_on, shape.page[0] / 2, bold=True, side="middle")
                pen.down()
            if shape.repeat:
                pen.heads()
        bold = (entry.total and shape.bold_totals) or entry.bold
        label = entry.label + (f" ({rng.randint(1, 4)})" if shape.marks and rng.random() < 0.2 else "")
        if entry.section:
            sections.append(label)
            pen.write(label, shape.margin + entry.indent * shape.indent, bold)
            pen.down()
            continue
        values = [value_of(entry, shape, column, rng) for column in range(shape.columns)]
        if shape.notes or shape.codes:
            note = str(1000 + 5 * number) if shape.codes else (str(rng.randint(2, 28)) if rng.random() < 0.3 else "")
            values[0] = note
        pen.label(entry, pen.split(label), values, bold)
        if entry.total and shape.rules:
            pen.rule(entry.final)
        pen.down(1.5 if entry.total else 1)
        rows.append((label, *filter(None, values)))
    pen.down()
    if shape.prose:
        pen.prose(PROSE[1])
    pen.canvas.save()
    headers = tuple(text for line in shape.heads for text, *_ in line)
    return Statement(shape.name, pen.buffer.getvalue(), tuple(rows), tuple(sections), headers)
