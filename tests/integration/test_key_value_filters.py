"""Passages of forms, and of codes in pictures, by `--filter kv.LABEL=VALUE`, in every format and by every search."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from reportlab.pdfgen.canvas import Canvas

from tests.support.direct_runs import quick_runs
from tests.support.documents import docx_of, run
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import DATA, needs_data
from tests.support.projects import DOCUMENTS, Project, make_project, new_database
from tests.unit.resources.parsers.test_barcodes import EAN, LINK, WORDS, code, pdf_with

FIXTURES = DATA / "parser-fixtures"
FORM = "docling/html/kvp_data_example.html"
"""The one form among them: a restaurant's receipt."""
OTHERS = ("docling/html/table_06.html", "docling/xlsx/xlsx_05_table_with_title.xlsx", "docling/docx/word_tables.docx")

pytestmark = [
    pytest.mark.integration,
    needs_data("parser-fixtures"),
]

STRATEGIES = ("dense", "lexical", "hybrid", "sentence")
OF_FORM = {
    "Restaurant": "Docling", "Telephone": "(123) 456-7890", "Server": "Quack Quackling", "Order Number": "12345",
    "Seating": "13", "Dining Type": "Celebration", "Number of guests": "5", "Receipt date": "16/03/2026",
}  # fmt: skip
OF_OTHERS = [
    ("tenancy.pdf", "Full name", "Anna Kovalenko"),
    ("tenancy.pdf", "Keeps a dog", "yes"),
    ("tenancy.pdf", "Keeps a cat", "no"),
    ("invoice.xlsx", "Client", "Harbour Catering"),
    ("invoice.xlsx", "Paid", "TRUE"),
    ("parking.docx", "Permit holder", "Ivan Melnyk"),
    ("parking.docx", "Electric car", "yes"),
    ("lease.elements.json", "Tenant", "Oksana Bila"),
]
CASES = [(FORM, label, value) for label, value in OF_FORM.items()] + OF_OTHERS


def tenancy(path: Path) -> None:
    canvas = Canvas(str(path), pagesize=(595, 842))
    canvas.drawString(72, 780, "Application for a tenancy")
    form = canvas.acroForm
    form.textfield(name="t1", tooltip="Full name", value="Anna Kovalenko", x=150, y=690, width=200, height=20)
    for y, label, checked in ((650, "Keeps a dog", True), (620, "Keeps a cat", False)):
        form.checkbox(name=label, tooltip=label, checked=checked, x=72, y=y, size=12)
    canvas.save()


def invoice(path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Client:", "Harbour Catering"], ["Paid:", True]):
        book.active.append(row)
    book.save(path)


def parking(folder: Path) -> None:
    def control(properties: str, words: str) -> str:
        return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{run(words)}</w:sdtContent></w:sdt>"

    holder = control("<w:alias w:val='Permit holder'/>", "Ivan Melnyk")
    electric = control("<w14:checkbox><w14:checked w14:val='1'/></w14:checkbox>", "☒")
    body = f"<w:p>{run('The permit is held by ')}{holder}</w:p><w:p>{electric}{run(' Electric car')}</w:p>"
    docx_of(folder, body).rename(folder / "parking.docx")


LEASE = {
    "version": 1,
    "elements": [
        {"kind": "heading", "level": 1, "text": "Lease"},
        {"kind": "key_value", "text": "Tenant: Oksana Bila", "metadata": {"kv.Tenant": "Oksana Bila"}},
    ],
}


@pytest.fixture(scope="module")
def forms(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Some of the fixtures' pages, sheets and DOCX files, among them one form, a form of each other format, and PDF
    files with codes in pictures."""
    folder = tmp_path_factory.mktemp("forms") / "project"
    with quick_runs(), new_database(server_url) as url:
        project = make_project(
            folder,
            DOCUMENTS,
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            parsing={"ocr": "off", "barcodes": True},
        )
        for uri in (FORM, *OTHERS):
            (project.docs / uri).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(FIXTURES / uri, project.docs / uri)
        tenancy(project.docs / "tenancy.pdf")
        invoice(project.docs / "invoice.xlsx")
        parking(project.docs)
        project.write("lease.elements.json", json.dumps(LEASE))
        pdf_with(project.docs / "link.pdf", [(code(LINK), 400, 100, 144, 144)])
        pdf_with(project.docs / "goods.pdf", [(code(EAN, "EAN13"), 72, 400, 200, 80)])
        pdf_with(project.docs / "plain.pdf", [])
        project.index()
        yield project


def found(project: Project, text: str, strategy: str, *pairs: tuple[str, str]) -> list[dict[str, Any]]:
    filters = [argument for label, value in pairs for argument in ("--filter", f"kv.{label}={value}")]
    return project.hits(text, "--strategy", strategy, *filters)


def test_a_form_is_found_by_what_is_written_in_it(forms: Project) -> None:
    for uri, label, value in CASES:
        hits = found(forms, label, "hybrid", (label, value))
        assert hits and {hit["uri"] for hit in hits} == {uri}, (label, value)
        assert any(label in hit["text"] or value in hit["text"] for hit in hits), (label, value)


def test_only_the_exact_value_of_that_label_is_one(forms: Project) -> None:
    for label, value in (("Restaurant", "docling"), ("Server", "Docling"), ("Seating", "1"), ("restaurant", "Docling")):
        assert found(forms, "restaurant seating server docling", "hybrid", (label, value)) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_labels_all_hold_and_values_of_one_are_alternatives(forms: Project, strategy: str) -> None:
    asked = "restaurant client tenant"
    assert {hit["uri"] for hit in found(forms, asked, strategy, ("Restaurant", "Docling"), ("Seating", "13"))} == {FORM}
    assert found(forms, asked, strategy, ("Restaurant", "Docling"), ("Seating", "14")) == []
    assert found(forms, asked, strategy, ("Restaurant", "Elsewhere"), ("Restaurant", "Docling"))


def test_a_form_is_found_though_nothing_in_it_is_like_the_question(forms: Project) -> None:
    """A filter costs no hits: the one passage that matches is found by a question about something else."""
    (hit,) = found(forms, "inspection of the boiler in the east wing", "dense", ("Order Number", "12345"))
    assert hit["uri"] == FORM and "Order Number: 12345" in hit["text"]


def test_a_passage_is_found_by_the_content_or_kind_of_the_code_beside_it(forms: Project) -> None:
    def uris(*pairs: tuple[str, str]) -> set[str]:
        return {hit["uri"] for hit in found(forms, WORDS, "hybrid", *pairs)}

    assert {"link.pdf", "goods.pdf", "plain.pdf"} <= uris()
    assert uris(("barcode", EAN)) == {"goods.pdf"}
    assert uris(("barcode_kind", "QR Code")) == uris(("barcode", LINK)) == {"link.pdf"}
    assert uris(("barcode", EAN[:-1])) == set()
