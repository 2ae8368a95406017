"""What a person does on the page: signs in with a token, goes by Tab, opens the place of a quote."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.asking import asking
from tests.support.embedding_server import embedding_server
from tests.support.projects import Project, make_project
from tests.ui.asked import tab_of
from tests.ui.conftest import SECONDS

SECRET = "The safe word of the treasury is heliotrope."


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, str, str]]:
    """A project that is served to who has a token, its address, and the token of one in the group of a document."""
    with embedding_server() as endpoint:
        project = make_project(
            tmp_path_factory.mktemp("signed") / "project", embedder={"endpoint": endpoint.url, "model": "fake"},
            serve={"auth": "tokens", "seconds": SECONDS},
        )  # fmt: skip
        project.write("secret.md", f"# Treasury\n\n{SECRET} The vault is aired on Mondays.\n")
        project.write("secret.md.meta.yaml", "groups: [treasury]\n")
        project.index()
        token = project.run("tokens", "add", "anna", "--group", "treasury").json["token"]
        with asking(project.config) as url:
            yield project, url, token


@pytest.fixture
def page(browser: Browser, signed: tuple[Project, str, str]) -> Iterator[Page]:
    tab = tab_of(browser, signed[1], viewport={"width": 1280, "height": 900})
    yield tab.page
    tab.page.context.close()


def sign_in(page: Page, url: str, token: str) -> None:
    page.goto(f"{url}/?q=What+is+the+safe+word+of+the+treasury%3F")
    expect(page.locator("h1")).to_have_text("Sign in")
    page.keyboard.type(token)  # the field has the focus
    page.keyboard.press("Enter")


def test_a_token_lets_in_until_one_signs_out(page: Page, signed: tuple[Project, str, str]) -> None:
    _, url, token = signed
    sign_in(page, url, "pincite_wrong")
    expect(page.get_by_role("alert")).to_have_text("Nobody has this token.")
    page.goto(url)
    sign_in(page, url, token)
    expect(page.locator(".answer")).to_contain_text("heliotrope")  # at the question that was asked before
    cookie = next(item for item in page.context.cookies() if item["name"] == "pincite_token")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in")
    page.goto(f"{url}/?q=safe+word")
    expect(page.locator("h1")).to_have_text("Sign in")


def test_the_place_of_a_quote_is_set_off(page: Page, signed: tuple[Project, str, str]) -> None:
    sign_in(page, *signed[1:])
    page.locator(".cited a").filter(has_text="safe word").click()  # wherever on it one clicks
    page.wait_for_url("**/passages/**")
    expect(page.locator(".beside mark")).to_have_text(SECRET)


def test_tab_goes_in_the_order_of_reading_and_shows_where_it_is(page: Page, signed: tuple[Project, str, str]) -> None:
    sign_in(page, *signed[1:])
    expect(page.locator(".hits")).to_be_visible()
    page.wait_for_load_state()  # nothing takes the focus after that
    page.evaluate("document.activeElement.blur()")
    tops: list[tuple[str, float]] = []
    for _ in range(12):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const it = document.activeElement, style = getComputedStyle(it);
                return [it.tagName, it.textContent.trim().slice(0, 30) || it.name || "", it.getBoundingClientRect().top
                        + scrollY, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0]; }"""
        )
        if found[0] == "BODY":
            break
        assert found[3], f"nothing shows that {found[:2]} has the focus"
        tops.append((found[1], found[2]))
    names = [name for name, _ in tops]
    assert names[0] == "To the content" and "Sign out" in names and "q" in names
    below = [top for _, top in tops[names.index("q") :]]
    assert below == sorted(below) and len(below) > 4
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.tagName") != "BODY"


def test_the_first_tab_leads_past_the_bar(page: Page, signed: tuple[Project, str, str]) -> None:
    sign_in(page, *signed[1:])
    expect(page.locator(".hits")).to_be_visible()
    page.wait_for_load_state()  # nothing takes the focus after that
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("#main$"))
