"""The recognition of text on scanned pages: with Tesseract if it is installed, or else with the packaged RapidOCR.

Each page is rendered and read in a separate process, which ends at the time limit. Nothing is fetched: only installed
languages are used. Both programs write hOCR. A page that the program cannot read, for example in an unknown script, has
no text and gets a warning.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from pipelines.parsing.line_text import ends_in
from pipelines.parsing.pdf.page import PdfGap, PdfItem
from resources.child_process import program_path
from resources.programs import packaged_ocr, run

ORIGIN, PACKAGED = "tesseract", "rapidocr"
POINTS = 72
DOTS_PER_INCH = 300
MOST_PIXELS = 30_000_000
MOST_LANGUAGES = 4
LEAST_CONFIDENCE = 0.55
"""Least mean confidence of a page that counts as read. Tesseract gives 0.73 or more on blurred pages in a known script,
and up to 0.37 on clean pages in an unknown script, which it reads as senseless Latin letters."""
MOST_UNREAD = 0.5
"""Share of a page's letters in unreadable lines above which the page counts as not read."""
LEAST_UNREAD = 0.02
"""Share of a page's letters in unreadable lines from which a warning is given."""
MOST_CONFIDENCE = 0.99
"""Highest confidence of a page: text read from a picture is never certain."""
PICTURE_SHARE = 0.05
"""Share of the page's area below which a picture is an ornament and is not read."""
OUTLINES = 100
"""Number of paths on a page from which they may be letters drawn as outlines."""
_GAP = 1.0
"""Least gap between words of separate cells or columns, in sizes of the line."""
_SAME_SIZE = 0.15
_TELLS_TURNED = "osd"
_NO_LANGUAGES = frozenset((_TELLS_TURNED, "snum", "equ"))
TURNED, UPRIGHT = 1, 3
"""Tesseract's page segmentation modes with and without detecting the orientation first."""
_PROGRAM = "install the program tesseract with the languages of the documents (Debian: tesseract-ocr-eng and so on)"
_EITHER = f"pip install 'pincite[ocr]', which reads Latin, Chinese and Japanese letters, or {_PROGRAM}"
_CODES = (
    "eng deu fra spa ita por nld pol ces slk slv hrv ron hun dan nor swe fin est lav lit lat cat eus glg isl gle mlt "
    "sqi tur ind msa chi_sim chi_tra jpn"
)
_PACKAGED_LANGUAGES = frozenset(_CODES.split())
"""Languages of RapidOCR's model, in Tesseract's names."""
_LISTING_SECONDS = 60.0
"""Most seconds for Tesseract to list its languages."""


@dataclass(frozen=True, slots=True)
class OcrSettings:
    """The settings parsing.ocr, parsing.ocr_languages and parsing.ocr_seconds. They are plain values, since a parser
    process imports no models of settings."""

    mode: str = "auto"
    languages: tuple[str, ...] = ()
    seconds: float = 60.0


class Recognised(NamedTuple):
    """The result of a page: its pieces in points from the top left, a confidence below 1, a warning about unread parts,
    and the gaps within lines at which sentences may end."""

    items: tuple[PdfItem, ...] = ()
    confidence: float = 0.0
    warning: str = ""
    gaps: tuple[PdfGap, ...] = ()


# ---------------------------------------------------------------- availability


def program() -> str | None:
    """Return Tesseract's absolute path, never one in the current folder, or None if it is not installed."""
    return program_path("tesseract")


def reader_of(settings: OcrSettings) -> str:
    """Return the name of the program that reads scans, ORIGIN or PACKAGED."""
    return PACKAGED if program() is None and packaged_ocr() else ORIGIN


