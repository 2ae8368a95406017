"""Hostile files beside good ones, through whole runs: each bad one is named, and the good ones are served as before.

reliability.md 17 to 23 and 26.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import stat
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.tokens import TokenIndex
from resources.engine.tables import ParquetTables
from tests.faults.held_run import held_run
from tests.faults.parsing import POLICY
from tests.faults.running import Clean, assert_verified, changed, contents, unchanged
from tests.faults.test_hostile_documents import W, docx, many_rows
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project

pytestmark = pytest.mark.integration

Write = Callable[[Path], object]
LIMIT = 256
"""Tokens that the embedder takes."""
ROWS, MEGABYTES = 20_000, 1024
"""Of a sheet; and of memory, half of which a run has before its first document: its imports and models."""


@pytest.fixture
def project(full: tuple[Project, Clean], server_url: str, tmp_path: Path) -> Iterator[Project]:
    with changed(full[0], server_url, tmp_path / "project", unchanged) as copy:
        yield copy


# ---------------------------------------------------------------- files that cannot be read


def holding(data: bytes) -> Write:
    return lambda path: path.write_bytes(data)


def locked_pdf(path: Path) -> None:
    from reportlab.lib.pdfencrypt import StandardEncryption
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), encrypt=StandardEncryption("secret", strength=128))
    canvas.drawString(72, 700, "Hidden")
    canvas.save()


def scan(path: Path) -> None:
    """A page that is one picture of grey."""
    from PIL import Image

    Image.new("L", (400, 600), 180).save(path, "PDF")


def torn_docx(path: Path) -> None:
    """A package whose table of contents is whole and whose text is not."""
    docx(path, f"<w:document {W}><w:body><w:p><w:r><w:t>".encode() + random.Random(5).randbytes(3000))
    data = bytearray(path.read_bytes())
    data[60:200] = bytes(140)
    path.write_bytes(data)


def entities(declared: str) -> Write:
    body = f"<w:document {W}><w:body><w:p><w:r><w:t>&k;</w:t></w:r></w:p></w:body></w:document>"
    return lambda path: docx(path, f"<!DOCTYPE d [{declared}]>{body}")


LAUGHS = '<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + at)} "{("&" + chr(97 + at) + ";") * 10}">' for at in range(10)
)
OUTSIDE = '<!ENTITY k SYSTEM "file:///etc/passwd">'

DAMAGED: dict[str, tuple[Write, str]] = {
    "nothing.md": (holding(b""), "empty"),
    "picture.pdf": (holding(b"\x89PNG\r\n\x1a\n" + bytes(4000)), "corrupt"),
    "table.xlsx": (holding(b"%PDF-1.7\n%%EOF"), "corrupt"),
    "torn.docx": (torn_docx, "corrupt"),
    "half.pdf": (lambda path: path.write_bytes(POLICY.read_bytes()[:600]), "corrupt"),
    "noise.txt": (holding(random.Random(7).randbytes(40_000)), "corrupt"),
}
LOCKED: dict[str, tuple[Write, str]] = {
    "locked.pdf": (locked_pdf, "encrypted"),
    "old.xlsx": (holding(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(5000)), "corrupt"),
    "scan.pdf": (scan, "no_text"),
}
BOMBS: dict[str, tuple[Write, str]] = {
    "zeros.docx": (lambda path: docx(path, bytes(80 << 20)), "limit_exceeded"),
    "laughs.docx": (entities(LAUGHS), "limit_exceeded"),
    "outside.docx": (entities(OUTSIDE), "limit_exceeded"),
    "deep.html": (lambda path: path.write_text("<div>" * 100_000), "limit_exceeded"),
}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(DAMAGED, marks=pytest.mark.case(17, served=True), id="damaged"),
        pytest.param(LOCKED, marks=pytest.mark.case(18, served=True), id="locked"),
        pytest.param(BOMBS, marks=pytest.mark.case(19, served=True), id="bombs"),
    ],
)
def test_files_that_cannot_be_read_are_named_and_the_others_served(
    files: dict[str, tuple[Write, str]],
    project: Project,
    full: tuple[Project, Clean],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("injected", len(files))
    for name, (write, _) in files.items():
        write(project.docs / name)
    project.write("readable.md", "# A notice\n\nThe notice board is in the hall.\n")
    failed = project.index(code=3)["documents"]["failed"]
    assert {item["uri"]: item["code"] for item in failed} == {name: code for name, (_, code) in files.items()}
    assert all((item["source"], item["stage"]) == ("docs", "parsed_elements") for item in failed)
    assert all(item["uri"] in item["message"] for item in failed)
    assert project.hits("where is the notice board")[0]["uri"] == "readable.md"
    assert_verified(project)
    (project.docs / "readable.md").unlink()
    project.index(code=3)
    assert contents(project)["g0001"]["chunks"] == full[1].contents["g0001"]["chunks"]
    assert contents(project)["g0001"]["documents"] == full[1].contents["g0001"]["documents"]


# ---------------------------------------------------------------- large


@pytest.mark.case(20, served=True)
def test_no_text_is_longer_than_the_embedder_takes(
    empty: Project,
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("injected", 2)
    with changed(empty, server_url, tmp_path / "project", unchanged) as project:
        project.configure(embedder={**project.settings["embedder"], "max_tokens": LIMIT})
        project.write("word.txt", "x" * 100_000)
        project.write("deep.md", "\n\n".join(f"{'#' * (1 + at % 6)} Heading {at}" for at in range(2_000)))
        endpoint.forget()
        assert project.index()["documents"]["failed"] == []
        assert max(len(TokenIndex(text).starts) for text in endpoint.texts) <= LIMIT
        of = "FROM g0001.chunks JOIN g0001.documents USING (doc_id) WHERE uri = %s"
        assert project.rows(f"SELECT sum(length(text)) {of}", "word.txt") == [(100_000,)]
        shown = " ".join(
            row for (row,) in project.rows(f"SELECT text || array_to_string(header_chain, ' ') {of}", "deep.md")
        )
        assert {int(number) for number in re.findall(r"Heading (\d+)", shown)} == set(range(2_000))
        assert_verified(project)


def peak_megabytes(pid: int) -> int:
    """The most memory that a process has had at once."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


