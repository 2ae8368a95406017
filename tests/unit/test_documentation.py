"""All Markdown of the project: links lead somewhere, built parts are as the code says, the map names every page."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from benchmarks.support.machine import AS_SHIPPED, provenance
from tests.support.places import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\(<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\)")


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def prose(page: Path) -> str:
    """A page without its blocks of code and without what stands between backticks."""
    text = re.sub(r"^(```+).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^(```+).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def broken(page: Path) -> Iterator[str]:
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = unquote(target).partition("#")
        file = (page.parent / name).resolve() if name else page
        there = file.exists() and file.is_relative_to(ROOT)
        if not there or (anchor and (file.suffix != ".md" or anchor not in anchors(file))):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert list(broken(page)) == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# The `page` of\n\n[a](#the-page-of) [b](#the-page) ![c](c.png) [d](https://d.example/x.md) [e](page.md#of)\n"
        "[f](../f.md)\n\n```\n[in code](nowhere.md)\n# no heading\n```\n[g](#no-heading)\n"
    )
    assert list(broken(page)) == ["#the-page", "c.png", "page.md#of", "../f.md", "#no-heading"]


def test_the_map_names_every_page_once() -> None:
    rows = re.findall(r"^\| \[.*$", (DOCS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    linked = Counter(target for row in rows for target in _LINK.findall(row))
    own = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page != DOCS / "README.md"]
    assert {page: linked[page] for page in own} == dict.fromkeys(own, 1)
    assert {page.split("/")[0] for page in own} == {"guide", "reference", "measured"}


# ---------------------------------------------------------------- figures

MADE_BY = r"`[^`]+`|reading by hand"
MEASURED = re.compile(
    rf"^Measured: \d{{4}}-\d\d-\d\d · commit [0-9a-f]{{7,40}} · (?:{MADE_BY}) · settings: [^·]+"
    r"(?: · of [0-9a-f]{10}| · kept)?$"
)


def unsourced(text: str) -> Iterator[str]:
    """Tables without a line of their own above them that says where they are from, by their heads, where a command does
    not write the whole page; and lines that try to say so."""
    sourced = False
    for line, under in pairwise([*text.splitlines(), ""]):
        if line.startswith("Measured:"):
            sourced = bool(MEASURED.match(line))
            yield from [] if sourced else [line]
        elif under.replace(" ", "").startswith("|---"):
            yield from [] if sourced else [line]
            sourced &= "\nWritten by `make " in text


@pytest.mark.parametrize("page", sorted((DOCS / "measured").glob("*.md")), ids=lambda page: page.stem)
def test_figures_say_when_of_what_and_by_what_they_were_made(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert list(unsourced(text)) == []
    assert any(MEASURED.match(line) for line in text.splitlines())


def test_figures_of_unknown_making_are_found() -> None:
    line, table = "Measured: 2026-11-22 · commit 06c95677ed · `make it` · settings: as shipped", "| a |\n|---|\n| 1 |"
    assert list(unsourced(f"# All\n\nWritten by `make it`.\n\n{line}\n\n## One\n\n{table}\n\n{table}\n")) == []
    assert list(unsourced(f"# All\n\n{line}\n\n{table}\n\n## Two\n\n{table}\n")) == ["| a |"]
    assert list(unsourced(f"# All\n\n## One\n\n{table}\n\n{line} · of 0123456789\n")) == ["| a |"]
    assert list(unsourced("# All\n\nMeasured: in autumn\n")) == ["Measured: in autumn"]


def test_the_line_of_a_new_measurement_is_one() -> None:
    about = {"date": "2026-11-22", "commit": "06c95677ed"}
    assert MEASURED.match(provenance("make results", AS_SHIPPED, about))
    assert not MEASURED.match(provenance("make results", AS_SHIPPED, {**about, "commit": "06c95677ed with changes"}))


# ---------------------------------------------------------------- built from code


@pytest.fixture(scope="module")
def build() -> Any:
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_built_pages_are_what_the_code_says(build: Any) -> None:
    pages = build.pages()
    assert {file.name for file in pages} == {
        "settings.md",
        "codes.md",
        "elements.md",
        "elements.schema.json",
        "formats.md",
    }
    assert [file.name for file, text in pages.items() if file.read_text(encoding="utf-8") != text] == []


def test_pages_that_the_code_names_are_there() -> None:
    """Messages, docstrings and commands name pages by their path from the root."""
    files = [ROOT / "Makefile", ROOT / "pyproject.toml"]
    for folder in ("assets", "benchmarks", "examples", "pincite", "pipelines", "resources", "tests"):
        files += [file for file in (ROOT / folder).rglob("*.py") if file != Path(__file__)]
    named = re.compile(r"(?<![\w/.])docs/(?:guide|reference|measured)/[\w.-]+\.\w+")
    found = {(file.name, page) for file in files for page in named.findall(file.read_text(encoding="utf-8"))}
    assert len(found) > 20
    assert [(file, page) for file, page in sorted(found) if not (ROOT / page).is_file()] == []


def test_the_tests_that_the_page_of_security_names_are_there() -> None:
    named = re.findall(r"`(\w+(?:/\w+)*/test_\w+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 40 and not [name for name in named if not (ROOT / "tests" / name).is_file()]
