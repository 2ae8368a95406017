"""Formats without a reader of our own: what comes out of each, and what hostile or damaged ones do."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DocumentError, SettingsError
from pipelines.parsing.formats import FORMATS, OF_ENDING, UNSTRUCTURED
from pipelines.records import Block, ParsedFile
from pipelines.settings.base import ParsingSettings, settings_from
from resources.documents.requests import FileReader
from resources.documents.requests import reader as open_reader
from resources.parsers.installed import pandoc_path
from resources.parsers.registry import media_type_of, parse_file
from tests.support import other_formats as made
from tests.support.waiting import HANG_SECONDS

SETTINGS = ParsingSettings(
    workers=1, memory_mb=1024, timeout_seconds=HANG_SECONDS, readers={".html": UNSTRUCTURED, ".eml": UNSTRUCTURED}
)


@pytest.fixture(scope="module")
def handbooks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made.write_all(tmp_path_factory.mktemp("formats"))


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    """Reads in the confined process that an index run reads in."""
    with open_reader(SETTINGS) as made:
        yield made


def text_of(block: Block) -> str:
    return "".join(run.text for run in block.runs)


def outline(parsed: ParsedFile) -> list[tuple[str, int | None, str]]:
    return [(block.kind, block.level, text_of(block)) for block in parsed.blocks]


def cells(parsed: ParsedFile) -> list[tuple[str, bool]]:
    return [
        ("".join(run.text for run in cell.runs).strip(), cell.header)
        for block in parsed.blocks
        if block.kind == "table"
        for cell in block.cells
    ]


ROWS = [("Grade", True), ("Days", True), ("Porter", False), ("28", False), ("Registrar", False), ("30", False)]
ITEMS = [("list_item", 1, "Five days may be carried over."), ("list_item", 1, "The registrar signs.")]


@pytest.mark.parametrize("ending", ["rst", "org", "epub", "odt", "rtf"])
def test_headings_lists_and_tables_come_out_in_order(
    ending: str, handbooks: dict[str, Path], reader: FileReader
) -> None:
    parsed = reader.read(handbooks[ending]).parsed
    items = [] if ending == "rtf" else ITEMS  # the handbook in RTF has none
    assert outline(parsed) == [
        ("heading", 1, "Leave"),
        ("paragraph", None, made.LEAVE),
        ("heading", 2, "Carrying over"),
        *items,
        ("table", None, ""),
        ("heading", 1, "Expenses"),
        ("paragraph", None, made.CLAIMS),
    ]
    assert cells(parsed) == ROWS and parsed.warnings == ()


def test_text_of_xml_comes_out(handbooks: dict[str, Path], reader: FileReader) -> None:
    assert [text for _, _, text in outline(reader.read(handbooks["xml"]).parsed)] == [made.LEAVE, made.CLAIMS]


def test_a_message_says_its_subject_and_what_is_attached(
    handbooks: dict[str, Path], reader: FileReader, tmp_path: Path
) -> None:
    parsed = reader.read(handbooks["msg"]).parsed
    assert [text for _, _, text in outline(parsed)] == ["Leave in May", made.LEAVE, made.CLAIMS]
    assert parsed.properties["title"] == "Leave in May" and parsed.warnings == ()
    made.write_msg(tmp_path / "attached.msg", "plan.zip")
    assert reader.read(tmp_path / "attached.msg").parsed.warnings == ("attachments were not read: plan.zip",)


def test_hidden_text_of_a_message_is_left_out_and_said(tmp_path: Path, reader: FileReader) -> None:
    hidden = "<div style='display:none'>The vault opens at nine.</div>"
    made.write_msg(tmp_path / "page.msg", html=f"<html><body>{hidden}<p>{made.LEAVE}</p></body></html>")
    found = reader.read(tmp_path / "page.msg").document
    assert found.body == f"Leave in May\n\n{made.LEAVE}"
    assert found.warnings == ("hidden in the file, and left out: 1 element; `parsing.hidden: read` takes them",)


# ---------------------------------------------------------------- hostile and damaged


def bomb(file: Path, member: str, megabytes: int = 60) -> None:
    """An EPUB, or ODT, of which one part unpacks to far more than it may take."""
    told = zipfile.ZipInfo(member)
    told.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "a") as package, package.open(told, "w", force_zip64=True) as part:
        for _ in range(megabytes):
            part.write(b" " * (1 << 20))


def write_hostile(kind: str, folder: Path) -> Path:
    file = (
        folder
        / {
            "a zip bomb": "bomb.epub",
            "entities": "entities.xml",
            "an outside entity": "outside.xml",
            "nested groups": "nested.rtf",
            "includes a file": "includes.rst",
            "another format": "really.epub",
            "cut short": "cut.msg",
            "no text": "blank.org",
        }[kind]
    )
    secret = folder / "secret.txt"
    secret.write_text("the vault opens at nine")
    if kind == "a zip bomb":
        made.write_epub(file, page="extra.xhtml")
        bomb(file, "extra.xhtml")
    elif kind == "entities":
        levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
        file.write_text(f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY l0 "ha">{levels}]><d><p>&l9;</p></d>')
    elif kind == "an outside entity":
        file.write_text(f'<!DOCTYPE d [<!ENTITY x SYSTEM "file://{secret}">]><d><p>Before &x; after.</p></d>')
    elif kind == "nested groups":
        file.write_text(r"{\rtf1 " + "{" * 50_000 + "deep" + "}" * 50_000 + "}")
    elif kind == "includes a file":
        file.write_text(f"Title\n=====\n\n.. include:: {secret}\n\n.. raw:: html\n   :file: {secret}\n\nText.\n")
    elif kind == "another format":
        file.write_bytes(b"%PDF-1.4\n")
    elif kind == "cut short":
        made.write_msg(file)
        file.write_bytes(file.read_bytes()[:1500])
    else:
        file.write_text("#+TITLE:\n\n\n")
    return file


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("a zip bomb", {"limit_exceeded"}),
        ("entities", {"corrupt", "limit_exceeded", "empty_parse"}),
        ("nested groups", {"", "corrupt", "crashed", "timeout", "limit_exceeded"}),
        ("another format", {"corrupt"}),
        ("cut short", {"corrupt"}),
        ("no text", {"empty_parse"}),
    ],
)
def test_hostile_files_fail_alone(kind: str, codes: set[str], tmp_path: Path, reader: FileReader) -> None:
    """By name, within the limits, and the next file is read as ever."""
    file, code = write_hostile(kind, tmp_path), ""
    try:
        reader.read(file)
    except DocumentError as error:
        code = error.code
        assert file.name in str(error)
    assert code in codes
    (tmp_path / "next.org").write_text(made.ORG)
    assert made.CLAIMS in [text for _, _, text in outline(reader.read(tmp_path / "next.org").parsed)]


@pytest.mark.parametrize("kind", ["an outside entity", "includes a file"])
def test_no_other_file_is_read(kind: str, tmp_path: Path, reader: FileReader) -> None:
    try:
        found = outline(reader.read(write_hostile(kind, tmp_path)).parsed)
    except DocumentError:
        found = []
    assert "vault" not in repr(found)


# ---------------------------------------------------------------- who reads what


def test_every_format_has_one_row_and_a_reader() -> None:
    assert len(OF_ENDING) == sum(len(found.endings) for found in FORMATS)
    assert all(ending == ending.lower() and ending.startswith(".") for ending in OF_ENDING)


def test_another_reader_is_another_document(tmp_path: Path) -> None:
    """By its media type, which is part of what decides a parse, and of that format's documents alone."""
    readers = {".html": UNSTRUCTURED, ".xml": UNSTRUCTURED, ".txt": "own"}
    plain = {name: media_type_of(Path(name)) for name in ("a.html", "a.htm", "a.xml", "a.txt")}
    chosen = {name: media_type_of(Path(name), readers) for name in plain}
    assert {name for name in plain if chosen[name] != plain[name]} == {"a.html"}
    file = tmp_path / "a.html"
    file.write_text(f"<html><body>{made.HTML}</body></html>")
    own, other = parse_file(file, plain["a.html"] or ""), parse_file(file, chosen["a.html"] or "")
    assert (own.origin, other.origin) != (other.origin, own.origin) and other.origin == UNSTRUCTURED
    assert [block.kind for block in own.blocks] == [block.kind for block in other.blocks]


