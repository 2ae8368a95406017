"""XFA forms: text and values by the form's own structure, where its pages only say that they cannot show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from resources.parsers.pdf import reader as xfa
from resources.parsers.pdf.reader import form_blocks, parse
from tests.support.documents import elements_of
from tests.support.pdf_objects import pdf, stream

TEMPLATE = 'xmlns="http://www.xfa.org/schema/xfa-template/3.3/"'
DATA = 'xmlns:xfa="http://www.xfa.org/schema/xfa-data/1.0/"'
XHTML = "http://www.w3.org/1999/xhtml"
WAIT = b"BT /F 12 Tf 72 700 Td (Please wait... If this message is not eventually replaced, upgrade.) Tj ET"


def caption(text: str) -> str:
    return f"<caption><value><text>{text}</text></value></caption>"


def entry(name: str, label: str, more: str = "", ui: str = "textEdit", place: str = "") -> str:
    return f'<field name="{name}" {place}><ui><{ui}/></ui>{caption(label)}{more}</field>'


def draw(text: str, place: str = "") -> str:
    return f"<draw {place}><value><text>{text}</text></value></draw>"


def source(parts: str, data: str = "", name: str = "form1") -> bytes:
    template = f'<template {TEMPLATE}><subform name="{name}" layout="tb">{parts}</subform></template>'
    sets = f"<xfa:datasets {DATA}><xfa:data><{name}>{data}</{name}></xfa:data></xfa:datasets>"
    return f'<xdp:xdp xmlns:xdp="http://ns.adobe.com/xdp/">{template}{sets}</xdp:xdp>'.encode()


def said(parts: str, data: str = "") -> list[tuple[str, str]]:
    blocks, warnings = form_blocks(source(parts, data), "a.pdf")
    assert warnings == ()
    return [(block.kind, block.runs[0].text) for block in blocks]


def with_form(path: Path, xml: bytes, content: bytes = WAIT, dynamic: bool = True) -> Path:
    at = xml.find(b"<xfa:datasets")
    head, middle = xml.index(b">") + 1, xml[xml.index(b">") + 1 : at]
    packets = (xml[:head], middle, xml[at:].removesuffix(b"</xdp:xdp>"), b"</xdp:xdp>")
    objects = b"".join(b"%d 0 obj%b\nendobj\n" % (40 + at, stream(packet)) for at, packet in enumerate(packets))
    names = b"(preamble)40 0 R(template)41 0 R(datasets)42 0 R(postamble)43 0 R"
    catalog = b"/Pages 2 0 R/AcroForm<</Fields[]/XFA[%b]>>" % names + b"/NeedsRendering true" * dynamic
    data = pdf([content]).replace(b"/Pages 2 0 R", catalog).replace(b"trailer", objects + b"trailer")
    path.write_bytes(data)
    return path


def test_a_form_whose_page_asks_to_wait_has_the_text_of_the_form(tmp_path: Path) -> None:
    parts = draw("Ferry permit") + entry("City", "City:") + entry("Street", "Street")
    path = with_form(tmp_path / "a.pdf", source(parts, "<City>Lviv</City>"))
    document, elements, _ = elements_of(path)
    assert [(e.kind, e.text, e.metadata, e.places[0].locator) for e in elements] == [
        ("paragraph", "Ferry permit", {}, "form1"),
        ("key_value", "City: Lviv", {"kv.City": "Lviv"}, "form1.City"),
        ("paragraph", "Street", {}, "form1.Street"),
    ]
    (told,) = document.warnings
    assert told.startswith("its pages only ask for Adobe's Acrobat; its text and values are those of its XFA form")


def test_a_form_that_is_all_on_its_pages_is_read_from_them(tmp_path: Path) -> None:
    drawn = b"BT /F 12 Tf 72 700 Td (Ferry permit) Tj 0 -100 Td (City: Lviv) Tj ET"
    path = with_form(
        tmp_path / "a.pdf", source(draw("Ferry permit") + entry("City", "City:"), "<City>Lviv</City>"), drawn, False
    )
    _, elements, parsed = elements_of(path)
    assert [element.text for element in elements] == ["Ferry permit", "City: Lviv"]
    assert elements[0].places[0].box is not None and parsed.warnings == ()


def test_a_form_in_one_stream(tmp_path: Path) -> None:
    made = with_form(tmp_path / "a.pdf", source(draw("Ferry permit"))).read_bytes()
    whole = b"44 0 obj" + stream(source(draw("Crew list"))) + b"\nendobj\ntrailer"
    start, end = made.index(b"/XFA["), made.index(b"]>>/NeedsRendering") + 1
    (tmp_path / "b.pdf").write_bytes((made[:start] + b"/XFA 44 0 R" + made[end:]).replace(b"trailer", whole))
    assert [element.text for element in elements_of(tmp_path / "b.pdf")[1]] == ["Crew list"]


def test_form_text_missing_from_the_pages_is_added(tmp_path: Path) -> None:
    drawn = b"BT /F 12 Tf 72 700 Td (A letter to all crews.) Tj ET"
    path = with_form(tmp_path / "a.pdf", source(entry("City", "City:"), "<City>Lviv</City>"), drawn, False)
    assert [element.text for element in elements_of(path)[1]] == ["A letter to all crews.", "City: Lviv"]


@pytest.mark.parametrize(
    ("xml", "code", "told"),
    [
        (source(""), "no_text", "an XFA form without text"),
        (source(draw("x")).replace(b"</template>", b""), "corrupt", "its XFA form cannot be read"),
        (b"<!DOCTYPE x [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]>" + source(draw("&b;")), "limit_exceeded", "entities"),
    ],
)
def test_a_form_that_cannot_be_read_fails_by_name(tmp_path: Path, xml: bytes, code: str, told: str) -> None:
    """The same beside pages with text of their own is a warning."""
    with pytest.raises(DocumentError, match=told) as caught:
        parse(with_form(tmp_path / "a.pdf", xml))
    assert caught.value.code == code
    drawn = b"BT /F 12 Tf 72 700 Td (A letter to all crews.) Tj ET"
    parsed = parse(with_form(tmp_path / "b.pdf", xml, drawn, False))
    assert len(parsed.blocks) == 1
    assert [told in warning and "its text is that of its pages" in warning for warning in parsed.warnings] == (
        [] if code == "no_text" else [True]
    )


# ---------------------------------------------------------------- the form itself


def test_repeated_parts_take_the_data_in_order_and_the_rest_is_kept(tmp_path: Path) -> None:
    parts = '<subform name="Crew"><occur max="-1"/>' + entry("Name", "Name") + "</subform>" + entry("Port", "Port")
    data = "<Crew><Name>Anna</Name></Crew><Crew><Name>Oleh</Name><Rank>Mate</Rank></Crew><Port>Odesa</Port>"
    assert [text for _, text in said(parts, data)] == ["Name: Anna", "Name: Oleh", "Port: Odesa", "Rank: Mate"]


def test_bindings_by_reference_none_and_values_of_the_template() -> None:
    parts = (
        entry("a", "Town", '<bind match="dataRef" ref="$.Address.City"/>')
        + entry("b", "Zip", '<bind match="dataRef" ref="$.Address.Zip[*]"/>')
        + entry("c", "Unbound", '<bind match="none"/><value><text>as printed</text></value>')
        + '<subform><bind match="none"/>' + entry("Note", "Note") + "</subform>"
    )  # fmt: skip
    data = "<Address><City>Lviv</City><Zip>79000</Zip></Address><c>never</c><Note>Yes</Note>"
    assert [text for _, text in said(parts, data)] == [
        "Town: Lviv", "Zip: 79000", "Unbound: as printed", "Note: Yes", "c: never",
    ]  # fmt: skip


def test_choices_boxes_and_buttons() -> None:
    items = (
        "<items><text>Ukraine</text><text>Poland</text></items><items save='1'><text>UA</text><text>PL</text></items>"
    )
    on = "<items><text>{}</text><text>0</text></items>"
    group = '<exclGroup name="Class">' + caption("Class")
    group += entry("f", "First", on.format("F"), "checkButton") + entry("s", "Second", on.format("S"), "checkButton")
    parts = (
        entry("Land", "Country", items, "choiceList") + entry("Vip", "Important", on.format("1"), "checkButton")
        + entry("Old", "Retired", on.format("1"), "checkButton") + group + "</exclGroup>"
        + entry("Send", "Submit", "", "button") + entry("Secret", "Password", "", "passwordEdit")
    )  # fmt: skip
    blocks, _ = form_blocks(source(parts, "<Land>PL</Land><Vip>1</Vip><Class>S</Class><Secret>x</Secret>"), "a.pdf")
    assert [(block.runs[0].text, block.metadata) for block in blocks] == [
        ("Country: Poland", {"kv.Country": "Poland"}),
        ("☑ Important", {"kv.Important": "yes"}),
        ("☐ Retired", {"kv.Retired": "no"}),
        ("Class: ☐ First ☑ Second", {"kv.Class": "Second"}),
    ]


def test_order_on_the_page_formatted_text_pictures_and_hidden_parts() -> None:
    body = f'<body xmlns="{XHTML}"><p>One <b>line</b>.</p><p>Another.</p></body>'
    rich = f"<draw><value><exData>{body}</exData></value></draw>"
    placed = draw("third", 'y="2in"') + draw("second", 'x="9mm" y="1in"') + draw("first", 'x="1mm" y="25.5mm"')
    parts = (
        f"<subform>{placed}</subform>{rich}" + draw("Unseen", 'presence="hidden"')
        + "<draw><value><image>aGVsbG8=</image></value></draw>"
        + f"<pageSet><pageArea>{draw('At the top')}</pageArea></pageSet>"
    )  # fmt: skip
    data = '<Photo xfa:contentType="image/png">aGVsbG8=</Photo>'
    assert [text for _, text in said(parts, data)] == [
        "first",
        "second",
        "third",
        "One line.",
        "Another.",
        "At the top",
    ]


@pytest.mark.defends("1a")
def test_a_part_that_is_repeated_without_end_is_read_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of the template for every node of the data would be their product."""
    monkeypatch.setattr(xfa, "MOST_STEPS", 1000)
    parts = f'<subform name="r">{draw("word " * 100)}{draw("x") * 50}</subform>'
    blocks, warnings = form_blocks(source(parts, "<r/>" * 5000), "a.pdf")
    assert len(blocks) <= 1000
    assert warnings == ("of the XFA form only the first 1,000 parts were read",)
