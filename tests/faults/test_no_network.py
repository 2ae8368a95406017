"""`pincite index` with the defaults, in a process that may dial nobody, over documents that ask to be fetched and run.

Two guards stand at once. An audit hook in every Python process of the run writes down what is dialled and refuses it.
And the run has a network of its own that leads nowhere, where Linux lets a test make one: there the kernel counts
every attempt, of C libraries and of other programs too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pincite.index import open_index
from resources.hashes import bytes_hash
from tests.faults.traces import in_files
from tests.support.pdf_objects import pdf, stream
from tests.support.places import ROOT
from tests.support.projects import run_command
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.integration

GUARD = Path(__file__).with_name("no_network")
OUTSIDE = "192.0.2.1"
"""Of a network that nobody has (RFC 5737)."""
NAMESPACES = (("unshare", "--net"), ("unshare", "--net", "--map-current-user"))
NO_NAMESPACE = "a network of its own takes root, or user namespaces (unshare --net)"
COUNTED = '"$@"; code=$?; cat /proc/net/snmp /proc/net/snmp6 > "$COUNTED"; exit $code'

# ---------------------------------------------------------------- documents that reach for more

RAN = "@RAN@"
"""Stands for a folder, in which what the documents want run would leave a file."""
HTML = f"""<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<html><head><title>Leave</title><base href="http://{OUTSIDE}/"><link rel="stylesheet" href="style.css">
<script src="http://tracker.invalid/x.js"></script><style>@import url(http://{OUTSIDE}/more.css);</style></head>
<body onload="fetch('http://{OUTSIDE}/')"><h1>Leave</h1><p>Staff receive twenty days of leave. &x;</p>
<img src="http://{OUTSIDE}/pixel.gif"><iframe src="http://{OUTSIDE}/frame"></iframe>
<object data="file:///etc/passwd"></object><video src="//{OUTSIDE}/film.mp4"></video>
<!--#exec cmd="touch {RAN}/included" --><?php system("touch {RAN}/php"); ?></body></html>"""
MARKDOWN = f"""# Boilers

The boiler is inspected in October. ![gauge](http://{OUTSIDE}/gauge.png) <img src="http://{OUTSIDE}/pixel.gif">

!include file:///etc/passwd
{{% include "/etc/passwd" %}}
![[/etc/passwd]]
{{% exec "touch {RAN}/template" %}}

See [the ledger](http://tracker.invalid/ledger).
"""
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
FIELD = '<w:p><w:fldSimple w:instr="{}"><w:r><w:t>shown</w:t></w:r></w:fldSimple></w:p>'
DDE = f"DDEAUTO sh -c &quot;touch {RAN}/field&quot;"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
PICTURE = (
    f'<w:p><w:r><w:drawing><pic:pic xmlns:pic="{DRAWING}/picture" xmlns:a="{DRAWING}/main"><pic:blipFill>'
    '<a:blip r:embed="rId3" r:link="rId3"/></pic:blipFill><pic:spPr><a:xfrm><a:ext cx="2000000" cy="2000000"/>'
    "</a:xfrm></pic:spPr></pic:pic></w:drawing></w:r></w:p>"
)
DOCX = {
    "word/document.xml": f'<w:document {WORD} xmlns:r="{RELATED}"><w:body><w:p><w:r><w:t>Letters are kept for ten '
    f"years.</w:t></w:r></w:p>{FIELD.format('INCLUDETEXT /etc/passwd')}"
    f"{FIELD.format(f'INCLUDEPICTURE http://{OUTSIDE}/a.png')}{FIELD.format(DDE)}"
    f'{PICTURE}<w:altChunk r:id="rId2"/></w:body></w:document>',
    "word/_rels/document.xml.rels": "<Relationships>"
    f'<Relationship Id="rId1" Type="{RELATED}/attachedTemplate" Target="http://{OUTSIDE}/t" TargetMode="External"/>'
    f'<Relationship Id="rId2" Type="{RELATED}/aFChunk" Target="http://{OUTSIDE}/chunk.html" TargetMode="External"/>'
    f'<Relationship Id="rId3" Type="{RELATED}/image" Target="file:///etc/passwd" TargetMode="External"/>'
    '<Relationship Id="rId4" Type="http://schemas.microsoft.com/office/2006/relationships/vbaProject" '
    'Target="vbaProject.bin"/></Relationships>',
    "word/vbaProject.bin": f'Sub AutoOpen() : Shell "touch {RAN}/macro" : End Sub',
}
MAIL = f"""From: a@example.org\r\nTo: b@example.org\r\nSubject: Keys\r\nContent-Type: multipart/mixed; boundary=x\r\n\r
--x\r\nContent-Type: text/html\r\n\r\n<p>The registrar holds the vault key.</p><img src="http://{OUTSIDE}/p.gif">\r
--x\r\nContent-Type: message/external-body; access-type=URL; URL="http://{OUTSIDE}/body"\r\n\r\n\r\n--x--\r\n"""
ACTIONS = {
    1: b"<</Type/Catalog/Pages 2 0 R/OpenAction 20 0 R/AA<</WC 22 0 R>>/Names<</JavaScript 21 0 R>>>>",
    20: b"<</S/URI/URI(http://192.0.2.1/opened)/Next 22 0 R>>",
    21: b"<</Names[(a)<</S/JavaScript/JS(app.launchURL('http://192.0.2.1/js'))>>]>>",
    22: b'<</S/Launch/Unix<</F(/bin/sh)/P(-c "touch %b/launch")>>>>' % RAN.encode(),
    23: stream(b"", b"/F<</FS/URL/F(http://192.0.2.1/picture)>>/Type/XObject/Subtype/Image/Width 1/Height 1"),
}

OWN = {
    "leave.html": "Staff receive twenty days of leave.",
    "boilers.md": "The boiler is inspected in October.",
    "keys.eml": "The registrar holds the vault key.",
    "lift.pdf": "The lift takes eight persons.",
    "letters.docx": "Letters are kept for ten years.",
    "claims.xlsx": "Travel",
}
"""What each of them says itself."""
PAYLOADS = ("included", "php", "template", "field", "macro", "launch", "cell", "call")
"""What they want run, by the file that each would leave."""


def write_documents(folder: Path, ran: Path) -> None:
    """What they want run would write to the folder `ran`."""
    folder.mkdir()
    ran.mkdir()
    (folder / "leave.html").write_text(HTML.replace(RAN, str(ran)))
    (folder / "boilers.md").write_text(MARKDOWN.replace(RAN, str(ran)))
    (folder / "keys.eml").write_bytes(MAIL.encode())
    text = b"BT /F 12 Tf 72 700 Td (The lift takes eight persons.) Tj ET /Far Do"
    actions = {number: action.replace(RAN.encode(), bytes(ran)) for number, action in ACTIONS.items()}
    (folder / "lift.pdf").write_bytes(pdf([text], objects=actions, resources=b"/XObject<</Far 23 0 R>>"))
    with zipfile.ZipFile(folder / "letters.docx", "w") as package:
        for name, part in DOCX.items():
            package.writestr(name, part.replace(RAN, str(ran)))
    write_sheet(folder / "claims.xlsx", ran)


def write_sheet(path: Path, ran: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["Claim", "Amount"])
    book.active.append([f'=WEBSERVICE("http://{OUTSIDE}/claim")', "='file:///etc/[passwd]Sheet1'!A1"])
    book.active.append(["Travel", 40, f"=cmd|'/c touch {ran}/cell'!A1", f'=EXEC("touch {ran}/call")'])
    book.active["A3"].hyperlink = f"http://{OUTSIDE}/travel"
    book.save(path)


def commands(path: Path) -> list[str]:
    """What a document wants run."""
    parts = [path.read_bytes()]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as package:
            parts = [package.read(name) for name in package.namelist()]
    return [command.decode() for part in parts for command in re.findall(rb"touch [\w/.-]+", part)]


# ---------------------------------------------------------------- guarded processes


@dataclass(frozen=True)
class Guarded:
    """A process that has ended. `dialled` is what its Python processes tried, a line each; `unreachable` how often
    the kernel found no way for anything of it, None where there was no network of its own."""

    code: int
    out: str
    err: str
    dialled: list[str]
    unreachable: int | None


def namespace() -> tuple[str, ...]:
    """What runs a command in a network of its own; nothing where that may not be made."""
    for prefix in NAMESPACES:
        if shutil.which(prefix[0]) and subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            return prefix
    return ()


def guarded(folder: Path, *arguments: str | Path) -> Guarded:
    """Python with these arguments, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    guard, counted, prefix = folder / "guard", folder / "counted", namespace()
    guard.mkdir()
    shutil.copy(GUARD / "sitecustomize.py", guard)
    log = guard / "dialled"
    python = [sys.executable, *map(str, arguments)]
    ran = subprocess.run(
        [*prefix, "sh", "-c", COUNTED, "sh", *python] if prefix else python,
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PINCITE_"))},
            "PYTHONPATH": f"{guard}{os.pathsep}{ROOT}",
            "COUNTED": str(counted),
        },
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    dialled = log.read_text().splitlines() if log.exists() else []
    return Guarded(ran.returncode, ran.stdout, ran.stderr, dialled, no_routes(counted.read_text()) if prefix else None)


def no_routes(counters: str) -> int:
    names, values = (line.split() for line in counters.splitlines() if line.startswith("Ip: "))
    fields = dict(zip(names, values, strict=True))
    (sixth,) = (line.split()[1] for line in counters.splitlines() if line.startswith("Ip6OutNoRoutes"))
    return int(fields["OutNoRoutes"]) + int(sixth)


DIAL = f"import socket; socket.socket().connect(('{OUTSIDE}', 80))"
NAME = "import socket; socket.getaddrinfo('tracker.invalid', 80)"
CHILD = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
FROM_C = f"""
import ctypes, struct
library = ctypes.CDLL(None, use_errno=True)
address = struct.pack("=HH4s8x", 2, 0x5000, bytes(map(int, "{OUTSIDE}".split("."))))
assert library.connect(library.socket(2, 1, 0), address, len(address)) == -1
"""


@pytest.mark.parametrize(
    ("code", "event"), [(DIAL, f"socket.connect {OUTSIDE}"), (NAME, "getaddrinfo tracker.invalid")]
)
def test_the_guard_catches_what_dials(tmp_path: Path, code: str, event: str) -> None:
    for arguments in (("-c", code), ("-c", CHILD, code)):
        ran = guarded(tmp_path / str(len(arguments)), *arguments)
        assert ran.code == 1 and "PermissionError: no network here" in ran.err
        (line,) = [line for line in ran.dialled if event in line]
        assert line


def test_the_guard_lets_this_machine_be_reached(tmp_path: Path) -> None:
    ends = "import socket; socket.socketpair(); socket.getaddrinfo('127.0.0.1', 80); socket.getaddrinfo(None, 80)"
    ran = guarded(tmp_path, "-c", ends)
    assert (ran.code, ran.dialled) == (0, []), ran.err


def test_the_kernel_counts_what_python_does_not_see(tmp_path: Path) -> None:
    if not namespace():
        pytest.skip(NO_NAMESPACE)
    ran = guarded(tmp_path, "-c", FROM_C)
    assert (ran.code, ran.dialled) == (0, []), ran.err
    assert ran.unreachable


# ---------------------------------------------------------------- the run


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Guarded]:
    """No settings at all: the shipped model, the embedded server."""
    folder = tmp_path_factory.mktemp("alone")
    write_documents(folder / "docs", folder / "ran")
    return folder, guarded(folder, "-m", "pincite.cli", "index", "--source", "docs", "--json")


@pytest.mark.case(24)
def test_indexing_with_the_defaults_dials_nobody(indexed: tuple[Path, Guarded]) -> None:
    _, ran = indexed
    assert ran.code == 0, ran.out + ran.err
    result: dict[str, Any] = json.loads(ran.out)
    assert (result["published"], result["documents"]["listed"], result["documents"]["failed"]) == (True, 6, [])
    assert result["embedded"]["chunks"] > 0
    assert ran.dialled == []


@pytest.mark.case(24)
def test_no_program_of_the_run_dials_anybody(indexed: tuple[Path, Guarded]) -> None:
    _, ran = indexed
    if ran.unreachable is None:
        pytest.skip(NO_NAMESPACE)
    assert ran.unreachable == 0


@pytest.mark.case(24, served=True)
def test_nothing_that_a_document_names_is_read_or_run(indexed: tuple[Path, Guarded]) -> None:
    """And what they say themselves is served."""
    folder, _ = indexed
    assert list((folder / "ran").iterdir()) == []
    named = Path("/etc/passwd")
    (first,) = named.read_text().splitlines()[:1]
    assert in_files(folder / ".pincite" / "parquet", [first, bytes_hash(named.read_bytes())]) == []
    with open_index(folder / ".pincite") as index:
        for uri, text in OWN.items():
            found = index.query(text, strategy="lexical", filters=[f"uri={uri}"])["hits"]
            assert text in " ".join(" ".join(hit["text"] for hit in found).split()), uri


def test_every_payload_leaves_a_file_when_it_runs(tmp_path: Path) -> None:
    """So that where there is none, nothing ran."""
    write_documents(tmp_path / "docs", tmp_path / "ran")
    wanted = [command for path in (tmp_path / "docs").iterdir() for command in commands(path)]
    for command in wanted:
        subprocess.run(["sh", "-c", command], check=True)
    assert sorted(path.name for path in (tmp_path / "ran").iterdir()) == sorted(PAYLOADS)


@pytest.mark.case(24)
def test_an_address_is_no_folder(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/docs"
        ran = run_command("index", "--source", address, "--state", tmp_path / "state", "--json")
        assert ran.code != 0 and address in ran.json["error"]["message"], ran.out
        with pytest.raises(BlockingIOError):
            listening.accept()
