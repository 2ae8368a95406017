"""Draws the pictures of `pincite serve` that the README and the manual show, from the library of example documents:

python docs/screenshots.py        (after `make index`, with chromium and the extra `ui`)
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CONFIG, OUTPUT = ROOT / "tests" / "data" / "pincite.yaml", ROOT / "docs" / "guide"
QUESTION = "Who approves a journey of 5,000 pounds?"
SIZE = {"width": 1200, "height": 760}
SAID = re.compile(r"Ask at (http://\S+)")


def keep(png: bytes, name: str) -> None:
    """With a palette, which takes a third of full colour."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(OUTPUT / name, optimize=True)


def main() -> None:
    command = [sys.executable, "-m", "pincite.cli", "serve", "--port", "0", "--config", str(CONFIG), *sys.argv[1:]]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as serve, sync_playwright() as play:
        assert serve.stderr is not None
        while not (said := SAID.search(serve.stderr.readline())):
            if serve.poll() is not None:
                raise SystemExit("pincite serve ended; run `make index` first")
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(said[1])
            page.fill("main input[name=q]", QUESTION)
            page.click("main button")
            page.wait_for_selector(".hits")
            keep(page.screenshot(), f"asking-search-{scheme}.png")
            page.locator(".hits li", has_text=".pdf").locator("h2 a").first.click()
            page.wait_for_function("document.querySelector('.paper img').complete")
            keep(page.screenshot(), f"asking-reader-{scheme}.png")
        serve.terminate()


if __name__ == "__main__":
    main()
