"""The program that reads a picture with RapidOCR, whose models come in its package, and writes it as hOCR.

It imports no other module of pincite: a confined process runs it by its file, with the picture as its argument. It
reads Latin, Chinese and Japanese letters. Its model omits letters of other scripts, so a line with far fewer letters
than its length allows was not read: it is counted (`x_unread`, in letters), and its text is dropped.

Model: PP-OCRv6, by the package `rapidocr` (Apache-2.0).
"""

from __future__ import annotations

import math
import sys
import unicodedata
from html import escape
from typing import Any

LETTERS_IN_A_SQUARE = 2.0
"""Letters in a piece of a line that is as long as high; a wide letter (Chinese, Japanese) counts as two."""
LEAST_FOUND = 0.5
"""Least share of the expected letters that a line must have. Readable lines have 0.8 or more, lines of other scripts up
to 0.6."""
LEAST_SURE = 0.88
"""Least confidence of a line that counts as read. Lines in known scripts have 0.95 or more, even if blurred; lines of
other scripts up to 0.87."""
SHORTEST = 3.0
"""Length of a line, in heights, below which letters are not counted: labels and page numbers."""
TURNED = 1.5
"""Height of a line, in lengths, from which it is set sideways."""


def engine() -> Any:
    from rapidocr import RapidOCR

    one_thread = {f"EngineConfig.onnxruntime.{name}_op_num_threads": 1 for name in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "critical", **one_thread})


def line_of(corners: Any, text: str, sure: float) -> str:
    """Return one line as hOCR. `corners` are its four corners in pixels, from the top left in the direction of
    reading."""
    (ax, ay), (bx, by), _, (dx, dy) = ((float(x), float(y)) for x, y in corners)
    length, height = max(1.0, math.dist((ax, ay), (bx, by))), max(1.0, math.dist((ax, ay), (dx, dy)))
    across, down = ([float(corner[axis]) for corner in corners] for axis in (0, 1))
    box = [min(across), min(down), max(across), max(down)]
    signs = sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text if not sign.isspace())
    holds = LETTERS_IN_A_SQUARE * length / height
    sideways = box[3] - box[1] > TURNED * (box[2] - box[0]) and length > height
    title = f"bbox {_numbers(box)}; x_size {height:.1f}; textangle {90 if sideways else 0}"
    if sure < LEAST_SURE or (length > SHORTEST * height and signs < LEAST_FOUND * holds):
        return f'<span class="ocr_line" title="{title}; x_unread {max(1, round(holds))}"></span>'
    words = "".join(_words(text, box, sure, sideways))
    return f'<span class="ocr_line" title="{title}">{words}</span>'


def _words(text: str, box: list[float], sure: float, sideways: bool) -> list[str]:
    """Return the words of a line as hOCR, at positions in proportion to their letters."""
    found, at, total = [], 0, max(1, len(text))
    for word in text.split():
        start = text.index(word, at)
        at = start + len(word)
        own = list(box)
        if not sideways:
            own[0], own[2] = (box[0] + (box[2] - box[0]) * share / total for share in (start, at))
        title = f"bbox {_numbers(own)}; x_wconf {round(100 * sure)}"
        found.append(f'<span class="ocrx_word" title="{title}">{escape(word)}</span> ')
    return found


def _numbers(values: list[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def main() -> None:
    found = engine()(sys.argv[1])
    read = [] if found.boxes is None else zip(found.boxes, found.txts, found.scores, strict=True)
    lines = "\n".join(line_of(corners, text, float(sure)) for corners, text, sure in read)
    sys.stdout.write(f'<html><body><div class="ocr_page">{lines}</div></body></html>')


if __name__ == "__main__":
    main()
