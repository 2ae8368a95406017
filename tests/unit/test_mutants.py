"""Entries of behaviours.toml fit the code, and `make mutants` tells their outcomes apart."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import run
from tests.mutants.run import BROKEN, HUNG, NOTICED, UNNOTICED, Copy, Mutation, Result, matching, mutations_of, nearest
from tests.support.places import ROOT

MUTATIONS = mutations_of()
SOURCES = {
    "Chunking and reranking notes", "Proposal chunking", "UNLP 2026 paper", "Sentence skeleton", "Project brief",
}  # fmt: skip

# ---------------------------------------------------------------- the page


def test_every_behaviour_has_its_own_name_and_a_source_that_there_is() -> None:
    assert {name for each in MUTATIONS for name in each.source.split(", ")} == SOURCES
    assert len({each.id for each in MUTATIONS}) == len({(each.id, each.behaviour) for each in MUTATIONS})
    assert [words for words, times in Counter(each.words for each in MUTATIONS).items() if times > 1] == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"{each.id}: {each.says}")
def test_a_mutation_changes_one_place_of_a_file_that_can_still_be_read(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    changed = mutation.applied(text)
    assert changed != text
    if mutation.file.endswith(".py"):
        ast.parse(changed)
    else:
        assert changed.strip()


def test_nearest_tests_are_there() -> None:
    for test in {test for each in MUTATIONS for test in each.tests}:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"\ndef {name.partition('[')[0]}(" in text if name else "\ndef test_" in text, test


def test_mutations_are_chosen_by_words() -> None:
    (found,) = matching(MUTATIONS, "rrf 10 routes.py")
    assert found.behaviour == "Reciprocal rank fusion adds 60 to the rank"
    assert matching(MUTATIONS, "") == MUTATIONS


# ---------------------------------------------------------------- the runner

TREE = {
    "lamp.py": 'LIT = "on"\n\n\ndef shines():\n    return LIT == "on"\n',
    "test_lamp.py": "import lamp\n\n\ndef test_it_shines():\n    assert lamp.shines()\n",
    "test_child.py": (
        "import subprocess, sys\n\n\ndef test_a_process_reads_the_copy():\n"
        "    code = 'import lamp; raise SystemExit(lamp.LIT != \"on\")'\n"
        "    assert subprocess.run([sys.executable, '-c', code]).returncode == 0\n"
    ),
    "test_dark.py": "import lamp\n\n\ndef test_it_is_there():\n    assert lamp\n",
}


def mutation(says: str, old: str, new: str, *tests: str) -> Mutation:
    return Mutation("lamp", "A lamp shines", "A source", says, "lamp.py", old, new, tests or ("test_lamp.py",))


def tree(place: Path) -> Path:
    place.mkdir()
    for name, text in TREE.items():
        (place / name).write_text(text)
    return place


def test_noticed_unnoticed_and_broken_mutations_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path / "root")
    wanted = {
        mutation("off", '"on"\n\n', '"no"\n\n'): NOTICED,
        mutation("off in a process", '"on"\n\n', '"no"\n\n', "test_child.py"): NOTICED,
        mutation("dark", '"on"\n\n', '"no"\n\n', "test_dark.py"): UNNOTICED,
        mutation("no Python", "def shines():", "def shines(:"): BROKEN,
        mutation("a name that is not there", "LIT = ", "LIT = UNKNOWN or "): BROKEN,
        mutation("no such test", '"on"\n\n', '"no"\n\n', "test_lamp.py::test_nothing"): BROKEN,
    }
    sound = [each for each in wanted if each.says != "no such test"]
    assert run.run(sound, root, list(TREE), tmp_path / "copies", 2) == 1
    told = capsys.readouterr().out
    for each in sound:
        assert f"A lamp shines  A source  {each.says.ljust(24)}  {wanted[each]}\n" in told
    assert f"{len(sound) - 3} of {len(sound)} mutations are noticed" in told
    copy = Copy(tmp_path / "copy", root, TREE)
    assert {each: copy.run_with(each).outcome for each in wanted if each not in sound} == {
        each: BROKEN for each in wanted if each not in sound
    }
    assert copy.run_tests(["test_lamp.py"]).outcome == UNNOTICED, "the mutation is taken out again"
    assert (root / "lamp.py").read_text() == TREE["lamp.py"]


def test_all_noticed_is_success_and_a_test_that_fails_by_itself_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path / "root")
    off = mutation("off", '"on"\n\n', '"no"\n\n')
    assert run.run([off], root, list(TREE), tmp_path / "sound", 1) == 0
    (root / "lamp.py").write_text(TREE["lamp.py"].replace("== ", "!= "))
    assert run.run([off], root, list(TREE), tmp_path / "wrong", 1) == 1
    assert "fail without any mutation" in capsys.readouterr().out


def test_tests_that_hang_are_ended(tmp_path: Path) -> None:
    root = tree(tmp_path / "root")
    (root / "test_lamp.py").write_text("import threading\n\n\ndef test_waits():\n    threading.Event().wait()\n")
    found = Copy(tmp_path / "copy", root, TREE, seconds=0).run_with(mutation("off", '"on"\n\n', '"no"\n\n'))
    assert found.outcome == HUNG


def test_a_hang_is_no_proof_that_a_test_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copy, "run_with", lambda self, mutation: Result(HUNG, 0.0))
    root, off = tree(tmp_path / "root"), mutation("off", '"on"\n\n', '"no"\n\n')
    assert run.run([off], root, list(TREE), tmp_path / "copies", 1) == 1


def test_a_mutation_without_one_place_is_refused() -> None:
    for old in ("o", "nowhere"):
        with pytest.raises(ValueError, match=r"lamp\.py has `old` \d times instead of once"):
            mutation("off", old, "x").applied(TREE["lamp.py"])


def test_a_test_is_run_once_though_its_file_is_named_too() -> None:
    named = [mutation("a", "", "", "a.py::one", "b.py::one"), mutation("b", "", "", "a.py", "b.py::one")]
    assert nearest(named) == ["b.py::one", "a.py"]
