"""The hash of what shapes figures, and the lines on pages of today that tell of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.support.shape import CURRENT, ROOT, parts, scripts, shape, stale
from pipelines import stages
from pipelines.settings import base

MADE = "Measured: 2026-11-28 · commit 0123456789 · `python benchmarks/one.py --all` · settings: as shipped"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "benchmarks/one.py": "from benchmarks.support import machine, used\nA = 1\n",
        "benchmarks/one.yaml": "a: 1\n",
        "benchmarks/one/inner.txt": "a\n",
        "benchmarks/support/used.py": "import os\nB = 2\n",
        "benchmarks/support/machine.py": "C = 3\n",
        "benchmarks/other.py": "D = 4\n",
        "Makefile": "one: $(STAMP)  ## Measure\n\t@mkdir -p build\n\t$(BIN)/python benchmarks/one.py\n\ntwo:\n\techo\n",
        "docs/measured/results.md": "# Results\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def shaping(root: Path, command: str) -> list[str]:
    return sorted(str(file.relative_to(root)) for script in scripts(command, root) for file in parts(script, root))


def test_a_script_its_imports_and_what_is_named_after_it_shape_figures(project: Path) -> None:
    by = ["benchmarks/one.py", "benchmarks/one.yaml", "benchmarks/one/inner.txt", "benchmarks/support/used.py"]
    assert shaping(project, "python benchmarks/one.py --all") == by
    assert shaping(project, "make one ROUNDS=2") == by
    assert shaping(project, "make two") == shaping(project, "pincite eval golden.jsonl") == []


@pytest.mark.parametrize("name", ["one.py", "support/used.py", "one.yaml", "one/inner.txt"])
def test_a_change_of_any_of_them_is_another_shape(project: Path, name: str) -> None:
    before = shape("make one", project)
    file = project / "benchmarks" / name
    file.write_text(file.read_text() + "E = 5\n")
    assert shape("make one", project) != before


def test_words_and_other_files_shape_nothing(project: Path) -> None:
    before = shape("make one", project)
    used = project / "benchmarks" / "support" / "used.py"
    used.write_text(f'"""What is used."""\n\n# Why.\n{used.read_text()}')
    for name in ("other.py", "support/machine.py"):
        (project / "benchmarks" / name).write_text("F = 6\n")
    assert shape("make one", project) == before


def test_stages_and_defaults_shape_all_figures(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shape("make two", project)
    other = {name: replace(stage, version=stage.version + (name == "chunks")) for name, stage in stages.STAGES.items()}
    monkeypatch.setattr(stages, "STAGES", other)
    assert shape("make two", project) != before
    monkeypatch.undo()
    monkeypatch.setattr(base.Settings, "model_dump", lambda _self, mode: {"buckets": 7})
    assert shape("make two", project) != before


def test_lines_of_another_state_are_named_with_their_commands(project: Path) -> None:
    now = shape("python benchmarks/one.py --all", project)
    page = project / "docs" / "measured" / "results.md"
    page.write_text("\n\n".join(["# Results", MADE, f"{MADE} · of 0123456789", f"{MADE} · of {now}", f"{MADE} · kept"]))
    told = "docs/measured/results.md: `python benchmarks/one.py --all`"
    assert stale(project) == [
        f"{told} does not say of what it was measured; run it anew.",
        f"{told} was measured of 0123456789, and today is {now}; run it anew.",
    ]
    page.write_text(f"# Results\n\n{MADE} · of {now}\n")
    assert stale(project) == []


def test_pages_of_today_are_there_and_their_commands_have_scripts() -> None:
    assert all((ROOT / "docs" / "measured" / f"{name}.md").exists() for name in CURRENT)
    for command in ("make results", "make peers", "make faults", "python benchmarks/serving.py", "make bench-parsing"):
        assert scripts(command), command
    of_results = shaping(ROOT, "make results")
    assert {"benchmarks/results.yaml", "benchmarks/support/results_page.py"} <= {*of_results}
    assert "benchmarks/support/published.py" not in of_results, "figures of others shape none of ours"
    assert "benchmarks/peers/llamaindex/peer.py" in shaping(ROOT, "make peers")
