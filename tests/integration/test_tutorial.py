"""docs/guide/tutorial.md: its commands are run in order in an empty folder, and say what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.places import ROOT

TUTORIAL = (ROOT / "docs" / "guide" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)


def said(line: str, output: list[str]) -> bool:
    """Whether a line is among what was printed; `…` stands for anything."""
    wanted = re.compile(".*".join(re.escape(part) for part in " ".join(line.split()).split("…")))
    return any(wanted.fullmatch(" ".join(each.split())) for each in output)


def test_a_line_is_what_was_printed_and_nothing_else() -> None:
    assert said("1  live … recall 1.0", ["1 live 384 recall 1.0"])
    assert not said("1 live", ["1 live 384"])
    assert not said("1 live …", ["2 live 384"])


def test_every_block_is_run_or_compared() -> None:
    assert {kind for kind, _ in BLOCKS} == {"sh", "text"}
    assert len(BLOCKS) == TUTORIAL.count("```") / 2
    assert all(before == "sh" for (before, _), (kind, _) in pairwise(BLOCKS) if kind == "text")


@pytest.mark.faults
@pytest.mark.slow
def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    output: list[str] = []
    try:
        for kind, block in BLOCKS:
            if kind == "text":
                assert [line for line in block.splitlines() if not said(line, output)] == [], output
                continue
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block], cwd=tmp_path, env=environment, capture_output=True, text=True
            )
            assert ran.returncode == 0, f"{block}\n{ran.stdout}\n{ran.stderr}"
            output = ran.stdout.splitlines()
    finally:
        subprocess.run(["pincite", "db", "stop", "--force"], cwd=tmp_path, env=environment, capture_output=True)
