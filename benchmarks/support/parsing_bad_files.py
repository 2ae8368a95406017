"""Bad and extreme PDF files, made at run time, and what is to come of each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.pdf_objects import pdf
from tests.unit.resources.parsers.test_pdf_files import unmapped

LINE = "The committee meets on the first Monday of the month and keeps minutes of what it decides."
RIGHT_TO_LEFT = "מאגר מידע הוא אוסף נתוני מידע."
FONT = "DejaVuSans.ttf"


@dataclass(frozen=True, slots=True)
class Bad:
    """`expected` is an error's code; `text` where the file is read and has what it `says`; None where
    either will do."""

    name: str
    make: Callable[[Path], object]
    expected: str | None
    says: str = ""


def _canvas(path: Path, pages: int = 3, rotation: int = 0, **options: Any) -> None:
    """Pages of a heading and twenty lines; with a rotation, drawn to stand upright once they are turned."""
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(600, 800), **options)
    for page in range(pages):
        canvas.setPageRotation(rotation)
        canvas.translate(*{0: (0, 0), 90: (800, 0), 180: (600, 800), 270: (0, 600)}[rotation])
        canvas.rotate(rotation)
        canvas.drawString(72, 560, f"{page + 1}. What the committee decides")
        for line in range(20):
            canvas.drawString(72, 530 - 16 * line, LINE)
        canvas.showPage()
    canvas.save()


def _locked(user: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        from reportlab.lib.pdfencrypt import StandardEncryption

        _canvas(path, encrypt=StandardEncryption(user, ownerPassword="owner", canCopy=0))

    return make


def _truncated(path: Path) -> None:
    _canvas(path, pages=20)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])


def _long_word(path: Path) -> None:
    text = b"(%b) Tj " % (b"x" * 10_000) * 10
    path.write_bytes(pdf([b"BT /F 6 Tf 20 700 Td %bET" % text]))


def _long_lines(path: Path) -> None:
    # Text of one point or less is taken as hidden, and larger text would leave the page.
    lines = b"".join(b"BT /F 1.1 Tf 20 %d Td (%b) Tj ET " % (790 - 7 * n, b"word" * 250) for n in range(100))
    path.write_bytes(pdf([lines]))


def _right_to_left(path: Path) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen.canvas import Canvas

    font = next(Path("/usr/share/fonts").rglob(FONT))
    pdfmetrics.registerFont(TTFont("DejaVu", str(font)))
    canvas = Canvas(str(path), pagesize=(600, 800))
    canvas.setFont("DejaVu", 11)
    for line in range(20):
        canvas.drawRightString(540, 740 - 16 * line, RIGHT_TO_LEFT[::-1])  # as a font draws it, left to right
    canvas.save()


def has_font() -> bool:
    return next(Path("/usr/share/fonts").rglob(FONT), None) is not None


def bad_files(pages: int) -> list[Bad]:
    """The largest has `pages`. In the order of the table; right-to-left text where a font for it is installed."""
    noise = random.Random(3).randbytes(200_000)
    return [
        Bad("empty", lambda path: path.write_bytes(b""), "empty"),
        Bad("random bytes", lambda path: path.write_bytes(noise), "corrupt"),
        Bad("random bytes after a PDF's first line", lambda path: path.write_bytes(b"%PDF-1.7\n" + noise), "corrupt"),
        Bad("truncated to a third", _truncated, None),
        Bad("encrypted, needs a password", _locked("secret"), "encrypted"),
        Bad("encrypted for its owner only", _locked(""), "text", LINE),
        Bad("no text, no pictures", lambda path: path.write_bytes(pdf([b"0 0 m 9 9 l S"])), "no_text"),
        Bad("fonts without a Unicode map", lambda path: unmapped(path, readable=1, unreadable=9), "unmapped_fonts"),
        *(Bad(f"pages rotated by {angle}", _rotated(angle), "text", LINE) for angle in (90, 180, 270)),
        *([Bad("text from right to left", _right_to_left, "text", RIGHT_TO_LEFT)] if has_font() else []),
        Bad("a word of 100,000 characters", _long_word, "text", "x" * 100_000),
        Bad("a page of 100,000 characters in 100 lines", _long_lines, "text", "word" * 25_000),
        Bad(f"{pages:,} pages", lambda path: _canvas(path, pages), "text", LINE),
    ]


def _rotated(angle: int) -> Callable[[Path], None]:
    return lambda path: _canvas(path, rotation=angle)
