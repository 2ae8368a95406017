"""Words of a PDF's pages and of what a parser made of them, by where they stand: lost, added or out of order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.records import ParsedFile, TextRun

_WORD = re.compile(r"[^\W_]+")
_LIGATURES = dict(zip(range(0xFB00, 0xFB07), ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))
SLACK_X, SLACK_Y = 2.0, 3.0
"""Points by which the middle of a word may lie outside the box that is said to hold it."""


@dataclass(frozen=True)
class Word:
    """With the middle of its letters, from the top left."""

    text: str
    page: int
    x: float
    y: float


@dataclass
class Misplaced:
    """`lost` are words of the page that nothing holds where they stand; `added` those that are held where the page has
    none of them, or not so many; `turned` lines whose words are all there in another order."""

    words: int
    lost: list[Word]
    added: list[tuple[str, TextRun]]
    turned: list[str]


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.translate(_LIGATURES))


def words_on_pages(path: Path) -> list[Word]:
    """As PDFium reads them, in its order."""
    import pypdfium2
    from pypdfium2 import raw

    found: list[Word] = []
    document = pypdfium2.PdfDocument(path)
    for number, page in enumerate(document, start=1):
        text, height = page.get_textpage(), page.get_height()
        letters: list[tuple[str, tuple[float, float, float, float]]] = []
        for at in range(text.count_chars() + 1):
            char = chr(raw.FPDFText_GetUnicode(text, at)) if at < text.count_chars() else " "
            if _WORD.fullmatch(char):
                letters.append((char, text.get_charbox(at)))
            elif letters:
                boxes = [box for _, box in letters]
                x = (min(box[0] for box in boxes) + max(box[2] for box in boxes)) / 2
                y = height - (min(box[1] for box in boxes) + max(box[3] for box in boxes)) / 2
                found += [Word(word, number, x, y) for word in words_of("".join(char for char, _ in letters))]
                letters = []
    document.close()
    return found


def runs_of(parsed: ParsedFile) -> list[TextRun]:
    """The pieces of text that have a place, cells' too."""
    runs = [
        run for block in parsed.blocks for run in (*block.runs, *(run for cell in block.cells for run in cell.runs))
    ]
    return [run for run in runs if run.box]


def misplaced(words: Sequence[Word], runs: Iterable[TextRun]) -> Misplaced:
    """Each word of the page is taken out of the smallest piece that has it and whose box it lies in."""
    lost: list[Word] = []
    by_page: dict[int, list[tuple[TextRun, Counter[str], list[Word]]]] = {}
    held = [(run, Counter(words_of(run.text)), list[Word]()) for run in runs]
    for entry in held:
        assert entry[0].box
        by_page.setdefault(entry[0].box.page, []).append(entry)
    for entries in by_page.values():
        entries.sort(key=lambda entry: _area(entry[0]))
    for word in words:
        for run, left, taken in by_page.get(word.page, ()):
            if left[word.text] > 0 and _within(word, run):
                left[word.text] -= 1
                taken.append(word)
                break
        else:
            lost.append(word)
    added = [(word, run) for run, left, _ in held for word in left.elements()]
    turned = [run.text for run, left, taken in held if not left.total() and not _in_order(words_of(run.text), taken)]
    return Misplaced(len(words), lost, added, turned)


def _area(run: TextRun) -> float:
    assert run.box
    return (run.box.x1 - run.box.x0) * (run.box.y1 - run.box.y0)


def _within(word: Word, run: TextRun) -> bool:
    box = run.box
    assert box
    across = box.x0 - SLACK_X <= word.x <= box.x1 + SLACK_X
    return across and box.y0 - SLACK_Y <= word.y <= box.y1 + SLACK_Y


def _in_order(wanted: list[str], taken: list[Word]) -> bool:
    """As the page's own text has them, or as they stand from left to right."""
    by_place = sorted(taken, key=lambda word: word.x)
    return wanted in ([word.text for word in taken], [word.text for word in by_place])
