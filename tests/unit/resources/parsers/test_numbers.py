"""What stands where markup has a number: whatever it is, the document is read."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from resources.parsers.registry import media_type_of, parse_file
from resources.parsers.untrusted import signed_whole, whole
from tests.support.places import LIBRARY

NUMBER = re.compile(r'(?<=[\w:]=")-?[0-9A-F]{1,9}(?=")')
PARTS = re.compile(r"(document|styles|numbering|sheet\d+|drawing\d+|chart\d+|slide\d+)\.xml\Z")
ODD = {"superscript": "²", "long": "9" * 5000, "negative": "-7", "words": "auto", "empty": "", "fraction": "1.5"}


PAGE = (
    '<h1>Tours</h1><img src="a.png" width="9" height="9"><ol start="3"><li value="4">Meet at noon.</li></ol>'
    '<table><tr><th colspan="2" rowspan="1">Hours</th></tr><tr><td>Monday</td><td>9 to 5</td></tr></table>'
)
FILES = sorted(file for file in LIBRARY.rglob("*.*") if file.suffix in (".docx", ".xlsx", ".pptx"))


def spoilt(content: bytes, value: str) -> bytes:
    """Markup with `value` for every number that an attribute of it is, of which there are some."""
    changed, count = NUMBER.subn(value, content.decode())
    assert count
    return changed.encode()


@pytest.mark.parametrize("odd", ODD)
def test_numbers_that_are_none_cost_no_page(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(spoilt(PAGE.encode(), ODD[odd]))
    kinds = [block.kind for block in parse_file(file, media_type_of(file) or "").blocks]
    assert kinds == ["heading", "list_item", "table"]


def written(file: Path, into: Path, value: str) -> Path:
    """A copy of a package with `value` for the numbers in its markup."""
    with zipfile.ZipFile(file) as package, zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as made:
        for name in package.namelist():
            content = package.read(name)
            made.writestr(name, spoilt(content, value) if PARTS.search(name) else content)
    return into


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_numbers_that_are_none_cost_no_package(tmp_path: Path, file: Path, odd: str) -> None:
    changed = written(file, tmp_path / file.name, ODD[odd])
    assert parse_file(changed, media_type_of(changed) or "").blocks


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_number_below_0_is_none_where_there_can_be_none(tmp_path: Path, file: Path) -> None:
    """No heading is of a level under 1, and no picture or cell goes, as where a word stands."""

    def shape(odd: str) -> list[tuple[str, int | None, int]]:
        changed = written(file, tmp_path / f"{odd}{file.suffix}", ODD[odd])
        blocks = parse_file(changed, media_type_of(changed) or "").blocks
        return [(block.kind, block.level, len(block.cells)) for block in blocks]

    assert shape("negative") == shape("words")


def test_a_picture_of_a_width_below_0_is_no_icon(tmp_path: Path) -> None:
    found = []
    for width in ("-7", "auto", "7"):
        file = tmp_path / f"{width}.html"
        file.write_text(f'<p>Hours.</p><p><img src="a.png" alt="The opening hours" width="{width}"></p>', "utf-8")
        found.append(len(parse_file(file, media_type_of(file) or "").blocks))
    assert found[0] == found[1] > found[2]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        (" 3 ", 3),
        ("+3", 3),
        ("-3", 5),
        ("٣", 5),
        ("²", 5),
        ("", 5),
        (None, 5),
        ("1" * 5000, 999_999_999),
        ("1_0", 5),
        ("0x10", 5),
    ],
)
def test_whole_numbers(text: str | None, number: int) -> None:
    assert whole(text, 5) == number


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), (" -3 ", -3), ("-", 5), ("-+3", 5), ("--3", 5), ("-" + "1" * 5000, -999_999_999)]
)
def test_whole_numbers_below_0(text: str, number: int) -> None:
    assert signed_whole(text, 5) == number


def test_numbers_of_base_16() -> None:
    assert (whole("F0b7", 0, 16), whole("G", 0, 16), whole("F" * 99, 0, 16)) == (0xF0B7, 0, 999_999_999)
