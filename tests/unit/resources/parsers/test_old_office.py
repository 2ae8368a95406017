"""DOC and PPT through LibreOffice: what comes out, what is refused by name, and what it may not do."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from pipelines.parsing.elements import build_elements
from pipelines.records import Failure
from pipelines.settings.base import ParsingSettings
from resources.documents.figures import figure_image
from resources.documents.pool import DocumentPool
from resources.documents.protocol import parse_task
from resources.documents.requests import FileReader, listed_alone
from resources.documents.requests import reader as open_reader
from resources.parsers.installed import libreoffice
from resources.parsers.package import parts_of
from resources.parsers.registry import media_type_of, parse_file
from tests.support import other_formats as made
from tests.support.documents import raw_of
from tests.support.old_office import needs_libreoffice, write_as, write_doc, write_ppt, write_with_macro
from tests.support.waiting import HANG_SECONDS

SETTINGS = ParsingSettings(workers=1, memory_mb=2048, timeout_seconds=HANG_SECONDS)


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    with open_reader(SETTINGS) as opened:
        yield opened


@pytest.fixture(scope="module")
def doc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_doc(tmp_path_factory.mktemp("old") / "hall.doc")


@needs_libreoffice
def test_headings_lists_and_tables_of_a_doc(doc: Path, reader: FileReader) -> None:
    found = reader.read(doc)
    assert [(e.kind, e.level, e.text) for e in found.elements] == [
        ("heading", 1, "Leave"),
        ("paragraph", None, made.LEAVE),
        ("heading", 2, "Carrying over"),
        ("list_item", 1, "Five days may be carried over."),
        ("list_item", 1, "The registrar signs."),
        ("table", None, "Grade\tDays\nPorter\t28\nRegistrar\t30"),
        ("heading", 1, "Expenses"),
        ("paragraph", None, made.CLAIMS),
    ]
    assert [cell.text for e in found.elements for cell in e.cells] == [cell for row in made.ROWS for cell in row]
    assert (found.document.title, found.document.metadata["author"]) == ("Handbook of the hall", "The registrar")
    assert found.document.metadata["created"] == "2013-12-23"
    assert found.document.warnings == () and {e.origin for e in found.elements} == {"doc"}
    assert "language" not in found.parsed.properties, "LibreOffice would have said its own"
    assert reader.read(doc).parsed == found.parsed


@needs_libreoffice
def test_slides_tables_and_notes_of_a_ppt(tmp_path: Path, reader: FileReader) -> None:
    found = reader.read(write_ppt(tmp_path / "hall.ppt"))
    texts = [(e.kind, e.text, e.page_start) for e in found.elements]
    assert [text for text in texts if text[0] == "heading"] == [("heading", "Leave", 1), ("heading", "Expenses", 2)]
    said = {text: page for _, text, page in texts}
    assert said[made.LEAVE] == 1 and said[made.CLAIMS] == 2
    assert (found.document.title, found.document.metadata["author"]) == (made.TITLE, made.AUTHOR)
    assert found.document.warnings == ()
    assert said["Grade\tDays\nPorter\t28\nRegistrar\t30"] == 2
    assert any("Say that the registrar signs." in text and page == 1 for text, page in said.items())


@needs_libreoffice
def test_the_picture_of_a_doc_is_found_again(tmp_path: Path) -> None:
    import docx
    from PIL import Image

    Image.new("RGB", (320, 240), "teal").save(tmp_path / "teal.png")
    whole = docx.Document()
    whole.add_paragraph(made.LEAVE)
    whole.add_picture(str(tmp_path / "teal.png"))
    whole.save(str(tmp_path / "picture.docx"))
    write_as(tmp_path / "picture.docx", tmp_path / "picture.doc")
    file, media_type = tmp_path / "picture.doc", media_type_of(tmp_path / "picture.doc") or ""
    _, elements = build_elements(raw_of(file), parse_file(file, media_type), lambda text: "en")
    (figure,) = [element for element in elements if element.kind == "figure"]
    picture = Image.open(io.BytesIO(figure_image(file, media_type, figure)))
    assert picture.size == (320, 240)


@needs_libreoffice
def test_one_with_a_password_is_told_apart_from_a_damaged_one(doc: Path, tmp_path: Path, reader: FileReader) -> None:
    at = parts_of(doc)["WordDocument"].at
    assert at is not None
    locked, cut = bytearray(doc.read_bytes()), doc.read_bytes()[:6000]
    locked[at + 11] |= 1
    for name, content, code in (("locked.doc", locked, "encrypted"), ("cut.doc", cut, "corrupt")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DocumentError, match=name) as refused:
            reader.read(tmp_path / name)
        assert refused.value.code == code
    slides = tmp_path / "locked.ppt"
    slides.write_bytes(made.compound_file({"EncryptedSummary": b"x", "PowerPoint Document": b"x"}))
    with pytest.raises(DocumentError, match="password"):
        reader.read(slides)


@needs_libreoffice
def test_a_file_with_only_the_name_ending_is_no_document_of_its_format(tmp_path: Path, reader: FileReader) -> None:
    made.write_xls(tmp_path / "sheet.xls")
    (tmp_path / "sheet.xls").rename(tmp_path / "sheet.doc")
    with pytest.raises(DocumentError) as refused:
        reader.read(tmp_path / "sheet.doc")
    assert refused.value.code == "corrupt"


@needs_libreoffice
def test_a_macro_is_not_run(tmp_path: Path) -> None:
    """Where nothing else would have kept it from writing."""
    marker = tmp_path / "ran.txt"
    write_as(write_with_macro(tmp_path / "macro.odt", marker), tmp_path / "macro.docx")
    assert made.LEAVE in str(parse_file(tmp_path / "macro.docx", media_type_of(Path("a.docx")) or "").blocks)
    assert not marker.exists()


@needs_libreoffice
def test_nothing_is_left_of_one_that_is_stopped(doc: Path, tmp_path: Path) -> None:
    """No process of it, no profile, no text."""
    folder = tmp_path / "work"
    raw, root = listed_alone(doc)
    # LibreOffice's first start alone takes longer.
    hurried = SETTINGS.model_copy(update={"timeout_seconds": 0.2})
    with DocumentPool(hurried, folder) as pool:
        ((_, result),) = pool.run([parse_task(raw, root, hurried)], 1)
        assert isinstance(result, Failure) and result.code == "timeout"
        assert not list(folder.rglob("libreoffice-*"))
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.is_dir()]
    assert not [command for command in commands if str(folder).encode() in command]


@pytest.mark.parametrize(("ending", "now"), [("doc", "docx"), ("dot", "docx"), ("ppt", "pptx"), ("pps", "pptx")])
def test_a_missing_libreoffice_names_what_to_install(
    ending: str, now: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert libreoffice() is None
    file = tmp_path / f"old.{ending}"
    file.write_bytes(made.compound_file({"WordDocument": b"x" * 100}))
    with pytest.raises(DocumentError, match=rf"Debian: libreoffice-\w+-nogui.*save the file as \.{now}") as refused:
        parse_file(file, media_type_of(file) or "")
    assert refused.value.code == "unsupported"
