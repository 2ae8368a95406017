"""Scans: what Tesseract reads from a page that is a picture, and what is said where it cannot."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import DocumentError
from pipelines.settings.base import ParsingSettings, Settings
from pipelines.stages import Frozen, stage_key
from resources.child_process import program_path
from resources.documents.protocol import parse_task
from resources.documents.requests import listed_alone
from resources.documents.tasks import TASK_TYPES, TaskInput
from resources.models.text_models import TextModels
from resources.parsers import ocr, packaged_ocr
from resources.parsers.ocr import (
    OcrSettings,
    Recognised,
    available,
    has_pictures,
    languages_of,
    page_items,
    remedy,
)
from resources.parsers.registry import parse_file
from tests.support.waiting import HANG_SECONDS

FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
SHEET = (340, 170)
"""Width and height of a page in points, which is small: a larger one takes OCR longer and tells no more."""
LINES = [
    (30, 140, 24, "Retention of records"),
    (30, 105, 11, "Payroll records are kept for seven years."),
    (30, 91, 11, "Visitor logs are kept for thirty days."),
    (30, 30, 11, "Invoices"),
    (240, 30, 11, "10 years"),
]


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    ocr._data.cache_clear()
    yield
    ocr._data.cache_clear()


def needs(*languages: str) -> None:
    trouble = remedy(OcrSettings(languages=languages))
    if trouble:
        pytest.skip(trouble)


def needs_tesseract() -> None:
    if ocr.program() is None:
        pytest.skip("Tesseract is not installed: apt-get install tesseract-ocr-eng")


def rendered(
    lines: list[tuple[int, int, int, str]], font: Path | None = None, paper: tuple[float, float] = (612, 792)
) -> Any:
    """A page of text as a picture of 200 dots an inch."""
    import pypdfium2
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen.canvas import Canvas

    stream = BytesIO()
    canvas = Canvas(stream, pagesize=paper)
    if font is not None:
        pdfmetrics.registerFont(TTFont("Own", str(font)))
    for x, y, size, text in lines:
        canvas.setFont("Own" if font is not None else "Helvetica", size)
        canvas.drawString(x, y, text)
    canvas.save()
    with pypdfium2.PdfDocument(stream.getvalue()) as document:
        return document[0].render(scale=200 / 72).to_pil()


def page_of(*pictures: Any, size: tuple[float, float] = (612, 792), paper: tuple[float, float] = (612, 792)) -> Any:
    """A page (of pypdfium2) with pictures of a size in points, or with nothing."""
    import pypdfium2
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    stream = BytesIO()
    canvas = Canvas(stream, pagesize=paper)
    for picture in pictures:
        canvas.drawImage(ImageReader(picture), 0, 0, *size)
    canvas.showPage()
    canvas.save()
    return pypdfium2.PdfDocument(stream.getvalue())[0]


@pytest.fixture(scope="module")
def scan() -> Any:
    return page_of(rendered(LINES, paper=SHEET), size=SHEET, paper=SHEET)


def test_a_scan_is_read_with_places_sizes_and_confidence(scan: Any) -> None:
    needs("eng")
    found = page_items(scan, 1, OcrSettings(languages=("eng",), seconds=HANG_SECONDS))
    assert [item.text for item in found.items] == [
        "Retention of records", "Payroll records are kept for seven years.", "Visitor logs are kept for thirty days.",
        "Invoices", "10 years",
    ]  # fmt: skip
    assert 0.8 < found.confidence < 1 and found.warning == ""
    for item, (x, y, _, _) in zip(found.items, LINES, strict=True):
        assert abs(item.x0 - x) < 3 and item.y0 < SHEET[1] - y < item.y1 + 2
    heading, *rest = (item.size for item in found.items)
    assert len(set(rest)) == 1 and 1.3 < heading / rest[0] < 2.2


@pytest.mark.skipif(not FONT.exists(), reason=f"{FONT} is not there: apt-get install fonts-dejavu-core")
def test_ukrainian_is_read_with_its_language() -> None:
    needs("ukr", "eng")
    page = page_of(rendered([(72, 700, 14, "Записи зберігаються сім років.")], FONT))
    found = page_items(page, 1, OcrSettings(languages=("ukr", "eng")))
    assert " ".join(item.text for item in found.items) == "Записи зберігаються сім років."


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_scan_that_lies_on_its_side_is_read_and_marked(degrees: int) -> None:
    needs("eng")
    if not ocr._tells_turned():
        pytest.skip("Tesseract has no data to tell which way is up: apt-get install tesseract-ocr-osd")
    lines = [(72, 700 - 15 * n, 11, f"The retention schedule lists every kind of record, part {n}") for n in range(9)]
    size = (612, 792) if degrees == 180 else (792, 612)
    page = page_of(rendered(lines).rotate(degrees, expand=True), size=size, paper=size)
    found = page_items(page, 1, OcrSettings(languages=("eng",)))
    assert [item.text for item in found.items] == [text for _, _, _, text in lines]
    assert all(item.rotated for item in found.items)


def test_a_page_over_the_time_limit_is_lost_by_name(scan: Any) -> None:
    needs()
    found = page_items(scan, 7, OcrSettings(seconds=0.001))
    assert found.items == () and found.warning.startswith("page 7: no_text:")
    assert "parsing.ocr_seconds (0.001): raise it" in found.warning


def test_a_picture_without_words_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = SimpleNamespace(boxes=None, txts=None, scores=None)
    monkeypatch.setattr(packaged_ocr, "engine", lambda: lambda picture: nothing)
    monkeypatch.setattr(sys, "argv", ["packaged_ocr", "a.png"])
    packaged_ocr.main()
    for page in (capsys.readouterr().out.encode(), hocr()):
        found = ocr._parse_markup(page, 1.0, 2, ocr.PACKAGED)
        assert found == Recognised(warning="page 2: no_text: it has pictures in which OCR found no text")


# ---------------------------------------------------------------- where it cannot be done


def test_every_reason_comes_with_its_remedy(scan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "set parsing.ocr to auto" in remedy(OcrSettings("off"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(ocr, "packaged_ocr", lambda: False)
    assert "pip install 'pincite[ocr]'" in remedy(OcrSettings()) and not available()
    assert page_items(scan, 3, OcrSettings()).warning.startswith("page 3: no_text: it has pictures but no text layer;")


def test_a_missing_program_or_language_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert remedy(OcrSettings()) == "" and remedy(OcrSettings(languages=("deu", "jpn"))) == ""
    told = remedy(OcrSettings(languages=("eng", "ukr")))
    assert told.startswith("the packaged OCR does not read ukr: install the program tesseract")
    monkeypatch.undo()
    needs_tesseract()
    assert "no data of xyz (installed: " in remedy(OcrSettings(languages=("xyz",)))


def test_the_program_is_not_taken_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, documents = tmp_path / "bin" / "tesseract", tmp_path / "docs" / "tesseract"
    for file in (own, documents):
        file.parent.mkdir()
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    monkeypatch.chdir(documents.parent)
    monkeypatch.setenv("PATH", f":.:{own.parent}")
    assert ocr.program() == program_path("tesseract") == str(own)
    monkeypatch.setenv("PATH", ":.")
    assert ocr.program() == shutil.which("tesseract", path=os.defpath)


@pytest.mark.parametrize(
    ("installed", "taken"),
    [(("eng", "osd", "ukr"), ("eng", "ukr")), (("deu",), ("deu",)), (("a", "b", "c", "d", "eng"), ("eng",)), ((), ())],
)
def test_the_installed_languages_are_taken_unless_they_are_many(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    monkeypatch.setattr(ocr, "_data", lambda: frozenset(installed))
    assert languages_of(OcrSettings()) == taken
    assert languages_of(OcrSettings(languages=("pol",))) == ("pol",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ParsingSettings(ocr="off"), "OCR is off"),
        (ParsingSettings(ocr_languages=("xyz", "ukr")), "xyz"),
        (ParsingSettings(ocr_seconds=0.001), "OCR took longer than parsing.ocr_seconds (0.001)"),
    ],
)
def test_the_settings_of_a_task_reach_the_parser(tmp_path: Path, settings: ParsingSettings, said: str) -> None:
    """`test_scans_are_read` of test_sandbox.py has the same in a worker process."""
    needs()
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "scan.pdf"), pagesize=SHEET)
    canvas.drawImage(ImageReader(rendered(LINES, paper=SHEET)), 0, 0, *SHEET)
    canvas.save()
    raw, root = listed_alone(tmp_path / "scan.pdf")
    options = parse_task(raw, root, settings).options
    given = TaskInput("d", options, {}, TextModels(), lambda number: None, tmp_path / "scan.pdf", raw, 10_000)
    with pytest.raises(DocumentError, match=re.escape(said)) as refused:
        TASK_TYPES["parsed_elements"].make(given)
    assert refused.value.code == "no_text"


# ---------------------------------------------------------------- text that cannot be read


def hocr(*lines: tuple[str, int], unread: int = 0) -> bytes:
    made = "".join(
        f'<span class="ocr_line" title="bbox 0 0 100 10; x_size 10"><span class="ocrx_word" '
        f'title="bbox 0 0 100 10; x_wconf {sure}">{text}</span></span>'
        for text, sure in lines
    )
    lost = f'<span class="ocr_line" title="bbox 0 0 9 9; x_size 9; x_unread {unread}"></span>' if unread else ""
    return f"<html><body>{made}{lost}</body></html>".encode()


@pytest.mark.parametrize("reader", [ocr.ORIGIN, ocr.PACKAGED])
@pytest.mark.parametrize("page", [hocr(("TIpaviBHuK", 20), ("Mae", 37)), hocr(("Scope", 99), unread=40)])
def test_a_script_that_the_program_does_not_know_is_no_text(page: bytes, reader: str) -> None:
    """Tesseract reads another script as Latin letters of low confidence; RapidOCR leaves its letters out."""
    found = ocr._parse_markup(page, 1.0, 4, reader)
    assert found.items == () and found.warning.startswith(f"page 4: no_text: OCR ({reader}) cannot read its text")


def test_lines_that_were_not_read_are_told() -> None:
    found = ocr._parse_markup(hocr(("Retention", 99), unread=3), 1.0, 4, ocr.PACKAGED)
    assert [item.text for item in found.items] == ["Retention"]
    assert found.warning == "page 4: OCR could not read 25% of its text"
    assert ocr._parse_markup(hocr(("Retention", 74)), 1.0, 4, ocr.ORIGIN).warning == ""


BOX = [[10, 20], [210, 20], [210, 40], [10, 40]]


@pytest.mark.parametrize(
    ("text", "sure", "read"),
    [
        ("twenty days of leave", 0.99, True),
        ("    .    ,  ", 0.86, False),
        ("De  ng g g", 0.91, False),
        ("εραεν διαιται εσι τσει", 0.81, False),
        ("二十四日間の休暇", 0.97, True),
    ],
)
def test_a_line_of_another_script_is_counted_and_not_taken(text: str, sure: float, read: bool) -> None:
    made = packaged_ocr.line_of(BOX, text, sure)
    assert ("ocrx_word" in made, "x_unread 20" in made) == (read, not read)


def test_words_of_a_line_have_places_of_their_own() -> None:
    made = packaged_ocr.line_of(BOX, "half & whole week", 0.99)
    assert 'bbox 10.0 20.0 57.1 40.0; x_wconf 99">half<' in made and "&amp;" in made
    assert "textangle 90" in packaged_ocr.line_of([[10, 210], [10, 10], [30, 10], [30, 210]], "sideways", 0.99)


# ---------------------------------------------------------------- which pages


def test_pages_that_show_something_are_told_from_empty_ones() -> None:
    from PIL import Image

    picture = Image.new("L", (60, 80), 200)
    assert has_pictures(page_of(picture))
    assert not has_pictures(page_of())
    assert not has_pictures(page_of(picture, size=(30, 30)))


def test_letters_drawn_as_outlines_count_as_pictures() -> None:
    import pypdfium2
    from reportlab.pdfgen.canvas import Canvas

    def drawn(count: int) -> Any:
        stream = BytesIO()
        canvas = Canvas(stream, pagesize=(612, 792))
        for index in range(count):
            canvas.bezier(72 + index, 700, 80 + index, 710, 90 + index, 690, 99 + index, 700)
        canvas.save()
        return pypdfium2.PdfDocument(stream.getvalue())[0]

    assert has_pictures(drawn(150)) and not has_pictures(drawn(5))


# ---------------------------------------------------------------- from the settings to the parser


def test_settings_of_ocr_shape_the_elements_and_nothing_else_of_parsing() -> None:
    def key(**changes: Any) -> str:
        return stage_key("parsed_elements", Settings(parsing=ParsingSettings(**changes)), Frozen())

    assert len({key(), key(ocr="off"), key(ocr_languages=("ukr",)), key(ocr_seconds=5)}) == 4
    assert key(timeout_seconds=5, workers=3, memory_mb=999) == key()


def test_a_parser_is_given_the_options_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("words")
    given = []
    monkeypatch.setattr("resources.parsers.text.plain.parse", lambda path, ocr=None: given.append(ocr))
    parse_file(path, "text/plain", ocr=OcrSettings("off"), other=1)
    monkeypatch.setattr("resources.parsers.text.plain.parse", lambda path: given.append("none"))
    parse_file(path, "text/plain", ocr=OcrSettings("off"))
    assert given == [OcrSettings("off"), "none"]
