"""200 random lives of a folder, against a model of what should be served: documents come, change, move and go, runs
are killed, models are swapped, files break and are mended; after every step the oracle.

A life is told by its seed: PINCITE_SOAK_SEED=17 PINCITE_SOAK_LIVES=1 lives the seventeenth again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.embedding_server import EmbeddingServer
from tests.faults.held_run import POINTS, HeldRun
from tests.faults.running import Clean, assert_verified, row_versions
from tests.projects import Project, project_copy

LIVES = int(os.environ.get("PINCITE_SOAK_LIVES", "200"))
FIRST_SEED = int(os.environ.get("PINCITE_SOAK_SEED", "1"))
STEPS = 2
WORDS = ("harbour", "ledger", "lantern", "orchard", "pulley", "quarry", "rafter", "saddle", "thicket", "urn", "valve",
         "willow", "yarn", "zinc")  # fmt: skip

pytestmark = pytest.mark.faults


@dataclass
class File:
    """What a file says when it can be read, and what is served of it: the last text that a run has read, if any."""

    text: str
    served: str | None = None
    broken: bool = False


@dataclass
class Folder:
    """The model: files by uri."""

    project: Project
    chance: random.Random
    files: dict[str, File]
    number: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        """What a run of it ends with."""
        return 3 if any(file.broken for file in self.files.values()) else 0

    def text(self) -> str:
        words = [self.chance.choice(WORDS) for _ in range(self.chance.randrange(6, 60))]
        self.number += 1
        return " ".join(
            f"{word.capitalize()} {number} of life {self.number} is kept." for number, word in enumerate(words)
        )

    def pick(self) -> str:
        return self.chance.choice(sorted(self.files))

    def add(self) -> None:
        uri = f"{self.chance.choice(('', 'a/', 'b/c/'))}new-{self.number}.txt"
        self.files[uri] = File(self.text())
        self.project.write(uri, self.files[uri].text)

    def twin(self) -> None:
        """The same bytes again, under another name."""
        uri, like = f"twin-{self.number}.txt", self.files[self.pick()]
        self.number += 1
        if like.broken:
            return
        self.files[uri] = File(like.text)
        self.project.write(uri, like.text)

    def change(self) -> None:
        uri, text = self.pick(), self.text()
        self.files[uri] = File(text, self.files[uri].served)
        self.project.write(uri, text)

    def rename(self) -> None:
        uri, to = self.pick(), f"moved/{self.number}.txt"
        self.number += 1
        file = self.files.pop(uri)
        self.files[to] = File(file.text, broken=file.broken)
        (self.project.docs / to).parent.mkdir(exist_ok=True)
        (self.project.docs / uri).rename(self.project.docs / to)

    def delete(self) -> None:
        if len(self.files) > 2:
            uri = self.pick()
            del self.files[uri]
            (self.project.docs / uri).unlink()

    def corrupt(self) -> None:
        uri = self.pick()
        self.files[uri].broken = True
        self.project.write(uri, self.chance.randbytes(2000))

    def mend(self) -> None:
        for uri, file in self.files.items():
            if file.broken:
                file.broken = False
                self.project.write(uri, file.text)

    def swap(self) -> None:
        model = self.chance.choice(("fake", "other"))
        self.project.configure(embedder={**self.project.settings["embedder"], "model": model})

    def step(self) -> None:
        """One to three things happen before the next run."""
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            act: Callable[[], None] = self.chance.choice(
                (self.add, self.add, self.twin, self.change, self.change, self.rename, self.delete, self.corrupt,
                 self.mend, self.swap)
            )  # fmt: skip
            act()
            self.told.append(act.__name__)


def crash(folder: Folder, output: Path) -> bool:
    """Whether a run was killed at a point: it may not come to it."""
    point, number = folder.chance.choice(sorted(POINTS)), folder.chance.choice((1, 1, 2))
    run = HeldRun(output, ["index", "--config", str(folder.project.config)], point, number, 0)
    try:
        if run.reached():
            run.kill()
            folder.told.append(f"killed: {point}")
            return True
        assert run.ended() == folder.code, run.out + run.err
        folder.told.append(f"(ran past {point})")
        return False
    finally:
        run.close()


def served(project: Project) -> dict[str, tuple[str, bool]]:
    """uri to the own text of its chunks and whether it is marked stale, in the live generation."""
    ((live,),) = project.rows("SELECT generation FROM pincite.live")
    rows = project.rows(
        f"SELECT uri, string_agg(text, ' ' ORDER BY ordinal), bool_or(stale) "
        f"FROM g{live:04d}.chunks JOIN g{live:04d}.documents USING (doc_id) GROUP BY uri"
    )
    return {uri: (" ".join(text.split()), stale) for uri, text, stale in rows}


def oracle(folder: Folder) -> None:
    broken = {uri for uri, file in folder.files.items() if file.broken}
    for uri in folder.files.keys() - broken:
        folder.files[uri].served = folder.files[uri].text
    result = folder.project.index(code=folder.code)
    assert (result["published"], result["embedder"]) == (True, folder.project.settings["embedder"]["model"])
    assert {item["uri"] for item in result["documents"]["failed"]} == broken
    assert all(item["stage"] and item["code"] and item["message"] for item in result["documents"]["failed"])
    wanted = {uri: (file.served, file.broken) for uri, file in folder.files.items() if file.served is not None}
    assert served(folder.project) == wanted
    assert_verified(folder.project)


@pytest.fixture(scope="module")
def start(full: tuple[Project, Clean], server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project_copy(full[0], server_url, tmp_path_factory.mktemp("soak") / "project") as project:
        for path in sorted(project.docs.rglob("*")):
            if path.is_file():
                path.unlink()
        for number in range(6):
            project.write(f"{number}.txt", f"Lamp {number} is lit at dusk. The keeper of lamp {number} has the key.")
        project.index("--allow-deletions")
        yield project


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + LIVES))
def test_what_is_served_is_what_the_folder_holds_whatever_happens(
    seed: int,
    start: Project,
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
    record_property: Callable[[str, Any], None],
) -> None:
    record_property("life", seed)
    record_property("steps", STEPS)
    kills = 0
    with project_copy(start, server_url, tmp_path / "project") as project:
        texts = {str(path.relative_to(project.docs)): path.read_text() for path in sorted(project.docs.rglob("*.txt"))}
        folder = Folder(project, random.Random(seed), {uri: File(text, text) for uri, text in texts.items()})
        try:
            for number in range(STEPS):
                folder.step()
                if folder.chance.random() < 0.25:
                    kills += crash(folder, tmp_path / f"run{number}")
                oracle(folder)
            stood, calls = row_versions(project), len(endpoint.texts)
            folder.project.index(code=folder.code)
            assert len(endpoint.texts) == calls
            changed = {table for table, rows in row_versions(project).items() if rows != stood[table]}
            assert changed <= {"pincite.failures"}
            record_property("kills", kills)
        except BaseException:
            print(f"seed {seed}: {', '.join(folder.told)}")
            raise
