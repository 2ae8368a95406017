"""The pictures of README.md and of docs/guide/dagster.md: what each is to show is there. `make pictures` keeps them.

Of `pincite serve` the page with an answer, and the passage marked on its page, each light and dark. Of `pincite ui`
what a run of the example library leaves, with one file more, which is no PDF.
"""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from pipelines.stages import STAGES
from tests.support.asking import asking
from tests.support.places import LIBRARY, ROOT
from tests.support.projects import Project
from tests.support.serving import command, serving
from tests.ui.conftest import PATIENCE, SECONDS

KEPT = ROOT / "docs" / "guide"
QUESTION, CITED = "What is the mileage rate for a fully electric car?", "48 pence"
BROKEN = "scan-of-2019.pdf"
SIZE: Any = {"width": 1240, "height": 860}
LINEAGE: Any = {"width": 1500, "height": 1000}
ASSET: Any = {"width": 1500, "height": 900}
COLOURS = 128
MADE = """(names) => names.every((name) => [...document.querySelectorAll("foreignObject *")].some((it) => {
  const [red, green, blue] = getComputedStyle(it).borderTopColor.match(/[0-9.]+/g).map(Number);
  return it.textContent.trim().startsWith(name) && green > red + 40 && green > blue + 20;
}))"""
"""Whether the nodes of all these assets have the green border of what was made."""
Keep = Callable[[Page, str], None]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The example library and its broken file, indexed with a shipped model."""
    project = Project(tmp_path_factory.mktemp("pictured"))
    shutil.copytree(LIBRARY, project.folder / "library")
    (project.folder / "library" / BROKEN).write_text("this is no PDF")
    project.configure(
        state="state", sources=[{"name": "library", "path": "library"}], query={"rerank": ["weighted"]},
        serve={"seconds": SECONDS},
    )  # fmt: skip
    assert subprocess.run(command(project, "index")).returncode == 3
    return project


@pytest.fixture
def keep(pytestconfig: pytest.Config, tmp_path: Path) -> Keep:
    """Takes the picture of a page under a name, as large as the one that is shown, and with few colours: that halves
    the file, and nobody sees it."""
    folder = Path(pytestconfig.getoption("--pictures") or tmp_path)

    def kept(page: Page, name: str) -> None:
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        assert image.size == Image.open(KEPT / name).size
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(folder / name, optimize=True)

    return kept


# ---------------------------------------------------------------- pincite serve


@pytest.fixture(scope="module")
def asked(library: Project) -> Iterator[str]:
    with asking(library.config) as url:
        yield url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_question_and_the_place_of_its_answer(browser: Browser, asked: str, keep: Keep, scheme: Any) -> None:
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, device_scale_factor=1, base_url=asked)
    page.set_default_timeout(PATIENCE)
    page.goto(f"/?q={QUESTION}", wait_until="networkidle")
    expect(page.locator(".answer")).to_contain_text(CITED)
    keep(page, f"page-{scheme}.png")
    page.locator(".cited a", has_text=CITED).click()
    page.wait_for_url("**/passages/**", wait_until="networkidle")
    expect(page.locator(".beside mark")).to_contain_text(CITED)
    assert page.locator("rect.passage").count() > 0
    keep(page, f"reader-{scheme}.png")
    page.close()


# ---------------------------------------------------------------- pincite ui


@pytest.fixture(scope="module")
def shown(browser: Browser, library: Project) -> Iterator[Page]:
    with serving(library) as served:
        page = browser.new_page(device_scale_factor=1, base_url=served.url)
        page.set_default_timeout(PATIENCE)
        page.goto(served.entry)
        yield page
        page.close()


def test_the_lineage_in_the_colours_of_a_run(shown: Page, keep: Keep) -> None:
    shown.set_viewport_size(LINEAGE)
    shown.goto("/asset-groups")
    shown.get_by_text("Hide navigation").click()
    shown.get_by_placeholder("Jump to").locator("xpath=ancestor::*[.//button][1]//button").first.click()
    expect(shown.locator("foreignObject").get_by_text("quality", exact=True)).to_be_visible()
    shown.keyboard.press("Alt+e")
    shown.wait_for_function(MADE, arg=[name[:4] for name in STAGES])
    keep(shown, "dagster-lineage.png")


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("asset", "/assets/packed_chunks", "Pack structural chunks"),
        ("failed", "/assets/parsed_elements?view=events", BROKEN),
        ("check", "/assets/search_index?view=checks", "Evaluation result"),
    ],
)
def test_an_asset_its_failures_and_its_checks(shown: Page, keep: Keep, name: str, path: str, text: str) -> None:
    shown.set_viewport_size(ASSET)
    shown.goto(path)
    expect(shown.get_by_text(text).first).to_be_visible()
    shown.wait_for_load_state("networkidle")
    keep(shown, f"dagster-{name}.png")


def test_an_asset_links_to_its_page_of_the_manual(shown: Page) -> None:
    shown.goto("/assets/chunks?view=overview")
    expect(shown.locator("a[href$='docs/reference/chunking.md:1']").first).to_be_visible()


def test_a_swap_of_the_embedder_is_shown_when_the_location_is_reloaded(
    shown: Page, library: Project, keep: Keep
) -> None:
    library.configure(embedder={"preset": "multilingual-small"})
    reloaded = shown.request.post(
        "/graphql",
        data={"query": 'mutation { reloadRepositoryLocation(repositoryLocationName: "pincite") { __typename } }'},
        headers={"Origin": shown.url.rpartition("/assets")[0] or shown.url},
    )
    assert reloaded.ok, reloaded.text()
    shown.set_viewport_size(ASSET)
    shown.goto("/assets/search_index?view=overview")
    expect(shown.get_by_text("Unsynced").first).to_be_visible()
    shown.wait_for_load_state("networkidle")
    keep(shown, "dagster-swap.png")
