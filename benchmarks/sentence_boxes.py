"""How near the rectangles of sentences in PDFs come to their characters, with and without the stops of lines.

    python benchmarks/sentence_boxes.py [--data ../shared/data] [--worst N] [FOLDER ...]

What is right is read from the boxes of all characters: each line of a sentence is sought among the characters of
its page, and those of the sentence are counted off in it. `proportional` is the same map without stops.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.parsing_report import table  # noqa: E402  (the path above finds it)
from pipelines.errors import DocumentError  # noqa: E402
from pipelines.indexing.places import line_boxes, touching  # noqa: E402
from pipelines.parsing.cleaning import clean_text  # noqa: E402
from pipelines.records import Box, Element, Place, Span  # noqa: E402
from resources.documents.requests import FileReader, reader  # noqa: E402
from resources.models.text_models import TextModels, detect_language  # noqa: E402
from resources.parsers.pdf.raw import Character, characters  # noqa: E402

FOLDERS = ("policies", "unlp-medicine/pdf", "parser-fixtures/docling/pdf", "parser-fixtures/unstructured")
WAYS = ("proportional", "stops")
HYPHENS = "\x02\ufffe"
AROUND = 2.0
"""Points around a line's box in which its characters may have their middles."""
_NO_PROSE = frozenset(("table", "figure", "code", "page_header", "page_footer", "break", "key_value"))


@dataclass(frozen=True, slots=True)
class Letter:
    """A character of a page with the sentence that it is of."""

    x: float
    y: float
    sentence: int


@dataclass(slots=True)
class Found:
    """Of one folder and way: errors of edges in points (of those within lines, of all), the sentences, those whose
    characters were all found, and of these those whose rectangles hold just their characters."""

    inner: list[tuple[float, str]] = field(default_factory=list)
    every: list[float] = field(default_factory=list)
    sentences: int = 0
    located: int = 0
    exact: int = 0


class Page:
    """The characters of a page without spaces, cleaned as the body is, to seek lines in."""

    def __init__(self, found: Sequence[Character]) -> None:
        self.letters: list[Character] = []
        parts = []
        for character in found:
            text = "-" if character.text in HYPHENS else "".join(clean_text(character.text).split())
            parts.append(text)
            self.letters += [character] * len(text)
        self.text = "".join(parts)

    def line(self, text: str, box: Box) -> Sequence[Character] | None:
        """The characters of a line's text, spaces left out, where they stand in its box; None if not found."""
        at = self.text.find(text)
        while at >= 0:
            letters = self.letters[at : at + len(text)]
            if all(_within(box, *_middle(letter), AROUND) for letter in letters):
                return letters
            at = self.text.find(text, at + 1)
        return None


def _middle(letter: Character) -> tuple[float, float]:
    return (letter.x0 + letter.x1) / 2, (letter.y0 + letter.y1) / 2


def _within(box: Box, x: float, y: float, around: float) -> bool:
    return box.x0 - around <= x <= box.x1 + around and box.y0 - around <= y <= box.y1 + around


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _pages(path: Path) -> list[Page]:
    import pypdfium2

    pages = []
    with pypdfium2.PdfDocument(path) as document:
        for page in document:
            textpage = page.get_textpage()
            pages.append(Page(characters(page, textpage)))
            textpage.close()
            page.close()
    return pages


def _segment(pages: Sequence[Page], body: str, place: Place, span: Span) -> tuple[Sequence[Character], bool, bool]:
    """The characters of a span in one line; and whether it begins, and ends, within the line."""
    start, end = max(span.start, place.start), min(span.end, place.end)
    line = pages[place.box.page - 1].line(_squeezed(body[place.start : place.end]), place.box) if place.box else None
    before, own = (len(_squeezed(body[a:b])) for a, b in ((place.start, start), (start, end)))
    return (line or ())[before : before + own], start > place.start, end < place.end


@dataclass(frozen=True, slots=True)
class Located:
    """A sentence, its characters by line, and whether all were found."""

    element: Element
    span: Span
    lines: Sequence[tuple[Sequence[Character], bool, bool]]
    text: str


