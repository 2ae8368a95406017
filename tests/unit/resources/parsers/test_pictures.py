"""Picture files as documents: pages read by OCR, with boxes on the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from pipelines.errors import DocumentError
from pipelines.parsing.elements import build_elements
from pipelines.parsing.formats import PICTURES
from pipelines.records import Element, ParsedDocument
from pipelines.settings.sources import SourceSettings
from resources.documents.page_pictures import opened_pages, pages_beside
from resources.parsers import picture
from resources.parsers.ocr import OcrSettings
from resources.parsers.picture import as_pdf
from resources.parsers.registry import MEDIA_TYPES, parse_file
from resources.sources.folder import list_source
from tests.support.documents import raw_of
from tests.support.waiting import HANG_SECONDS

FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")


def page(*lines: str, mode: str = "L", font: bool = True) -> Image.Image:
    made = Image.new(mode, (1000, 500), "white")
    draw = ImageDraw.Draw(made)
    letters = ImageFont.truetype(str(FONT), 34) if font else ImageFont.load_default(34)
    for number, line in enumerate(lines):
        draw.text((80, 60 + 60 * number), line, fill="black", font=letters)
    return made


def sizes(path: Path) -> list[tuple[int, int]]:
    with opened_pages(path) as pages:
        return [pages.picture(number).image.size for number in range(1, len(pages) + 1)]


def read_by_ocr(path: Path) -> tuple[ParsedDocument, list[Element]]:
    raw = raw_of(path)
    return build_elements(raw, parse_file(path, raw.media_type, ocr=OcrSettings(seconds=HANG_SECONDS)), lambda text: "")


@pytest.mark.skipif(not FONT.exists(), reason=f"{FONT} is not there: apt-get install fonts-dejavu-core")
def test_a_scan_is_a_document_of_one_page_and_another_script_is_no_text(tmp_path: Path) -> None:
    rules, other = tmp_path / "rules.png", tmp_path / "other.jpg"
    page("Visitor logs are kept for thirty days.").save(rules, dpi=(200, 200))
    page("Записи зберігаються сім років і три місяці.", "Відпустка надається щороку.").save(other, dpi=(200, 200))
    document, elements = read_by_ocr(rules)
    assert document.body == "Visitor logs are kept for thirty days." and document.pages == 1
    box = elements[0].places[0].box
    assert box is not None and box.page == 1 and abs(box.x0 - 80 * 72 / 200) < 4 and abs(box.y0 - 60 * 72 / 200) < 6
    try:
        assert "сім років" in read_by_ocr(other)[0].body  # it is read where Tesseract has its language
    except DocumentError as error:
        assert error.code == "no_text" and "a script that it does not know" in str(error)


def test_each_picture_of_a_file_is_a_page(tmp_path: Path) -> None:
    pages = [Image.new("1", (200, 100 + 50 * number), 1) for number in range(3)]
    pages[0].save(tmp_path / "fax.tiff", save_all=True, append_images=pages[1:], dpi=(100, 100))
    assert [round(width / height, 2) for width, height in sizes(tmp_path / "fax.tiff")] == [2.0, 1.33, 1.0]


def test_a_picture_is_shown_upright_and_on_white(tmp_path: Path) -> None:
    turned = Image.new("RGB", (100, 50), "red")
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif)
    ((width, height),) = sizes(tmp_path / "turned.jpg")
    assert height > width
    Image.new("RGBA", (100, 50), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    with opened_pages(tmp_path / "clear.png") as pages:
        assert pages.picture(1).image.getpixel((5, 5)) == (255, 255, 255)


def test_greys_of_sixteen_bits_stay_dark_and_light(tmp_path: Path) -> None:
    greys = np.full((50, 100), 60000, np.uint16)
    greys[:, :50] = 5000
    Image.fromarray(greys).save(tmp_path / "scan.png")
    with opened_pages(tmp_path / "scan.png") as pages:
        shown = np.asarray(pages.picture(1).image.convert("L"))
    assert shown[:, : shown.shape[1] // 3].max() < 60 < 200 < shown[:, -shown.shape[1] // 3 :].min()


def test_previews_within_a_photo_are_no_pages(tmp_path: Path) -> None:
    first, second = Image.new("RGB", (200, 100), "white"), Image.new("RGB", (100, 50), "white")
    first.save(tmp_path / "photo.jpg", format="MPO", save_all=True, append_images=[second])
    assert len(sizes(tmp_path / "photo.jpg")) == 1


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    page("words", font=False).save(tmp_path / "whole.png")
    cut = tmp_path / "cut.png"
    cut.write_bytes((tmp_path / "whole.png").read_bytes()[:300])
    with pytest.raises(DocumentError, match=r"^cut\.png: the picture cannot be read") as raised:
        as_pdf(cut)
    assert raised.value.code == "corrupt"


def test_a_picture_of_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MOST_PIXELS", 1000)
    page("words", font=False).save(tmp_path / "large.png")
    with pytest.raises(DocumentError, match="1000 x 500 pixels is too large") as raised:
        as_pdf(tmp_path / "large.png")
    assert raised.value.code == "limit_exceeded"


def test_pictures_are_skipped_by_name_where_nothing_reads_them(tmp_path: Path) -> None:
    page("words", font=False).save(tmp_path / "scan.png")
    (tmp_path / "a.md").write_text("# A\n\nText.\n")
    source = SourceSettings(name="s", path=str(tmp_path))
    assert [raw.uri for raw in list_source(source, tmp_path).documents] == ["a.md", "scan.png"]
    listing = list_source(source, tmp_path, without_pictures=lambda: "OCR has no program")
    assert [raw.uri for raw in listing.documents] == ["a.md"]
    assert [(each.uri, each.code, each.message) for each in listing.skipped] == [
        ("scan.png", "unsupported", "a picture is read by OCR, and OCR has no program")
    ]


def test_pages_of_pictures_can_be_drawn() -> None:
    endings = {ending for ending, media_type in MEDIA_TYPES.items() if media_type in PICTURES}
    assert endings == {".png", ".jpg", ".jpeg", ".tif", ".tiff"}
    for ending in endings:
        assert pages_beside(Path(f"a{ending.upper()}")) == Path(f"a{ending.upper()}")
