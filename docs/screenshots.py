"""The pictures of `pincite serve` in README.md: `make pictures`, after `make index`.

The page with an answer, and the passage marked on its page, each light and dark.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
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
COLOURS = 128
PATIENCE = 60_000


@contextmanager
def served() -> Iterator[str]:
    """The address of a server on the example library's index."""
    command = [sys.executable, "-m", "pincite.cli", "serve", "--port", "0", "--config", str(SETTINGS)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = ""
        while (found := re.search(r"Ask at (http://\S+)", said)) is None:
            said = process.stderr.readline()
            if not said:
                raise SystemExit("the server did not start: run `make index` first")
        yield found[1]
    finally:
        process.terminate()
        process.wait()


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
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for scheme in ("light", "dark"):
            pictures(browser, url, scheme)
        browser.close()


if __name__ == "__main__":
    main()
