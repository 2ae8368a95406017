"""Office files with a password, as Office writes them (ECMA-376 agile encryption), and those of before 2007, which lie
in the same kind of container."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import msoffcrypto
import olefile
import pytest
from msoffcrypto.format.ooxml import OOXMLFile

from pipelines.errors import DocumentError
from resources.parsers.registry import MEDIA_TYPES, check_content, parse_file
from tests.support.ordinary import made
from tests.support.ordinary_files import FORMATS

PASSWORD = "The lamp is lit at dusk"


def plain(folder: Path, suffix: str) -> Path:
    path = folder / f"plain{suffix}"
    FORMATS[suffix](path, made("form", 1), random.Random(1))
    return path


def locked(plain: Path) -> Path:
    path = plain.with_stem("locked")
    with plain.open("rb") as stream, path.open("wb") as out:
        OOXMLFile(stream).encrypt(PASSWORD, out)
    return path


def old(path: Path, part: str) -> Path:
    """A container of before 2007 with one part: header, directory, table of sectors, and the part."""
    end, free, table = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD

    def entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
        label = f"{name}\0".encode("utf-16-le")
        return struct.pack("<64sHBBIII16xI16xIQ", label, len(label), kind, 1, free, free, child, 0, start, size)

    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIIII", olefile.MAGIC, 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 0, 0, 4096, end, 0, end, 0, 1
    )
    header += struct.pack("<108I", *[free] * 108)
    directory = entry("Root Entry", 5, 1, end, 0) + entry(part, 2, free, 2, 4096) + bytes(256)
    sectors = struct.pack("<128I", end, table, *range(3, 10), end, *[free] * 118)
    path.write_bytes(header + directory + sectors + b"x" * 4096)
    return path


@pytest.mark.case(18)
@pytest.mark.parametrize("suffix", [".xlsx", ".docx", ".pptx"])
def test_an_office_file_with_a_password(suffix: str, tmp_path: Path) -> None:
    path = plain(tmp_path, suffix)
    parse_file(path, MEDIA_TYPES[suffix])
    closed = locked(path)
    with pytest.raises(DocumentError, match=r"locked\..* has a password: save a copy without one") as caught:
        parse_file(closed, MEDIA_TYPES[suffix])
    assert caught.value.code == "encrypted"
    with closed.open("rb") as stream:
        opened, back = msoffcrypto.OfficeFile(stream), io.BytesIO()
        opened.load_key(password=PASSWORD)
        opened.decrypt(back)
    assert back.getvalue() == path.read_bytes(), "it was no encryption"


@pytest.mark.case(18)
@pytest.mark.parametrize(
    ("suffix", "part"), [(".xlsx", "Workbook"), (".docx", "WordDocument"), (".pptx", "PowerPoint Document")]
)
def test_an_office_file_of_before_2007_has_no_password(suffix: str, part: str, tmp_path: Path) -> None:
    path = old(tmp_path / f"old{suffix}", part)
    with olefile.OleFileIO(path) as container:
        assert container.listdir() == [[part]]
    with pytest.raises(DocumentError, match="in the format before 2007: save it anew") as caught:
        check_content(path, MEDIA_TYPES[suffix])
    assert caught.value.code == "corrupt"


@pytest.mark.parametrize("size", [8, 100, 512, 700])
@pytest.mark.parametrize("filled", [b"\0", b"\xff", b"\x09"])
def test_a_damaged_container(size: int, filled: bytes, tmp_path: Path) -> None:
    path = tmp_path / "half.xlsx"
    path.write_bytes(olefile.MAGIC + filled * size)
    with pytest.raises(DocumentError, match="damaged") as caught:
        check_content(path, MEDIA_TYPES[".xlsx"])
    assert caught.value.code == "corrupt"
