"""A project with an index, its UI as `pincite ui` serves it, and Debian's chromium to look at it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.embedding_server import embedding_server
from tests.projects import Project, make_project

SERVED = re.compile(r"Dagster's UI is at (\S+)")
PATIENCE = 60_000
"""Milliseconds that a page may take to show something."""

expect.set_options(timeout=PATIENCE)


def command(project: Project, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pincite.cli", *arguments, "--config", str(project.config)]


@dataclass
class Served:
    """A running `pincite ui`; `log` is what it says."""

    project: Project
    process: subprocess.Popen[bytes]
    url: str
    log: Path


def processes(state: Path) -> dict[int, str]:
    """The command lines of all processes of Dagster that work on a state."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"DAGSTER_HOME={state / 'dagster'}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


@contextmanager
def serving(project: Project) -> Iterator[Served]:
    """`pincite ui` on a free port, from the moment it says that it is ready."""
    log = project.folder / "ui.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command(project, "ui", "--port", "0"), stderr=output, start_new_session=True)
    try:
        while not (said := SERVED.search(log.read_text(encoding="utf-8"))):
            with suppress(subprocess.TimeoutExpired):
                pytest.fail(f"pincite ui ended with {process.wait(0.1)}: {log.read_text(encoding='utf-8')}")
        yield Served(project, process, said[1], log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        for pid in processes(project.state):  # none, where it stops as it should
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, dict[str, Any]]]:
    """A project after `pincite index`, and what that printed; its embedder goes on answering."""
    with embedding_server() as endpoint:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(tmp_path_factory.mktemp("browsed") / "project", embedder=embedder)
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
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, ui: Served) -> Iterator[Page]:
    page = browser.new_page(base_url=ui.url, viewport={"width": 1500, "height": 1000})
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failure in a page leaves a picture of it, its text, and what `pincite ui` said."""
    report: Any = yield
    if call.when == "call" and report.failed and "page" in item.funcargs:
        page, ui = item.funcargs["page"], item.funcargs["ui"]
        folder = ui.project.folder / "failed" / item.name
        folder.mkdir(parents=True)
        page.screenshot(path=folder / "page.png")
        (folder / "page.txt").write_text(f"{page.url}\n\n{page.inner_text('body')}", encoding="utf-8")
        shutil.copy(ui.log, folder)
        report.sections.append(("browser", f"the page, its text and the log of pincite ui are in {folder}"))
    return report
