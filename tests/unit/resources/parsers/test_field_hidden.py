"""Text that a PDF holds and does not show is left out and counted: class 11 of the field cases and its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from pipelines.records import ParsedFile
from resources.parsers.pdf.reader import parse
from tests.support.pdf_objects import HELVETICA, pdf, stream
from tests.support.places import DATA, require_data

FIELD = DATA / "field-cases"
FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
DOTS = b"/Type/XObject/Subtype/Image/Width 64/Height 64/BitsPerComponent 8/ColorSpace/DeviceGray"
GREY = bytes((40, 220)) * 32 * 64
"""A picture of 64 x 64 dots, in stripes."""


def line(text: bytes, y: int, before: bytes = b"", x: int = 40, size: float = 12) -> bytes:
    return b"q %b BT /F %.1f Tf %d %d Td (%b) Tj ET Q " % (before, size, x, y, text)


SHOWN = line(b"The rent is due on the first of May.", 700)
BOX = b"q %b rg 30 590 300 40 re f Q "
LAYERS = {
    20: b"<</Type/OCG/Name(Off)>>",
    21: b"<</Type/OCG/Name(On)>>",
    22: stream(
        line(b"secret", 600),
        b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]/OC 20 0 R/Resources<</Font<<%b>>>>" % HELVETICA,
    ),
}


def made(folder: Path, content: bytes, catalog: bytes = b"", page: bytes = b"") -> Path:
    objects = {
        **LAYERS,
        23: stream(GREY, DOTS),
        24: b"<</Type/ExtGState/BM/Multiply>>",
        26: stream(b"\xff" * 4096, DOTS),
        25: b"<</Type/ExtGState/ca 0.3>>",
    }
    resources = b"/Properties<</Off 20 0 R/On 21 0 R>>/XObject<</Form 22 0 R/Image 23 0 R/Pale 26 0 R>>"
    resources += b"/ExtGState<</Mul 24 0 R/Thin 25 0 R>>"
    data = pdf([content], objects=objects, resources=resources)
    data = data.replace(b"/Catalog/Pages 2 0 R", b"/Catalog/Pages 2 0 R" + catalog, 1)
    data = data.replace(b"/MediaBox[0 0 600 800]", b"/MediaBox[0 0 600 800]" + page, 1)
    (folder / "a.pdf").write_bytes(data)
    return folder / "a.pdf"


def texts(parsed: ParsedFile) -> list[str]:
    return [run.text for block in parsed.blocks for run in block.runs]


UNSEEN = {
    "drawn invisibly": (line(b"secret", 600, b"3 Tr"), b"", "invisible"),
    "as a clip only": (line(b"secret", 600, b"7 Tr"), b"", "invisible"),
    "white on white": (line(b"secret", 600, b"1 g"), b"", "colour of their background"),
    "nearly white": (line(b"secret", 600, b".98 .97 .96 rg"), b"", "colour of their background"),
    "black on black": (BOX % b"0 0 0" + line(b"secret", 600), b"", "colour of their background"),
    "blue under a blue box": (line(b"secret", 600, b"0 0 1 rg") + BOX % b"0 0 1", b"", "under a shape"),
    "under a black box": (line(b"secret", 600, b".4 g") + BOX % b"0 0 0", b"", "under a shape"),
    "under a white box": (line(b"secret", 600) + BOX % b"1 1 1", b"", "under a shape"),
    "of one point": (line(b"secret", 600, size=1), b"", "one point or less"),
    "of half a point": (line(b"secret", 600, size=0.5), b"", "one point or less"),
    "beside the page": (line(b"secret", 600, x=-400), b"", "outside the page"),
    "beyond the crop box": (line(b"secret", 600), b"/CropBox[0 650 600 800]", "outside the page"),
    "in a layer that is off": (b"/OC/Off BDC " + line(b"secret", 600) + b"EMC ", b"", "layer that is off"),
    "in a form of a layer that is off": (b"/Form Do ", b"", "layer that is off"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_unseen_text_is_left_out_and_counted(tmp_path: Path, name: str) -> None:
    content, page, reason = UNSEEN[name]
    layers = b"/OCProperties<</OCGs[20 0 R 21 0 R]/D<</OFF[20 0 R]>>>>" if "layer" in name else b""
    path = made(tmp_path, SHOWN + content, layers, page)
    parsed = parse(path)
    assert texts(parsed) == ["The rent is due on the first of May."]
    (warning,) = parsed.warnings
    assert warning.startswith("hidden in the file, and left out: 1 line of text") or "1 line of invisible" in warning
    assert reason in warning
    read = parse(path, hidden=True)
    assert [(block.metadata, [run.text for run in block.runs]) for block in read.blocks] == [
        ({}, ["The rent is due on the first of May."]),
        ({"hidden": "true"}, ["secret"]),
    ]
    assert read.warnings[0].startswith("hidden in the file, and read: 1 line of")


SEEN = {
    "white on a dark box": BOX % b"0 0 .4" + line(b"plain words", 600, b"1 g"),
    "white on a picture": b"q 300 0 0 40 30 590 cm /Image Do Q " + line(b"plain words", 600, b"1 g"),
    "invisible over a scan": b"q 600 0 0 800 0 0 cm /Image Do Q " + line(b"plain words", 600, b"3 Tr"),
    "invisible over a pale scan": b"q 600 0 0 800 0 0 cm /Pale Do Q " + line(b"plain words", 600, b"3 Tr"),
    "under a highlighter": line(b"plain words", 600) + b"/Mul gs " + BOX % b"1 1 0",
    "under a thin veil": line(b"plain words", 600) + b"/Thin gs " + BOX % b"1 1 1",
    "before a box that is clipped to elsewhere": line(b"plain words", 600) + b"q 0 0 20 20 re W n 0 0 600 800 re f Q ",
    "before a frame": line(b"plain words", 600) + b"10 10 580 780 re 12 12 576 776 re f* ",
    "white with a black outline": line(b"plain words", 600, b"1 g 0 G 2 Tr"),
    "in a layer that is on": b"/OC/On BDC " + line(b"plain words", 600) + b"EMC ",
    "small print": line(b"plain words", 600, size=3.5),
}


@pytest.mark.parametrize("name", SEEN)
def test_seen_text_is_kept(tmp_path: Path, name: str) -> None:
    layers = b"/OCProperties<</OCGs[20 0 R 21 0 R]/D<</OFF[20 0 R]>>>>" if "layer" in name else b""
    parsed = parse(made(tmp_path, SHOWN + SEEN[name], layers))
    assert " ".join(texts(parsed)) == "The rent is due on the first of May. plain words"
    assert not any("hidden" in warning for warning in parsed.warnings)


def test_only_the_covered_words_of_a_line_are_left_out(tmp_path: Path) -> None:
    content = line(b"The salary of Anna Smith is 52,000 euro.", 600) + b"0 g 113 596 60 14 re f "
    parsed = parse(made(tmp_path, SHOWN + content))
    assert "Anna" not in " ".join(texts(parsed))
    assert texts(parsed)[1:] == ["The salary of is 52,000 euro."]


def test_a_page_of_unseen_text_alone_has_no_text_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        DocumentError, match="no text on its page; hidden in the file, and left out: 1 line of invisible"
    ):
        parse(made(tmp_path, line(b"secret", 600, b"3 Tr")))


def test_a_notice_with_unseen_text() -> None:
    """Its last lines are invisible too: the file never sets the mode of drawing back."""
    require_data(FIELD / "p05-double-hidden.pdf")
    parsed = parse(FIELD / "p05-double-hidden.pdf")
    assert texts(parsed) == ["Shadow heading of notice", "Total due is 1,250 euro by 5 May."]
    assert "1 line of text outside the page" in parsed.warnings[0]


def test_text_that_is_drawn_many_times_is_read_once_and_is_no_warning(tmp_path: Path) -> None:
    text = b"The rent is due on the first of May."
    again = b"".join(line(text, 600, b"1 0 0 1 %.1f 0 cm" % (at / 5)) for at in range(4))
    parsed = parse(made(tmp_path, SHOWN + again))
    assert (texts(parsed), parsed.warnings) == (["The rent is due on the first of May."] * 2, ())


def test_a_page_drawn_many_times() -> None:
    require_data(FIELD / "issue-71-duplicate-chars.pdf")
    assert parse(FIELD / "issue-71-duplicate-chars.pdf").warnings == ()


def test_unseen_text_under_a_slanted_mark_repeats_nothing(tmp_path: Path) -> None:
    mark = b"q .8 g BT /F 60 Tf .6 .8 -.8 .6 60 60 Tm (CONFIDENTIAL) Tj ET Q "
    lines = b"".join(line(b"The tenant keeps record number %d." % at, 700 - 40 * at) for at in range(12))
    parsed = parse(made(tmp_path, mark + lines + line(b"secret", 210, b"1 g")))
    words = " ".join(texts(parsed))
    assert [words.count(f"number {at}.") for at in range(12)] == [1] * 12 and "secret" not in words
    assert any("colour of their background" in warning for warning in parsed.warnings)


def test_raised_figures_of_unseen_text_are_written_as_such(tmp_path: Path) -> None:
    raised = b"q 3 Tr BT /F 12 Tf 40 600 Td (10) Tj /F 7 Tf 5 Ts (6) Tj ET Q "
    read = " ".join(texts(parse(made(tmp_path, SHOWN + raised), hidden=True)))
    assert not any(0xE000 <= ord(sign) < 0xF900 or ord(sign) >= 0xF0000 for sign in read) and "10" in read


def test_text_beside_a_page_that_is_read_from_the_right_is_left_out(tmp_path: Path) -> None:
    from reportlab.pdfbase.pdfmetrics import registerFont
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen.canvas import Canvas

    if not FONT.exists():
        pytest.skip(f"{FONT} is not there: apt-get install fonts-dejavu-core")
    registerFont(TTFont("DejaVu", str(FONT)))
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(600, 800))
    canvas.setFont("DejaVu", 14)
    for at in range(6):
        canvas.drawRightString(540, 700 - 30 * at, "שלום עולם זה טקסט"[::-1])
    canvas.drawString(-300, 400, "job_12.indd")
    canvas.save()
    parsed = parse(tmp_path / "a.pdf")
    assert "job_12" not in " ".join(texts(parsed))
    assert any("outside the page" in warning for warning in parsed.warnings)