@pytest.mark.parametrize(
    ("readers", "told"),
    [
        ({".pptxx": UNSTRUCTURED}, "did you mean '.pptx'"),
        ({"docx": UNSTRUCTURED}, "did you mean '.docx'"),
        ({".xml": "own"}, "no reader of pincite's own"),
        ({".epub": UNSTRUCTURED}, "own reader alone"),
        ({".md": UNSTRUCTURED}, "own reader alone"),
        ({".docm": UNSTRUCTURED}, "own reader alone"),
        ({".docx": "unstructed"}, "unstructured"),
    ],
)
def test_a_reader_that_cannot_be_meant_is_refused(readers: dict[str, str], told: str) -> None:
    for settings in ({"parsing": {"readers": readers}}, {"sources": [{"name": "s", "path": "d", "readers": readers}]}):
        with pytest.raises(SettingsError, match=told):
            settings_from(settings)


def test_one_file_is_read_by_whom_the_settings_name(tmp_path: Path, reader: FileReader) -> None:
    file = tmp_path / "a.html"
    file.write_text(f"<html><body>{made.HTML}</body></html>")
    assert reader.read(file).parsed.origin == UNSTRUCTURED


def test_a_mail_is_partitioned_as_one(tmp_path: Path, reader: FileReader) -> None:
    file = tmp_path / "a.eml"
    file.write_text(f"From: a@example.org\nSubject: Leave\nDate: Tue, 5 Mar 2024 10:00:00 +0000\n\n{made.LEAVE}\n")
    found = reader.read(file)
    assert made.LEAVE in found.document.body and found.elements[0].origin == UNSTRUCTURED
    assert (found.document.title, found.document.effective_date) == ("Leave", "2024-03-05")


