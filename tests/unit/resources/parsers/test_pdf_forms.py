"""Form fields of a PDF: filled values by label, in their boxes, once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.parsing.elements import build_elements
from pipelines.parsing.pdf.page import PdfItem
from pipelines.records import Block, Box, ParsedFile
from resources.parsers.pdf.annotations import Form, fields, items_outside
from tests.support.builders import CLAUSE_TOKENS, raw

Draw = Callable[[Any], None]


def drawn(path: Path, draw: Draw | None, rotation: int = 0) -> Path:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(612, 792))
    canvas.drawString(72, 720, "Application")
    canvas.setPageRotation(rotation)
    if draw is not None:
        draw(canvas.acroForm)
    canvas.showPage()
    canvas.drawString(72, 720, "Second page")
    canvas.save()
    return path


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    try:
        yield document
    finally:
        document.close()


def form_of(path: Path, draw: Draw, **options: int) -> Form:
    with opened(drawn(path / "form.pdf", draw, **options)) as document:
        return fields(document, 1)


def said(form: Form) -> list[tuple[str, dict[str, str]]]:
    assert all(block.kind == "key_value" for block in form.blocks)
    return [("".join(run.text for run in block.runs), block.metadata) for block in form.blocks]


def text(form: Any, name: str, value: str, **options: Any) -> None:
    form.textfield(name=name, value=value, **{"x": 150, "y": 690, "width": 200, "height": 20, **options})


def test_the_tooltip_is_the_label_and_the_widget_the_place(tmp_path: Path) -> None:
    form = form_of(tmp_path, lambda form: text(form, "f1", "Anna Kovalenko", tooltip="Full name:"))
    assert said(form) == [("Full name: Anna Kovalenko", {"kv.Full name": "Anna Kovalenko"})]
    assert form.blocks[0].runs[0].box == form.boxes[0] == Box(1, 150.0, 82.0, 350.0, 102.0)


@pytest.mark.parametrize(
    ("name", "label"), [("city", "city"), ("form1[0].#subform[0].City[0]", "City"), ("person.home.city", "city")]
)
def test_a_field_without_a_tooltip_is_labelled_by_the_last_part_of_its_name(
    tmp_path: Path, name: str, label: str
) -> None:
    assert said(form_of(tmp_path, lambda form: text(form, name, "Lviv"))) == [
        (f"{label}: Lviv", {f"kv.{label}": "Lviv"})
    ]


def test_letters_beyond_latin_are_read(tmp_path: Path) -> None:
    import ctypes

    import pypdfium2.raw as pdfium

    with opened(drawn(tmp_path / "form.pdf", lambda form: text(form, "f", "x", tooltip="Місто"))) as document:
        annotation = pdfium.FPDFPage_GetAnnot(document[0], 0)
        value = "Київ 📎\0".encode("utf-16-le")
        wide = ctypes.cast(ctypes.create_string_buffer(value), ctypes.POINTER(pdfium.FPDF_WCHAR))
        assert pdfium.FPDFAnnot_SetStringValue(annotation, b"V", wide)
        pdfium.FPDFPage_CloseAnnot(annotation)
        document.save(tmp_path / "changed.pdf")
    with opened(tmp_path / "changed.pdf") as document:
        assert said(fields(document, 1)) == [("Місто: Київ 📎", {"kv.Місто": "Київ 📎"})]


def test_check_boxes_say_yes_and_no(tmp_path: Path) -> None:
    def draw(form: Any) -> None:
        form.checkbox(name="a", tooltip="I agree", x=72, y=600, checked=True)
        form.checkbox(name="b", tooltip="Send me mail", x=172, y=600, checked=False)

    assert said(form_of(tmp_path, draw)) == [
        ("☑ I agree", {"kv.I agree": "yes"}), ("☐ Send me mail", {"kv.Send me mail": "no"}),
    ]  # fmt: skip


def test_only_the_chosen_radio_button_is_said(tmp_path: Path) -> None:
    def draw(form: Any) -> None:
        for x, value in ((72, "small"), (122, "medium"), (172, "large")):
            form.radio(name="size", tooltip="Size", value=value, selected=value == "medium", x=x, y=560)

    form = form_of(tmp_path, draw)
    assert said(form) == [("Size: medium", {"kv.Size": "medium"})]
    assert form.blocks[0].runs[0].box == form.boxes[1] and len(form.boxes) == 3


def test_choices_say_what_is_shown_not_what_is_sent(tmp_path: Path) -> None:
    options = [("Ukraine", "ua"), ("Poland", "pl")]

    def draw(form: Any) -> None:
        form.choice(name="c", tooltip="Country", value="pl", options=options, x=72, y=500, width=100, height=20)
        form.listbox(name="l", tooltip="Visited", value="ua", options=options, x=72, y=400, width=100, height=60)

    assert said(form_of(tmp_path, draw)) == [
        ("Country: Poland", {"kv.Country": "Poland"}), ("Visited: Ukraine", {"kv.Visited": "Ukraine"}),
    ]  # fmt: skip


def test_empty_hidden_and_secret_fields_are_silent_but_hold_their_place(tmp_path: Path) -> None:
    def draw(form: Any) -> None:
        text(form, "empty", "", y=600)
        text(form, "hidden", "not shown", y=560, annotationFlags="hidden")
        text(form, "secret", "s3cret", y=520, fieldFlags="password")

    form = form_of(tmp_path, draw)
    assert said(form) == [] and len(form.boxes) == 3


def test_a_value_repeated_in_another_widget_of_the_page_is_said_once(tmp_path: Path) -> None:
    def draw(form: Any) -> None:
        text(form, "a", "17", tooltip="Case", y=600)
        text(form, "b", "17", tooltip="Case", y=500)

    assert said(form_of(tmp_path, draw)) == [("Case: 17", {"kv.Case": "17"})]


@pytest.mark.parametrize(
    ("rotation", "corner"), [(0, (150, 472)), (90, (300, 150)), (180, (262, 300)), (270, (292, 442))]
)
def test_boxes_are_of_the_page_as_it_is_shown(tmp_path: Path, rotation: int, corner: tuple[int, int]) -> None:
    (box,) = form_of(tmp_path, lambda form: text(form, "f", "x", y=300), rotation=rotation).boxes
    assert (round(box.x0), round(box.y0)) == corner


def test_pages_and_documents_without_fields(tmp_path: Path) -> None:
    with opened(drawn(tmp_path / "form.pdf", lambda form: text(form, "f", "x"))) as document:
        assert fields(document, 2) == ([], [])
    plain = drawn(tmp_path / "plain.pdf", None)
    with opened(plain) as document:
        assert fields(document, 1) == ([], [])
        assert document.formenv is None


def test_the_values_are_not_in_the_text_of_the_page(tmp_path: Path) -> None:
    """If PDFium's text had them, they would be in the body twice."""
    with opened(drawn(tmp_path / "form.pdf", lambda form: text(form, "f", "Anna"))) as document:
        assert [block.kind for block in fields(document, 1).blocks] == ["key_value"]
        assert document[0].get_textpage().get_text_range() == "Application"


