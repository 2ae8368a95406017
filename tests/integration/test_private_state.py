"""What any command leaves in a state is its owner's alone, whatever the user's umask; what it makes elsewhere is as the
user wants it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from pincite.index import open_index
from resources.private_files import private, shut
from tests.support.direct_runs import direct_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import DOCUMENTS, Project, make_project, new_database

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("workers")]

FEW = {name: DOCUMENTS[name] for name in ("handbook.md", "boilers.txt")}
MATRIX = {
    "axes": {"strategy": {"lexical": {"query.strategy": "lexical"}}},
    "tables": {"All": {"rows": [{"strategy": "*"}]}},
}
QUESTION = {
    "id": "leave", "question": "How many days of annual leave do staff receive?",
    "gold": [{"uri": "handbook.md", "quote": "twenty-eight days of annual leave"}],
}  # fmt: skip


@pytest.fixture
def opening() -> Iterator[None]:
    """The umask of a user who lets everybody read, and more."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def project(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with new_database(server_url) as url, new_database(server_url) as experiments:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        made = make_project(tmp_path_factory.mktemp("private") / "project", FEW, database=url, embedder=embedder)
        with direct_runs():
            made.index()
            made.configure(chunking={"overlap_tokens": 0})
            made.index()
        (made.folder / "questions.jsonl").write_text(json.dumps(QUESTION), encoding="utf-8")
        (made.folder / "matrix.yaml").write_text(json.dumps({**MATRIX, "database": experiments}), encoding="utf-8")
        yield made


def open_to_others(folder: Path) -> list[Path]:
    there = [folder, *folder.rglob("*")] if folder.exists() else []
    return [path for path in there if path.lstat().st_mode & 0o077 and not path.is_symlink()]


@pytest.mark.defends("3c")
@pytest.mark.usefixtures("opening")
@pytest.mark.parametrize(
    "command",
    [
        *("query leave", "verify", "plan", "eval QUESTIONS", "links --sweep"),
        *("eval QUESTIONS --matrix MATRIX --experiments ELSEWHERE", "eval --suggest 1", "generations rollback"),
        *("generations publish 2", "generations prune --keep 1", "sources remove docs", "index"),
    ],
)
def test_no_command_leaves_anything_open(project: Project, command: str, tmp_path: Path) -> None:
    """Nor does Dagster, which keeps its records of `index` in the state."""
    named = {"QUESTIONS": "questions.jsonl", "MATRIX": "matrix.yaml"}
    words = [str(project.folder / named[word]) if word in named else word for word in command.split()]
    words = [str(tmp_path / "experiments") if word == "ELSEWHERE" else word for word in words]
    with nullcontext() if command == "index" else direct_runs():
        ran = project.run(" ".join(words))
    assert ran.code == 0, ran.out + ran.err
    assert [*open_to_others(project.state), *open_to_others(tmp_path / "experiments")] == []


@pytest.mark.usefixtures("opening")
def test_files_the_user_writes_elsewhere_keep_the_umask_of_the_user(project: Project, tmp_path: Path) -> None:
    with direct_runs():
        project.index()
    assert project.run("links --sweep", "--plot", tmp_path / "a.svg").code == 0
    assert project.run("eval --suggest 1", "--output", tmp_path / "b.jsonl").code == 0
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666}
    assert os.umask(0) == 0


@pytest.mark.defends("3c")
@pytest.mark.usefixtures("opening")
def test_an_index_opened_in_python_leaves_nothing_open(project: Project) -> None:
    with open_index(project.config) as index:
        index.evaluate(project.folder / "questions.jsonl")
        index.prune(keep=1)
        index.remove_source("docs")
    assert open_to_others(project.state) == []


@pytest.mark.defends("3c")
def test_open_files_inside_a_closed_folder_count_as_closed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    deep = state / "parquet" / "chunks" / "one.parquet"
    deep.parent.mkdir(parents=True)
    deep.write_bytes(b"")
    (state / "postgres").mkdir()
    for path in (state, *state.rglob("*")):
        path.chmod(0o700 if path in (state, state / "parquet") else 0o755)
    with private(state):
        assert open_to_others(state) == [state / "postgres"]
    (state / "parquet").chmod(0o755)
    deep.chmod(0o644)
    assert shut(state) and open_to_others(state) == [state / "postgres"]
    assert not shut(state)
