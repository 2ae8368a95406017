"""A project with an index, its UI as `pincite ui` serves it, and Debian's chromium to look at it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.embedding_server import embedding_server
from tests.support.projects import Project, make_project
from tests.support.serving import Served, command, serving
from tests.support.waiting import HANG_SECONDS

PATIENCE = 1000 * HANG_SECONDS
"""Milliseconds after which a page that does not show something is taken for one that never will."""

SECONDS = 600.0
"""`serve.seconds`, the most that it may be: a page that a busy machine draws late is shown all the same."""

expect.set_options(timeout=PATIENCE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", metavar="FOLDER", help="where the pictures of the manual are kept")


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, dict[str, Any]]]:
    """A project after `pincite index`, and what that printed; its embedder goes on answering."""
    with embedding_server() as endpoint:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(tmp_path_factory.mktemp("browsed") / "project", buckets=4, embedder=embedder)
        ran = subprocess.run(command(project, "index", "--json"), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        yield project, json.loads(ran.stdout)


@pytest.fixture(scope="session")
def ui(indexed: tuple[Project, dict[str, Any]]) -> Iterator[Served]:
    with serving(indexed[0]) as served:
        yield served


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("no chromium here: apt-get install chromium")
    # Chromium's own sandbox refuses root, which is what a container usually has.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments, timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, ui: Served) -> Iterator[Page]:
    page = browser.new_page(base_url=ui.url, viewport={"width": 1500, "height": 1000})
    page.set_default_timeout(PATIENCE)
    page.goto(ui.entry)
    yield page
    page.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failure in a page leaves a picture of it, its text, and what `pincite ui` said."""
    report: Any = yield
    if call.when == "call" and report.failed and {"page", "ui"} <= item.funcargs.keys():
        page: Any = item.funcargs["page"]
        ui: Any = item.funcargs["ui"]
        folder = ui.project.folder / "failed" / item.name
        folder.mkdir(parents=True)
        page.screenshot(path=folder / "page.png")
        (folder / "page.txt").write_text(f"{page.url}\n\n{page.inner_text('body')}", encoding="utf-8")
        shutil.copy(ui.log, folder)
        report.sections.append(("browser", f"the page, its text and the log of pincite ui are in {folder}"))
    return report