def _located(files: FileReader, path: Path, worker: TextModels) -> tuple[list[Located], list[Page]]:
    reading, pages = files.read(path), _pages(path)
    body = reading.document.body
    prose = [e for e in reading.elements if e.kind not in _NO_PROSE and e.text and all(p.box for p in e.places)]
    found = []
    for element, spans in zip(prose, worker.split([e.text for e in prose], detect_language(body)), strict=True):
        for start, end in spans:
            span = Span(element.start + start, element.start + end)
            lines = [_segment(pages, body, place, span) for place in touching(element.places, span)]
            found.append(Located(element, span, lines, element.text[start:end]))
    return found, pages


def _letters(located: Sequence[Located], pages: int) -> list[list[Letter]]:
    """By page, from the top down."""
    letters: list[list[Letter]] = [[] for _ in range(pages)]
    for number, sentence in enumerate(located):
        places = touching(sentence.element.places, sentence.span)
        for place, (line, _, _) in zip(places, sentence.lines, strict=True):
            if place.box:
                letters[place.box.page - 1] += [Letter(*_middle(letter), number) for letter in line]
    return [sorted(found, key=lambda letter: letter.y) for found in letters]


def _held(boxes: Sequence[Box], letters: Sequence[Sequence[Letter]]) -> Iterator[int]:
    """The sentence of every character that has its middle in one of the boxes."""
    for box in boxes:
        on_page = letters[box.page - 1]
        for letter in on_page[bisect_left(on_page, box.y0, key=lambda letter: letter.y) :]:
            if letter.y > box.y1:
                break
            if box.x0 <= letter.x <= box.x1:
                yield letter.sentence


def score(files: FileReader, path: Path, worker: TextModels, found: dict[str, Found]) -> None:
    """Adds what a file shows to what was found by each way."""
    located, pages = _located(files, path, worker)
    letters = _letters(located, len(pages))
    for way in WAYS:
        found[way].sentences += len(located)
        for number, sentence in enumerate(located):
            if all(line for line, _, _ in sentence.lines):
                _score_sentence(path, way, number, sentence, letters, found[way])


def _score_sentence(
    path: Path, way: str, number: int, sentence: Located, letters: Sequence[Sequence[Letter]], found: Found
) -> None:
    places = sentence.element.places
    if way == "proportional":
        places = tuple(replace(place, stops=()) for place in places)
    boxes = line_boxes(places, sentence.span)
    for box, (line, begins, ends) in zip(boxes, sentence.lines, strict=True):
        left = abs(box.x0 - min(letter.x0 for letter in line))
        right = abs(box.x1 - max(letter.x1 for letter in line))
        found.every += [left, right]
        where = f"{path.name} p. {box.page}: {sentence.text[:60]!r}"
        found.inner += [(error, where) for error, inner in ((left, begins), (right, ends)) if inner]
    inside = list(_held(boxes, letters))
    total = sum(len(line) for line, _, _ in sentence.lines)
    found.located += 1
    found.exact += len(inside) == inside.count(number) == total


def _row(folder: str, way: str, found: Found) -> list[str]:
    inner = sorted(error for error, _ in found.inner)
    every = sorted(found.every)
    share = f"{100 * found.exact / max(found.located, 1):.1f} %"
    return [folder, way, f"{found.located} of {found.sentences}", share, *_spread(inner), *_spread(every)]


def _spread(errors: Sequence[float]) -> list[str]:
    if not errors:
        return ["0", "", "", ""]
    high = errors[min(len(errors) - 1, int(0.95 * len(errors)))]
    return [str(len(errors)), f"{median(errors):.2f}", f"{high:.2f}", f"{errors[-1]:.1f}"]


def main() -> None:
    arguments = _arguments()
    head = ("folder", "way", "sentences", "exact", "edges in lines", "median", "p95", "worst",
            "all edges", "median", "p95", "worst")  # fmt: skip
    rows, worst = [], []
    worker = TextModels()
    with reader() as files:
        for folder in arguments.folders:
            found = {way: Found() for way in WAYS}
            for path in sorted((arguments.data / folder).glob("*.pdf")):
                try:
                    score(files, path, worker, found)
                except DocumentError as error:
                    print(f"left out: {error}", file=sys.stderr)
            rows += [_row(folder, way, found[way]) for way in WAYS]
            worst += sorted(found["stops"].inner, reverse=True)[: arguments.worst]
    print("\n".join(table(head, rows)))
    print(*(f"{error:7.1f}  {where}" for error, where in worst), sep="\n")


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="*", default=FOLDERS, metavar="FOLDER", help="of the data; default: the sets")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="name the N worst edges of every folder")
    return parser.parse_args()


if __name__ == "__main__":
    main()
