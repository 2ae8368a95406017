"""Bar codes and QR codes in pictures: what is read, where it stands, and what is left out and said."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import zxingcpp
from PIL import Image

from pipelines.errors import SettingsError
from pipelines.records import Block, ParsedFile
from pipelines.settings.base import ParsingSettings, Settings
from pipelines.stages import STAGES, Frozen, stage_key
from resources.documents.pool import DocumentPool
from resources.parsers import barcodes
from resources.parsers.barcodes import CONTENT, KIND
from resources.parsers.registry import PageGuard, media_type_of, parse_file
from tests.faults.parsing import parsed

LINK = "https://pay.example/invoice?id=17"
EAN = "4006381333931"
WORDS = "Invoice 17 is due in May."


def code(text: str, kind: str = "QRCode", scale: int = 6) -> Image.Image:
    made = zxingcpp.create_barcode(text, getattr(zxingcpp.BarcodeFormat, kind))
    return Image.fromarray(np.asarray(zxingcpp.write_barcode_to_image(made, scale=scale)))


def png(image: Image.Image) -> bytes:
    stream = BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def pdf_with(path: Path, *pages: Sequence[tuple[Image.Image, float, float, float, float]]) -> Path:
    """Each page has a line of text and pictures at left, bottom, width and height in points."""
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(612, 792))
    for pictures in pages:
        canvas.drawString(72, 720, WORDS)
        for image, *place in pictures:
            canvas.drawImage(ImageReader(image), *place)
        canvas.showPage()
    canvas.save()
    return path


def docx_with(path: Path, *pictures: bytes) -> Path:
    import docx
    from docx.shared import Inches

    document = docx.Document()
    document.add_paragraph(WORDS)
    for data in pictures:
        document.add_picture(BytesIO(data), width=Inches(2))
    document.save(str(path))
    return path


def read(path: Path, **options: Any) -> ParsedFile:
    return parse_file(path, media_type_of(path) or "", **{"barcodes": True, **options})


def codes(file: ParsedFile) -> list[Block]:
    return [block for block in file.blocks if CONTENT in block.metadata]


def contents(file: ParsedFile) -> list[tuple[str, str]]:
    return [(block.metadata[KIND], block.metadata[CONTENT]) for block in codes(file)]


def test_codes_of_a_page_have_their_kind_and_content_and_box(tmp_path: Path) -> None:
    path = pdf_with(tmp_path / "a.pdf", [(code(LINK), 400, 100, 144, 144), (code(EAN, "EAN13"), 72, 400, 200, 80)])
    found = read(path)
    assert contents(found) == [("EAN-13", EAN), ("QR Code", LINK)]
    bars, square = (block.runs[0] for block in codes(found))
    assert (bars.text, square.text) == (f"EAN-13: {EAN}", f"QR Code: {LINK}")
    assert square.box is not None and square.box.page == 1
    assert (square.box.x0, square.box.y0) == pytest.approx((400, 792 - 244), abs=30)
    assert (square.box.x1, square.box.y1) == pytest.approx((544, 792 - 100), abs=30)
    assert bars.box is not None and bars.box.y1 < square.box.y0


def test_nothing_changes_where_codes_are_not_asked_for(tmp_path: Path) -> None:
    path = pdf_with(tmp_path / "a.pdf", [(code(LINK), 400, 100, 144, 144)])
    plain, asked = read(path, barcodes=False), read(path)
    assert not codes(plain) and codes(asked)
    assert plain.blocks == tuple(block for block in asked.blocks if CONTENT not in block.metadata)
    assert parse_file(path, "application/pdf") == plain
    office = docx_with(tmp_path / "a.docx", png(code(LINK)))
    assert not codes(read(office, barcodes=False))


def test_a_page_without_pictures_is_not_searched(tmp_path: Path) -> None:
    begun: list[int] = []
    path = pdf_with(tmp_path / "a.pdf", [], [(code(LINK), 400, 100, 144, 144)], [])
    assert contents(read(path, guard=PageGuard(begun.append))) == [("QR Code", LINK)]
    assert begun == [2]


def test_a_code_of_an_office_file_stands_after_the_first_figure_that_shows_it_else_at_the_end(tmp_path: Path) -> None:
    one, bars = png(code(LINK)), png(code("PART-0042", "Code128"))
    found = read(docx_with(tmp_path / "a.docx", bars, one, one))
    assert [block.kind for block in found.blocks] == ["paragraph", "figure", "key_value", "figure", "key_value"]
    assert contents(found) == [("QR Code", LINK), ("Code 128", "PART-0042")]


def test_a_transparent_code_is_read_on_white(tmp_path: Path) -> None:
    dark = code(LINK).convert("L")
    image = Image.new("RGBA", dark.size, (0, 0, 0, 0))
    image.putalpha(dark.point(lambda value: 255 - value))
    assert contents(read(docx_with(tmp_path / "a.docx", png(image)))) == [("QR Code", LINK)]


def test_content_stands_on_one_line_and_bytes_are_no_content(tmp_path: Path) -> None:
    card = code("BEGIN:VCARD\nFN:Anna\nEND:VCARD")
    made = zxingcpp.create_barcode(b"\x00\xff\xfe\x81\x00\x9d", zxingcpp.BarcodeFormat.QRCode)
    data = Image.fromarray(np.asarray(zxingcpp.write_barcode_to_image(made, scale=6)))
    path = pdf_with(tmp_path / "a.pdf", [(card, 72, 400, 144, 144), (data, 400, 100, 144, 144)])
    assert contents(read(path)) == [("QR Code", "BEGIN:VCARD FN:Anna END:VCARD")]


# ---------------------------------------------------------------- limits


def test_codes_too_long_or_too_many_are_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barcodes, "LONGEST", 20)
    monkeypatch.setattr(barcodes, "MOST_CODES", 1)
    shown = [(code(text), 72, at, 120, 120) for text, at in (("first", 560), (LINK, 380), ("third", 200))]
    found = read(pdf_with(tmp_path / "a.pdf", shown))
    assert contents(found) == [("QR Code", "first")]
    assert [told for told in found.warnings if told.startswith("page 1: 2 bar codes were left out")]


def test_after_the_most_pages_no_more_are_searched_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barcodes, "MOST_SEARCHED", 2)
    page = [(code(LINK), 400, 100, 144, 144)]
    found = read(pdf_with(tmp_path / "a.pdf", page, page, page, page))
    assert [block.runs[0].box.page for block in codes(found) if block.runs[0].box] == [1, 2]
    assert [told for told in found.warnings if "bar codes" in told] == [
        "page 3 and later ones were not searched for bar codes: 2 were"
    ]
    pictures = [png(code(f"part {number}")) for number in range(3)]
    found = read(docx_with(tmp_path / "a.docx", *pictures))
    assert len(codes(found)) == 2 and "1 picture was not searched for bar codes: 2 were" in found.warnings


def test_a_picture_that_is_too_large_or_broken_is_not_decoded_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = docx_with(tmp_path / "a.docx", png(code(LINK))), tmp_path / "cut.docx"
    with ZipFile(whole) as source, ZipFile(cut, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data[: len(data) // 2] if "/media/" in name else data)
    assert codes(read(whole)) and not codes(read(cut)) and read(cut).blocks
    monkeypatch.setattr(barcodes, "MOST_PIXELS", 100)
    assert not codes(read(whole))
    for file in (whole, cut):
        (told,) = [warning for warning in read(file).warnings if "bar codes" in warning]
        assert told.startswith("word/media/image1.png: not searched for bar codes")


def test_a_large_page_is_drawn_within_the_longest_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def searched(image: Image.Image) -> tuple[list[Any], int]:
        seen.append(image.size)
        return [], 0

    monkeypatch.setattr(barcodes, "_codes", searched)
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(14_000, 7_000))
    canvas.drawString(72, 720, WORDS)
    canvas.drawImage(ImageReader(code(LINK)), 72, 72)
    canvas.save()
    read(tmp_path / "a.pdf")
    assert seen and max(seen[0]) <= barcodes.LONGEST_SIDE + 1


# ---------------------------------------------------------------- from the settings to the parser


def test_the_setting_is_in_the_key_of_what_is_parsed_only_where_it_is_on() -> None:
    def key(**changes: Any) -> str:
        return stage_key("parsed_elements", Settings(parsing=ParsingSettings(**changes)), Frozen())

    assert key() == key(barcodes=False) != key(barcodes=True)
    shaped_by = STAGES["parsed_elements"].shaped_by
    assert "parsing.barcodes" not in shaped_by(Settings(), Frozen())


def test_a_confined_worker_reads_codes(tmp_path: Path) -> None:
    path = pdf_with(tmp_path / "a.pdf", [(code(LINK), 400, 100, 144, 144)])
    office = docx_with(tmp_path / "a.docx", png(code("PART-0042", "Code128")))
    with DocumentPool(ParsingSettings(workers=1, ocr="off", barcodes=True)) as pool:
        outcomes = parsed(pool, path, office)
    found = {}
    for name, outcome in outcomes.items():
        assert isinstance(outcome, tuple)
        found[name] = [element.metadata for element in outcome[1] if CONTENT in element.metadata]
    assert found == {
        "a.pdf": [{CONTENT: LINK, KIND: "QR Code"}], "a.docx": [{CONTENT: "PART-0042", KIND: "Code 128"}],
    }  # fmt: skip


def test_the_setting_is_refused_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.documents.pool.reads_barcodes", lambda: False)
    with pytest.raises(SettingsError, match=r"parsing.barcodes needs the library zxing-cpp: pip install"):
        DocumentPool(ParsingSettings(barcodes=True))
    DocumentPool(ParsingSettings()).close()
