"""Documents within a DOCX (`altChunk`): their text in its place, and what is not read by name."""

from __future__ import annotations

import io
import zipfile
from email.message import EmailMessage
from pathlib import Path

import docx
import pytest

from resources.parsers.office import docx as alt_chunks
from tests.support.documents import W, docx_of, elements_of, outline, related, run
from tests.support.pictures import RED, picture

ROWS = "<tr><th>Year</th><th>Fee</th></tr><tr><td>2025</td><td>12</td></tr>"
HTML = f"<h2>Fees</h2><p>The fee is <b>twelve</b> euro.</p><table>{ROWS}</table>"
BY_ENDING = '<Default Extension="DAT" ContentType="Text/HTML; charset=utf-8"/>'
BY_NAME = '<Override PartName="/word/aFChunk/one.dat" ContentType="application/xhtml+xml"/>'
XHTML = b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body><p>XML.</p></body></html>"
CHUNK = "<w:altChunk r:id='r1'/>"
RELATIONS = "_rels/document.xml.rels"


def taking_in(folder: Path, *parts: tuple[str, bytes], body: str = "", types: str = "") -> Path:
    """A document with a paragraph before and after what it takes in, parts by name and content."""
    names = [name for name, _ in parts]
    chunks = body or "".join(f"<w:altChunk r:id='r{at}'/>" for at in range(1, len(parts) + 1))
    path = docx_of(folder, f"<w:p>{run('Before.')}</w:p>{chunks}<w:p>{run('After.')}</w:p>",
                   **{RELATIONS: related(*(f"aFChunk/{name}" for name in names))})  # fmt: skip
    with zipfile.ZipFile(path, "a") as package:
        for name, data in parts:
            package.writestr(f"word/aFChunk/{name}", data)
        if types:
            package.writestr("[Content_Types].xml", f"<Types>{types}</Types>")
    return path


def inner(text: str, *parts: tuple[str, bytes], folder: Path) -> bytes:
    folder.mkdir(exist_ok=True)
    path = taking_in(folder, *parts) if parts else docx_of(folder, f"<w:p>{run(text)}</w:p>")
    return path.read_bytes()


def texts(path: Path) -> list[str]:
    return [element.text for element in elements_of(path)[1]]


def test_html_stands_where_it_is_taken_in_with_its_structure(tmp_path: Path) -> None:
    document, elements, _ = elements_of(taking_in(tmp_path, ("one.html", HTML.encode())))
    assert outline(elements) == [
        ("paragraph", None, "Before."),
        ("heading", 2, "Fees"),
        ("paragraph", None, "The fee is twelve euro."),
        ("table", None, "Year\tFee\n2025\t12"),
        ("paragraph", None, "After."),
    ]
    assert document.warnings == ()
    assert all(place.source_start is None for element in elements for place in element.places)


def web_archive() -> bytes:
    message = EmailMessage()
    message.set_content("<p>Kept in an archive.</p>", subtype="html")
    message.add_related(picture(RED), "image", "png", cid="<one>")
    return b"MIME-Version: 1.0\r\n" + message.as_bytes()


@pytest.mark.parametrize(
    ("name", "data", "types", "text"),
    [
        ("one.txt", "Перший рядок.".encode(), "", "Перший рядок."),
        ("one.txt", "Перший рядок.".encode("utf-16"), "", "Перший рядок."),
        ("one.mht", web_archive(), "", "Kept in an archive."),
        ("one.dat", b"<p>By its type.</p>", BY_ENDING, "By its type."),
        ("one.dat", b"<p>By its name.</p>", BY_NAME, "By its name."),
        ("one.xhtml", XHTML, "", "XML."),
    ],
)  # fmt: skip
def test_other_kinds(tmp_path: Path, name: str, data: bytes, types: str, text: str) -> None:
    assert texts(taking_in(tmp_path, (name, data), types=types)) == ["Before.", text, "After."]


def test_a_document_of_word_brings_its_own_styles_notes_and_relations(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_heading("Terms", 1)
    made.add_paragraph("First", style="List Number")
    made.add_picture(io.BytesIO(picture(RED)))
    out = io.BytesIO()
    made.save(out)
    document, elements, _ = elements_of(taking_in(tmp_path, ("inner.bin", out.getvalue())))
    assert outline(elements) == [
        ("paragraph", None, "Before."),
        ("heading", 1, "Terms"),
        ("list_item", 1, "1. First"),
        ("paragraph", None, "After."),
    ]
    assert document.warnings == ("word/aFChunk/inner.bin: 1 picture in it was left out",)


def test_rtf_by_its_reader(tmp_path: Path) -> None:
    data = rb"{\rtf1\ansi {\b Fees} are paid in May.\par}"
    assert texts(taking_in(tmp_path, ("one.rtf", data))) == ["Before.", "Fees are paid in May.", "After."]


def test_in_cells_notes_and_headers_the_relations_are_those_of_the_part(tmp_path: Path) -> None:
    cells = f"<w:tc>{CHUNK}</w:tc><w:tc><w:p>{run('Beside')}</w:p></w:tc>"
    note = f"<w:footnotes {W}><w:footnote w:id='7'>{CHUNK}</w:footnote></w:footnotes>"
    path = docx_of(
        tmp_path,
        f"<w:tbl><w:tr>{cells}</w:tr><w:tr>{cells}</w:tr></w:tbl>",
        footnotes=note,
        **{
            RELATIONS: related("aFChunk/body.html"),
            "_rels/footnotes.xml.rels": related("aFChunk/note.html"),
            "aFChunk/body.html": "<p>In a cell.</p>",
            "aFChunk/note.html": "<table><tr><td>In a</td><td>note.</td></tr></table>",
        },
    )
    assert outline(elements_of(path)[1]) == [
        ("table", None, "In a cell.\tBeside\nIn a cell.\tBeside"),
        ("footnote", None, "In a note."),
    ]


# ---------------------------------------------------------------- what is not read is named


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("one.xml", b"<w:document/>", "no reader takes a part that does not say what it is"),
        ("one.html", b"", None),
        ("one.docx", b"PK\x03\x04 no archive", "the part is damaged"),
        ("one.txt", bytes(range(1, 9)) * 50 + b"\xff\xfe\x80", "not text"),
        ("one.mht", b"MIME-Version: 1.0\r\n\r\n", "no page is in this web archive"),
    ],
)
def test_a_part_that_is_not_read_costs_only_itself(tmp_path: Path, name: str, data: bytes, told: str | None) -> None:
    document, elements, _ = elements_of(taking_in(tmp_path, (name, data)))
    assert [element.text for element in elements] == ["Before.", "After."]
    assert [warning.startswith(f"word/aFChunk/{name}: ") for warning in document.warnings] == [True] * bool(told)
    assert (told or "") in "".join(document.warnings)


