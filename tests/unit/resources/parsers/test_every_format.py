"""Of each format that a library reads: headings with their levels, tables, text, and what it says of itself."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from pipelines.parsing.formats import OF_ENDING, PICTURES
from pipelines.settings.base import ParsingSettings
from resources.documents.requests import FileReader
from resources.documents.requests import reader as open_reader
from resources.parsers.properties import properties_of
from tests.support import other_formats as made

DEEP = ((1, "Leave"), (2, "Carrying over"), (1, "Expenses"))
TEXTS = (made.LEAVE, made.CLAIMS)
ITEMS = ("Five days may be carried over.", "The registrar signs.")


@dataclass(frozen=True)
class Found:
    """What comes out of a handbook. `dated` is the key of its date, None where the format has none."""

    headings: tuple[tuple[int, str], ...] = DEEP
    table: bool = True
    texts: tuple[str, ...] = (*TEXTS, *ITEMS)
    title: str = made.TITLE
    author: bool = True
    dated: str | None = None


EXPECTED = {
    "rst": Found(title="Leave", author=False),
    "org": Found(dated="effective_date"),
    "epub": Found(dated="effective_date"),
    "odt": Found(dated="created"),
    "rtf": Found(texts=TEXTS, dated="created"),
    "xls": Found(((1, "Leave"), (1, "Notes")), texts=(made.CLAIMS,), title="Leave", author=False),
    "tsv": Found((), texts=(), title="handbook", author=False),
    "msg": Found(((1, "Leave in May"),), table=False, texts=TEXTS, title="Leave in May"),
    "xml": Found((), table=False, texts=TEXTS, title="handbook", author=False),
}


@pytest.fixture(scope="module")
def handbooks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return made.write_all(tmp_path_factory.mktemp("formats"))


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    with open_reader(ParsingSettings(workers=1)) as opened:
        yield opened


def test_the_table_has_every_format_that_a_library_reads() -> None:
    libraries = {ending for ending, found in OF_ENDING.items() if not found.own or found.needs}
    pictures = {ending for ending, found in OF_ENDING.items() if found.media_type in PICTURES}  # test_pictures.py
    kin = {".dot", ".pps", ".pot", ".pdf", ".doc", ".ppt", *pictures}  # .doc and .ppt are for test_old_office.py
    assert {f".{ending}" for ending in EXPECTED} == (libraries - kin) | {".epub", ".odt", ".xls", ".tsv"}


@pytest.mark.parametrize("ending", EXPECTED)
def test_headings_tables_and_text_come_out(ending: str, handbooks: dict[str, Path], reader: FileReader) -> None:
    wanted, found = EXPECTED[ending], reader.read(handbooks[ending])
    elements, document = found.elements, found.document
    assert tuple((e.level, e.text) for e in elements if e.kind == "heading") == wanted.headings
    cells = [tuple(cell.text for cell in e.cells) for e in elements if e.kind == "table"]
    rows = tuple(cell for row in made.ROWS for cell in row)
    assert any(each[: len(rows)] == rows for each in cells) == wanted.table
    outside = {e.text for e in elements if e.kind not in ("heading", "table")} | {c for each in cells for c in each}
    assert set(wanted.texts) <= outside
    assert (document.title, document.metadata.get("author")) == (wanted.title, made.AUTHOR if wanted.author else None)
    if wanted.dated:
        given = {**document.metadata, "effective_date": document.effective_date}
        assert given[wanted.dated] == "2024-03-05"
    assert document.warnings == ()


# ---------------------------------------------------------------- what files say of themselves

RTF_INFO = [
    (rb"{\info{\title Plain}{\author A}}", {"title": "Plain", "author": "A"}),
    (rb"{\info{\title \'cf\'f0\'e0\'e2\'e8\'eb\'e0}}", {"title": "Правила"}),
    (rb"{\info{\title \u1055?\u1088\'3f\uc2\u1072??\uc0\u1074 b}}", {"title": "Правb"}),
    (rb"{\info{\title \uc0\u-10179\u-8704 !}}", {"title": "😀!"}),
    (rb"{\info{\title Two" + b"\r\n" + rb" {\b bold} \{lines\}\~}}", {"title": "Two bold {lines}"}),
    (rb"{\info{\*\company X}{\title {\*\bkmkstart y}Kept}}", {"title": "Kept"}),
    (rb"{\info{\revtim\yr2024\mo12\dy31\hr9}{\creatim\yr0}}", {"modified": "2024-12-31"}),
    (rb"{\info{\title not closed", {}),
    (rb"{\info" + b"{" * 70_000, {}),
    (rb"{\pard \info}", {}),
    (rb"{\info{\title }}", {}),
]


@pytest.mark.parametrize(("info", "wanted"), RTF_INFO)
def test_the_info_of_an_rtf(info: bytes, wanted: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "a.rtf"
    file.write_bytes(rb"{\rtf1\ansi\ansicpg1251{\fonttbl{\f0 Arial;}}" + info)
    assert properties_of(file) == (wanted, ())


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.org", "#+title: One\n#+TITLE: and two\nText.\n", {"title": "One and two"}),
        ("a.org", "#+DATE: next spring\n", {"date": "next spring"}),
        ("a.org", "Text that says #+TITLE: nothing\n", {}),
        ("a.rst", "Rules\n=====\n\n:Authors: A, B\n:Version: 2\n", {"author": "A, B", "version": "2"}),
    ],
)
def test_keywords_of_a_text(name: str, text: str, wanted: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert properties_of(tmp_path / name) == (wanted, ())


def test_several_authors_are_all_named_and_groups_are_never_taken(tmp_path: Path) -> None:
    file = tmp_path / "a.odt"
    made.write_odt(file)
    more = "<meta:keyword>a</meta:keyword><meta:keyword>b</meta:keyword>"
    more += "<meta:user-defined meta:name='groups'>everyone</meta:user-defined></office:meta>"
    rewrite(file, {"meta.xml": made.META.replace("</office:meta>", more)})
    found, _ = properties_of(file)
    assert found["keywords"] == "a, b" and "groups" not in found


def rewrite(file: Path, parts: dict[str, str]) -> None:
    with zipfile.ZipFile(file) as package:
        whole: dict[str, str | bytes] = {name: package.read(name) for name in package.namelist()}
    with zipfile.ZipFile(file, "w") as package:
        for name, content in {**whole, **parts}.items():
            package.writestr(name, content)


def test_an_unreadable_part_is_told_and_the_text_is_kept(tmp_path: Path, reader: FileReader) -> None:
    file = tmp_path / "a.odt"
    made.write_odt(file)
    rewrite(file, {"meta.xml": '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><d>&x;</d>'})
    found = reader.read(file)
    assert made.CLAIMS in found.document.body and found.document.title == "Leave"
    (warning,) = found.document.warnings
    assert "cannot be read" in warning and "meta.xml declares entities" in warning


CIPHER = (
    '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData><EncryptionMethod '
    'Algorithm="{}"/></EncryptedData></encryption>'
)


def test_books_for_certain_readers_and_texts_with_a_password_are_named(tmp_path: Path, reader: FileReader) -> None:
    book, text = tmp_path / "a.epub", tmp_path / "a.odt"
    made.write_epub(book)
    rewrite(book, {"META-INF/encryption.xml": CIPHER.format("http://www.idpf.org/2008/embedding")})
    assert reader.read(book).document.title == made.TITLE, "only its fonts are"
    sold = CIPHER.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    rewrite(book, {"META-INF/encryption.xml": sold.replace('"', "'")})
    made.write_odt(text)
    rewrite(text, {"META-INF/manifest.xml": "<m><manifest:encryption-data/></m>"})
    for file in (book, text):
        with pytest.raises(DocumentError) as refused:
            reader.read(file)
        assert refused.value.code == "encrypted"
