"""The cost of writing and taking texts in a tree: in proportion to their length, however many pieces they have."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from pipelines.parsing.hidden import HiddenContent
from pipelines.parsing.pdf.page import PdfItem
from resources.parsers import epub_styles
from resources.parsers.odt import parse
from resources.parsers.pdf import pages
from resources.parsers.through_html import EndTexts, Look, drop, look_mark, name_headings
from tests.support.growth import Parts, assert_linear


class Counted:
    """An element that counts the characters that are written into it."""

    def __init__(self) -> None:
        self.written = 0
        self._text = ""

    @property
    def text(self) -> str:
        return self._text

    @text.setter
    def text(self, value: str) -> None:
        self.written += len(value)
        self._text = value

    def iterchildren(self, reversed: bool) -> Iterator[Any]:
        assert reversed
        return iter(())


def test_texts_of_one_place_are_joined_once() -> None:
    element, texts = Counted(), EndTexts()
    for _ in range(1000):
        texts.add(element, "ab")
    texts.write()
    texts.write()
    assert element.written == 2000 and element.text == 1000 * "ab"


def test_texts_stand_in_order_behind_the_last_child() -> None:
    root, texts = etree.fromstring("<p>One</p>"), EndTexts()
    texts.add(root, " two")
    etree.SubElement(root, "b").text = "B"
    texts.add(root, " three")
    texts.add(root, " four")
    texts.write()
    assert etree.tostring(root) == b"<p>One two<b>B</b> three four</p>"


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("<p>1<x/>2<x/>3<x/>4</p>", "<p>1234</p>"),
        ("<p><b/>1<x>a<x/>b</x>2<x/>3</p>", "<p><b/>123</p>"),
        ("<p><x/><b>1<x/>2</b>3<x/>4</p>", "<p><b>12</b>34</p>"),
    ],
)
def test_the_texts_behind_dropped_elements_stay(source: str, left: str) -> None:
    root = etree.fromstring(source)
    drop(list(root.iter("x")))
    assert etree.tostring(root).decode() == left


def written_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of places that each writing of texts has."""
    found: list[int] = []
    write = EndTexts.write

    def counted(self: EndTexts) -> None:
        found.append(len(self.pieces))
        write(self)

    monkeypatch.setattr(EndTexts, "write", counted)
    return found


def test_an_odt_writes_its_texts_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = written_at_once(monkeypatch)
    name = "urn:oasis:names:tc:opendocument:xmlns"
    names = f'xmlns:office="{name}:office:1.0" xmlns:text="{name}:text:1.0"'
    comment = "<office:annotation><text:p>Aside.</text:p></office:annotation>"
    body = f"<text:p>{100 * f'<text:span>word </text:span>{comment}'}</text:p>"
    content = f"<office:document-content {names}><office:body><office:text>{body}</office:text></office:body>"
    with zipfile.ZipFile(tmp_path / "a.odt", "w") as package:
        package.writestr("content.xml", f"{content}</office:document-content>")
    blocks = parse(tmp_path / "a.odt").blocks
    assert found == [101] and len(blocks) == 101
    assert "".join(run.text for run in blocks[0].runs).split() == ["word"] * 100


def test_hidden_elements_of_a_book_are_dropped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    found = written_at_once(monkeypatch)
    item = "<i hidden=''>x<b hidden=''>y</b></i>seen "
    page = etree.fromstring(f"<body>{100 * item}</body>")
    content = HiddenContent()
    epub_styles.leave_out_hidden(page, (), content)
    assert found == [1] and content.counts == {"elements": 100}
    assert etree.tostring(page).decode() == f"<body>{100 * 'seen '}</body>"


def test_headings_that_leave_a_list_look_at_it_once() -> None:
    def counted(size: int) -> dict[str, int]:
        item = f"<li><p>Head{look_mark(Look(12, True, '1.'))}</p><p>{'Text of it. ' * 5}</p></li>"
        root = etree.fromstring(f"<body><ol>{size * item}<li><p>last</p></li></ol><p>End.</p></body>")
        parts = Parts()
        parts.counted("named", lambda: name_headings(root))
        assert len(root.findall("ol/div/h1")) == size
        return parts.steps

    assert_linear(counted, 200)


def test_lines_are_compared_with_few_of_the_pieces_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_MOST_BESIDE", 20)

    def counted(size: int) -> dict[str, int]:
        pieces = [PdfItem("a", float(at), 10.0, at + 0.5, 20.0, 10.0) for at in range(size)]
        parts = Parts()
        parts.counted("dressed", lambda: pages._dress_lines(pieces, pieces))
        return parts.steps

    assert_linear(counted, 100)
