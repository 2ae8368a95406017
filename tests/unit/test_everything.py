"""tests/everything.py on a small project of its own, whose suites are few tests or none."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.everything import COUNTS, RECORD, SUITES, WITHIN, counted_mutants, features, tree
from tests.support.places import ROOT

PYTEST = (
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "
    f"{shlex.quote(sys.executable)} -m pytest -q -p tests.support.reliability -p no:cacheprovider"
)
MAKEFILE = f"""
test:
	@{PYTEST} --junit-xml=$(JUNIT) test_good.py
rest:
	@echo rest is run by itself
faults:
	@{PYTEST} --junit-xml=$(JUNIT) test_faults.py
test-ui:
	@{PYTEST} --junit-xml=$(JUNIT) test_bad.py
test-distributed:
	@{PYTEST} --junit-xml=$(JUNIT) test_endless.py
test-image:
	@test -z "$(ONLY)" && false
mutants:
	@echo '30 of 32 mutations are noticed' && false
"""
FILES = {
    "Makefile": MAKEFILE,
    ".gitignore": "build/\n__pycache__/\nheard\n",
    "torch.py": "",
    "test_good.py": "def test_one(): pass\ndef test_two(): pass\n",
    "test_bad.py": """
import pytest
def test_wrong(): assert 0
def test_right(): pass
def test_not_here(): pytest.skip("not here")
@pytest.fixture
def broken(): raise OSError
def test_of_it(broken): pass
""",
    "test_faults.py": """
import pytest
@pytest.mark.faults
def test_killed(): pass
@pytest.mark.faults
def test_starved(): pass
def test_beside(): pass
def test_wrong(): assert 0
""",
    # It says that it is there through a pipe, and then waits for a signal.
    "test_endless.py": """
import os, signal
def test_first(): pass
def test_endless():
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells)
    file = os.open("heard", os.O_WRONLY)
    os.write(file, b"ready")
    os.close(file)
    os.read(told, 1)
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder under git with a Makefile that has most of the suites."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = faults\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b.example", "commit", "--quiet", "-m", "All")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def started(project: Path, *suites: str, ignored: bool = False) -> subprocess.Popen[str]:
    """Start the script; `ignored`: as a shell does in the background, where SIGINT is ignored."""
    command = [sys.executable, "-m", "tests.everything", *suites]
    words = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command] if ignored else command
    environment = os.environ | {"PYTHONPATH": f"{project}:{ROOT}", "MAKEFLAGS": " -- ONLY=ui", "ONLY": "ui"}
    return subprocess.Popen(words, cwd=project, env=environment, stdout=subprocess.PIPE, text=True)


def run(project: Path, *suites: str) -> tuple[int, str]:
    """Return the exit code and the output of a run to its end."""
    process = started(project, *suites)
    output, _ = process.communicate()
    return process.returncode, output


def record(project: Path) -> dict[str, list[str]]:
    """Return the cells of the record's table by suite, without the seconds."""
    text = (project / RECORD).read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {first: rest[: 1 + len(COUNTS)] for first, *rest in lines[2:]}


def test_a_failing_suite_stops_no_other_and_all_are_recorded(project: Path) -> None:
    """The record also says when, of which files and where it was measured."""
    code, output = run(project, "test", "rest", "faults", "ui", "image", "llm", "mutants")
    assert code == 1 and "2 passed" in output
    assert record(project) == {
        "test": ["passed", "2", "0", "0", "0"],
        "rest": ["passed", "2", "0", "0", "0"],
        "faults": ["failed", "3", "1", "0", "0"],
        "ui": ["failed", "1", "1", "1", "1"],
        "distributed": ["left out", "-", "-", "-", "-"],
        "image": ["failed", "-", "-", "-", "-"],
        "llm": ["no such suite", "-", "-", "-", "-"],
        "mutants": ["failed", "30", "2", "0", "0"],
    }
    assert "rest is run by itself" not in output
    text = (project / RECORD).read_text(encoding="utf-8")
    assert text.endswith(
        "## Failed\n\n- faults: `test_faults::test_wrong`\n- ui: `test_bad::test_wrong`\n- ui: `test_bad::test_of_it`\n"
    )
    assert re.search(r"^\| ui (\| \w+ ){5}(\| \d+ ){2}\|$", text, re.MULTILINE)
    assert re.search(r"^\| rest (\| \w+ ){5}(\| in faults ){2}\|$", text, re.MULTILINE)
    measured = rf"^Measured: \S+ · commit {git(project, 'rev-parse', '--short=10', 'HEAD')} · `make everything ONLY="
    assert re.search(measured + "'test rest faults ui image llm mutants'` · ", text, re.MULTILINE), text
    assert f"Files: tree {tree(project)}," in text and "Files were changed" not in text
    assert re.search(r"Machine: \d+ cores, .+; `python -c 'import torch'`: \d+\.\d s", text)