PANDOC_READS = {ending for found in FORMATS if "pandoc" in found.needs for ending in found.endings}
OTHERS_READ = {ending for found in FORMATS if not found.own or found.either for ending in found.either or found.endings}


@pytest.fixture
def without_pypandoc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment without the extra `formats`."""
    from unstructured.utils import dependency_exists

    monkeypatch.setitem(sys.modules, "pypandoc", None)
    dependency_exists.cache_clear()
    yield
    dependency_exists.cache_clear()


def write_others(folder: Path) -> dict[str, Path]:
    """Write a file for each ending that unstructured or pandoc reads."""
    from docx import Document
    from pptx import Presentation

    files = {f".{ending}": file for ending, file in made.write_all(folder).items()}
    for ending in OTHERS_READ - files.keys():
        files[ending] = folder / f"more{ending}"
    for ending in (".html", ".htm", ".xhtml"):
        files[ending].write_text(f"<html><body>{made.HTML}</body></html>")
    for ending in (".txt", ".text", ".log"):
        files[ending].write_text(made.CLAIMS)
    files[".eml"].write_text(f"From: a@example.org\nSubject: Leave\n\n{made.CLAIMS}\n")
    document, slides = Document(), Presentation()
    document.add_paragraph(made.CLAIMS)
    document.save(str(files[".docx"]))
    slides.slides.add_slide(slides.slide_layouts[1]).placeholders[1].text = made.CLAIMS
    for ending in (".pptx", ".pptm"):
        slides.save(str(files[ending]))
    return {ending: files[ending] for ending in OTHERS_READ | PANDOC_READS}


@pytest.mark.usefixtures("without_pypandoc")
def test_pandoc_alone_is_missing_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.parsers.installed.pandoc_path", lambda: None)
    files = write_others(tmp_path)
    assert {".msg", ".xml", ".docx", ".eml"} < files.keys() - PANDOC_READS
    for ending, file in sorted(files.items()):
        chosen = media_type_of(file, {ending: UNSTRUCTURED} if OF_ENDING[ending].either else {}) or ""
        if ending in PANDOC_READS:
            with pytest.raises(DocumentError, match=r"the program pandoc: pip install 'pincite\[formats\]'") as refused:
                parse_file(file, chosen)
            assert refused.value.code == "unsupported" and file.name in str(refused.value)
        else:
            found = parse_file(file, chosen)
            assert found.origin == UNSTRUCTURED and any(made.CLAIMS in text_of(block) for block in found.blocks), ending


def test_a_pandoc_on_the_path_is_enough(
    handbooks: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, script = pandoc_path(), tmp_path / "pandoc"
    pandoc_path.cache_clear()
    script.write_text(f"#!/bin/sh\nexec '{program}' \"$@\"\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "pypandoc", None)
    try:
        for ending in sorted(PANDOC_READS):
            blocks = parse_file(handbooks[ending[1:]], OF_ENDING[ending].media_type).blocks
            assert any(made.CLAIMS in text_of(block) for block in blocks), ending
            assert pandoc_path() == str(script)
    finally:
        pandoc_path.cache_clear()


def test_nothing_is_fetched(handbooks: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the model that it would have liked, and nobody is told."""
    import socket

    def refused(*_: Any) -> None:
        raise AssertionError("it asked the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert parse_file(handbooks["xml"], media_type_of(handbooks["xml"]) or "").blocks


def test_torch_is_not_loaded_to_read_a_document(handbooks: dict[str, Path], tmp_path: Path) -> None:
    """Its builds for GPUs are larger than the memory that a document may have."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    code = (
        "import sys; from pathlib import Path; from resources.parsers.unstructured import parse\n"
        "print(len(parse(Path(sys.argv[1])).blocks), 'torch' in sys.modules)"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-c", code, str(handbooks["rst"])],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    count, loaded = ran.stdout.split()
    assert int(count) > 2 and loaded == "False"
