"""Hostile, damaged and oversized documents, through real worker processes."""

from __future__ import annotations

import os
import random
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.errors import DocumentError, SourceError
from pipelines.records import Failure
from pipelines.settings.base import ParsingSettings
from pipelines.settings.sources import SourceSettings
from resources.documents.pool import DocumentPool
from resources.sources.files import private_copy
from resources.sources.folder import list_source
from tests.faults.parsing import LIBRARY, POLICY, outcomes, parsed
from tests.support.documents import raw_of
from tests.support.pdf_objects import stream_bomb
from tests.support.waiting import HANG_SECONDS

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
NOBODY = 65534


@pytest.fixture(scope="module")
def pool() -> Iterator[DocumentPool]:
    with DocumentPool(ParsingSettings(workers=1, memory_mb=512, timeout_seconds=HANG_SECONDS)) as shared:
        yield shared


def failure(pool: DocumentPool, path: Path) -> Failure:
    """The failure of a document, checked to leave the next one unharmed."""
    done = parsed(pool, path, LIBRARY / "notes" / "archive-move.txt")
    assert isinstance(done["archive-move.txt"], tuple)
    found = done[path.name]
    assert isinstance(found, Failure)
    assert (found.stage, found.uri) == ("parsed_elements", path.name)
    assert path.name in found.message
    return found


