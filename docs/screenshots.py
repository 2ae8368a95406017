"""The pictures of README.md and of docs/guide/dagster.md: `make pictures`, after `make index`.

Of `pincite serve` the page with an answer, and the passage marked on its page, each light and dark. Of `pincite ui`
what a run of the example library with one file more leaves, which is no PDF.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parent / "guide"
SETTINGS = Path(__file__).parents[1] / "tests" / "data" / "pincite.yaml"
QUESTION, CITED = "What is the mileage rate for a fully electric car?", "48 pence"
SIZE = {"width": 1240, "height": 860}
WIDE = {"width": 1500, "height": 1000}
COLOURS = 128
PATIENCE = 60_000
SETTLED = 10_000
"""Milliseconds until assets have the colours of their states."""


@contextmanager
def served(name: str, settings: Path, says: str) -> Iterator[str]:
    """The address that a command says when it listens."""
    command = [sys.executable, "-m", "pincite.cli", name, "--port", "0", "--config", str(settings)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = ""
        while (found := re.search(says + r" (http://\S+)", said)) is None:
            said = process.stderr.readline()
            if not said:
                raise SystemExit(f"`pincite {name}` did not start: run `make index` first")
        yield found[1]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def with_a_failure() -> Iterator[Path]:
    """The settings of a project with the example library, indexed, whose one broken file failed."""
    with tempfile.TemporaryDirectory() as folder:
        library, settings = Path(folder, "library"), Path(folder, "pincite.yaml")
        shutil.copytree(SETTINGS.parent / "library", library)
        (library / "scan-of-2019.pdf").write_text("this is no PDF")
        settings.write_text("sources: [{name: library, path: library}]\n")
        subprocess.run([sys.executable, "-m", "pincite.cli", "index", "--config", str(settings)])
        yield settings


def of_dagster(browser: Browser, entry: str) -> None:
    url = entry.partition("/?")[0]
    page = browser.new_page(viewport=WIDE, device_scale_factor=1)
    page.set_default_timeout(PATIENCE)
    page.goto(entry)
    page.goto(f"{url}/asset-groups")
    page.get_by_text("Hide navigation").click()
    page.get_by_placeholder("Jump to").locator("xpath=ancestor::*[.//button][1]//button").first.click()
    page.locator("foreignObject").get_by_text("quality", exact=True).wait_for()
    page.keyboard.press("Alt+e")
    page.locator("foreignObject").get_by_text("retrieval_quality").wait_for()
    page.wait_for_timeout(SETTLED)
    kept(page.screenshot(), "dagster-lineage.png")
    for name, path, shown in (
        ("asset", "/assets/packed_chunks", "Own text of the chunks"),
        ("failed", "/assets/parsed_elements?view=events", "failed documents"),
        ("check", "/assets/search_index?view=checks", "Evaluation result"),
    ):
        page.goto(url + path)
        page.get_by_text(shown).first.wait_for()
        page.wait_for_load_state("networkidle")
        kept(page.screenshot(), f"dagster-{name}.png")
    page.close()


def pictures(browser: Browser, url: str, scheme: str) -> None:
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, device_scale_factor=1)
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}/?{urlencode({'q': QUESTION})}", wait_until="networkidle")
    kept(page.screenshot(), f"page-{scheme}.png")
    page.locator(".cited a", has_text=CITED).click()
    page.wait_for_url("**/passages/**", wait_until="networkidle")
    kept(page.screenshot(), f"reader-{scheme}.png")
    page.close()


def kept(png: bytes, name: str) -> None:
    """With few colours, since that halves the file and nobody sees it."""
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(FOLDER / name, optimize=True)
    print(f"{FOLDER.name}/{name}  {(FOLDER / name).stat().st_size >> 10} KB")


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("the pictures are taken in chromium: apt-get install chromium, then again")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        with served("serve", SETTINGS, "Ask at") as url:
            for scheme in ("light", "dark"):
                pictures(browser, url, scheme)
        with with_a_failure() as settings, served("ui", settings, "Dagster's UI is at") as entry:
            of_dagster(browser, entry)
        browser.close()


if __name__ == "__main__":
    main()