@cache
def _data() -> frozenset[str]:
    """Return the names of Tesseract's language data. Its listing has one line of words, then one name on each line."""
    found = program()
    if found is None:
        return frozenset()
    try:
        listed = run("tesseract", found, {}, _LISTING_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    lines = listed.output.decode("utf-8", "replace").splitlines()
    return frozenset(line.strip() for line in lines[1:] if line.strip()) if listed.status == 0 else frozenset()


def _installed_readers() -> tuple[str, ...]:
    return tuple(sorted(_data() - _NO_LANGUAGES))


def _tells_turned() -> bool:
    return _TELLS_TURNED in _data()


def languages_of(settings: OcrSettings) -> tuple[str, ...]:
    """Return the languages of the settings, or else the installed ones. If many are installed, return only English or
    the first one, since many languages take long and reduce accuracy."""
    if settings.languages:
        return settings.languages
    installed = _installed_readers()
    if len(installed) <= MOST_LANGUAGES:
        return installed
    return ("eng",) if "eng" in installed else installed[:1]


def remedy(settings: OcrSettings) -> str:
    """Return the remedy for unread scans, or "" if they are read."""
    if settings.mode == "off":
        return "OCR is off: set parsing.ocr to auto"
    if program() is None:
        if not packaged_ocr():
            return f"OCR has no program: {_EITHER}"
        unknown = [name for name in settings.languages if name not in _PACKAGED_LANGUAGES]
        return f"the packaged OCR does not read {', '.join(unknown)}: {_PROGRAM}" if unknown else ""
    missing = [name for name in settings.languages if name not in _installed_readers()]
    if missing or not _installed_readers():
        there = ", ".join(_installed_readers()) or "none"
        return f"OCR has no data of {', '.join(missing) or 'any language'} (installed: {there}): {_PROGRAM}"
    return ""


def available(settings: OcrSettings | None = None) -> bool:
    """Say whether the program and its language data are installed."""
    return not remedy(settings or OcrSettings())


def has_pictures(page: Any) -> bool:
    """Say whether a pypdfium2 page without text may show text: it has a picture larger than an ornament, or enough
    paths for letters drawn as outlines."""
    import pypdfium2
    import pypdfium2.raw as pdfium

    outlines = 0
    width, height = page.get_size()
    try:
        for item in page.get_objects(filter=(pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_PATH), max_depth=3):
            if item.type == pdfium.FPDF_PAGEOBJ_PATH:
                outlines += 1
                continue
            left, bottom, right, top = item.get_bounds()
            if abs((right - left) * (top - bottom)) >= PICTURE_SHARE * width * height:
                return True
    except pypdfium2.PdfiumError:
        return False
    return outlines >= OUTLINES


# ---------------------------------------------------------------- reading a page


def page_items(page: Any, number: int, settings: OcrSettings) -> Recognised:
    """Return the words of a pypdfium2 page, as pieces of its lines. A page's content never raises an error: the warning
    names the page and says why it has no text."""
    trouble = remedy(settings)
    if trouble:
        return Recognised(warning=f"page {number}: no_text: it has pictures but no text layer; {trouble}")
    try:
        markup, scale = _read(page, settings)
        return _parse_markup(markup, scale, number, reader_of(settings))
    except subprocess.TimeoutExpired:
        limit = f"parsing.ocr_seconds ({settings.seconds:g})"
        return Recognised(warning=f"page {number}: no_text: OCR took longer than {limit}: raise it")
    except (OSError, RuntimeError) as error:  # PDFium's, or the program's message
        return Recognised(warning=f"page {number}: no_text: OCR failed ({' '.join(str(error).split())[:200]})")


def _read(page: Any, settings: OcrSettings) -> tuple[bytes, float]:
    """Return the page as hOCR, and the number of points in one of its pixels. Raise OSError, RuntimeError,
    TimeoutExpired."""
    width, height = page.get_size()
    scale = min(DOTS_PER_INCH / POINTS, (MOST_PIXELS / max(width * height, 1.0)) ** 0.5)
    picture = page.render(scale=scale, grayscale=True).to_pil()
    name = reader_of(settings)
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        picture.save(file.name, compress_level=1)
        values: dict[str, Any] = {"picture": file.name}
        if name == ORIGIN:
            values["languages"] = "+".join(languages_of(settings))
            values["dpi"], values["psm"] = round(scale * POINTS), TURNED if _tells_turned() else UPRIGHT
        done = run(name, program() or sys.executable, values, settings.seconds)
    if done.status != 0:
        raise RuntimeError(f"({done.status}, {done.errors})")
    return done.output, width / picture.width


def _parse_markup(markup: bytes, scale: float, number: int, reader: str) -> Recognised:
    root = ElementTree.fromstring(markup)
    lines = list(_lines(root))
    words = [word for line in lines for word in line]
    letters, unread = sum(len(word.text) for word in words), _unread(root)
    if not letters and not unread:
        return Recognised(warning=f"page {number}: no_text: it has pictures in which OCR found no text")
    sure = sum(len(word.text) * word.confidence for word in words) / max(1, letters)
    if unread > MOST_UNREAD * (letters + unread) or sure < LEAST_CONFIDENCE:
        todo = _PROGRAM if reader == PACKAGED else "install its languages, or set parsing.ocr_languages"
        told = f"OCR ({reader}) cannot read its text, which may be in a script that it does not know: {todo}"
        return Recognised(warning=f"page {number}: no_text: {told}")
    items = [_item(piece, scale) for line in lines for piece in _pieces(line)]
    gaps = tuple(gap for line in lines for gap in _gaps(line, scale))
    share = unread / (letters + unread)
    told = f"page {number}: OCR could not read {share:.0%} of its text" if share >= LEAST_UNREAD else ""
    return Recognised(tuple(_with_even_sizes(items)), min(MOST_CONFIDENCE, max(0.01, sure)), told, gaps)


# ---------------------------------------------------------------- hOCR


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of hOCR. Its measures are in pixels; `size` and `angle` are those of its line."""

    text: str
    box: tuple[float, float, float, float]
    confidence: float
    size: float
    angle: float


def _facts(title: str) -> dict[str, list[float]]:
    """Return the numbers of a title like `bbox 1 2 3 4; x_wconf 96` by name."""
    facts = {}
    for part in title.split(";"):
        name, *values = part.split()[:5] or [""]
        numbers = [float(value) for value in values if re.fullmatch(r"-?\d+(\.\d+)?", value)]
        facts[name] = numbers
    return facts


def _unread(root: Any) -> int:
    """Count the letters in lines that the program detected but could not read."""
    facts = (_facts(node.get("title", "")) for node in root.iter() if node.get("class", "") == "ocr_line")
    return round(sum(found["x_unread"][0] for found in facts if found.get("x_unread")))


def _lines(root: Any) -> Iterator[list[_Word]]:
    """Yield the words of each line. Lines have the hOCR classes ocr_line, ocr_header, ocr_caption and so on."""
    for node in root.iter():
        if node.get("class", "").startswith("ocr_") and "x_size" in node.get("title", ""):
            line = _facts(node.get("title", ""))
            words = (_word(child, line) for child in node.iter() if child.get("class") == "ocrx_word")
            found = [word for word in words if word is not None]
            if found:
                yield found


def _word(node: Any, line: dict[str, list[float]]) -> _Word | None:
    facts = _facts(node.get("title", ""))
    text = "".join(node.itertext()).strip()
    x0, y0, x1, y1 = facts["bbox"]
    if not text:
        return None
    size, angle = (line.get(name, [0.0])[0] for name in ("x_size", "textangle"))
    return _Word(text, (x0, y0, x1, y1), facts["x_wconf"][0] / 100, size or y1 - y0, angle)


def _pieces(line: list[_Word]) -> Iterator[list[_Word]]:
    piece = [line[0]]
    for word in line[1:]:
        upright = not word.angle
        if upright and word.box[0] - piece[-1].box[2] > _GAP * word.size:
            yield piece
            piece = []
        piece.append(word)
    yield piece


def _gaps(line: list[_Word], scale: float) -> Iterator[PdfGap]:
    for before, after in pairwise(line):
        if any(ends_in(f"{before.text} {after.text[0]}")):
            (_, y0, x_end, y1), (x_start, *_) = before.box, after.box
            yield PdfGap((y0 + y1) / 2 * scale, x_end * scale, x_start * scale)


def _item(words: list[_Word], scale: float) -> PdfItem:
    boxes = [word.box for word in words]
    return PdfItem(
        text=" ".join(word.text for word in words),
        x0=min(box[0] for box in boxes) * scale,
        y0=min(box[1] for box in boxes) * scale,
        x1=max(box[2] for box in boxes) * scale,
        y1=max(box[3] for box in boxes) * scale,
        size=round(words[0].size * scale, 1),
        rotated=bool(words[0].angle),
    )


def _with_even_sizes(items: list[PdfItem]) -> Iterator[PdfItem]:
    """Yield the items, with sizes near the most common size set to it, since sizes are measured from the letters of
    each line."""
    sizes: Counter[float] = Counter()
    for item in items:
        sizes[round(item.size)] += len(item.text)
    common = sizes.most_common(1)[0][0]
    for item in items:
        near = abs(item.size - common) <= _SAME_SIZE * common
        yield replace(item, size=float(common)) if near else item