def test_text_drawn_in_a_field_gives_way_to_the_field() -> None:
    inside, beside = PdfItem("Anna", 154, 84, 180, 96, 10.0), PdfItem("Name:", 72, 84, 110, 96, 10.0)
    assert items_outside([inside, beside], [Box(1, 150, 82, 350, 102)]) == [beside]


def test_damaged_forms_raise_nothing(tmp_path: Path) -> None:
    import pypdfium2

    def draw(form: Any) -> None:
        text(form, "a", "Anna", tooltip="Name")
        form.checkbox(name="b", tooltip="Agree", x=72, y=600, checked=True)

    data, random_ = drawn(tmp_path / "form.pdf", draw).read_bytes(), random.Random(7)
    read = 0
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(8):
            broken[random_.randrange(len(broken))] = random_.randrange(256)
        try:
            document = pypdfium2.PdfDocument(bytes(broken))
        except pypdfium2.PdfiumError:
            continue
        read += 1
        if len(document):
            fields(document, 1)
        document.close()
    assert read > 20


def test_a_value_reaches_the_chunk_that_a_filter_finds(tmp_path: Path) -> None:
    form = form_of(tmp_path, lambda form: text(form, "f", "W-4", tooltip="Form"))
    blocks = (Block("heading", form.blocks[0].runs, level=1), *form.blocks)
    document, elements = build_elements(raw(), ParsedFile(blocks, pages=1), lambda text: "en")
    chunks = packed_chunks(structural_chunks(document, elements, CLAUSE_TOKENS), elements, 320, 512)
    assert chunks[0].metadata == {"kv.Form": "W-4"} and chunks[0].page_start == 1
