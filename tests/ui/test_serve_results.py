"""The results of `pincite serve` in the browser: hits before the answer, folded hits, copies, the sign of a search."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.asking import asking
from tests.support.embedding_server import embedding_server
from tests.support.llm_server import LlmServer, llm_server
from tests.support.projects import make_project
from tests.support.waiting import HANG_SECONDS
from tests.ui.asked import Tab, tab_of
from tests.ui.conftest import SECONDS

QUESTION = "who trims the lanterns?"
SAID = "The warden trims the lantern of the pier."
QUOTED = f"“{SAID}” — Harbour rules (2026)"


@dataclass
class Asked:
    url: str
    llm: LlmServer
    go_on: threading.Event


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A server whose language model waits for `go_on` before it answers."""
    with embedding_server() as endpoint, llm_server() as llm:
        project = make_project(
            tmp_path_factory.mktemp("results") / "project", {}, embedder={"endpoint": endpoint.url, "model": "fake"},
            serve={"seconds": SECONDS},
        )  # fmt: skip
        for year, who in (("2024", "The keeper lights"), ("2026", "The warden trims")):
            parts = [
                f"## Part {at}\n\n{who} the lantern of the {place}.\n" for at, place in enumerate(("pier", "mole"))
            ]
            project.write(f"{year}.md", "\n".join(["# Harbour rules", "", *parts]))
        project.index()
        go_on = threading.Event()

        def reply(prompt: str) -> str:
            assert go_on.wait(HANG_SECONDS)
            return f"{SAID} [1]"

        llm.reply = reply
        project.configure(llm={"base_url": llm.url, "model": "fake-model", "retries": 0, "attempts": 1})
        with asking(project.config) as url:
            yield Asked(url, llm, go_on)
        go_on.set()


@pytest.fixture
def tab(browser: Browser, asked: Asked) -> Iterator[Tab]:
    asked.go_on.clear()
    tab = tab_of(browser, asked.url, viewport={"width": 1280, "height": 900}, locale="en-GB")
    yield tab
    tab.page.context.close()


def test_hits_come_before_the_answer(tab: Tab, asked: Asked) -> None:
    page = tab.open("/", q=QUESTION)
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".hits > li").first).to_be_visible()
    expect(page.locator(".answer")).to_have_text("Reading the passages")
    asked.go_on.set()
    expect(page.locator(".answer .said")).to_contain_text(SAID[:-1])
    expect(page.locator(".answer .cited cite").first).to_contain_text("Harbour rules (202")
    expect(page.locator(".answer")).to_have_count(1)


def test_the_whole_page_arrives_at_once_without_javascript(browser: Browser, asked: Asked) -> None:
    asked.go_on.set()
    tab = tab_of(browser, asked.url, java_script_enabled=False)
    tab.page.goto(f"{asked.url}/?q={QUESTION}&ask=1")
    expect(tab.page.locator(".answer .said")).to_contain_text(SAID[:-1])
    rest = tab.page.locator(".rest").first
    expect(rest.locator(".hit").first).to_be_hidden()
    rest.get_by_text("more in this document").click()
    expect(rest.locator(".hit").first).to_be_visible()
    expect(tab.page.get_by_role("button", name="Copy link").first).to_be_hidden()
    tab.page.context.close()


@pytest.mark.parametrize("secure", [True, False])
def test_a_quotation_and_a_link_are_copied_by_key_and_by_click(tab: Tab, secure: bool) -> None:
    """On an address without TLS there is no clipboard for scripts, but an older way."""
    page = tab.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.add_init_script(f"Object.defineProperty(window, 'isSecureContext', {{ value: {str(secure).lower()} }})")
    tab.open("/", q="warden trims lantern pier")
    page.locator(".hit a", has_text="Open").first.focus()
    for press, told, wanted in (("c", "Quotation copied", QUOTED), ("l", "Link copied", f"{tab.url}/passages/")):
        page.keyboard.press(press)
        expect(page.locator(".toast")).to_have_text(told)
        assert clipboard(page).startswith(wanted)
    page.get_by_role("button", name="Copy quotation").first.click()
    expect(page.locator(".toast")).to_have_text("Quotation copied")
    page.get_by_role("button", name="Copy link").first.click()
    expect(page.locator(".toast")).to_have_text("Link copied")
    tab.open(clipboard(page))
    expect(page.locator(".beside mark")).to_have_text(SAID)


def clipboard(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_something_moves_while_a_search_runs(tab: Tab) -> None:
    page = tab.open("/")
    page.evaluate("document.addEventListener('submit', (event) => event.preventDefault())")  # it never ends
    page.keyboard.type("lantern")
    page.keyboard.press("Enter")
    page.wait_for_function("getComputedStyle(document.body, '::before').animationName === 'busy'")