@pytest.mark.case(20, served=True)
def test_every_row_of_a_long_sheet_is_served(
    empty: Project, server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    """By a run within bounded memory, that of dividing the text included."""
    with changed(empty, server_url, tmp_path / "project", unchanged) as project:
        project.configure(embedder={**project.settings["embedder"], "max_tokens": LIMIT})
        many_rows(project.docs / "rows.xlsx", ROWS)
        endpoint.forget()
        with held_run(tmp_path / "run", "index", "--config", project.config, point="verdict") as run:
            assert peak_megabytes(run.pid) < MEGABYTES
            run.go_on()
            assert run.ended() == 0, run.err
        assert max(len(TokenIndex(text).starts) for text in endpoint.texts) <= LIMIT
        chunks = "SELECT text FROM g0001.chunks JOIN g0001.documents USING (doc_id) WHERE uri = 'rows.xlsx'"
        served = "\n".join(text for (text,) in project.rows(f"{chunks} ORDER BY ordinal"))
        wanted = [f"Name: name {at} | Value: {at} | Note: some words" for at in range(ROWS)]
        assert served.split("\n") == wanted
        assert_verified(project)


# ---------------------------------------------------------------- characters

RTL = "\u202bשלום עולם\u202c and \u2067العربية ٢٠٢٦\u2069, नमस्\u200dते, a\u0301, q\u0301\u0323, 👩\u200d👧, क्\u200cष."


CLEANED = {
    "dirty.txt": "The lodge keeps ÿþ spare bulbs í € for every lamp.",
    "front.md": "The board meets in May.",
    "signs.html": "The cellar\ufffd of the \ufffdlodge\ufffd is dry.",
}
"""Bytes that are no UTF-8 are read as the encoding they most likely are; in HTML a sign stands for what is none."""
UNCLEAN = re.compile(r"\\x00|\\u0000|\\ud[89a-f]", re.IGNORECASE)
"""NUL and halves of surrogate pairs, as Python or JSON writes them."""


def assert_clean(project: Project) -> None:
    """Every value of every Parquet table."""
    tables = ParquetTables(str(project.state / "parquet"))
    assert tables.files("raw_documents") and tables.files("chunks")
    for file in tables.files():
        assert not UNCLEAN.search(repr(tables.read(file).to_pylist())), file


@pytest.mark.case(21, served=True)
def test_characters_no_table_accepts_are_removed_from_text_and_metadata(project: Project) -> None:
    project.configure(query={"metadata_keys": ["owner"]})
    project.write("dirty.txt", b"The lodge\x00 keeps \xff\xfe spare bulbs \xed\xa0\x80 for every lamp.")
    project.write(
        "dirty.txt.meta.yaml",
        r'title: "A\0title\uD800 of lamps"' + "\n" + r'metadata: {owner: "Lod\0ge\uDFFF"}' + "\n" + r'version: "1\0"',
    )
    project.write("front.md", '---\ntitle: "B\\0oard\\uD800"\nauthor: "Clerk\\0"\n---\n\nThe board meets in May.\n')
    project.write(
        "signs.html", "<title>C&#0;ellar&#xD800;</title><p>The cellar&#0; of the &#xD800;lodge&#xDFFF; is dry.</p>"
    )
    assert project.index()["documents"]["failed"] == []
    assert_clean(project)
    rows = project.rows("SELECT uri, title, version, metadata FROM g0001.documents WHERE uri ~ 'dirty|front|signs'")
    assert sorted(rows) == [
        ("dirty.txt", "Atitle of lamps", "1", {"owner": "Lodge"}),
        ("front.md", "Board", None, {"author": "Clerk"}),
        ("signs.html", "C\ufffdellar\ufffd", None, {}),
    ]
    for uri, text in CLEANED.items():
        (hit,) = project.hits(text, "--filter", f"uri={uri}")
        assert hit["text"] == text
    (hit,) = project.hits("spare bulbs", "--filter", "owner=Lodge")
    assert hit["uri"] == "dirty.txt"
    assert_verified(project)


@pytest.mark.case(22, served=True)
def test_every_character_of_other_scripts_comes_back(project: Project) -> None:
    """Letters and marks that Unicode has as one character come back as that one."""
    shown = unicodedata.normalize("NFC", RTL)
    project.write("scripts.txt", f"The sign in the hall says {RTL}")
    project.write("scripts.md", f"# {RTL}\n\nThe sign says {RTL}\n")
    assert project.index()["documents"]["failed"] == []
    for uri in ("scripts.txt", "scripts.md"):
        ((text,),) = project.rows(
            "SELECT string_agg(text, ' ') FROM g0001.chunks JOIN g0001.documents USING (doc_id) WHERE uri = %s", uri
        )
        assert shown in text
    hits = project.hits(f"what does the sign in the hall say: {RTL}")
    assert shown in hits[0]["text"]
    assert_verified(project)


# ---------------------------------------------------------------- names, links and what is no file


@pytest.mark.case(23, served=True)
def test_links_out_of_a_source_and_special_files_are_named_and_not_read(
    project: Project, full: tuple[Project, Clean], record_property: Callable[[str, object], None]
) -> None:
    docs, secret = project.docs, project.write("secret.txt", "The code of the vault is 4711.", project.folder / "other")
    (docs / "loop").symlink_to(docs)
    (docs / "around").mkdir()
    (docs / "around" / "back").symlink_to(docs / "around")
    (docs / "self.txt").symlink_to("self.txt")
    (docs / "out.txt").symlink_to(secret)
    (docs / "up.txt").symlink_to(Path("..") / "other" / "secret.txt")
    (docs / "folder").symlink_to(secret.parent)
    (docs / "zero.txt").symlink_to("/dev/zero")
    os.mkfifo(docs / "pipe.txt")
    listener = socket.socket(socket.AF_UNIX)
    place = os.getcwd()
    os.chdir(docs)
    listener.bind("socket.txt")
    os.chdir(place)
    os.mknod(docs / "device.txt", 0o644 | stat.S_IFCHR, os.makedev(1, 5)) if os.geteuid() == 0 else None
    project.write("two\nlines.txt", "A name of two lines.")
    project.write("tab\there.txt", "A name with a tab.")
    (docs / os.fsdecode(b"latin-\xe9.txt")).write_text("A name that is not UTF-8.")
    expected = {
        "loop": "symlink", "around/back": "symlink", "self.txt": "symlink", "out.txt": "symlink", "up.txt": "symlink",
        "folder": "symlink", "zero.txt": "symlink", "pipe.txt": "not_a_file", "socket.txt": "not_a_file",
        **({"device.txt": "not_a_file"} if os.geteuid() == 0 else {}),
        "two\nlines.txt": "name", "tab\there.txt": "name", "latin-\\udce9.txt": "name",
    }  # fmt: skip
    record_property("injected", len(expected))
    with zipfile.ZipFile(docs / "slip.docx", "w") as package:
        text = "<w:p><w:r><w:t>A package with a part above it.</w:t></w:r></w:p>"
        package.writestr("word/document.xml", f"<w:document {W}><w:body>{text}</w:body></w:document>")
        package.writestr("../../escaped.txt", "written outside")
    project.write("a..b...txt", "The name of this notice has many dots.")
    result = project.index()
    listener.close()
    assert {item["uri"]: item["code"] for item in result["documents"]["skipped"]} == expected
    assert result["documents"]["added"] == 2
    assert not list(project.folder.rglob("escaped.txt"))
    assert project.hits("notice whose name has many dots")[0]["uri"] == "a..b...txt"
    assert project.rows("SELECT count(*) FROM g0001.chunks WHERE text LIKE '%%4711%%'") == [(0,)]
    assert_verified(project)
    for uri in ("a..b...txt", "slip.docx"):
        (docs / uri).unlink()
    project.index()
    assert contents(project) == full[1].contents


# ---------------------------------------------------------------- SQL

SQL = (
    "it's",
    '"; DROP SCHEMA pincite CASCADE; --',
    "'); DELETE FROM g0001.documents; --",
    "%s %(uri)s {uri} $1",
    "\\'; SELECT E'\\",
    "' OR 1 IS NOT NULL OR '",
    '{NULL;"a"}',
)


@pytest.mark.case(26, served=True)
def test_sql_in_names_and_in_what_is_noted_of_a_file_is_text(
    project: Project, full: tuple[Project, Clean], record_property: Callable[[str, object], None]
) -> None:
    """As a file's name, its title, its group, and the key and the value of its metadata."""
    record_property("injected", 5 * len(SQL))
    project.configure(query={"metadata_keys": SQL})
    texts = {f"{said}.txt": f"Shelf {at} holds what the clerk has called {said}" for at, said in enumerate(SQL)}
    for said, (uri, text) in zip(SQL, texts.items(), strict=True):
        project.write(uri, text)
        noted = {"title": said, "groups": [said], "metadata": {said: said}}
        project.write(f"{uri}.meta.yaml", json.dumps(noted))
    assert project.index()["documents"]["added"] == len(SQL)
    for said, (uri, text) in zip(SQL, texts.items(), strict=True):
        everywhere = project.hits("what is on the shelf", "-k", "50", "--strategy", "dense", "--group", said)
        assert {hit["uri"] for hit in everywhere} & texts.keys() == {uri}
        for filtered in (f"uri={uri}", f"title={said}", f"{said}={said}"):
            (hit,) = project.hits(text, "--group", said, "--filter", filtered)
            assert (hit["uri"], hit["title"], hit["text"]) == (uri, said, text)
    assert_verified(project)
    for uri in texts:
        (project.docs / uri).unlink()
        (project.docs / f"{uri}.meta.yaml").unlink()
    assert project.index()["documents"]["removed"] == len(SQL)
    assert contents(project) == full[1].contents
