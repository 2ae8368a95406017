"""Codes in pictures, from a folder to a filter: the passage beside a code is found by the code's exact content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import make_project, new_database
from tests.unit.resources.parsers.test_barcodes import EAN, LINK, WORDS, code, pdf_with

pytestmark = pytest.mark.integration


def test_a_filter_finds_the_passage_by_the_content_or_kind_of_its_code(
    server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    with new_database(server_url) as url:
        project = make_project(
            tmp_path / "project",
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            parsing={"barcodes": True},
        )
        pdf_with(project.docs / "link.pdf", [(code(LINK), 400, 100, 144, 144)])
        pdf_with(project.docs / "goods.pdf", [(code(EAN, "EAN13"), 72, 400, 200, 80)])
        pdf_with(project.docs / "plain.pdf", [])
        project.index()

        def found(*filters: str) -> set[str]:
            ran = project.run("query", WORDS, *(word for each in filters for word in ("--filter", each)))
            assert ran.code == 0, ran.err
            return {hit["uri"] for hit in ran.json["hits"]}

        assert {"link.pdf", "goods.pdf", "plain.pdf"} <= found()
        assert found(f"kv.barcode={EAN}") == {"goods.pdf"}
        assert found("kv.barcode_kind=QR Code") == found(f"kv.barcode={LINK}") == {"link.pdf"}
        assert found(f"kv.barcode={EAN[:-1]}") == set()
