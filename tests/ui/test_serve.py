"""`pincite serve` in the browser: marks lie on words, on turned and cropped pages too; keys, darkness, small screens
and no JavaScript; nothing serious for axe."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from tests.support.embedding_server import embedding_server
from tests.support.places import DATA, needs_data
from tests.support.projects import make_project
from tests.support.serving import command
from tests.support.waiting import HANG_SECONDS
from tests.ui.conftest import PATIENCE, SECONDS

SAID = re.compile(r"Ask at (http://\S+)")
SOUGHT = "The warden trims every lantern of the pier before the evening ferry comes"
OTHER = "Nothing of that kind is said in these words, which stand here to be passed over"
WIDE, TALL = 595, 842
POLICIES = DATA / "policies"
LONG = "/?q=warden+" + "x" * 300 + "+" + "\u05e9" * 300 + "&from=2020-01-01"
"""A question of words that are wider than any screen, some of them written from right to left."""
AXE = "axe-core@4.10.3"


def drawn(path: Path, rotation: int = 0, crop: Sequence[float] = (), columns: bool = False, unit: int = 1) -> None:
    """The sentence that is sought in black, all other words in red; what is turned by a quarter lies on its side."""
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(WIDE, TALL))
    canvas.setPageRotation(rotation)
    if crop:
        canvas.setCropBox(tuple(crop))
    if rotation == 180:  # what stands on its head there is drawn so, and reads upright
        canvas.translate(WIDE, TALL)
        canvas.rotate(180)
    words = SOUGHT.split()
    sought = [" ".join(words[:6]), " ".join(words[6:]) + "."] if columns else [f"{SOUGHT}."]
    for at, line in enumerate(sought):
        canvas.drawString(72 if columns else 150, 500 - 14 * at, line)
    canvas.setFillColorRGB(1, 0, 0)
    if columns:  # one column after the other, as files of text in columns have them
        for at in range(24):
            canvas.drawString(72, 472 - 14 * at, OTHER[:36])
        for at in range(24):
            canvas.drawString(330, 500 - 14 * at, OTHER[36:76])
    else:
        for at in range(6):
            canvas.drawString(150, 300 - 14 * at, OTHER[:70])
    canvas.showPage()
    canvas.save()
    if unit != 1:  # in as many bytes as stood there, so that the offsets of the file hold
        path.write_bytes(path.read_bytes().replace(b"/Rotate 0 /Trans", b"/UserUnit %d /Aaa" % unit))


FILES: dict[str, dict[str, Any]] = {
    "plain.pdf": {},
    "turned-90.pdf": {"rotation": 90},
    "turned-180.pdf": {"rotation": 180},
    "turned-270.pdf": {"rotation": 270},
    "cropped.pdf": {"crop": (100, 150, 580, 780)},
    "cropped-turned.pdf": {"crop": (100, 150, 580, 780), "rotation": 90},
    "columns.pdf": {"columns": True},
    "user-unit.pdf": {"unit": 2},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server over files of ours, and real ones where they are."""
    with embedding_server() as endpoint:
        folder = tmp_path_factory.mktemp("served") / "project"
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(folder, embedder=embedder, serve={"seconds": SECONDS, "feedback": True})
        for name, how in FILES.items():
            drawn(project.docs / name, **how)
        for file in sorted(POLICIES.glob("*.pdf"))[:2]:
            shutil.copyfile(file, project.docs / file.name)
        ran = subprocess.run(command(project, "index", "--json"), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        serve = subprocess.Popen(command(project, "serve", "--port", "0"), stderr=subprocess.PIPE, text=True)
        try:
            assert serve.stderr is not None
            while not (said := SAID.search(serve.stderr.readline())):
                assert serve.poll() is None
            yield said[1]
        finally:
            serve.send_signal(signal.SIGTERM)
            serve.wait()


def hits(url: str, question: str, **more: Any) -> list[dict[str, Any]]:
    reply = httpx.get(f"{url}/api/search", params={"q": question, **more}, timeout=HANG_SECONDS)
    found: list[dict[str, Any]] = reply.raise_for_status().json()["hits"]
    return found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page whose console must stay silent: a line there is an error, or what the policy of contents refused."""
    with browser.new_page(viewport={"width": 1280, "height": 900}) as page:
        page.set_default_timeout(PATIENCE)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        yield page
        assert [line for line in said if "favicon" not in line] == []


# ---------------------------------------------------------------- marks


BOXES = """kind => {
  const image = document.querySelector('.paper img'), frame = image.getBoundingClientRect();
  const across = image.naturalWidth / frame.width, down = image.naturalHeight / frame.height;
  return [...document.querySelectorAll('.paper:has(img) rect.' + kind)].map(rect => {
    const box = rect.getBoundingClientRect();
    return [(box.left - frame.left) * across, (box.top - frame.top) * down,
            (box.right - frame.left) * across, (box.bottom - frame.top) * down];
  });
}"""


def ink(picture: Image.Image) -> tuple[int, int, int, int]:
    """Where the black words are in the picture of a page, by its pixels alone: left, top, right, bottom."""
    red, green, blue = picture.convert("RGB").split()
    dark = [channel.point(lambda value: 255 if value < 90 else 0) for channel in (red, green, blue)]
    from PIL import ImageChops

    found = ImageChops.multiply(ImageChops.multiply(dark[0], dark[1]), dark[2]).getbbox()
    assert found is not None
    return found


def around(boxes: Sequence[Sequence[float]]) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


@pytest.mark.parametrize("name", list(FILES))
def test_the_mark_lies_on_the_words(served: str, page: Page, name: str) -> None:
    """The box on the screen against the ink of the picture: that of the sentence holds all of it, to a pixel, and
    not much more; that of its passage, which has the red words too, holds that of the sentence."""
    (hit,) = [hit for hit in hits(served, SOUGHT, k=50, filter=f"uri={name}") if SOUGHT.split()[2] in hit["text"]]
    page.goto(f"{served}/passages/{hit['chunk_id']}?q=warden lantern pier ferry")
    page.wait_for_function("document.querySelector('.paper img').complete")
    boxes, inner = (page.evaluate(BOXES, kind) for kind in ("passage", "sentence"))
    assert boxes and inner
    picture = Image.open(io.BytesIO(httpx.get(f"{served}/api/pages/{hit['doc_id']}/1.png", timeout=None).content))
    left, top, right, bottom = ink(picture)
    x0, y0, x1, y1 = around(inner)
    assert x0 <= left + 1 and y0 <= top + 1 and x1 >= right - 1 and y1 >= bottom - 1, (inner, ink(picture))
    line = 20 * max(picture.size) / TALL
    assert left - x0 < line and top - y0 < line and x1 - right < line and y1 - bottom < line, (inner, ink(picture))
    outer = around(boxes)
    assert outer[0] - 1 <= x0 and outer[1] - 1 <= y0 and x1 <= outer[2] + 1 and y1 <= outer[3] + 1, (boxes, inner)


@needs_data("policies")
def test_marks_on_real_pages_hold_the_words_of_their_passages(served: str) -> None:
    """The words that PDFium finds inside the boxes, a point wider, are those of the passage, and no others."""
    import pypdfium2

    texts = {file.name: pypdfium2.PdfDocument(file) for file in sorted(POLICIES.glob("*.pdf"))[:2]}
    looked = 0
    for uri, document in texts.items():
        for hit in hits(served, "what is covered and what does it cost", k=60, filter=f"uri={uri}"):
            if "paragraph" not in hit["block_types"] or len(hit["block_types"]) > 1:
                continue
            inside = []
            for box in hit["boxes"]:
                page = document[box["page"] - 1]
                height, text = page.get_size()[1], page.get_textpage()
                inside.append(
                    text.get_text_bounded(box["x0"] - 1, height - box["y1"] - 1, box["x1"] + 1, height - box["y0"] + 1)
                )
            found, said = (re.findall(r"\w+", part.casefold()) for part in (" ".join(inside), hit["text"]))
            shared = len(set(found) & set(said))
            assert shared >= 0.9 * len(set(said)) and shared >= 0.9 * len(set(found)), (uri, hit["text"][:80], inside)
            looked += 1
    assert looked >= 15


# ---------------------------------------------------------------- how it is used


def test_the_keyboard_operates_the_search_reader_and_documents_pages(served: str, page: Page) -> None:
    page.goto(served)
    page.keyboard.type("warden trims lantern")  # the question has the focus
    page.keyboard.press("Enter")
    page.wait_for_selector(".hits")
    page.locator(".hits h3 a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".reader")
    page.wait_for_load_state()  # its script listens to keys from then on
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"


def test_words_are_found_by_keyboard_and_marked_on_the_page(served: str, page: Page) -> None:
    (hit,) = hits(served, SOUGHT, k=1, filter="uri=plain.pdf")
    page.goto(f"{served}/documents/{hit['doc_id']}")
    assert page.locator(".beside").count() == 0, "nothing is beside a document without a passage"
    page.get_by_role("searchbox", name="Find in this document").focus()
    page.keyboard.type("LANTERN of")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="1 place with “LANTERN of”").wait_for()
    (box,) = page.evaluate(BOXES, "now")
    picture = Image.open(io.BytesIO(httpx.get(f"{served}/api/pages/{hit['doc_id']}/1.png", timeout=None).content))
    left, top, right, bottom = ink(picture)
    assert left < box[0] < box[2] < right and top - 20 <= box[1] < box[3] <= bottom + 20


def test_the_contents_are_folded_on_a_phone_and_open_beside_a_page(served: str, page: Page) -> None:
    (hit,) = hits(served, "annual leave expires March", k=1, filter="uri=handbook.md")
    for width, unfolded in ((390, False), (1280, True)):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(f"{served}/documents/{hit['doc_id']}")
        page.wait_for_load_state()
        assert page.get_by_role("link", name="Expenses").is_visible() == unfolded
    page.get_by_role("link", name="Expenses").press("Enter")
    page.wait_for_url(re.compile(r"#e-\d+$"))


def test_feedback_is_sent_without_leaving_the_page_and_without_javascript(
    served: str, page: Page, browser: Browser
) -> None:
    (hit,) = hits(served, SOUGHT, k=1)
    address = f"{served}/passages/{hit['chunk_id']}?q=warden+lantern"
    page.goto(address)
    page.wait_for_load_state()
    page.get_by_role("button", name="It answers it").press("Enter")
    page.get_by_role("status").filter(has_text="noted for review").wait_for()
    assert page.url == address
    with browser.new_context(java_script_enabled=False) as context:
        context.set_default_timeout(PATIENCE)
        plain = context.new_page()
        plain.goto(address)
        plain.get_by_role("button", name="It does not").click()
        plain.get_by_role("heading", name="Thank you").wait_for()


def test_arrows_turn_pages(served: str, page: Page) -> None:
    (document,) = {hit["doc_id"] for hit in hits(served, "benefit", k=1)}
    pages = httpx.get(f"{served}/api/documents/{document}", timeout=HANG_SECONDS).json()["pages"]
    page.goto(f"{served}/documents/{document}?page=1")
    if pages == 1:
        assert page.locator("a[rel=next]").count() == 0
        return
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**page=2**")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**page=1**")


def test_search_and_reader_work_without_javascript(served: str, browser: Browser) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(served)
        page.fill("main input[name=q]", "warden trims lantern")
        page.click("main button")
        page.locator(".hits h3 a").first.click()
        page.locator(".paper rect, mark").first.wait_for(state="attached")


def test_documents_are_narrowed_down_by_keyboard(served: str, page: Page) -> None:
    """A list of choices opens by Enter, closes by Escape, and gives the focus back."""
    page.goto(f"{served}/documents?year=none")
    page.wait_for_load_state()
    page.locator(".facets summary").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".facets details[open] a")
    page.keyboard.press("Escape")
    page.wait_for_selector(".facets details[open]", state="detached")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.locator(".facets .chosen summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # all years
    page.wait_for_url(f"{served}/documents?")
    page.locator("main input[name=name]").fill("turned-90")
    page.keyboard.press("Enter")
    page.wait_for_url("**name=turned-90**")
    assert page.locator(".documents a").all_inner_texts() == ["turned-90"]


@pytest.mark.parametrize(
    "path", ["/", "/?q=warden+lantern", LONG, "reader", "text", "find", "/documents?name=p", "/status", "/nothing-here"]
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_for_axe_and_no_scrolling_sideways(
    served: str, browser: Browser, axe: str, path: str, scheme: Any
) -> None:
    if path == "find":
        path = f"/documents/{hits(served, SOUGHT, k=1)[0]['doc_id']}?find=lantern&q=warden"
    if path in ("reader", "text"):
        view = "&view=text" if path == "text" else ""
        path = f"/passages/{hits(served, SOUGHT, k=1)[0]['chunk_id']}?q=warden+lantern{view}"
    with browser.new_context(color_scheme=scheme, viewport={"width": 360, "height": 800}, bypass_csp=True) as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(served + path)
        page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
        page.add_script_tag(path=axe)
        for width in (360, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            found = page.evaluate("axe.run()")["violations"]
            serious = [item for item in found if item["impact"] in ("serious", "critical")]
            assert serious == [], json.dumps(serious, indent=1)[:3000]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from npm."""
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: apt-get install npm")
    got = subprocess.run(["npm", "pack", AXE], cwd=folder, capture_output=True, text=True)
    if got.returncode != 0:
        pytest.skip(f"npm does not give {AXE}: {got.stderr[-200:]}")
    subprocess.run(["tar", "xzf", got.stdout.split()[-1]], cwd=folder, check=True)
    return str(folder / "package" / "axe.min.js")