def docx(path: Path, document: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", document)
    return path


def many_rows(path: Path, rows: int) -> Path:
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Rows")
    sheet.append(["Name", "Value", "Note"])
    for at in range(rows):
        sheet.append([f"name {at}", at, "some words"])
    book.save(path)
    return path


# ---------------------------------------------------------------- damaged, empty, misnamed


@pytest.mark.case(17)
def test_zero_bytes(pool: DocumentPool, tmp_path: Path) -> None:
    path = tmp_path / "nothing.pdf"
    path.touch()
    assert failure(pool, path).code == "empty"


@pytest.mark.case(17)
@pytest.mark.parametrize("percent", [10, 90])
def test_truncated_pdf(pool: DocumentPool, tmp_path: Path, percent: int) -> None:
    path = tmp_path / "part.pdf"
    data = POLICY.read_bytes()
    path.write_bytes(data[: len(data) * percent // 100])
    assert failure(pool, path).code == "corrupt"


@pytest.mark.case(17)
@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".xlsx", ".pptx", ".html", ".txt", ".csv", ".md", ".eml"])
def test_random_bytes(pool: DocumentPool, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(random.Random(7).randbytes(40_000))
    assert failure(pool, path).code == "corrupt"


def test_flipped_bytes_never_stop_the_others(pool: DocumentPool, tmp_path: Path) -> None:
    chance = random.Random(11)
    originals = [POLICY, *LIBRARY.rglob("*.docx"), *LIBRARY.rglob("*.xlsx"), *LIBRARY.rglob("*.html")]
    paths = []
    for turn in range(6):
        for original in originals:
            data = bytearray(original.read_bytes())
            for _ in range(20):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path = tmp_path / f"{turn}{original.name}"
            path.write_bytes(data)
            paths.append(path)
    outcomes = parsed(pool, *paths)
    assert len(outcomes) == len(paths)
    codes = {outcome.code for outcome in outcomes.values() if isinstance(outcome, Failure)}
    assert codes <= {"corrupt", "no_text", "empty_parse", "encrypted", "limit_exceeded", "crashed"}


@pytest.mark.case(17)
def test_a_picture_named_pdf(pool: DocumentPool, tmp_path: Path) -> None:
    path = tmp_path / "picture.pdf"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(4000))
    found = failure(pool, path)
    assert found.code == "corrupt" and "PNG" in found.message


@pytest.mark.case(18)
def test_encrypted_pdf(pool: DocumentPool, tmp_path: Path) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    locked = tmp_path / "locked.pdf"
    canvas = Canvas(str(locked), encrypt=StandardEncryption("secret", strength=128))
    canvas.drawString(72, 700, "Hidden")
    canvas.save()
    found = failure(pool, locked)
    assert found.code == "encrypted" and "password" in found.message


def test_a_pdf_that_needs_no_password_to_be_read(pool: DocumentPool, tmp_path: Path) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    path = tmp_path / "readable.pdf"
    canvas = Canvas(str(path), encrypt=StandardEncryption("", ownerPassword="owner", strength=128))
    canvas.drawString(72, 700, "Everybody may read this.")
    canvas.save()
    outcome = parsed(pool, path)["readable.pdf"]
    assert isinstance(outcome, tuple) and outcome[0].body == "Everybody may read this."


@pytest.mark.case(16)
def test_missing_and_changed_files(pool: DocumentPool, tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("First version.")
    raw = raw_of(path)
    path.write_text("Second version.")
    gone = replace(raw, uri="gone.txt", doc_id="gone")
    done = {r.uri: o for r, o in outcomes(pool, (raw, tmp_path), (gone, tmp_path))}
    changed, missing = done["note.txt"], done["gone.txt"]
    assert isinstance(changed, Failure) and changed.code == "changed"
    assert isinstance(missing, Failure) and missing.code == "unreadable"


@contextmanager
def somebody() -> Iterator[Path]:
    """A folder that all may read, and this process as a user that may read no more than others: root may read all."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        user = os.geteuid()
        try:
            yield Path(folder)
        finally:
            os.seteuid(user)


@pytest.mark.case(23)
def test_no_permission() -> None:
    with somebody() as folder:
        path = folder / "closed.txt"
        path.write_text("Text.")
        (folder / "open.txt").write_text("Text.")
        raw = raw_of(path)
        path.chmod(0)
        private_copy(folder, raw_of(folder / "open.txt"), folder / ".copies")
        list_source(SourceSettings(name="s", path=str(folder)), folder)  # imports what nobody else may read
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
        with pytest.raises(DocumentError, match="no permission to read the file; grant it") as caught:
            private_copy(folder, raw, folder / ".copies")
        listing = list_source(SourceSettings(name="s", path=str(folder)), folder)
    assert caught.value.code == "unreadable"
    assert [document.uri for document in listing.documents] == ["open.txt"]
    assert [(item.uri, item.code, item.stage) for item in listing.failures] == [
        ("closed.txt", "unreadable", "raw_documents")
    ]


@pytest.mark.case(14)
def test_a_folder_without_permission_is_no_empty_one() -> None:
    with somebody() as folder:
        (folder / "closed").mkdir(mode=0)
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
        with pytest.raises(SourceError, match="Permission denied; nothing was changed"):
            list_source(SourceSettings(name="s", path=str(folder)), folder)


# ---------------------------------------------------------------- bombs


@pytest.mark.case(19)
def test_zip_bomb(pool: DocumentPool, tmp_path: Path) -> None:
    assert failure(pool, docx(tmp_path / "bomb.docx", bytes(80 << 20))).code == "limit_exceeded"


@pytest.mark.case(19)
def test_xml_entity_bomb_and_external_entity(pool: DocumentPool, tmp_path: Path) -> None:
    entities = '<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {chr(98 + at)} "{("&" + chr(97 + at) + ";") * 10}">' for at in range(10)
    )
    bomb = (
        f"<!DOCTYPE d [{entities}]><w:document {W}><w:body><w:p><w:r><w:t>&k;</w:t></w:r></w:p></w:body></w:document>"
    )
    outside = bomb.replace(entities, '<!ENTITY k SYSTEM "file:///etc/passwd">')
    for name, text in (("laughs.docx", bomb), ("outside.docx", outside)):
        assert failure(pool, docx(tmp_path / name, text)).code == "limit_exceeded"


@pytest.mark.case(19)
@pytest.mark.case(24)
def test_html_with_entities_and_outside_references_fetches_nothing(pool: DocumentPool, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        '<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><html><body><p>Safe &x; text</p>'
        '<img src="http://192.0.2.1/x"><iframe src="http://192.0.2.1/y">frame</iframe></body></html>'
    )
    outcome = parsed(pool, path)["page.html"]
    assert isinstance(outcome, tuple) and "root:" not in outcome[0].body and "Safe" in outcome[0].body


@pytest.mark.case(19)
def test_pdf_stream_bomb(tmp_path: Path) -> None:
    """Only the page that holds it is lost, and here there is no other."""
    path = tmp_path / "stream.pdf"
    path.write_bytes(stream_bomb())
    with DocumentPool(
        ParsingSettings(
            workers=1, memory_mb=256, timeout_seconds=HANG_SECONDS, page_timeout_seconds=HANG_SECONDS, ocr="off"
        )
    ) as pool:
        found = failure(pool, path)
    assert found.code == "limit_exceeded" and "parsing.memory_mb" in found.message


@pytest.mark.case(19)
def test_a_file_over_the_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(b"text\n" * 300_000)
    with DocumentPool(ParsingSettings(workers=1, max_megabytes=1)) as pool:
        found = failure(pool, path)
    assert found.code == "limit_exceeded" and "max_megabytes" in found.message


@pytest.mark.case(19)
def test_a_document_that_needs_more_memory_than_allowed(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as stream:
        stream.truncate(400 << 20)
    with DocumentPool(ParsingSettings(workers=1, memory_mb=256)) as pool:
        found = failure(pool, path)
    assert found.code == "limit_exceeded" and "memory_mb" in found.message


# ---------------------------------------------------------------- large but honest


@pytest.mark.case(20)
def test_ten_thousand_nested_headings_and_lists(pool: DocumentPool, tmp_path: Path) -> None:
    html, text = tmp_path / "deep.html", tmp_path / "deep.md"
    html.write_text("".join(f"<div><h{at % 6 + 1}>Heading {at}</h{at % 6 + 1}>" for at in range(10_000)))
    text.write_text("\n".join(" " * at + f"- item {at}" for at in range(3_000)))
    outcomes = parsed(pool, html, text)
    assert isinstance(outcomes["deep.md"], tuple)
    deep = outcomes["deep.html"]
    assert isinstance(deep, Failure) and deep.code == "limit_exceeded"


@pytest.mark.case(20)
def test_a_word_of_a_million_characters(pool: DocumentPool, tmp_path: Path) -> None:
    paths = [tmp_path / f"word{suffix}" for suffix in (".txt", ".md", ".html", ".csv")]
    for path in paths:
        path.write_text("x" * 1_000_000)
    for outcome in parsed(pool, *paths).values():
        assert isinstance(outcome, tuple) and len(outcome[0].body) == 1_000_000


@pytest.mark.case(20)
def test_a_sheet_of_very_many_rows(tmp_path: Path) -> None:
    rows = 100_000
    path = many_rows(tmp_path / "rows.xlsx", rows)
    with DocumentPool(ParsingSettings(workers=1, memory_mb=1024, timeout_seconds=HANG_SECONDS)) as pool:
        outcome = parsed(pool, path)["rows.xlsx"]
    assert isinstance(outcome, tuple)
    assert len(outcome[1][-1].cells) == 3 * rows + 3


@pytest.mark.case(21)
@pytest.mark.case(22)
def test_bad_characters_in_text(pool: DocumentPool, tmp_path: Path) -> None:
    path = tmp_path / "bad.md"
    path.write_bytes(
        "---\ntitle: A\\uD800\n---\nNul \x00, mark \ufffe, right \u202bעברית\u202c end.".encode() + b" \xff\xfe"
    )
    outcome = parsed(pool, path)["bad.md"]
    assert isinstance(outcome, tuple)
    assert "\x00" not in outcome[0].body and "\u202bעברית\u202c" in outcome[0].body
    outcome[0].body.encode()