def test_it_fails_where_a_page_of_today_tells_of_another_state(project: Path) -> None:
    (project / "Makefile").write_text("".join(f"{target}:\n\t@true\n" for target in SUITES.values()))
    page = project / "docs" / "measured" / "serving.md"
    page.parent.mkdir(parents=True)
    line = "Measured: 2026-11-28 · commit 0123456789 · `make serving` · settings: as shipped"
    page.write_text(f"# Serving\n\n{line} · of 0123456789\n")
    code, output = run(project)
    named = [each for each in output.splitlines() if "docs/measured/serving.md: `make serving` was measured of" in each]
    assert code == 1 and len(named) == 1, output
    text = (project / RECORD).read_text(encoding="utf-8")
    assert text.endswith(f"\n## Figures of another state\n\n- {named[0]}\n")
    assert run(project, "ui")[0] == 0, "one suite alone does not ask"
    page.write_text(f"# Serving\n\n{line} · kept\n")
    assert run(project)[0] == 0


def test_a_suite_by_itself_is_run(project: Path) -> None:
    code, output = run(project, "rest")
    assert code == 0 and "rest is run by itself" in output
    assert record(project)["faults"] == ["left out", "-", "-", "-", "-"]


def test_an_unknown_suite_is_refused(project: Path) -> None:
    assert run(project, "test", "tset")[0] == 2
    assert not (project / RECORD).exists()


def test_an_interrupt_ends_the_running_suite_and_what_is_known_is_written(project: Path) -> None:
    os.mkfifo(project / "heard")
    process = started(project, "test", "distributed", "image", ignored=True)
    assert process.stdout
    with (project / "heard").open() as heard:
        assert heard.read() == "ready"
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    rows = record(project)
    assert rows["test"] == ["passed", "2", "0", "0", "0"]
    assert rows["distributed"][:2] == ["stopped", "1"]
    assert rows["image"] == ["not run", "-", "-", "-", "-"]


# ---------------------------------------------------------------- parts


@pytest.fixture
def seen(project: Path) -> Iterator[str]:
    """The hash of the tree; afterwards the index and the objects of the repository are what they were."""
    index, objects = (project / ".git" / "index").read_bytes(), git(project, "count-objects")
    yield tree(project)
    assert ((project / ".git" / "index").read_bytes(), git(project, "count-objects")) == (index, objects)


def test_the_tree_is_that_of_the_commit_where_nothing_was_changed(project: Path, seen: str) -> None:
    assert seen == git(project, "rev-parse", "HEAD^{tree}")


def test_the_tree_has_uncommitted_files_and_neither_the_record_nor_ignored_ones(project: Path, seen: str) -> None:
    for name in (RECORD, "build/made"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("made")
    assert tree(project) == seen
    (project / "new.py").write_text("")
    new = tree(project)
    (project / "test_good.py").write_text("")
    assert len({seen, new, tree(project)}) == 3


def test_a_folder_that_git_does_not_know_has_no_tree(tmp_path: Path) -> None:
    assert tree(tmp_path) == "not known"


def test_instructions_are_named_by_kind() -> None:
    assert features("flags : fpu avx2 avx512f avx512_bf16 amx_bf16 amx_tile") == ["AMX", "AVX-512", "AVX2"]
    assert features("flags : fpu avx avx2") == ["AVX2"]
    assert features("") == []


def test_mutants_are_counted_by_the_last_line_that_does() -> None:
    assert counted_mutants(b"1 of 9 mutations are noticed\n30 of 32 mutations are noticed\n7 s\n")["failed"] == 2
    assert counted_mutants(b"make: *** stopped\n") == {}


def test_all_suites_are_targets_and_the_larger_one_has_the_tests_of_the_smaller() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    asked = {
        target: words.replace("'", "").split(" or ")
        for target, words in re.findall(r"^(rest|faults):.*\n\t.*\$\(PYTEST\).* tests -m ('[^']+'|\w+)", makefile, re.M)
    }
    assert {inner: set(asked[inner]) <= set(asked[outer]) for inner, outer in WITHIN.items()} == {"rest": True}
    assert asked["rest"] == ["faults"], "what tests/support/reliability.py reports as `rest`"
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    assert set(SUITES.values()) <= targets