def test_a_part_that_is_only_linked_to_is_named_and_not_opened(tmp_path: Path) -> None:
    links = related("aFChunk/one.html").replace(
        "</Relationships>",
        "<Relationship Id='r2' Type='x/aFChunk' Target='http://127.0.0.1:9/x.html' TargetMode='External'/>"
        "<Relationship Id='r3' Type='x/subDocument' Target='file:///etc/passwd' TargetMode='External'/>"
        "</Relationships>",
    )
    body = f"<w:p>{run('Here.')}</w:p><w:altChunk r:id='r2'/><w:altChunk r:id='r9'/>"
    document, elements, _ = elements_of(docx_of(tmp_path, body, **{RELATIONS: links}))
    assert [element.text for element in elements] == ["Here."]
    assert document.warnings == (
        "parts of the text are only linked to, and nothing is fetched: file:///etc/passwd, http://127.0.0.1:9/x.html",
        "altChunk r9: this part of the text was left out: the file does not have it",
    )


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    path = docx_of(tmp_path, f"<w:p>{run('Here.')}</w:p>{CHUNK}", **{RELATIONS: related("aFChunk/gone.html")})
    assert elements_of(path)[0].warnings == (
        "word/aFChunk/gone.html: this part of the text was left out: the file does not have it",
    )


# ---------------------------------------------------------------- hostile


def test_a_document_that_takes_in_itself(tmp_path: Path) -> None:
    path = docx_of(tmp_path, f"<w:p>{run('Here.')}</w:p>{CHUNK}", **{RELATIONS: related("document.xml")})
    document, elements, _ = elements_of(path)
    assert [element.text for element in elements] == ["Here."]
    assert "word/document.xml: this part of the text was left out: no reader takes" in document.warnings[0]


def nested(folder: Path, deep: int) -> bytes:
    data = inner("The innermost.", folder=folder)
    for _ in range(deep - 1):
        data = inner("", ("in.docx", data), folder=folder)
    return data


def test_documents_in_documents_are_read_so_deep_and_no_deeper(tmp_path: Path) -> None:
    allowed = taking_in(tmp_path, ("in.docx", nested(tmp_path / "a", alt_chunks.DEEPEST)))
    assert "The innermost." in texts(allowed)
    document, elements, _ = elements_of(
        taking_in(tmp_path, ("in.docx", nested(tmp_path / "b", alt_chunks.DEEPEST + 1)))
    )
    assert "The innermost." not in [element.text for element in elements]
    assert document.warnings[0].endswith("left out: the part is nested more than 4 deep")


def test_one_part_taken_in_at_many_places_is_read_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents of documents that each take in one part several times would be many times what the file has."""
    monkeypatch.setattr(alt_chunks, "MOST_BYTES", 1000)
    path = taking_in(tmp_path, ("one.txt", b"word " * 60), body=CHUNK * 50)
    document, elements, _ = elements_of(path)
    assert len(elements) == 2 + 3
    assert len(document.warnings) == 1 and "all parts of this kind have more than" in document.warnings[0]


def test_deep_nesting_in_every_document_is_a_warning(tmp_path: Path) -> None:
    data = inner("The innermost.", folder=tmp_path / "a")
    for _ in range(3):
        controls = "<w:sdt><w:sdtContent>" * 110 + CHUNK + "</w:sdtContent></w:sdt>" * 110
        folder = tmp_path / "b"
        folder.mkdir(exist_ok=True)
        data = taking_in(folder, ("in.docx", data), body=controls).read_bytes()
    document, elements, _ = elements_of(taking_in(tmp_path, ("in.docx", data)))
    assert [elements[0].text, elements[-1].text] == ["Before.", "After."]
    told, read = "nested too deeply" in "".join(document.warnings), "The innermost." in [e.text for e in elements]
    assert told != read


def test_many_missing_parts_are_told_in_few_words(tmp_path: Path) -> None:
    names = [f"aFChunk/{at}.html" for at in range(100)]
    body = "".join(f"<w:altChunk r:id='r{at}'/>" for at in range(1, 101))
    path = docx_of(tmp_path, f"<w:p>{run('Here.')}</w:p>{body}", **{RELATIONS: related(*names)})
    warnings = elements_of(path)[0].warnings
    assert len(warnings) == alt_chunks.MOST_TOLD + 1 and warnings[-1] == "80 more such parts"
