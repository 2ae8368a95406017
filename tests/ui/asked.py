"""A page of `pincite serve` in the browser: where its marks are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page

from tests.ui.conftest import PATIENCE

FIGURES = """() => [...document.querySelectorAll("figure.page")].map((figure) => {
  const image = figure.querySelector("img"), place = image.getBoundingClientRect();
  const across = image.naturalWidth / place.width, down = image.naturalHeight / place.height;
  return {
    number: Number(figure.id.slice(5)), width: image.naturalWidth, height: image.naturalHeight,
    boxes: [...figure.querySelectorAll("rect.passage")].map((rect) => {
      const box = rect.getBoundingClientRect();
      return [(box.left - place.left) * across, (box.top - place.top) * down,
              (box.right - place.left) * across, (box.bottom - place.top) * down];
    }),
  };
})"""


@dataclass
class Tab:
    """A page of the server at an address."""

    page: Page
    url: str

    def open(self, path: str, **query: str) -> Page:
        given = f"?{urlencode(query)}" if query else ""
        self.page.goto(path if path.startswith("http") else f"{self.url}{path}{given}")
        self.page.wait_for_function("[...document.images].every((image) => image.complete)")
        return self.page

    def figures(self) -> list[dict[str, Any]]:
        """Pages that are shown, with the boxes in pixels of their pictures, as the browser laid them out."""
        found: list[dict[str, Any]] = self.page.evaluate(FIGURES)
        return found

    def hits(self, question: str, **query: str) -> list[dict[str, Any]]:
        answer = self.page.request.get(f"{self.url}/api/search", params={"q": question, **query})
        assert answer.ok, answer.text()
        found: list[dict[str, Any]] = answer.json()["hits"]
        return found


def tab_of(browser: Browser, url: str, **options: Any) -> Tab:
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE)
    return Tab(page, url)
