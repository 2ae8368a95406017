"""The colour is really where the words are, however the page is turned or cropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipelines.errors import DocumentError, PinciteError
from pipelines.parsing.elements import KINDS
from pipelines.parsing.page_marks import Mark, marks_of
from pipelines.records import Box, RawDocument
from resources.documents.figures import page_pictures
from resources.documents.page_pictures import (
    COLOURS,
    HIT,
    HIT_EDGE,
    LONGEST_SIDE,
    RenderedPage,
    _tops,
    annotate,
    highlight,
    opened_pages,
    pages_beside,
    write,
)
from resources.documents.protocol import PDF
from resources.documents.requests import MOST_PAGES, DrawnPages
from tests.support.documents import elements_of, pdf_of
from tests.support.pictures import colours
from tests.support.places import LIBRARY

Pixels = np.ndarray


def pixels(image: Image.Image) -> Pixels:
    return np.asarray(image.convert("RGB")).astype(int)


def variant(path: Path, turned: int = 0, crop: tuple[int, int, int, int] | None = None) -> Path:
    """A page with three lines, turned by quarters and cropped as asked."""
    import pypdfium2

    lines = [(90, 760, "Alpha stands near the upper corner."), (90, 700, "Middle of it."), (200, 90, "Omega is low.")]
    document = pypdfium2.PdfDocument(pdf_of(path.with_name("straight.pdf"), [lines]))
    document[0].set_rotation(turned)
    if crop:
        document[0].set_cropbox(*crop)
    document.save(str(path))
    return path


CROP = (60, 40, 560, 800)


@pytest.mark.parametrize(("turned", "crop"), [(90, None), (0, CROP), (90, CROP), (180, CROP), (270, CROP)])
def test_the_boxes_of_a_parse_hold_all_the_ink_of_a_page(
    tmp_path: Path, turned: int, crop: tuple[int, int, int, int] | None
) -> None:
    path = variant(tmp_path / "page.pdf", turned, crop)
    _, elements, _ = elements_of(path)
    boxes = [place.box for element in elements for place in element.places if place.box]
    with opened_pages(path) as pages:
        picture = pages.picture(1)
    plain, marked = pixels(picture.image), pixels(highlight(picture, boxes))
    assert max(plain.shape) == LONGEST_SIDE
    empty = RenderedPage(Image.new("RGB", picture.image.size, "white"), picture.scale)
    coloured = np.asarray((pixels(highlight(empty, boxes)) < 255).any(axis=2))
    ink = (plain < 100).all(axis=2)
    assert ink.sum() > 500
    assert coloured[ink].all(), "ink outside the boxes"
    assert 0.005 < coloured.mean() < 0.1
    assert {tuple(colour) for colour in marked[coloured & (plain == 255).all(axis=2)]} == {HIT, HIT_EDGE}
    assert (marked[~coloured] == plain[~coloured]).all()
    assert (marked[ink] < 100).all(axis=1).mean() > 0.95, "ink is still black under the colour"


def blank(width: int = 400, height: int = 600) -> RenderedPage:
    return RenderedPage(Image.new("RGB", (width, height), "white"), 2.0)


def margin_of(image: Image.Image, page: RenderedPage) -> int:
    """How far right the page stands in the picture: where its edge is drawn."""
    column = next(x for x in range(image.width) if image.getpixel((x, 5)) == (190, 190, 190))
    assert image.width >= column + page.image.width
    return column


def test_every_kind_has_its_colour_at_its_box_and_in_the_legend() -> None:
    marks = [
        Mark(kind, f"{at} {kind}", (Box(1, 40, 20 + 20 * at, 150, 30 + 20 * at),)) for at, kind in enumerate(COLOURS)
    ]
    image = annotate(blank(), marks, "page 1 of 1")
    margin = margin_of(image, blank())
    for mark in marks:
        box, colour = mark.regions[0], COLOURS[mark.kind]
        assert image.getpixel((margin + 80 - 2, round(box.y0 * 2) + 8)) == colour, "outline"
        inside = image.getpixel((margin + 160, round(box.y0 * 2) + 10))
        assert inside == tuple(round(255 - (255 - part) * 0.2) for part in colour), "tint"
    legend = {image.getpixel((x, y)) for x in range(image.width) for y in range(600, image.height)}
    assert set(COLOURS.values()) <= legend
    assert COLOURS.keys() == KINDS
    assert len(set(COLOURS.values())) == len(COLOURS) - 1, "only page headers and footers share a colour"


def test_header_cells_are_tinted_more_than_the_table_and_cells_outlined() -> None:
    whole, header, cell = Box(1, 40, 40, 160, 120), Box(1, 50, 50, 90, 60), Box(1, 50, 90, 90, 100)
    image = annotate(blank(), [Mark("table", "0 table", (whole,), (cell,), (header,))], "page 1 of 1")
    margin = margin_of(image, blank())
    at = np.asarray(image).sum(axis=2)
    levels = [at[y, margin + x] for x, y in ((140, 110), (140, 150), (200, 150), (98, 190))]
    tinted, table, _, outline = levels
    assert tinted < table < 3 * 255 and outline < table


def test_labels_stand_beside_the_page_not_on_it() -> None:
    """On the page itself only boxes and lines to them are drawn: what is right of a box stays white."""
    marks = [Mark("paragraph", "7 paragraph", (Box(1, 40, 40, 150, 60),))]
    image = annotate(blank(), marks, "page 1 of 1")
    margin = margin_of(image, blank())
    area = pixels(image)[1:599, margin + 1 : margin + 399]
    assert (area[:, 304:] == 255).all() and (area[:60] == 255).all() and (area[124:] == 255).all()
    assert (pixels(image)[70:110, :margin] < 200).any(), "no label"


def test_regions_of_the_right_half_are_labelled_on_the_right() -> None:
    left, right = Mark("paragraph", "0 paragraph", (Box(1, 10, 40, 90, 60),)), Box(1, 110, 40, 190, 60)
    alone = annotate(blank(), [left], "x").width
    assert annotate(blank(), [left, Mark("paragraph", "1 paragraph", (right,))], "x").width > alone


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [([10, 50], [10, 50]), ([10, 12, 14], [10, 30, 50]), ([70, 90, 95], [40, 60, 80]), ([-5], [0])],
)
def test_labels_give_way_to_one_another(wanted: list[int], expected: list[int]) -> None:
    assert _tops(wanted, 20, 100) == expected


def test_a_page_of_very_many_elements_can_be_drawn() -> None:
    marks = [Mark("code", f"{at} code", (Box(1, 10, at / 2, 90, at / 2 + 1),)) for at in range(500)]
    assert annotate(blank(), marks, "page 1 of 1").height > 600


def test_pages_that_are_not_there_and_files_that_are_no_pdf(tmp_path: Path) -> None:
    with opened_pages(pdf_of(tmp_path / "a.pdf", [[(72, 700, "One page.")]])) as pages:
        assert len(pages) == 1
        for number in (0, 2):
            with pytest.raises(DocumentError, match="choose one up to 1") as caught:
                pages.picture(number)
            assert caught.value.code == "no_page"
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 torn")
    with pytest.raises(DocumentError, match=r"b\.pdf") as caught, opened_pages(tmp_path / "b.pdf"):
        pass
    assert caught.value.code == "corrupt"


@pytest.mark.parametrize("number", [0, -1, -(10**30), 10**30, MOST_PAGES + 1])
def test_a_number_that_no_page_has_starts_no_process(tmp_path: Path, number: int) -> None:
    raw = RawDocument("d" * 32, "source", "a.pdf", "", 0, PDF, None, None, None, None, (), {})
    pool: Any = None
    pages = DrawnPages(pool, raw, tmp_path)
    with pytest.raises(DocumentError, match="no page") as caught:
        pages.picture(number)
    assert caught.value.code == "no_page"


def test_the_process_that_draws_leaves_out_numbers_that_no_page_has(tmp_path: Path) -> None:
    file = pdf_of(tmp_path / "a.pdf", [[(72, 700, "One page.")]])
    asked: list[int] = []
    found = list(page_pictures(file, [-1, 0, 1, 2], asked.append, ()))
    assert [row.index for row in found] == [0, 1] and asked == [1]


@pytest.mark.parametrize("far", [1e9, 1e300, -1e300, float("inf"), float("-inf"), float("nan")])
def test_a_box_may_lie_anywhere(far: float) -> None:
    page = RenderedPage(Image.new("RGB", (50, 50), "white"), 2.0)
    assert highlight(page, [Box(1, 0.0, 0.0, far, far)], [Box(1, far, 0.0, 10.0, 10.0)]).size == (50, 50)


def test_the_pages_of_a_map_are_those_of_the_pdf_beside_it(tmp_path: Path) -> None:
    for name in ("a.pdf", "b.docx"):
        (tmp_path / name).touch()
    found = {
        name: pages_beside(tmp_path / name)
        for name in (
            "a.pdf",
            "a.elements.json",
            "a.pdf.elements.json",
            "b.docx",
            "b.docx.elements.json",
            "c.elements.json",
        )
    }
    assert found == {
        "a.pdf": tmp_path / "a.pdf",
        "a.elements.json": tmp_path / "a.pdf",
        "a.pdf.elements.json": tmp_path / "a.pdf",
        "b.docx": None,
        "b.docx.elements.json": None,
        "c.elements.json": None,
    }


def test_a_written_picture_keeps_its_colours_and_says_where_it_could_not_be_written(tmp_path: Path) -> None:
    image = annotate(blank(), [Mark("heading", "0 heading 1", (Box(1, 40, 40, 150, 60),))], "page 1 of 1")
    write(image, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as saved:
        assert saved.format == "PNG"
        assert np.abs(pixels(saved) - pixels(image)).max() < 40
    with pytest.raises(PinciteError, match="cannot be written") as caught:
        write(image, tmp_path / "nowhere" / "a.png")
    assert caught.value.code == "unwritable"


def test_a_real_page_is_drawn_with_all_its_kinds() -> None:
    path = LIBRARY / "policies" / "travel-policy-2026.pdf"
    _, elements, _ = elements_of(path)
    with opened_pages(path) as pages:
        image = annotate(pages.picture(1), marks_of(elements)[1], "page 1 of 5")
    found = colours(image)
    kinds = ("heading", "paragraph", "list_item", "table", "caption", "page_footer")
    assert {COLOURS[kind] for kind in kinds} <= found


def test_a_link_beside_a_map_is_not_followed(tmp_path: Path) -> None:
    """It may lead out of the source."""
    outside = pdf_of(tmp_path / "outside.pdf", [[(72, 700, "Salaries.")]])
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.pdf").symlink_to(outside)
    for name in ("a.elements.json", "a.pdf.elements.json"):
        assert pages_beside(tmp_path / "docs" / name) is None
