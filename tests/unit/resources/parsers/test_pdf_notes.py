"""What people wrote on the pages of a PDF: typed text, notes and marks, in their boxes; and what is attached to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from pipelines.records import Box
from resources.parsers.pdf import annotations as most
from resources.parsers.pdf.reader import parse
from tests.support.documents import elements_of
from tests.support.pdf_objects import pdf, stream

LINES = (b"Tickets are sold on board.", b"Dogs travel free.")
TEXT = b"BT /F 12 Tf 72 700 Td (%b) Tj 0 -300 Td (%b) Tj ET" % LINES
FIRST = 20


def noted(path: Path, *notes: bytes, content: bytes = TEXT, catalog: bytes = b"", objects: bytes = b"") -> Path:
    """A page with annotations, given as the entries of their dictionaries, which are objects from `FIRST` on."""
    references = b" ".join(b"%d 0 R" % (FIRST + at) for at in range(len(notes)))
    made = b"".join(b"%d 0 obj<</Type/Annot%b>>\nendobj\n" % (FIRST + at, note) for at, note in enumerate(notes))
    data = pdf([content]).replace(b"/Contents 4 0 R", b"/Contents 4 0 R/Annots[%b]" % references)
    data = data.replace(b"/Pages 2 0 R", b"/Pages 2 0 R" + catalog).replace(b"trailer", made + objects + b"trailer")
    path.write_bytes(data)
    return path


def note(kind: str, said: str, at: str = "72 390 300 412", more: bytes = b"") -> bytes:
    return f"/Subtype/{kind}/Rect[{at}]/Contents({said})".encode() + more


def found(path: Path) -> list[tuple[str, str]]:
    return [(element.kind, element.text) for element in elements_of(path)[1]]


@pytest.mark.parametrize(
    "kind", ["Text", "Highlight", "Underline", "StrikeOut", "Square", "Ink", "Caret", "Stamp", "Line"]
)
def test_an_annotation_of_the_text_is_a_note_with_its_box(tmp_path: Path, kind: str) -> None:
    quads = b"/QuadPoints[72 412 300 412 72 390 300 390]/InkList[[72 390 300 412]]/L[72 390 300 412]"
    element = elements_of(noted(tmp_path / "a.pdf", note(kind, "Since when?", more=quads)))[1][2]
    assert (element.kind, element.text, element.metadata) == ("footnote", "Since when?", {"part": "comment"})
    assert element.places[0].box == Box(1, 72.0, 388.0, 300.0, 410.0)


def test_text_typed_onto_a_page_stands_among_its_text(tmp_path: Path) -> None:
    drawn = b"90 0 obj" + stream(b"BT (Seen.) Tj ET", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]") + b"\nendobj\n"
    typed = note("FreeText", "Seen.", "72 550 300 570", b"/AP<</N 90 0 R>>")
    assert found(noted(tmp_path / "a.pdf", typed, objects=drawn)) == [
        ("paragraph", "Tickets are sold on board."),
        ("paragraph", "Seen."),
        ("paragraph", "Dogs travel free."),
    ]


def test_some_annotations_are_no_notes_of_their_own(tmp_path: Path) -> None:
    """A mark that repeats what it marks, windows and states of notes, links, and what is hidden."""
    path = noted(
        tmp_path / "a.pdf",
        note("Highlight", "Dogs  travel free", more=b"/QuadPoints[72 412 300 412 72 390 300 390]"),
        note("Text", "Good.", more=b"/Popup 22 0 R"),
        note("Popup", "Good.", more=b"/Parent 21 0 R"),
        note("Link", "Go there"),
        note("Text", "Accepted set by Anna", more=b"/StateModel(Review)/State(Accepted)/IRT 21 0 R"),
        note("Text", "Hidden", more=b"/F 2"),
        note("Text", "Good.", more=b"/NM(again)"),
    )
    assert found(path)[2:] == [("footnote", "Good.")]


def test_formatted_contents_and_lines(tmp_path: Path) -> None:
    rich = b"/Subtype/Text/Rect[1 1 9 9]/RC(<body><p>Only <b>formatted</b>.</p></body>)"
    path = noted(tmp_path / "a.pdf", rich, note("Text", "One\\rTwo"), note("Text", "Without a box", "5 5 5 5"))
    assert [text for _, text in found(path)[2:]] == ["Only formatted.", "One Two", "Without a box"]
    assert elements_of(path)[1][4].page_start == 1


def test_files_that_are_attached_are_named(tmp_path: Path) -> None:
    name = b"<</Type/Filespec/F(%b)/UF(%b)/EF<</F 80 0 R>>>>"
    objects = b"80 0 obj" + stream(b"x") + b"\nendobj\n"
    tree = b"/Names<</EmbeddedFiles<</Names[(a)%b(b)%b]>>>>" % (
        name % (b"a.xlsx", b"a.xlsx"),
        name % (b"b.pdf", b"b.pdf"),
    )
    pinned = note("FileAttachment", "See the sheet", more=b"/FS" + name % (b"pinned.txt", b"pinned.txt"))
    path = noted(tmp_path / "a.pdf", pinned, catalog=tree + b"/Collection<</View/T>>", objects=objects)
    assert found(path)[2:] == [("footnote", "See the sheet")]
    assert elements_of(path)[0].warnings == ("attachments were not read: a.xlsx, b.pdf, pinned.txt",)


def test_notes_alone_are_not_the_text_of_a_scan(tmp_path: Path) -> None:
    path = noted(tmp_path / "a.pdf", note("Text", "Please index me"), content=b"")
    with pytest.raises(DocumentError) as caught:
        parse(path)
    assert caught.value.code == "no_text"
    assert found(noted(tmp_path / "b.pdf", note("FreeText", "Typed"), content=b"")) == [("paragraph", "Typed")]


LEFT_OUT = (
    "page 1: {} notes or values of fields are left out: over 10,000 on the page, 100,000 characters in one, "
    "or 5,000,000 in all"
)


@pytest.mark.defends("1a")
def test_notes_that_are_one_long_text_of_the_file_are_left_out_by_name(tmp_path: Path) -> None:
    shared = b"/Subtype/Text/Rect[%d 1 9 9]/Contents 9000 0 R"
    long = b"9000 0 obj(" + b"word " * 15_000 + b")\nendobj\n"
    huge = note("Text", "x" * (most.MOST_CHARACTERS + 1))
    path = noted(tmp_path / "a.pdf", huge, *[shared % at for at in range(200)], objects=long)
    parsed = parse(path)
    read = most.MOST_IN_ALL // 75_001
    assert len(parsed.blocks) == 2 + read
    assert parsed.warnings == (LEFT_OUT.format(201 - read),)


@pytest.mark.defends("1a")
def test_notes_without_number_are_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(most, "MOST_ANNOTATIONS", 10)
    path = noted(tmp_path / "a.pdf", *[note("Text", f"Note {at}", f"{at} 1 90 9") for at in range(25)])
    parsed = parse(path)
    assert len(parsed.blocks) == 2 + 10
    assert parsed.warnings == (LEFT_OUT.format(15).replace("10,000", "10"),)


# ---------------------------------------------------------------- pages that are not there


def pages(*kids: bytes, count: int = 3) -> bytes:
    """Three pages of a line each, 3, 5 and 7, in a tree of these kids."""
    made = pdf([b"BT /F 12 Tf 72 700 Td (Page %b stands.) Tj ET" % name for name in (b"one", b"two", b"three")])
    return made.replace(b"[3 0 R 5 0 R 7 0 R]/Count 3", b"[%b]/Count %d" % (b" ".join(kids), count))


@pytest.mark.parametrize("kid", [b"99 0 R", b"null", b"12", b"(a)", b"1 0 R"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_broken_reference_to_a_page_costs_that_page(tmp_path: Path, kid: bytes, at: int) -> None:
    kids = [b"3 0 R", b"5 0 R", b"7 0 R"]
    kids[at] = kid
    (tmp_path / "a.pdf").write_bytes(pages(*kids))
    document, elements, _ = elements_of(tmp_path / "a.pdf")
    left = [name for place, name in enumerate(("one", "two", "three")) if place != at]
    assert [element.text for element in elements] == [f"Page {name} stands." for name in left]
    assert [warning.split(":")[0] for warning in document.warnings] == [f"page {at + 1}"]
    assert "left out, as it cannot be read" in document.warnings[0] and document.pages == 3


def test_a_tree_of_pages_that_comes_back_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pages(b"3 0 R", b"2 0 R", b"7 0 R"))
    document, elements, _ = elements_of(tmp_path / "a.pdf")
    assert [element.text for element in elements] == ["Page one stands.", "Page three stands."]
    assert len(document.warnings) == 1
