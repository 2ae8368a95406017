"""The examples of CONTRIBUTING.md, done as they stand in a copy of the project: files, diffs, and commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import HANG_SECONDS

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COPIED = ("assets", "benchmarks", "docs", "examples", "pincite", "pipelines", "prompts", "resources", "sql", "tests")
_BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<kind>python|diff|sh)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of the page; `file` is the last that stands in backticks in the line above it."""

    kind: str
    file: str
    text: str


def blocks(section: str) -> list[Block]:
    found = []
    for match in _BLOCK.finditer(section):
        files = re.findall(r"`([\w./]+\.(?:py|md))`", match["before"])
        found.append(Block(match["kind"], files[-1] if files else "", match["text"]))
    return found


def put(text: str, diff: str) -> str:
    """A text after a diff without line numbers: what the diff takes away and keeps stands in it once."""
    lines = diff.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    assert text.count(before) == 1, f"{text.count(before)} times:\n{before}"
    return text.replace(before, after)


EXAMPLES = PAGE.split("\n## Four examples, whole\n")[1].split("\n## ")[0]
SECTIONS = {section.split("\n", 1)[0]: blocks(section) for section in EXAMPLES.split("\n### ")[1:]}


def test_every_block_says_which_file_it_is_of() -> None:
    assert [len(made) for made in SECTIONS.values()] == [5, 6, 8, 6, 1]
    assert len(re.findall(r"^```\w+$", EXAMPLES, re.MULTILINE)) == sum(map(len, SECTIONS.values()))
    assert all(bool(block.file) == (block.kind != "sh") for made in SECTIONS.values() for block in made)


def test_a_diff_that_no_longer_fits_is_told() -> None:
    assert put("a\nb\nc\n", " a\n-b\n+d\n") == "a\nd\nc\n"
    for text in ("a\nc\n", "a\nb\na\nb\n"):
        with pytest.raises(AssertionError, match="times"):
            put(text, " a\n-b\n+d\n")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project without its history, as a folder of its own that imports come from."""
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name)
    for file in (*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"):
        shutil.copy(file, folder)
    commands = folder / ".venv" / "bin"
    commands.mkdir(parents=True)
    (commands / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (commands / "pincite").write_text(f'#!/bin/sh\nexec {sys.executable} -m pincite.cli "$@"\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    return folder


@pytest.mark.faults
@pytest.mark.integration
def test_the_examples_can_be_followed(copy: Path) -> None:
    said = ""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PINCITE", "PYTEST"))}
    for name, made in SECTIONS.items():
        for block in made:
            file = copy / block.file
            if block.kind == "python":
                assert not file.exists(), block.file
                file.write_text(block.text, encoding="utf-8")
            elif block.kind == "diff":
                file.write_text(put(file.read_text(encoding="utf-8"), block.text), encoding="utf-8")
            else:
                ran = subprocess.run(
                    ["bash", "-ec", block.text], cwd=copy, env={**environment, "PYTHONPATH": str(copy)},
                    capture_output=True, text=True, timeout=HANG_SECONDS,
                )  # fmt: skip
                said = ran.stdout
                assert ran.returncode == 0, f"{name}:\n{ran.stdout}\n{ran.stderr}"
    (first,) = re.findall(r"^1\. .*(?:\n   .*)*", said, re.MULTILINE)
    assert first.startswith("1. lift.srt") and re.search(r"^   phrase +0\.2500 +1$", first, re.MULTILINE)
