"""What is on a slide besides its own shapes: text of its layout and master, comments, alternatives, embedded files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pptx
import pytest
from pptx.opc.constants import CONTENT_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI

from tests.support.documents import elements_of

_OFFICE = "http://schemas.openxmlformats.org"
NAMES = (
    f'xmlns:p="{_OFFICE}/presentationml/2006/main" xmlns:a="{_OFFICE}/drawingml/2006/main" '
    f'xmlns:r="{_OFFICE}/officeDocument/2006/relationships" xmlns:mc="{_OFFICE}/markup-compatibility/2006" '
    f'xmlns:m="{_OFFICE}/officeDocument/2006/math" xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" '
    'xmlns:cx="http://schemas.microsoft.com/office/drawing/2014/chartex"'
)
LEGAL = "Confidential. Figures are not audited."
BOTTOM, TOP = 6_500_000, 100_000
R = f"{_OFFICE}/officeDocument/2006/relationships"


def box(text: str, top: int = BOTTOM, paragraph: str = "") -> str:
    said = paragraph or f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"
    place = f'<a:xfrm><a:off x="0" y="{top}"/><a:ext cx="900000" cy="300000"/></a:xfrm>'
    return (
        f'<p:sp {NAMES}><p:nvSpPr><p:cNvPr id="99" name="Box"/><p:cNvSpPr txBox="1"/><p:nvPr/></p:nvSpPr>'
        f'<p:spPr>{place}</p:spPr><p:txBody><a:bodyPr/>{said}</p:txBody></p:sp>'
    )  # fmt: skip


def put(holder: Any, xml: str) -> None:
    """Into the shapes of a slide, layout or master."""
    holder.shapes._spTree.append(holder.shapes._spTree.makeelement("{x}x"))
    holder.shapes._spTree.replace(holder.shapes._spTree[-1], pptx.oxml.parse_xml(xml))


def deck_of(*titles: str, layout: int = 5) -> Any:
    deck = pptx.Presentation()
    for title in titles:
        slide = deck.slides.add_slide(deck.slide_layouts[layout])
        if title:
            slide.shapes.title.text = title
    return deck


def found(deck: Any, folder: Path) -> list[tuple[str, str, int | None]]:
    deck.save(str(folder / "deck.pptx"))
    return [(e.kind, e.text, e.page_start) for e in elements_of(folder / "deck.pptx")[1]]


def test_text_shown_on_several_slides_is_a_running_header_or_footer_once(tmp_path: Path) -> None:
    deck = deck_of(*(f"Part {at}" for at in range(1, 31)))
    put(deck.slide_master, box(LEGAL))
    put(deck.slide_layouts[5], box("Ferry company", TOP))
    elements = found(deck, tmp_path)
    assert elements[:4] == [
        ("page_footer", LEGAL, 1),
        ("page_header", "Ferry company", 1),
        ("heading", "Part 1", 1),
        ("heading", "Part 2", 2),
    ]
    assert len(elements) == 32


def test_layout_text_shown_on_one_slide_is_its_text_where_it_stands(tmp_path: Path) -> None:
    deck = deck_of("Part 1", "Part 2")
    put(deck.slides.add_slide(deck.slide_layouts[6]), box("Its own words"))
    put(deck.slide_layouts[6], box("Write to crew@ferry.example", TOP))
    assert found(deck, tmp_path)[2:] == [
        ("paragraph", "Write to crew@ferry.example", 3),
        ("paragraph", "Its own words", 3),
    ]


@pytest.mark.parametrize("hiding", ["slide", "layout"])
def test_a_slide_or_layout_may_not_show_its_master(tmp_path: Path, hiding: str) -> None:
    deck = deck_of("Part 1")
    put(deck.slide_master, box(LEGAL))
    put(deck.slide_layouts[5], box("Of the layout"))
    (deck.slides[0] if hiding == "slide" else deck.slide_layouts[5])._element.set("showMasterSp", "0")
    shown = [] if hiding == "slide" else [("paragraph", "Of the layout", 1)]
    assert found(deck, tmp_path) == [("heading", "Part 1", 1), *shown]


def test_prompts_and_lone_fields_are_no_text(tmp_path: Path) -> None:
    deck = deck_of("Part 1", layout=1)
    put(deck.slide_master, box("", paragraph='<a:p><a:fld id="{0}" type="slidenum"><a:t>‹#›</a:t></a:fld></a:p>'))
    assert found(deck, tmp_path) == [("heading", "Part 1", 1)]


def test_slides_that_say_nothing_say_what_is_under_them(tmp_path: Path) -> None:
    deck = deck_of("", "", layout=6)
    put(deck.slide_master, box(LEGAL))
    assert found(deck, tmp_path) == [("paragraph", LEGAL, 1)]


def either(choice: str, fallback: str) -> str:
    forms = f'<mc:Choice Requires="new">{choice}</mc:Choice><mc:Fallback>{fallback}</mc:Fallback>'
    return f"<mc:AlternateContent {NAMES}>{forms}</mc:AlternateContent>"


def test_the_newest_alternative_is_read_and_formulas_in_their_place(tmp_path: Path) -> None:
    deck = deck_of("Part 1")
    formula = "<a14:m><m:oMath><m:r><m:t>e=mc</m:t></m:r></m:oMath></a14:m>"
    newest = box("", paragraph=f"<a:p><a:r><a:t>Einstein: </a:t></a:r>{formula}</a:p>")
    put(deck.slides[0], either(newest, box("An old program cannot show this")))
    put(deck.slides[0], either("<p:contentPart/>", box("Drawn by hand")))
    assert [text for _, text, _ in found(deck, tmp_path)] == ["Part 1", "Einstein: e=mc", "Drawn by hand"]


def attach(deck: Any, kind: str, name: str, content: str) -> str:
    part = Part(PackURI(name), CONTENT_TYPE.XML, deck.part.package, content.encode())
    return deck.slides[0].part.relate_to(part, kind)


def test_comments_in_both_formats_are_notes_of_their_slide(tmp_path: Path) -> None:
    deck = deck_of("Part 1")
    old = f'<p:cmLst {NAMES}><p:cm authorId="0"><p:text>Check the fee.</p:text></p:cm></p:cmLst>'
    said = "<p188:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></p188:txBody>"
    new = (f'<p188:cmLst {NAMES} xmlns:p188="urn:x"><p188:cm><p188:replyLst><p188:reply>{said.format("Twelve.")}'
           f'</p188:reply></p188:replyLst>{said.format("Which fee?")}</p188:cm></p188:cmLst>')  # fmt: skip
    attach(deck, f"{R}/comments", "/ppt/comments/comment1.xml", old)
    attach(deck, "http://schemas.microsoft.com/office/2018/10/relationships/comments", "/ppt/comments/modern.xml", new)
    assert found(deck, tmp_path) == [
        ("heading", "Part 1", 1),
        ("footnote", "Check the fee.", 1),
        ("footnote", "Twelve.", 1),
        ("footnote", "Which fee?", 1),
    ]


def test_a_chart_of_the_newer_kind(tmp_path: Path) -> None:
    deck = deck_of("Part 1")
    names = '<cx:pt idx="0">Rail</cx:pt><cx:pt idx="1">Ferry</cx:pt>'
    numbers = '<cx:pt idx="0">7</cx:pt><cx:pt idx="1">9</cx:pt>'
    words = f'<cx:strDim type="cat"><cx:lvl>{names}</cx:lvl></cx:strDim>'
    data = f'<cx:data id="0">{words}<cx:numDim type="val"><cx:lvl>{numbers}</cx:lvl></cx:numDim></cx:data>'
    title = "<cx:title><cx:tx><cx:rich><a:p><a:r><a:t>Tickets</a:t></a:r></a:p></cx:rich></cx:tx></cx:title>"
    series = "<cx:series><cx:tx><cx:txData><cx:v>2025</cx:v></cx:txData></cx:tx></cx:series>"
    drawn = f"<cx:chartData>{data}</cx:chartData><cx:chart>{title}{series}</cx:chart>"
    kind = "http://schemas.microsoft.com/office/2014/relationships/chartEx"
    key = attach(deck, kind, "/ppt/charts/chartEx1.xml", f"<cx:chartSpace {NAMES}>{drawn}</cx:chartSpace>")
    put(
        deck.slides[0],
        f'<p:graphicFrame {NAMES}><p:nvGraphicFramePr><p:cNvPr id="7" name="C"/><p:cNvGraphicFramePr/><p:nvPr/>'
        '</p:nvGraphicFramePr><p:xfrm><a:off x="0" y="3000000"/><a:ext cx="1" cy="1"/></p:xfrm><a:graphic>'
        f'<a:graphicData uri="x"><cx:chart r:id="{key}"/></a:graphicData></a:graphic></p:graphicFrame>',
    )
    assert found(deck, tmp_path)[1:] == [("caption", "Tickets", 1), ("table", "2025\nRail\t7\nFerry\t9", 1)]


def test_embedded_files_are_named(tmp_path: Path) -> None:
    deck = deck_of("Part 1")
    attach(deck, f"{R}/oleObject", "/ppt/embeddings/oleObject1.bin", "x")
    assert len(found(deck, tmp_path)) == 1
    document, _, _ = elements_of(tmp_path / "deck.pptx")
    assert document.warnings == ("embedded files were not read: ppt/embeddings/oleObject1.bin",)


def test_a_box_that_was_added_to_the_notes_page_is_read(tmp_path: Path) -> None:
    deck = deck_of("Part 1")
    notes = deck.slides[0].notes_slide
    notes.notes_text_frame.text = "Say hello."
    put(notes, box("Wave too."))
    assert [text for _, text, _ in found(deck, tmp_path)] == ["Part 1", "Say hello.", "Wave too."]


def test_a_comment_part_with_entities_is_refused(tmp_path: Path) -> None:
    from pipelines.errors import DocumentError

    deck = deck_of("Part 1")
    bomb = "<!DOCTYPE x [<!ENTITY a 'ha'>]><x><text>&a;</text></x>"
    attach(deck, f"{R}/comments", "/ppt/comments/comment1.xml", bomb)
    with pytest.raises(DocumentError, match="declares entities") as caught:
        found(deck, tmp_path)
    assert caught.value.code == "limit_exceeded"
