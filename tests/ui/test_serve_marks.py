"""The boxes of passages lie on their words in the pictures of real pages: tables, columns, passages over two pages.

The boxes are read where the browser laid them out, and the letters where PDFium's character boxes and its own map from
the page to a device put them: neither the parser, which other libraries feed, nor the drawing has a part in that.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.asking import asking
from tests.support.embedding_server import embedding_server
from tests.support.page_letters import Letter, letters_of
from tests.support.places import DATA, needs_data
from tests.support.projects import Project, make_project
from tests.ui.asked import Tab, tab_of
from tests.ui.conftest import SECONDS

REAL = {
    "policies/employee_handbook.pdf": ("vacation", "performance reviews"),
    "policies/Northwind_Standard_Benefits_Details.pdf": ("emergency services", "out-of-network providers", "appeals"),
    "reports/sec-10-q/2023 Q1 AAPL.pdf": ("net sales by segment", "repurchase of shares", "balance sheet total assets"),
}
PIXELS = 1.0
SHARE = 0.02
"""Of a passage's letters that may be others than those under its marks: what the parser lost of the page."""

pytestmark = needs_data("")


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Project, Tab]]:
    with embedding_server() as endpoint:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(
            tmp_path_factory.mktemp("marks") / "project", {}, embedder=embedder, serve={"seconds": SECONDS}
        )
        project.docs.mkdir()
        for name in REAL:
            shutil.copy(DATA / name, project.docs)
        project.index()
        with asking(project.config) as url:
            tab = tab_of(browser, url, viewport={"width": 1280, "height": 900})
            yield project, tab
            tab.page.context.close()


def on_words(project: Project, tab: Tab, hit: dict[str, Any]) -> set[int]:
    """Checks the marks of a hit; the pages that it is marked on."""
    tab.open(f"/passages/{hit['chunk_id']}")
    figures = [figure for figure in tab.figures() if figure["boxes"]]
    told = Counter(char for char in hit["text"] if char.isalnum())
    covered: Counter[str] = Counter()
    for figure in figures:
        letters = letters_of(project.docs / hit["uri"], figure["number"], figure["width"], figure["height"])
        assert letters
        for box in figure["boxes"]:
            covered.update(letter.char for letter in lies_on(box, letters) if letter.char.isalnum())
    more = covered - told
    assert more.total() <= SHARE * told.total(), f"{hit['uri']} marks what the passage does not say: {more}"
    if " | " not in hit["text"]:  # rows of a table repeat the names of its columns, as others do a heading
        lost = told - covered - Counter("".join(hit["header_chain"]))
        assert lost.total() <= SHARE * told.total(), f"{hit['uri']} leaves unmarked: {lost}"
    return {figure["number"] for figure in figures}


def lies_on(box: list[float], letters: list[Letter]) -> list[Letter]:
    """Letters and signs whose middle is in the box; the letters are in it wholly."""
    x0, y0, x1, y1 = box
    inside = [it for it in letters if x0 < (it.left + it.right) / 2 < x1 and y0 < (it.top + it.bottom) / 2 < y1]
    for it in inside:
        if it.char.isalnum():  # a raised sign such as a trade mark's is no word
            assert it.left >= x0 - PIXELS and it.right <= x1 + PIXELS, it
            assert it.top >= y0 - PIXELS and it.bottom <= y1 + PIXELS, it
    return inside


@pytest.mark.parametrize("name", REAL)
def test_passages_of_real_documents(marked: tuple[Project, Tab], name: str) -> None:
    """Some over two pages, some tables."""
    project, tab = marked
    uri = Path(name).name
    found = {hit["chunk_id"]: hit for question in REAL[name] for hit in tab.hits(question, k="8", filter=f"uri={uri}")}
    assert len(found) >= 8
    pages = [on_words(project, tab, hit) for hit in found.values()]
    assert all(pages)
    assert any(len(numbers) > 1 for numbers in pages)
