"""What a DOCX has besides its paragraphs: hidden text, embedded files, parts under other names, notes of any shape."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.support.documents import W, docx_of, elements_of, outline, related, run

RELATIONS = "_rels/document.xml.rels"


def hidden(text: str, value: str = "") -> str:
    return f"<w:r><w:rPr><w:vanish{value}/></w:rPr><w:t>{text}</w:t></w:r>"


def test_hidden_text_is_left_out_and_counted(tmp_path: Path) -> None:
    not_so = hidden(" not so", " w:val='0'")
    body = f"<w:p>{run('Shown')}{hidden(' hidden')}{not_so}</w:p><w:p>{hidden('All')}</w:p>"
    document, elements, _ = elements_of(docx_of(tmp_path, body))
    assert [element.text for element in elements] == ["Shown not so"]
    told = "hidden in the file, and left out: 2 passages; `parsing.hidden: read` takes them"
    assert document.warnings == (told,)


def test_embedded_files_are_named_and_the_figures_of_charts_are_none(tmp_path: Path) -> None:
    names = [f"embeddings/sheet{at}.xlsx" for at in range(8)]
    links = related(*names).replace("x/embedding", "x/package")
    document, _, _ = elements_of(docx_of(tmp_path, f"<w:p>{run('Here.')}</w:p>", **{RELATIONS: links}))
    told = ", ".join(f"word/{name}" for name in names[:6])
    assert document.warnings == (f"embedded files were not read: {told} and 2 more",)


def test_names_are_told_only_so_far(tmp_path: Path) -> None:
    links = related("embeddings/" + "x" * 30_000).replace("x/embedding", "x/oleObject")
    (told,) = elements_of(docx_of(tmp_path, f"<w:p>{run('Here.')}</w:p>", **{RELATIONS: links}))[0].warnings
    assert len(told) < 300 and told.endswith("…")


def test_a_table_in_a_note_is_read(tmp_path: Path) -> None:
    rows = f"<w:tr><w:tc><w:p>{run('Rate')}</w:p></w:tc><w:tc><w:p>{run('7 %')}</w:p></w:tc></w:tr>"
    notes = f"<w:endnotes {W}><w:endnote w:id='2'><w:tbl>{rows}</w:tbl></w:endnote></w:endnotes>"
    _, elements, _ = elements_of(docx_of(tmp_path, f"<w:p>{run('Here.')}</w:p>", endnotes=notes))
    assert outline(elements)[1:] == [("footnote", None, "Rate 7 %")]


def test_parts_are_found_by_their_relations_whatever_their_names(tmp_path: Path) -> None:
    """Some programs write document2.xml and styles2.xml."""
    path = tmp_path / "renamed.docx"
    heading = "<w:p><w:pPr><w:pStyle w:val='X'/></w:pPr>" + run("Fees") + "</w:p>"
    style = "<w:name w:val='heading 1'/><w:pPr><w:outlineLvl w:val='0'/></w:pPr>"
    styles = f"<w:styles {W}><w:style w:type='paragraph' w:styleId='X'>{style}</w:style></w:styles>"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("_rels/.rels", related("officeDocument/document2.xml"))
        package.writestr("officeDocument/document2.xml", f"<w:document {W}><w:body>{heading}</w:body></w:document>")
        package.writestr(
            "officeDocument/_rels/document2.xml.rels", related("styles/styles2.xml").replace("x/style", "x/styles")
        )
        package.writestr("officeDocument/styles/styles2.xml", styles)
    assert outline(elements_of(path)[1]) == [("heading", 1, "Fees")]


def test_the_reading_aid_over_a_word_is_no_part_of_it(tmp_path: Path) -> None:
    body = (
        f"<w:p><w:r><w:ruby><w:rt>{run('とうきょう')}</w:rt><w:rubyBase>{run('東京')}</w:rubyBase></w:ruby></w:r></w:p>"
    )
    assert [element.text for element in elements_of(docx_of(tmp_path, body))[1]] == ["東京"]


def test_headers_of_first_and_even_pages_and_watermarks_are_running_heads(tmp_path: Path) -> None:
    art = "<w:pict xmlns:v='urn:schemas-microsoft-com:vml'><v:shape><v:textpath string='DRAFT'/></v:shape></w:pict>"
    parts = {
        "header/first.xml": f"<w:hdr {W}><w:p>{run('Ferry company')}</w:p></w:hdr>",
        "header/even.xml": f"<w:hdr {W}><w:p><w:r>{art}</w:r>{run('Ferry company')}</w:p></w:hdr>",
        "footer/first.xml": f"<w:ftr {W}><w:p>{run('Page one only')}</w:p></w:ftr>",
    }
    links = related(*parts)
    path = docx_of(tmp_path, f"<w:p>{run('Here.')}</w:p>", **{RELATIONS: links, **parts})
    assert outline(elements_of(path)[1]) == [
        ("page_header", None, "Ferry company"),
        ("page_header", None, "DRAFT Ferry company"),
        ("paragraph", None, "Here."),
        ("page_footer", None, "Page one only"),
    ]


def test_a_table_in_a_text_box_and_what_changes_tracked_left(tmp_path: Path) -> None:
    rows = "".join(
        f"<w:tr><w:tc><w:p>{run(a)}</w:p></w:tc><w:tc><w:p>{run(b)}</w:p></w:tc></w:tr>" for a, b in ("ab", "cd")
    )
    moved = f"<w:moveFrom><w:r><w:t>gone</w:t></w:r></w:moveFrom><w:moveTo>{run('come')}</w:moveTo>"
    body = (
        f"<w:p>{moved}<w:r><w:pict><w:txbxContent><w:tbl>{rows}</w:tbl></w:txbxContent></w:pict></w:r></w:p>"
        f"<w:del><w:p>{run('deleted')}</w:p></w:del><w:ins><w:p>{run('inserted')}</w:p></w:ins>"
    )
    assert [e.text for e in elements_of(docx_of(tmp_path, body))[1]] == ["come", "a\tb\nc\td", "inserted"]
