"""What sheets have besides their cells: printed headers, answered comments, diagrams, embedded files."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.support.documents import elements_of
from tests.unit.resources.parsers.test_sheets import replace_in, saved, texts

OFFICE = "http://schemas.openxmlformats.org"
MAIN = f'xmlns="{OFFICE}/spreadsheetml/2006/main"'
THREADED = 'xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"'
DRAWN = (
    f'xmlns:x="{OFFICE}/drawingml/2006/spreadsheetDrawing" xmlns:a="{OFFICE}/drawingml/2006/main" '
    f'xmlns:mc="{OFFICE}/markup-compatibility/2006" xmlns:d="{OFFICE}/drawingml/2006/diagram" '
    f'xmlns:r="{OFFICE}/officeDocument/2006/relationships"'
)


def links(*pairs: tuple[str, str]) -> str:
    """Relations `x0`, `x1` ... by kind and target."""
    made = "".join(f'<Relationship Id="x{at}" Type="x/{k}" Target="{t}"/>' for at, (k, t) in enumerate(pairs))
    return f'<Relationships xmlns="{OFFICE}/package/2006/relationships">{made}</Relationships>'


def with_parts(folder: Path, related: str, **parts: str) -> Path:
    """A workbook of one sheet, its relations, and parts in the folder xl/x."""
    path = saved(folder, [["Fee"], ["Twelve"]])
    with zipfile.ZipFile(path, "a") as package:
        package.writestr("xl/worksheets/_rels/sheet1.xml.rels", related)
        for name, content in parts.items():
            package.writestr(f"xl/x/{name}.xml", content)
    return path


def test_headers_and_footers_of_sheets_stand_above_and_below_once(tmp_path: Path) -> None:
    path = saved(tmp_path, [["Fee"], ["Twelve"]], [["Rate"], ["Seven"]])
    head = b"<oddHeader>&amp;L&amp;&quot;Arial,Bold&quot;&amp;14Confidential&amp;RR&amp;&amp;D &amp;A</oddHeader>"
    foot = b"<oddFooter>&amp;CAll rights &amp;P</oddFooter><firstFooter>&amp;K01+000Draft</firstFooter>"
    edges = b'<headerFooter differentFirst="1">' + head + foot + b"</headerFooter></worksheet>"
    for at in (1, 2):
        replace_in(path, f"xl/worksheets/sheet{at}.xml", b"</worksheet>", edges)
    assert texts(elements_of(path)[1]) == [
        ("page_header", "Confidential R&D S1"),
        ("page_header", "Confidential R&D S2"),
        ("heading", "S1"),
        ("paragraph", "Fee"),
        ("paragraph", "Twelve"),
        ("heading", "S2"),
        ("paragraph", "Rate"),
        ("paragraph", "Seven"),
        ("page_footer", "All rights"),
        ("page_footer", "Draft"),
    ]


def test_comments_with_answers_are_read_without_the_word_to_old_programs(tmp_path: Path) -> None:
    old = "<comment ref={}><text><t>{}</t></text></comment>"
    olds = old.format("'A1'", "[Threaded comment] Which?") + old.format("'A2'", "An older one")
    new = "<threadedComment ref='A1'><text>{}</text></threadedComment>"
    path = with_parts(
        tmp_path,
        links(("comments", "../x/old.xml"), ("threadedComment", "../x/new.xml")),
        old=f"<comments {MAIN}><commentList>{olds}</commentList></comments>",
        new=f"<ThreadedComments {THREADED}>{new.format('Which?')}{new.format('This one.')}</ThreadedComments>",
    )
    found = elements_of(path)[1][3:]
    assert [(e.text, e.places[0].locator, e.metadata) for e in found] == [
        ("Which?", "S1!A1", {"comment_on": "A1"}),
        ("This one.", "S1!A1", {"comment_on": "A1"}),
        ("An older one", "S1!A2", {"comment_on": "A2"}),
    ]


def test_a_diagram_on_a_sheet_is_read_and_what_stands_in_for_it_is_not(tmp_path: Path) -> None:
    instead = "<x:sp><x:txBody><a:p><a:r><a:t>Not available in your version</a:t></a:r></a:p></x:txBody></x:sp>"
    forms = f'<mc:Choice><d:relIds r:dm="x0"/></mc:Choice><mc:Fallback>{instead}</mc:Fallback>'
    anchor = f"<x:twoCellAnchor><mc:AlternateContent>{forms}</mc:AlternateContent></x:twoCellAnchor>"
    path = with_parts(
        tmp_path,
        links(("drawing", "../x/drawing.xml")),
        drawing=f"<x:wsDr {DRAWN}>{anchor}</x:wsDr>",
        data=f"<d:dataModel {DRAWN}><d:pt><d:t><a:p><a:r><a:t>Buy</a:t></a:r></a:p></d:t></d:pt></d:dataModel>",
    )
    with zipfile.ZipFile(path, "a") as package:
        package.writestr("xl/x/_rels/drawing.xml.rels", links(("diagramData", "data.xml")))
    assert texts(elements_of(path)[1][3:]) == [("list_item", "Buy")]


def test_embedded_files_are_named(tmp_path: Path) -> None:
    path = with_parts(tmp_path, links(("package", "../embeddings/terms.docx"), ("oleObject", "../embeddings/a.bin")))
    told = "embedded files were not read: xl/embeddings/terms.docx, xl/embeddings/a.bin"
    assert elements_of(path)[0].warnings == (told,)
